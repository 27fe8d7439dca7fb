// The convolution of scenarios/tma_conv.yaml (im2col loads, matrix unit on swizzled tiles, tensor store) against a
// direct one.
#include <catch2/catch.hpp>

#include "tensor_bench.h"

namespace replay_tensor_conv_test {

using namespace heddle;
using test::Data;
using test::Matrix;

namespace {

constexpr Eigen::Index kImages = 4;
constexpr Eigen::Index kHeight = 14;
constexpr Eigen::Index kWidth = 9;
constexpr Eigen::Index kPixels = kImages * kHeight * kWidth;
constexpr Eigen::Index kChannels = 128;  // in, and out
constexpr Eigen::Index kFilter = 3;

// y (pixels x channels out) from x (pixels x channels in) and w (positions and channels in x channels out); what lies
// outside an image counts as zero.
Matrix convolve(const Matrix& x, const Matrix& w) {
  Matrix y = Matrix::Zero(kPixels, w.cols());
  for (Eigen::Index pixel = 0; pixel < kPixels; ++pixel) {
    const Eigen::Index image = pixel / (kHeight * kWidth);
    for (Eigen::Index position = 0; position < kFilter * kFilter; ++position) {
      const Eigen::Index row = pixel / kWidth % kHeight + position / kFilter - 1;
      const Eigen::Index column = pixel % kWidth + position % kFilter - 1;
      if (row < 0 || row >= kHeight || column < 0 || column >= kWidth) continue;
      y.row(pixel) += x.row((image * kHeight + row) * kWidth + column) * w.middleRows(position * kChannels, kChannels);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("a convolution from im2col loads, the matrix unit and tensor stores is the direct one",
          "[replay][TMA-11][TMA-13][TMA-22][TMA-40]") {
  const Data data = GENERATE(Data::whole, Data::any);
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  scenario::Scenario scenario = test::shipped_scenario("tma_conv");
  workload::Workload& work = scenario.workloads.at(0);
  test::fill_region(work, "x", data, 21);
  test::fill_region(work, "w", data, 22);
  const Matrix x = test::initial_matrix(work, "x", kPixels);
  const Matrix w = test::initial_matrix(work, "w", kFilter * kFilter * kChannels);
  REQUIRE(x.cols() == kChannels);
  REQUIRE(w.cols() == kChannels);
  work.ops.resize(1);  // without the check on the device
  gpu::GpuParams params = test::preset_params(scenario.gpus.at(0));
  params.machine.timing = mode;
  const test::TensorRun run = test::run_tensors(work, params, "y");
  REQUIRE(run.complete);
  const double terms = kFilter * kFilter * kChannels;
  CHECK(test::wrong_sums(run.floats(kPixels), convolve(x, w), convolve(x.cwiseAbs(), w.cwiseAbs()), terms, data) == 0);
}

}  // namespace replay_tensor_conv_test
