// Sends tasks to the distributor: they wait in lists by priority, are sent while its task table has free slots, and
// take slots away from less urgent ones (TSK-02, TSK-03).
#pragma once

#include <cstdint>

#include "common/packet_port.h"
#include "common/waits.h"
#include "task/priority_lists.h"
#include "task/table_view.h"
#include "task/task.h"
#include "task/task_stats.h"

namespace heddle::task {

class TaskDispatcher {
 public:
  // A credit of `task_out` is a free slot of the task table.
  TaskDispatcher(Timebase& timebase, OpenTasks& tasks, TaskLife& life, PacketSender<protocol::TaskPacket>& task_out,
                 PacketSender<protocol::EvictPacket>& evict_out, const std::string& stat_prefix);

  // Without a distributor that evicts no task is asked to leave.
  void set_evicts(bool evicts) { evicts_ = evicts; }
  // The task joins the list of its priority, and is sent as soon as it can be.
  void enlist(Task& task);
  // A slot has become free.
  void on_credit(std::uint32_t) { dispatch(); }
  void on_evicted(const protocol::EvictedPacket& packet, std::uint32_t);
  void on_task_done(const protocol::TaskDonePacket& done, std::uint32_t);

  void reset();
  template <class Name>
  void collect_waits(WaitGraph& graph, const Name& name) const;

 private:
  void dispatch();
  void send(Task& task);
  void ask_for_slots();

  Timebase& timebase_;
  OpenTasks& tasks_;
  TaskLife& life_;
  PacketSender<protocol::TaskPacket>& task_out_;
  PacketSender<protocol::EvictPacket>& evict_out_;
  bool evicts_ = false;
  PriorityLists lists_;  // operations that wait for a slot
  TableView table_;
  DispatchStats stats_;
};

// Who waits for a slot, and who has one. `name` gives the text for an operation id.
template <class Name>
void TaskDispatcher::collect_waits(WaitGraph& graph, const Name& name) const {
  constexpr const char* kTable = "the task table";
  lists_.each([&](std::int32_t, std::uint32_t operation) { graph.add(name(operation), "for a slot of", kTable); });
  if (lists_.empty()) return;
  for (const std::uint32_t operation : table_.operations()) {
    graph.add(kTable, "for a slot, and one has", name(operation));
  }
}

}  // namespace heddle::task
