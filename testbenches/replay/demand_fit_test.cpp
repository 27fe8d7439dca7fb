// The closed form for kernels with demands, against the machine; and what a recording says of kernels that were held
// back, where the truth is known.
#include "replay/demand_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "replay/free_machine.h"
#include "replay/prediction.h"
#include "replay/replay_bench.h"
#include "support/random.h"

namespace replay_demand_fit_test {

using namespace heddle;
using namespace heddle::test;
using arch::Demand;
using arch::DemandUnit;
using replay::DemandFit;
using replay::RecordedDemands;
using workload::Op;
using workload::Workload;

namespace {

Demand random_demand(Random& random) {
  Demand demand;
  const auto some = [&random](double most) {
    return random.chance(50) ? 0.0 : most * random.between(1, 1000) / 1000.0;
  };
  demand.of(DemandUnit::tensor_f16) = some(4e7);
  demand.of(DemandUnit::fp32) = some(1e6);
  demand.of(DemandUnit::l2_read) = some(400'000);
  demand.of(DemandUnit::l2_write) = some(100'000);
  demand.of(DemandUnit::dram_read) = demand.of(DemandUnit::l2_read) * random.between(0, 10) / 10.0;
  demand.of(DemandUnit::dram_write) = demand.of(DemandUnit::l2_write) * random.between(0, 10) / 10.0;
  demand.floor_ns = random.between(0, 3000);
  return demand;
}

double simulated_ns(const gpu::GpuParams& params, const Op& op) {
  Workload workload = empty_workload(1);
  workload.ops.push_back(op);
  const replay::SimulationResult result = replay::simulate({job_of(workload, params)}, {});
  REQUIRE(result.progress);
  return result.jobs.at(0).results.at(0).end - result.jobs.at(0).results.at(0).start;
}

// An element-wise operator over so many elements of two bytes.
workload::Operator copy_of(std::int64_t elements) {
  workload::OperatorArgument tensor;
  tensor.type = "c10::Half";
  tensor.extents = {elements};
  tensor.strides = {1};
  return {"aten::neg", {tensor}, {}};
}

}  // namespace

TEST_CASE("the closed form of a demand against the machine", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");
  const DemandFit fit(params);
  std::vector<double> errors;
  for (const std::uint64_t number : seeds(150)) {
    CAPTURE(number);
    Random random(number);
    Op op = kernel_op(0, 1U << random.between(0, 12), 0, 32U << random.between(0, 5));
    const Demand demand = random_demand(random);
    op.kernel.demand = std::make_shared<const Demand>(demand);
    errors.push_back(std::abs(fit.duration(op.kernel, demand) / simulated_ns(params, op) - 1));
  }
  std::sort(errors.begin(), errors.end());
  CAPTURE(errors[errors.size() / 2], errors[errors.size() * 95 / 100], errors.back());
  CHECK(errors[errors.size() / 2] < 0.03);
  CHECK(errors[errors.size() * 95 / 100] < 0.15);
}

TEST_CASE("a fitted demand takes the recorded time", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");
  const DemandFit fit(params);
  for (const std::uint64_t number : seeds(500)) {
    CAPTURE(number);
    Random random(number);
    const Op op = kernel_op(0, 1U << random.between(0, 12), 0, 32U << random.between(0, 5));
    const Demand demand = random_demand(random);
    const double ns = random.between(500, 500'000);
    const DemandFit::Fit made = fit.fit(op.kernel, demand, ns);
    if (made.scale == 0) {
      CHECK(fit.duration(op.kernel, replay::scaled(demand, 0)) > ns);
      continue;
    }
    CHECK(fit.duration(op.kernel, made.demand) == Approx(ns).epsilon(1e-4));
    // What the text of the fit says of each case.
    const double whole = fit.duration(op.kernel, demand);
    if (made.waits) {
      CHECK(whole < ns);
      CHECK(made.demand.floor_ns >= demand.floor_ns);
      CHECK(made.scale == 1);
    } else if (made.memory < 1) {
      CHECK(whole > ns);
      CHECK(made.scale == 1);
      CHECK(made.demand.of(DemandUnit::l2_read) == demand.of(DemandUnit::l2_read));
    } else {
      CHECK((made.scale > 1) == (whole < ns));
    }
  }
}

TEST_CASE("sizes that were held back follow from the others", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");
  const DemandFit fit(params);
  // A kernel that reaches half of the memory's bandwidth, over tensors of many sizes, each once.
  Workload workload = empty_workload(1);
  Random random(3);
  for (std::uint32_t i = 0; i < 200; ++i) {
    const std::int64_t elements = 1 << random.between(23, 27);
    workload.operators.push_back(copy_of(elements + 512 * i));
    Op op = kernel_op(0, static_cast<std::uint32_t>((elements + 512 * i) / 8192), 0, 256);
    op.kernel.name = "neg_kernel";
    op.op_of = i;
    op.recorded = workload::Recorded{0, 1, -1, false};
    workload.ops.push_back(op);
  }
  const RecordedDemands unfitted(workload, params, {});
  for (std::uint32_t i = 0; i < 200; ++i) {
    workload.ops[i].recorded->duration = std::llround(unfitted.duration(i, {2, 1, std::nullopt}));
  }
  const RecordedDemands recording(workload, params, {});
  const replay::HeldBack with = replay::predict(recording, params, replay::HoldBack::launches, true, 1);
  const replay::HeldBack without = replay::predict(recording, params, replay::HoldBack::launches, false, 1);
  CHECK(with.launches > 60);
  CHECK(with.error_p95 < 0.02);
  CHECK(std::abs(with.time_error) < 0.01);
  // A CTA's duration says little, as it depends on how many there are.
  CHECK(without.error_p50 > with.error_p50);
  // All launches have one name: nothing is known of it once it is held back.
  const replay::HeldBack names = replay::predict(recording, params, replay::HoldBack::names, true, 1);
  CHECK((names.launches == 0 || names.launches == 200));
  // A memory of half the rate takes twice as long for what it limits.
  gpu::GpuParams slow = params;
  slow.hbm.pin_rate /= 2;
  const std::vector<double> there = recording.durations_on(slow);
  for (std::size_t i = 0; i < there.size(); i += 20) {
    CHECK(there[i] / recording.duration(i, recording.factor(i)) == Approx(2).epsilon(0.1));
  }
}

TEST_CASE("kernels that shared bandwidth when recorded demand what they did", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");
  const DemandFit fit(params);
  double only_places = 0;
  double shared = 0;
  std::size_t kernels = 0;
  for (const std::uint64_t number : seeds(40)) {
    CAPTURE(number);
    Random random(number);
    Workload workload = empty_workload(3);
    for (std::uint32_t i = 0; i < 9; ++i) {
      const std::int64_t elements = (std::int64_t{1} << random.between(20, 24)) + 512 * i;
      workload.operators.push_back(copy_of(elements));
      Op op = kernel_op(i % 3, static_cast<std::uint32_t>(elements / 8192), 0, 256);
      op.kernel.name = fmt::format("neg_kernel {}", i);
      op.op_of = i;
      op.enqueue = random.between(0, 5'000);
      workload.ops.push_back(op);
    }
    // What they really do is that times what is known of them.
    std::vector<double> truth;
    const RecordedDemands known(workload, params, {});
    for (std::size_t i = 0; i < workload.ops.size(); ++i) {
      truth.push_back(random.between(100, 200) / 100.0);
      workload.ops[i].kernel.demand = std::make_shared<const Demand>(known.demand(i, {truth[i], 1, std::nullopt}));
    }
    record(workload, params);
    for (Op& op : workload.ops) op.kernel.demand = nullptr;
    const RecordedDemands recording(workload, params, {});
    const std::vector<double> free = replay::free_parts(workload, params);
    for (std::size_t i = 0; i < workload.ops.size(); ++i) {
      const Op& op = workload.ops[i];
      if (!op.recorded->overlaps) continue;
      const auto error = [&](double scale) { return std::abs(scale / truth[i] - 1); };
      const Demand& estimate = recording.demands()[i]->estimate.cta;
      const auto ns = static_cast<double>(op.recorded->duration);
      // With places alone: bandwidth as if it had been there.
      DemandFit::Left places;
      places.places = free[i];
      only_places += error(fit.fit(op.kernel, estimate, ns, places).scale);
      shared += error(recording.factor(i).scale);
      ++kernels;
    }
  }
  REQUIRE(kernels > 200);
  const double mean_places = only_places / static_cast<double>(kernels);
  const double mean_shared = shared / static_cast<double>(kernels);
  CAPTURE(mean_places, mean_shared);
  CHECK(mean_shared < 0.5 * mean_places);
}

TEST_CASE("equal kernels that were recorded side by side take the recorded time once more", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");
  for (const std::uint32_t kernels : {2U, 3U, 4U, 8U}) {
    for (const double slower : {0.9, 1.0, 1.5}) {
      CAPTURE(kernels, slower);
      // Each reads and writes 2 * 67 MB.
      constexpr std::int64_t kElements = 1 << 25;
      Workload workload = empty_workload(kernels);
      for (std::uint32_t i = 0; i < kernels; ++i) {
        workload.operators.push_back(copy_of(kElements + 512 * i));
        Op op = kernel_op(i, 4096, 0, 256);
        op.kernel.name = fmt::format("neg_kernel {}", i);
        op.op_of = i;
        op.enqueue = 0;
        workload.ops.push_back(op);
      }
      // As long as the bytes take at that part of the memory's rate.
      const RecordedDemands known(workload, params, {});
      const double alone = known.duration(0, {});
      const auto recorded = static_cast<std::int64_t>(std::llround(alone * kernels * slower));
      for (Op& op : workload.ops) op.recorded = workload::Recorded{0, recorded, -1.0, true};
      const RecordedDemands recording(workload, params, {});
      for (std::size_t i = 0; i < workload.ops.size(); ++i) {
        workload.ops[i].kernel.demand = std::make_shared<const Demand>(recording.fitted(i));
      }
      const replay::SimulationResult result = replay::simulate({job_of(workload, params)}, {});
      REQUIRE(result.progress);
      double end = 0;
      double begin = 1e30;
      for (const replay::OpResult& op : result.jobs.at(0).results) {
        begin = std::min(begin, op.start);
        end = std::max(end, op.end);
      }
      CHECK(end - begin == Approx(static_cast<double>(recorded)).epsilon(0.05));
    }
  }
}

}  // namespace replay_demand_fit_test
