// A domain with a recorder of its events, beside processes that look on.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "common/domain.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace heddle::test::domains {

using sc_core::sc_time;

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

inline std::ostream& operator<<(std::ostream& os, const Seen& seen) {
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

inline sc_time ps(std::uint64_t value) { return sc_time::from_value(value); }

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

inline Story busy_story(Cycle run_ahead, std::uint64_t seed, double ghz, bool with_foreign) {
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
      Random dice(seed + 100 + static_cast<std::uint64_t>(t));
      for (int i = 0; i < 60; ++i) {
        // Now and then exactly on a cycle of the domain, the hardest case.
        if (dice.one_in(3)) {
          sc_core::wait(domain.delay_until(domain.now() + dice.between64(1, 50)));
        } else {
          sc_core::wait(ps(dice.between64(1, 40'000)));
        }
        sample();
        if (with_foreign && dice.one_in(2)) {
          const sc_time delay = domain.clock().period() + ps(dice.between64(0, 30'000));
          domain.schedule(domain.cycle_after(delay), recorder, 2, static_cast<std::uint64_t>(10'000 * (t + 1) + i));
        }
      }
    }));
  }
  Random method_dice(seed + 200);
  int method_runs = 0;
  Method method("method", [&] {
    sample();
    if (++method_runs < 80) sc_core::next_trigger(ps(method_dice.between64(1, 25'000)));
  });
  run_until_idle();
  story.seen = recorder.seen;
  story.wakeups = domain.wakeups();
  return story;
}

}  // namespace heddle::test::domains
