#include "power/clock_governor.h"

#include <algorithm>

namespace heddle::power {

double ClockGovernor::clock(unsigned steps) const { return highest_ - steps * params_.step * 1e-3; }

unsigned ClockGovernor::most_steps() const {
  const double room = std::max(0.0, highest_ - params_.least_clock);
  return static_cast<unsigned>(room / (params_.step * 1e-3) + 1e-9);
}

double ClockGovernor::expected(unsigned from, unsigned to, const Watts& watts) const {
  const double volts = params_.voltage(clock(to)) / params_.voltage(clock(from));
  return watts.events * volts * volts * clock(to) / clock(from) + watts.leakage * volts * volts + watts.fixed;
}

unsigned ClockGovernor::next(unsigned steps, const Watts& watts) const {
  if (watts.sum() > params_.limit) {
    unsigned down = steps;
    while (down < most_steps() && expected(steps, down, watts) > params_.limit) ++down;
    return down;
  }
  const double low = params_.limit * (1 - params_.hysteresis / 100);
  return steps > 0 && expected(steps, steps - 1, watts) <= low ? steps - 1 : steps;
}

}  // namespace heddle::power
