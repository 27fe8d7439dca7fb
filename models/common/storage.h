// The bytes of a memory: sparse, and without time.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "common/error.h"

namespace heddle {

// Pages are allocated by the first write that reaches them; what was never written reads as zeros and costs nothing.
class Storage {
 public:
  static constexpr std::uint64_t kPageBytes = 16384;
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 46;  // 64 TiB

  // 0 < bytes <= kMaxBytes
  explicit Storage(std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_; }
  bool contains(std::uint64_t address, std::uint64_t length) const {
    return length <= bytes_ && address <= bytes_ - length;
  }

  // The range has to lie in memory.
  void read(std::uint64_t address, void* to, std::uint64_t length) const {
    const std::uint64_t offset = address % kPageBytes;
    if (length <= kPageBytes - offset && contains(address, length)) {
      const std::uint8_t* page = find(address / kPageBytes);
      if (page != nullptr) {
        std::memcpy(to, page + offset, length);
      } else {
        std::memset(to, 0, length);
      }
      return;
    }
    read_across(address, static_cast<std::uint8_t*>(to), length);
  }
  void write(std::uint64_t address, const void* from, std::uint64_t length) {
    const std::uint64_t offset = address % kPageBytes;
    if (length != 0 && length <= kPageBytes - offset && contains(address, length)) {
      std::memcpy(get(address / kPageBytes) + offset, from, length);
      return;
    }
    write_across(address, static_cast<const std::uint8_t*>(from), length);
  }
  // The page that holds an address of memory: kPageBytes bytes that stay where they are until clear().
  std::uint8_t* page_of(std::uint64_t address) {
    HEDDLE_CHECK(contains(address, 1), "a page outside memory was asked for");
    return get(address / kPageBytes);
  }
  // Every byte of the range becomes `value`. Zeros allocate nothing.
  void fill(std::uint64_t address, std::uint8_t value, std::uint64_t length);
  // Everything becomes zero and all pages are freed.
  void clear();

  // Bytes that are held in pages.
  std::uint64_t resident() const { return pages_ * kPageBytes; }

 private:
  static constexpr std::uint64_t kLeafPages = 4096;
  struct Leaf {
    std::vector<std::unique_ptr<std::uint8_t[]>> pages{kLeafPages};
  };

  // Null for a page that was never written.
  std::uint8_t* find(std::uint64_t page) const {
    const std::uint64_t leaf = page / kLeafPages;
    if (leaf >= leaves_.size() || leaves_[leaf] == nullptr) return nullptr;
    return leaves_[leaf]->pages[page % kLeafPages].get();
  }
  std::uint8_t* get(std::uint64_t page) {
    std::uint8_t* bytes = find(page);
    return bytes != nullptr ? bytes : allocate(page);
  }
  std::uint8_t* allocate(std::uint64_t page);
  void read_across(std::uint64_t address, std::uint8_t* to, std::uint64_t length) const;
  void write_across(std::uint64_t address, const std::uint8_t* from, std::uint64_t length);

  std::uint64_t bytes_;
  std::uint64_t pages_ = 0;
  std::vector<std::unique_ptr<Leaf>> leaves_;  // grows to the highest address that was written
};

}  // namespace heddle
