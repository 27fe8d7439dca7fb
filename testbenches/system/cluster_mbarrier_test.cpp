// mbarriers between the CTAs of a cluster on whole machines: random interleavings of arrive, expect, complete, test and
// wait from many CTAs, phase after phase, against what must hold whatever the order (CGA-14).
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/cluster_lab.h"
#include "support/random.h"

namespace system_cluster_mbarrier_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::CgaMode;
using heddle::arch::dsmem_address;
using heddle::arch::kNoRegister;
using heddle::arch::LaneMask;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kWrong = 0x40000;  // values that were not what they must be
constexpr std::uint64_t kRight = 0x40008;  // values that were
constexpr std::uint32_t kBarriers = 0;     // two for every CTA, used in turn
constexpr std::uint32_t kData = 64;        // a word of every CTA, for each of the two

// What all CTAs of a cluster agree on. Every CTA sends a word to each, itself included, in every phase, and tells the
// target's barrier of 4 bytes; one of them, another one each time, expects all those bytes.
struct Plan {
  std::uint32_t size = 2;
  std::uint32_t phases = 4;
  std::uint64_t salt = 0;

  std::uint32_t count(std::uint32_t rank) const { return 1 + mixed(rank, salt) % 3; }  // arrivals at a time
  std::uint32_t all_counts() const {
    std::uint32_t sum = 0;
    for (std::uint32_t rank = 0; rank < size; ++rank) sum += count(rank);
    return sum;
  }
  std::uint32_t expecter(std::uint32_t phase, std::uint32_t target) const {
    return mixed(phase * 64 + target, salt + 1) % size;
  }
  std::uint32_t word(std::uint64_t cluster, std::uint32_t phase, std::uint32_t from, std::uint32_t to) const {
    return mixed(cluster * 4096 + phase * 1024 + from * 32 + to, salt + 2);
  }
};

Sync by_lane_0(Order order, Scope scope) {
  Sync sync;
  sync.order = order;
  sync.scope = scope;
  return sync;
}

// Adds 1 to one of two counters for each lane of the condition.
void judge(ListProgram& p, std::uint16_t reg, const std::function<std::uint32_t(const Warp&)>& expected) {
  for (const bool right : {false, true}) {
    ListProgram::Access access = access_to(Space::global, Order::relaxed);
    access.lanes = [=](const Warp& warp) { return (warp.reg(reg, 0) == expected(warp)) == right ? LaneMask{1} : 0; };
    p.atomic(access, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1),
             ListProgram::linear(right ? kRight : kWrong, 0), {{reg, 1}});
  }
}

// What one CTA does for one target in one phase, in some order. The arrival comes after the word: it releases it.
void serve(ListProgram& p, Random& random, const Plan& plan, std::uint32_t phase, std::uint32_t distance) {
  const std::uint32_t barrier = kBarriers + 8 * (phase % 2);
  const auto target = [=](const Warp& warp) { return (warp.place.rank + distance) % plan.size; };
  const auto at_barrier = [=](const Warp& warp, std::uint32_t) { return dsmem_address(target(warp), barrier); };
  const auto complete = [&] { p.mbarrier_complete(Space::cluster, at_barrier, 4); };
  const bool early = random.chance(50);
  p.store(
      one_lane(Space::cluster),
      [=](const Warp& warp, std::uint32_t) {
        return plan.word(warp.place.cluster, phase, warp.place.rank, target(warp));
      },
      [=](const Warp& warp, std::uint32_t) {
        return dsmem_address(target(warp), kData + 4 * (plan.size * (phase % 2) + warp.place.rank));
      });
  if (early) complete();
  if (random.chance(40)) {
    const std::uint32_t salt = random.below(1000);
    only_if(
        p, [salt](const Warp& warp) { return mixed(warp.place.cta, salt) % 3 == 0; },
        [salt](ListProgram& q) { q.compute(Unit::fp32, 1 + salt); });
  }
  const auto expects = [=](const Warp& warp) { return plan.expecter(phase, target(warp)) == warp.place.rank; };
  const bool apart = random.chance(50);
  if (apart) {
    Sync sync;
    sync.lanes = [=](const Warp& warp) { return expects(warp) ? LaneMask{1} : 0; };
    p.mbarrier_expect(Space::cluster, at_barrier, 4 * plan.size, sync);
  }
  p.mbarrier_arrive(
      Space::cluster, at_barrier, [=](const Warp& warp, std::uint32_t) { return plan.count(warp.place.rank); },
      [=](const Warp& warp, std::uint32_t) { return !apart && expects(warp) ? 4 * plan.size : 0; },
      by_lane_0(Order::release, Scope::cluster));
  if (!early) complete();
}

std::shared_ptr<ListProgram> exchange(Random& random, const Plan& plan) {
  auto program = std::make_shared<ListProgram>(2);
  ListProgram& p = *program;
  for (const std::uint32_t which : {0U, 8U}) p.mbarrier_init(kBarriers + which, plan.all_counts());
  cluster_barrier(p);
  for (std::uint32_t phase = 0; phase < plan.phases; ++phase) {
    const std::uint32_t barrier = kBarriers + 8 * (phase % 2);
    const std::uint32_t parity = phase / 2 % 2;
    std::vector<std::uint32_t> distances = random.permutation(plan.size);
    for (const std::uint32_t distance : distances) {
      // Without the own arrival the phase cannot have completed.
      if (distance == 0) {
        p.mbarrier_test(barrier, parity, 0);
        judge(p, 0, [](const Warp&) { return 0U; });
      }
      serve(p, random, plan, phase, distance);
    }
    p.mbarrier_wait(barrier, parity, by_lane_0(Order::acquire, Scope::cluster));
    p.mbarrier_test(barrier, parity, 0);
    judge(p, 0, [](const Warp&) { return 1U; });
    for (std::uint32_t from = 0; from < plan.size; ++from) {
      p.load(one_lane(Space::shared), 1, ListProgram::linear(kData + 4 * (plan.size * (phase % 2) + from), 0));
      judge(p, 1, [=](const Warp& warp) { return plan.word(warp.place.cluster, phase, from, warp.place.rank); });
    }
  }
  cluster_barrier(p);
  p.exit();
  return program;
}

}  // namespace

TEST_CASE("mbarriers of many CTAs complete every phase once, with all that was expected", "[system][CGA-06][CGA-14]") {
  std::uint64_t all = 0;
  for (const std::uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<std::string> sets{
        std::string("gpu.timing=") + (random.chance(30) ? "lt" : "at"),
        random.chance(40) ? "gpu.gpc.network={near: 3, far: 90, bandwidth: 2, queue: 1}" : "gpu.gpc.network.queue=8"};
    CAPTURE(sets);
    SimFixture sim;
    GpuLab lab(preset_params("small", sets));
    Plan plan;
    plan.size = random.between(1, 10);
    plan.phases = random.between(2, 5);
    plan.salt = seed;
    const std::uint32_t clusters = random.between(1, 6);
    const CgaMode mode = plan.size <= 4 && random.chance(50) ? CgaMode::multicast : CgaMode::load_balancing;
    lab.run(exchange(random, plan), {clusters * plan.size, 1, 1}, {32, 1, 1}, 512, clusters_of(plan.size, mode));
    REQUIRE(lab.gpu.log().faults().empty());
    REQUIRE(lab.host.results.size() == 1);
    const std::uint32_t judged = clusters * plan.size * plan.phases * (2 + plan.size);
    CHECK(lab.read<std::uint32_t>(kWrong) == 0);
    CHECK(lab.read<std::uint32_t>(kRight) == judged);
    all += judged;
    lab.gpu.check_quiescent();
  }
  CHECK(all > 5000);
}

}  // namespace system_cluster_mbarrier_test
