// The bytes of a memory: sparse, and without time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/error.h"

namespace heddle {

// Pages are allocated by the first write of anything but zeros that reaches them; what was never written reads as zeros
// and costs nothing. Address space is taken in pieces of kLeafBytes, in which pages lie side by side: the computer
// gives its memory where bytes are touched, whatever has been reserved around them.
class Storage {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;  // as the computer gives memory
  static constexpr std::uint64_t kLeafBytes = std::uint64_t{64} << 20;
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
      std::uint8_t* page = find(address / kPageBytes);
      if (page == nullptr) {
        if (all_zero(from, length)) return;
        page = allocate(address / kPageBytes);
      }
      std::memcpy(page + offset, from, length);
      return;
    }
    write_across(address, static_cast<const std::uint8_t*>(from), length);
  }
  // Bytes from there on up to the end of the page, for looking at until the next call that changes something.
  const std::uint8_t* look(std::uint64_t address) const {
    const std::uint8_t* page = find(address / kPageBytes);
    return (page == nullptr ? kZeros.data() : page) + address % kPageBytes;
  }
  // None of these bytes has a page: all are 0.
  bool untouched(std::uint64_t address, std::uint64_t length) const {
    for (std::uint64_t page = address / kPageBytes; page <= (address + length - 1) / kPageBytes; ++page) {
      if (find(page) != nullptr) return false;
    }
    return true;
  }
  // All of these bytes, side by side: they stay where they are until clear(). The range lies in memory and crosses no
  // multiple of kLeafBytes. Pages of it that nobody has written count as held from now on.
  std::uint8_t* range_of(std::uint64_t address, std::uint64_t length);
  // Every byte of the range becomes `value`. Zeros allocate nothing.
  void fill(std::uint64_t address, std::uint8_t value, std::uint64_t length);
  // Everything becomes zero and all pages are freed.
  void clear();

  // Bytes of the pages that are held. The computer has given memory for those of them that were touched.
  std::uint64_t resident() const { return pages_ * kPageBytes; }

 private:
  static constexpr std::uint64_t kLeafPages = kLeafBytes / kPageBytes;
  static constexpr std::array<std::uint8_t, kPageBytes> kZeros{};
  // Pages side by side, all zero at first.
  class Leaf {
   public:
    Leaf();
    ~Leaf();
    Leaf(const Leaf&) = delete;
    Leaf& operator=(const Leaf&) = delete;

    // Null for a page that was never written.
    std::uint8_t* find(std::uint64_t page) const {
      return (held_[page / 64] >> page % 64 & 1) != 0 ? bytes_ + page * kPageBytes : nullptr;
    }
    std::uint8_t* hold(std::uint64_t page) {
      held_[page / 64] |= std::uint64_t{1} << page % 64;
      return bytes_ + page * kPageBytes;
    }
    // All of it becomes zero, and the computer has its memory back.
    void discard();

   private:
    std::uint8_t* bytes_ = nullptr;
    std::array<std::uint64_t, kLeafPages / 64> held_{};
  };

  // Null for a page that was never written.
  std::uint8_t* find(std::uint64_t page) const {
    const std::uint64_t leaf = page / kLeafPages;
    if (leaf >= leaves_.size() || leaves_[leaf] == nullptr) return nullptr;
    return leaves_[leaf]->find(page % kLeafPages);
  }
  std::uint8_t* get(std::uint64_t page) {
    std::uint8_t* bytes = find(page);
    return bytes != nullptr ? bytes : allocate(page);
  }
  std::uint8_t* allocate(std::uint64_t page);
  static bool all_zero(const void* from, std::uint64_t length) {
    const auto* bytes = static_cast<const std::uint8_t*>(from);
    return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, length - 1) == 0;
  }
  void read_across(std::uint64_t address, std::uint8_t* to, std::uint64_t length) const;
  void write_across(std::uint64_t address, const std::uint8_t* from, std::uint64_t length);

  std::uint64_t bytes_;
  std::uint64_t pages_ = 0;
  std::vector<std::unique_ptr<Leaf>> leaves_;  // grows to the highest address that was written
};

// Memory for big arrays, in huge pages where the system offers them: a machine touches far more of it in a cycle than
// the translation buffers of ordinary pages cover.

// Aligned to 64 bytes, and zero. Pages that are never touched cost nothing. From any thread. Throws std::bad_alloc.
void* take_big(std::size_t bytes);
// `bytes`: as it was taken.
void give_back_big(void* memory, std::size_t bytes) noexcept;

template <class T>
class BigAllocator {
 public:
  using value_type = T;

  BigAllocator() = default;
  template <class Other>
  BigAllocator(const BigAllocator<Other>&) {}  // NOLINT(google-explicit-constructor): what an allocator needs

  T* allocate(std::size_t count) { return static_cast<T*>(take_big(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { give_back_big(memory, count * sizeof(T)); }

  template <class Other>
  bool operator==(const BigAllocator<Other>&) const {
    return true;
  }
  template <class Other>
  bool operator!=(const BigAllocator<Other>&) const {
    return false;
  }
};

template <class T>
using BigVector = std::vector<T, BigAllocator<T>>;

// An array of plain data, all zero.
template <class T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t count) : data_(static_cast<T*>(take_big(count * sizeof(T)))), count_(count) {}
  ~ZeroedArray() { drop(); }
  ZeroedArray(ZeroedArray&& other) noexcept : data_(other.data_), count_(other.count_) { other.data_ = nullptr; }
  ZeroedArray& operator=(ZeroedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  T* get() { return data_; }
  const T* get() const { return data_; }

 private:
  void drop() {
    if (data_ != nullptr) give_back_big(data_, count_ * sizeof(T));
  }

  T* data_ = nullptr;
  std::size_t count_ = 0;
};

// Warming the caches of the computer that simulates. It has no part in the model: it changes nothing but speed.
//
// A simulated machine is far larger than those caches, and the events of a cycle are scattered over it. So the event
// queue looks ahead: it tells the handlers of the next events that these come, and they fetch what they will touch.
// Handlers of few and small events leave it alone: asking them costs more than it brings. Measured in CPU time: 10 % of
// a line's in `at` come from the memory path's warmers (memory/memory_warming.h).
class CacheWarmer {
 public:
  // An event is asked about three times, ever closer to it, so that each time can follow what the one before has
  // fetched.
  enum class Ahead : std::uint8_t { far, near, next };
  virtual void warm(std::uint32_t kind, std::uint64_t argument, Ahead ahead) const = 0;

  CacheWarmer() = default;
  CacheWarmer(const CacheWarmer&) = delete;
  CacheWarmer& operator=(const CacheWarmer&) = delete;

 protected:
  ~CacheWarmer() = default;
};

// The line of the caches that holds this. Nothing is read: the pointer may be stale.
inline void warm_line(const void* place) {
  __builtin_prefetch(place);
  asm volatile("");  // else a function that does nothing but this is taken for one without effect, and not called
}

}  // namespace heddle
