// Which clock keeps power below a limit: power of the chip goes with the square of the voltage and with the clock, and
// the voltage with the clock.
#pragma once

#include "power/power_params.h"

namespace heddle::power {

// Mean power over an interval.
struct Watts {
  double events = 0;   // of the chip, that come with cycles
  double leakage = 0;  // of the chip
  double fixed = 0;    // memory and the rest of the board
  double sum() const { return events + leakage + fixed; }
};

class ClockGovernor {
 public:
  // `highest`: GHz, from which the clocks go down in steps.
  ClockGovernor(const PowerParams& params, double highest) : params_(params), highest_(highest) {}

  // After an interval at clock `steps` below the highest: how many it is to be below from now on. It falls as far as
  // the law wants, at once, and rises by a step.
  unsigned next(unsigned steps, const Watts& watts) const;
  // GHz.
  double clock(unsigned steps) const;
  // What the same work per cycle would take.
  double expected(unsigned from, unsigned to, const Watts& watts) const;

 private:
  unsigned most_steps() const;

  const PowerParams params_;
  const double highest_;
};

}  // namespace heddle::power
