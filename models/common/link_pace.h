// How fast a link passes bytes on: exact over any time, also with a fractional number of bytes per cycle.
#pragma once

#include <cmath>
#include <cstdint>

namespace heddle {

// A packet begins in a cycle in which the link has bytes left; what it needs beyond that cycle is taken from the next
// ones. So several small packets pass in one cycle, and a large one takes several.
class LinkPace {
 public:
  using Cycle = std::uint64_t;

  // bytes_per_cycle >= 0.01; kept in steps of 1/256 byte.
  explicit LinkPace(double bytes_per_cycle)
      : per_cycle_(static_cast<std::uint64_t>(std::llround(bytes_per_cycle * kScale))) {}

  // True if a packet can begin in cycle `now`. Times of calls do not go back.
  bool free_at(Cycle now) const { return used_at(now) < per_cycle_; }
  // The first such cycle, `now` or later.
  Cycle earliest(Cycle now) const {
    if (now < cycle_) now = cycle_;
    const std::uint64_t used = used_at(now);
    return used < per_cycle_ ? now : now + used / per_cycle_;
  }
  // A packet begins in cycle `now`, which is free.
  void take(Cycle now, std::uint32_t bytes) {
    used_ = used_at(now) + std::uint64_t{bytes} * kScale;
    cycle_ = now;
  }
  void reset() { used_ = cycle_ = 0; }

 private:
  static constexpr std::uint32_t kScale = 256;

  // What packets have taken of cycle `now` and the ones after it.
  std::uint64_t used_at(Cycle now) const {
    if (used_ == 0 || now <= cycle_) return used_;
    const std::uint64_t cycles = now - cycle_;
    // Without the first test the product could overflow after a long pause.
    if (cycles >= used_) return 0;
    const std::uint64_t passed = cycles * per_cycle_;
    return passed >= used_ ? 0 : used_ - passed;
  }

  std::uint64_t per_cycle_;  // in 1/256 byte
  std::uint64_t used_ = 0;   // the same, from the beginning of cycle_ on
  Cycle cycle_ = 0;
};

}  // namespace heddle
