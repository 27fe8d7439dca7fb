// Integer cycles inside a block, sc_time at its sockets.
#pragma once

#include <cmath>
#include <cstdint>

#include <systemc>

#include "common/cycle.h"
#include "common/error.h"

namespace heddle {

// Between simulated time and picoseconds, exactly as far as the simulation's resolution is 1 ps or coarser.
Picoseconds picoseconds(const sc_core::sc_time& time);
sc_core::sc_time sc_time_of(Picoseconds time);

// A clock that nobody toggles: a period and an origin. The period is a whole number of the simulation's time
// resolution, so that conversions are exact: 1.755 GHz becomes 570 ps (0.03 % slow) at the usual 1 ps.
class Clock {
 public:
  using Ticks = sc_core::sc_time::value_type;

  explicit Clock(double gigahertz) {
    const double tick_seconds = sc_core::sc_get_time_resolution().to_seconds();
    const double ticks = 1e-9 / gigahertz / tick_seconds;
    if (!(ticks >= 2.0)) {
      throw InputError(
          "the simulation's time resolution is too coarse for a clock of " + std::to_string(gigahertz) + " GHz",
          "set a resolution of 1 ps (SystemC's default) before elaboration");
    }
    period_ = static_cast<Ticks>(std::llround(ticks));
  }

  sc_core::sc_time period() const { return sc_core::sc_time::from_value(period_); }
  double gigahertz() const { return 1e-9 / period().to_seconds(); }

  // Cycle 0 begins at the origin: the start of simulation or the last reset.
  void set_origin(const sc_core::sc_time& origin) { origin_ = origin.value(); }
  sc_core::sc_time time_of(Cycle cycle) const { return sc_core::sc_time::from_value(origin_ + cycle * period_); }
  // The first cycle that begins at or after `time`.
  Cycle cycle_at(const sc_core::sc_time& time) const {
    const Ticks ticks = time.value();
    return ticks <= origin_ ? 0 : (ticks - origin_ + period_ - 1) / period_;
  }
  Ticks ticks_of(Cycle cycle) const { return origin_ + cycle * period_; }

  // Cycles that cover a duration in nanoseconds, rounded to the nearest.
  Cycle cycles_for_ns(double ns) const {
    return ns <= 0 ? 0 : static_cast<Cycle>(std::llround(ns * 1e-9 / period().to_seconds()));
  }
  double ns_for_cycles(double cycles) const { return cycles * period().to_seconds() * 1e9; }

 private:
  Ticks period_ = 1;
  Ticks origin_ = 0;
};

}  // namespace heddle
