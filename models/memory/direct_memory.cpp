#include "memory/direct_memory.h"

#include <algorithm>
#include <vector>

namespace heddle::memory {

DirectMemory::Range DirectMemory::page_of(std::uint64_t address) const {
  const std::uint64_t first = address / Storage::kPageBytes * Storage::kPageBytes;
  return {first, std::min(first + Storage::kPageBytes, storage_.bytes()) - 1};
}

std::uint8_t* DirectMemory::grant(std::uint64_t address) {
  std::uint8_t* bytes = storage_.page_of(address);
  granted_.insert(address / Storage::kPageBytes);
  any_ = true;
  return bytes;
}

void DirectMemory::end(std::uint64_t address, std::uint64_t bytes) {
  if (address >= storage_.bytes() || bytes == 0) return;
  const std::uint64_t last = address + std::min(bytes, storage_.bytes() - address) - 1;
  for (std::uint64_t page = address / Storage::kPageBytes; page <= last / Storage::kPageBytes; ++page) {
    if (granted_.erase(page) == 0) continue;
    any_ = !granted_.empty();
    const Range range = page_of(page * Storage::kPageBytes);
    if (on_end_) on_end_(range.first, range.last);
  }
}

void DirectMemory::end_all() {
  std::vector<std::uint64_t> pages(granted_.begin(), granted_.end());
  std::sort(pages.begin(), pages.end());  // the same order in every run
  for (const std::uint64_t page : pages) end(page * Storage::kPageBytes, 1);
}

}  // namespace heddle::memory
