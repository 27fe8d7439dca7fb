// Cycles and simulated time.
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/domain.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace common_clock_test {

using namespace heddle;
using Catch::Contains;
using sc_core::sc_time;
using test::SimFixture;

TEST_CASE("the period is the nearest whole number of picoseconds", "[clock]") {
  SimFixture sim;
  CHECK(Clock(1.0).period() == sc_time(1, sc_core::SC_NS));
  CHECK(Clock(1.755).period() == sc_time::from_value(570));  // 569.8
  CHECK(Clock(1.41).period() == sc_time::from_value(709));   // 709.2
  CHECK(Clock(1.98).period() == sc_time::from_value(505));   // 505.05
  CHECK(Clock(0.001).period() == sc_time(1, sc_core::SC_US));
  CHECK(Clock(500.0).period() == sc_time::from_value(2));
  CHECK(Clock(1.755).gigahertz() == Approx(1.0 / 0.570));
}

TEST_CASE("time_of and cycle_at are exact over a million million cycles", "[clock]") {
  SimFixture sim;
  HEDDLE_RANDOM(dice);
  for (const double ghz : {1.755, 1.41, 0.33, 1.0, 7.77}) {
    Clock clock(ghz);
    const std::uint64_t period = clock.period().value();
    std::vector<Cycle> cycles = {0, 1, 2, 999'999'999'999, 1'000'000'000'000};
    for (int i = 0; i < 2000; ++i) cycles.push_back(dice.between64(0, 1'000'000'000'000) >> dice.between64(0, 39));
    for (const std::uint64_t origin : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{123'456'789'012'345}}) {
      clock.set_origin(sc_time::from_value(origin));
      for (const Cycle cycle : cycles) {
        const sc_time time = clock.time_of(cycle);
        bool right = time.value() == origin + cycle * period && clock.ticks_of(cycle) == time.value();
        right = right && clock.cycle_at(time) == cycle;
        // A tick later the next cycle is the first that has not begun; a tick earlier it is this one.
        right = right && clock.cycle_at(sc_time::from_value(time.value() + 1)) == cycle + 1;
        if (cycle > 0) right = right && clock.cycle_at(sc_time::from_value(time.value() - 1)) == cycle;
        if (!right) {
          CAPTURE(ghz, origin, cycle);
          FAIL("not exact");
        }
      }
      if (origin > 0) CHECK(clock.cycle_at(sc_core::SC_ZERO_TIME) == 0);  // before the origin
    }
  }
}

TEST_CASE("durations in nanoseconds become the nearest number of cycles", "[clock]") {
  SimFixture sim;
  const Clock clock(2.0);  // 0.5 ns
  CHECK(clock.cycles_for_ns(0) == 0);
  CHECK(clock.cycles_for_ns(-3) == 0);
  CHECK(clock.cycles_for_ns(0.24) == 0);
  CHECK(clock.cycles_for_ns(0.26) == 1);
  CHECK(clock.cycles_for_ns(100) == 200);
  CHECK(clock.cycles_for_ns(1e9) == 2'000'000'000);
  CHECK(clock.ns_for_cycles(200) == Approx(100));
  CHECK(clock.ns_for_cycles(0.5) == Approx(0.25));
}

TEST_CASE("a clock that the time resolution cannot represent is refused, with a remedy", "[clock]") {
  SECTION("at 1 ns") {
    SimFixture sim;
    sc_core::sc_set_time_resolution(1, sc_core::SC_NS);
    const std::string message = test::failure_of([] { Clock clock(1.755); });
    CHECK_THAT(message, Contains("too coarse"));
    CHECK_THAT(message, Contains("1.755"));
    CHECK_THAT(message, Contains("1 ps"));
    CHECK_THROWS_AS(Clock(0.6), InputError);
    CHECK(Clock(0.25).period() == sc_time(4, sc_core::SC_NS));
  }
  SECTION("at the usual 1 ps") {
    SimFixture sim;
    CHECK_THROWS_AS(Clock(501.0), InputError);
  }
  SECTION("at 1 fs clocks are finer") {
    SimFixture sim;
    sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
    const Clock clock(1.755);
    CHECK(clock.period().value() == 569'801);
    CHECK(clock.cycle_at(clock.time_of(1'000'000'007)) == 1'000'000'007);
    CHECK(clock.cycles_for_ns(1000) == 1755);
  }
}

}  // namespace common_clock_test
