// The scenarios with tensors: other data for them, runs of them, and sums of products in f32 against exact ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <Eigen/Core>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "replay/simulation.h"
#include "replay_bench.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"

namespace heddle::test {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline scenario::Scenario shipped_scenario(const std::string& name) {
  return scenario::read_scenario(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/" + name + ".yaml");
}

inline std::size_t region_index(const workload::Workload& work, const std::string& name) {
  for (std::size_t i = 0; i < work.memory.size(); ++i) {
    if (work.memory[i].name == name) return i;
  }
  throw CheckFailed("no such region");
}

// Whole numbers from -4 to 4, whose sums of products are exact in f32 whatever their order; or any from -1 to 1.
enum class Data { whole, any };
inline void fill_region(workload::Workload& work, const std::string& name, Data data, std::uint64_t seed) {
  workload::RegionContents& contents = work.memory[region_index(work, name)].contents;
  contents.kind = workload::RegionContents::Kind::random;
  contents.seed = seed;
  contents.integer = data == Data::whole;
  contents.max = contents.integer ? 4 : 1;
  contents.min = -contents.max;
}

// Elements of 2 bytes in a region when the run begins, as Eigen reads them: row by row.
inline Matrix initial_matrix(const workload::Workload& work, const std::string& name, Eigen::Index rows) {
  const workload::MemoryRegion& region = work.memory[region_index(work, name)];
  const std::vector<std::uint8_t> bytes = scenario::initial_bytes(region);
  const auto columns = static_cast<Eigen::Index>(bytes.size() / 2) / rows;
  Matrix matrix(rows, columns);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    matrix.data()[i] = region.contents.type == arch::ValueType::bf16
                           ? static_cast<double>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits))
                           : static_cast<double>(Eigen::numext::bit_cast<Eigen::half>(bits));
  }
  return matrix;
}

struct TensorRun {
  bool complete = false;  // progress, no fault, every operation done
  double time_ns = 0;
  nlohmann::json stats;
  std::vector<std::uint8_t> bytes;  // of the region that was asked for, at the end

  Matrix floats(Eigen::Index rows) const {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    Matrix matrix(rows, static_cast<Eigen::Index>(values.size()) / rows);
    std::copy(values.begin(), values.end(), matrix.data());
    return matrix;
  }
  // The sum of the statistics of all blocks of a kind: ".tmau", ".lines".
  double sum(const std::string& block, const std::string& name) const {
    double total = 0;
    for (const auto& [path, value] : stats.items()) {
      const bool ends = path.size() >= name.size() && path.compare(path.size() - name.size(), name.size(), name) == 0;
      if (ends && path.find(block) != std::string::npos) total += value.at("value").get<double>();
    }
    return total;
  }
};

inline TensorRun run_tensors(const workload::Workload& work, const gpu::GpuParams& params, const std::string& region) {
  replay::Job job = job_of(work, params);
  job.regions = {region};
  const replay::SimulationResult result = replay::simulate({job}, {});
  const replay::JobResult& got = result.jobs.at(0);
  TensorRun run;
  run.complete = result.progress && got.faults.empty() &&
                 std::all_of(got.results.begin(), got.results.end(), [](const replay::OpResult& r) { return r.done; });
  run.time_ns = result.sim_time_ns;
  run.stats = got.observation->stats.to_json();
  run.bytes = got.regions.at(region_index(work, region));
  return run;
}

// Elements of `found` that are not the exact sum of `terms` products: not exactly it (whole numbers), or further from
// it than n additions in f32, in any order, can lead: n u / (1 - n u) times the sum of magnitudes, u = 2^-24.
inline Eigen::Index wrong_sums(const Matrix& found, const Matrix& exact, const Matrix& magnitudes, double terms,
                               Data data) {
  if (data == Data::whole) return (found.array() != exact.array()).count();
  const double u = std::ldexp(1.0, -24);
  const double factor = terms * u / (1 - terms * u);
  // Negated, so that a NaN is wrong as well.
  return (!((found - exact).array().abs() <= factor * magnitudes.array())).count();
}

}  // namespace heddle::test
