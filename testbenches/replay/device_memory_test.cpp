// Regions of a workload, and the linear memories of its CGAs, which lie at the end of device memory.
#include "replay/device_memory.h"

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "gpu/gpu.h"
#include "replay/replay_bench.h"
#include "support/sim_fixture.h"

namespace replay_device_memory_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;
using workload::Workload;

namespace {

// A kernel of CGAs, and a region that ends `below` bytes below the end of memory.
Workload with_region(const gpu::GpuParams& params, std::uint64_t bytes, std::uint64_t below, bool linear_memory) {
  Workload w = empty_workload(1);
  w.ops.push_back(copy_op(0, 100));
  w.ops.push_back(kernel_op(0, 8, 100));
  w.ops.back().kernel.cluster.of(arch::CgaLevel::gpc) = {2, 1, 1};
  w.ops.back().kernel.cluster.linear_memory = linear_memory;
  workload::MemoryRegion region;
  region.name = "y";
  region.address = params.machine.memory - below - bytes;
  region.bytes = bytes;
  region.where = {"s.yaml", 7, 5};
  w.memory.push_back(region);
  return w;
}

std::string loaded(const gpu::GpuParams& params, const Workload& workload) {
  const SimFixture fixture;
  GpuObservation observation("gpu0");
  gpu::Gpu gpu("gpu0", params, 1, observation);
  return failure_of([&] { replay::load_regions(workload, "gpu0", gpu, replay::map_memory(workload, "gpu0", params)); });
}

}  // namespace

TEST_CASE("a region does not reach into the linear memories of CGAs", "[replay][CGA-10][CWD-22]") {
  gpu::GpuParams params = preset_params("small");
  params.cwd.memory_slots = 3;
  params.gpc.cga_memory = 640;
  const std::uint64_t pool = std::uint64_t{arch::kSubcontexts} * 3 * 640;
  REQUIRE(params.cga_memory().bytes() == pool);
  for (const std::uint64_t bytes : {4ULL, 4096ULL}) {
    for (const std::uint64_t below : {pool - 4, pool - bytes, pool / 2, std::uint64_t{0}}) {
      CAPTURE(bytes, below);
      const std::string message = loaded(params, with_region(params, bytes, below, true));
      CHECK_THAT(message, Contains("s.yaml:7:5: region y: it ends at byte ") &&
                              Contains(std::to_string(params.machine.memory - below)) &&
                              Contains("from byte " + std::to_string(params.machine.memory - pool)) &&
                              Contains("of gpu0: 64 subcontexts x 3 slots of 640 bytes"));
      // Nobody uses them.
      CHECK(loaded(params, with_region(params, bytes, below, false)).empty());
    }
    CHECK(loaded(params, with_region(params, bytes, pool, true)).empty());
  }
  // Beyond memory is another matter.
  Workload beyond = with_region(params, 4096, 0, true);
  beyond.memory.front().address += 1;
  CHECK_THAT(loaded(params, beyond), Contains("bytes of memory"));
}

TEST_CASE("a replay refuses such a region before it begins", "[replay][CGA-10]") {
  const gpu::GpuParams params = preset_params("small");
  const Workload bad = with_region(params, 4096, 0, true);
  CHECK_THROWS_AS(replay::simulate({job_of(bad, params)}, {}), InputError);
  const Workload good = with_region(params, 4096, params.cga_memory().bytes(), true);
  CHECK(replay::simulate({job_of(good, params)}, {}).progress);
}

}  // namespace replay_device_memory_test
