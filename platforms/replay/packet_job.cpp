#include "replay/packet_job.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "common/error.h"
#include "gpu/gpu.h"
#include "packet/packet_processor.h"
#include "packet/packet_work.h"
#include "protocol/packet_task.h"
#include "replay/device_memory.h"

namespace heddle::replay {
namespace {

std::uint32_t count_of(const std::vector<Job>& jobs) {
  return static_cast<std::uint32_t>(
      std::count_if(jobs.begin(), jobs.end(), [](const Job& job) { return job.packets.has_value(); }));
}

heddle_plan_costs costs_of(const gpu::GpuParams& gpu, const SubmissionParams& host, workload::SignalFor signals) {
  const packet::PacketParams& p = gpu.packet;
  const double cycle = 1 / gpu.machine.clock;
  const packet::DecodeCosts decode = packet::decode_costs(p, cycle, gpu.hub.latency * 2 * cycle);
  const double clean_up = packet::WorkRates(p, cycle).ns(packet::work_of_clean_up(true));
  const bool system = signals == workload::SignalFor::each;
  const auto whole = [](double ns) { return static_cast<std::uint32_t>(std::min(ns, 4e9)); };
  const double signal = 2 * gpu.hub.link_latency + host.memory_latency;
  const double each = (system ? signal : 0) + host.enqueue + clean_up;
  heddle_plan_costs costs{};
  costs.plain = whole(each + decode.plain);
  costs.reference = whole(each + decode.reference);
  costs.condensed = whole(each + decode.condensed);
  costs.diff = whole(decode.diff);
  // A signal that is needed takes its way whether its packet ends there or not.
  costs.own_clean_up = whole((system ? signal : 0) + clean_up);
  return costs;
}

}  // namespace

// Tasks that programs launch have numbers of their own.
std::uint32_t TaskTranslator::operation_of(std::uint32_t task) const {
  if ((task & protocol::kDispatchBit) == 0 && (task & protocol::kChildBit) != 0) return task;
  const auto found = operations_->find(task);
  HEDDLE_CHECK(found != operations_->end(), "a CTA belongs to no operation of the workload");
  return static_cast<std::uint32_t>(found->second);
}

CtaListener::Cta TaskTranslator::translated(Cta cta) const {
  cta.task = operation_of(cta.task);
  return cta;
}

void TaskTranslator::task_launched(const Launched& task) {
  Launched translated = task;
  if (task.parent) translated.parent = operation_of(*task.parent);
  listener_.task_launched(translated);
}

PacketJobs::PacketJobs(const std::vector<Job>& jobs, const SimulationOptions& options)
    : params_(options.host),
      // The first page stays free: no signal has the address 0.
      area_("the host's memory", arch::kHostWindow + 4096, arch::kHostWindow + options.host.memory, false) {
  const std::uint32_t ports = count_of(jobs);
  if (ports == 0) return;
  params_.check();
  memory_ = std::make_unique<host::HostMemory>("host_memory", params_.memory,
                                               sc_core::sc_time(params_.memory_latency, sc_core::SC_NS), ports);
}

PacketJobs::~PacketJobs() = default;

double packet_path_ns(const gpu::Gpu& gpu, const SubmissionParams& host, const workload::PacketOptions& options) {
  const gpu::GpuParams& params = gpu.params();
  const Domain& domain = gpu.domain();
  double ns = host.enqueue + params.host.register_latency;
  if (domain.mode() == TimingMode::lt) return ns;
  const auto cycles = [&](Cycle count) { return domain.clock().ns_for_cycles(static_cast<double>(count)); };
  ns += cycles(params.host.doorbell);
  ns += options.queues == workload::QueuePlace::host ? 2 * params.hub.link_latency + host.memory_latency
                                                     : cycles(Cycle{2} * params.hub.latency);
  const double cycle = cycles(1);
  ns += packet::decode_costs(params.packet, cycle, cycles(Cycle{2} * params.hub.latency)).plain;
  ns += packet::WorkRates(params.packet, cycle).ns(packet::work_of_dispatch());
  return ns + cycles(params.start_path());
}

DeviceAccess device_access(gpu::Gpu& gpu) {
  DeviceAccess access;
  access.read = [&gpu](std::uint64_t address, void* to, std::uint64_t bytes) {
    return gpu.memory().read(address, to, bytes);
  };
  access.write = [&gpu](std::uint64_t address, const void* from, std::uint64_t bytes) {
    return gpu.memory().write(address, from, bytes);
  };
  return access;
}

std::unique_ptr<PacketSubmitter> PacketJobs::add(const Job& job, gpu::Gpu& gpu, std::uint64_t end,
                                                 std::vector<TimedShare> shares, GpuObservation& gpu_observation,
                                                 Observation& host_observation) {
  const gpu::GpuParams& params = gpu.params();
  SubmissionTimings timings;
  timings.launch_latency_ns = job.launch_latency_ns;
  timings.start_path_ns = packet_path_ns(gpu, params_, *job.packets);
  PacketSubmitterSetup setup;
  setup.workload = job.workload;
  setup.plan = plan_packets(*job.workload, job.pace, timings, params.packet.queues);
  setup.shares = std::move(shares);
  const std::uint64_t limit = params.front_end_memory();
  Area device("memory of " + job.instance, std::min(end, limit), limit, true);
  setup.memory =
      lay_out(*job.workload, load_programs(*job.workload, gpu), setup.plan, *job.packets, params_, area_, device);
  setup.encoder.options = *job.packets;
  setup.encoder.costs = costs_of(params, params_, job.packets->signals);
  setup.encoder.overlap = params.packet.condensed == packet::CondensedOrder::overlap;
  setup.encoder.shared_table = params.packet.table_owner == packet::TableOwner::agent;
  setup.encoder.format.reference_bits = params.packet.reference_bits;
  setup.encoder.format.vector_bits = params.packet.vector_bits;
  setup.encoder.format.stored = params.packet.diff == arch::DiffOf::stored;
  setup.encoder.table_entries = params.packet.entries;
  setup.params = params_;
  setup.submit_queue = params.task.submit_queue;
  const Clock& clock = gpu.domain().clock();
  setup.ns_of = [&clock](Cycle cycle) { return (clock.time_of(cycle) - clock.time_of(0)).to_seconds() * 1e9; };
  auto submitter = std::make_unique<PacketSubmitter>((job.instance + "_host").c_str(), std::move(setup), *memory_,
                                                     device_access(gpu), gpu_observation, host_observation);
  submitter->registers.socket.bind(gpu.bar0());
  gpu.dma().bind(memory_->port(ports_++));
  gpu.irq().bind(submitter->interrupt);
  gpu.packets().listen(*submitter);
  submitter->submit_out.bind(gpu.submit_in());
  gpu.done_out().bind(submitter->done_in);
  return submitter;
}

void take_packets(PacketSubmitter& submitter, JobResult& result) {
  result.by_packets = true;
  result.launches = submitter.launches();
  result.problems = submitter.problems();
  result.notes = submitter.notes();
  result.operations = submitter.operations();
  for (arch::FaultRecord& fault : result.faults) {
    fault.task = static_cast<std::uint32_t>(result.operation_of(fault.task));
  }
}

}  // namespace heddle::replay
