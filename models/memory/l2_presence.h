// Of which pieces of memory the slices of the L2 hold anything: for those who move much and would have to ask for every
// line. Only where accesses are calls: nothing is under way between them then.
#pragma once

#include <cstdint>

#include "arch/memory_op.h"
#include "common/storage.h"

namespace heddle::memory {

class L2Presence {
 public:
  static constexpr std::uint64_t kPieceBytes = 4096;

  explicit L2Presence(std::uint64_t memory_bytes) : pieces_(memory_bytes / kPieceBytes + 1) { clear(); }

  // A line has come to some slice, or has gone there.
  void add(std::uint64_t line) {
    ++held_[line / kLines];
    any_ = true;
  }
  void take(std::uint64_t line) { --held_[line / kLines]; }
  // Data of some line are corrupt, here or in memory.
  void note_poison() { poisoned_ = any_ = true; }

  // No slice holds anything of these bytes, and no data at all are corrupt.
  bool none(std::uint64_t address, std::uint64_t bytes) const {
    if (poisoned_) return false;
    for (std::uint64_t piece = address / kPieceBytes; piece <= (address + bytes - 1) / kPieceBytes; ++piece) {
      if (held_[piece] != 0) return false;
    }
    return true;
  }
  // The slices are empty.
  void clear() {
    if (!any_ && held_.get() != nullptr) return;
    held_ = ZeroedArray<std::uint8_t>(pieces_);
    any_ = poisoned_ = false;
  }

 private:
  static constexpr std::uint64_t kLines = kPieceBytes / arch::kLineBytes;  // each at home, and once more as a copy

  std::uint64_t pieces_;
  ZeroedArray<std::uint8_t> held_;  // lines of each piece
  bool any_ = false;
  bool poisoned_ = false;
};

}  // namespace heddle::memory
