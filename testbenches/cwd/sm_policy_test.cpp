// Where the CTAs of one CGA go within a domain.
#include "cwd/sm_policy.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "cwd/lake_fill.h"
#include "support/random.h"

namespace cwd_sm_policy_test {

using heddle::InputError;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::GpcSlots;
using heddle::cwd::LakeFill;
using heddle::cwd::LevelSearch;
using heddle::cwd::make_sm_policy;
using heddle::cwd::Placement;
using heddle::cwd::SmChoice;
using heddle::test::Random;

namespace {

using Masks = std::vector<std::uint64_t>;
using Bits = std::vector<std::uint32_t>;

struct Machine {
  explicit Machine(const Shape& shape, const Bits& free_) : topology(shape) {
    priority.resize(topology.gpc(0).sms);
    std::iota(priority.begin(), priority.end(), 0U);
    for (std::size_t i = 0; i < free_.size(); ++i) free[i] = static_cast<std::uint16_t>(free_[i]);
  }
  bool choose(const std::string& policy, std::uint32_t ctas, SmChoice& choice) const {
    return make_sm_policy(policy)->choose({topology.gpc(0), members, free, priority}, ctas, choice);
  }
  SmChoice chosen(const std::string& policy, std::uint32_t ctas) const {
    SmChoice choice;
    REQUIRE(choose(policy, ctas, choice));
    return choice;
  }

  Topology topology;
  Bits priority;
  GpcSlots free{};
  std::uint64_t members = ~std::uint64_t{0};
};

// A machine of one GPC.
Machine machine(const Bits& free) {
  Machine result(Shape::from_sms_per_gpc({static_cast<std::uint32_t>(free.size())}), free);
  result.members = (std::uint64_t{1} << free.size()) - 1;
  return result;
}

Bits counts(const Masks& masks) {
  Bits result(64, 0);
  for (const std::uint64_t mask : masks) {
    for (std::uint32_t bit = 0; bit < 64; ++bit) result[bit] += static_cast<std::uint32_t>(mask >> bit & 1);
  }
  return result;
}

}  // namespace

TEST_CASE("policies for SMs are found by name", "[cwd][CWD-15][CWD-16]") {
  std::vector<std::string> names;
  for (const auto& [name, description] : heddle::cwd::sm_policies()) {
    names.push_back(name);
    CHECK_FALSE(description.empty());
    CHECK(make_sm_policy(name)->one_per_sm() == (name == "tpc_pairs"));
  }
  CHECK(names == std::vector<std::string>{"lake", "tpc_pairs", "one_at_a_time", "packed", "rotating", "yielding"});
  CHECK_THROWS_WITH(make_sm_policy("tcp_pairs"), Catch::Contains("'tcp_pairs'") && Catch::Contains("tpc_pairs?"));
  CHECK_THROWS_AS(make_sm_policy(""), InputError);
}

TEST_CASE("the lake gives a CTA to every SM of a level at once", "[cwd][CWD-15]") {
  const Machine m = machine({3, 3, 1, 0, 2, 3});
  SmChoice choice = m.chosen("lake", 2);
  CHECK(choice.masks == Masks{0b000011});
  CHECK(choice.steps == 1);
  // Levels 3, 2 and 1: SMs 0, 1 and 5, the same and SM 4, SM 0. The masks are those of first, second and third CTAs.
  choice = m.chosen("lake", 8);
  CHECK(choice.masks == Masks{0b110011, 0b100011, 0b000001});
  CHECK(choice.steps == 3);
  choice = {};
  CHECK_FALSE(m.choose("lake", 13, choice));
  CHECK(choice.steps == 3);  // the scan has seen all levels
}

TEST_CASE("one at a time, a CTA takes a step and goes to the least used SM", "[cwd][CWD-08]") {
  const Machine m = machine({3, 3, 1, 0, 2, 3});
  const SmChoice choice = m.chosen("one_at_a_time", 5);
  CHECK(choice.masks == Masks{0b000001, 0b000010, 0b100000, 0b000001, 0b000010});
  CHECK(choice.steps == 5);
}

TEST_CASE("packed, one SM is filled before the next", "[cwd]") {
  const Machine m = machine({3, 3, 1, 0, 2, 3});
  const SmChoice choice = m.chosen("packed", 5);
  CHECK(choice.masks == Masks{0b010101, 0b010001});  // SM 2 takes one, SM 4 two, SM 0 two
  CHECK(choice.steps == 3);
}

TEST_CASE("one at a time and the lake end in the same place", "[cwd][CWD-08][CWD-15]") {
  std::uint32_t placed = 0;
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    Bits free(random.between(1, 20));
    for (std::uint32_t& count : free) count = random.below(6);
    Machine m = machine(free);
    random.shuffle(m.priority);
    const std::uint32_t ctas = random.between(1, 40);
    SmChoice lake;
    SmChoice one;
    const bool fits = m.choose("lake", ctas, lake);
    REQUIRE(m.choose("one_at_a_time", ctas, one) == fits);
    if (!fits) continue;
    ++placed;
    REQUIRE(counts(lake.masks) == counts(one.masks));
    REQUIRE(one.steps == ctas);
    REQUIRE(lake.steps <= 5);
  }
  CHECK(placed > 500);
}

TEST_CASE("the lake within a GPC is that of a machine that is this GPC", "[cwd][CWD-03][CWD-04][CWD-05][CWD-15]") {
  std::uint32_t placed = 0;
  for (const std::uint64_t seed : heddle::test::seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    Shape shape = random.shape(1, 4, 4);
    const Topology alone(shape);
    const std::uint32_t sms = alone.sms();
    Bits free(sms);
    for (std::uint32_t& count : free) count = random.chance(20) ? 0 : random.below(9);
    Machine m(shape, free);
    m.members = (std::uint64_t{1} << sms) - 1;
    random.shuffle(m.priority);
    Bits ids;  // the same order in SM ids
    for (const std::uint32_t bit : m.priority) ids.push_back(alone.gpc(0).sm_ids[bit]);
    std::vector<std::uint16_t> by_id(sms);
    for (std::uint32_t bit = 0; bit < sms; ++bit) by_id[alone.gpc(0).sm_ids[bit]] = m.free[bit];

    const std::uint32_t ctas = 1 + random.below(std::uint64_t{3} * sms + 1);
    const LevelSearch search = random.chance(50) ? LevelSearch::scan : LevelSearch::bisection;
    LakeFill machine_wide(alone, 8, search, ids);
    const Placement wanted = machine_wide.place(by_id, ctas);
    SmChoice choice;
    const auto lake = make_sm_policy("lake", {search, 8});
    REQUIRE(lake->choose({m.topology.gpc(0), m.members, m.free, m.priority}, ctas, choice) == (wanted.ctas == ctas));
    REQUIRE(choice.steps == std::max(1U, wanted.steps));  // a refusal takes the search, too
    if (wanted.ctas != ctas) continue;
    ++placed;
    Masks levels;
    for (const auto& level : wanted.levels) levels.push_back(level.mask[0]);
    REQUIRE(counts(choice.masks) == counts(levels));
    REQUIRE(choice.steps == wanted.steps);
  }
  CHECK(placed > 1000);
}

TEST_CASE("a policy stays within its domain, and appends", "[cwd][CWD-16][CWD-17]") {
  Machine m(Shape{{{{2, 2}, {2, 1}}}}, {9, 9, 9, 9, 1, 2, 3});
  m.members = 0b1110000;  // the second CPC
  for (const auto& [name, description] : heddle::cwd::sm_policies()) {
    CAPTURE(name);
    SmChoice choice;
    choice.masks = {0b1};
    choice.steps = 5;
    REQUIRE(m.choose(name, 3, choice));
    CHECK(choice.masks.front() == 0b1);
    CHECK(choice.steps > 5);
    Bits taken = counts({choice.masks.begin() + 1, choice.masks.end()});
    CHECK(std::accumulate(taken.begin() + 4, taken.begin() + 7, 0U) == 3);
    CHECK(std::accumulate(taken.begin(), taken.end(), 0U) == 3);
    CHECK_FALSE(m.choose(name, 7, choice));
  }
}

// [0155], [0156], [0159]: a bisection halves the levels that an SM can have, a scan comes down from the highest that is
// there. 32 levels, and none: 6 halvings.
TEST_CASE("both modes search their final level by scan or bisection, to the same placement",
          "[cwd][CWD-04][CWD-15][CWD-16]") {
  std::uint32_t longer = 0;
  for (const std::uint64_t seed : heddle::test::seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    Machine m(random.shape(1, 3, 4), {});
    const std::uint32_t sms = m.topology.gpc(0).sms;
    m.members = (std::uint64_t{1} << sms) - 1;
    m.priority = random.permutation(sms);
    for (std::uint32_t sm = 0; sm < sms; ++sm) m.free[sm] = static_cast<std::uint16_t>(random.below(33));
    const std::uint32_t ctas = random.between(1, sms);
    for (const char* name : {"lake", "tpc_pairs"}) {
      CAPTURE(name, ctas);
      SmChoice scan;
      SmChoice bisection;
      const heddle::cwd::SmView view{m.topology.gpc(0), m.members, m.free, m.priority};
      const bool fits = make_sm_policy(name, {LevelSearch::scan, 32})->choose(view, ctas, scan);
      REQUIRE(make_sm_policy(name, {LevelSearch::bisection, 32})->choose(view, ctas, bisection) == fits);
      if (!fits) continue;
      REQUIRE(scan.masks == bisection.masks);
      const std::uint32_t highest = *std::max_element(m.free.begin(), m.free.begin() + sms);
      if (std::string(name) == "lake") {
        REQUIRE(bisection.steps == 6);
        // A step for each level from the highest to that of the last CTA.
        std::uint32_t lowest = 33;
        const Bits taken = counts(scan.masks);
        for (std::uint32_t sm = 0; sm < sms; ++sm) {
          if (taken[sm] > 0) lowest = std::min(lowest, m.free[sm] - taken[sm] + 1);
        }
        REQUIRE(scan.steps == highest - lowest + 1);
      } else {
        REQUIRE(bisection.steps <= 7);  // one for the whole TPCs, where these do not suffice
        REQUIRE(scan.steps <= highest + 1);
      }
      longer += scan.steps > bisection.steps ? 1 : 0;
    }
  }
  CHECK(longer > 100);
}

TEST_CASE("rotating, SMs that tie take turns", "[cwd]") {
  const Machine m = machine({3, 3, 3, 3, 2});
  const auto policy = make_sm_policy("rotating");
  const auto next = [&](std::uint32_t ctas, std::uint32_t gpc) {
    SmChoice choice;
    REQUIRE(policy->choose({m.topology.gpc(0), m.members, m.free, m.priority, gpc}, ctas, choice));
    return choice.masks;
  };
  CHECK(next(2, 0) == Masks{0b00011});
  CHECK(next(2, 0) == Masks{0b01100});
  CHECK(next(3, 1) == Masks{0b00111});  // another GPC has a turn of its own
  CHECK(next(1, 0) == Masks{0b00001});  // SM 4 has less room
  CHECK(next(4, 0) == Masks{0b01111});
  policy->reset();
  CHECK(next(2, 0) == Masks{0b00011});
  SmChoice none;
  CHECK_FALSE(policy->choose({m.topology.gpc(0), m.members, m.free, m.priority, 0}, 15, none));
  CHECK(next(1, 0) == Masks{0b00100});  // a refusal is no turn
}

TEST_CASE("yielding, SMs are packed while a larger CGA waits", "[cwd]") {
  const Machine m = machine({3, 3, 1, 0, 2, 3});
  const auto with = [&](std::uint32_t waiting_ctas) {
    heddle::protocol::WaitingWork waiting;
    waiting.tasks[waiting.count++] = {waiting_ctas, 7};
    SmChoice choice;
    REQUIRE(
        make_sm_policy("yielding")->choose({m.topology.gpc(0), m.members, m.free, m.priority, 0, waiting}, 3, choice));
    return choice.masks;
  };
  CHECK(with(4) == m.chosen("packed", 3).masks);
  CHECK(with(3) == m.chosen("lake", 3).masks);
  CHECK(m.chosen("yielding", 3).masks == m.chosen("lake", 3).masks);
  CHECK(m.chosen("packed", 3).masks != m.chosen("lake", 3).masks);
}

// CWD-16: first TPCs both of whose SMs can take a CTA, so that pairs stay together; one SM is no pair.
TEST_CASE("a TPC of one SM comes after those of two", "[cwd][CWD-16]") {
  const Machine m(Shape{{{{1, 2, 2, 1}}}}, {9, 0, 5, 1, 1, 7});
  SmChoice choice = m.chosen("tpc_pairs", 2);
  CHECK(choice.masks == Masks{0b011000});  // the only pair, although three SMs are emptier
  choice = m.chosen("tpc_pairs", 3);
  CHECK(choice.masks == Masks{0b011001});
  choice = m.chosen("tpc_pairs", 4);
  CHECK(choice.masks == Masks{0b111001});
  choice = m.chosen("tpc_pairs", 5);
  CHECK(choice.masks == Masks{0b111101});
}

}  // namespace cwd_sm_policy_test
