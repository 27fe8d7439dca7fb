#include "cli/kernel_list.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "arch/sm_limits.h"
#include "common/error.h"
#include "replay/csv_field.h"

namespace heddle::cli {
namespace {

const char* kind_of(workload::OpKind kind) {
  switch (kind) {
    case workload::OpKind::kernel:
      return "kernel";
    case workload::OpKind::copy:
      return "copy";
    case workload::OpKind::fill:
      return "fill";
  }
  return "";
}

std::string text_of(const arch::Dim3& extents) { return fmt::format("{}x{}x{}", extents.x, extents.y, extents.z); }

}  // namespace

std::vector<double> ready_times(const RunOutcome& outcome, std::size_t gpu) {
  const workload::Workload& workload = outcome.inputs->workloads[gpu];
  const std::vector<replay::OpResult>& results = outcome.result.jobs[gpu].results;
  std::vector<double> ready(workload.ops.size(), 0);
  std::vector<double> streams(workload.streams.size(), -1e300);  // end of what came before
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    const replay::OpResult& result = results[i];
    double& time = ready[i];
    time = result.submitted;
    // Of a graph's launch each waits for what the graph says, and the first ones for what was before it.
    if (op.graph && !op.graph->after.empty()) {
      for (const std::size_t before : op.graph->after) time = std::max(time, results[before].end);
    } else {
      time = std::max(time, streams[op.stream]);
    }
    for (const workload::Edge& edge : op.after) {
      time = std::max(time, outcome.result.jobs[edge.gpu.value_or(gpu)].results[edge.from].end);
    }
    // One that may start ahead of the end of the one before it has waited for nobody.
    time = std::min(time, result.start);
    const bool whole = !op.graph || op.graph->last;
    if (result.done && whole) streams[op.stream] = std::max(streams[op.stream], result.end);
  }
  return ready;
}

void write_kernels(const RunOutcome& outcome, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "gpu,operation,kind,name,stream,subcontext,priority,grid,block,cluster,ctas,bytes,submitted_ns,"
                 "ready_ns,start_ns,end_ns,duration_ns,waited_ns,occupancy_percent,recorded_start_ns,"
                 "recorded_duration_ns,baseline_duration_ns,ended\n");
  constexpr std::size_t kChunk = std::size_t{1} << 16U;
  for (std::size_t gpu = 0; gpu < outcome.result.jobs.size(); ++gpu) {
    const workload::Workload& workload = *outcome.workloads[gpu];
    const std::vector<replay::OpResult>& results = outcome.result.jobs[gpu].results;
    const gpu::GpuParams& params = outcome.machines->gpus[gpu].params;
    const std::vector<double> ready = ready_times(outcome, gpu);
    for (std::size_t i = 0; i < workload.ops.size(); ++i) {
      const workload::Op& op = workload.ops[i];
      const replay::OpResult& r = results[i];
      if (!r.done) continue;
      const workload::Stream& stream = workload.streams[op.stream];
      fmt::format_to(out, "{},{},{},{},{},", outcome.machines->gpus[gpu].instance, i, kind_of(op.kind),
                     replay::csv_field(op.kernel.name), replay::csv_field(stream.name));
      const bool kernel = op.kind == workload::OpKind::kernel;
      if (kernel) {
        const bool clustered = op.kernel.cluster.any();
        fmt::format_to(out, "{},{},{},{},{},{},,", op.kernel.subcontext, op.priority.value_or(stream.priority),
                       text_of(op.kernel.grid), text_of(op.kernel.block),
                       clustered ? std::to_string(op.kernel.cluster.of(arch::CgaLevel::gpc).count()) : "",
                       op.kernel.grid.count());
      } else {
        fmt::format_to(out, ",{},,,,,{},", op.priority.value_or(stream.priority), op.bytes);
      }
      fmt::format_to(out, "{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},", r.submitted, ready[i], r.start, r.end,
                     r.end - r.start, r.start - ready[i]);
      if (kernel) {
        fmt::format_to(out, "{:.1f}", arch::occupancy_percent(params.sm.limits, op.kernel, params.machine.shape.sms()));
      }
      fmt::format_to(out, ",");
      if (op.recorded) fmt::format_to(out, "{},{}", op.recorded->start, op.recorded->duration);
      if (!op.recorded) fmt::format_to(out, ",");
      fmt::format_to(out, ",");
      if (!outcome.baseline.empty()) {
        fmt::format_to(out, "{:.3f}", outcome.baseline[gpu][i].end - outcome.baseline[gpu][i].start);
      }
      fmt::format_to(out, ",{}\n", r.rejected ? "rejected" : r.faulted ? "faulted" : "well");
      if (text.size() >= kChunk) {
        file.write(text.data(), static_cast<std::streamsize>(text.size()));
        text.clear();
      }
    }
  }
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw InputError({path, 0, 0}, "cannot be written", "choose another place for it, or free the disk");
}

}  // namespace heddle::cli
