// The matrix multiply of scenarios/gemm_1024.yaml against a direct computation: every byte moves from memory through
// L2, L1 and shared memory into the matrix units and back.
#include <cstdint>
#include <cstring>
#include <Eigen/Core>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "replay/simulation.h"
#include "replay_bench.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"

namespace replay_gemm_test {

using namespace heddle;

namespace {

constexpr std::size_t kSize = 1024;

std::vector<float> floats_of(const workload::MemoryRegion& region) {
  const std::vector<std::uint8_t> bytes = scenario::initial_bytes(region);
  std::vector<Eigen::half> halves(bytes.size() / 2);
  std::memcpy(static_cast<void*>(halves.data()), bytes.data(), bytes.size());
  std::vector<float> result;
  for (const Eigen::half& half : halves) result.push_back(static_cast<float>(half));
  return result;
}

// One rounding for each product and each sum, in the order of k, as the matrix unit documents it.
std::vector<float> multiply(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(kSize * kSize, 0.0F);
  for (std::size_t row = 0; row < kSize; ++row) {
    for (std::size_t k = 0; k < kSize; ++k) {
      const float factor = a[row * kSize + k];
      for (std::size_t column = 0; column < kSize; ++column) {
        const float product = factor * b[k * kSize + column];
        c[row * kSize + column] += product;
      }
    }
  }
  return c;
}

}  // namespace

TEST_CASE("a tiled matrix multiply of 1024 x 1024 x 1024 gives the exact result in both timing modes",
          "[replay][SM-02][SM-04]") {
  const scenario::Scenario scenario =
      scenario::read_scenario(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/gemm_1024.yaml");
  const workload::Workload& work = scenario.workloads.at(0);
  REQUIRE(work.memory.size() == 3);
  const std::vector<float> expected = multiply(floats_of(work.memory[0]), floats_of(work.memory[1]));
  gpu::GpuParams params = test::preset_params(scenario.gpus.at(0));
  double at_ns = 0;
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    params.machine.timing = mode;
    const replay::SimulationResult result = replay::simulate({test::job_of(work, params)}, {});
    REQUIRE(result.progress);
    REQUIRE(result.jobs.at(0).faults.empty());
    const std::vector<std::uint8_t>& bytes = result.jobs[0].regions.at(2);
    std::vector<float> c(kSize * kSize);
    REQUIRE(bytes.size() == c.size() * sizeof(float));
    std::memcpy(c.data(), bytes.data(), bytes.size());
    CHECK(c == expected);
    if (mode == TimingMode::at) at_ns = result.sim_time_ns;
  }
  // Between the time that the matrix units need for it at least, and ten times that.
  const double least = 2.0 * kSize * kSize * kSize / (4096.0 * 128 * 1.755);
  CHECK(at_ns > least);
  CHECK(at_ns < 10 * least);
}

}  // namespace replay_gemm_test
