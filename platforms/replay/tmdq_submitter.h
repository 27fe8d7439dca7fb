// Submits the operations of a workload whose streams are TMDQs in device memory (TSK-06): for every kernel the host
// writes a TMD over its bus, and pushes it with atomics of the bus; it tells task management only of a task whose queue
// was empty. What comes behind is started by task management, which finds it in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <systemc>

#include "arch/gpu_observation.h"
#include "arch/tmdq.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "host/boundary_params.h"
#include "protocol/host_task.h"
#include "replay/initial_state.h"
#include "replay/packet_ports.h"
#include "replay/submission.h"
#include "replay/tmdq_plan.h"
#include "workload/workload.h"

namespace heddle::replay {

struct TmdqSubmitterSetup {
  const workload::Workload* workload = nullptr;
  TmdqPlan plan;
  SubmissionParams params;
  host::HubParams link;               // to the device
  std::uint32_t submit_queue = 1024;  // credits of submit_out
  std::vector<TimedShare> shares;     // how the machine is shared
};

// Runs in a domain of its own, with a clock of 1 GHz: a cycle is a nanosecond. Each stream has a thread of the host: it
// pushes one task after another, and waits for the answers of the bus in between; operations that wait for other
// streams are pushed once the host knows of the ends of these. Copies and fills hold their stream on the host's side.
class TmdqSubmitter : public sc_core::sc_module,
                      public Submitter,
                      private EventHandler,
                      private HostBus::Listener,
                      private Resettable,
                      private WaitSource {
 public:
  // The workload must outlive it; `gpu` receives the labels of the operations. `device`: what lies in memory when the
  // run begins, and at its end.
  TmdqSubmitter(const sc_core::sc_module_name& name, TmdqSubmitterSetup setup, DeviceAccess device, GpuObservation& gpu,
                Observation& host);
  ~TmdqSubmitter() override;

  Domain domain;
  HostBus bus;
  PacketOut<protocol::SubmitPacket> submit_out;  // doorbells, notes of what is pushed, switches of TPCs, sharing
  PacketIn<protocol::DonePacket> done_in;

  void start() override;
  std::size_t done() const override { return done_; }
  const std::vector<OpResult>& results() const override { return results_; }
  double lead() const override { return static_cast<double>(lead_); }
  // The same, if it is less so far. Before start().
  void lead_at_least(double ns) { lead_ = std::max(lead_, static_cast<std::int64_t>(ns)); }
  Domain& submitter_domain() override { return domain; }

  std::size_t copies() const { return copies_; }  // and fills, that have ended
  // After all operations: throws CheckFailed unless all queues in memory are empty, and no work is left.
  void check_memory();

 private:
  enum Event : std::uint32_t { kLook, kRung, kWritten, kLearned, kHoldEnds, kControl };

  struct Queue {
    Cycle looks = 0;                  // when its thread turns to the next operation, if that is known
    std::size_t place = 0;            // operations whose push, or hold, has begun
    std::size_t open = 0;             // of those, the ones whose ends the host does not know
    bool busy = false;                // its thread writes, or waits for the bus; or a copy takes its time
    std::size_t op = 0;               // that is pushed, or holds the stream
    std::uint64_t record = 0;         // of it
    std::uint32_t awaited = 0;        // answers before the exchange
    std::optional<std::size_t> last;  // operation that was pushed last
    std::optional<arch::PushSteps> push;
  };
  // A packet that is to leave, and the queue whose thread goes on behind it.
  struct Note {
    protocol::SubmitPacket packet;
    std::uint32_t queue = 0;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_done(const protocol::DonePacket& done, std::uint32_t);
  void on_credit(std::uint32_t);
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

  void look_all();
  void look(std::uint32_t queue);
  bool ready(std::uint32_t queue, std::size_t op);
  void hold_ended(std::uint32_t queue);
  void written(std::uint32_t queue);
  void on_bus_answer(std::uint32_t queue, std::uint64_t old) override;
  void exchanged(std::uint32_t queue);
  void send_notes();
  void learned(std::size_t op);

  const workload::Workload& workload_;
  const TmdqPlan plan_;
  const SubmissionParams params_;
  DeviceAccess device_;
  GpuObservation& gpu_;
  HostControls controls_;
  std::int64_t lead_ = 0;
  std::vector<Queue> queues_;
  std::deque<std::uint64_t> free_;      // TMDs, the one that has been free longest first
  std::vector<std::uint64_t> records_;  // by operation: its TMD
  std::vector<bool> known_;             // by operation: the host knows that it has ended
  std::deque<Note> notes_;
  std::vector<OpResult> results_;
  std::size_t done_ = 0;
  std::size_t copies_ = 0;
};

}  // namespace heddle::replay
