// The parts of a warp engine by themselves, against plain oracles.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cta_table.h"
#include "sm/l2_port.h"
#include "sm/sub_partition.h"
#include "sm/warp.h"
#include "support/random.h"

namespace sm_cores_test {

using heddle::Cycle;
using heddle::kNever;
using heddle::arch::OperationNeeds;
using heddle::arch::RegisterRange;
using heddle::arch::Unit;
using heddle::sm::CtaBarriers;
using heddle::sm::FenceTracker;
using heddle::sm::IssuePort;
using heddle::sm::Scoreboard;
using heddle::sm::SubPartition;
using heddle::sm::WarpPolicy;
using heddle::test::Random;

namespace {

constexpr std::uint32_t kRegisters = 12;

RegisterRange some_registers(Random& random) {
  const auto first = static_cast<std::uint16_t>(random.below(kRegisters));
  return {first, static_cast<std::uint16_t>(random.below(kRegisters - first + 1))};
}

}  // namespace

TEST_CASE("a scoreboard says when the last register of a demand is ready", "[sm][SM-03]") {
  for (const std::uint64_t seed : heddle::test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    Scoreboard board;
    board.start(kRegisters);
    std::vector<Cycle> ready(kRegisters, 0);
    std::vector<bool> chained(kRegisters, false);
    for (int i = 0; i < 200; ++i) {
      const RegisterRange range = some_registers(random);
      const Cycle when = random.chance(20) ? kNever : random.below(1000);
      const bool chain = random.chance(30);
      if (chain) {
        board.accumulate(range, when);
      } else {
        board.write(range, when);
      }
      for (std::uint32_t r = range.first; r < range.first + std::uint32_t{range.count}; ++r) {
        ready[r] = when;
        chained[r] = chain;
      }
      OperationNeeds demand;
      for (std::uint32_t n = random.below(3); n > 0; --n) demand.reads.push_back(some_registers(random));
      for (std::uint32_t n = random.below(2); n > 0; --n) demand.writes.push_back(some_registers(random));
      if (random.chance(30)) demand.accumulators = some_registers(random);
      const Cycle now = random.below(1000);
      Cycle expected = now;
      const auto need = [&](const RegisterRange& of, bool skip) {
        for (std::uint32_t r = of.first; r < of.first + std::uint32_t{of.count}; ++r) {
          if (!skip || !chained[r]) expected = std::max(expected, ready[r]);
        }
      };
      for (const RegisterRange& of : demand.reads) need(of, false);
      for (const RegisterRange& of : demand.writes) need(of, false);
      need(demand.accumulators, true);
      REQUIRE(board.ready(demand, now) == expected);
      REQUIRE(board.under_way() == static_cast<std::uint32_t>(std::count(ready.begin(), ready.end(), kNever)));
    }
  }
}

TEST_CASE("a register that the program did not ask for is refused", "[sm]") {
  Scoreboard board;
  board.start(4);
  CHECK_THROWS_AS(board.write({3, 2}, 10), heddle::CheckFailed);
  board.write({0, 1}, 10);
  OperationNeeds demand;
  demand.reads = {{4, 1}};
  CHECK_THROWS_AS(board.ready(demand, 0), heddle::CheckFailed);
}

TEST_CASE("a partition chooses by its policy among the warps that can issue", "[sm][SM-01]") {
  struct Slot {
    bool used = false;
    std::uint64_t age = 0;
    Cycle when = kNever;
    Unit unit = Unit::none;
  };
  constexpr std::uint32_t kSlots = 6;
  const Unit units[] = {Unit::none, Unit::fp32, Unit::sfu, Unit::memory};
  for (const WarpPolicy policy : {WarpPolicy::greedy_oldest, WarpPolicy::round_robin}) {
    for (const std::uint64_t seed : heddle::test::seeds(200)) {
      CAPTURE(seed);
      Random random(seed);
      SubPartition partition(policy, kSlots);
      std::vector<Slot> slots(kSlots);
      std::vector<Cycle> unit_free(heddle::arch::kUnits, 0);
      Cycle port_free = 0;
      Cycle memory_free = 0;
      std::uint32_t last = SubPartition::kNone;
      std::uint64_t age = 0;
      for (Cycle now = 0; now < 300; now += random.below(3)) {
        for (std::uint32_t s = 0; s < kSlots; ++s) {
          if (!slots[s].used && random.chance(20)) {
            slots[s] = {true, ++age, kNever, Unit::none};
            partition.enter(s, age);
          } else if (slots[s].used && random.chance(3)) {
            slots[s].used = false;
            slots[s].when = kNever;
            partition.leave(s);
            if (last == s && policy == WarpPolicy::greedy_oldest) last = SubPartition::kNone;
          } else if (slots[s].used && slots[s].when == kNever && random.chance(50)) {
            slots[s].when = now + random.below(6);
            slots[s].unit = units[random.below(4)];
            partition.ready(s, slots[s].when, slots[s].unit);
          }
        }
        if (random.chance(30)) memory_free = now + random.below(4);
        const auto free_of = [&](const Slot& slot) {
          return slot.unit == Unit::memory ? memory_free : unit_free[static_cast<std::size_t>(slot.unit)];
        };
        // The oracle: whoever can, in the order of the policy.
        std::vector<std::uint32_t> order;
        Cycle next = kNever;
        for (std::uint32_t s = 0; s < kSlots; ++s) {
          if (slots[s].when == kNever) continue;
          const Cycle can = std::max({slots[s].when, free_of(slots[s]), port_free});
          next = std::min(next, can);
          if (can <= now) order.push_back(s);
        }
        REQUIRE(partition.next(memory_free) == next);
        std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
          if (policy == WarpPolicy::greedy_oldest) {
            if ((a == last) != (b == last)) return a == last;
            return slots[a].age < slots[b].age;
          }
          const std::uint32_t base = last == SubPartition::kNone ? kSlots - 1 : last;
          return (a + kSlots - base - 1) % kSlots < (b + kSlots - base - 1) % kSlots;
        });
        const std::uint32_t chosen = partition.choose(now, memory_free);
        REQUIRE(chosen == (order.empty() ? SubPartition::kNone : order.front()));
        if (chosen == SubPartition::kNone) continue;
        const std::uint64_t count = random.between(1, 3);
        const Cycle interval = random.between(1, 8);
        partition.issued(chosen, now, count, interval);
        port_free = now + count;
        unit_free[static_cast<std::size_t>(slots[chosen].unit)] = now + count * interval;
        last = chosen;
        slots[chosen].when = kNever;
        partition.block(chosen);
        if (random.chance(20)) {
          partition.end_burst();
          if (policy == WarpPolicy::greedy_oldest) last = SubPartition::kNone;
          slots[chosen].when = now + 1;
          partition.ready(chosen, now + 1, slots[chosen].unit);
        }
      }
    }
  }
}

TEST_CASE("a killed warp gives back what it would have used", "[sm][SM-01]") {
  SubPartition partition(WarpPolicy::greedy_oldest, 3);
  for (const std::uint32_t slot : {0U, 1U, 2U}) partition.enter(slot, slot);
  partition.ready(0, 0, Unit::sfu);
  partition.issued(0, 10, 100, 8);
  partition.block(0);
  partition.ready(1, 0, Unit::sfu);
  REQUIRE(partition.next(0) == 810);
  partition.cut(2, 30);  // not its own
  REQUIRE(partition.next(0) == 810);
  partition.cut(0, 30);
  CHECK(partition.next(0) == 34);  // begun at 10, 18 and 26
  partition.ready(1, 0, Unit::int32);
  CHECK(partition.next(0) == 30);
  // One that has just begun goes on, and a cut never takes longer than what was to come.
  partition.issued(1, 40, 1, 16);
  partition.cut(1, 40);
  CHECK(partition.next(0) == 56);
  partition.cut(1, 500);
  CHECK(partition.next(0) == 56);
}

TEST_CASE("the memory port serves in order, and holds back who finds its queue full", "[sm][SM-03]") {
  for (const std::uint64_t seed : heddle::test::seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t places = random.between(1, 5);
    IssuePort port(places, 1);
    std::vector<Cycle> begins;
    Cycle end = 0;
    Cycle now = 0;
    for (int i = 0; i < 300; ++i) {
      now = std::max(now + random.below(4), port.free());
      // Those that have not begun are in the queue: with this one, no more than it has places.
      const auto waiting = std::count_if(begins.begin(), begins.end(), [now](Cycle begin) { return begin > now; });
      REQUIRE(static_cast<std::uint32_t>(waiting) < places);
      const Cycle cycles = random.between(1, 6);
      const Cycle begin = port.take(now, cycles);
      REQUIRE(begin == std::max(now, end));
      end = begin + cycles;
      begins.push_back(begin);
      const auto queued = std::count_if(begins.begin(), begins.end(), [now](Cycle at) { return at > now; });
      if (static_cast<std::uint32_t>(queued) >= places) REQUIRE(port.free() > now);
      if (static_cast<std::uint32_t>(queued) < places) REQUIRE(port.free() <= now);
    }
  }
}

TEST_CASE("a mark is done when all requests before it have ended", "[sm][MEM-06]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    FenceTracker ledger;
    struct Request {
      std::uint64_t number;
      FenceTracker::Epoch group;
    };
    struct Mark {
      std::uint64_t number;  // of the first request behind it
      FenceTracker::Epoch mark;
    };
    std::vector<Request> open;
    std::vector<Mark> marks;
    std::uint64_t number = 0;
    Cycle latest = 0;
    for (int i = 0; i < 400; ++i) {
      const std::uint32_t what = random.below(10);
      if (what < 4) open.push_back({number++, ledger.begin()});
      if (what >= 4 && what < 8 && !open.empty()) {
        const std::size_t which = random.below(open.size());
        const Cycle arrival = random.below(1000);
        latest = std::max(latest, arrival);
        ledger.end(open[which].group, arrival);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (what >= 8) marks.push_back({number, ledger.epoch()});
      REQUIRE(ledger.open() == open.size());
      REQUIRE(ledger.latest() == latest);
      for (const Mark& mark : marks) {
        const bool done =
            std::none_of(open.begin(), open.end(), [&](const Request& one) { return one.number < mark.number; });
        REQUIRE(ledger.done(mark.mark) == done);
      }
    }
  }
}

TEST_CASE("barriers open for exactly those that they wait for", "[sm][SM-02]") {
  for (const std::uint64_t seed : heddle::test::seeds(500)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t warps = random.between(1, 8);
    CtaBarriers barriers;
    barriers.start(warps);
    struct Barrier {
      std::uint32_t threads = 0;
      std::vector<std::uint32_t> waiting;
    };
    std::vector<Barrier> oracle(CtaBarriers::kBarriers);
    std::vector<int> state(warps, 0);  // 0 runs, 1 waits, 2 has exited
    std::uint32_t left = warps;
    for (int i = 0; i < 60; ++i) {
      std::vector<std::uint32_t> running;
      for (std::uint32_t w = 0; w < warps; ++w) {
        if (state[w] == 0) running.push_back(w);
      }
      if (running.empty()) break;
      const std::uint32_t warp = running[random.below(running.size())];
      std::vector<std::uint32_t> opened;
      bool wrong = false;
      CtaBarriers::Outcome outcome{};
      const auto settle = [&] {
        for (Barrier& barrier : oracle) {
          if (barrier.waiting.empty()) continue;
          const std::uint32_t needed = barrier.threads == 0 ? left : barrier.threads / 32;
          wrong |= needed > left;
          if (wrong || barrier.waiting.size() < needed) continue;
          opened.insert(opened.end(), barrier.waiting.begin(), barrier.waiting.end());
          barrier.waiting.clear();
        }
      };
      if (random.chance(12)) {
        state[warp] = 2;
        --left;
        outcome = barriers.leave();
      } else {
        const std::uint32_t number = random.chance(3) ? 16 + random.below(5) : random.below(3);
        const std::uint32_t threads =
            random.chance(3) ? random.below(400) : (random.chance(50) ? 0 : 32 * random.between(1, warps));
        outcome = barriers.arrive(number, threads, warp);
        wrong = number >= 16 || threads % 32 != 0 || threads > 32 * warps ||
                (!oracle[number].waiting.empty() && oracle[number].threads != threads);
        if (!wrong) {
          state[warp] = 1;
          oracle[number].threads = threads;
          oracle[number].waiting.push_back(warp);
        }
      }
      if (!wrong) settle();
      REQUIRE((outcome == CtaBarriers::Outcome::wrong) == wrong);
      if (wrong) break;
      REQUIRE((outcome == CtaBarriers::Outcome::opens) == !opened.empty());
      std::vector<std::uint32_t> got = barriers.opened();
      std::sort(got.begin(), got.end());
      std::sort(opened.begin(), opened.end());
      REQUIRE(got == opened);
      for (const std::uint32_t w : opened) state[w] = 0;
    }
  }
}

}  // namespace sm_cores_test
