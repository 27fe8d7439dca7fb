// Filling the lake against a reference that places one CTA at a time, straight from the specification.
#include "cwd/lake_fill.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "common/error.h"
#include "support/random.h"

namespace cwd_lake_fill_test {

using heddle::CheckFailed;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::LakeFill;
using heddle::cwd::LakeOptions;
using heddle::cwd::LevelSearch;
using heddle::cwd::Placement;
using heddle::cwd::SmMask;
using heddle::test::Random;

namespace {

using Slots = std::vector<std::uint16_t>;
using Order = std::vector<std::uint32_t>;

// One entry per level that receives CTAs: the level, and the SMs that receive one, in the order of service.
struct ReferenceLevel {
  std::uint32_t level;
  std::vector<std::uint32_t> sms;
};

// One CTA at a time: it goes to the SM with most free slots, among equals to the first in priority order.
std::vector<ReferenceLevel> reference(Slots slots, std::uint64_t ctas, const Order& priority) {
  std::vector<ReferenceLevel> result;
  for (; ctas > 0; --ctas) {
    std::uint32_t best = priority.front();
    for (const std::uint32_t sm : priority) {
      if (slots[sm] > slots[best]) best = sm;
    }
    const std::uint32_t level = slots[best];
    if (level == 0) break;
    if (result.empty() || result.back().level != level) result.push_back({level, {}});
    result.back().sms.push_back(best);
    --slots[best];
  }
  return result;
}

std::vector<std::uint32_t> members(const SmMask& mask, const Topology& topology) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    if ((mask[topology.sm(id).gpc] >> topology.sm(id).in_gpc & 1) != 0) ids.push_back(id);
  }
  return ids;
}

std::uint64_t population(const SmMask& mask) {
  std::uint64_t count = 0;
  for (const std::uint64_t word : mask) count += heddle::bits::count(word);
  return count;
}

std::uint32_t bits_of(std::uint32_t value) {
  std::uint32_t bits = 0;
  for (; value != 0; value >>= 1) ++bits;
  return bits;
}

Order random_priority(Random& random, std::uint32_t sms) {
  Order order(sms);
  std::iota(order.begin(), order.end(), 0U);
  switch (random.below(3)) {
    case 0:
      return order;
    case 1:
      std::reverse(order.begin(), order.end());
      return order;
    default:
      return random.permutation(sms);
  }
}

void expect_equal(const Placement& placement, const std::vector<ReferenceLevel>& wanted, const Topology& topology) {
  REQUIRE(placement.levels.size() == wanted.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::vector<std::uint32_t> sms = wanted[i].sms;
    std::sort(sms.begin(), sms.end());
    REQUIRE(placement.levels[i].level == wanted[i].level);
    REQUIRE(placement.levels[i].ctas == sms.size());
    REQUIRE(population(placement.levels[i].mask) == sms.size());  // no bit without an SM
    REQUIRE(members(placement.levels[i].mask, topology) == sms);
    total += sms.size();
  }
  REQUIRE(placement.ctas == total);
}

}  // namespace

TEST_CASE("a lake of four SMs fills by hand", "[cwd][CWD-03][CWD-05]") {
  const Topology topology(Shape::from_sms_per_gpc({2, 2}));
  LakeFill lake(topology, 8, LevelSearch::scan, {0, 1, 2, 3});
  // Levels 3: SM 0. 2: SMs 0 and 2. 1: SMs 0, 2, 3 (SM 1 is full) of which the last two CTAs take the first two.
  const Placement placement = lake.place({3, 0, 2, 1}, 5);
  REQUIRE(placement.ctas == 5);
  REQUIRE(placement.levels.size() == 3);
  CHECK(members(placement.levels[0].mask, topology) == Order{0});
  CHECK(members(placement.levels[1].mask, topology) == Order{0, 2});
  CHECK(members(placement.levels[2].mask, topology) == Order{0, 2});
  CHECK(placement.levels[2].level == 1);
  CHECK(placement.steps == 3);
}

TEST_CASE("random machines fill as the reference, CTA by CTA", "[cwd][CWD-03][CWD-04][CWD-05][CWD-06][CWD-07]") {
  for (const std::uint64_t seed : heddle::test::seeds(4000)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology topology(random.shape(random.between(1, 8)));
    const std::uint32_t max_slots = random.between(1, 64);
    const Order priority = random_priority(random, topology.sms());
    LakeFill scan(topology, max_slots, LevelSearch::scan, priority);
    LakeFill bisection(topology, max_slots, LevelSearch::bisection, priority);
    // Several placements by the same object: nothing of one may leak into the next.
    for (int round = 0; round < 3; ++round) {
      Slots slots(topology.sms());
      const std::uint32_t ceiling = random.between(0, max_slots);
      for (std::uint16_t& count : slots) {
        count = static_cast<std::uint16_t>(random.chance(20) ? 0 : random.between(0, ceiling));
      }
      const std::uint64_t capacity = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
      const std::uint64_t ctas = random.chance(10) ? capacity : random.below(capacity + capacity / 4 + 2);
      const std::vector<ReferenceLevel> wanted = reference(slots, ctas, priority);

      const Placement by_scan = scan.place(slots, ctas);
      const Placement by_bisection = bisection.place(slots, ctas);
      expect_equal(by_scan, wanted, topology);
      expect_equal(by_bisection, wanted, topology);
      CHECK(by_scan.ctas == std::min(ctas, capacity));

      const bool nothing = ctas == 0 || capacity == 0;
      CHECK(by_scan.steps == (nothing ? 0 : wanted.size()));
      CHECK(by_bisection.steps == (nothing ? 0 : bits_of(max_slots)));

      Slots left = slots;
      for (const auto& level : by_bisection.levels) {
        for (const std::uint32_t sm : members(level.mask, topology)) {
          REQUIRE(left[sm] > 0);
          --left[sm];
        }
      }
    }
  }
}

TEST_CASE("the final level goes to those with a small exclusive prefix count", "[cwd][CWD-05]") {
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology topology(random.shape(6));
    const Order priority = random_priority(random, topology.sms());
    SmMask candidates(topology.gpcs(), 0);
    for (std::uint32_t id = 0; id < topology.sms(); ++id) {
      if (random.chance(60)) candidates[topology.sm(id).gpc] |= std::uint64_t{1} << topology.sm(id).in_gpc;
    }
    const std::uint64_t remaining = random.below(topology.sms() + 2);

    std::vector<std::uint32_t> wanted;
    for (std::size_t i = 0; i < priority.size(); ++i) {
      const auto is_candidate = [&](std::uint32_t id) {
        return (candidates[topology.sm(id).gpc] >> topology.sm(id).in_gpc & 1) != 0;
      };
      std::uint64_t before = 0;
      for (std::size_t j = 0; j < i; ++j) before += is_candidate(priority[j]) ? 1 : 0;
      if (is_candidate(priority[i]) && before < remaining) wanted.push_back(priority[i]);
    }
    std::sort(wanted.begin(), wanted.end());
    const SmMask selected = heddle::cwd::select_by_prefix(candidates, remaining, priority, topology);
    REQUIRE(members(selected, topology) == wanted);
    REQUIRE(population(selected) == wanted.size());
  }
}

TEST_CASE("both searches find the same final level for every histogram", "[cwd][CWD-04]") {
  for (const std::uint64_t seed : heddle::test::seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t levels = random.between(1, 64);
    std::vector<std::uint32_t> at_least(random.between(1, levels) + 1);
    for (std::size_t level = at_least.size(); level-- > 0;) {
      const std::uint32_t above = level + 1 < at_least.size() ? at_least[level + 1] : 1;  // the highest level exists
      at_least[level] = above + (random.chance(30) ? 0 : random.below(40));
    }
    const std::uint64_t capacity = std::accumulate(at_least.begin() + 1, at_least.end(), std::uint64_t{0});
    const std::uint64_t ctas = random.below(capacity + 3);

    // From the specification: the highest level down to which all the CTAs find a place; the lowest if they do not.
    std::uint32_t wanted = 0;
    std::uint64_t above = 0;
    if (ctas > 0) {
      wanted = static_cast<std::uint32_t>(at_least.size() - 1);
      while (wanted > 1 && above + at_least[wanted] < ctas) above += at_least[wanted--];
    }
    for (const LevelSearch method : {LevelSearch::scan, LevelSearch::bisection}) {
      const auto found = heddle::cwd::find_final_level(at_least, ctas, method, levels);
      CHECK(found.level == wanted);
      CHECK(found.above == above);
    }
  }
}

TEST_CASE("an H100's level search takes few steps", "[cwd][CWD-04]") {
  const Topology topology(Shape::from_sms_per_gpc({18, 18, 18, 18, 16, 16, 14, 14}));
  Order priority(topology.sms());
  std::iota(priority.begin(), priority.end(), 0U);
  const Slots slots(topology.sms(), 32);
  LakeFill scan(topology, 32, LevelSearch::scan, priority);
  LakeFill bisection(topology, 32, LevelSearch::bisection, priority);
  CHECK(scan.place(slots, 132).steps == 1);
  CHECK(scan.place(slots, 133).steps == 2);
  CHECK(scan.place(slots, 132 * 32).steps == 32);
  for (const std::uint64_t ctas : {1, 132, 133, 132 * 32, 1'000'000}) CHECK(bisection.place(slots, ctas).steps == 6);
}

TEST_CASE("slots beyond the machine's limit and broken orders are refused", "[cwd][CWD-07]") {
  const Topology topology(Shape::from_sms_per_gpc({2}));
  LakeFill lake(topology, 4, LevelSearch::scan, {1, 0});
  CHECK_THROWS_AS(lake.place({5, 0}, 1), CheckFailed);
  CHECK_THROWS_AS(LakeFill(topology, 4, LevelSearch::scan, {0, 0}), CheckFailed);
  CHECK_THROWS_AS(LakeFill(topology, 4, LevelSearch::scan, {0}), CheckFailed);
  CHECK(lake.place({0, 0}, 7).ctas == 0);
  CHECK(lake.place({3, 3}, 0).ctas == 0);
}

TEST_CASE("a lake of some GPCs leaves the others alone", "[cwd][CWD-03][CWD-05][CWD-09]") {
  for (const std::uint64_t seed : heddle::test::seeds(1500)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology topology(random.shape(random.between(1, 8)));
    const Order priority = random_priority(random, topology.sms());
    LakeOptions options;
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      if (random.chance(50)) options.gpcs.push_back(g);
    }
    if (options.gpcs.empty()) options.gpcs.push_back(random.below(topology.gpcs()));
    const LevelSearch method = random.chance(50) ? LevelSearch::scan : LevelSearch::bisection;
    LakeFill lake(topology, 8, method, priority, options);
    Slots slots(topology.sms());
    Slots inside(topology.sms(), 0);
    for (std::uint32_t id = 0; id < topology.sms(); ++id) {
      slots[id] = static_cast<std::uint16_t>(random.below(9));
      const std::uint32_t gpc = topology.sm(id).gpc;
      if (std::count(options.gpcs.begin(), options.gpcs.end(), gpc) > 0) inside[id] = slots[id];
    }
    const std::uint64_t ctas = random.below(8 * topology.sms() + 2);
    expect_equal(lake.place(slots, ctas), reference(inside, ctas, priority), topology);
  }
}

TEST_CASE("one CTA at a time: the same places, in the order of the reference, a step each", "[cwd][CWD-08]") {
  for (const std::uint64_t seed : heddle::test::seeds(1500)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology topology(random.shape(random.between(1, 6)));
    const Order priority = random_priority(random, topology.sms());
    LakeOptions options;
    options.one_at_a_time = true;
    LakeFill lake(topology, 8, LevelSearch::bisection, priority, options);
    Slots slots(topology.sms());
    for (std::uint16_t& count : slots) count = static_cast<std::uint16_t>(random.below(random.between(1, 9)));
    const std::uint64_t capacity = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
    const std::uint64_t ctas = random.below(capacity + 5);

    std::vector<std::pair<std::uint32_t, std::uint32_t>> wanted;  // level and SM
    for (const ReferenceLevel& level : reference(slots, ctas, priority)) {
      for (const std::uint32_t sm : level.sms) wanted.emplace_back(level.level, sm);
    }
    const Placement& placement = lake.place(slots, ctas);
    REQUIRE(placement.ctas == std::min(ctas, capacity));
    REQUIRE(placement.steps == placement.ctas);
    REQUIRE(placement.levels.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      REQUIRE(placement.levels[i].level == wanted[i].first);
      REQUIRE(placement.levels[i].ctas == 1);
      REQUIRE(members(placement.levels[i].mask, topology) == Order{wanted[i].second});
      REQUIRE(population(placement.levels[i].mask) == 1);
    }
  }
}

TEST_CASE("8 CTAs on each of 128 SMs: over 1,000 steps one at a time, a few in parallel", "[cwd][CWD-08][CWD-04]") {
  const Topology topology(Shape::from_sms_per_gpc({16, 16, 16, 16, 16, 16, 16, 16}));
  Order priority(topology.sms());
  std::iota(priority.begin(), priority.end(), 0U);
  const Slots slots(topology.sms(), 8);
  LakeOptions prior_art;
  prior_art.one_at_a_time = true;
  LakeFill one(topology, 8, LevelSearch::bisection, priority, prior_art);
  LakeFill scan(topology, 8, LevelSearch::scan, priority);
  LakeFill bisection(topology, 8, LevelSearch::bisection, priority);
  CHECK(one.place(slots, 1024).steps == 1024);
  CHECK(scan.place(slots, 1024).steps == 8);
  CHECK(bisection.place(slots, 1024).steps == 4);
}

}  // namespace cwd_lake_fill_test
