// A limited number of places, each free again from a cycle that is known beforehand (TMA-16). Plain C++.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/clock.h"
#include "common/error.h"
#include "common/ring.h"

namespace heddle::tmau {

class PlaceLimit {
 public:
  static constexpr Cycle kUnknown = ~Cycle{0};

  explicit PlaceLimit(std::uint32_t places) : places_(places), unused_(places) {}

  // The first cycle, `from` or later, in which a place is free; kUnknown: nobody has said when.
  Cycle earliest(Cycle from) const {
    if (unused_ > 0) return from;
    return back_.empty() ? kUnknown : std::max(from, back_.front());
  }
  // In a cycle that earliest() allows.
  void take() {
    if (unused_ > 0) {
      --unused_;
    } else {
      HEDDLE_CHECK(!back_.empty(), "a place was taken that nobody has given back");
      (void)back_.pop();
    }
  }
  void give_back(Cycle when) {
    HEDDLE_CHECK(unused_ + back_.size() < places_, "a place was given back that nobody had");
    back_.insert(when, [](Cycle before, Cycle item) { return before > item; });
  }
  // Places that nobody has given back yet.
  std::uint32_t taken() const { return places_ - unused_ - static_cast<std::uint32_t>(back_.size()); }
  void reset() {
    unused_ = places_;
    back_.clear();
  }

 private:
  std::uint32_t places_;
  std::uint32_t unused_;  // never taken
  Ring<Cycle> back_;      // in order of time
};

}  // namespace heddle::tmau
