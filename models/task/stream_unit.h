// Operations of the host in the order of their streams, and kernels of the packet processor, which no stream holds
// back: from when they are taken in until they are due, and from their end to the answer. Those that the host pushes
// into TMDQs are ordered in memory: only that they have been pushed, and their ends, are noted here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "arch/gpu_observation.h"
#include "arch/idle_account.h"
#include "arch/sm_limits.h"
#include "common/packet_port.h"
#include "protocol/packet_copy.h"
#include "protocol/packet_task.h"
#include "task/dependents.h"
#include "task/graph_table.h"
#include "task/launch_scheduler.h"
#include "task/pushed_operations.h"
#include "task/queue_tasks.h"
#include "task/stream_front.h"
#include "task/stream_table.h"
#include "task/task.h"
#include "task/task_params.h"
#include "task/task_rows.h"

namespace heddle::task {

class StreamUnit final : private StreamFront::Client, private EventHandler {
 public:
  struct Setup {
    arch::SmLimits limits;
    CycleTime time;
    const arch::CodeStore* codes = nullptr;  // null: no task launches, or has a queue
    StreamFront::Costs front;
  };

  struct Senders {
    PacketSender<protocol::DonePacket>& done;
    PacketSender<protocol::DispatchDonePacket>& dispatch_done;
    PacketSender<protocol::CopyRequestPacket>& copy;
  };

  StreamUnit(Timebase& timebase, std::string name, const Setup& setup, TaskLife& life, LaunchScheduler& scheduler,
             Dependents& dependents, QueueTasks& queues, TaskRows& rows, const Senders& senders,
             const std::string& stat_prefix);

  // Neither control packets nor those that share the machine: they are no operations.
  void on_submit(const protocol::SubmitPacket& packet, std::uint32_t);
  void on_dispatch(const protocol::DispatchPacket& packet, std::uint32_t);
  // The copy engines have moved the bytes of an operation.
  void on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t);
  // The host has pushed an operation into a TMDQ.
  void pushed(const protocol::SubmitPacket& packet);
  // Those; and what is read of operations before they start.
  const PushedOperations& all_pushed() const { return pushed_; }
  StreamFront& front() { return front_; }
  // All CTAs of the task let the kernel behind it in its stream go, or have completed.
  void lets_go(const Task& task);
  // The task has been started by the distributor: for statistics.
  void note_start(const Task& task);
  // The task of an operation or dispatch has ended.
  void finished(const Task& task, Cycle end);

  // Operations and dispatches taken in that have not ended.
  std::size_t open() const { return streams_.open() + graphs_.open() + dispatches_.size() + pushed_.open(); }
  void reset();
  // `started`: the task of an operation has been read from its TMD.
  template <class Name, class Started>
  void collect_waits(WaitGraph& graph, const Name& name, const Started& started) const {
    streams_.collect_waits(graph, name);
    graphs_.collect_waits(graph, name);
    pushed_.collect_waits(graph, name, started);
  }

 private:
  // The task of a kernel that was launched ahead has ended, and the one before it has not.
  struct Held {
    Cycle start = 0;
    Cycle end = 0;
    protocol::DoneStatus status = protocol::DoneStatus::ok;
    std::optional<Task> task;
  };
  // What the host has submitted.
  struct Submitted {
    const protocol::SubmitPacket& packet;
    Cycle when = 0;
  };

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  Submitted submitted(std::uint32_t operation) const;
  void start_ready();
  void operation_due(std::uint32_t operation) override;
  void node_taken(std::uint32_t operation) override;
  void begin_graph(std::uint32_t launch);
  void finish(std::uint32_t operation, Cycle start, Cycle end, protocol::DoneStatus status, const Task* task);
  void close_entry(std::uint32_t operation, Cycle end);
  void finish_dispatch(const protocol::DispatchDonePacket& done);
  void finish_pushed(const Task& task, Cycle end);
  void draw(const Submitted& what, Cycle start, Cycle end, const Task* task);
  // Something has come or gone.
  void changed() {
    stats_.open.set(static_cast<double>(open()));
    work_.set(open());
    ++timebase_.observation().progress;
  }

  Timebase& timebase_;
  const std::string name_;
  const Setup setup_;
  TaskLife& life_;
  Dependents& dependents_;
  QueueTasks& queues_;
  TaskRows& rows_;
  const Senders senders_;
  StreamTable streams_;
  GraphTable graphs_;
  std::map<std::uint32_t, Held> held_;  // by operation
  PushedOperations pushed_;
  StreamFront front_;
  std::unordered_map<std::uint32_t, Cycle> dispatches_;  // arrival by operation; looked up only
  IdleWork work_;
  IdleWork holds_;
  StreamStats stats_;
};

}  // namespace heddle::task
