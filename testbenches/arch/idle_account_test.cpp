// Why SMs are idle, against a look at every SM in every cycle.
#include "arch/idle_account.h"

#include <algorithm>
#include <map>
#include <optional>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "support/random.h"

namespace arch_idle_account_test {

using namespace heddle;
using namespace heddle::test;

namespace {

using Work = IdleAccount::Work;

struct Bench {
  explicit Bench(std::uint32_t sms)
      : observation("gpu0"),
        time(TimingMode::at, observation),
        account(time, observation.stats, "gpu0", sms, observation.labels) {}

  void at(Cycle cycle) { time.run_until(cycle); }
  std::map<std::string, std::uint64_t> reasons() {
    account.settle();
    std::map<std::string, std::uint64_t> result;
    for (const IdleReasonRow& row : kIdleReasonRows) {
      if (account.cycles(row.reason) > 0) result[row.key] = account.cycles(row.reason);
    }
    return result;
  }

  GpuObservation observation;
  PlainTimebase time;
  IdleAccount account;
};

using Reasons = std::map<std::string, std::uint64_t>;

// A CTA's life, in cycles.
struct Life {
  std::uint32_t sm = 0;
  Cycle placed = 0;
  Cycle departs = 0;
  Cycle begins = 0;
  Cycle told_begin = 0;  // ahead of it
  Cycle ends = 0;
  Cycle told_end = 0;
  Cycle heard = 0;
};

Life random_life(Random& random, std::uint32_t sms, Cycle last) {
  Life life;
  life.sm = random.below(sms);
  life.placed = 1 + random.below(last);
  life.departs = life.placed + random.below(9);
  life.told_begin = life.departs + random.below(9);
  life.begins = life.told_begin + random.below(5);
  life.told_end = life.begins + random.below(60);
  life.ends = life.told_end + random.below(5);
  life.heard = life.ends + random.below(9);
  return life;
}

struct Stretch {  // what the next task waits for
  Cycle from = 0;
  std::optional<IdleReason> why;
};

}  // namespace

TEST_CASE("an SM has the reason that is its own, and else that of the next task", "[idle][CWD-47]") {
  Bench bench(4);
  IdleAccount& account = bench.account;
  account.set(Work::operations, 1);
  account.waits(IdleReason::deciding, 7, false);
  bench.at(10);
  account.sms().placed(2);
  bench.at(15);
  account.sms().departed(2);
  account.waits(IdleReason::cluster, 7, false);
  bench.at(18);
  account.begins(2, 20);  // it is known ahead
  bench.at(30);
  account.sms().switched(0, false);
  account.ends(2, 34);
  bench.at(40);
  account.sms().heard(2);
  account.waits_for_nothing(0, false);
  bench.at(50);
  CHECK(bench.reasons() == Reasons{{"deciding", 4 * 10 + 3 * 5},
                                   {"port", 5},
                                   {"way", 5},
                                   {"cluster", 3 * 15 + 2 * 10},
                                   {"completion", 6},
                                   {"off", 20},
                                   {"dependency", 3 * 10}});
  CHECK(bench.observation.stats.value("gpu0.sm_cycles") == 4 * 50);
}

TEST_CASE("without a task that waits, what keeps the next one from coming is the reason", "[idle][CWD-47]") {
  Bench bench(1);
  IdleAccount& account = bench.account;
  bench.at(3);  // nothing is submitted yet
  account.set(Work::operations, 2);
  account.set(Work::fronts, 1);
  bench.at(5);
  account.set(Work::fronts, 0);
  account.set(Work::prepared, 1);
  account.set(Work::tasks, 1);
  bench.at(9);
  account.waits_for_nothing(2, true);
  bench.at(11);
  account.waits_for_nothing(0, false);
  account.set(Work::prepared, 0);
  account.set(Work::open_tasks, 1);
  bench.at(12);  // it has been sent, and has not arrived
  account.waits_for_nothing(1, false);
  bench.at(13);  // it is there, as a queue that is open is, and has no entry
  account.set(Work::holds, 1);
  bench.at(16);
  account.set(Work::holds, 0);
  account.set(Work::copies, 1);
  bench.at(17);
  account.set(Work::copies, 0);
  account.set(Work::packets, 2);
  account.set(Work::signals, 1);
  bench.at(22);
  account.set(Work::packets, 1);
  bench.at(28);
  account.set(Work::packets, 0);
  account.set(Work::signals, 0);
  account.set(Work::tasks, 0);
  account.set(Work::operations, 0);
  bench.at(35);
  account.set(Work::operations, 1);
  bench.at(36);
  account.set(Work::operations, 0);
  bench.at(44);
  CHECK(bench.reasons() == Reasons{{"unsubmitted", 3 + 7},
                                   {"launch", 2 + 4 + 1},
                                   {"table", 2},
                                   {"dependency", 1 + 6 + 1},
                                   {"copy", 3 + 1},
                                   {"packets", 5},
                                   {"over", 8}});
}

TEST_CASE("a tail is one only where something waits for it", "[idle][CWD-47]") {
  Bench bench(2);
  IdleAccount& account = bench.account;
  account.set(Work::operations, 2);
  account.set(Work::tasks, 1);
  account.sms().placed(0);
  account.sms().departed(0);
  account.begins(0, 0);
  bench.at(10);
  account.set(Work::operations, 1);  // the other one was a copy of which nobody knows more
  bench.at(25);
  account.set(Work::ring, 1);
  bench.at(27);
  account.set(Work::ring, 0);
  account.ends(0, 27);
  bench.at(30);
  CHECK(bench.reasons() == Reasons{{"tail", 10 + 2}, {"alone", 15 + 2 * 3}});
  CHECK_THROWS_WITH(account.check_idle(), Catch::Contains("have not been heard of"));
  account.sms().heard(0);
  CHECK_NOTHROW(account.check_idle());
}

TEST_CASE("kernels have the idle time in front of them, between their CTAs and behind the last", "[idle][CWD-47]") {
  Bench bench(2);
  IdleAccount& account = bench.account;
  bench.observation.labels.set(0x4000'0001, "child #12");
  bench.at(5);
  account.set(Work::operations, 1);
  account.waits(IdleReason::deciding, 3, false);
  bench.at(7);
  account.waits(IdleReason::cluster, 3, false);
  bench.at(8);
  account.waits_for_nothing(0, false);
  account.set(Work::chains, 1);
  bench.at(12);
  account.set(Work::chains, 0);
  account.waits(IdleReason::quota, 0x4000'0001, true);
  bench.at(13);
  account.waits(IdleReason::deciding, 3, false);
  bench.at(15);
  account.settle();
  const std::vector<IdleKernels::Kernel> kernels = account.kernels().all();
  REQUIRE(kernels.size() == 2);
  const auto of = [&kernels](std::size_t kernel, IdleReason reason) {
    return kernels[kernel].cycles[static_cast<std::size_t>(reason)];
  };
  CHECK(kernels[0].operation == 3U);
  CHECK(of(0, IdleReason::host) == 2 * 5);
  CHECK(of(0, IdleReason::deciding) == 2 * (2 + 2));
  CHECK(of(0, IdleReason::cluster) == 2 * 1);
  CHECK_FALSE(kernels[1].operation);
  CHECK(kernels[1].name == "child");
  CHECK(of(1, IdleReason::launch) == 2 * 4);
  CHECK(of(1, IdleReason::quota) == 2 * 1);
}

TEST_CASE("every cycle of an SM without a CTA has one reason", "[idle][CWD-47]") {
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t sms = random.between(1, 6);
    const Cycle last = 200;
    std::vector<Life> lives;
    for (std::uint32_t i = random.below(30); i > 0; --i) lives.push_back(random_life(random, sms, last));
    std::vector<Stretch> stretches{{0, std::nullopt}};
    for (Cycle at = 1; at < last; at += random.between(1, 30)) {
      Stretch next{at, std::nullopt};
      if (random.chance(60)) next.why = static_cast<IdleReason>(random.between(4, 9));
      stretches.push_back(next);
    }
    const Cycle off_from = random.below(last);
    const std::uint32_t off_sm = random.below(sms);

    Bench bench(sms);
    IdleAccount& account = bench.account;
    account.set(Work::operations, 1);
    account.set(Work::tasks, 1);
    const Cycle end = last + 100;
    for (Cycle cycle = 0; cycle < end; ++cycle) {
      bench.at(cycle);
      for (const Life& life : lives) {
        if (life.placed == cycle) account.sms().placed(life.sm);
        if (life.departs == cycle) account.sms().departed(life.sm);
        if (life.told_begin == cycle) account.begins(life.sm, life.begins);
        if (life.told_end == cycle) account.ends(life.sm, life.ends);
        if (life.heard == cycle) account.sms().heard(life.sm);
      }
      for (const Stretch& stretch : stretches) {
        if (stretch.from != cycle) continue;
        if (stretch.why) account.waits(*stretch.why, 1, false);
        if (!stretch.why) account.waits_for_nothing(0, false);
      }
      if (cycle == off_from) account.sms().switched(off_sm, false);
    }
    bench.at(end);

    Reasons expected;
    for (Cycle cycle = 0; cycle < end; ++cycle) {
      std::optional<IdleReason> why;
      for (const Stretch& stretch : stretches) {
        if (stretch.from <= cycle) why = stretch.why;
      }
      const auto within = [cycle](Cycle from, Cycle until) { return from <= cycle && cycle < until; };
      const bool held =
          std::any_of(lives.begin(), lives.end(), [&](const Life& life) { return within(life.placed, life.heard); });
      for (std::uint32_t sm = 0; sm < sms; ++sm) {
        const auto any = [&](auto&& is) {
          return std::any_of(lives.begin(), lives.end(), [&](const Life& life) { return life.sm == sm && is(life); });
        };
        if (any([&](const Life& l) { return within(l.begins, l.ends); })) continue;
        std::string key = why ? kIdleReasonRows[static_cast<std::size_t>(*why)].key : held ? "alone" : "dependency";
        if (any([&](const Life& l) { return within(l.departs, l.begins); })) {
          key = "way";
        } else if (any([&](const Life& l) { return within(l.placed, l.departs); })) {
          key = "port";
        } else if (sm == off_sm && cycle >= off_from) {
          key = "off";
        } else if (why && any([&](const Life& l) { return within(l.ends, l.heard); })) {
          key = "completion";
        }
        ++expected[key];
      }
    }
    CHECK(bench.reasons() == expected);
    account.check_idle();
  }
}

}  // namespace arch_idle_account_test
