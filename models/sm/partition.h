// One of the four partitions of an SM: which of its warps issues next, and when (SM-01, SM-03).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/warp_program.h"
#include "common/clock.h"
#include "sm/sm_params.h"

namespace heddle::sm {

// Knows of each warp only when it can issue, to what unit, and its age. One instruction issues per cycle; every unit
// takes an instruction when it is done with the last one. The memory unit belongs to all partitions: when it takes the
// next instruction is told from outside.
class Partition {
 public:
  static constexpr Cycle kNever = ~Cycle{0};
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  Partition(WarpPolicy policy, std::uint32_t slots);

  // A warp takes the slot; smaller ages are older. It cannot issue before ready().
  void enter(std::uint32_t slot, std::uint64_t age);
  void leave(std::uint32_t slot);
  std::uint32_t resident() const { return resident_; }
  // The lowest free slot; kNone without one.
  std::uint32_t free_slot() const;

  // The warp's next instruction can issue from `when` on, to `unit`.
  void ready(std::uint32_t slot, Cycle when, arch::Unit unit) {
    when_[slot] = when;
    unit_[slot] = unit;
  }
  void block(std::uint32_t slot) { when_[slot] = kNever; }

  // The slot that issues at `now`; kNone if none can.
  std::uint32_t choose(Cycle now, Cycle memory_free) const;
  // The choice has issued `count` instructions, from `now` on; each takes its unit for `interval` cycles.
  void issued(std::uint32_t slot, Cycle now, std::uint64_t count, Cycle interval);
  // Whoever issued last has no privilege at the next choice.
  void end_burst() {
    if (policy_ == WarpPolicy::greedy_oldest) last_ = kNone;
  }
  // The first cycle in which something can issue; kNever if that takes a ready() first.
  Cycle next(Cycle memory_free) const;
  // The first cycle from which that warp could issue if it were alone.
  Cycle next_of(std::uint32_t slot, Cycle memory_free) const;
  // True if another warp than that one has work and is not blocked until `until`.
  bool others_before(std::uint32_t slot, Cycle until) const;

  void reset();

 private:
  Cycle unit_free(arch::Unit unit, Cycle memory_free) const {
    return unit == arch::Unit::memory ? memory_free : unit_free_[static_cast<std::size_t>(unit)];
  }
  bool better(std::uint32_t slot, std::uint32_t best) const;

  WarpPolicy policy_;
  std::vector<Cycle> when_;
  std::vector<arch::Unit> unit_;
  std::vector<std::uint64_t> age_;
  std::vector<bool> used_;
  std::uint32_t resident_ = 0;
  std::uint32_t end_ = 0;  // behind the last slot in use
  std::array<Cycle, arch::kUnits> unit_free_{};
  Cycle port_free_ = 0;
  std::uint32_t last_ = kNone;
};

}  // namespace heddle::sm
