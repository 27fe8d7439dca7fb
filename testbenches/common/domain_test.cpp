// A domain's events against SystemC time: when they run, and what other processes see meanwhile.
#include "common/domain.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/block.h"
#include "common/domain_bench.h"

namespace common_domain_test {

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

TEST_CASE("without running ahead events run exactly at the time of their cycle", "[domain]") {
  for (const double ghz : {1.755, 1.41, 0.6667, 1.0, 1.98}) {
    CAPTURE(ghz);
    Bench bench(0, ghz);
    std::vector<Cycle> cycles = {0, 1, 2, 3, 1000, 16'383, 16'384, 1'000'000, 123'456'789};
    for (const Cycle cycle : cycles) bench.domain.schedule(cycle, bench.recorder, 0, cycle);
    run_until_idle();
    REQUIRE(bench.recorder.seen.size() == cycles.size());
    for (const Seen& seen : bench.recorder.seen) {
      CHECK(seen.cycle == seen.argument);
      CHECK(seen.stamp == seen.time);
      CHECK(seen.stamp.value() == seen.cycle * bench.domain.clock().period().value());
    }
    CHECK(bench.domain.wakeups() == cycles.size());
    CHECK(bench.domain.events_executed() == cycles.size());
    CHECK(bench.domain.idle());
  }
}

TEST_CASE("running ahead saves entries of the kernel, within its bound", "[domain]") {
  Bench bench(100);
  for (Cycle cycle = 0; cycle < 1000; ++cycle) bench.domain.schedule(cycle, bench.recorder, 0, cycle);
  run_until_idle();
  REQUIRE(bench.recorder.seen.size() == 1000);
  const sc_time bound = 100.0 * bench.domain.clock().period();
  for (const Seen& seen : bench.recorder.seen) {
    CHECK(seen.cycle == seen.argument);
    CHECK(seen.time >= seen.stamp);
    CHECK(seen.time - seen.stamp <= bound);
  }
  CHECK(bench.domain.wakeups() <= 12);
}

TEST_CASE("when nothing is left, simulated time has caught up with the last event", "[domain]") {
  for (const Cycle run_ahead : {0, 7, 1000}) {
    CAPTURE(run_ahead);
    Bench bench(run_ahead);
    bench.domain.schedule(500, bench.recorder, 0, 1);
    bench.domain.schedule(900, bench.recorder, 0, 2);
    run_until_idle();
    CHECK(bench.domain.last_event_time() == bench.domain.clock().time_of(900));
    CHECK(sc_core::sc_time_stamp() == bench.domain.last_event_time());
    CHECK(bench.domain.now() == 900);
    // So whoever comes from outside goes on from there.
    bench.domain.schedule_in(0, bench.recorder, 0, 3);
    bench.domain.schedule_in(5, bench.recorder, 0, 4);
    run_until_idle();
    CHECK(bench.recorder.arguments() == std::vector<std::uint64_t>{1, 2, 3, 4});
    CHECK(bench.recorder.seen.back().cycle == 905);
  }
}

TEST_CASE("other processes see what has happened before them and nothing later", "[domain]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 25; ++round) {
    const std::uint64_t seed = dice.next();
    const double ghz = round % 2 == 0 ? 1.755 : 0.7;
    for (const Cycle run_ahead : {Cycle{0}, Cycle{3}, Cycle{1000}, Cycle{100'000}}) {
      CAPTURE(round, seed, run_ahead);
      const Story story = busy_story(run_ahead, seed, ghz, round % 3 != 0);
      REQUIRE(std::is_sorted(story.seen.begin(), story.seen.end(),
                             [](const Seen& a, const Seen& b) { return a.time < b.time; }));
      REQUIRE(story.samples.size() == 2 * 60 + 80);
      for (const Sample& sample : story.samples) {
        const auto before = static_cast<std::size_t>(
            std::count_if(story.seen.begin(), story.seen.end(), [&](const Seen& s) { return s.time < sample.time; }));
        const auto until = static_cast<std::size_t>(
            std::count_if(story.seen.begin(), story.seen.end(), [&](const Seen& s) { return s.time <= sample.time; }));
        if (sample.events < before || sample.events > until) {
          CAPTURE(sample.time, sample.events, before, until);
          FAIL("a process saw the wrong moment");
        }
      }
    }
  }
}

TEST_CASE("how far a domain runs ahead does not change what happens", "[domain]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 25; ++round) {
    const std::uint64_t seed = dice.next();
    CAPTURE(round, seed);
    const Story stepwise = busy_story(0, seed, 1.755, true);
    REQUIRE(stepwise.seen.size() > 30);
    for (const Cycle run_ahead : {Cycle{1}, Cycle{17}, Cycle{1000}, Cycle{1'000'000}}) {
      CAPTURE(run_ahead);
      const Story ahead = busy_story(run_ahead, seed, 1.755, true);
      CHECK(ahead.wakeups <= stepwise.wakeups + 1);
      if (!(ahead.seen == stepwise.seen)) REQUIRE(ahead.seen == stepwise.seen);
    }
  }
}

TEST_CASE("events from outside run before the domain's own of the same cycle", "[domain]") {
  for (const Cycle run_ahead : {0, 1000}) {
    CAPTURE(run_ahead);
    Bench bench(run_ahead, 1.0);
    Domain& domain = bench.domain;
    Recorder& recorder = bench.recorder;
    recorder.then = [&](std::uint32_t, std::uint64_t argument) {
      if (argument == 1) domain.schedule(50, recorder, 0, 2);  // entered long before the foreign ones
    };
    domain.schedule(1, recorder, 0, 1);
    Thread thread("thread", [&] {
      sc_core::wait(30, sc_core::SC_NS);
      domain.schedule(50, recorder, 0, 3);
      sc_core::wait(10, sc_core::SC_NS);
      domain.schedule(50, recorder, 0, 4);
    });
    run_until_idle();
    CHECK(recorder.arguments() == std::vector<std::uint64_t>{1, 3, 4, 2});
  }
}

TEST_CASE("an earlier event from outside wakes a domain that waits for a later one", "[domain]") {
  Bench bench(0, 1.0);
  bench.domain.schedule(1000, bench.recorder, 0, 3);
  Thread thread("thread", [&] {
    sc_core::wait(9, sc_core::SC_NS);
    bench.domain.schedule(40, bench.recorder, 0, 2);
    bench.domain.schedule(20, bench.recorder, 0, 1);
  });
  run_until_idle();
  CHECK(bench.recorder.arguments() == std::vector<std::uint64_t>{1, 2, 3});
  for (const Seen& seen : bench.recorder.seen) CHECK(seen.stamp == seen.time);
  CHECK(bench.recorder.seen[0].cycle == 20);
}

TEST_CASE("between cycles now() is the next cycle, and delays are rounded up to cycles", "[domain]") {
  Bench bench(0, 1.755);  // 570 ps
  Domain& domain = bench.domain;
  CHECK(domain.now() == 0);
  run_until(ps(571));
  CHECK(domain.now() == 2);
  CHECK(domain.cycle_after(sc_core::SC_ZERO_TIME) == 2);
  CHECK(domain.cycle_after(ps(569)) == 2);
  CHECK(domain.cycle_after(ps(570)) == 3);
  CHECK(domain.delay_until(2) == ps(569));
  CHECK(domain.delay_until(1) == sc_core::SC_ZERO_TIME);
  run_until(ps(1140));
  CHECK(domain.now() == 2);
}

TEST_CASE("a domain does not run ahead into an instant in which another process is due", "[domain]") {
  Bench bench(1000, 1.0);
  for (const Cycle cycle : {10, 49, 50, 51}) bench.domain.schedule(cycle, bench.recorder, 0, cycle);
  Thread thread("thread", [] { sc_core::wait(50, sc_core::SC_NS); });
  run_until_idle();
  REQUIRE(bench.recorder.seen.size() == 4);
  CHECK(bench.recorder.seen[1].stamp < bench.recorder.seen[1].time);  // that is ahead
  CHECK(bench.recorder.seen[2].stamp == bench.recorder.seen[2].time);
}

TEST_CASE("an event can wake other processes, who then see its time", "[domain]") {
  for (const Cycle run_ahead : {0, 1000}) {
    CAPTURE(run_ahead);
    Bench bench(run_ahead, 1.755);
    sc_core::sc_event done;
    std::vector<std::string> order;
    bench.recorder.then = [&](std::uint32_t, std::uint64_t argument) {
      order.push_back("event " + std::to_string(argument));
      if (argument == 2) done.notify(bench.domain.delay_until(bench.domain.now()));
    };
    for (const Cycle cycle : {10, 20, 21, 500})
      bench.domain.schedule(cycle, bench.recorder, 0, cycle / 10 + cycle % 10);
    Thread thread("thread", [&] {
      sc_core::wait(done);
      order.push_back("thread at " + sc_core::sc_time_stamp().to_string());
    });
    run_until_idle();
    CHECK(order == std::vector<std::string>{"event 1", "event 2", "thread at 11400 ps", "event 3", "event 50"});
  }
}

TEST_CASE("two domains of different clocks stay in step", "[domain]") {
  // A ball goes to and fro; each court also has events of its own all the time.
  struct Log {
    std::vector<sc_time> times;
    std::vector<Seen> seen;
  };
  const auto play = [](Cycle run_ahead_a, Cycle run_ahead_b) {
    SimFixture sim;
    Observation oa{"a"}, ob{"b"};
    Domain a("a", 1.755, TimingMode::at, run_ahead_a, oa), b("b", 0.93, TimingMode::at, run_ahead_b, ob);
    Recorder ra(a), rb(b);
    Log log;
    int left = 400;
    const auto wire = [&](Recorder& from, Recorder& to, Cycle flight) {
      from.then = [&, flight](std::uint32_t kind, std::uint64_t argument) {
        log.seen.push_back(from.seen.back());
        log.times.push_back(from.seen.back().time);
        if (left <= 0) return;
        --left;
        if (kind == 1) {
          const Cycle arrival = to.domain.cycle_after(from.domain.delay_until(from.domain.now() + flight));
          to.domain.schedule(arrival, to, 1, argument + 1);
          // Rounded up to the first cycle of the other clock.
          const sc_time sent = from.domain.clock().time_of(from.domain.now() + flight);
          const sc_time got = to.domain.clock().time_of(arrival);
          if (got < sent || got - sent >= to.domain.clock().period()) throw std::logic_error("wrong arrival");
        } else {
          from.domain.schedule_in(1 + scramble(argument) % 9, from, 0, argument + 1'000'000);
        }
      };
    };
    wire(ra, rb, 3);
    wire(rb, ra, 5);
    a.schedule(2, ra, 1, 0);
    a.schedule(0, ra, 0, 1'000);
    b.schedule(1, rb, 0, 2'000);
    run_until_idle();
    return log;
  };
  const Log stepwise = play(0, 0);
  REQUIRE(stepwise.times.size() > 400);
  for (const auto& [run_ahead_a, run_ahead_b] : {std::pair<Cycle, Cycle>{1000, 1000}, {0, 1000}, {1000, 0}, {5, 17}}) {
    CAPTURE(run_ahead_a, run_ahead_b);
    const Log ahead = play(run_ahead_a, run_ahead_b);
    CHECK(std::is_sorted(ahead.times.begin(), ahead.times.end()));
    CHECK(ahead.times == stepwise.times);
    CHECK(ahead.seen == stepwise.seen);
  }
}

namespace {

// Is called at cycles of a list, and sets clocks of another one.
struct Changer final : Ticker {
  Changer(Domain& domain_, Cycle every_, std::vector<double> clocks_)
      : domain(domain_), every(every_), clocks(std::move(clocks_)) {}
  Cycle on_tick(Cycle tick, Cycle next) override {
    calls.push_back({tick, next});
    if (calls.size() <= clocks.size()) domain.change_clock(clocks[calls.size() - 1], tick);
    return tick + ((next - tick) / every + 1) * every;
  }
  Domain& domain;
  Cycle every;
  std::vector<double> clocks;
  std::vector<std::pair<Cycle, Cycle>> calls;
};

}  // namespace

TEST_CASE("a ticker changes the clock: events keep their cycles and order, and begin later or sooner", "[domain]") {
  for (const Cycle run_ahead : {Cycle{0}, Cycle{1}, Cycle{100}}) {
    CAPTURE(run_ahead);
    Bench bench(run_ahead, 1.0);
    Changer changer(bench.domain, 100, {0.5, 2.0});
    bench.domain.set_ticker(changer, 100);
    for (const Cycle cycle : {0, 99, 100, 150, 199, 200, 250}) {
      bench.domain.schedule(static_cast<Cycle>(cycle), bench.recorder, 0, static_cast<std::uint64_t>(cycle));
    }
    run_until_idle();
    std::vector<std::uint64_t> times;
    for (const Seen& seen : bench.recorder.seen) {
      CHECK(seen.cycle == seen.argument);
      times.push_back(seen.time.value());
    }
    // 1 ns up to cycle 100, then 2 ns up to cycle 200, then 0.5 ns.
    CHECK(times == std::vector<std::uint64_t>{0, 99'000, 100'000, 200'000, 298'000, 300'000, 325'000});
    CHECK(changer.calls == std::vector<std::pair<Cycle, Cycle>>{{100, 100}, {200, 200}});
    CHECK(sc_core::sc_time_stamp() == ps(325'000));
  }
}

TEST_CASE("a ticker does not wake a domain that rests, and is called once before the next event", "[domain]") {
  Bench bench(0, 1.0);
  Changer changer(bench.domain, 10, {});
  bench.domain.set_ticker(changer, 10);
  bench.domain.schedule(5, bench.recorder, 0, 5);
  bench.domain.schedule(1'000'003, bench.recorder, 0, 6);
  run_until_idle();
  CHECK(changer.calls == std::vector<std::pair<Cycle, Cycle>>{{10, 1'000'003}});
  CHECK(sc_core::sc_time_stamp() == ps(1'000'003'000));
  CHECK(bench.domain.wakeups() == 2);
}

TEST_CASE("after a reset the clock is the first one, and the ticker is called as at first", "[domain]") {
  Bench bench(0, 1.0);
  Changer changer(bench.domain, 100, {0.25});
  bench.domain.set_ticker(changer, 100);
  for (const Cycle cycle : {Cycle{100}, Cycle{150}}) bench.domain.schedule(cycle, bench.recorder, 0, cycle);
  run_until_idle();
  CHECK(sc_core::sc_time_stamp() == ps(100'000 + 50 * 4'000));
  CHECK(bench.domain.clock().gigahertz() == Approx(0.25));
  bench.domain.reset();
  CHECK(bench.domain.clock().gigahertz() == Approx(1.0));
  CHECK(bench.domain.now() == 0);
  const sc_time before = sc_core::sc_time_stamp();
  bench.domain.schedule(150, bench.recorder, 0, 0);
  run_until_idle();
  CHECK(changer.calls.back() == std::pair<Cycle, Cycle>{100, 150});
  CHECK(sc_core::sc_time_stamp() - before == ps(150'000));
}

TEST_CASE("a failed check names the module whose event it was, the simulated time and the cycle", "[domain]") {
  SimFixture sim;
  Observation observation{"gpu0"};
  class Part final : public Block {
   public:
    Part(const sc_core::sc_module_name& name, Domain& d) : Block(name, d, "part") {}
    void on_event(std::uint32_t, std::uint64_t argument) override { HEDDLE_CHECK(argument < 2, "two is too many"); }
    void reset() override {}
    void collect_waits(WaitGraph&) const override {}
  };
  class Top final : public sc_core::sc_module {
   public:
    Top(const sc_core::sc_module_name& name, Observation& o)
        : sc_core::sc_module(name), domain("domain", 1.755, TimingMode::at, 1000, o), part("part", domain) {}
    Domain domain;
    Part part;
  };
  Top top("top", observation);
  top.domain.schedule(100, top.part, 0, 1);
  top.domain.schedule(1000, top.part, 0, 2);  // while the kernel is still at cycle 100
  const std::string message = failure_of([] { run_until_idle(); });
  CHECK_THAT(message, Contains("top.part at 570 ns (cycle 1000)"));
  CHECK_THAT(message, Contains("two is too many"));
  CHECK_THAT(message, Contains("argument < 2"));
  CHECK_THAT(message, Contains("domain_test.cpp:"));
  // Outside the domain nothing pretends to be in it any more.
  CHECK_THAT(failure_of([] { HEDDLE_CHECK(false, "no"); }), Contains("outside simulation"));
}

TEST_CASE("in lt mode links and decisions are free", "[domain]") {
  SimFixture sim;
  Observation observation{"gpu0"};
  Domain at("at", 1.0, TimingMode::at, 0, observation), lt("lt", 1.0, TimingMode::lt, 0, observation);
  CHECK(at.cost(17) == 17);
  CHECK(lt.cost(17) == 0);
  CHECK(at.mode() == TimingMode::at);
  CHECK(lt.mode() == TimingMode::lt);
}

TEST_CASE("a block puts its statistics below the device's prefix, and is reset and asked for waits",
          "[domain][block]") {
  SimFixture sim;
  Observation observation{"gpu7"};
  Domain domain("domain", 1.0, TimingMode::at, 0, observation);
  class Part final : public Block {
   public:
    Part(const sc_core::sc_module_name& name, Domain& d)
        : Block(name, d, "gpc0.gpm"), launches(counter("launches", "CTAs", "x")) {}
    void on_event(std::uint32_t, std::uint64_t) override {
      launches.add();
      progress();
      when = now();
    }
    void reset() override { ++resets; }
    void collect_waits(WaitGraph& graph) const override { graph.add("a", "needs", "b"); }
    Counter& launches;
    Cycle when = 0;
    int resets = 0;
  };
  Part part("part", domain);
  domain.schedule(12, part, 0);
  run_until_idle();
  CHECK(part.when == 12);
  CHECK(observation.progress == 1);
  CHECK(observation.stats.value("gpu7.gpc0.gpm.launches") == 1);
  WaitGraph graph;
  domain.collect_waits(graph);
  CHECK(graph.chain() == std::vector<std::string>{"a waits: needs b"});
  domain.reset();
  CHECK(part.resets == 1);
  CHECK(part.path() == "gpc0.gpm");
}

TEST_CASE("hundreds of simulations follow each other in one process", "[domain]") {
  for (int i = 0; i < 300; ++i) {
    Bench bench(1000);
    bench.domain.schedule(static_cast<Cycle>(i), bench.recorder, 0, 1);
    Thread thread("thread", [] { sc_core::wait(1, sc_core::SC_NS); });
    run_until_idle();
    REQUIRE(bench.recorder.seen.size() == 1);
  }
}

}  // namespace common_domain_test
