// A hundred thousand clusters of mixed sizes and lifetimes, with random traffic between their CTAs, on whole machines
// with all invariants on.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "support/cga_judge.h"
#include "support/cluster_lab.h"
#include "support/random.h"

namespace stress_cluster_storm_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::CgaMode;
using heddle::arch::dsmem_address;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::Topology;
using heddle::arch::Unit;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kSum = 0x40000;  // of everything that CTAs found in their shared memory
constexpr std::uint32_t kWords = 64;     // of shared memory that get additions
constexpr std::uint32_t kBarrier = 4 * kWords;

ListProgram::Lanes some_lanes(std::uint32_t mask) {
  return [mask](const Warp& warp) { return mask ^ mixed(warp.place.cta, warp.place.warp); };
}

// A word of some CTA of the cluster, other than that of the loop's round before.
ListProgram::Address anywhere(std::uint32_t size, std::uint32_t salt) {
  return [=](const Warp& warp, std::uint32_t lane) {
    const std::uint32_t draw = mixed(warp.place.cta * 977 + warp.place.warp, salt * 131 + (lane / 8) * 7 + salt);
    return dsmem_address(draw % size, 4 * ((draw / size + lane) % kWords));
  };
}

struct Kernel {
  std::shared_ptr<ListProgram> program;
  std::uint32_t size = 1;
  std::uint32_t warps = 1;
  std::vector<std::uint32_t> masks;
};

// What all CTAs of the kernel add: one for each lane that takes part.
std::uint64_t additions_of(const Kernel& kernel, std::uint32_t ctas) {
  std::uint64_t sum = 0;
  for (std::uint32_t cta = 0; cta < ctas; ++cta) {
    for (std::uint32_t warp = 0; warp < kernel.warps; ++warp) {
      for (const std::uint32_t mask : kernel.masks) sum += heddle::bits::count(mask ^ mixed(cta, warp));
    }
  }
  return sum;
}

// One warp of the CTA adds up its words.
void sum_up(ListProgram& program) {
  only_if(
      program, [](const Warp& warp) { return warp.place.warp == 0; },
      [](ListProgram& p) {
        for (const std::uint16_t reg : {std::uint16_t{0}, std::uint16_t{1}}) {
          p.load(access_to(Space::shared), reg, ListProgram::linear(128 * reg, 4));
          p.atomic(access_to(Space::global, Order::relaxed), AtomicKind::add, ValueType::u64, kNoRegister,
                   ListProgram::of_register(reg), ListProgram::linear(kSum, 0), {{reg, 1}});
        }
      });
}

// Lifetimes differ between CTAs: some stay ten times as long as others.
void linger(ListProgram& program, std::uint32_t salt) {
  const std::size_t loop = program.loop(1);
  (void)loop;
  program.compute(Unit::fp32, 1 + salt % 60);
  program.end_loop();
  only_if(
      program, [salt](const Warp& warp) { return mixed(warp.place.cta, salt) % 4 == 0; },
      [salt](ListProgram& p) { p.compute(Unit::fp32, 100 + salt % 900); });
}

void add_traffic(Random& random, Kernel& kernel, std::uint32_t salt) {
  ListProgram& p = *kernel.program;
  const auto reduction = [&](std::uint32_t target_salt) {
    ListProgram::Access access = access_to(Space::cluster, Order::relaxed);
    kernel.masks.push_back(static_cast<std::uint32_t>(random.next()));
    access.lanes = some_lanes(kernel.masks.back());
    const bool returns = random.chance(30);
    p.atomic(access, AtomicKind::add, ValueType::u32, returns ? std::uint16_t{2} : kNoRegister,
             ListProgram::constant(1), anywhere(kernel.size, target_salt));
  };
  const std::uint32_t rounds = random.between(1, 4);
  for (std::uint32_t i = 0; i < rounds; ++i) {
    switch (random.below(4)) {
      case 0:
        p.load(access_to(Space::cluster), 3, anywhere(kernel.size, salt + i));
        break;
      case 1:
        linger(p, salt + i);
        break;
      case 2:
        if (random.chance(40)) cluster_barrier(p);
        [[fallthrough]];
      default:
        reduction(salt + i);
    }
  }
  reduction(salt);
}

// Two ways to end: all together at a barrier, or each when it has done its part; then rank 0 stays until all the others
// have said so, and only it gets additions.
Kernel random_kernel(Random& random, std::uint32_t most) {
  Kernel kernel;
  kernel.program = std::make_shared<ListProgram>(4);
  kernel.size = random.between(1, most);
  kernel.warps = random.between(1, 3);
  ListProgram& p = *kernel.program;
  const std::uint32_t salt = random.below(1'000'000);
  if (random.chance(60)) {
    cluster_barrier(p);
    add_traffic(random, kernel, salt);
    cluster_barrier(p);
    sum_up(p);
    linger(p, salt);
    p.exit();
    return kernel;
  }
  only_if(
      p, [](const Warp& warp) { return warp.place.rank == 0 && warp.place.warp == 0; },
      [&](ListProgram& q) { q.mbarrier_init(kBarrier, kernel.size * kernel.warps); });
  cluster_barrier(p);
  linger(p, salt);
  kernel.masks.push_back(static_cast<std::uint32_t>(random.next()));
  ListProgram::Access access = access_to(Space::cluster, Order::relaxed);
  access.lanes = some_lanes(kernel.masks.back());
  p.atomic(access, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1), anywhere(1, salt));
  p.mbarrier_arrive(Space::cluster, dsmem_address(0, kBarrier));
  only_rank(p, 0, [](ListProgram& q) { q.mbarrier_wait(kBarrier, 0, {{}, heddle::arch::Scope::cluster, {}}); });
  only_rank(p, 0, [](ListProgram& q) { sum_up(q); });
  p.exit();
  return kernel;
}

struct Setting {
  const char* preset;
  std::uint32_t clusters;
  std::uint32_t most;  // CTAs of a cluster
  std::vector<std::string> sets;
};

void storm(const Setting& setting, std::uint64_t seed) {
  CAPTURE(setting.preset, setting.sets);
  SimFixture sim;
  Random random(seed);
  GpuLab lab(preset_params(setting.preset, setting.sets));
  CgaJudge judge(lab.gpu.topology(), lab.gpu.params().sm.limits);
  lab.observation.ctas = &judge;
  std::uint64_t expected = 0;
  std::uint32_t clusters = 0;
  std::uint32_t kernels = 0;
  while (clusters < setting.clusters) {
    const Kernel kernel = random_kernel(random, setting.most);
    const std::uint32_t count = random.between(1, setting.clusters / 40);
    const CgaMode mode = random.chance(50) && kernel.size <= 4 ? CgaMode::multicast : CgaMode::load_balancing;
    const auto packet = lab.packet(kernel.program, {count * kernel.size, 1, 1}, {32 * kernel.warps, 1, 1},
                                   kBarrier + 8 + 4 * random.below(2000), kernels % 12, clusters_of(kernel.size, mode));
    judge.expect(packet);
    lab.submit(packet);
    expected += additions_of(kernel, count * kernel.size);
    clusters += count;
    ++kernels;
  }
  run_until_idle();
  REQUIRE(lab.gpu.log().faults().empty());
  REQUIRE(lab.host.results.size() == kernels);
  REQUIRE(judge.verdict() == std::vector<std::string>{});
  CHECK(judge.cgas() == clusters);
  CHECK(lab.read<std::uint64_t>(kSum) == expected);
  lab.gpu.check_quiescent();
}

}  // namespace

TEST_CASE("a storm of clusters with traffic loses nothing and gives everything back",
          "[stress][CGA-01][CGA-02][CGA-03][CGA-06][CGA-11][CGA-12][CGA-15]") {
  storm({"small", heddle::test::long_tests() ? 100'000U : 40'000U, 16, {}}, seed());
  storm({"small", 10'000, 10, {"gpu.timing=lt"}}, seed() + 1);
  storm({"small",
         10'000,
         16,
         {"gpu.gpc.exit_permission=at_once", "gpu.gpc.cga_ids=3", "gpu.gpc.network={bandwidth: 4, queue: 1}"}},
        seed() + 2);
}

TEST_CASE("the same on a large machine", "[stress][CGA-01][CGA-02][CGA-03][CGA-06][CGA-11][CGA-12][CGA-15]") {
  storm({"h100-sxm", heddle::test::long_tests() ? 50'000U : 20'000U, 16, {}}, seed() + 3);
}

}  // namespace stress_cluster_storm_test
