// What deciding costs, as laws of the machine's size (CWD-05, CWD-13, CWD-28). All times in cycles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/cycle.h"

namespace heddle::cwd {

// Levels of a tree of two-input nodes over `n` leaves: ceil(log2 n); 0 for one leaf.
constexpr std::uint32_t tree_levels(std::uint64_t n) {
  std::uint32_t levels = 0;
  while (std::uint64_t{1} << levels < n) ++levels;
  return levels;
}

// A walk through that many levels of trees, each of which takes `step` cycles: the sums of a prefix population count go
// up a tree of the SMs and down again, 2 ceil(log2 SMs) levels (CWD-05); the greatest of the answers of all GPCs, or
// the number of valid ones, is there after ceil(log2 GPCs) levels (CWD-13).
inline Cycle tree_cycles(std::uint32_t levels, double step) { return static_cast<Cycle>(std::ceil(levels * step)); }

// The copy of the live model of `sms` SMs into the shadow state, `per_cycle` SMs per cycle: the cycles after the first,
// which is one of the session's fixed length (CWD-28).
constexpr Cycle snapshot_cycles(std::uint64_t sms, std::uint32_t per_cycle) {
  return sms == 0 ? 0 : (sms + per_cycle - 1) / per_cycle - 1;
}

// What finding places takes: parts that follow on each other.
struct SearchWork {
  std::uint32_t steps = 0;           // decisions
  std::uint32_t queries = 0;         // ways to the models of the GPCs and back
  std::uint32_t prefix_levels = 0;   // of trees of SMs (CWD-05)
  std::uint32_t compare_levels = 0;  // of trees of GPCs or uGPUs (CWD-13)

  SearchWork& operator+=(const SearchWork& other) {
    steps += other.steps;
    queries += other.queries;
    prefix_levels += other.prefix_levels;
    compare_levels += other.compare_levels;
    return *this;
  }
};

// Something that takes in so many items per cycle, and lets the others wait in order.
class RateQueue {
 public:
  explicit RateQueue(double per_cycle) : interval_(static_cast<std::uint64_t>(double{kFraction} / per_cycle)) {}

  // `count` items arrive in cycle `now`. Returns the cycle in which the last of them is taken in: `now` itself where it
  // is free and they are no more than a cycle's. `now` never goes back.
  Cycle add(Cycle now, std::uint64_t count = 1) {
    busy_until_ = std::max(busy_until_, now * kFraction) + count * interval_;
    return last();
  }
  // The cycle in which the last item so far is taken in.
  Cycle last() const { return busy_until_ == 0 ? 0 : (busy_until_ - 1) / kFraction; }
  void reset() { busy_until_ = 0; }

 private:
  // Times in parts of a cycle, so that rates need not divide one.
  static constexpr std::uint64_t kFraction = 65'536;
  std::uint64_t interval_;
  std::uint64_t busy_until_ = 0;
};

// The mask generator of each GPC2SM unit: one SM mask after another, whatever kind of grid it is for.
class MaskGenerators {
 public:
  // `mask`: cycles per mask.
  MaskGenerators(std::uint32_t gpcs, Cycle mask) : mask_(mask), free_(gpcs, 0) {}

  // The generator of the GPC makes `masks` masks, which were decided in cycle `decided`. Returns when the last one is
  // there.
  Cycle make(std::uint32_t gpc, std::uint32_t masks, Cycle decided) {
    free_[gpc] = std::max(free_[gpc], decided) + work(masks);
    return free_[gpc];
  }
  // Cycles of work that so many masks are.
  Cycle work(std::uint32_t masks) const { return masks * mask_; }
  void reset() { std::fill(free_.begin(), free_.end(), 0); }

 private:
  Cycle mask_;
  std::vector<Cycle> free_;
};

}  // namespace heddle::cwd
