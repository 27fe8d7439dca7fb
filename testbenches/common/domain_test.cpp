// A domain's events against SystemC time: when they run, and what other processes see meanwhile.
#include "common/domain.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/block.h"
#include "support/seed.h"
#include "support/sim_fixture.h"

using namespace heddle;
using Catch::Contains;
using sc_core::sc_time;
using test::Dice;
using test::failure_of;
using test::run_until;
using test::run_until_idle;
using test::scramble;
using test::SimFixture;

namespace {

struct Seen {
  sc_time time;   // of the domain
  sc_time stamp;  // of the kernel
  Cycle cycle;
  std::uint32_t kind;
  std::uint64_t argument;
  bool operator==(const Seen& other) const {  // the stamp depends on how far the domain runs ahead
    return time == other.time && cycle == other.cycle && kind == other.kind && argument == other.argument;
  }
};

std::ostream& operator<<(std::ostream& os, const Seen& seen) {
  return os << seen.kind << "/" << seen.argument << " in cycle " << seen.cycle << " at " << seen.time;
}

struct Recorder final : EventHandler {
  explicit Recorder(Domain& domain_) : domain(domain_) {}
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    seen.push_back({domain.clock().time_of(domain.now()), sc_core::sc_time_stamp(), domain.now(), kind, argument});
    if (then) then(kind, argument);
  }
  std::vector<std::uint64_t> arguments() const {
    std::vector<std::uint64_t> result;
    for (const Seen& s : seen) result.push_back(s.argument);
    return result;
  }
  Domain& domain;
  std::vector<Seen> seen;
  std::function<void(std::uint32_t, std::uint64_t)> then;
};

// A process that does what a test wants, as software on a virtual platform would.
class Thread final : public sc_core::sc_module {
 public:
  Thread(const sc_core::sc_module_name& name, std::function<void()> body)
      : sc_core::sc_module(name), body_(std::move(body)) {
    SC_HAS_PROCESS(Thread);
    SC_THREAD(run);
  }

 private:
  void run() { body_(); }
  std::function<void()> body_;
};

class Method final : public sc_core::sc_module {
 public:
  Method(const sc_core::sc_module_name& name, std::function<void()> body)
      : sc_core::sc_module(name), body_(std::move(body)) {
    SC_HAS_PROCESS(Method);
    SC_METHOD(run);
  }

 private:
  void run() { body_(); }
  std::function<void()> body_;
};

struct Bench {
  explicit Bench(Cycle run_ahead, double ghz = 1.755, TimingMode mode = TimingMode::at)
      : domain("domain", ghz, mode, run_ahead, observation), recorder(domain) {}
  SimFixture sim;
  Observation observation{"gpu0"};
  Domain domain;
  Recorder recorder;
};

sc_time ps(std::uint64_t value) { return sc_time::from_value(value); }

// A system whose events beget events, beside processes that enter events and look at the state.
struct Sample {
  sc_time time;
  std::size_t events;  // how many had run
};

struct Story {
  std::vector<Seen> seen;
  std::vector<Sample> samples;
  std::uint64_t wakeups = 0;
};

Story busy_story(Cycle run_ahead, std::uint64_t seed, double ghz, bool with_foreign) {
  Bench bench(run_ahead, ghz);
  Domain& domain = bench.domain;
  Recorder& recorder = bench.recorder;
  Story story;
  std::uint64_t children = 0;
  recorder.then = [&](std::uint32_t, std::uint64_t argument) {
    const std::uint64_t hash = scramble(seed ^ scramble(argument));
    for (std::uint64_t i = 0; i < hash % 3 && children < 600; ++i, ++children) {
      const std::uint64_t detail = scramble(hash + i);
      const Cycle delay = detail % 4 == 0 ? 0 : detail % 16 == 1 ? detail / 16 % 20'000 : detail / 16 % 60;
      domain.schedule_in(delay, recorder, 1, 1'000 + children);
    }
  };
  for (std::uint64_t i = 0; i < 12; ++i) domain.schedule(scramble(seed + i) % 4'000, recorder, 0, i);

  const auto sample = [&] { story.samples.push_back({sc_core::sc_time_stamp(), recorder.seen.size()}); };
  std::vector<std::unique_ptr<Thread>> threads;
  for (int t = 0; t < 2; ++t) {
    threads.push_back(std::make_unique<Thread>(sc_core::sc_gen_unique_name("thread"), [&, t] {
      Dice dice(seed + 100 + static_cast<std::uint64_t>(t));
      for (int i = 0; i < 60; ++i) {
        // Now and then exactly on a cycle of the domain, the hardest case.
        if (dice.one_in(3)) {
          sc_core::wait(domain.delay_until(domain.now() + dice.between(1, 50)));
        } else {
          sc_core::wait(ps(dice.between(1, 40'000)));
        }
        sample();
        if (with_foreign && dice.one_in(2)) {
          const sc_time delay = domain.clock().period() + ps(dice.between(0, 30'000));
          domain.schedule(domain.cycle_after(delay), recorder, 2, static_cast<std::uint64_t>(10'000 * (t + 1) + i));
        }
      }
    }));
  }
  Dice method_dice(seed + 200);
  int method_runs = 0;
  Method method("method", [&] {
    sample();
    if (++method_runs < 80) sc_core::next_trigger(ps(method_dice.between(1, 25'000)));
  });
  run_until_idle();
  story.seen = recorder.seen;
  story.wakeups = domain.wakeups();
  return story;
}

}  // namespace

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
  HEDDLE_DICE(dice);
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
  HEDDLE_DICE(dice);
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
  HEDDLE_DICE(dice);
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
      Dice own(seed);
      for (epoch = 0; epoch < 12; ++epoch) {
        for (int i = 0; i < 5; ++i) {
          const Cycle when = own.one_in(4) ? own.between(0, 40'000) : own.between(0, 50);
          domain.schedule(when, bench.recorder, static_cast<std::uint32_t>(epoch), when);
        }
        sc_core::wait(ps(own.between(0, 300'000)));
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
  CHECK(observation.stats.to_json().at("gpu7.gpc0.gpm.launches").at("value") == 1);
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
