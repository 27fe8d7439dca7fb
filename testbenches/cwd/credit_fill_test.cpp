// The placement of plain grids under dynamic partitioning against a search over all SMs for every CTA.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/tpc_quota.h"
#include "support/random.h"

namespace cwd_credit_fill_test {

using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::CreditFill;
using heddle::cwd::CreditPurse;
using heddle::cwd::Placement;
using heddle::cwd::TpcPrice;
using heddle::test::Random;

namespace {

std::vector<std::uint32_t> tpcs_of(const Topology& topology) {
  std::vector<std::uint32_t> result(topology.sms());
  std::uint32_t next = 0;
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    for (const Topology::Tpc& tpc : topology.gpc(g).tpcs) {
      for (std::uint32_t i = 0; i < tpc.sms; ++i) result[topology.gpc(g).sm_ids[tpc.first_sm + i]] = next;
      ++next;
    }
  }
  return result;
}

const ResourceVector kCapacity{{2048, 65'536, 233'472, 32, 64, 16}};

struct Scene {
  std::vector<std::uint16_t> slots;
  std::vector<ResourceVector> used;
  ResourceVector need;
  std::vector<TpcPrice> prices;
  CreditPurse purse;
};

// The share of what is taken most of, in 64ths, rounded up.
double load(const ResourceVector& used) {
  double most = 0;
  for (std::size_t i = 0; i < used.amount.size(); ++i) {
    most = std::max(most, static_cast<double>(used.amount[i]) / kCapacity.amount[i]);
  }
  return std::min(64.0, std::ceil(64 * most));
}

// PRT-03, word by word: one CTA after another, all SMs looked at for each. Returns the SMs in order.
std::vector<std::uint32_t> one_by_one(Scene scene, std::uint64_t ctas, const std::vector<std::uint32_t>& priority,
                                      const std::vector<std::uint32_t>& tpc_of) {
  std::vector<std::uint32_t> order;
  while (order.size() < ctas) {
    bool found = false;
    std::uint32_t best = 0;
    for (const std::uint32_t sm : priority) {
      const TpcPrice& price = scene.prices[tpc_of[sm]];
      if (scene.slots[sm] == 0) continue;
      if (price.credit && scene.purse.credits <= 0) continue;
      if (price.block && scene.purse.blocks == 0) continue;
      const double more = load(scene.used[sm]) - load(scene.used[best]);
      const bool equal = more == 0 && scene.slots[sm] == scene.slots[best];
      const bool better = more < 0 || (more == 0 && scene.slots[sm] > scene.slots[best]) ||
                          (equal && !price.credit && scene.prices[tpc_of[best]].credit);
      if (!found || better) best = sm;
      found = true;
    }
    if (!found) break;
    TpcPrice& price = scene.prices[tpc_of[best]];
    if (price.credit) --scene.purse.credits;
    if (price.block) --scene.purse.blocks;
    price = {};
    --scene.slots[best];
    scene.used[best].add(scene.need);
    order.push_back(best);
  }
  return order;
}

std::vector<std::uint32_t> counts_of(const Placement& placement, const Topology& topology) {
  std::vector<std::uint32_t> counts(topology.sms(), 0);
  for (const auto& level : placement.levels) {
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      for (std::uint32_t bit = 0; bit < topology.gpc(g).sms; ++bit) {
        counts[topology.gpc(g).sm_ids[bit]] += (level.mask[g] >> bit & 1) != 0 ? 1 : 0;
      }
    }
  }
  return counts;
}

Scene random_scene(Random& random, const Topology& topology, std::uint32_t tpcs) {
  Scene scene;
  const std::uint32_t most = random.between(1, 8);
  const std::uint32_t sparse = random.below(60);
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
    scene.slots.push_back(static_cast<std::uint16_t>(random.chance(sparse) ? 0 : random.between(0, most)));
    // A few loads, so that there are equals.
    scene.used.push_back({});
    const std::uint32_t eighths = random.below(4);
    for (std::size_t i = 0; i < kCapacity.amount.size(); ++i) {
      scene.used.back().amount[i] = kCapacity.amount[i] / 8 * (random.one_in(3) ? random.below(eighths + 1) : eighths);
    }
  }
  for (std::size_t i = 0; i < kCapacity.amount.size(); ++i) {
    scene.need.amount[i] = random.below(kCapacity.amount[i] / 8);
  }
  const bool local = random.chance(40);
  for (std::uint32_t tpc = 0; tpc < tpcs; ++tpc) {
    TpcPrice price;
    price.credit = random.chance(60);
    price.block = local && (price.credit ? random.chance(80) : random.chance(30));
    scene.prices.push_back(price);
  }
  scene.purse.credits = static_cast<std::int64_t>(random.below(tpcs + 2)) - 1;
  scene.purse.blocks = random.below(tpcs + 1);
  return scene;
}

}  // namespace

TEST_CASE("CTAs go to the least loaded SM that credits allow, one after another", "[cwd][PRT-02][PRT-03][PRT-06]") {
  std::uint64_t short_of_credits = 0;
  for (const std::uint64_t seed : heddle::test::seeds(1500)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology topology(random.shape(3));
    const std::vector<std::uint32_t> tpc_of = tpcs_of(topology);
    const std::vector<std::uint32_t> priority = random.permutation(topology.sms());
    const std::uint32_t tpcs = 1 + *std::max_element(tpc_of.begin(), tpc_of.end());
    CreditFill fill(priority, tpc_of, topology, kCapacity, false);
    CreditFill each(priority, tpc_of, topology, kCapacity, true);
    for (int round = 0; round < 3; ++round) {
      const Scene scene = random_scene(random, topology, tpcs);
      const std::vector<std::uint32_t> order = one_by_one(scene, 10'000, priority, tpc_of);
      std::uint64_t slots = 0;
      for (const std::uint16_t n : scene.slots) slots += n;
      if (order.size() < slots) ++short_of_credits;
      // Every length: where the last CTA goes is then compared for each of them.
      std::vector<std::uint32_t> wanted(topology.sms(), 0);
      for (std::uint64_t ctas = 1; ctas <= order.size(); ++ctas) {
        ++wanted[order[ctas - 1]];
        const Placement& placement = fill.place({scene.slots, scene.used, scene.need}, ctas, scene.prices, scene.purse);
        REQUIRE(placement.ctas == ctas);
        REQUIRE(counts_of(placement, topology) == wanted);
      }
      REQUIRE(fill.place({scene.slots, scene.used, scene.need}, 10'000, scene.prices, scene.purse).ctas ==
              order.size());
      std::uint32_t fresh = 0;
      for (std::uint32_t tpc = 0; tpc < tpcs; ++tpc) {
        const bool used = std::any_of(order.begin(), order.end(), [&](std::uint32_t sm) { return tpc_of[sm] == tpc; });
        fresh += used && scene.prices[tpc].credit ? 1 : 0;
      }
      REQUIRE(fill.new_tpcs() == fresh);
      // Levels fall, and the prior art's masks follow each other as the CTAs do.
      const Placement& singles = each.place({scene.slots, scene.used, scene.need}, 10'000, scene.prices, scene.purse);
      REQUIRE(singles.levels.size() == order.size());
      REQUIRE(singles.steps == order.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto& sm = topology.sm(order[i]);
        REQUIRE(singles.levels[i].mask[sm.gpc] == std::uint64_t{1} << sm.in_gpc);
      }
    }
  }
  CHECK(short_of_credits > 500);
}

TEST_CASE("a held TPC comes before a new one among equals, and only among them", "[cwd][PRT-03]") {
  const Topology topology(Shape::from_sms_per_gpc({8}));  // four TPCs
  CreditFill fill({0, 1, 2, 3, 4, 5, 6, 7}, tpcs_of(topology), topology, kCapacity, false);
  std::vector<TpcPrice> prices(4);
  for (const std::uint32_t tpc : {0U, 1U, 3U}) prices[tpc].credit = true;
  const std::vector<std::uint16_t> equal(8, 2);
  const std::vector<ResourceVector> idle(8);
  const auto on = [&](const std::vector<std::uint16_t>& slots, std::uint64_t ctas, std::int64_t credits) {
    return counts_of(fill.place({slots, idle, ResourceVector{{64, 1024, 1024, 1, 2, 1}}}, ctas, prices, {credits, 0}),
                     topology);
  };
  CHECK(on(equal, 2, 3) == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 0, 0});
  CHECK(on(equal, 3, 3) == std::vector<std::uint32_t>{1, 0, 0, 0, 1, 1, 0, 0});
  CHECK(on(equal, 4, 3) == std::vector<std::uint32_t>{1, 1, 0, 0, 1, 1, 0, 0});  // the new one is held by then
  CHECK(on({2, 2, 3, 2, 2, 2, 2, 2}, 1, 3) == std::vector<std::uint32_t>{0, 0, 1, 0, 0, 0, 0, 0});
  CHECK(on(equal, 100, 0) == std::vector<std::uint32_t>{0, 0, 0, 0, 2, 2, 0, 0});
  CHECK(on(equal, 100, -2) == std::vector<std::uint32_t>{0, 0, 0, 0, 2, 2, 0, 0});
  CHECK(on(equal, 100, 2) == std::vector<std::uint32_t>{2, 2, 2, 2, 2, 2, 0, 0});
}

TEST_CASE("an idle SM comes before one that is half full, even if the kernel fits once on either", "[cwd][PRT-03]") {
  const Topology topology(Shape::from_sms_per_gpc({4}));
  CreditFill fill({0, 1, 2, 3}, tpcs_of(topology), topology, kCapacity, false);
  const std::vector<std::uint16_t> once(4, 1);
  std::vector<ResourceVector> used(4);
  used[0] = used[1] = ResourceVector{{1024, 16'384, 0, 4, 32, 4}};
  const ResourceVector need{{128, 4096, 204'800, 1, 4, 1}};
  const std::vector<TpcPrice> prices(2);
  CHECK(counts_of(fill.place({once, used, need}, 2, prices, {2, 0}), topology) ==
        std::vector<std::uint32_t>{0, 0, 1, 1});
  CHECK(heddle::cwd::load_of(used[0], kCapacity) == 32);
  CHECK(heddle::cwd::load_of({}, kCapacity) == 0);
  CHECK(heddle::cwd::load_of({{1, 0, 0, 0, 0, 0}}, kCapacity) == 1);
  CHECK(heddle::cwd::load_of(kCapacity, kCapacity) == 64);
  CHECK(heddle::cwd::load_of({{4096, 0, 0, 0, 0, 0}}, kCapacity) == 64);
}

}  // namespace cwd_credit_fill_test
