// The figures of docs/results/distributor.md and speculative-launch.md that are about sessions: how long they take by
// the laws of their costs, what failed ones cost, what overlap gains, and what bounds the rate of launches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/run_outcome.h"
#include "replay/simulation.h"

namespace heddle::figures {

// A kernel on a stream of its own.
struct Launch {
  arch::KernelShape kernel;
  std::uint64_t at_ns = 0;
};

// The run, with all its statistics.
inline replay::SimulationResult statistics(const gpu::GpuParams& params, const std::vector<Launch>& launches) {
  workload::Workload work;
  work.name = "figures";
  work.format = "scenario";
  for (std::size_t i = 0; i < launches.size(); ++i) {
    work.streams.push_back({std::to_string(i), 0});
    workload::Op op;
    static_cast<arch::KernelShape&>(op.kernel) = launches[i].kernel;
    op.kernel.name = "grid" + std::to_string(i);
    op.stream = i;
    op.enqueue = static_cast<decltype(op.duration)>(launches[i].at_ns);
    work.ops.push_back(op);
  }
  replay::Job job;
  job.instance = "gpu0";
  job.params = params;
  job.workload = &work;
  replay::SimulationResult result = replay::simulate({job}, {});
  HEDDLE_CHECK(result.progress, "a grid did not run to its end");
  cli::publish_launch("gpu0", result.jobs[0].observation->stats);
  return result;
}

inline double value(const replay::SimulationResult& run, const std::string& name) {
  return run.jobs[0].observation->stats.value("gpu0." + name);
}

inline gpu::GpuParams with_shape(gpu::GpuParams params, std::uint32_t gpcs, std::uint32_t sms) {
  params.machine.shape = arch::Shape::from_sms_per_gpc(std::vector<std::uint32_t>(gpcs, sms));
  return params;
}

}  // namespace heddle::figures
