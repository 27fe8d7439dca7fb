// A stage that handles one item after another, at a rate that need not divide a cycle.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/cycle.h"

namespace heddle {

class StageClock {
 public:
  // Cycles that an item takes; 0: the stage is never busy.
  explicit StageClock(double cycles) : item_(static_cast<std::uint64_t>(std::llround(cycles * double{kFraction}))) {}
  // Items per cycle; 0: any number.
  static StageClock of_rate(double per_cycle) { return StageClock(per_cycle <= 0 ? 0.0 : 1 / per_cycle); }

  // The first cycle, not before `when`, in which it can take an item: the cycle in which it becomes free, not the one
  // after. Otherwise every item would be rounded up to whole cycles, and the mean rate would be missed.
  Cycle ready(Cycle when) const { return std::max(when, busy_until_ / kFraction); }
  // It takes items in that cycle, or goes on with them after those before.
  void take(Cycle when, std::uint64_t items = 1) {
    busy_until_ = std::max(busy_until_, when * kFraction) + items * item_;
    uncounted_ += items * item_;
  }
  // It takes an item when it can, from that cycle on. Returns when.
  Cycle pass(Cycle when) {
    const Cycle start = ready(when);
    take(start);
    return start;
  }
  // It is busy for at least as long as that one.
  void not_before(const StageClock& other) { busy_until_ = std::max(busy_until_, other.busy_until_); }
  // Whole cycles of work taken since the last call: what a stage reports of its load.
  Cycle count_busy() {
    const Cycle whole = uncounted_ / kFraction;
    uncounted_ %= kFraction;
    return whole;
  }
  void reset() { busy_until_ = uncounted_ = 0; }

 private:
  // Times in parts of a cycle: fine enough for the highest rate of a parameter, coarse enough for 2^48 cycles.
  static constexpr std::uint64_t kFraction = 65'536;

  std::uint64_t item_;
  std::uint64_t busy_until_ = 0;
  std::uint64_t uncounted_ = 0;
};

}  // namespace heddle
