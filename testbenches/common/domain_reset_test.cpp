// Resets of a domain: in mid-flight, at rest, at random, and where they are refused.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/block.h"
#include "common/domain_bench.h"

namespace common_domain_reset_test {

using namespace heddle;
using namespace heddle::test::domains;
using Catch::Contains;
using sc_core::sc_time;
using test::failure_of;
using test::Random;
using test::run_until;
using test::run_until_idle;
using test::scramble;
using test::SimFixture;

TEST_CASE("a reset in mid-flight drops every event and begins again with cycle 0", "[domain]") {
  for (const Cycle run_ahead : {0, 1000}) {
    CAPTURE(run_ahead);
    struct Part final : Resettable {
      void reset() override { ++resets; }
      int resets = 0;
    };
    Part first, second;
    Bench bench(run_ahead, 1.755);
    Domain& domain = bench.domain;
    domain.add_resettable(first);
    domain.add_resettable(second);
    bench.recorder.then = [&](std::uint32_t kind, std::uint64_t) {
      if (kind == 0) domain.schedule_in(7, bench.recorder, 0, 1);  // goes on for ever
    };
    domain.schedule(0, bench.recorder, 0, 1);
    domain.schedule(100'000, bench.recorder, 1, 2);  // in the far heap
    const sc_time moment = ps(570 * 1234 + 56);      // not on a cycle
    Cycle now_before = 0, now_after = 1;
    bool idle_after = false;
    std::size_t seen_before = 0;
    Thread thread("thread", [&] {
      sc_core::wait(moment);
      now_before = domain.now();
      seen_before = bench.recorder.seen.size();
      domain.reset();
      now_after = domain.now();
      idle_after = domain.idle();
      domain.schedule(3, bench.recorder, 1, 30);
      domain.schedule_in(0, bench.recorder, 1, 0);
    });
    run_until_idle();
    CHECK(now_before == 1235);
    CHECK(seen_before == 1234 / 7 + 1);
    CHECK(now_after == 0);
    CHECK(idle_after);
    CHECK(first.resets == 1);
    CHECK(second.resets == 1);
    REQUIRE(bench.recorder.seen.size() == seen_before + 2);
    const Seen& zero = bench.recorder.seen[seen_before];
    const Seen& three = bench.recorder.seen[seen_before + 1];
    CHECK((zero.cycle == 0 && zero.argument == 0 && zero.time == moment));
    CHECK((three.cycle == 3 && three.argument == 30 && three.time == moment + ps(3 * 570)));
    if (run_ahead == 0) CHECK(three.stamp == three.time);
  }
}

TEST_CASE("a reset of a domain at rest leaves nothing to do", "[domain]") {
  Bench bench(1000);
  bench.domain.schedule(10, bench.recorder, 0, 1);
  bench.domain.reset();
  run_until_idle();
  CHECK(bench.recorder.seen.empty());
  CHECK(bench.domain.wakeups() == 0);
  for (int i = 0; i < 3; ++i) {
    bench.domain.schedule_in(10, bench.recorder, 0, 1);
    run_until_idle();
    bench.domain.reset();
    CHECK(bench.domain.now() == 0);
  }
  CHECK(bench.recorder.seen.size() == 3);
  CHECK(sc_core::sc_time_stamp() == ps(3 * 10 * 570));
}

TEST_CASE("random resets: after each only what was entered since then happens", "[domain]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 40; ++round) {
    const std::uint64_t seed = dice.next();
    CAPTURE(round, seed);
    Bench bench(round % 2 == 0 ? 0 : 1000, 1.3);
    Domain& domain = bench.domain;
    std::uint64_t epoch = 0;
    sc_time origin;
    std::string wrong;
    bench.recorder.then = [&](std::uint32_t kind, std::uint64_t argument) {
      const Seen& seen = bench.recorder.seen.back();
      if (kind != epoch) wrong = "an event of an earlier life ran";
      if (seen.cycle != argument) wrong = "an event ran in the wrong cycle";
      if (seen.time != origin + ps(seen.cycle * domain.clock().period().value()))
        wrong = "an event ran at the wrong time";
      const Cycle when = argument + scramble(seed + argument) % 40;
      if (when > argument) domain.schedule(when, bench.recorder, kind, when);
    };
    Thread thread("thread", [&] {
      Random own(seed);
      for (epoch = 0; epoch < 12; ++epoch) {
        for (int i = 0; i < 5; ++i) {
          const Cycle when = own.one_in(4) ? own.between64(0, 40'000) : own.between64(0, 50);
          domain.schedule(when, bench.recorder, static_cast<std::uint32_t>(epoch), when);
        }
        sc_core::wait(ps(own.between64(0, 300'000)));
        domain.reset();
        origin = sc_core::sc_time_stamp();
      }
    });
    run_until_idle();
    CHECK(wrong.empty());
    CHECK(bench.recorder.seen.size() > 20);
    CHECK(domain.idle());
  }
}

TEST_CASE("a reset from inside an event of the domain is refused", "[domain]") {
  Bench bench(0);
  bool refused = false;
  bench.recorder.then = [&](std::uint32_t, std::uint64_t argument) {
    if (argument == 1) {
      try {
        bench.domain.reset();
      } catch (const CheckFailed&) {
        refused = true;
      }
    }
  };
  bench.domain.schedule(4, bench.recorder, 0, 1);
  bench.domain.schedule(9, bench.recorder, 0, 2);
  run_until_idle();
  CHECK(refused);
  CHECK(bench.recorder.arguments() == std::vector<std::uint64_t>{1, 2});  // nothing was lost
}

}  // namespace common_domain_reset_test
