// Where the CTAs of plain grids go, policy by policy.
#include "cwd/plain_policy.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "common/error.h"
#include "cwd/occupancy.h"
#include "support/random.h"

namespace cwd_plain_policy_test {

using heddle::InputError;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::LakeFill;
using heddle::cwd::LevelSearch;
using heddle::cwd::make_plain_policy;
using heddle::cwd::Placement;
using heddle::cwd::PlainPolicy;
using heddle::cwd::PlainSetup;
using heddle::protocol::WaitingWork;
using heddle::test::Random;

namespace {

using Numbers = std::vector<std::uint32_t>;
using Slots = std::vector<std::uint16_t>;

// SM ids, GPC by GPC. Tests number SMs by their places in it.
Numbers by_gpc(const Topology& topology) {
  Numbers order;
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    order.insert(order.end(), topology.gpc(g).sm_ids.begin(), topology.gpc(g).sm_ids.end());
  }
  return order;
}

std::unique_ptr<PlainPolicy> policy(const std::string& name, const Topology& topology, std::uint32_t percent = 50) {
  return make_plain_policy(name, {topology, 32, LevelSearch::scan, by_gpc(topology), percent});
}

// Places of SMs in launch order: as the launcher sends them, level by level and GPC by GPC.
Numbers order_of(const Placement& placement, const Topology& topology) {
  Numbers order;
  for (const auto& level : placement.levels) {
    std::uint32_t first = 0;  // place of the GPC's first SM
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      heddle::bits::for_each(level.mask[g], [&](std::uint32_t bit) { order.push_back(first + bit); });
      first += topology.gpc(g).sms;
    }
  }
  return order;
}

// `by_place`: free slots of the SMs by their places.
Slots slots_of(const Topology& topology, const Slots& by_place) {
  Slots slots(topology.sms());
  const Numbers ids = by_gpc(topology);
  for (std::size_t i = 0; i < ids.size(); ++i) slots[ids[i]] = by_place[i];
  return slots;
}

Numbers counts(const Numbers& order, std::uint32_t sms) {
  Numbers result(sms, 0);
  for (const std::uint32_t sm : order) ++result[sm];
  return result;
}

}  // namespace

TEST_CASE("policies for plain grids are found by name", "[cwd][CWD-03][CWD-08]") {
  const Topology topology(Shape::from_sms_per_gpc({2}));
  std::vector<std::string> names;
  for (const auto& [name, description] : heddle::cwd::plain_policies()) {
    names.push_back(name);
    CHECK_FALSE(description.empty());
    CHECK(policy(name, topology)->withholds() == (name == "capped"));
  }
  CHECK(names == std::vector<std::string>{"lake", "gpc_striped", "packed", "capped", "yielding", "one_at_a_time"});
  CHECK_THROWS_WITH(policy("lakes", topology), Catch::Contains("'lakes'") && Catch::Contains("lake?"));
  heddle::cwd::CwdParams params;
  CHECK_FALSE(params.one_at_a_time());
  params.plain = "one_at_a_time";
  CHECK(params.one_at_a_time());
}

TEST_CASE("every policy places all that fits, and never more than an SM has room for", "[cwd][CWD-06][CWD-07]") {
  for (const auto& [name, description] : heddle::cwd::plain_policies()) {
    CAPTURE(name);
    for (const std::uint64_t seed : heddle::test::seeds(1500)) {
      CAPTURE(seed);
      Random random(seed);
      const Topology topology(random.shape(5));
      const auto kept =
          make_plain_policy(name, {topology, 32, random.chance(50) ? LevelSearch::scan : LevelSearch::bisection,
                                   random.permutation(topology.sms()), random.between(1, 100)});
      for (int session = 0; session < 3; ++session) {
        Slots slots(topology.sms());
        for (std::uint16_t& free : slots) free = static_cast<std::uint16_t>(random.chance(20) ? 0 : random.below(7));
        slots[random.below(topology.sms())] = 6;
        const std::uint64_t free = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
        const std::uint64_t ctas = random.between(1, free + 5);
        WaitingWork waiting;
        if (random.chance(50)) waiting.tasks[waiting.count++] = {random.between(1, 4), 3};
        const Placement& placement = kept->place({slots, ctas, waiting});
        REQUIRE(placement.ctas == std::min(ctas, free));
        REQUIRE(placement.steps > 0);
        const Numbers order = order_of(placement, topology);
        REQUIRE(order.size() == placement.ctas);
        const Numbers taken = counts(order, topology.sms());
        const Numbers ids = by_gpc(topology);
        for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) REQUIRE(taken[sm] <= slots[ids[sm]]);
        for (const auto& level : placement.levels) {
          std::uint64_t members = 0;
          for (const std::uint64_t mask : level.mask) members += heddle::bits::count(mask);
          REQUIRE(members == level.ctas);
          REQUIRE(members > 0);
        }
      }
    }
  }
}

TEST_CASE("striped, consecutive CTAs are on different GPCs, also from session to session", "[cwd]") {
  const Topology topology(Shape::from_sms_per_gpc({4, 2, 4}));
  const auto gpcs_of = [&](const Placement& placement) {
    Numbers gpcs;
    for (const std::uint32_t sm : order_of(placement, topology)) gpcs.push_back(sm < 4 ? 0 : sm < 6 ? 1 : 2);
    return gpcs;
  };
  const auto striped = policy("gpc_striped", topology);
  Slots slots(10, 2);
  CHECK(gpcs_of(striped->place({slots, 7})) == Numbers{0, 1, 2, 0, 1, 2, 0});
  CHECK(gpcs_of(striped->place({slots, 4})) == Numbers{1, 2, 0, 1});
  CHECK(gpcs_of(striped->place({slots, 2})) == Numbers{2, 0});
  striped->reset();
  CHECK(gpcs_of(striped->place({slots, 1})) == Numbers{0});
  striped->reset();
  // A GPC without room is passed over; a round is a step.
  const Placement& all = striped->place({slots, 100});
  CHECK(all.ctas == 20);
  CHECK(all.steps == 8);
  const Numbers gpcs = gpcs_of(all);
  CHECK(Numbers(gpcs.begin() + 12, gpcs.begin() + 16) == Numbers{0, 2, 0, 2});
  striped->reset();
  // Within a GPC, the SM with most room.
  slots = slots_of(topology, {1, 3, 2, 2, 1, 1, 0, 0, 0, 4});
  CHECK(order_of(striped->place({slots, 6}), topology) == Numbers{1, 4, 9, 1, 5, 9});
}

TEST_CASE("packed, as few SMs are awake as the CTAs need", "[cwd]") {
  const Topology topology(Shape::from_sms_per_gpc({3, 3}));
  // SMs 1 and 4 run something already: they are filled first.
  const Slots slots = slots_of(topology, {4, 1, 4, 4, 2, 4});
  const auto one = policy("packed", topology);
  const Placement& placement = one->place({slots, 8});
  CHECK(counts(order_of(placement, topology), 6) == Numbers{4, 1, 1, 0, 2, 0});
  CHECK(placement.steps == 4);
  CHECK(order_of(placement, topology) == Numbers{0, 1, 2, 4, 0, 4, 0, 0});  // round by round

  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology machine(random.shape(4));
    Slots free(machine.sms());
    for (std::uint16_t& count : free) count = static_cast<std::uint16_t>(random.below(5));
    const std::uint64_t sum = std::accumulate(free.begin(), free.end(), std::uint64_t{0});
    if (sum == 0) continue;
    const std::uint64_t ctas = random.between(1, sum);
    const auto packed = policy("packed", machine);
    const Numbers taken = counts(order_of(packed->place({slots_of(machine, free), ctas}), machine), machine.sms());
    // With 4 slots an SM is asleep. What those that are awake cannot take goes to as few sleepers as possible.
    std::uint64_t awake = 0;
    for (const std::uint16_t count : free) awake += count < 4 ? count : 0;
    std::uint64_t woken = 0;
    for (std::uint32_t sm = 0; sm < machine.sms(); ++sm) woken += free[sm] == 4 && taken[sm] > 0 ? 1 : 0;
    REQUIRE(woken == (ctas > awake ? (ctas - awake + 3) / 4 : 0));
  }
}

// [0146]: in some implementations no SM is to be loaded fully, because what runs there gets slower.
TEST_CASE("capped, a share of every SM stays free", "[cwd][CWD-24]") {
  const Topology topology(Shape::from_sms_per_gpc({4}));
  const auto left = [&](std::uint32_t percent, std::uint32_t empty, Slots slots) {
    policy("capped", topology, percent)->withhold(slots, empty);
    return slots;
  };
  CHECK(left(75, 8, {8, 6, 2, 0}) == Slots{6, 4, 0, 0});  // whoever uses them: two of eight stay free
  CHECK(left(100, 8, {8, 6, 2, 0}) == Slots{8, 6, 2, 0});
  CHECK(left(50, 1, {1, 0, 1, 1}) == Slots{1, 0, 1, 1});  // one at least
  CHECK(left(1, 32, {32, 31, 30, 0}) == Slots{1, 0, 0, 0});
  Slots slots{3, 1, 0, 2};
  policy("lake", topology)->withhold(slots, 8);
  CHECK(slots == Slots{3, 1, 0, 2});

  // The occupancy query knows of it.
  heddle::cwd::CwdParams params;
  heddle::arch::KernelShape kernel;
  kernel.grid = {1000, 1, 1};
  kernel.block = {256, 1, 1};  // 8 per SM
  params.plain_share = 75;
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 32);
  params.plain = "capped";
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 24);
}

TEST_CASE("yielding, a plain grid is packed while a CGA waits", "[cwd]") {
  const Topology topology(Shape::from_sms_per_gpc({4}));
  const Slots slots(4, 2);
  WaitingWork waiting;
  waiting.tasks[waiting.count++] = {1, 50};
  const auto yielding = policy("yielding", topology);
  CHECK(counts(order_of(yielding->place({slots, 4, waiting}), topology), 4) == Numbers{1, 1, 1, 1});
  waiting.tasks[waiting.count++] = {2, 1};
  CHECK(counts(order_of(yielding->place({slots, 4, waiting}), topology), 4) == Numbers{2, 2, 0, 0});
}

}  // namespace cwd_plain_policy_test
