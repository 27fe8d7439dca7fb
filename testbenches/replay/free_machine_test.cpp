// Kernels that shared the machine while they were recorded: the durations of their CTAs are known here, as the
// recording is one of the model itself.
#include "replay/free_machine.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

#include "replay/comparison.h"
#include "replay/replay_bench.h"
#include "support/random.h"

namespace replay_free_machine_test {

using namespace heddle;
using namespace heddle::test;
using replay::free_parts;
using replay::SoloKernel;
using workload::Op;
using workload::Workload;

namespace {

Op recorded_op(std::size_t stream, std::uint32_t ctas, std::int64_t start, std::int64_t duration) {
  Op op = kernel_op(stream, ctas, 0, 1024);
  op.recorded = workload::Recorded{start, duration, -1.0, true};
  return op;
}

}  // namespace

TEST_CASE("a kernel has what those before it leave", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");  // holds 264 CTAs of 1,024 threads
  Workload workload = empty_workload(3);
  workload.ops = {recorded_op(0, 66, 0, 1000), recorded_op(1, 264, 500, 1000), recorded_op(2, 5, 5000, 10)};
  std::vector<double> free = free_parts(workload, params);
  CHECK(free[0] == 1);                              // it was there first
  CHECK(free[1] == Approx(1 - 0.25 * 500 / 1000));  // a quarter is taken for half of its time
  CHECK(free[2] == 1);
  workload.ops[0].kernel.grid.x = 100'000;  // all of the machine, for as long as the second runs
  workload.ops[0].recorded->duration = 5000;
  free = free_parts(workload, params);
  CHECK(free[1] == replay::kLeastFree);
}

TEST_CASE("what others use is their use times the time that both ran", "[replay]") {
  for (const std::uint64_t number : seeds(300)) {
    CAPTURE(number);
    Random random(number);
    Workload workload = empty_workload(1);
    std::vector<double> use;
    for (std::uint32_t i = random.between(1, 12); i > 0; --i) {
      workload.ops.push_back(recorded_op(0, 1, random.between(0, 50), random.between(0, 30)));
      if (random.chance(10)) workload.ops.back().recorded.reset();
      use.push_back(random.between(0, 100) / 100.0);
    }
    const std::vector<double> beside = replay::used_beside(workload, use);
    for (std::size_t i = 0; i < use.size(); ++i) {
      double sum = 0;
      if (!workload.ops[i].recorded || workload.ops[i].recorded->duration == 0) {
        CHECK(beside[i] == 0);
        continue;
      }
      const workload::Recorded& its = *workload.ops[i].recorded;
      for (std::size_t k = 0; k < use.size(); ++k) {
        if (k == i || !workload.ops[k].recorded) continue;
        const workload::Recorded& other = *workload.ops[k].recorded;
        const std::int64_t both =
            std::min(its.start + its.duration, other.start + other.duration) - std::max(its.start, other.start);
        if (both > 0) sum += use[k] * static_cast<double>(both) / static_cast<double>(its.duration);
      }
      CHECK(beside[i] == Approx(sum).margin(1e-6));
    }
  }
}

TEST_CASE("CTA durations of kernels that ran together are found again", "[replay]") {
  gpu::GpuParams params = preset_params("h100-sxm");
  double alone = 0;
  double together = 0;
  std::size_t kernels = 0;
  for (const std::uint64_t number : seeds(60)) {
    CAPTURE(number);
    Random random(number);
    Workload workload = empty_workload(3);
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t ctas = 1U << random.between(2, 11);
      Op op = kernel_op(random.below(3), ctas, random.between(2000, 40'000), 1024);
      op.enqueue = random.between(0, 20'000);
      workload.ops.push_back(op);
    }
    record(workload, params);
    const std::vector<double> free = free_parts(workload, params);
    for (std::size_t i = 0; i < workload.ops.size(); ++i) {
      const Op& op = workload.ops[i];
      if (!op.recorded->overlaps) continue;
      const double cycles = static_cast<double>(op.recorded->duration) * params.machine.clock;
      const auto true_cycles = static_cast<double>(op.kernel.duration.min);
      const auto error = [&](double part) {
        return std::abs(static_cast<double>(SoloKernel(params, op.kernel, part).fit(cycles)) / true_cycles - 1);
      };
      alone += error(1);
      together += error(free[i]);
      ++kernels;
    }
  }
  REQUIRE(kernels > 200);
  CAPTURE(alone / static_cast<double>(kernels), together / static_cast<double>(kernels));
  CHECK(together < 0.5 * alone);
}

}  // namespace replay_free_machine_test
