// A storm of launches and completions: grids of every kind side by side, on whole machines with all invariants on.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/topology.h"
#include "cwd/occupancy.h"
#include "support/cga_judge.h"
#include "support/gpu_bench.h"

namespace stress_storm_test {

using namespace heddle::test;
using heddle::TimingMode;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::gpu::GpuParams;

namespace {

// uGPUs that divide the GPCs at random.
std::vector<std::uint32_t> random_ugpus(Random& random, std::uint32_t gpcs) {
  std::vector<std::uint32_t> ugpus;
  for (std::uint32_t left = gpcs; left > 0; left -= ugpus.back()) ugpus.push_back(random.between(1, left));
  return ugpus;
}

GpuParams random_machine(Random& random) {
  GpuParams params = random_gpu_params(random);
  params.machine.shape = random.shape(5);
  const auto gpcs = static_cast<std::uint32_t>(params.machine.shape.gpcs.size());
  params.cwd = random_cwd_params(random, params.machine.shape.sms());
  if (random.chance(50)) {
    params.machine.ugpus = random_ugpus(random, gpcs);
    params.l2.partitions = static_cast<std::uint32_t>(params.machine.ugpus.size());  // each owns one (CWD-46)
    params.l2.slices = params.l2.partitions * std::max(1U, params.l2.slices / params.l2.partitions);
  }
  if (random.chance(30)) params.cwd.gpc_distances = std::vector<std::uint32_t>(gpcs, 0);
  for (std::uint32_t& distance : params.cwd.gpc_distances) distance = random.between(1, 90);
  params.cwd.load_balancing = random.chance(70) ? "lake" : "packed";
  params.cwd.domain_policy = random.chance(60) ? "fastest" : random.chance(50) ? "first_fit" : "tightest";
  params.cwd.age_limit = random.chance(30) ? 0 : random.below(3000);
  params.cwd.masks_per_packet = random.between(1, 4);
  params.cwd.tpc_credits = random.chance(30) ? random.between(3, 12) : 0;
  if (params.cwd.tpc_credits > 0) params.cwd.partition = heddle::protocol::PartitionMode::dynamic;
  params.cwd.local_memory_blocks = random.chance(30) ? random.between(3, 20) : 0;
  params.cwd.memory_slots = random.between(1, 4);
  params.cwd.gpu_cga_barriers = random.between(1, 3);
  params.cwd.central_raster = random.chance(20);
  if (random.chance(20)) params.cwd.plain = "one_at_a_time";
  params.gpc.cga_ids = random.between(1, 6);
  params.gpc.cga_flush = random.below(200);
  params.gpc.delta_bits = random.between(1, 20);
  params.gpc.divide_cycles = random.below(5) / 4.0;
  params.gpc.mpc = random.chance(70) ? heddle::gpc::MpcPer::sm : heddle::gpc::MpcPer::tpc;
  params.gpc.mpc_launches = random.chance(50) ? 0 : random.between(100, 4000) / 1000.0;
  params.cwd.broadcast = random.chance(50) ? heddle::cwd::Broadcast::all : heddle::cwd::Broadcast::usable;
  if (random.chance(20)) params.machine.timing = TimingMode::lt;
  if (random.chance(25)) params.machine.timing = TimingMode::fast;
  return params;
}

struct Storm {
  std::uint64_t ctas = 0;
  std::size_t cgas = 0;
  std::uint32_t rejected = 0;
};

// Every operation ends, as done or as rejected, and the machine is as it was.
Storm run_storm(const GpuParams& params, const std::vector<heddle::protocol::SubmitPacket>& packets,
                std::uint64_t seed) {
  SimFixture sim;
  const Topology topology(params.machine.shape, params.machine.ugpus);
  CgaJudge judge(topology, params.sm.limits);
  GpuBench bench(params, seed);
  bench.observation.ctas = &judge;
  for (const auto& packet : packets) {
    if (heddle::cwd::why_never_fits(topology, params.cwd, params.sm.limits, packet.kernel,
                                    std::min(params.gpc.cga_ids, params.gpc.cga_barriers))
            .empty()) {
      judge.expect(packet);
    }
  }
  for (const auto& packet : packets) bench.host.submit_until_forgotten(packet.operation, packet);
  run_until_idle();
  REQUIRE(bench.host.results.size() == packets.size());
  REQUIRE(judge.verdict() == std::vector<std::string>{});
  bench.gpu.check_quiescent();
  REQUIRE(bench.stat("cwd.ctas_launched") == static_cast<double>(judge.started));
  REQUIRE(bench.stat("cwd.ctas_completed") == static_cast<double>(judge.started));
  Storm storm;
  storm.ctas = judge.started;
  storm.cgas = judge.cgas();
  storm.rejected = static_cast<std::uint32_t>(bench.stat("cwd.rejected"));
  return storm;
}

}  // namespace

TEST_CASE("grids of every kind on random machines lose nothing and give everything back",
          "[stress][CWD-07][CWD-10][CWD-11][CWD-16][CWD-19][CWD-20][CWD-22]") {
  std::uint64_t ctas = 0;
  std::size_t cgas = 0;
  for (const std::uint64_t seed : seeds(250)) {
    CAPTURE(seed);
    Random random(seed);
    const GpuParams params = random_machine(random);
    std::vector<heddle::protocol::SubmitPacket> packets;
    for (std::uint32_t i = 0; i < 25; ++i) packets.push_back(random_cga_kernel(random, i, i % 6, 12));
    const Storm storm = run_storm(params, packets, seed);
    ctas += storm.ctas;
    cgas += storm.cgas;
  }
  CHECK(ctas > 50'000);
  CHECK(cgas > 10'000);
}

TEST_CASE("a million CTAs in a storm of grids of every kind", "[stress][CWD-06][CWD-07][CWD-11]") {
  Random random(seed());
  GpuParams params;
  params.machine.ugpus = {4, 4};
  params.gpc.cga_flush = 20;
  params.cwd.age_limit = 2000;
  std::vector<heddle::protocol::SubmitPacket> packets;
  std::uint64_t ctas = 0;
  for (std::uint32_t i = 0; ctas < 1'000'000; ++i) {
    packets.push_back(random_cga_kernel(random, i, i % 40, 2000));
    ctas += packets.back().kernel.grid.count();
  }
  const Storm storm = run_storm(params, packets, 1);
  CHECK(storm.ctas >= 1'000'000);
  CHECK(storm.rejected == 0);
}

}  // namespace stress_storm_test
