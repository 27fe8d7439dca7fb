// Operations of the host in the order of their streams, and kernels of the packet processor, which no stream holds
// back: from when they are taken in until they are due, and from their end to the answer. Those that the host pushes
// into TMDQs are ordered in memory: only that they have been pushed, and their ends, are noted here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "arch/sm_limits.h"
#include "common/packet_port.h"
#include "protocol/packet_task.h"
#include "task/queue_tasks.h"
#include "task/stream_table.h"
#include "task/task.h"
#include "task/task_params.h"
#include "task/task_rows.h"

namespace heddle::task {

class StreamUnit final : private EventHandler {
 public:
  struct Setup {
    arch::SmLimits limits;
    CycleTime time;
    Cycle stream_gap = 0;                    // from the end of an operation to the start of the next one of its stream
    Cycle start_path = 0;                    // from here to a task's first launch packet on an idle machine
    const arch::CodeStore* codes = nullptr;  // null: no task launches, or has a queue
    bool early = false;  // a kernel is handed on as soon as nothing but the gap is left: its record is written then
  };

  StreamUnit(Timebase& timebase, std::string name, const Setup& setup, TaskLife& life, QueueTasks& queues,
             TaskRows& rows, PacketSender<protocol::DonePacket>& done_out,
             PacketSender<protocol::DispatchDonePacket>& dispatch_done_out, const std::string& stat_prefix);

  // Neither control packets nor those that share the machine: they are no operations.
  void on_submit(const protocol::SubmitPacket& packet, std::uint32_t);
  void on_dispatch(const protocol::DispatchPacket& packet, std::uint32_t);
  // The host has pushed an operation into a TMDQ.
  void pushed(const protocol::SubmitPacket& packet);
  // It has, with that TMD, and the operation has not ended.
  bool awaits(std::uint32_t operation, std::uint64_t record) const {
    const auto found = pushed_.find(operation);
    return found != pushed_.end() && found->second.packet.record == record;
  }
  // The task has been started by the distributor: for statistics.
  void note_start(const Task& task);
  // The task of an operation or dispatch has ended.
  void finished(const Task& task, Cycle end);

  // Operations and dispatches taken in that have not ended.
  std::size_t open() const { return streams_.open() + dispatches_.size() + pushed_.size(); }
  void reset();
  // `started`: the task of an operation has been read from its TMD.
  template <class Name, class Started>
  void collect_waits(WaitGraph& graph, const Name& name, const Started& started) const {
    streams_.collect_waits(graph, name);
    for (const auto& [operation, pushed] : pushed_) {
      if (started(operation)) continue;
      if (pushed.behind && pushed_.count(*pushed.behind) != 0) {
        graph.add(name(operation), "for its turn in its TMDQ, behind", name(*pushed.behind));
      } else {
        graph.add(name(operation), "to be started,", fmt::format("from its TMD at 0x{:x}", pushed.packet.record));
      }
    }
  }

 private:
  static constexpr std::uint32_t kDue = 0;
  static constexpr std::uint32_t kHoldEnds = 1;
  struct Started {
    std::uint32_t stream = 0;
    Cycle released = 0;  // when nothing but the launch itself was left to wait for
    Cycle due = 0;       // when it was ready to be sent
  };

  struct Pushed {
    protocol::SubmitPacket packet;
    Cycle submitted = 0;
    std::optional<std::uint32_t> behind;  // operation
  };

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void start_ready();
  void due(std::uint32_t stream);
  void hold_ended(std::uint32_t stream);
  void finish(std::uint32_t stream, Cycle start, Cycle end, protocol::DoneStatus status, const Task* task);
  void finish_dispatch(const protocol::DispatchDonePacket& done);
  void finish_pushed(const Task& task, Cycle end);
  void draw(const StreamTable::Entry& entry, Cycle start, Cycle end, const Task* task);
  void count(protocol::DoneStatus status);
  void show_open() { stats_.open.set(static_cast<double>(open())); }
  void progress() { ++timebase_.observation().progress; }

  Timebase& timebase_;
  const std::string name_;
  const Setup setup_;
  TaskLife& life_;
  QueueTasks& queues_;
  TaskRows& rows_;
  PacketSender<protocol::DonePacket>& done_out_;
  PacketSender<protocol::DispatchDonePacket>& dispatch_done_out_;
  StreamTable streams_;
  std::unordered_map<std::uint32_t, Started> started_;    // by operation; looked up only
  std::unordered_map<std::uint32_t, Cycle> dispatches_;   // arrival by operation; looked up only
  std::map<std::uint32_t, Pushed> pushed_;                // by operation
  std::unordered_map<std::uint32_t, Cycle> pushed_ends_;  // by stream: of its last operation; looked up only
  StreamStats stats_;
};

}  // namespace heddle::task
