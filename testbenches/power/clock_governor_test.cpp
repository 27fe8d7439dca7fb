// The clock that power leaves: the governor against a search of all clocks there are.
#include "power/clock_governor.h"

#include <string>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace power_clock_governor_test {

using namespace heddle;
using namespace heddle::power;
using Catch::Contains;
using test::Random;

namespace {

// Of the law as docs/power.md states it: a chip's events by the clock and the square of the voltage, its leakage by
// that square, the rest not at all.
double watts_at(const PowerParams& params, double from, double to, const Watts& watts) {
  const auto volts = [&](double ghz) {
    if (ghz <= params.knee) return params.voltage_least;
    return params.voltage_least +
           (params.voltage_most - params.voltage_least) * (ghz - params.knee) / (params.top_clock - params.knee);
  };
  const double square = volts(to) * volts(to) / (volts(from) * volts(from));
  return watts.events * square * to / from + watts.leakage * square + watts.fixed;
}

PowerParams any_params(Random& dice) {
  PowerParams params;
  params.governor = Governor::limit;
  params.limit = dice.between(100, 1000);
  params.step = dice.between(5, 60);
  params.hysteresis = dice.between(0, 10);
  params.least_clock = dice.between(200, 1200) / 1000.0;
  params.knee = dice.between(800, 1400) / 1000.0;
  params.top_clock = params.knee + dice.between(100, 1000) / 1000.0;
  return params;
}

}  // namespace

TEST_CASE("the governor sets the highest clock that keeps the limit, and rises by one step", "[power]") {
  for (const std::uint64_t seed : test::seeds(5000)) {
    CAPTURE(seed);
    Random dice(seed);
    const PowerParams params = any_params(dice);
    const double highest = dice.between(1000, 2200) / 1000.0;
    const ClockGovernor governor(params, highest);
    const auto clock = [&](unsigned steps) { return highest - steps * params.step / 1000; };
    unsigned last = 0;  // the lowest clock there is
    while (clock(last + 1) >= params.least_clock - 1e-9) ++last;
    const unsigned steps = dice.below(last + 1);
    const Watts watts{static_cast<double>(dice.below(900)), static_cast<double>(dice.below(200)),
                      static_cast<double>(dice.below(200))};
    const auto at = [&](unsigned to) { return watts_at(params, clock(steps), clock(to), watts); };
    unsigned expected = steps;
    if (watts.sum() > params.limit) {
      while (expected < last && at(expected) > params.limit) ++expected;
    } else if (steps > 0 && at(steps - 1) <= params.limit * (1 - params.hysteresis / 100)) {
      expected = steps - 1;
    }
    CHECK(governor.next(steps, watts) == expected);
    CHECK(governor.clock(expected) == Approx(clock(expected)));
    CHECK(governor.expected(steps, expected, watts) == Approx(at(expected)));
  }
}

TEST_CASE("a law of voltage that is none is refused with what to do", "[power]") {
  PowerParams params;
  REQUIRE_NOTHROW(params.check());
  CHECK(params.voltage(0.1) == params.voltage_least);
  CHECK(params.voltage(params.knee) == params.voltage_least);
  CHECK(params.voltage(params.top_clock) == Approx(params.voltage_most));
  params.top_clock = params.knee;
  CHECK_THROWS_AS(params.check(), InputError);
  CHECK_THAT(test::failure_of([&] { params.check(); }), Contains("gpu.power.top_clock") && Contains("lower knee"));
  params = PowerParams();
  params.voltage_most = params.voltage_least - 0.01;
  CHECK_THAT(test::failure_of([&] { params.check(); }), Contains("gpu.power.voltage_most") && Contains("raise"));
}

TEST_CASE("energy is counted where it is asked for, or where the governor needs it", "[power]") {
  PowerParams params;
  CHECK_FALSE(params.counts());
  params.accounting = true;
  CHECK(params.counts());
  params.accounting = false;
  params.governor = Governor::limit;
  CHECK(params.counts());
}

}  // namespace power_clock_governor_test
