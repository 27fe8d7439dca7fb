// The matrix multiply of scenarios/tma_split_k.yaml, whose CTAs add their parts of the sums to C in memory, against a
// direct computation.
#include <catch2/catch.hpp>

#include "tensor_bench.h"

namespace replay_split_k_test {

using namespace heddle;
using test::Data;
using test::Matrix;

namespace {

constexpr Eigen::Index kSize = 256;
constexpr Eigen::Index kDepth = 2048;

}  // namespace

TEST_CASE("parts of a matrix product that reductions add in memory are the product",
          "[replay][TMA-01][TMA-07][TMA-22]") {
  const Data data = GENERATE(Data::whole, Data::any);
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  scenario::Scenario scenario = test::shipped_scenario("tma_split_k");
  workload::Workload& work = scenario.workloads.at(0);
  test::fill_region(work, "a", data, 31);
  test::fill_region(work, "b", data, 32);
  const Matrix a = test::initial_matrix(work, "a", kSize);
  const Matrix b = test::initial_matrix(work, "b", kDepth);
  REQUIRE(a.cols() == kDepth);
  REQUIRE(b.cols() == kSize);
  gpu::GpuParams params = test::preset_params(scenario.gpus.at(0));
  params.machine.timing = mode;
  const test::TensorRun run = test::run_tensors(work, params, "c");
  REQUIRE(run.complete);
  const Matrix magnitudes = a.cwiseAbs() * b.cwiseAbs();
  CHECK(test::wrong_sums(run.floats(kSize), a * b, magnitudes, kDepth, data) == 0);
}

}  // namespace replay_split_k_test
