// The pipelined matrix multiplies of scenarios/tma_gemm_2x1.yaml and tma_gemm_2x2.yaml, with operands that the TMAU
// multicasts within clusters, against a direct computation.
#include <fstream>
#include <iterator>
#include <string>

#include <catch2/catch.hpp>

#include "tensor_bench.h"

namespace replay_tensor_gemm_test {

using namespace heddle;
using test::Data;
using test::Matrix;

namespace {

constexpr Eigen::Index kSize = 512;
constexpr Eigen::Index kTile = 128;  // rows and columns of a CTA

scenario::Scenario scenario_with(const std::string& name, Data data) {
  scenario::Scenario scenario = test::shipped_scenario(name);
  test::fill_region(scenario.workloads.at(0), "a", data, 11);
  test::fill_region(scenario.workloads.at(0), "b", data, 12);
  return scenario;
}

// C = A B^T.
struct Product {
  Matrix exact;
  Matrix magnitudes;

  explicit Product(const workload::Workload& work) {
    const Matrix a = test::initial_matrix(work, "a", kSize);
    const Matrix b = test::initial_matrix(work, "b", kSize);
    exact = a * b.transpose();
    magnitudes = a.cwiseAbs() * b.cwiseAbs().transpose();
  }
};

}  // namespace

TEST_CASE("matrix multiplies with multicast operands give the product in clusters of 2 x 1 and 2 x 2",
          "[replay][TMA-22][TMA-30][TMA-31][TMA-40][TMA-41]") {
  const std::string name = GENERATE("tma_gemm_2x1", "tma_gemm_2x2");
  const Data data = GENERATE(Data::whole, Data::any);
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const scenario::Scenario scenario = scenario_with(name, data);
  const workload::Workload& work = scenario.workloads.at(0);
  const Product product(work);
  gpu::GpuParams params = test::preset_params(scenario.gpus.at(0));
  params.machine.timing = mode;
  const test::TensorRun run = test::run_tensors(work, params, "c");
  REQUIRE(run.complete);
  CHECK(test::wrong_sums(run.floats(kSize), product.exact, product.magnitudes, kSize, data) == 0);
}

TEST_CASE("sampled CTAs compute their tiles, the others none, and the time is the same", "[replay][SM-04]") {
  const scenario::Scenario scenario = scenario_with("tma_gemm_2x2", Data::whole);
  const workload::Workload& work = scenario.workloads.at(0);
  const Product product(work);
  gpu::GpuParams params = test::preset_params(scenario.gpus.at(0));
  const test::TensorRun all = test::run_tensors(work, params, "c");
  params.sm.issue.tensor_sample = 3;
  const test::TensorRun some = test::run_tensors(work, params, "c");
  REQUIRE(all.complete);
  REQUIRE(some.complete);
  CHECK(all.time_ns == some.time_ns);
  const Matrix found = some.floats(kSize);
  for (Eigen::Index cta = 0; cta < 16; ++cta) {
    INFO("CTA " << cta);
    const Eigen::Index row = cta / 4 * kTile;
    const Eigen::Index column = cta % 4 * kTile;
    const Matrix tile = found.block(row, column, kTile, kTile);
    if (cta % 3 == 0) {
      CHECK(tile == product.exact.block(row, column, kTile, kTile));
    } else {
      CHECK(tile.isZero(0));
    }
  }
}

TEST_CASE("multicast in a cluster takes operands from the L2 once for all receivers", "[replay][TMA-30]") {
  struct Case {
    std::string name;
    double reads;  // of a CTA and step: in 2 x 1 half of A and B, in 2 x 2 half of both
    double saved;  // what it receives beyond that
  };
  const Case c = GENERATE(Case{"tma_gemm_2x1", 192, 64}, Case{"tma_gemm_2x2", 128, 128});
  const scenario::Scenario scenario = scenario_with(c.name, Data::whole);
  gpu::GpuParams params = test::preset_params(scenario.gpus.at(0));
  params.l2.copies = memory::L2Copies::none;
  const test::TensorRun run = test::run_tensors(scenario.workloads.at(0), params, "c");
  REQUIRE(run.complete);
  constexpr double kSteps = 16 * 8;               // of all CTAs
  constexpr double kStores = kSize * kSize / 32;  // lines of C
  CHECK(c.reads + c.saved == 256);                // lines of the two tiles
  CHECK(run.sum(".tmau", ".lines") == kSteps * c.reads + kStores);
  CHECK(run.sum(".tmau", ".multicast.saved") == kSteps * c.saved);
  CHECK(run.sum(".tmau", ".delivered") == kSteps * (c.reads + c.saved));
  // Without copies, which slices ask each other for, these see just these requests, those for descriptors, a line of
  // parameters for each CTA (it has its SM for itself, whose warps wait for the same line), and the report of the
  // kernel's end.
  constexpr double kCtas = 16;
  CHECK(run.sum(".gpc", ".constants.misses") > kCtas);
  CHECK(run.sum(".l2.slice", ".requests") ==
        run.sum(".tmau", ".lines") + run.sum(".tmau", ".descriptor.misses") + kCtas + 1);
}

TEST_CASE("the matrix unit reads swizzled tiles without bank conflicts, others with many", "[replay][TMA-21][TMA-22]") {
  const auto conflicts = [](const char* swizzle) {
    std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/tma_gemm_2x1.yaml");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string usual = "swizzle: 128";
    std::size_t places = 0;
    for (std::size_t at = text.find(usual); at != std::string::npos; at = text.find(usual, at + 1), ++places) {
      text.replace(at, usual.size(), std::string("swizzle: ") + swizzle);
    }
    REQUIRE(places == 4);
    scenario::Scenario scenario = scenario::parse_scenario(text, "tma_gemm_2x1.yaml");
    workload::Workload& work = scenario.workloads.at(0);
    test::fill_region(work, "a", Data::whole, 13);
    test::fill_region(work, "b", Data::whole, 14);
    const Product product(work);
    const test::TensorRun run = test::run_tensors(work, test::preset_params(scenario.gpus.at(0)), "c");
    REQUIRE(run.complete);
    CHECK(test::wrong_sums(run.floats(kSize), product.exact, product.magnitudes, kSize, Data::whole) == 0);
    return run.sum(".sm", ".shared.conflicts");
  };
  // The tiles of C are not swizzled: of each of a warp's 32 stores of 8 rows the rows meet in the same banks, and take
  // 8 cycles instead of 2.
  constexpr double kOfStores = 16 * 8 * 32 * 6;
  CHECK(conflicts("128") == kOfStores);
  CHECK(conflicts("none") > 10 * kOfStores);
}

}  // namespace replay_tensor_gemm_test
