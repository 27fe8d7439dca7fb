// Device memory as the machine sees it now, newest bytes first from the L2: for debuggers, loaders and error injection,
// and as pointers for the host (DMI). Nothing of it takes time or changes anything else.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tlm>

#include "common/storage.h"

namespace heddle {
class MemoryOut;
}
namespace heddle::arch {
class RaceChecker;
}

namespace heddle::gpu {

class MemorySystem;

class MemoryBackdoor {
 public:
  // `memory` must outlive it, and so must `races`: null: nobody wants to know whose the bytes are.
  explicit MemoryBackdoor(MemorySystem& memory, arch::RaceChecker* races = nullptr) : memory_(memory), races_(races) {}

  // A link with physical addresses, whose debug accesses reach the L2 from the start of simulation on.
  void attach(MemoryOut& link) { link_ = &link; }

  // False if part of the range is outside memory, or if the memory is attached and simulation has not begun.
  bool read(std::uint64_t address, void* to, std::uint64_t bytes);
  bool write(std::uint64_t address, const void* from, std::uint64_t bytes);

  // The sectors that those bytes touch are corrupt from now on, as by an uncorrectable error in the L2: whoever reads
  // one is told so, until the whole of it has been written. False: outside memory.
  bool poison(std::uint64_t address, std::uint64_t bytes);
  // Some of these bytes, which lie in memory, are corrupt.
  bool poisoned(std::uint64_t address, std::uint64_t bytes) const;

  // A pointer to bytes [first, last] around `address`, a piece of memory/direct_memory.h, good until `invalidate` is
  // called with a range that touches it. False: not now (the machine works on them), or not at all (attached memory).
  bool direct(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first, std::uint64_t& last);
  bool grants_direct() const;  // false: direct() never succeeds

  // Of the GPU's own memory, as a whole.
  static constexpr std::uint64_t kPageBytes = 16384;
  // First bytes of the pages that hold anything but zeros, in order.
  std::vector<std::uint64_t> pages();
  // Everything is zero. Caches have to be empty.
  void clear();
  bool any_poisoned() const;
  void on_invalidate(std::function<void(std::uint64_t first, std::uint64_t last)> invalidate);

 private:
  // No slice has anything of these bytes any more. False: the machine works on them.
  bool let_go(std::uint64_t first, std::uint64_t last);
  bool move(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint64_t bytes);

  MemorySystem& memory_;
  arch::RaceChecker* races_;
  MemoryOut* link_ = nullptr;
};

}  // namespace heddle::gpu
