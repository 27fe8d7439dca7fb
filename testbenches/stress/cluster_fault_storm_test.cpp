// Clusters that break the rules of distributed shared memory, of barriers and of exit, among others that keep them, on
// machines with all invariants on, some of which are reset in the middle: nothing is lost, and only the guilty fault.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "support/cluster_lab.h"
#include "support/random.h"

namespace stress_cluster_fault_storm_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ClusterShape;
using heddle::arch::dsmem_address;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::protocol::DoneStatus;

namespace {

constexpr std::uint64_t kSums = 0x40000;  // one of each kernel
constexpr std::uint64_t kData = 0x80000;  // read only
constexpr std::uint32_t kKernels = 12;    // at a time
// In the shared memory of each CTA.
constexpr std::uint32_t kBarrier = 0;
constexpr std::uint32_t kNoBarrier = 8;
constexpr std::uint32_t kWordsAt = 64;
constexpr std::uint32_t kWords = 64;

struct Kernel {
  explicit Kernel(Random& random) : program(std::make_shared<ListProgram>(6)), warps(random.between(1, 3)) {}
  std::shared_ptr<ListProgram> program;
  std::uint32_t warps;
  std::uint32_t ctas = 0;
  std::uint32_t shared = 0;
  bool guilty = false;    // may fault, and its sum has no meaning
  bool mbarrier = false;  // each CTA waits at its own for all warps of the CGA: none may leave early
  std::uint64_t sum = 0;  // address
  std::uint64_t additions_per_warp = 0;
  std::uint32_t operation = 0;

  std::uint64_t expected() const { return additions_per_warp * warps * ctas; }
};

ListProgram::Condition some_warps(std::uint32_t salt, std::uint32_t percent) {
  return [=](const Warp& warp) { return mixed(warp.place.cta * 64 + warp.place.warp, salt) % 100 < percent; };
}
bool first_warp(const Warp& warp) { return warp.place.warp == 0; }

// A word of some CTA of the CGA.
ListProgram::Address any_word(std::uint32_t salt) {
  return [=](const Warp& warp, std::uint32_t lane) {
    const std::uint32_t size = warp.place.cluster_size;
    const std::uint32_t draw = mixed(warp.place.cta * 977 + warp.place.warp, salt * 131 + (lane / 8) * 7);
    return dsmem_address(draw % size, kWordsAt + 4 * ((draw / size + lane) % kWords));
  };
}
ListProgram::Address in_next_cta(std::uint32_t offset) {
  return [=](const Warp& warp, std::uint32_t) {
    return dsmem_address((warp.place.rank + 1) % warp.place.cluster_size, offset);
  };
}
ListProgram::Address data(Random& random) { return ListProgram::linear(kData + 128 * random.below(64), 4); }

// Each of these is a fault of the SM that issues it, or of another's.
void crime(ListProgram& p, std::uint32_t kind, std::uint32_t from, const Kernel& kernel) {
  const std::uint32_t beyond = (kernel.shared + 127) / 4 * 4;
  const ListProgram::Value one = ListProgram::constant(1);
  switch (kind) {
    case 0:
      p.load(one_lane(Space::cluster), 0, ListProgram::constant(dsmem_address(40, 0)));
      break;
    case 1:
      p.store(one_lane(Space::cluster), one, in_next_cta(beyond));
      break;
    case 2:
      p.mbarrier_arrive(Space::cluster, in_next_cta(kNoBarrier));
      break;
    case 3:
      p.load(one_lane(Space::cluster), 0, in_next_cta(beyond));
      p.compute(Unit::int32, 1, {{0, 1}});
      break;
    case 4:
      p.atomic(one_lane(Space::cluster), AtomicKind::add, ValueType::u32, std::uint16_t{0}, one, in_next_cta(beyond));
      break;
    case 5:
      p.load(one_lane(Space::global), 0, ListProgram::constant(0xFFFF'FFFF'FF00));
      break;
    case 6:
      p.release_shared(4 * from);  // what the others may yet want
      break;
    case 7:
      p.cluster_wait();
      break;
    default:
      if (!kernel.mbarrier) p.exit();
  }
}

void maybe_crime(Random& random, Kernel& kernel) {
  const std::uint32_t salt = random.below(1'000'000);
  const std::uint32_t kind = random.below(9);
  const std::uint32_t from = random.below(60);
  only_if(*kernel.program, some_warps(salt, random.chance(50) ? 2 : 15),
          [&](ListProgram& p) { crime(p, kind, from, kernel); });
}

// What may outlive its CTA: copies into shared memory that is given back, writes that nobody waits for.
void leave_behind(Random& random, Kernel& kernel) {
  ListProgram& p = *kernel.program;
  const std::uint32_t salt = random.below(1'000'000);
  if (random.chance(25)) {
    p.async_copy(access_to(Space::global), data(random), ListProgram::linear(kWordsAt + 128, 4));
    p.async_commit();
    const std::uint32_t from = 4 * random.below(100);
    if (random.chance(50)) only_if(p, some_warps(salt, 10), [from](ListProgram& q) { q.release_shared(from); });
  }
  if (random.chance(20)) {
    p.store(access_to(Space::cluster, random.chance(30) ? Order::release : Order::weak), ListProgram::constant(1),
            any_word(salt + 1));
    if (!kernel.mbarrier && random.chance(40)) only_if(p, some_warps(salt + 2, 40), [](ListProgram& q) { q.exit(); });
  }
}

void add(Random& random, Kernel& kernel) {
  const std::uint16_t destination = random.chance(40) ? std::uint16_t{2} : kNoRegister;
  kernel.program->atomic(access_to(Space::cluster, Order::relaxed), AtomicKind::add, ValueType::u32, destination,
                         ListProgram::constant(1), any_word(random.below(1'000'000)));
  kernel.additions_per_warp += heddle::arch::kWarpLanes;
}

void barrier(Random& random, ListProgram& p) {
  if (random.chance(60)) return cluster_barrier(p);
  p.cluster_arrive(Order::relaxed);
  p.compute(Unit::int32, 1 + random.below(200));
  p.cluster_wait(Order::relaxed);
}

void add_step(Random& random, Kernel& kernel) {
  ListProgram& p = *kernel.program;
  if (kernel.guilty) leave_behind(random, kernel);
  switch (random.below(kernel.guilty ? 8 : 6)) {
    case 0:
      p.load(access_to(Space::cluster), 3, any_word(random.below(1'000'000)));
      break;
    case 1:
    case 2:
      add(random, kernel);
      break;
    case 3: {
      const std::uint32_t count = 1 + random.below(400);
      only_if(p, some_warps(random.below(1'000'000), 30), [count](ListProgram& q) { q.compute(Unit::fp32, count); });
      break;
    }
    case 4:
      barrier(random, p);
      break;
    case 5:
      p.load(access_to(Space::global), 4, data(random));
      p.fence(Order::acquire_release, Scope::gpu);
      break;
    default:
      maybe_crime(random, kernel);
  }
}

void init_mbarrier(ListProgram& program) {
  only_if(program, first_warp, [](ListProgram& p) {
    p.mbarrier_init(kBarrier, [](const Warp& warp, std::uint32_t) {
      return std::uint64_t{warp.place.cluster_size} * warp.place.warps;
    });
  });
}
// Every warp arrives at those of all CTAs.
void meet_at_mbarriers(ListProgram& program, std::uint32_t most) {
  for (std::uint32_t rank = 0; rank < most; ++rank) {
    only_if(
        program, [rank](const Warp& warp) { return rank < warp.place.cluster_size; },
        [rank](ListProgram& p) { p.mbarrier_arrive(Space::cluster, dsmem_address(rank, kBarrier)); });
  }
  program.mbarrier_wait(kBarrier, 0, {{}, Scope::cluster, {}});
}

// One warp of each CTA adds up the CTA's words.
void sum_up(Random& random, const Kernel& kernel) {
  ListProgram& program = *kernel.program;
  only_if(program, first_warp, [&kernel](ListProgram& p) {
    for (const std::uint16_t reg : {std::uint16_t{0}, std::uint16_t{1}}) {
      p.load(access_to(Space::shared), reg, ListProgram::linear(kWordsAt + 128 * reg, 4));
      p.atomic(access_to(Space::global, Order::relaxed), AtomicKind::add, ValueType::u64, kNoRegister,
               ListProgram::of_register(reg), ListProgram::constant(kernel.sum), {{reg, 1}});
    }
  });
  const std::uint32_t from = 4 * random.below(64);
  if (random.chance(50)) only_if(program, first_warp, [from](ListProgram& p) { p.release_shared(from); });
  program.compute(Unit::fp32, 1 + random.below(300));
}

Kernel random_kernel(Random& random, std::uint64_t sum) {
  Kernel kernel(random);
  kernel.shared = 512 + 4 * random.below(random.chance(20) ? 20'000 : 400);
  kernel.guilty = random.chance(60);
  kernel.mbarrier = random.chance(50);
  kernel.sum = sum;
  ListProgram& p = *kernel.program;
  if (kernel.mbarrier) init_mbarrier(p);
  cluster_barrier(p);
  const std::uint32_t steps = random.between(1, 8);
  for (std::uint32_t i = 0; i < steps; ++i) add_step(random, kernel);
  if (kernel.mbarrier) meet_at_mbarriers(p, 8);
  if (!kernel.guilty || random.chance(80)) {
    cluster_barrier(p);
    sum_up(random, kernel);
  }
  p.exit();
  return kernel;
}

// GPC_CGAs, or GPU_CGAs of two of them.
ClusterShape random_shape(Random& random) {
  if (random.chance(25)) {
    const std::uint32_t size = random.between(1, 3);
    ClusterShape cluster = clusters_of(size, CgaMode::load_balancing);
    cluster.of(CgaLevel::gpu) = {2 * size, 1, 1};
    return cluster;
  }
  const std::uint32_t size = random.between(1, 8);
  return clusters_of(size, random.chance(50) && size <= 5 ? CgaMode::multicast : CgaMode::load_balancing);
}

std::vector<std::string> random_settings(Random& random) {
  std::vector<std::string> sets{fmt::format("gpu.timing={}", random.chance(30) ? "lt" : "at"),
                                fmt::format("gpu.gpc.exit_permission={}", random.chance(50) ? "at_once" : "drained")};
  if (random.chance(40)) sets.push_back(fmt::format("gpu.gpc.cga_ids={}", random.between(1, 5)));
  if (random.chance(40)) {
    sets.push_back(fmt::format("gpu.gpc.network={{bandwidth: {}, queue: 1}}", random.between(1, 20)));
  } else if (random.chance(40)) {
    sets.emplace_back("gpu.gpc.network={near: 400, far: 20}");
  }
  if (random.chance(30)) sets.emplace_back("gpu.gpc.cga_flush=0");
  if (random.chance(30)) sets.insert(sets.end(), {"gpu.gpc.barrier_near=0", "gpu.gpc.barrier_far=0"});
  if (random.chance(30)) sets.push_back(fmt::format("gpu.gpc.cta_broadcast={}", random.below(500)));
  return sets;
}

std::vector<Kernel> submit_all(GpuLab& lab, Random& random, std::uint32_t round) {
  std::vector<Kernel> kernels;
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    Kernel kernel = random_kernel(random, kSums + 8 * (std::uint64_t{round} * kKernels + i));
    const ClusterShape cluster = random_shape(random);
    kernel.ctas = cluster.of(cluster.outermost()).x * random.between(1, 30);
    const auto packet = lab.packet(kernel.program, {kernel.ctas, 1, 1}, {32 * kernel.warps, 1, 1}, kernel.shared,
                                   random.below(6), cluster);
    kernel.operation = packet.operation;
    lab.host.submit_until_forgotten(lab.host.now() + 1, packet);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

// In the midst of it all. The host's actions keep the GPU from running ahead of it.
void reset_within(GpuLab& lab, Random& random) {
  const std::uint32_t length = random.between(500, 12'000);
  for (std::uint32_t ns = 2; ns < length; ns += 2) lab.host.at(lab.host.now() + ns, [] {});
  run_until(sc_core::sc_time_stamp() + sc_core::sc_time(length, sc_core::SC_NS));
  lab.gpu.reset();
  lab.host.forget();
  lab.gpu.check_quiescent();
}

struct Totals {
  std::uint32_t good = 0;
  std::uint32_t faulted = 0;
};

bool has_fault(const GpuLab& lab, std::uint32_t operation) {
  for (const heddle::arch::FaultRecord& fault : lab.gpu.log().faults()) {
    if (fault.task == operation) return true;
  }
  return false;
}

void judge(GpuLab& lab, const std::vector<Kernel>& kernels, Totals& totals) {
  lab.gpu.check_quiescent();
  REQUIRE(lab.host.problems == std::vector<std::string>{});
  REQUIRE(lab.host.results.size() == kernels.size());
  for (const Kernel& kernel : kernels) {
    CAPTURE(kernel.operation, kernel.guilty);
    const bool faulted = lab.host.results.at(kernel.operation).status != DoneStatus::ok;
    REQUIRE(faulted == has_fault(lab, kernel.operation));
    (faulted ? totals.faulted : totals.good) += 1;
    if (kernel.guilty) continue;
    REQUIRE_FALSE(faulted);
    REQUIRE(lab.read<std::uint64_t>(kernel.sum) == kernel.expected());
  }
}

void storm(const char* preset, std::uint64_t seed, Totals& totals) {
  Random random(seed);
  const std::vector<std::string> sets = random_settings(random);
  CAPTURE(preset, seed, sets);
  SimFixture sim;
  GpuLab lab(preset_params(preset, sets));
  const std::uint32_t resets = random.chance(60) ? random.between(1, 3) : 0;
  std::vector<Kernel> kernels;
  for (std::uint32_t round = 0; round <= resets; ++round) {
    kernels = submit_all(lab, random, round);
    if (round < resets) reset_within(lab, random);
  }
  run_until_idle();
  judge(lab, kernels, totals);
}

}  // namespace

TEST_CASE("clusters that fault lose nothing and disturb nobody", "[stress][CGA-08][CGA-11][CGA-12]") {
  Totals totals;
  for (const std::uint64_t seed : seeds(120)) storm("small", seed, totals);
  CHECK(totals.good > 500);
  CHECK(totals.faulted > 200);
}

TEST_CASE("the same on a large machine, with faults", "[stress][CGA-08][CGA-11][CGA-12]") {
  Totals totals;
  for (const std::uint64_t seed : seeds(12)) storm("h100-sxm", 1000 + seed, totals);
  CHECK(totals.good > 50);
  CHECK(totals.faulted > 20);
}

}  // namespace stress_cluster_fault_storm_test
