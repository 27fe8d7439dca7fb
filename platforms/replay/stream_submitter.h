// Submits the operations of a workload to the streams of one GPU at their times, switches TPCs on and off and changes
// how the machine is shared at theirs, and notes what becomes of the operations.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arch/gpu_observation.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/packet_socket.h"
#include "protocol/host_task.h"
#include "replay/initial_state.h"
#include "replay/submission.h"
#include "replay/workload_part.h"
#include "workload/workload.h"

namespace heddle::replay {

struct StreamSubmission {
  const workload::Workload& workload;
  Pace pace = Pace::recorded;
  SubmissionTimings timings = {};
  std::vector<std::uint32_t> codes = {};  // of the kernels' programs in the GPU, by operation; empty: there are none
  std::vector<TimedShare> shares = {};    // how the machine is shared, in the order of their times
  std::uint32_t device = 0;               // its number among the run's
  double event_latency_ns = 1;            // until an end is known to streams of other devices
  const WorkloadPart* part = nullptr;     // null: all of it, from its beginning
  // The operation of an edge is left out: whoever waits for it takes it as ended.
  std::function<bool(const workload::Edge&)> ended = {};
};

// Runs in a domain of its own, with a clock of 1 GHz: a cycle is a nanosecond.
class StreamSubmitter : public sc_core::sc_module,
                        public Submitter,
                        private EventHandler,
                        private Resettable,
                        private WaitSource {
 public:
  // `gpu` receives the labels of the operations. Workload and observations must outlive the submitter.
  StreamSubmitter(const sc_core::sc_module_name& name, const StreamSubmission& what, GpuObservation& gpu,
                  Observation& own);
  ~StreamSubmitter() override;

  Domain domain;
  PacketOut<protocol::SubmitPacket> submit_out;
  PacketIn<protocol::DonePacket> done_in;
  // Between submitters of one run: ends that operations of other GPUs wait for.
  PacketOut<protocol::RemoteEndPacket> ends_out;
  PacketIn<protocol::RemoteEndPacket> ends_in;
  // Operations of this GPU whose ends another one's wait for.
  void tell(std::uint32_t operation) { told_.insert(operation); }

  // Begins, now. Called once before the simulation; reset() followed by start() begins anew.
  void start() override;
  // All that belongs to the stretch that runs, and to those before it, has ended; and others follow.
  bool rests() const { return stretches_.now + 1 < stretches_.ends.size() && done_ == stretches_.ends[stretches_.now]; }
  // Begins the next stretch, now.
  void go_on();
  std::size_t done() const override { return done_; }
  const std::vector<OpResult>& results() const override { return results_; }
  // Nanoseconds by which the simulation's time axis lies before the workload's: host calls precede the first start.
  double lead() const override { return static_cast<double>(lead_); }
  // The same, if it is less so far. Before start().
  void lead_at_least(double ns) { lead_ = std::max(lead_, static_cast<std::int64_t>(ns)); }
  Domain& submitter_domain() override { return domain; }

 private:
  struct Item {
    std::int64_t when = 0;  // ns, workload axis
    protocol::SubmitPacket packet;
    std::uint32_t stretch = 0;
    Cycle due = 0;  // the earliest cycle: the link takes one
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_done(const protocol::DonePacket& done, std::uint32_t);
  void on_credit(std::uint32_t);
  void plan(const StreamSubmission& what);
  protocol::SubmitPacket packet_of(const workload::Workload& workload, std::size_t op,
                                   const std::vector<std::uint32_t>& codes) const;
  void plan_edges(const workload::GraphUse& graph, const protocol::SubmitPacket& kernel, std::int64_t when);
  void plan_closes(const workload::Workload& workload, const protocol::SubmitPacket& queue, std::int64_t when);
  void plan_controls(const std::vector<workload::TpcSwitch>& switches, const std::vector<TimedShare>& shares);
  std::uint32_t number_of(const workload::Edge& edge);
  void on_remote_end(const protocol::RemoteEndPacket& end, std::uint32_t);
  void submit();
  void schedule_next();
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

  GpuObservation& gpu_;
  std::vector<Item> items_;
  const std::uint32_t device_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> remote_;  // device, operation -> id here
  std::set<std::uint32_t> told_;
  Ring<std::uint32_t> signals_;  // ids of ended operations of others, to be sent
  std::uint32_t streams_ = 0;    // in use: those of the workload, and one for every queue that is held open
  std::size_t next_ = 0;
  bool scheduled_ = false;
  std::int64_t lead_ = 0;
  std::vector<OpResult> results_;
  std::size_t done_ = 0;
  struct Stretches {
    std::size_t left_out = 0;
    std::vector<std::size_t> ends;  // operations of each stretch and those before it, with what is left out
    std::uint32_t now = 0;          // that runs

    bool has_begun(std::uint32_t stretch) const { return stretch <= now; }
  };
  Stretches stretches_;
};

}  // namespace heddle::replay
