#include "cli/replay_plan.h"

#include <fmt/format.h>

#include "gpu/residency.h"
#include "replay/cta_fit.h"

namespace heddle::cli {
namespace {

// Where a recording does not show it: what CUDA launches typically take from call to start.
constexpr double kUsualLaunchLatencyNs = 5000;

void use_signature_medians(workload::Workload& workload) {
  for (const std::vector<std::size_t>& launches : replay::signature_groups(workload)) {
    std::vector<double> cycles;
    for (const std::size_t i : launches) cycles.push_back(static_cast<double>(workload.ops[i].kernel.duration.min));
    const auto median = static_cast<std::uint64_t>(replay::signature_duration(std::move(cycles)));
    for (const std::size_t i : launches) workload.ops[i].kernel.duration = {median, median};
  }
}

void check_recorded_machine(const workload::Workload& workload, const workload::Op& op, const gpu::GpuParams& machine) {
  const std::string why = gpu::why_never_fits(machine, op.kernel);
  if (why.empty()) return;
  throw InputError({workload.name, 0, 0},
                   "kernel '" + op.kernel.name + "' cannot have run on the recorded device, " + why,
                   "the recording's launch data and its deviceProperties contradict each other");
}

}  // namespace

Fitted fit_workload(const workload::Workload& workload, const gpu::GpuParams& recorded, Fit fit) {
  Fitted fitted{workload, std::vector<bool>(workload.ops.size(), false)};
  const Clock clock(recorded.machine.clock);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    workload::Op& op = fitted.workload.ops[i];
    if (op.kind != workload::OpKind::kernel || !op.recorded) continue;
    check_recorded_machine(workload, op, recorded);
    const replay::SoloKernel solo(recorded, op.kernel);
    const double cycles = static_cast<double>(op.recorded->duration) / clock.ns_for_cycles(1);
    const std::uint64_t cta = solo.fit(cycles);
    op.kernel.duration = {cta, cta};
    fitted.launch_bound[i] = solo.duration(1) > cycles;
  }
  if (fit == Fit::signature) use_signature_medians(fitted.workload);
  return fitted;
}

std::vector<replay::Job> make_jobs(const std::vector<Fitted>& fitted, const Machines& machines, replay::Pace pace,
                                   bool recorded_machine, const std::optional<workload::PacketOptions>& packets) {
  std::vector<replay::Job> jobs;
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const workload::Workload& workload = fitted[i].workload;
    const Machine& machine = machines.gpus[i];
    replay::Job job;
    job.instance = machine.instance;
    job.params = recorded_machine ? machine.recorded : machine.params;
    job.workload = &workload;
    job.pace = pace;
    job.packets = packets;
    if (workload.format != "scenario") {
      job.launch_latency_ns = workload.timings.launch_latency ? static_cast<double>(*workload.timings.launch_latency)
                                                              : kUsualLaunchLatencyNs;
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::optional<workload::PacketOptions> packet_options(const Inputs& inputs, const RunOptions& options) {
  std::optional<workload::PacketOptions> packets;
  if (inputs.scenario) packets = inputs.scenario->packets;
  if (options.by_packets.value_or(packets.has_value())) {
    if (!packets) packets.emplace();
  } else {
    packets.reset();
  }
  const std::pair<const char*, bool> given[] = {{"--format", options.format.has_value()},
                                                {"--queues", options.queues.has_value()},
                                                {"--copies", options.copies.has_value()},
                                                {"--signals", options.signals.has_value()},
                                                {"--batch", options.batch.has_value()}};
  for (const auto& [name, present] : given) {
    if (present && !packets) {
      throw InputError(fmt::format("{} is about packets, and this run submits operations of streams", name),
                       "add --submit aql");
    }
  }
  if (packets) {
    packets->format = options.format.value_or(packets->format);
    packets->queues = options.queues.value_or(packets->queues);
    packets->copies = options.copies.value_or(packets->copies);
    packets->signals = options.signals.value_or(packets->signals);
    packets->batch = options.batch.value_or(packets->batch);
    return packets;
  }
  for (const workload::Workload& workload : inputs.workloads) {
    for (const workload::Op& op : workload.ops) {
      if (op.args.empty()) continue;
      throw InputError(
          {inputs.scenario ? inputs.scenario->file : workload.name, 0, 0},
          fmt::format("an operation of kernel {} has args, and only packets carry arguments", op.kernel.name),
          "write submit: {by: aql, operations: [...]}, or add --submit aql");
    }
  }
  return packets;
}

}  // namespace heddle::cli
