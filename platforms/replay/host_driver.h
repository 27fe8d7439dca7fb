// The host of a workload: submits its operations to one GPU at their times, switches TPCs on and off and changes how
// the machine is shared at theirs, and notes what becomes of the operations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/gpu_observation.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "protocol/host_task.h"
#include "replay/host.h"
#include "replay/initial_state.h"
#include "workload/workload.h"

namespace heddle::replay {

struct HostTimings {
  double launch_latency_ns = 0;       // from the host's call to the earliest start on an idle GPU
  double start_path_ns = 0;           // the part of it that the modelled GPU spends itself on a kernel
  std::uint32_t submit_queue = 1024;  // operations on their way to the GPU: credits
};

// What messages and timelines call an operation.
std::string operation_label(const workload::Workload& workload, std::size_t op);

// Runs in a domain of its own, with a clock of 1 GHz: a cycle is a nanosecond.
class HostDriver : public sc_core::sc_module,
                   public Host,
                   private EventHandler,
                   private Resettable,
                   private WaitSource {
 public:
  // `gpu` receives the labels of the operations. `codes`: of the kernels' programs in the GPU, by operation; empty:
  // there are none. Workload and observations must outlive the driver.
  // `shares`: how the machine is shared, in the order of their times.
  HostDriver(const sc_core::sc_module_name& name, const workload::Workload& workload, Pace pace,
             const HostTimings& timings, GpuObservation& gpu, Observation& host,
             const std::vector<std::uint32_t>& codes = {}, const std::vector<TimedShare>& shares = {});
  ~HostDriver() override;

  Domain domain;
  PacketOut<protocol::SubmitPacket> submit_out;
  PacketIn<protocol::DonePacket> done_in;

  // Begins, now. Called once before the simulation; reset() followed by start() begins anew.
  void start() override;
  std::size_t done() const override { return done_; }
  const std::vector<OpResult>& results() const override { return results_; }
  // Nanoseconds by which the simulation's time axis lies before the workload's: host calls precede the first start.
  double lead() const override { return static_cast<double>(lead_); }
  Domain& host_domain() override { return domain; }

 private:
  struct Item {
    std::int64_t when = 0;  // ns, workload axis
    protocol::SubmitPacket packet;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_done(const protocol::DonePacket& done, std::uint32_t);
  void on_credit(std::uint32_t);
  void plan(const workload::Workload& workload, Pace pace, const HostTimings& timings,
            const std::vector<std::uint32_t>& codes);
  protocol::SubmitPacket packet_of(const workload::Workload& workload, std::size_t op,
                                   const std::vector<std::uint32_t>& codes) const;
  void plan_closes(const workload::Workload& workload, const protocol::SubmitPacket& queue, std::int64_t when);
  void plan_controls(const std::vector<workload::TpcSwitch>& switches, const std::vector<TimedShare>& shares);
  void submit();
  void schedule_next();
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

  GpuObservation& gpu_;
  std::vector<Item> items_;
  std::uint32_t streams_ = 0;  // in use: those of the workload, and one for every queue that is held open
  std::size_t next_ = 0;
  bool scheduled_ = false;
  std::int64_t lead_ = 0;
  std::vector<OpResult> results_;
  std::size_t done_ = 0;
};

}  // namespace heddle::replay
