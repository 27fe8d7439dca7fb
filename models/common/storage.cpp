#include "common/storage.h"

#include <algorithm>

namespace heddle {

Storage::Storage(std::uint64_t bytes) : bytes_(bytes) {
  HEDDLE_CHECK(bytes > 0 && bytes <= kMaxBytes, "a memory holds 1 byte to 64 TiB");
}

std::uint8_t* Storage::allocate(std::uint64_t page) {
  const std::uint64_t leaf = page / kLeafPages;
  if (leaf >= leaves_.size()) leaves_.resize(leaf + 1);
  if (leaves_[leaf] == nullptr) leaves_[leaf] = std::make_unique<Leaf>();
  auto& slot = leaves_[leaf]->pages[page % kLeafPages];
  slot = std::make_unique<std::uint8_t[]>(kPageBytes);  // zeros
  ++pages_;
  return slot.get();
}

void Storage::read_across(std::uint64_t address, std::uint8_t* to, std::uint64_t length) const {
  HEDDLE_CHECK(contains(address, length), "bytes outside memory were read");
  while (length > 0) {
    const std::uint64_t part = std::min(length, kPageBytes - address % kPageBytes);
    read(address, to, part);
    address += part;
    to += part;
    length -= part;
  }
}

void Storage::write_across(std::uint64_t address, const std::uint8_t* from, std::uint64_t length) {
  HEDDLE_CHECK(contains(address, length), "bytes outside memory were written");
  while (length > 0) {
    const std::uint64_t part = std::min(length, kPageBytes - address % kPageBytes);
    write(address, from, part);
    address += part;
    from += part;
    length -= part;
  }
}

void Storage::fill(std::uint64_t address, std::uint8_t value, std::uint64_t length) {
  HEDDLE_CHECK(contains(address, length), "bytes outside memory were filled");
  while (length > 0) {
    const std::uint64_t part = std::min(length, kPageBytes - address % kPageBytes);
    const std::uint64_t page = address / kPageBytes;
    if (value != 0 || find(page) != nullptr) std::memset(get(page) + address % kPageBytes, value, part);
    address += part;
    length -= part;
  }
}

void Storage::clear() {
  leaves_.clear();
  pages_ = 0;
}

}  // namespace heddle
