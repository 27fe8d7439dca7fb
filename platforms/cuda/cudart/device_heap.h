// Who has which part of device memory, and which parts the process has at the same addresses (managed and pinned
// memory).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace heddle::cuda {

// An address of the process as a pointer, and back.
inline void* pointer_to(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): addresses come as numbers from the bus
}
inline std::uint64_t number_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

enum class MemoryKind : std::uint8_t {
  device,   // the host cannot reach it
  managed,  // at one address for both
  pinned,   // of the host; the device has room for it at the same address
};

class DeviceHeap {
 public:
  // Device memory below `limit`. The process reserves the addresses, so that none of them means anything else to it.
  explicit DeviceHeap(std::uint64_t limit);
  ~DeviceHeap();
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;

  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;  // as asked for
    MemoryKind kind = MemoryKind::device;
  };
  // Aligned to 512 bytes, of kinds that the host reaches to pages. None: there is no room, or the process does not get
  // the addresses. What lies there is zeros for the process, and what was there before for the device.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes, MemoryKind kind);
  // False: no block begins there.
  bool free(std::uint64_t address);
  // The block that has the byte; null: there is none.
  const Block* find(std::uint64_t address) const;
  // Of a block that begins there.
  const Block* at(std::uint64_t address) const;
  std::uint64_t free_bytes() const { return limit_ - base_ - used_; }

 private:
  struct Taken {
    Block block;
    std::uint64_t room = 0;  // bytes that it takes
  };
  static std::uint64_t room_for(std::uint64_t bytes, MemoryKind kind);

  std::uint64_t base_;
  std::uint64_t limit_;
  bool reserved_ = false;
  std::uint64_t used_ = 0;
  std::map<std::uint64_t, Taken> blocks_;  // by address
};

}  // namespace heddle::cuda
