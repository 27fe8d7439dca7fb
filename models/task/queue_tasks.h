// Queue tasks: entries arrive while they run, and they end once no more entries can come (TSK-05).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/packet_port.h"
#include "task/launch_scheduler.h"
#include "task/stream_table.h"
#include "task/task.h"
#include "task/task_dispatcher.h"
#include "task/task_params.h"

namespace heddle::task {

class QueueTasks {
 public:
  // `codes`: null on a machine without queues.
  QueueTasks(Observation& observation, OpenTasks& tasks, TaskLife& life, TaskDispatcher& dispatcher,
             LaunchScheduler& scheduler, arch::CodeStore* codes, const arch::LaunchMemory& memory,
             PacketSender<protocol::GrowPacket>& grow_out, const std::string& stat_prefix);

  // The host has submitted a task of that queue: what arrives from now on counts.
  void submitted(std::uint64_t queue) { stopped_.erase(queue); }
  // The close of a queue task is at the head of its stream. It can come before the task is due, or after its end.
  void release(std::uint32_t operation, bool ended);

  // Looks up the queue of a task that is due: task_ready() or task_rejected() follows.
  void find(Task& task);
  // The task has been sent.
  void begin(const Task& task);
  // Its run is over.
  void end(const Task& task);

  void appended(std::uint64_t queue, std::uint64_t ticket);
  void lost_entry(std::uint64_t queue);
  // A program says that no task of it is to be held open any more.
  void enough(std::uint64_t queue);
  void on_idle(const protocol::IdlePacket& packet, std::uint32_t);
  void found(const QueueFound& effect);
  void closed(const QueueClosed& effect);
  void context_closed(const Task& task);

  // The queue of a task that runs waits for its close, however empty it is.
  bool held_open(const Task& task) const;
  bool known(std::uint64_t queue) const { return queues_.count(queue) != 0; }
  // Of the queue at that address; absent: entries have come before their task.
  std::optional<std::uint32_t> operation_of(std::uint64_t queue) const { return queues_.at(queue).operation; }
  void reset();

 private:
  struct Queue {
    QueueState state;
    std::optional<std::uint32_t> operation;  // absent: entries that came before their task
    bool broken = false;                     // one of its entries will never come
  };

  void lend_code(Task& task, const arch::QueueGeometry& geometry);
  void stop_broken(const Queue& queue);
  void grow(std::uint64_t address);
  void note_rest(const Queue& queue);
  void try_close(std::uint64_t address);

  OpenTasks& tasks_;
  TaskLife& life_;
  TaskDispatcher& dispatcher_;
  LaunchScheduler& scheduler_;
  arch::CodeStore* codes_;
  const arch::LaunchMemory memory_;
  PacketSender<protocol::GrowPacket>& grow_out_;
  QueueStats stats_;
  std::map<std::uint64_t, Queue> queues_;  // by address
  std::set<std::uint64_t> stopped_;        // addresses of queues whose task a fault has ended
  std::set<std::uint32_t> released_;       // operations of tasks whose close came before they were due
};

}  // namespace heddle::task
