// Which requests of an SM are still open, in two phases, so that one instruction can wait for all before it
// (TMA-31, TMA-41). Plain C++.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/clock.h"
#include "common/error.h"

namespace heddle::tmau {

// A drain flips the phase: later requests count in the other one, and the drain is over when the old one is empty. So
// there is one drain at a time.
class CompletionTracker {
 public:
  std::uint8_t phase() const { return phase_; }
  bool draining() const { return draining_; }
  std::uint32_t open() const { return open_[0] + open_[1]; }

  // A request; gives its phase.
  std::uint8_t begin() {
    ++open_[phase_];
    return phase_;
  }
  // It is over at `when`, now or later. True: the drain is as well, at drained().
  bool end(std::uint8_t phase, Cycle when) {
    HEDDLE_CHECK(phase < 2 && open_[phase] > 0, "a request ended twice");
    latest_[phase] = std::max(latest_[phase], when);
    if (--open_[phase] > 0 || !draining_ || phase == phase_) return false;
    end_drain(phase);
    return true;
  }
  // True: it is over at once, at drained().
  bool drain(Cycle now) {
    HEDDLE_CHECK(!draining_, "a drain began before the last one was over");
    const std::uint8_t old = phase_;
    phase_ ^= 1;
    drained_ = std::max(drained_, now);
    draining_ = true;
    if (open_[old] > 0) return false;
    end_drain(old);
    return true;
  }
  // When the last drain was, or is, over.
  Cycle drained() const { return drained_; }
  void reset() { *this = CompletionTracker(); }

 private:
  void end_drain(std::uint8_t old) {
    draining_ = false;
    drained_ = std::max(drained_, latest_[old]);
  }

  std::array<std::uint32_t, 2> open_{};
  std::array<Cycle, 2> latest_{};
  Cycle drained_ = 0;
  std::uint8_t phase_ = 0;
  bool draining_ = false;
};

}  // namespace heddle::tmau
