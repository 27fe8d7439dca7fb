// How fast the model moves tensors: a matrix multiply with bulk tensor loads, clusters and multicast. Every byte moves;
// the arithmetic may be limited to sampled CTAs, whose results are compared with a direct computation.
//
//   heddle_tensor_bench [size [sample [cluster_x cluster_y [K=V]...]]]   default: 4096 97 2 2
//
// A cluster of 0 x 0 stands for asynchronous copies in place of bulk loads.
//
// Prints the CPU time and what a line costs in bare SC_METHOD activations, measured before and after. Fails if a result
// is wrong.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/tensor_data.h"
#include "bench/bare_events.h"
#include "support/cluster_lab.h"
#include "support/gemm_program.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using test::GemmShape;
using test::TensorGemm;

// Small integers: every sum is exact, whatever its order.
int element(std::uint64_t row, std::uint64_t k, std::uint64_t which) {
  return static_cast<int>(test::mixed(row * 8192 + k, which) % 5) - 2;
}

void fill(test::GpuLab& lab, std::uint64_t address, std::uint32_t rows, std::uint32_t k, std::uint64_t which) {
  std::vector<std::uint16_t> line(k);
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t i = 0; i < k; ++i) line[i] = arch::bf16_of(static_cast<float>(element(row, i, which)));
    HEDDLE_CHECK(lab.gpu.memory().write(address + std::uint64_t{2} * k * row, line.data(), std::uint64_t{2} * k),
                 "a matrix outside memory");
  }
}

// Elements of the CTA's tile that are wrong; of a CTA that is not sampled, elements that are not zero.
std::uint64_t wrong_in(test::GpuLab& lab, const TensorGemm& gemm, const GemmShape& shape, std::uint32_t x,
                       std::uint32_t y, bool sampled) {
  std::uint64_t wrong = 0;
  std::vector<float> row(TensorGemm::kTile);
  std::vector<std::vector<int>> b(TensorGemm::kTile, std::vector<int>(shape.k));
  for (std::uint32_t j = 0; sampled && j < TensorGemm::kTile; ++j) {
    for (std::uint32_t k = 0; k < shape.k; ++k) b[j][k] = element(x * TensorGemm::kTile + j, k, 1);
  }
  std::vector<int> a(shape.k);
  for (std::uint32_t i = 0; i < TensorGemm::kTile; ++i) {
    const std::uint64_t m = std::uint64_t{y} * TensorGemm::kTile + i;
    const std::uint64_t at = gemm.c() + 4 * (m * shape.n + std::uint64_t{x} * TensorGemm::kTile);
    HEDDLE_CHECK(lab.gpu.memory().read(at, row.data(), 4 * row.size()), "the result is outside memory");
    for (std::uint32_t k = 0; sampled && k < shape.k; ++k) a[k] = element(m, k, 0);
    for (std::uint32_t j = 0; j < TensorGemm::kTile; ++j) {
      long sum = 0;
      for (std::uint32_t k = 0; sampled && k < shape.k; ++k) sum += a[k] * b[j][k];
      if (row[j] != static_cast<float>(sum)) ++wrong;
    }
  }
  return wrong;
}

// Of all tensor memory access units.
double total(const test::GpuLab& lab, const std::string& ending) {
  double sum = 0;
  const auto json = lab.observation.stats.to_json();
  for (const auto& [path, stat] : json.items()) {
    const bool ends =
        path.size() > ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
    if (ends && path.find(".tmau") != std::string::npos) sum += stat.at("value").get<double>();
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, std::uint32_t otherwise) {
    return argc > i ? static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  GemmShape shape;
  shape.m = shape.n = shape.k = number(1, 4096);
  const std::uint32_t sample = number(2, 97);
  shape.cluster_x = number(3, 2);
  shape.cluster_y = number(4, 2);
  shape.async_copies = shape.cluster_x == 0;
  if (shape.async_copies) shape.cluster_x = shape.cluster_y = 1;
  const TensorGemm gemm(shape, 1 << 20);
  test::SimFixture sim;
  std::vector<std::string> sets{fmt::format("gpu.sm.issue.tensor_sample={}", sample)};
  for (int i = 5; i < argc; ++i) sets.emplace_back(argv[i]);
  test::GpuLab lab(test::preset_params("h100-sxm", sets));
  fill(lab, gemm.a(), shape.m, shape.k, 0);
  fill(lab, gemm.b(), shape.n, shape.k, 1);
  gemm.write_descriptors(lab);
  const protocol::SubmitPacket packet =
      lab.packet(gemm.program(), gemm.grid(), TensorGemm::block(), TensorGemm::shared(), 0, gemm.cluster());
  std::uint32_t operation = 0;
  const bench::Yardstick::Round round = bench::Yardstick().measure(1, [&] {
    const double begin = bench::cpu_seconds();
    operation = lab.submit(packet);
    test::run_until_idle();
    return 1 / (bench::cpu_seconds() - begin);
  });
  const double seconds = 1 / round.rate;
  lab.gpu.check_quiescent();
  for (const auto& fault : lab.gpu.log().faults()) std::printf("%s\n", arch::text_of(fault).c_str());

  std::uint64_t wrong = 0;
  std::uint32_t checked = 0;
  for (std::uint32_t y = 0; y < gemm.grid().y; ++y) {
    for (std::uint32_t x = 0; x < gemm.grid().x; ++x) {
      const bool sampled = (y * gemm.grid().x + x) % sample == 0;
      checked += sampled ? 1 : 0;
      wrong += wrong_in(lab, gemm, shape, x, y, sampled);
    }
  }
  const std::uint64_t tiles = std::uint64_t{gemm.grid().x} * gemm.grid().y * (shape.k / TensorGemm::kDepth);
  const double lines = static_cast<double>(tiles) * TensorGemm::kStageBytes / arch::kLineBytes;
  const double cycles = lab.cycles(operation);
  const double flops = 2.0 * shape.m * shape.n * shape.k;
  fmt::print("{} x {} x {}, bf16, clusters of {} x {}, 1 of {} CTAs computes\n", shape.m, shape.n, shape.k,
             shape.cluster_x, shape.cluster_y, sample);
  fmt::print("simulated: {:.0f} cycles, {:.1f} us, {:.0f} TFLOP/s\n", cycles, cycles / 1755,
             flops * 1755e6 / cycles / 1e12);
  fmt::print("lines delivered to SMs: {:.0f}; line requests of the units: {:.0f}\n", lines, total(lab, ".lines"));
  fmt::print("CPU time: {:.2f} s, {:.0f} ns per line, {:.1f} bare SC_METHOD activations per line ({:.1f} M/s)\n",
             seconds, seconds / lines * 1e9, seconds * round.bare / lines, round.bare / 1e6);
  fmt::print("{} tiles of sampled CTAs compared: {} elements wrong\n", checked, wrong);
  return wrong == 0 && lab.gpu.log().faults().empty() ? 0 : 1;
}
