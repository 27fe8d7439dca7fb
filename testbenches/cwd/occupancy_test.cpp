// What an empty machine holds, and what it never can.
#include "cwd/occupancy.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/session_oracle.h"
#include "support/random.h"

namespace cwd_occupancy_test {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::KernelShape;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::arch::SmLimits;
using heddle::arch::Topology;
using heddle::cwd::CwdParams;
using heddle::cwd::EmptyMachine;
using heddle::cwd::Occupancy;
using heddle::test::Random;
using heddle::test::SessionOracle;

namespace {

using Order = std::vector<std::uint32_t>;

Topology h100() { return Topology(Shape::from_sms_per_gpc({18, 18, 18, 18, 16, 16, 14, 14})); }

// A kernel with 1024 threads and 64 registers each: one CTA per SM.
KernelShape one_per_sm(std::uint32_t gpc_cga) {
  KernelShape kernel;
  kernel.grid = {std::max(1U, gpc_cga) * 1000, 1, 1};
  kernel.block = {1024, 1, 1};
  kernel.registers_per_thread = 64;
  if (gpc_cga > 0) kernel.cluster.of(CgaLevel::gpc) = {gpc_cga, 1, 1};
  return kernel;
}

std::uint32_t sum(const Order& values) { return std::accumulate(values.begin(), values.end(), 0U); }

}  // namespace

TEST_CASE("an H100 holds 66 clusters of 2 and 30 of 4 at one CTA per SM", "[cwd][CWD-24]") {
  const Topology topology = h100();
  const CwdParams params;
  const SmLimits limits;
  const Occupancy two = heddle::cwd::occupancy(topology, params, limits, one_per_sm(2));
  CHECK(two.cgas == 66);
  CHECK(two.gpc_cgas == Order{9, 9, 9, 9, 8, 8, 7, 7});
  CHECK(sum(two.unused_sms) == 0);
  const Occupancy four = heddle::cwd::occupancy(topology, params, limits, one_per_sm(4));
  CHECK(four.cgas == 30);
  CHECK(four.gpc_cgas == Order{4, 4, 4, 4, 4, 4, 3, 3});
  CHECK(four.unused_sms == Order{2, 2, 2, 2, 0, 0, 2, 2});
  const Occupancy sixteen = heddle::cwd::occupancy(topology, params, limits, one_per_sm(16));
  CHECK(sixteen.cgas == 6);
  CHECK(sixteen.unused_sms == Order{2, 2, 2, 2, 0, 0, 14, 14});
  CHECK(sixteen.ctas == Order{16, 16, 16, 16, 16, 16, 0, 0});
}

TEST_CASE("clusters of every size at one CTA per SM: as many as fit each GPC", "[cwd][CWD-24]") {
  const Order sms{18, 18, 18, 18, 16, 16, 14, 14};
  const Topology topology = h100();
  const CwdParams params;
  const SmLimits limits;
  for (const CgaMode mode : {CgaMode::multicast, CgaMode::load_balancing}) {
    for (std::uint32_t size = 1; size <= 16; ++size) {
      CAPTURE(size, static_cast<int>(mode));
      KernelShape kernel = one_per_sm(size);
      kernel.cluster.mode = mode;
      const Occupancy occupancy = heddle::cwd::occupancy(topology, params, limits, kernel);
      std::uint32_t wanted = 0;
      for (std::size_t g = 0; g < sms.size(); ++g) {
        wanted += sms[g] / size;
        CHECK(occupancy.gpc_cgas[g] == sms[g] / size);
        CHECK(occupancy.unused_sms[g] == sms[g] % size);
        CHECK(occupancy.ctas[g] == sms[g] / size * size);
      }
      CHECK(occupancy.cgas == wanted);
      CHECK(heddle::cwd::why_never_fits(topology, params, limits, kernel).empty());
    }
  }
}

TEST_CASE("grids without CGAs, wide CGAs, and what limits them besides slots", "[cwd][CWD-19][CWD-24]") {
  const Topology topology = h100();
  CwdParams params;
  params.gpu_cga_barriers = 3;
  params.memory_slots = 2;
  KernelShape kernel = one_per_sm(0);
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 132);
  kernel.cluster.of(CgaLevel::gpu) = {20, 1, 1};
  const Occupancy wide = heddle::cwd::occupancy(topology, params, {}, kernel);
  CHECK(wide.cgas == 3);  // six have room, but not barriers
  CHECK(sum(wide.ctas) == 60);
  CHECK(sum(wide.unused_sms) == 72);
  params.gpu_cga_barriers = 100;
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 6);
  kernel.cluster.linear_memory = true;
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 2);

  kernel.cluster.linear_memory = false;
  kernel.cluster.of(CgaLevel::gpc) = {4, 1, 1};  // five of them per GPU_CGA: 30 have room
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 6);
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel, 2).cgas == 3);  // of 16 with an id
  params.gpu_cga_barriers = 2;
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 2);
}

TEST_CASE("a subcontext's TPC credits and local-memory blocks limit what it holds", "[cwd][CWD-24][CWD-25]") {
  const Topology topology(Shape::from_sms_per_gpc({4, 4}));
  CwdParams params;
  params.tpc_credits = 3;
  CHECK(heddle::cwd::occupancy(topology, params, {}, one_per_sm(2)).cgas == 4);  // not asked for
  params.partition = heddle::protocol::PartitionMode::dynamic;
  KernelShape kernel = one_per_sm(2);
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 3);
  kernel = one_per_sm(0);
  kernel.local_bytes = 64;
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 6);
  params.local_memory_blocks = 1;
  CHECK(heddle::cwd::occupancy(topology, params, {}, kernel).cgas == 2);
  kernel = one_per_sm(4);
  kernel.local_bytes = 64;
  const Topology uneven(Shape{{{{1, 2, 1, 2}}}});
  kernel.cluster.of(CgaLevel::gpc) = {2, 1, 1};
  CHECK(heddle::cwd::occupancy(uneven, params, {}, kernel).ctas == Order{2});  // the TPC with most room
  kernel = one_per_sm(4);
  kernel.local_bytes = 64;
  CHECK_THAT(heddle::cwd::why_never_fits(topology, params, {}, kernel),
             Contains("needs 4 SMs of one GPC; the largest GPC has 2") && Contains("1 TPC for a subcontext"));
}

TEST_CASE("occupancy on random machines is what the reference places", "[cwd][CWD-19][CWD-24]") {
  for (const std::uint64_t seed : heddle::test::seeds(1500)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology topology(random.shape(5));
    Order sms(topology.sms());
    std::iota(sms.begin(), sms.end(), 0U);
    Order gpcs(topology.gpcs());
    std::iota(gpcs.begin(), gpcs.end(), 0U);
    const std::uint32_t per_sm = random.between(1, 4);
    const std::uint32_t cgas_per_gpc = random.chance(30) ? random.between(1, 4) : 1000;
    SessionOracle::Request request;
    request.ctas = random.between(1, 8);
    request.multicast = random.chance(50);
    request.units = 100'000;
    if (random.chance(40)) request.gpu_cga = random.between(1, 4);

    ResourceVector capacity;
    ResourceVector need;
    for (std::uint32_t& amount : capacity.amount) amount = per_sm;
    for (std::uint32_t& amount : need.amount) amount = 1;
    heddle::arch::ClusterShape cluster;
    cluster.mode = request.multicast ? CgaMode::multicast : CgaMode::load_balancing;
    cluster.of(CgaLevel::gpc) = {request.ctas, 1, 1};
    if (request.gpu_cga > 0) cluster.of(CgaLevel::gpu) = {request.ctas * request.gpu_cga, 1, 1};
    CwdParams params;
    params.gpu_cga_barriers = 100'000;

    SessionOracle oracle(topology, sms, gpcs, {});
    const auto& wanted = oracle.run(std::vector<std::uint16_t>(topology.sms(), static_cast<std::uint16_t>(per_sm)),
                                    Order(topology.gpcs(), cgas_per_gpc), request);
    EmptyMachine machine(topology, params, capacity, cgas_per_gpc);
    const Occupancy occupancy = machine.occupancy(need, cluster);
    REQUIRE(occupancy.cgas == oracle.units());
    Order of_gpc(topology.gpcs(), 0);
    std::vector<std::vector<bool>> used(topology.gpcs(), std::vector<bool>(64, false));
    for (const SessionOracle::Cga& cga : wanted) {
      ++of_gpc[cga.gpc];
      for (const std::uint32_t bit : cga.order) used[cga.gpc][bit] = true;
    }
    REQUIRE(occupancy.gpc_cgas == of_gpc);
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      const auto busy = static_cast<std::uint32_t>(std::count(used[g].begin(), used[g].end(), true));
      REQUIRE(occupancy.unused_sms[g] == topology.gpc(g).sms - busy);
      REQUIRE(occupancy.ctas[g] == of_gpc[g] * request.ctas);
    }
    // What fits once, or not at all, is what is rejected.
    REQUIRE(machine.why_never_fits(need, cluster).empty() == (oracle.units() > 0));
  }
}

TEST_CASE("what can never fit is refused with resource and domain", "[cwd][CWD-25]") {
  const Topology topology(Shape::from_sms_per_gpc({14, 10}));
  const SmLimits limits;
  CwdParams params;
  const auto why = [&](const KernelShape& kernel, std::uint32_t cgas_per_gpc = heddle::cwd::kNoLimit) {
    return heddle::cwd::why_never_fits(topology, params, limits, kernel, cgas_per_gpc);
  };
  CHECK(why(one_per_sm(0)).empty());
  CHECK(why(one_per_sm(14)).empty());
  CHECK_THAT(
      why(one_per_sm(16)),
      Equals("a GPC_CGA of 16 CTAs with 1 CTA per SM (registers: a CTA takes 65536 of 65536) needs 16 SMs of one "
             "GPC; the largest GPC has 14"));
  KernelShape small = one_per_sm(16);
  small.block = {256, 1, 1};
  small.cluster.mode = CgaMode::multicast;
  CHECK_THAT(why(small),
             Equals("a GPC_CGA of 16 CTAs with 1 CTA of it per SM (multicast mode) needs 16 SMs of one GPC; "
                    "the largest GPC has 14"));
  small.cluster.mode = CgaMode::load_balancing;
  CHECK(why(small).empty());

  SECTION("a smaller size serves") {
    KernelShape kernel = one_per_sm(16);
    kernel.cluster.fallback[0] = {8, 1, 1};
    CHECK(why(kernel).empty());
    CHECK(heddle::cwd::occupancy(topology, params, limits, kernel).cgas == 0);
    EmptyMachine machine(topology, params, heddle::arch::capacity_of(limits));
    CHECK(machine.occupancy(heddle::arch::need_of(limits, kernel), kernel.cluster, 1).cgas == 2);
  }
  SECTION("no size serves") {
    const Topology narrow(Shape::from_sms_per_gpc({2, 2}));
    KernelShape kernel = one_per_sm(16);
    kernel.cluster.fallback[0] = {8, 1, 1};
    kernel.cluster.fallback[1] = {4, 1, 1};
    CHECK_THAT(heddle::cwd::why_never_fits(narrow, params, limits, kernel),
               Contains("needs 16 SMs of one GPC; the largest GPC has 2; nor does one of its 2 smaller sizes"));
  }
  SECTION("GPU_CGAs of GPC_CGAs") {
    KernelShape kernel = one_per_sm(4);
    kernel.cluster.of(CgaLevel::gpu) = {20, 1, 1};
    CHECK(why(kernel).empty());
    kernel.cluster.of(CgaLevel::gpu) = {40, 1, 1};
    CHECK_THAT(why(kernel), Equals("a GPU_CGA of 10 GPC_CGAs of 4 CTAs: the empty GPU holds 5, with 1 CTA per SM "
                                   "(registers: a CTA takes 65536 of 65536)"));
    const Topology halves(Shape::from_sms_per_gpc({14, 10}), {1, 1});
    CHECK_THAT(heddle::cwd::why_never_fits(halves, params, limits, kernel), Contains("the empty GPU holds 5,"));
    kernel.cluster.of(CgaLevel::gpu) = {20, 1, 1};
    CHECK_THAT(why(kernel, 1), Equals("a GPU_CGA of 5 GPC_CGAs of 4 CTAs: the empty GPU holds 2: a GPC has ids and "
                                      "barriers for 1 GPC_CGA"));
  }
  SECTION("GPC_CGAs of CPC_CGAs: CPCs of 6, 4 and 4 SMs") {
    KernelShape kernel = one_per_sm(8);
    kernel.cluster.of(CgaLevel::cpc) = {4, 1, 1};
    CHECK(why(kernel).empty());
    kernel.cluster.of(CgaLevel::gpc) = {16, 1, 1};
    kernel.grid = {16'000, 1, 1};
    CHECK_THAT(why(kernel),
               Contains("a GPC_CGA of 4 CPC_CGAs of 4 CTAs: no empty GPC holds more than 3, with 1 CTA per SM"));
    kernel = one_per_sm(7);
    kernel.cluster.of(CgaLevel::cpc) = {7, 1, 1};
    CHECK_THAT(why(kernel),
               Contains("a CPC_CGA of 7 CTAs") && Contains("needs 7 SMs of one CPC; the largest CPC has 6"));
  }
  SECTION("wide CGAs") {
    KernelShape kernel = one_per_sm(0);
    kernel.grid = {1000, 1, 1};
    kernel.cluster.of(CgaLevel::gpu) = {25, 1, 1};
    CHECK_THAT(why(kernel), Contains("a GPU_CGA of 25 CTAs") && Contains("needs 25 SMs; the GPU has 24"));
    kernel.block = {512, 1, 1};
    CHECK(why(kernel).empty());  // two on an SM: the mode is one of GPC_CGAs
    kernel.cluster.of(CgaLevel::gpu) = {50, 1, 1};
    CHECK_THAT(why(kernel), Contains("with 2 CTAs per SM") && Contains("needs 25 SMs; the GPU has 24"));
  }
  SECTION("uGPU_CGAs") {
    const Topology halves(Shape::from_sms_per_gpc({14, 10}), {1, 1});
    KernelShape kernel = one_per_sm(0);
    kernel.cluster.of(CgaLevel::ugpu) = {16, 1, 1};
    kernel.grid = {1600, 1, 1};
    CHECK_THAT(heddle::cwd::why_never_fits(halves, params, limits, kernel),
               Contains("a uGPU_CGA of 16 CTAs") && Contains("of one uGPU; the largest uGPU has 14"));
    kernel.cluster.of(CgaLevel::gpc) = {4, 1, 1};
    CHECK_THAT(heddle::cwd::why_never_fits(halves, params, limits, kernel),
               Contains("a uGPU_CGA of 4 GPC_CGAs of 4 CTAs") && Contains("no empty uGPU holds more than 3"));
    CHECK(why(kernel).empty());  // the machine in one piece holds it
    kernel.cluster.of(CgaLevel::ugpu) = {8, 1, 1};
    kernel.cluster.of(CgaLevel::gpu) = {16, 1, 1};
    CHECK(heddle::cwd::why_never_fits(halves, params, limits, kernel).empty());
    kernel.cluster.of(CgaLevel::gpu) = {32, 1, 1};
    CHECK_THAT(heddle::cwd::why_never_fits(halves, params, limits, kernel),
               Contains("a GPU_CGA of 4 uGPU_CGAs of 8 CTAs: the empty GPU holds 2"));
  }
  SECTION("malformed, or a CTA that is too large") {
    KernelShape kernel = one_per_sm(32);
    CHECK_THAT(why(kernel), Contains("GPC_CGA of 32 CTAs, at most 16"));
    kernel = one_per_sm(2);
    kernel.shared_bytes = 300'000;
    CHECK_THAT(why(kernel), Contains("shared memory"));
  }
  SECTION("nothing left of what CGAs take") {
    KernelShape kernel = one_per_sm(2);
    CHECK_THAT(why(kernel, 0), Contains("a GPC_CGA of 2 CTAs takes an id and a barrier of its GPC"));
    kernel.cluster.linear_memory = true;
    params.memory_slots = 0;
    CHECK_THAT(why(kernel), Contains("CGA memory slot"));
    kernel.cluster.of(CgaLevel::gpu) = {4, 1, 1};
    params.gpu_cga_barriers = 0;
    CHECK_THAT(why(kernel), Contains("a GPU_CGA takes 1 barrier of the GPU, which has 0"));
  }
}

}  // namespace cwd_occupancy_test
