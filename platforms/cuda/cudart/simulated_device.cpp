#include "cuda/cudart/simulated_device.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "common/error.h"
#include "common/waits.h"
#include "host/host_interface.h"
#include "replay/simulation.h"
#include "replay/submission.h"

namespace heddle::cuda {
namespace {

// The time of the host for a call that gives the device something, and between two looks: as of `heddle run --packets`.
double host_call_ns() {
  const replay::SubmissionParams host;
  return host.enqueue + host.doorbell;
}

}  // namespace

SimulatedDevice::SimulatedDevice(const gpu::ResolvedMachine& machine) {
  for (const char* type : {host::kQueueReport, gpu::kFaultReport, gpu::kResetReport}) {
    sc_core::sc_report_handler::set_actions(type, sc_core::SC_DO_NOTHING);
  }
  gpu_ = std::make_unique<gpu::Gpu>("gpu0", machine.params, 1, observation_);
  memory_ = std::make_unique<ProcessMemory>(
      "process", sc_core::sc_time(replay::SubmissionParams{}.memory_latency, sc_core::SC_NS));
  port_ = std::make_unique<HostPort>("host", host_observation_);
  port_->submit_out.bind(gpu_->submit_in());
  gpu_->done_out().bind(port_->done_in);
  gpu_->dma().bind(memory_->socket);
  gpu_->irq().bind(irq_);
  gpu_->rst().bind(reset_);
  port_->on_end([this](const protocol::DonePacket& done) { on_done(done); });
  // Elaborates, so that memory can be written.
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
}

SimulatedDevice::~SimulatedDevice() = default;

std::uint32_t SimulatedDevice::submit(const std::vector<protocol::SubmitPacket>& packets, Operation record) {
  const std::uint32_t id = next_id();
  observation_.labels.set(id, record.name.empty() ? record.kind : record.name);
  now_ += host_call_ns();
  record.submitted = now_;
  operations_.push_back(std::move(record));
  ++open_;
  for (const protocol::SubmitPacket& packet : packets) port_->send(packet, static_cast<Cycle>(now_));
  return id;
}

void SimulatedDevice::control(const protocol::SubmitPacket& packet) {
  now_ += host_call_ns();
  port_->send(packet, static_cast<Cycle>(now_));
}

void SimulatedDevice::on_done(const protocol::DonePacket& done) {
  HEDDLE_CHECK(done.operation < operations_.size() && !operations_[done.operation].done,
               "an operation was reported twice");
  Operation& operation = operations_[done.operation];
  operation.done = true;
  operation.status = done.status;
  operation.start = static_cast<double>(done.start) / 1e3;
  operation.end = static_cast<double>(done.end) / 1e3;
  operation.staged = {};
  --open_;
  if (awaited_ != nullptr && (*awaited_)()) sc_core::sc_pause();
}

bool SimulatedDevice::step(const sc_core::sc_time& most, sc_core::sc_starvation_policy end) {
  try {
    sc_core::sc_start(most, end);
    return true;
  } catch (const std::exception& error) {
    why_ = error.what();
    for (const std::exception_ptr& failure : {observation_.failure, host_observation_.failure}) {
      if (!failure) continue;
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& first) {
        why_ = first.what();
      }
    }
    return false;
  }
}

bool SimulatedDevice::run_until(const std::function<bool()>& condition) {
  if (!why_.empty()) return false;
  std::vector<Domain*> domains = replay::DomainWatch::domains_of(*gpu_);
  domains.push_back(&port_->domain);
  replay::DomainWatch watched(domains);
  replay::ProgressWatch watch(replay::ProgressLimits{}, watched);
  double slice_ns = 1000;
  std::uint64_t before = gpu_->domain().events_executed();
  while (!condition()) {
    if (!sc_core::sc_pending_activity()) {
      why_ = "no event is left, and operations are open";
      return false;
    }
    const sc_core::sc_time slice =
        std::max(sc_core::sc_time(slice_ns, sc_core::SC_NS), sc_core::sc_time_to_pending_activity());
    awaited_ = &condition;
    const bool went = step(slice, sc_core::SC_EXIT_ON_STARVATION);
    awaited_ = nullptr;
    if (!went) return false;
    const std::uint64_t events = gpu_->domain().events_executed();
    if (events - before < 10'000) slice_ns = std::min(2 * slice_ns, 1e5);
    if (events - before > 40'000) slice_ns = std::max(slice_ns / 2, 100.0);
    before = events;
    const std::uint64_t all = events + port_->domain.events_executed();
    if (watch.look({all, observation_.progress}) != replay::ProgressWatch::Verdict::goes_on) {
      WaitGraph graph;
      gpu_->domain().collect_waits(graph);
      why_ = "all that runs does the same again and again";
      for (const std::string& wait : graph.chain()) why_ += "\n  " + wait;
      return false;
    }
  }
  now_ = std::max(now_, sc_core::sc_time_stamp().to_seconds() * 1e9);
  return true;
}

void SimulatedDevice::look() {
  now_ += replay::SubmissionParams{}.poll;
  const double left = now_ - sc_core::sc_time_stamp().to_seconds() * 1e9;
  if (why_.empty() && left > 0) (void)step(sc_core::sc_time(left, sc_core::SC_NS), sc_core::SC_RUN_TO_TIME);
}

}  // namespace heddle::cuda
