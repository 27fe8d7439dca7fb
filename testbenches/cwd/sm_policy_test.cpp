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
  CHECK(names == std::vector<std::string>{"lake", "tpc_pairs", "one_at_a_time", "packed"});
  CHECK_THROWS_WITH(make_sm_policy("tcp_pairs"), Catch::Contains("'tcp_pairs'") && Catch::Contains("tpc_pairs?"));
  CHECK_THROWS_AS(make_sm_policy(""), InputError);
}

TEST_CASE("the lake gives a CTA to every SM of a level at once", "[cwd][CWD-15]") {
  const Machine m = machine({3, 3, 1, 0, 2, 3});
  SmChoice choice = m.chosen("lake", 2);
  CHECK(choice.masks == Masks{0b000011});
  CHECK(choice.steps == 1);
  choice = m.chosen("lake", 8);
  CHECK(choice.masks == Masks{0b100011, 0b110011, 0b000001});
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
    REQUIRE(lake.steps == lake.masks.size());
  }
  CHECK(placed > 500);
}

TEST_CASE("the lake within a GPC is that of a machine that is this GPC", "[cwd][CWD-03][CWD-05][CWD-15]") {
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
    LakeFill machine_wide(alone, 8, LevelSearch::scan, ids);
    const Placement wanted = machine_wide.place(by_id, ctas);
    SmChoice choice;
    REQUIRE(m.choose("lake", ctas, choice) == (wanted.ctas == ctas));
    if (wanted.ctas != ctas) continue;
    ++placed;
    Masks masks;
    for (const auto& level : wanted.levels) masks.push_back(level.mask[0]);
    REQUIRE(choice.masks == masks);
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

TEST_CASE("a TPC is whole if all of its SMs that the domain has can take a CTA", "[cwd][CWD-16]") {
  Machine m(Shape{{{{2, 2, 2}}}}, {0, 1, 1, 1, 1, 1});
  m.members = 0b011111;  // TPC 0 is not whole, TPC 2 is: its other SM does not count
  CHECK(m.chosen("tpc_pairs", 3).masks == Masks{0b011100});
  m.members = 0b101110;
  CHECK(m.chosen("tpc_pairs", 2).masks == Masks{0b000110});
}

}  // namespace cwd_sm_policy_test
