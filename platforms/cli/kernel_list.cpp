#include "cli/kernel_list.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "arch/idle_account.h"
#include "arch/sm_limits.h"
#include "cli/kernel_use.h"
#include "common/error.h"
#include "cwd/task_table.h"
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

// "free_slots=1200.000;credits=40.000"
std::string pairs_text(const std::vector<std::pair<const char*, double>>& parts) {
  std::string text;
  for (const auto& [key, value] : parts) text += fmt::format("{}{}={:.3f}", text.empty() ? "" : ";", key, value);
  return text;
}

// What the distributor says of a task, in nanoseconds by reason.
std::string waits_text(const replay::JobResult& job, std::uint32_t task) {
  std::vector<std::pair<const char*, double>> parts;
  for (std::size_t i = 1; i < cwd::kWaitReasons; ++i) {
    const std::uint64_t cycles = job.observation->waits.cycles(task, i);
    if (cycles > 0) {
      parts.emplace_back(cwd::wait_key(static_cast<cwd::WaitReason>(i)), static_cast<double>(cycles) * job.cycle_ns);
    }
  }
  return pairs_text(parts);
}

// Why SMs were idle on account of a kernel, in SMs x nanoseconds by reason.
std::string idle_text(const replay::JobResult& job, const IdleKernels::Kernel& kernel) {
  std::vector<std::pair<const char*, double>> parts;
  for (const IdleReasonRow& row : kIdleReasonRows) {
    const std::uint64_t cycles = kernel.cycles[static_cast<std::size_t>(row.reason)];
    if (cycles > 0) parts.emplace_back(row.key, static_cast<double>(cycles) * job.cycle_ns);
  }
  return pairs_text(parts);
}

// By operation: the tasks that its CTAs ran as.
std::map<std::size_t, std::uint32_t> tasks_of(const replay::JobResult& job) {
  std::map<std::size_t, std::uint32_t> tasks;
  for (const auto& [task, operation] : job.operations) tasks[operation] = task;
  return tasks;
}

const char* text_of(LaunchedKernels::Task::End how) {
  switch (how) {
    case LaunchedKernels::Task::End::well:
      return "well";
    case LaunchedKernels::Task::End::rejected:
      return "rejected";
    case LaunchedKernels::Task::End::faulted:
      return "faulted";
    case LaunchedKernels::Task::End::aborted:
      return "aborted";
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

namespace {

// Of everything that a row has, in the order of the columns.
constexpr const char* kColumns =
    "gpu,operation,kind,name,stream,subcontext,priority,grid,block,cluster,ctas,bytes,submitted_ns,ready_ns,start_ns,"
    "end_ns,duration_ns,waited_ns,occupancy_percent,recorded_start_ns,recorded_duration_ns,baseline_duration_ns,ended,"
    "waits_ns,idle_sm_ns,parent,depth";

// Behind them: what KernelAccount counts, and what follows from that.
std::string columns_of_use() {
  std::string text;
  for (const KernelCountRow& row : kKernelCountRows) text += fmt::format(",{}", row.key);
  return text + ",issue_percent,tensor_percent,achieved_occupancy_percent,l1_hit_percent,l2_hit_percent,stalls";
}

class KernelFile {
 public:
  KernelFile(const RunOutcome& outcome, const std::string& path)
      : outcome_(outcome), path_(path), file_(path, std::ios::binary) {
    for (std::size_t gpu = 0; gpu < outcome.result.jobs.size(); ++gpu) {
      uses_.emplace_back(outcome, gpu);
      ceilings_.emplace_back(outcome.machines->gpus[gpu].params);
    }
    fmt::format_to(out(), "{}{}\n", kColumns, columns_of_use());
  }
  // Of the host.
  void write_operations(std::size_t gpu);
  // That programs have launched.
  void write_launched(std::size_t gpu);
  // Throws InputError if something could not be written.
  void close();

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 16U;
  std::back_insert_iterator<fmt::memory_buffer> out() { return std::back_inserter(text_); }
  void write_shape(const arch::Dim3& grid, const arch::KernelShape* kernel);
  void write_occupancy(std::size_t gpu, const arch::KernelShape& kernel);
  // `ns`: of the kernel. `use`: null: nobody has counted it.
  void write_use(std::size_t gpu, const KernelUse* use, double ns);
  void end_row();
  void flush();

  const RunOutcome& outcome_;
  const std::string& path_;
  std::ofstream file_;
  fmt::memory_buffer text_;
  std::vector<KernelUses> uses_;          // by GPU
  std::vector<KernelCeilings> ceilings_;  // by GPU
};

void KernelFile::flush() {
  file_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
  text_.clear();
}

void KernelFile::end_row() {
  fmt::format_to(out(), "\n");
  if (text_.size() >= kChunk) flush();
}

void KernelFile::close() {
  flush();
  file_.close();
  if (!file_) throw InputError({path_, 0, 0}, "cannot be written", "choose another place for it, or free the disk");
}

// Grid, block, cluster, CTAs and no bytes. `kernel`: null where nobody knows it any more.
void KernelFile::write_shape(const arch::Dim3& grid, const arch::KernelShape* kernel) {
  const bool clustered = kernel != nullptr && kernel->cluster.any();
  fmt::format_to(out(), "{},{},{},{},,", text_of(grid), kernel == nullptr ? "" : text_of(kernel->block),
                 clustered ? std::to_string(kernel->cluster.of(arch::CgaLevel::gpc).count()) : "", grid.count());
}

void KernelFile::write_occupancy(std::size_t gpu, const arch::KernelShape& kernel) {
  const gpu::GpuParams& params = outcome_.machines->gpus[gpu].params;
  fmt::format_to(out(), "{:.1f}", arch::occupancy_percent(params.sm.limits, kernel, params.machine.shape.sms()));
}

void KernelFile::write_use(std::size_t gpu, const KernelUse* use, double ns) {
  if (use == nullptr) {
    for (std::size_t i = 0; i < kKernelCounts + 6; ++i) fmt::format_to(out(), ",");
    return;
  }
  for (const std::uint64_t count : use->counts) fmt::format_to(out(), ",{}", count);
  const KernelCeilings& ceilings = ceilings_[gpu];
  const double cycles = ns * ceilings.clock;
  const auto put = [this](double percent) {
    fmt::format_to(out(), ",");
    if (percent >= 0) fmt::format_to(out(), "{:.2f}", percent);
  };
  const auto resources = resource_use(*use, ceilings, cycles);
  put(ns > 0 ? resources[0].percent : -1);
  put(ns > 0 ? resources[1].percent : -1);
  put(ns > 0 ? achieved_occupancy(*use, ceilings, cycles) : -1);
  put(use->l1_hit_percent());
  put(use->l2_hit_percent());
  std::string stalls;
  for (const WarpStallRow& row : kWarpStallRows) {
    const std::uint64_t waited = use->stalls[static_cast<std::size_t>(row.why)];
    if (waited > 0) stalls += fmt::format("{}{}={}", stalls.empty() ? "" : ";", row.key, waited);
  }
  fmt::format_to(out(), ",{}", stalls);
}

void KernelFile::write_operations(std::size_t gpu) {
  const workload::Workload& workload = *outcome_.workloads[gpu];
  const replay::JobResult& job = outcome_.result.jobs[gpu];
  const std::vector<double> ready = ready_times(outcome_, gpu);
  const std::map<std::size_t, std::uint32_t> tasks = tasks_of(job);
  std::map<std::size_t, IdleKernels::Kernel> idle;
  for (const IdleKernels::Kernel& kernel : job.observation->idle->kernels().all()) {
    if (kernel.operation) idle[job.operation_of(*kernel.operation)] = kernel;
  }
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    const replay::OpResult& r = job.results[i];
    if (!r.done) continue;
    const workload::Stream& stream = workload.streams[op.stream];
    fmt::format_to(out(), "{},{},{},{},{},", outcome_.machines->gpus[gpu].instance, i, kind_of(op.kind),
                   replay::csv_field(op.kernel.name), replay::csv_field(stream.name));
    const bool kernel = op.kind == workload::OpKind::kernel;
    if (kernel) {
      fmt::format_to(out(), "{},{},", op.kernel.subcontext, op.priority.value_or(stream.priority));
      write_shape(op.kernel.grid, &op.kernel);
    } else {
      fmt::format_to(out(), ",{},,,,,{},", op.priority.value_or(stream.priority), op.bytes);
    }
    fmt::format_to(out(), "{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},", r.submitted, ready[i], r.start, r.end,
                   r.end - r.start, r.start - ready[i]);
    if (kernel) write_occupancy(gpu, op.kernel);
    fmt::format_to(out(), ",");
    if (op.recorded) fmt::format_to(out(), "{},{}", op.recorded->start, op.recorded->duration);
    if (!op.recorded) fmt::format_to(out(), ",");
    fmt::format_to(out(), ",");
    if (!outcome_.baseline.empty()) {
      fmt::format_to(out(), "{:.3f}", outcome_.baseline[gpu][i].end - outcome_.baseline[gpu][i].start);
    }
    fmt::format_to(out(), ",{},", r.rejected ? "rejected" : r.faulted ? "faulted" : "well");
    const auto task = tasks.find(i);
    const auto cause = idle.find(i);
    if (kernel) {
      fmt::format_to(out(), "{},{},,0",
                     waits_text(job, task == tasks.end() ? static_cast<std::uint32_t>(i) : task->second),
                     cause == idle.end() ? "" : idle_text(job, cause->second));
    } else {
      fmt::format_to(out(), ",,,");
    }
    write_use(gpu, kernel ? uses_.at(gpu).of_operation(i) : nullptr, r.end - r.start);
    end_row();
  }
}

void KernelFile::write_launched(std::size_t gpu) {
  const replay::JobResult& job = outcome_.result.jobs[gpu];
  std::map<std::string, const arch::KernelShape*> shapes;
  for (const workload::LaunchedKernel& launched : outcome_.workloads[gpu]->launched) {
    shapes.emplace(launched.kernel.name, &launched.kernel);
  }
  for (const LaunchedKernels::Task& task : job.observation->launched.tasks()) {
    const auto shape = shapes.find(task.key->name);
    const arch::KernelShape* kernel = shape == shapes.end() ? nullptr : shape->second;
    const auto ns = [&job](std::uint64_t cycle) { return static_cast<double>(cycle) * job.cycle_ns - job.lead_ns; };
    fmt::format_to(out(), "{},{},launched,{},,{},{},", outcome_.machines->gpus[gpu].instance, task.task,
                   replay::csv_field(task.key->name), task.subcontext, task.priority);
    write_shape(task.grid, kernel);
    const bool started = task.start > 0;
    const std::uint64_t start = started ? task.start : task.end;
    fmt::format_to(out(), "{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},", ns(task.issued), ns(task.issued), ns(start),
                   ns(task.end), ns(task.end) - ns(start), ns(start) - ns(std::min(start, task.issued)));
    if (kernel != nullptr) write_occupancy(gpu, *kernel);
    fmt::format_to(out(), ",,,,{},{},,", text_of(task.how), waits_text(job, task.task));
    if (task.parent) fmt::format_to(out(), "{}", job.operation_of(*task.parent));
    fmt::format_to(out(), ",{}", task.key->depth);
    write_use(gpu, uses_.at(gpu).of_task(task.task), ns(task.end) - ns(start));
    end_row();
  }
}

}  // namespace

void write_kernels(const RunOutcome& outcome, const std::string& path) {
  KernelFile file(outcome, path);
  for (std::size_t gpu = 0; gpu < outcome.result.jobs.size(); ++gpu) {
    file.write_operations(gpu);
    file.write_launched(gpu);
  }
  file.close();
}

}  // namespace heddle::cli
