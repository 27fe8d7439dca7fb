#include "cuda/cudart/device_heap.h"

#include <algorithm>
#include <sys/mman.h>

namespace heddle::cuda {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kAlignment = 512;

std::uint64_t up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

// Programs that are not position-independent lie in the first megabytes.
DeviceHeap::DeviceHeap(std::uint64_t limit) : base_(up(limit / 16, kPage)), limit_(limit / kPage * kPage) {
  void* got = mmap(pointer_to(base_), limit_ - base_, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  reserved_ = got == pointer_to(base_);
  if (!reserved_ && got != MAP_FAILED) munmap(got, limit_ - base_);
}

DeviceHeap::~DeviceHeap() {
  if (reserved_) munmap(pointer_to(base_), limit_ - base_);
}

std::uint64_t DeviceHeap::room_for(std::uint64_t bytes, MemoryKind kind) {
  return up(std::max<std::uint64_t>(bytes, 1), kind == MemoryKind::device ? kAlignment : kPage);
}

std::optional<std::uint64_t> DeviceHeap::allocate(std::uint64_t bytes, MemoryKind kind) {
  if (bytes > limit_ - base_ || (kind != MemoryKind::device && !reserved_)) return std::nullopt;
  const std::uint64_t room = room_for(bytes, kind);
  const std::uint64_t alignment = kind == MemoryKind::device ? kAlignment : kPage;
  std::uint64_t at = base_;
  for (const auto& [address, taken] : blocks_) {
    if (at + room <= address) break;
    at = up(address + taken.room, alignment);
  }
  if (at > limit_ || room > limit_ - at) return std::nullopt;
  if (kind != MemoryKind::device && mprotect(pointer_to(at), room, PROT_READ | PROT_WRITE) != 0) return std::nullopt;
  blocks_[at] = {{at, bytes, kind}, room};
  used_ += room;
  return at;
}

bool DeviceHeap::free(std::uint64_t address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return false;
  const Taken& taken = found->second;
  if (taken.block.kind != MemoryKind::device) {
    madvise(pointer_to(address), taken.room, MADV_DONTNEED);
    mprotect(pointer_to(address), taken.room, PROT_NONE);
  }
  used_ -= taken.room;
  blocks_.erase(found);
  return true;
}

const DeviceHeap::Block* DeviceHeap::find(std::uint64_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  const Block& block = std::prev(next)->second.block;
  return address - block.address < std::max<std::uint64_t>(block.bytes, 1) ? &block : nullptr;
}

const DeviceHeap::Block* DeviceHeap::at(std::uint64_t address) const {
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? nullptr : &found->second.block;
}

}  // namespace heddle::cuda
