// Workloads made by hand, machines of the shipped presets, and what a replay of the one on the other shows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/param_layers.h"
#include "gpu/gpu_params.h"
#include "replay/simulation.h"
#include "workload/workload.h"

namespace heddle::test {

inline gpu::GpuParams preset_params(const std::string& name) {
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(name), {Origin::Kind::preset, "preset " + name});
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  layers.resolve(binder, 0);
  return params;
}

inline workload::Workload empty_workload(std::size_t streams) {
  workload::Workload workload;
  workload.name = "hand-made";
  workload.format = "scenario";
  for (std::size_t i = 0; i < streams; ++i) workload.streams.push_back({fmt::format("s{}", i), 0});
  return workload;
}

inline workload::Op kernel_op(std::size_t stream, std::uint32_t ctas, std::uint64_t cycles, std::uint32_t threads = 128) {
  workload::Op op;
  op.kernel.name = fmt::format("kernel of {} CTAs", ctas);
  op.kernel.grid = {ctas, 1, 1};
  op.kernel.block = {threads, 1, 1};
  op.kernel.duration = {cycles, cycles};
  op.stream = stream;
  op.enqueue = 0;
  return op;
}

inline workload::Op copy_op(std::size_t stream, workload::Nanoseconds duration) {
  workload::Op op;
  op.kind = workload::OpKind::copy;
  op.kernel.name = "copy";
  op.bytes = 4096;
  op.duration = duration;
  op.stream = stream;
  op.enqueue = 0;
  return op;
}

inline replay::Job job_of(const workload::Workload& workload, const gpu::GpuParams& params,
                          const std::string& instance = "gpu0") {
  replay::Job job;
  job.instance = instance;
  job.params = params;
  job.workload = &workload;
  return job;
}

}  // namespace heddle::test
