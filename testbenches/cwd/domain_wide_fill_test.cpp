// CGAs of CTAs over a whole domain, against a reference that places one CTA at a time (CWD-09).
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "cwd/lake_fill.h"
#include "support/random.h"

namespace cwd_domain_wide_fill_test {

using heddle::CheckFailed;
using heddle::arch::CgaLevel;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::DomainWideCga;
using heddle::cwd::DomainWideFill;
using heddle::cwd::LevelMask;
using heddle::cwd::LevelSearch;
using heddle::test::Random;

namespace {

using Slots = std::vector<std::uint16_t>;
using Order = std::vector<std::uint32_t>;

struct ReferenceUnit {
  std::uint32_t ugpu = 0;
  std::uint32_t speed = 0;
  Order order;  // SM ids in launch order: by level, within it by GPC and bit
};

// One CGA on those SMs, each CTA to the SM with most free slots, among equals to the first in priority order. False,
// and nothing changes, if they do not all fit.
bool place_one(const Topology& topology, Slots& slots, const Order& members, std::uint64_t ctas, ReferenceUnit& unit) {
  Slots trial = slots;
  std::map<std::uint32_t, Order, std::greater<>> levels;
  for (std::uint64_t i = 0; i < ctas; ++i) {
    std::uint32_t best = members.front();
    for (const std::uint32_t sm : members) {
      if (trial[sm] > trial[best]) best = sm;
    }
    if (trial[best] == 0) return false;
    levels[trial[best]--].push_back(best);
  }
  unit.speed = ~0U;
  unit.order.clear();
  for (auto& [level, sms] : levels) {
    std::sort(sms.begin(), sms.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto place = [&](std::uint32_t id) { return std::make_pair(topology.sm(id).gpc, topology.sm(id).in_gpc); };
      return place(a) < place(b);
    });
    for (const std::uint32_t sm : sms) {
      unit.order.push_back(sm);
      unit.speed = std::min<std::uint32_t>(unit.speed, trial[sm]);
    }
  }
  slots = trial;
  return true;
}

// GPU_CGAs one after another; uGPU_CGAs on all uGPUs that tie for the greatest speed (CWD-13).
std::vector<ReferenceUnit> reference(const Topology& topology, Slots& slots, const Order& priority, std::uint64_t ctas,
                                     std::uint64_t units, CgaLevel level) {
  std::vector<Order> domains(level == CgaLevel::gpu ? 1 : topology.ugpus());
  for (const std::uint32_t id : priority) {
    domains[level == CgaLevel::gpu ? 0 : topology.ugpu_of(topology.sm(id).gpc)].push_back(id);
  }
  std::vector<ReferenceUnit> result;
  while (result.size() < units) {
    std::vector<ReferenceUnit> answers;
    for (std::uint32_t d = 0; d < domains.size(); ++d) {
      Slots trial = slots;
      ReferenceUnit answer;
      answer.ugpu = d;
      if (place_one(topology, trial, domains[d], ctas, answer)) answers.push_back(answer);
    }
    if (answers.empty()) break;
    std::uint32_t greatest = 0;
    for (const ReferenceUnit& answer : answers) greatest = std::max(greatest, answer.speed);
    for (const ReferenceUnit& answer : answers) {
      if (answer.speed != greatest || result.size() == units) continue;
      ReferenceUnit unit = answer;
      REQUIRE(place_one(topology, slots, domains[answer.ugpu], ctas, unit));
      result.push_back(unit);
    }
  }
  return result;
}

Order order_of(const DomainWideCga& unit, const Topology& topology) {
  Order result;
  for (const LevelMask& level : unit.placement.levels) {
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      for (std::uint32_t bit = 0; bit < topology.gpc(g).sms; ++bit) {
        if ((level.mask[g] >> bit & 1) != 0) result.push_back(topology.gpc(g).sm_ids[bit]);
      }
    }
  }
  return result;
}

void expect_equal(const std::vector<DomainWideCga>& placed, const std::vector<ReferenceUnit>& wanted,
                  const Topology& topology) {
  REQUIRE(placed.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    REQUIRE(placed[i].ugpu == wanted[i].ugpu);
    REQUIRE(placed[i].speed == wanted[i].speed);
    REQUIRE(order_of(placed[i], topology) == wanted[i].order);
    REQUIRE(placed[i].placement.ctas == wanted[i].order.size());
  }
}

Order split(Random& random, std::uint32_t gpcs) {
  Order parts;
  while (gpcs > 0) {
    parts.push_back(random.between(1, gpcs));
    gpcs -= parts.back();
  }
  return parts;
}

}  // namespace

TEST_CASE("the 137-CTA cluster on 32 partly loaded SMs", "[cwd][CWD-09][CWD-11]") {
  const Topology topology(Shape::from_sms_per_gpc({8, 8, 8, 8}));
  Order priority(32);
  std::iota(priority.begin(), priority.end(), 0U);
  // Some SMs full, some in part, some empty.
  Slots slots{7, 5, 8, 0, 0, 8, 0, 8, 0, 6, 4, 3, 5, 8, 7, 6, 8, 4, 1, 7, 8, 5, 6, 8, 7, 3, 8, 6, 5, 8, 7, 0};
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  DomainWideFill fill(topology, 8, LevelSearch::bisection, priority, *policy);
  Slots left = slots;
  const auto wanted = reference(topology, left, priority, 137, 1, CgaLevel::gpu);
  REQUIRE(wanted.size() == 1);
  const auto& placed = fill.place(slots, 137, 1, CgaLevel::gpu);
  expect_equal(placed, wanted, topology);
  CHECK(fill.left() == left);
  CHECK(fill.work().steps == 4);
  // By hand: so many SMs have 8, 7, … slots or more; 24 CTAs are left for the 26 SMs of level 2, and nothing for
  // level 1.
  std::vector<std::uint64_t> ctas;
  for (const LevelMask& level : placed.front().placement.levels) ctas.push_back(level.ctas);
  CHECK(ctas == std::vector<std::uint64_t>{9, 14, 18, 22, 24, 26, 24});
  CHECK(placed.front().speed == 1);
  // There is no room for a second one, and it leaves no trace.
  CHECK(fill.place(left, 137, 1, CgaLevel::gpu).empty());
  CHECK(fill.left() == left);
}

TEST_CASE("wide CGAs on random machines are placed as by the reference", "[cwd][CWD-09][CWD-11][CWD-13][CWD-21]") {
  std::uint64_t units_placed = 0;
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    const Shape shape = random.shape(6);
    const Topology topology(shape, split(random, static_cast<std::uint32_t>(shape.gpcs.size())));
    const Order priority = random.permutation(topology.sms());
    const auto policy = heddle::cwd::make_domain_policy("fastest");
    const LevelSearch method = random.chance(50) ? LevelSearch::scan : LevelSearch::bisection;
    DomainWideFill fill(topology, 6, method, priority, *policy);
    for (int round = 0; round < 2; ++round) {
      Slots slots(topology.sms());
      for (std::uint16_t& count : slots) count = static_cast<std::uint16_t>(random.below(random.between(1, 7)));
      const std::uint64_t capacity = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
      const std::uint64_t ctas = random.between(1, capacity / random.between(1, 5) + 2);
      const std::uint64_t units = random.between(1, 6);
      const CgaLevel level = random.chance(50) ? CgaLevel::gpu : CgaLevel::ugpu;
      CAPTURE(round, ctas, units, static_cast<int>(level));
      Slots left = slots;
      const auto wanted = reference(topology, left, priority, ctas, units, level);
      expect_equal(fill.place(slots, ctas, units, level), wanted, topology);
      REQUIRE(fill.left() == left);
      units_placed += wanted.size();
    }
  }
  CHECK(units_placed > 2000);
}

TEST_CASE("uGPUs that tie receive their uGPU_CGA in the same step", "[cwd][CWD-09][CWD-13]") {
  const Topology topology(Shape::from_sms_per_gpc({2, 2, 2}), {1, 1, 1});
  Order priority(topology.sms());
  std::iota(priority.begin(), priority.end(), 0U);
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  DomainWideFill fill(topology, 4, LevelSearch::scan, priority, *policy);
  Slots slots(topology.sms(), 4);
  for (const std::uint32_t id : topology.gpc(1).sm_ids) slots[id] = 1;
  const auto& placed = fill.place(slots, 2, 3, CgaLevel::ugpu);
  REQUIRE(placed.size() == 3);
  CHECK(placed[0].ugpu == 0);
  CHECK(placed[1].ugpu == 2);
  CHECK(placed[2].ugpu == 0);
  CHECK(placed[1].speed == 3);
  CHECK(placed[2].speed == 2);
  CHECK(fill.work().steps == 2);  // both uGPUs search at the same time
}

TEST_CASE("one CTA at a time, a wide CGA takes a step per CTA", "[cwd][CWD-08][CWD-09]") {
  const Topology topology(Shape::from_sms_per_gpc({4, 4}));
  Order priority(topology.sms());
  std::iota(priority.begin(), priority.end(), 0U);
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  DomainWideFill fill(topology, 4, LevelSearch::scan, priority, *policy, true);
  CHECK(fill.place(Slots(topology.sms(), 4), 20, 1, CgaLevel::gpu).front().placement.levels.size() == 20);
  CHECK(fill.work().steps == 20);
}

TEST_CASE("a wide CGA is of a GPU or a uGPU", "[cwd][CWD-09]") {
  const Topology topology(Shape::from_sms_per_gpc({2}));
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  DomainWideFill fill(topology, 4, LevelSearch::scan, {0, 1}, *policy);
  CHECK_THROWS_AS(fill.place({1, 1}, 1, 1, CgaLevel::gpc), CheckFailed);
  CHECK_THROWS_AS(fill.place({1, 1}, 0, 1, CgaLevel::gpu), CheckFailed);
}

}  // namespace cwd_domain_wide_fill_test
