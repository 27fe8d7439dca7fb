// Task management: takes operations in from the host, keeps their streams, hands tasks to the CWD. Kernels of the
// packet processor come without a stream, and join the same lists.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/sm_limits.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "protocol/dispatch_packet.h"
#include "protocol/submit_packet.h"
#include "protocol/task_packet.h"
#include "task/stream_table.h"
#include "task/task_params.h"

namespace heddle::task {

class TaskUnit : public Block {
 public:
  // `start_path`: cycles from here to a task's first launch packet on an idle machine. `task_slots`: of the CWD.
  TaskUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const TaskParams& params,
           const arch::SmLimits& limits, Cycle start_path, std::uint32_t task_slots);

  PacketIn<protocol::SubmitPacket> submit_in;
  PacketOut<protocol::DonePacket> done_out;
  // From and to the packet processor: kernels that no stream holds back.
  PacketIn<protocol::DispatchPacket> dispatch_in;
  PacketOut<protocol::DispatchDonePacket> dispatch_done_out;
  PacketOut<protocol::TaskPacket> task_out;
  PacketOut<protocol::TpcEnablePacket> control_out;  // control packets go straight on
  PacketIn<protocol::TaskDonePacket> task_done_in;

  // Operations and dispatches taken in that have not ended.
  std::size_t open() const { return streams_.open() + dispatches_.size(); }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events.
  static constexpr std::uint32_t kDue = 0;
  static constexpr std::uint32_t kHoldEnds = 1;
  struct Dispatched {
    std::uint32_t stream = 0;
    Cycle released = 0;  // when nothing but the launch itself was left to wait for
    Cycle due = 0;       // when it was ready to be sent
  };
  // A kernel of the packet processor.
  struct Dispatch {
    protocol::DispatchPacket packet;
    Cycle arrived = 0;
  };
  // A kernel in the list of its priority.
  struct Waiting {
    bool of_stream = true;
    std::uint32_t id = 0;  // the stream whose head it is, or the dispatch's operation
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_submit(const protocol::SubmitPacket& packet, std::uint32_t);
  void on_dispatch(const protocol::DispatchPacket& packet, std::uint32_t);
  void on_task_done(const protocol::TaskDonePacket& done, std::uint32_t);
  void on_credit(std::uint32_t);
  void take_ready();
  void due(std::uint32_t stream);
  void dispatch();
  void send(const Waiting& kernel);
  void end_dispatch(const protocol::DispatchDonePacket& done);
  void count(protocol::DoneStatus status);
  void note_latency(Cycle start, Cycle submitted, Cycle released);
  void show_open() { open_.set(static_cast<double>(open())); }
  std::string name_of(const Waiting& kernel) const;
  void finish(std::uint32_t stream, Cycle start, Cycle end, protocol::DoneStatus status);
  void draw(const StreamTable::Entry& entry, const Dispatched& dispatched, Cycle start, Cycle end);

  const arch::SmLimits limits_;
  const Cycle stream_gap_;
  const Cycle start_path_;
  StreamTable streams_;
  std::unordered_map<std::uint32_t, Dispatched> dispatched_;           // by operation; looked up only
  std::unordered_map<std::uint32_t, Dispatch> dispatches_;             // by operation; looked up only
  std::map<std::int32_t, std::deque<Waiting>, std::greater<>> lists_;  // by priority: kernels that are due

  Counter& submitted_;
  Counter& packets_;
  Counter& kernels_;
  Counter& holds_;
  Counter& rejected_;
  Counter& faulted_;
  Gauge& open_;
  Histogram& launch_latency_;
  Histogram& queue_time_;
};

}  // namespace heddle::task
