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

TEST_CASE("a clock that changes: every cycle begins where a sum of periods says, and is found there", "[clock]") {
  SimFixture sim;
  for (const std::uint64_t seed : test::seeds(60)) {
    CAPTURE(seed);
    test::Random dice(seed);
    const std::uint64_t origin = dice.one_in(3) ? 0 : dice.between64(1, 1'000'000'000);
    Clock clock(dice.between(300, 2000) / 1000.0);
    clock.set_origin(sc_time::from_value(origin));
    const double first_ghz = clock.gigahertz();
    // begins[c]: when cycle c begins, period by period; the changes lie where dice put them, some on the same cycle.
    std::vector<std::uint64_t> begins = {origin};
    Cycle last = 0;
    for (std::uint32_t change = dice.below(12); change > 0; --change) {
      const Cycle at = last + (dice.one_in(5) ? 0 : dice.below(300));
      while (begins.size() <= at) begins.push_back(begins.back() + clock.period().value());
      clock.change(dice.between(300, 2000) / 1000.0, at);
      last = at;
    }
    while (begins.size() <= last + 200) begins.push_back(begins.back() + clock.period().value());
    std::uint64_t wrong = 0;
    for (Cycle cycle = 0; cycle < begins.size(); ++cycle) {
      if (clock.ticks_of(cycle) != begins[cycle] || clock.time_of(cycle).value() != begins[cycle]) ++wrong;
      if (clock.cycle_at(sc_time::from_value(begins[cycle])) != cycle) ++wrong;
    }
    for (int i = 0; i < 500; ++i) {
      const std::uint64_t ticks = dice.between64(origin > 500 ? origin - 500 : 0, begins.back());
      Cycle expected = 0;
      while (begins[expected] < ticks) ++expected;
      if (clock.cycle_at(sc_time::from_value(ticks)) != expected) ++wrong;
    }
    CHECK(wrong == 0);
    clock.set_origin(sc_time::from_value(7));
    CHECK(clock.gigahertz() == first_ghz);  // as it was made
    CHECK(clock.ticks_of(1000) == 7 + 1000 * clock.period().value());
  }
}

TEST_CASE("a clock is not changed before its last change", "[clock]") {
  SimFixture sim;
  Clock clock(1.0);
  clock.change(0.5, 100);
  CHECK_THAT(test::failure_of([&] { clock.change(1.0, 99); }), Contains("before its last change"));
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

TEST_CASE("a clock becomes what the time resolution lets it be; far from it, it is refused with a remedy", "[clock]") {
  SECTION("at 1 ns") {
    SimFixture sim;
    sc_core::sc_set_time_resolution(1, sc_core::SC_NS);
    const std::string message = test::failure_of([] { Clock clock(4.1); });
    CHECK_THAT(message, Contains("too coarse"));
    CHECK_THAT(message, Contains("4.1"));
    CHECK_THAT(message, Contains("1 ps"));
    for (const double gigahertz : {4.0, 2.2, 1.755, 0.7}) {
      CHECK(Clock(gigahertz).period() == sc_time(1, sc_core::SC_NS));
    }
    CHECK(Clock(0.6).period() == sc_time(2, sc_core::SC_NS));
    CHECK(Clock(0.25).period() == sc_time(4, sc_core::SC_NS));
  }
  SECTION("at the usual 1 ps") {
    SimFixture sim;
    CHECK(Clock(501.0).period() == sc_time(2, sc_core::SC_PS));
    CHECK_THROWS_AS(Clock(4100.0), InputError);
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
