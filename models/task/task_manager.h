// Task management without its sockets: streams, task table, queue tasks and device-side launches, and the way of a task
// through them.
#pragma once

#include <cstdint>
#include <string>

#include "common/packet_port.h"
#include "task/child_launcher.h"
#include "task/grid_ends.h"
#include "task/queue_tasks.h"
#include "task/stream_unit.h"
#include "task/task.h"
#include "task/task_dispatcher.h"
#include "task/task_params.h"
#include "task/task_records.h"

namespace heddle::task {

// Where packets and requests of task management go.
struct TaskPorts {
  PacketSender<protocol::DonePacket>& done;
  PacketSender<protocol::DispatchDonePacket>& dispatch_done;
  PacketSender<protocol::TaskPacket>& task;
  PacketSender<protocol::EvictPacket>& evict;
  PacketSender<protocol::GrowPacket>& grow;
  PacketSender<protocol::WakePacket>& wake;  // link: SM id
  PacketSender<protocol::CopyRequestPacket>& copy;
  ChainMemory& memory;
};

class TaskManager final : private TaskLife, private LaunchScheduler::Client {
 public:
  struct Setup {
    arch::SmLimits limits;
    CycleTime time;
    Cycle start_path = 0;          // from here to a task's first launch packet on an idle machine
    std::uint32_t task_slots = 0;  // of the task table
    bool partitioned = false;      // among subcontexts, at the start
    bool preempts = false;         // CTAs that run can be saved to make room
    LaunchPlace place;
  };

  // `name` stands in messages; `stat_prefix`: path of all statistics.
  TaskManager(Timebase& timebase, const std::string& name, const std::string& stat_prefix, const TaskParams& params,
              const Setup& setup, const TaskPorts& ports);

  // The parts, for what arrives from the host and the packet processor, from the distributor, and from memory.
  StreamUnit& streams() { return streams_; }
  TaskDispatcher& dispatcher() { return dispatcher_; }
  QueueTasks& queues() { return queues_; }
  LaunchScheduler& scheduler() { return scheduler_; }
  void on_child(const protocol::ChildPacket& packet, std::uint32_t);
  // The host has pushed a task into a TMDQ of its own.
  void on_push(const protocol::SubmitPacket& packet);
  void on_fault(ChildLauncher::FaultSink sink) { launcher_.on_fault(std::move(sink)); }
  // The machine is shared from now on: its timeline shows subcontexts.
  void show_subcontexts() { rows_.show_subcontexts(); }

  // Operations and dispatches taken in that have not ended.
  std::size_t open() const { return streams_.open(); }
  // Nothing of device-side launches is open either.
  bool launches_idle() const { return scheduler_.open() == 0 && tasks_.empty(); }
  void reset();
  void collect_waits(WaitGraph& graph) const;

 private:
  void task_due(Task task) override;
  void task_killed(std::uint32_t operation) override;
  void task_placed(Task& task) override;
  void task_ready(Task& task) override;
  void task_rejected(Task& task) override;
  void task_sent(Task& task) override;
  void task_sent_again(Task& task) override;
  void task_run_over(Task& task) override;
  void task_ended(Task& task) override;
  void chain_effect(const ChainEffect& effect) override;

  void prepared(const RecordPrepared& effect);
  void finish(std::uint32_t operation, Cycle end);

  Timebase& timebase_;
  const LaunchPlace place_;
  OpenTasks tasks_;
  TaskRows rows_;
  LaunchScheduler scheduler_;
  TaskRecords records_;
  TaskDispatcher dispatcher_;
  PacketSender<protocol::GrowPacket>& grow_out_;
  QueueTasks queues_;
  Dependents dependents_;
  StreamUnit streams_;
  GridEnds ends_;
  StreamEvents events_;
  ChildLauncher launcher_;
};

}  // namespace heddle::task
