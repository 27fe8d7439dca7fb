// Matrix multiplies of docs/results/tmau.md: how their tiles come to the SMs, what that costs, and what is busy.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/cluster_lab.h"
#include "support/gemm_program.h"

namespace heddle::probes {

// Busy shares of the time from a kernel's first CTA to its last.
struct GemmShare {
  const char* name;
  double share;
};

struct GemmFigures {
  double cycles = 0;
  double ghz = 0;
  double reads = 0;  // responses of the L2, in lines per K tile and CTA
  double copies = 0;
  std::vector<GemmShare> shares;  // the largest first

  double flops = 0;
  double tflops() const { return flops * ghz / cycles / 1000; }
};

inline double counted(const test::GpuLab& lab, const std::string& part, const std::string& ending) {
  double sum = 0;
  const auto json = lab.observation.stats.to_json();
  for (const auto& [path, stat] : json.items()) {
    const bool ends =
        path.size() > ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
    if (ends && path.find(part) != std::string::npos && stat.contains("value")) sum += stat.at("value").get<double>();
  }
  return sum;
}

// A square matrix multiply in bf16 whose matrices lie in device memory. Arithmetic is done for 1 of 97 CTAs; times are
// the same.
inline GemmFigures multiply(const test::GemmShape& shape, const std::vector<std::string>& sets = {}) {
  constexpr double kTensorFlops = 4096;  // per cycle and SM: calibration of m64nNk16
  constexpr double kHbmBits = 32;        // of a pseudo-channel of HBM3
  std::vector<std::string> all{"gpu.sm.issue.tensor_sample=97"};
  all.insert(all.end(), sets.begin(), sets.end());
  test::SimFixture sim;
  const gpu::GpuParams params = test::preset_params("h100-sxm", all);
  test::GpuLab lab(params);
  const test::TensorGemm gemm(shape, 1 << 20);
  gemm.write_descriptors(lab);
  const std::uint32_t operation =
      lab.run(gemm.program(), gemm.grid(), test::TensorGemm::block(), test::TensorGemm::shared(), gemm.cluster());
  HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a matrix multiply had a fault");
  lab.gpu.check_quiescent();

  GemmFigures result;
  const double cycles = result.cycles = lab.cycles(operation);
  result.ghz = 1000.0 / static_cast<double>(picoseconds(lab.gpu.domain().clock().period()));
  result.flops = 2.0 * shape.m * shape.n * shape.k;
  const double sms = lab.gpu.topology().sms();
  double gpcs = 0;  // that have the rates of GPCs which the parameters name
  for (std::uint32_t gpc = 0; gpc < lab.gpu.topology().gpcs(); ++gpc) {
    gpcs += params.xbar.gpc_share(lab.gpu.topology().gpc(gpc).sms);
  }
  const double responses = counted(lab, ".xbar.gpc", ".response_bytes");
  const double tiles =
      static_cast<double>(gemm.grid().x) * gemm.grid().y * (static_cast<double>(shape.k) / test::TensorGemm::kDepth);
  result.reads = responses / arch::kLineBytes / tiles;
  result.copies = lab.stat("xbar.multicast_packets") / tiles;
  const double hbm = params.hbm.channels * kHbmBits * params.hbm.pin_rate / 8 / result.ghz;
  const double link = shape.async_copies ? params.xbar.l1_read_bandwidth : params.xbar.sm_read_bandwidth;
  result.shares = {
      {"tensor cores", result.flops / (kTensorFlops * sms * cycles)},
      {"L2 slices", responses / (params.l2.slices * params.xbar.slice_bandwidth * cycles)},
      {"links of GPCs", responses / (gpcs * params.xbar.gpc_read_bandwidth * cycles)},
      {"copies", lab.stat("xbar.multicast_packets") / (gpcs * params.xbar.copies * cycles)},
      {"links of SMs", lab.stat("xbar.sm_bytes") / (sms * link * cycles)},
      {"memory", (lab.stat("hbm.read_bytes") + lab.stat("hbm.written_bytes")) / (hbm * cycles)},
      {"issue", counted(lab, ".instructions.", "") / (4 * sms * cycles)},
  };
  std::sort(result.shares.begin(), result.shares.end(),
            [](const GemmShare& a, const GemmShare& b) { return a.share > b.share; });
  return result;
}

}  // namespace heddle::probes
