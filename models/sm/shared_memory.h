// The shared memory of one SM: a window of bytes per CTA, and what accesses cost in its banks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arch/warp_program.h"
#include "common/storage.h"
#include "sm/async_view.h"

namespace heddle::sm {

constexpr std::uint32_t kBanks = 32;
constexpr std::uint32_t kBankBytes = 4;
constexpr std::uint32_t kPoisonBytes = arch::kSectorBytes;  // what is corrupt together

// One array of bytes. A window may lie anywhere in it, and begins at bank 0. It is relocatable: every access adds its
// base. When no hole is large enough for a new one, all are moved together, so that what the resource accounting
// admitted finds its place.
class SharedMemory {
 public:
  // Capacity in bytes; windows are numbered from 0, one for each CTA slot.
  SharedMemory(std::uint32_t capacity, std::uint32_t windows);

  // The window must be closed, and the bytes must fit. It is filled with zeros: what a CTA finds there must not depend
  // on who was there before. Other windows may move.
  void open(std::uint32_t window, std::uint32_t bytes);
  void close(std::uint32_t window);
  // The window ends at `from` from now on, and what lay behind is free (CGA-09). Gives the number of those bytes: 0 if
  // the window ended there or earlier.
  std::uint32_t release(std::uint32_t window, std::uint64_t from);
  // Closes all.
  void reset();

  std::uint32_t capacity() const { return capacity_; }
  // Bytes of all open windows.
  std::uint32_t used() const { return used_; }
  bool is_open(std::uint32_t window) const { return window < windows_.size() && windows_[window].open; }
  // Without what has been released.
  std::uint32_t size(std::uint32_t window) const { return at(window).bytes; }
  // Where it is in the array now: a multiple of kLineBytes.
  std::uint32_t base(std::uint32_t window) const { return at(window).base; }
  // size() bytes; valid until a window is opened. For writers: see covered().
  std::uint8_t* data(std::uint32_t window) { return bytes_.get() + at(window).base; }
  const std::uint8_t* data(std::uint32_t window) const { return bytes_.get() + at(window).base; }
  // All of the window at once, mbarriers among it; as many bytes as it has.
  void fill(std::uint32_t window, const std::vector<std::uint8_t>& bytes);
  bool contains(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint32_t there = size(window);
    return bytes <= there && offset <= there - bytes;
  }
  // The first lane of a load, store or atomic that reaches beyond the window; kWarpLanes if there is none.
  std::uint32_t first_outside(std::uint32_t window, const arch::Operation& operation) const;

  // Corrupt data (CGA-08), by granules of kPoisonBytes. Only bytes of the window; none is allowed.
  void poison(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes);
  // Whether there is any in any window.
  bool any_poison() const { return poisoned_windows_ > 0; }
  // Whether reading those bytes of the window would give corrupt data.
  bool poisoned(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes) const;
  // The first lane of a load or atomic that reads such data; kWarpLanes if there is none. All lanes must be inside.
  std::uint32_t first_poisoned(std::uint32_t window, const arch::Operation& operation) const;
  // Something was written through data(): those bytes, `enables` (null: all) being not 0 for those that count. Granules
  // that lie in it wholly are sound again; others stay as they are.
  void covered(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes, const std::uint8_t* enables) {
    if (poisoned_windows_ > 0) sound(window, offset, bytes, enables);
  }
  // The same for `width` bytes from the offset of each lane.
  void covered(std::uint32_t window, arch::LaneMask lanes, const arch::PerLane<std::uint32_t>& offset,
               std::uint32_t width) {
    if (poisoned_windows_ > 0) sound_lanes(window, lanes, offset, width);
  }

  // All lanes must be inside and aligned (HEDDLE_CHECK for inside). `registers`: WarpState::of(destination), or null
  // for an atomic that returns nothing. Lanes work in their order: of stores to one byte, the highest lane wins.
  void load(std::uint32_t window, const arch::Operation& operation, std::uint32_t* registers) const;
  void store(std::uint32_t window, const arch::Operation& operation, std::uint32_t warp = 0);
  void atomic(std::uint32_t window, const arch::Operation& operation, std::uint32_t* registers, std::uint32_t warp = 0);

  // The asynchronous proxy sees the window's bytes only as AsyncView says, from now on until it is closed (TMA-41).
  // Without it, it sees them as they are.
  void watch(std::uint32_t window);
  // A warp of its CTA (none: of another) is about to write there through data(); store() and atomic() tell by
  // themselves, of the warp that `operation` is said to be of.
  void will_write(std::uint32_t window, std::uint32_t offset, std::uint32_t bytes, std::optional<std::uint32_t> warp) {
    if (watched_ > 0) tell_view(window, offset, bytes, warp);
  }
  bool watches() const { return watched_ > 0; }
  // The asynchronous proxy has written there.
  void async_wrote(std::uint32_t window, std::uint32_t offset, std::uint32_t bytes) {
    if (watched_ > 0 && at(window).view != nullptr) at(window).view->wrote(offset, bytes);
  }
  // Bytes as it sees them, which lie inside the window. Gives the first that is old.
  std::optional<std::uint32_t> async_read(std::uint32_t window, std::uint32_t offset, std::uint32_t bytes,
                                          std::uint8_t* to) const;
  // A proxy fence of a warp of the CTA; its warps have synchronised.
  void proxy_fence(std::uint32_t window, std::uint32_t warp) {
    if (at(window).view != nullptr) at(window).view->fence(warp);
  }
  void synchronised(std::uint32_t window) {
    if (watched_ > 0 && is_open(window) && at(window).view != nullptr) at(window).view->synchronised();
  }

  // A 64-bit object (an mbarrier) inside the window.
  std::uint64_t word(std::uint32_t window, std::uint64_t offset) const;
  void set_word(std::uint32_t window, std::uint64_t offset, std::uint64_t value);
  // Whether set_word() may have been used in those bytes, which lie in one to three lines. False: certainly not.
  bool may_have_words(std::uint32_t window, std::uint32_t offset, std::uint32_t bytes) const {
    const std::uint64_t lines = std::uint64_t{1} << line_bit(offset) |
                                std::uint64_t{1} << line_bit(offset + bytes / 2) |
                                std::uint64_t{1} << line_bit(offset + bytes - 1);
    return (at(window).words & lines) != 0;
  }

 private:
  struct Window {
    bool open = false;
    std::uint32_t base = 0;
    std::uint32_t bytes = 0;
    std::uint32_t opened = 0;           // bytes when it was opened: poison has a bit for each granule of them
    std::uint64_t words = 0;            // bits of lines with words, several lines for each bit
    std::vector<std::uint64_t> poison;  // empty: none
    std::unique_ptr<AsyncView> view;    // null: nobody watches
  };

  static std::uint32_t line_bit(std::uint64_t offset) {
    return static_cast<std::uint32_t>(offset / arch::kLineBytes % 64);
  }
  Window& at(std::uint32_t window);
  const Window& at(std::uint32_t window) const;
  void place(std::uint32_t window);
  void tell_lanes(std::uint32_t window, const arch::Operation& operation, std::uint32_t warp);
  void tell_view(std::uint32_t window, std::uint32_t offset, std::uint32_t bytes, std::optional<std::uint32_t> warp);
  bool fits(std::uint32_t window, std::uint32_t end);
  void compact();
  void drop_poison(Window& window);
  void sound(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes, const std::uint8_t* enables);
  template <class Offset>
  void sound_lanes(std::uint32_t window, arch::LaneMask lanes, const arch::PerLane<Offset>& offset,
                   std::uint32_t width);

  std::uint32_t capacity_;
  std::uint32_t used_ = 0;
  std::uint32_t storage_;            // bytes of the array
  ZeroedArray<std::uint8_t> bytes_;  // from the first window on
  std::vector<Window> windows_;
  std::vector<std::uint32_t> order_;  // open windows with bytes, by their base
  std::uint32_t poisoned_windows_ = 0;
  std::uint32_t watched_ = 0;  // windows
};

// Cycles that a load, store or atomic keeps the banks busy: each bank serves one 4-byte word per cycle. Lanes that
// touch the same word share it; of atomics, each lane has its own turn. 8-byte accesses are served by half warp,
// 16-byte ones by quarter warp. 0 without lanes.
std::uint32_t wavefronts(const arch::Operation& operation);
// The same for what an asynchronous copy writes: as many lanes at once as 128 bytes hold.
std::uint32_t copy_wavefronts(arch::LaneMask lanes, const arch::PerLane<std::uint32_t>& address, std::uint32_t width);

}  // namespace heddle::sm
