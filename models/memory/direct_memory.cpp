#include "memory/direct_memory.h"

#include <algorithm>
#include <iterator>

namespace heddle::memory {

std::optional<DirectMemory::Range> DirectMemory::granted(std::uint64_t address) const {
  auto found = granted_.upper_bound(address);
  if (found == granted_.begin() || (--found)->second < address) return std::nullopt;
  return Range{found->first, found->second};
}

std::uint64_t DirectMemory::piece_bytes(std::uint64_t address) const {
  const auto found = next_.find(block_of(address));
  return found == next_.end() ? kMostBytes : found->second;
}

DirectMemory::Range DirectMemory::piece_of(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t first = address / bytes * bytes;
  return {first, std::min(first + bytes, storage_.bytes()) - 1};
}

std::uint8_t* DirectMemory::grant(const Range& piece) {
  std::uint8_t* bytes = storage_.range_of(piece.first, piece.last - piece.first + 1);
  const auto known = granted_.find(piece.first);
  if (known != granted_.end() && known->second == piece.last) return bytes;
  granted_.erase(granted_.lower_bound(piece.first), granted_.upper_bound(piece.last));
  granted_[piece.first] = piece.last;
  any_ = true;
  const auto found = next_.find(block_of(piece.first));
  if (found != next_.end() && piece.last == piece_of(piece.first, found->second).last) {
    found->second *= 2;
    if (found->second >= kMostBytes) next_.erase(found);
  }
  return bytes;
}

void DirectMemory::refuse(std::uint64_t address) {
  next_[block_of(address)] = std::max(kLeastBytes, piece_bytes(address) / 2);
}

// The listener may end others, or ask for pieces.
void DirectMemory::end(std::uint64_t address, std::uint64_t bytes) {
  if (address >= storage_.bytes() || bytes == 0) return;
  const std::uint64_t last = address + std::min(bytes, storage_.bytes() - address) - 1;
  for (std::uint64_t from = address; from <= last;) {
    auto found = granted_.upper_bound(from);
    if (found != granted_.begin() && std::prev(found)->second >= from) --found;
    if (found == granted_.end() || found->first > last) return;
    const Range range{found->first, found->second};
    granted_.erase(found);
    any_ = !granted_.empty();
    next_[block_of(range.first)] = kLeastBytes;
    from = range.last + 1;
    if (on_end_) on_end_(range.first, range.last);
  }
}

// What follows finds a machine that has forgotten who worked where.
void DirectMemory::end_all() {
  end(0, storage_.bytes());
  next_.clear();
}

}  // namespace heddle::memory
