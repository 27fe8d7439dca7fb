// What divides bandwidth among subcontexts (PRT-11): the clock and the limit against their definitions, the lanes of a
// slice and the places in front of it against slow models of the same text, and slices over their sockets.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/bandwidth_table.h"
#include "memory/crossbar_places.h"
#include "memory/fair_share.h"
#include "memory/hbm_channel.h"
#include "memory/l2_bench.h"
#include "memory/l2_lanes.h"
#include "support/random.h"

namespace heddle::test::memory_bandwidth_shares_test {
namespace {

using arch::BandwidthTable;
using memory::CrossbarPlaces;
using memory::FairClock;
using memory::L2Lanes;
using memory::RateLimit;

BandwidthTable table_of(const std::vector<std::uint32_t>& shares) {
  BandwidthTable table;
  for (std::uint32_t i = 0; i < shares.size(); ++i) {
    if (shares[i] != 0) CHECK(table.set_share(i, shares[i]) == BandwidthTable::Refusal::none);
    table.use(i);
  }
  return table;
}

}  // namespace

TEST_CASE("who always asks is served by weight, whatever the others do", "[memory][PRT-11]") {
  for (const std::uint64_t round : seeds(40)) {
    CAPTURE(round);
    Random random(round);
    const BandwidthTable table = table_of({random.between(50, 300), random.between(50, 300), random.between(50, 300)});
    FairClock clock(table);
    constexpr std::uint32_t kLargest = 20;
    // 0 and 1 always ask; 2 comes and goes.
    std::array<double, 3> served{};
    std::array<double, 3> at_last{};
    double most_apart = 0;
    for (int step = 0; step < 5000; ++step) {
      const bool third = step / 100 % 2 == 0;
      std::uint32_t best = 0;
      for (std::uint32_t who = 1; who < (third ? 3U : 2U); ++who) {
        if (clock.tag(who) < clock.tag(best)) best = who;
      }
      const std::uint32_t cost = random.between(1, kLargest);
      clock.serve(best, cost);
      served[best] += cost;
      const double apart = served[0] / table.weight(0) - served[1] / table.weight(1);
      most_apart = std::max(most_apart, std::abs(apart));
      // While it asks it is behind neither of the others by more than a service of each.
      if (step % 100 == 0) at_last = served;
      if (third) {
        const double own = (served[2] - at_last[2]) / table.weight(2);
        const double other = (served[0] - at_last[0]) / table.weight(0);
        const double bound = 2.0 * kLargest / table.weight(2) + 2.0 * kLargest / table.weight(0);
        CHECK(std::abs(own - other) <= bound);
      }
    }
    CHECK(most_apart <=
          static_cast<double>(kLargest) / table.weight(0) + static_cast<double>(kLargest) / table.weight(1) + 0.01);
  }
}

TEST_CASE("a limit holds over every interval, and is reached by who always asks", "[memory][PRT-11]") {
  for (const std::uint64_t round : seeds(40)) {
    CAPTURE(round);
    Random random(round);
    BandwidthTable table;
    const std::uint32_t limit = random.between(10, 900);
    const std::uint32_t burst = random.between(1, 200);
    CHECK(table.set_limit(5, limit) == BandwidthTable::Refusal::none);
    RateLimit rate(table, burst);
    const double per_cycle = limit / 1000.0;
    std::vector<std::pair<Cycle, double>> taken;  // when, cycles of work
    Cycle now = 0;
    const bool greedy = random.below(2) == 0;
    double largest = 0;
    for (int i = 0; i < 600; ++i) {
      if (!greedy && random.below(20) == 0) now += random.between(1, 2000);
      const Cycle free = rate.free_at(5, now);
      REQUIRE(free >= now);
      if (free > now) CHECK(rate.free_at(5, free - 1) == free);  // not a cycle too late
      now = free;
      const std::uint32_t parts = random.between(1, 8 * RateLimit::kParts);
      largest = std::max(largest, static_cast<double>(parts) / RateLimit::kParts);
      rate.take(5, parts, now);
      taken.emplace_back(now, static_cast<double>(parts) / RateLimit::kParts);
      CHECK(rate.free_at(6, now) == now);  // others have no limit
    }
    for (std::size_t first = 0; first < taken.size(); first += 7) {
      double sum = 0;
      for (std::size_t last = first; last < taken.size(); ++last) {
        sum += taken[last].second;
        const double span = static_cast<double>(taken[last].first - taken[first].first);
        CHECK(sum <= per_cycle * span + burst + largest + per_cycle + 0.1);
      }
    }
    if (greedy) {
      double sum = 0;
      for (const auto& one : taken) sum += one.second;
      CHECK(sum >= per_cycle * static_cast<double>(now));
    }
  }
}

namespace {

// The lanes as the text has them: all that wait in one list, everything looked for anew in every round.
struct SlowLanes {
  struct Waiting {
    std::uint32_t number;
    std::uint32_t port;
    std::uint32_t who;
    Cycle ready;
    L2Lanes::Cost cost;
  };
  explicit SlowLanes(const BandwidthTable& shares) : table(shares) {}

  // Its first of that port.
  bool is_first(const Waiting& one) const {
    for (const Waiting& other : waiting) {
      if (other.port == one.port && other.who == one.who) return other.number == one.number;
    }
    return false;
  }
  double port_tag(std::uint32_t who) { return std::max(port_clock, port[who]); }
  double memory_tag(std::uint32_t who) { return std::max(memory_clock, memory[who]); }
  std::vector<const Waiting*> candidates(Cycle now, std::uint32_t ports) const {
    std::vector<const Waiting*> found;
    for (const Waiting& one : waiting) {
      if (is_first(one) && one.ready <= now && (ports >> one.port & 1U) != 0) found.push_back(&one);
    }
    return found;
  }

  const BandwidthTable& table;
  std::vector<Waiting> waiting;
  std::map<std::uint32_t, double> port;
  std::map<std::uint32_t, double> memory;
  double port_clock = 0;
  double memory_clock = 0;
};

}  // namespace

TEST_CASE("the lanes of a slice serve what the shares say", "[memory][PRT-11]") {
  for (const std::uint64_t round : seeds(60)) {
    CAPTURE(round);
    Random random(round);
    BandwidthTable table = table_of({random.between(1, 250), random.between(1, 250), random.between(1, 250)});
    L2Lanes lanes({&table, 32.0, 8}, nullptr);
    SlowLanes slow(table);
    std::uint32_t next_number = 1;
    Cycle now = 0;
    std::map<std::uint32_t, L2Lanes::Cost> costs;
    std::array<Cycle, 2> last_ready{};
    for (int step = 0; step < 1500; ++step) {
      now += random.below(4);
      for (std::uint32_t i = random.below(4); i > 0; --i) {
        const std::uint32_t port = random.below(2);
        const std::uint32_t who = random.below(3);
        last_ready[port] = std::max(last_ready[port], now + random.below(6));
        const L2Lanes::Cost cost{random.between(1, 2), random.below(2) * random.below(5),
                                 random.below(3) / 2 * random.below(5)};
        costs[next_number] = cost;
        lanes.enter(port, who, {reinterpret_cast<void*>(std::uintptr_t{next_number}), last_ready[port]});
        slow.waiting.push_back({next_number, port, who, last_ready[port], cost});
        ++next_number;
      }
      const std::uint32_t ports = random.below(4);
      lanes.begin_round(now, ports, [&](void* handle) {
        return costs.at(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle)));
      });
      auto offers = slow.candidates(now, ports);
      while (true) {
        // Among those for memory the least memory tag; against the others the least port tag; the earlier of equals.
        const SlowLanes::Waiting* to_memory = nullptr;
        const SlowLanes::Waiting* best = nullptr;
        const auto less = [&](const SlowLanes::Waiting* a, const SlowLanes::Waiting* b, bool memory) {
          const double of_a = memory ? slow.memory_tag(a->who) : slow.port_tag(a->who);
          const double of_b = memory ? slow.memory_tag(b->who) : slow.port_tag(b->who);
          if (of_a != of_b) return of_a < of_b;
          return a->ready != b->ready ? a->ready < b->ready : a->port * 64 + a->who < b->port * 64 + b->who;
        };
        for (const auto* one : offers) {
          if (one->cost.of_memory() > 0 && (to_memory == nullptr || less(one, to_memory, true))) to_memory = one;
        }
        best = to_memory;
        for (const auto* one : offers) {
          if (one->cost.of_memory() == 0 && (best == nullptr || less(one, best, false))) best = one;
        }
        const auto chosen = lanes.choose();
        REQUIRE(chosen.has_value() == (best != nullptr));
        if (best == nullptr) break;
        const auto number = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(lanes.front(*chosen).handle));
        REQUIRE(number == best->number);
        if (random.below(4) == 0) {
          const bool for_all = best->cost.of_memory() > 0 && random.below(2) == 0;
          lanes.stall(for_all);
          offers.erase(std::remove_if(offers.begin(), offers.end(),
                                      [&](const auto* one) {
                                        return one->number == number || (for_all && one->cost.of_memory() > 0);
                                      }),
                       offers.end());
          continue;
        }
        lanes.serve();
        // In the same whole steps as the tags, so that equals are equal.
        const auto add = [&](std::map<std::uint32_t, double>& tags, double& clock, std::uint64_t cost) {
          clock = std::max(clock, tags[best->who]);
          tags[best->who] = clock + static_cast<double>((cost << 20) / table.weight(best->who));
        };
        add(slow.port, slow.port_clock, best->cost.port_cycles * 256);
        if (best->cost.of_memory() > 0) add(slow.memory, slow.memory_clock, best->cost.of_memory() * 256);
        slow.waiting.erase(std::find_if(slow.waiting.begin(), slow.waiting.end(),
                                        [&](const SlowLanes::Waiting& one) { return one.number == number; }));
        break;
      }
      CHECK(lanes.empty() == slow.waiting.empty());
    }
  }
}

TEST_CASE("who has used up a limit is left out until it may go on, and its waits are counted", "[memory][PRT-11]") {
  Observation observation{"gpu0"};
  memory::OwnerAccounts owners(observation);
  BandwidthTable table;
  CHECK(table.set_limit(1, 100) == BandwidthTable::Refusal::none);
  L2Lanes lanes({&table, 32.0, 1}, &owners);  // a sector is a cycle of memory
  const auto cost = [](void*) { return L2Lanes::Cost{1, 3, 1}; };
  Cycle now = 0;
  std::uint32_t served = 0;
  Cycle first_wait = 0;
  for (std::uintptr_t i = 1; i <= 100; ++i) lanes.enter(0, 1, {reinterpret_cast<void*>(16 * i), 0});
  while (!lanes.empty()) {
    lanes.begin_round(now, 3, cost);
    if (const auto lane = lanes.choose()) {
      CHECK(*lane == 1);
      lanes.serve();
      ++served;
      ++now;
    } else {
      REQUIRE(lanes.again() > now);
      REQUIRE(lanes.again() != kNever);
      if (first_wait == 0) first_wait = now;
      now = lanes.again();
    }
  }
  // 400 cycles of memory at a tenth, less a burst of one cycle and the last request.
  CHECK(now >= 3950);
  CHECK(now <= 4000);
  CHECK(owners.of(1).limited.value() == 99);
  CHECK(owners.of(1).limited_cycles.value() > 3700);
  CHECK(owners.of(1).limited_cycles.value() < now);
}

TEST_CASE("places at slices are kept by weight, and the rest goes to who has least", "[memory][PRT-11]") {
  for (const std::uint64_t round : seeds(60)) {
    CAPTURE(round);
    Random random(round);
    constexpr std::uint32_t kWho = 4;
    BandwidthTable table;
    for (std::uint32_t who = 0; who < kWho; ++who) {
      CHECK(table.set_share(who, random.between(1, 250)) == BandwidthTable::Refusal::none);
    }
    const std::uint32_t queue = random.between(8, 64);
    CrossbarPlaces places(1, {&table, queue});
    std::array<std::uint32_t, kWho> taken{};
    std::array<std::deque<std::uint32_t>, kWho> waiting;
    std::uint32_t next = 0;
    const auto kept = [&](std::uint32_t who) {
      std::uint64_t sum = 0;
      for (std::uint32_t i = 0; i < kWho; ++i) sum += table.weight(i);
      return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, queue / 2 * std::uint64_t{table.weight(who)} / sum));
    };
    // Its own, or one that nobody's own is.
    const auto there_is = [&](std::uint32_t who) {
      if (taken[who] < kept(who)) return true;
      std::uint32_t used = 0;
      for (std::uint32_t i = 0; i < kWho; ++i) used += std::max(taken[i], kept(i));
      return used < queue;
    };
    const auto give_out = [&] {
      while (const auto got = places.next(0)) {
        // The one with least for its weight among those that can have one.
        std::optional<double> least;
        std::uint32_t owner = kWho;
        for (std::uint32_t who = 0; who < kWho; ++who) {
          if (waiting[who].empty()) continue;
          if (waiting[who].front() == *got) owner = who;
          if (!there_is(who)) continue;
          const double has = static_cast<double>(taken[who]) / table.weight(who);
          least = std::min(least.value_or(has), has);
        }
        REQUIRE(owner < kWho);
        REQUIRE(there_is(owner));
        CHECK(static_cast<double>(taken[owner]) / table.weight(owner) <= *least + 1e-9);
        waiting[owner].pop_front();
        ++taken[owner];
      }
      for (std::uint32_t who = 0; who < kWho; ++who) {
        if (!waiting[who].empty()) CHECK_FALSE(there_is(who));
      }
    };
    for (int step = 0; step < 1000; ++step) {
      const std::uint32_t who = random.below(kWho);
      if (random.below(2) == 0) {
        const bool expected = there_is(who);
        const bool got = places.take(0, who);
        CHECK(got == expected);
        if (got) {
          ++taken[who];
        } else {
          places.wait(0, who, next);
          waiting[who].push_back(next++);
        }
      } else if (taken[who] > 0) {
        places.give_back(0, who);
        --taken[who];
        give_out();
      }
      CHECK(places.kept(who) == kept(who));
      CHECK(places.taken(0, who) == taken[who]);
    }
    // Whoever waits is served in the end.
    for (std::uint32_t who = 0; who < kWho; ++who) {
      while (taken[who] > 0) {
        places.give_back(0, who);
        --taken[who];
        give_out();
      }
    }
    for (int again = 0; again < 100; ++again) {
      for (std::uint32_t who = 0; who < kWho; ++who) {
        if (taken[who] == 0) continue;
        places.give_back(0, who);
        --taken[who];
        give_out();
      }
    }
    for (const auto& queue_of : waiting) CHECK(queue_of.empty());
  }
}

TEST_CASE("a bank of HBM serves turns in their order, equals as they came", "[memory][PRT-11]") {
  for (const std::uint64_t round : seeds(40)) {
    CAPTURE(round);
    Random random(round);
    memory::HbmQueue queue(32, 4, 64);
    std::vector<std::pair<std::uint64_t, std::uint32_t>> waiting;  // of bank 1: turn, tag
    std::uint32_t next = 0;
    for (int step = 0; step < 400; ++step) {
      if (!queue.full() && random.below(2) == 0) {
        memory::HbmAccess access;
        access.bank = 1;
        access.row = 7;
        access.sectors = 1;
        access.tag = next++;
        const std::uint64_t turn = random.below(20);
        const bool last = queue.push(access, turn);
        CHECK(last == std::all_of(waiting.begin(), waiting.end(), [&](const auto& one) { return one.first <= turn; }));
        waiting.emplace_back(turn, access.tag);
        std::stable_sort(waiting.begin(), waiting.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        queue.find_hit(1, true, 7);
      } else if (!waiting.empty()) {
        CHECK(queue.oldest_age() == waiting.front().first);
        memory::HbmAccess access;
        REQUIRE(queue.take_column(1, access));
        CHECK(access.tag == waiting.front().second);
        waiting.erase(waiting.begin());
        queue.find_hit(1, true, 7);
      }
      CHECK(queue.size() == waiting.size());
    }
  }
}

}  // namespace heddle::test::memory_bandwidth_shares_test
