// What the TMAU saves in the SM: scenarios/tma_copy_compare.yaml, the same tiles by asynchronous copies of all threads
// and by requests of one.
#include <catch2/catch.hpp>

#include "tensor_bench.h"

namespace replay_tensor_copies_test {

using namespace heddle;

TEST_CASE("requests for whole tiles take fewer instructions and registers than copies of all threads",
          "[replay][TMA-00]") {
  const scenario::Scenario scenario = test::shipped_scenario("tma_copy_compare");
  REQUIRE(scenario.workloads.size() == 2);
  const gpu::GpuParams params = test::preset_params(scenario.gpus.at(0));
  const test::TensorRun copies = test::run_tensors(scenario.workloads[0], params, "y0");
  const test::TensorRun requests = test::run_tensors(scenario.workloads[1], params, "y1");
  REQUIRE(copies.complete);
  REQUIRE(requests.complete);
  CHECK(copies.bytes == requests.bytes);
  const auto issued = [](const test::TensorRun& run) {
    double slots = 0;
    for (const char* unit : {"int32", "memory", "none"}) slots += run.sum(".sm", std::string(".instructions.") + unit);
    return slots;
  };
  const auto registers = [](const workload::Workload& work) { return work.ops.at(0).kernel.program->registers(); };
  // 8 CTAs of 4 warps copy 32 tiles each, with 8 instructions for each tile.
  CHECK(copies.sum(".sm", ".instructions.memory") - requests.sum(".sm", ".instructions.memory") > 0);
  // More than half of the issue slots are saved. Time is another matter: docs/results/tmau.md.
  CHECK(issued(copies) > 2 * issued(requests));
  CHECK(registers(scenario.workloads[0]) > registers(scenario.workloads[1]));
  // No sector goes through the L1.
  CHECK(copies.sum(".sm", ".l1.misses") > 0);
  CHECK(requests.sum(".sm", ".l1.misses") == 0);
}

}  // namespace replay_tensor_copies_test
