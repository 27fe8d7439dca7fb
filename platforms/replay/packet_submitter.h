// Submits the operations of a workload by packets: it writes them into user-mode queues, rings doorbells, and looks at
// read indices, signals and interrupts, as a driver does. StreamSubmitter does without packets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <systemc>

#include "arch/gpu_observation.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "packet/packet_log.h"
#include "protocol/host_task.h"
#include "replay/initial_state.h"
#include "replay/packet_encoder.h"
#include "replay/packet_plan.h"
#include "replay/packet_ports.h"
#include "replay/packet_results.h"
#include "replay/submission.h"

namespace heddle::replay {

struct PacketSubmitterSetup {
  const workload::Workload* workload = nullptr;
  PacketPlan plan;
  PacketMemory memory;
  EncoderParams encoder;
  SubmissionParams params;
  std::function<double(Cycle)> ns_of;  // a cycle of the GPU on the simulation's axis
  std::uint32_t submit_queue = 1024;   // credits of submit_out
  std::vector<TimedShare> shares;      // how the machine is shared
};

// Runs in a domain of its own, with a clock of 1 GHz: a cycle is a nanosecond. It writes one packet at a time; a full
// ring holds up the operations of its own queue only.
class PacketSubmitter : public sc_core::sc_module,
                        public Submitter,
                        public packet::PacketListener,
                        private EventHandler,
                        private WaitSource {
 public:
  // `memory` and the workload must outlive it; `gpu` receives the labels of the operations.
  PacketSubmitter(const sc_core::sc_module_name& name, PacketSubmitterSetup setup, host::HostMemory& memory,
                  DeviceAccess device, GpuObservation& gpu, Observation& host);
  ~PacketSubmitter() override;

  Domain domain;
  RegisterPort registers;                           // of the device
  sc_core::sc_signal<bool> interrupt{"interrupt"};  // of the device
  PacketOut<protocol::SubmitPacket> submit_out;     // what is no operation: switches of TPCs, sharing
  PacketIn<protocol::DonePacket> done_in;           // nothing comes

  void start() override;
  std::size_t done() const override { return results_.ended(); }
  const std::vector<OpResult>& results() const override { return results_.results(); }
  double lead() const override { return static_cast<double>(lead_); }
  // The same, if it is less so far. Before start().
  void lead_at_least(double ns) {
    lead_ = std::max(lead_, static_cast<std::int64_t>(ns));
    results_.set_lead(lead());
  }
  Domain& submitter_domain() override { return domain; }

  const std::vector<PacketLaunch>& launches() const { return results_.launches(); }
  // The operation of a dispatch, by the id that CTAs, faults and clusters carry.
  const std::unordered_map<std::uint32_t, std::size_t>& operations() const { return results_.operations(); }
  // What went wrong, in sentences.
  const std::vector<std::string>& problems() const { return problems_; }
  // What the user should know of the plan.
  const std::vector<std::string>& notes() const { return plan_.warnings; }
  // After all operations: throws CheckFailed unless signals and indices in memory say the same.
  void check_memory();

 private:
  struct Queue {
    std::uint64_t write_index = 0;
    std::uint64_t read_index = 0;  // when it was last looked at
    std::uint64_t rung = 0;        // packets that a doorbell has told of
    std::size_t place = 0;         // operations prepared
    std::size_t order = 0;         // of the first of them, among all
    std::deque<PreparedPacket> prepared;
    bool stopped = false;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void collect_waits(WaitGraph& graph) const override;
  void kernel_dispatched(const packet::PacketRecord& record) override;
  void packet_done(const packet::PacketRecord& record) override;

  void open_queues();
  void send_controls();
  void on_credit(std::uint32_t) { send_controls(); }
  void on_done(const protocol::DonePacket&, std::uint32_t) {}
  void look();
  bool has_work(std::uint32_t queue, Cycle& next) const;
  bool has_room(std::uint32_t queue);
  void begin(std::uint32_t queue);
  void write(std::uint32_t queue);
  void ring(std::uint32_t queue);
  void on_interrupt();
  void serve_interrupt();
  void stop(std::uint32_t queue);
  std::int64_t when_of(std::size_t op) const { return plan_.ops[op].when + lead_; }

  const workload::Workload& workload_;
  const PacketPlan plan_;
  const PacketMemory memory_;
  const SubmissionParams params_;
  UnifiedMemory bytes_;
  GpuObservation& gpu_;
  PacketEncoder encoder_;
  HostControls controls_;
  std::int64_t lead_ = 0;
  PacketResults results_;
  std::vector<Queue> queues_;
  bool busy_ = false;    // writes a packet, or rings a doorbell
  Cycle begun_ = 0;      // the packet that it writes
  Cycle look_ = kNever;  // the earliest look that is scheduled
  std::vector<std::string> problems_;
};

}  // namespace heddle::replay
