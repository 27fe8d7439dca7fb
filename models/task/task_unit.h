// Task management: takes operations in from the host, keeps their streams, hands tasks to the CWD.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "arch/sm_limits.h"
#include "common/block.h"
#include "common/packet_socket.h"
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
  PacketOut<protocol::TaskPacket> task_out;
  PacketOut<protocol::TpcEnablePacket> control_out;  // control packets go straight on
  PacketIn<protocol::TaskDonePacket> task_done_in;

  std::size_t open() const { return streams_.open(); }
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

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_submit(const protocol::SubmitPacket& packet, std::uint32_t);
  void on_task_done(const protocol::TaskDonePacket& done, std::uint32_t);
  void on_credit(std::uint32_t);
  void take_ready();
  void due(std::uint32_t stream);
  void dispatch();
  void finish(std::uint32_t stream, Cycle start, Cycle end, protocol::DoneStatus status);
  void draw(const StreamTable::Entry& entry, const Dispatched& dispatched, Cycle start, Cycle end);

  const arch::SmLimits limits_;
  const Cycle stream_gap_;
  const Cycle start_path_;
  StreamTable streams_;
  std::unordered_map<std::uint32_t, Dispatched> dispatched_;                 // by operation; looked up only
  std::map<std::int32_t, std::deque<std::uint32_t>, std::greater<>> lists_;  // priority -> streams whose head is due

  Counter& submitted_;
  Counter& kernels_;
  Counter& holds_;
  Counter& rejected_;
  Counter& faulted_;
  Gauge& open_;
  Histogram& launch_latency_;
  Histogram& queue_time_;
};

}  // namespace heddle::task
