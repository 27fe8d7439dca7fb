// The shared memory of one SM: a window of bytes per CTA, and what accesses cost in its banks.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/warp_program.h"

namespace heddle::sm {

constexpr std::uint32_t kBanks = 32;
constexpr std::uint32_t kBankBytes = 4;

// Windows are virtual: a CTA sees offsets from 0, and any set of windows fits whose sizes fit. So nothing fragments,
// and what the resource accounting admitted finds its place. Every window begins at bank 0.
class SharedMemory {
 public:
  // Capacity in bytes; windows are numbered from 0, one for each CTA slot.
  SharedMemory(std::uint32_t capacity, std::uint32_t windows);

  // The window must be closed, and the bytes must fit. It is filled with zeros: what a CTA finds there must not depend
  // on who was there before.
  void open(std::uint32_t window, std::uint32_t bytes);
  void close(std::uint32_t window);
  // Closes all.
  void reset();

  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t used() const { return used_; }
  bool is_open(std::uint32_t window) const;
  std::uint32_t size(std::uint32_t window) const { return static_cast<std::uint32_t>(at(window).bytes.size()); }
  // size() bytes; valid until the window is closed.
  std::uint8_t* data(std::uint32_t window) { return at(window).bytes.data(); }
  const std::uint8_t* data(std::uint32_t window) const { return at(window).bytes.data(); }
  bool contains(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint32_t there = size(window);
    return bytes <= there && offset <= there - bytes;
  }
  // The first lane of a load, store or atomic that reaches beyond the window; kWarpLanes if there is none.
  std::uint32_t first_outside(std::uint32_t window, const arch::Operation& operation) const;

  // All lanes must be inside and aligned (HEDDLE_CHECK for inside). `registers`: WarpState::of(destination), or null
  // for an atomic that returns nothing. Lanes work in their order: of stores to one byte, the highest lane wins.
  void load(std::uint32_t window, const arch::Operation& operation, std::uint32_t* registers) const;
  void store(std::uint32_t window, const arch::Operation& operation);
  void atomic(std::uint32_t window, const arch::Operation& operation, std::uint32_t* registers);

 private:
  struct Window {
    std::vector<std::uint8_t> bytes;
    bool open = false;
  };

  Window& at(std::uint32_t window);
  const Window& at(std::uint32_t window) const;

  std::uint32_t capacity_;
  std::uint32_t used_ = 0;
  std::vector<Window> windows_;
};

// Cycles that a load, store or atomic keeps the banks busy: each bank serves one 4-byte word per cycle. Lanes that
// touch the same word share it; of atomics, each lane has its own turn. 8-byte accesses are served by half warp,
// 16-byte ones by quarter warp. 0 without lanes.
std::uint32_t wavefronts(const arch::Operation& operation);

}  // namespace heddle::sm
