// The CUDA kernels of scenarios/cuda, with data of their own, against what the host works out in plain loops.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tensor_bench.h"

namespace replay_cuda_scenarios_test {

using namespace heddle;

namespace {

template <class T>
std::vector<T> values_of(const std::vector<std::uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// A scenario of scenarios/cuda whose regions can be filled with random whole numbers.
class CudaRun {
 public:
  explicit CudaRun(const std::string& name) : scenario_(test::shipped_scenario("cuda/" + name)) {}

  void randomise(const std::string& region, arch::ValueType type, double from, double to) {
    workload::RegionContents& contents = work().memory[test::region_index(work(), region)].contents;
    contents = {};
    contents.kind = workload::RegionContents::Kind::random;
    contents.type = type;
    contents.seed = 77 + test::region_index(work(), region);
    contents.integer = true;
    contents.min = from;
    contents.max = to;
  }
  template <class T>
  std::vector<T> before(const std::string& region) {
    return values_of<T>(scenario::initial_bytes(work().memory[test::region_index(work(), region)]));
  }
  test::Matrix matrix(const std::string& region, Eigen::Index rows) {
    return test::initial_matrix(work(), region, rows);
  }
  template <class T>
  std::vector<T> after(const std::string& region) {
    gpu::GpuParams params = test::preset_params(scenario_.gpus.at(0));
    params.machine.timing = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
    const test::TensorRun run = test::run_tensors(work(), params, region);
    REQUIRE(run.complete);
    return values_of<T>(run.bytes);
  }

 private:
  workload::Workload& work() { return scenario_.workloads.at(0); }

  scenario::Scenario scenario_;
};

}  // namespace

TEST_CASE("vector_add.cu adds", "[replay]") {
  CudaRun run("vector_add");
  run.randomise("a", arch::ValueType::f32, -1000, 1000);
  run.randomise("b", arch::ValueType::f32, -1000, 1000);
  const auto a = run.before<float>("a");
  const auto b = run.before<float>("b");
  const auto c = run.after<float>("c");
  for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(c[i] == a[i] + b[i]);
}

TEST_CASE("tiled_matmul.cu multiplies", "[replay]") {
  constexpr std::size_t kM = 48;
  constexpr std::size_t kN = 40;
  constexpr std::size_t kK = 33;
  CudaRun run("tiled_matmul");
  run.randomise("a", arch::ValueType::f32, -8, 8);
  run.randomise("b", arch::ValueType::f32, -8, 8);
  const auto a = run.before<float>("a");
  const auto b = run.before<float>("b");
  const auto c = run.after<float>("c");
  for (std::size_t m = 0; m < kM; ++m) {
    for (std::size_t n = 0; n < kN; ++n) {
      float sum = 0;  // of whole numbers: exact
      for (std::size_t k = 0; k < kK; ++k) sum += a[m * kK + k] * b[k * kN + n];
      REQUIRE(c[m * kN + n] == sum);
    }
  }
}

TEST_CASE("shuffle_reduce.cu adds up", "[replay]") {
  CudaRun run("shuffle_reduce");
  run.randomise("values", arch::ValueType::s32, -100000, 100000);
  std::int32_t sum = 0;
  for (const std::int32_t value : run.before<std::int32_t>("values")) sum += value;
  CHECK(run.after<std::int32_t>("sum").at(0) == sum);
}

TEST_CASE("scan.cu scans", "[replay]") {
  CudaRun run("scan");
  run.randomise("values", arch::ValueType::s32, -1000, 1000);
  const auto values = run.before<std::int32_t>("values");
  const auto sums = run.after<std::int32_t>("sums");
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    REQUIRE(sums[i] == sum);
  }
}

TEST_CASE("grid_barrier.cu smooths", "[replay]") {
  CudaRun run("grid_barrier");
  run.randomise("a", arch::ValueType::f32, -1000, 1000);
  std::vector<float> now = run.before<float>("a");
  for (int round = 0; round < 5; ++round) {
    const std::vector<float> from = now;
    for (std::size_t i = 1; i + 1 < from.size(); ++i) now[i] = 0.5F * (from[i - 1] + from[i + 1]);
  }
  CHECK(run.after<float>("b") == now);
}

TEST_CASE("cluster_histogram.cu counts", "[replay]") {
  CudaRun run("cluster_histogram");
  run.randomise("values", arch::ValueType::s32, -3, 104);
  std::vector<std::uint32_t> counters(100, 0);
  for (const std::int32_t value : run.before<std::int32_t>("values")) {
    if (value >= 0 && value < 100) ++counters[static_cast<std::size_t>(value)];
  }
  CHECK(run.after<std::uint32_t>("counters") == counters);
}

TEST_CASE("im2col_conv.cu convolves", "[replay]") {
  constexpr int kImages = 2;
  constexpr int kHeight = 6;
  constexpr int kWidth = 5;
  constexpr int kChannels = 64;
  CudaRun run("im2col_conv");
  const auto x = run.before<float>("x");
  const auto weights = run.before<float>("weights");
  const auto y = run.after<float>("y");
  for (int pixel = 0; pixel < kImages * kHeight * kWidth; ++pixel) {
    const int image = pixel / (kHeight * kWidth);
    const int row = pixel / kWidth % kHeight;
    const int column = pixel % kWidth;
    for (int o = 0; o < kChannels; ++o) {
      float sum = 0;  // of whole numbers: exact
      for (int r = 0; r < 3; ++r) {
        for (int s = 0; s < 3; ++s) {
          const int h = row + r - 1;
          const int w = column + s - 1;
          if (h < 0 || h >= kHeight || w < 0 || w >= kWidth) continue;
          for (int c = 0; c < kChannels; ++c) {
            const int from = ((image * kHeight + h) * kWidth + w) * kChannels + c;
            const int weight = ((r * 3 + s) * kChannels + c) * kChannels + o;
            sum += x[static_cast<std::size_t>(from)] * weights[static_cast<std::size_t>(weight)];
          }
        }
      }
      REQUIRE(y[static_cast<std::size_t>(pixel * kChannels + o)] == sum);
    }
  }
}

// Whole numbers: every sum is exact, whatever its order.
TEST_CASE("stream_k_gemm.cu multiplies", "[replay]") {
  constexpr Eigen::Index kM = 256;
  constexpr Eigen::Index kN = 128;
  CudaRun run("stream_k_gemm");
  const test::Matrix a = run.matrix("a", kM);
  const test::Matrix b = run.matrix("b", kN);
  const test::Matrix product = a * b.transpose();
  const auto c = run.after<float>("c");
  for (Eigen::Index i = 0; i < kM * kN; ++i) {
    REQUIRE(static_cast<double>(c[static_cast<std::size_t>(i)]) == product(i / kN, i % kN));
  }
}

// Probabilities are rounded to halves before the second product: 2^-11 of values up to 1, beside sums of up to 128
// terms in single precision and the result's own rounding.
TEST_CASE("flash_attention.cu attends", "[replay]") {
  constexpr Eigen::Index kLength = 128;
  constexpr Eigen::Index kHeads = 2;
  CudaRun run("flash_attention");
  const test::Matrix q = run.matrix("q", kHeads * kLength);
  const test::Matrix k = run.matrix("k", kHeads * kLength);
  const test::Matrix v = run.matrix("v", kHeads * kLength);
  const auto out = run.after<std::uint16_t>("out");
  for (Eigen::Index head = 0; head < kHeads; ++head) {
    for (Eigen::Index row = 0; row < kLength; ++row) {
      const Eigen::Index seen = row + 1;  // causal
      const Eigen::VectorXd scores =
          k.middleRows(head * kLength, seen) * q.row(head * kLength + row).transpose() * 0.125;
      Eigen::VectorXd weights = (scores.array() - scores.maxCoeff()).exp();
      weights /= weights.sum();
      const Eigen::RowVectorXd expected = weights.transpose() * v.middleRows(head * kLength, seen);
      for (Eigen::Index column = 0; column < expected.cols(); ++column) {
        const auto at = static_cast<std::size_t>((head * kLength + row) * expected.cols() + column);
        const auto found = static_cast<double>(Eigen::numext::bit_cast<Eigen::half>(out[at]));
        REQUIRE(std::abs(found - expected(column)) < 0.003);
      }
    }
  }
}

}  // namespace replay_cuda_scenarios_test
