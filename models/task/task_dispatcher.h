// Sends tasks to the distributor: they wait in lists by priority, are sent while its task table has free slots, and
// take slots away from less urgent ones (TSK-02, TSK-03).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "arch/task_record.h"
#include "common/packet_port.h"
#include "common/waits.h"
#include "protocol/host_task.h"
#include "task/scheduler_table.h"
#include "task/task.h"
#include "task/task_params.h"
#include "task/task_records.h"

namespace heddle::task {

// What task management knows of the distributor's task table, and whom it asks to leave for a more urgent task
// (TSK-03).
class TableView {
 public:
  using Operation = std::uint32_t;
  using Priority = std::int32_t;

  // A task has been sent.
  void enter(Operation operation, Priority priority, std::uint32_t subcontext);
  // It has ended, or has been evicted. False: it was not there.
  bool leave(Operation operation);
  // From now on it launches nothing, or it launches again.
  void rests(Operation operation, bool rests);
  // It could not be evicted: no other is asked until something has ended.
  void refused(Operation operation);
  // The one to be asked for its slot by a task of `priority` and of that subcontext: of those that are less urgent,
  // have not been asked and for which may(operation, subcontext) says so, the least urgent, the youngest among equals.
  // Of those that rest rather one, however urgent it is. It counts as asked from now on.
  template <class May>
  std::optional<Operation> evict_for(Priority priority, std::uint32_t subcontext, const May& may);

  // Those that have been asked; for tasks of that subcontext; tasks of it.
  std::size_t leaving() const { return leaving_; }
  std::uint32_t leaving_for(std::uint32_t subcontext) const { return leaving_for_[subcontext]; }
  std::uint32_t leaving_of(std::uint32_t subcontext) const { return leaving_of_[subcontext]; }

  std::size_t size() const { return entries_.size(); }
  bool holds(Operation operation) const;
  std::vector<Operation> operations() const;  // the oldest first
  void clear();

 private:
  struct Entry {
    Operation operation = 0;
    Priority priority = 0;
    std::uint32_t subcontext = 0;
    bool leaving = false;
    bool rests = false;
    std::uint32_t leaves_for = 0;  // subcontext
  };
  std::vector<Entry>::iterator find(Operation operation);
  void stays(Entry& entry);

  std::vector<Entry> entries_;  // the oldest first
  std::size_t leaving_ = 0;
  std::array<std::uint32_t, arch::kSubcontexts> leaving_for_{};
  std::array<std::uint32_t, arch::kSubcontexts> leaving_of_{};
  bool stuck_ = false;
};

template <class May>
std::optional<TableView::Operation> TableView::evict_for(Priority priority, std::uint32_t subcontext, const May& may) {
  if (stuck_) return std::nullopt;
  Entry* victim = nullptr;
  for (Entry& entry : entries_) {
    if (entry.leaving || (!entry.rests && entry.priority >= priority)) continue;
    if (!may(entry.operation, entry.subcontext)) continue;
    const bool better =
        victim == nullptr || (entry.rests == victim->rests ? entry.priority <= victim->priority : entry.rests);
    if (better) victim = &entry;
  }
  if (victim == nullptr) return std::nullopt;
  victim->leaving = true;
  victim->leaves_for = subcontext;
  ++leaving_;
  ++leaving_for_[subcontext];
  ++leaving_of_[victim->subcontext];
  return victim->operation;
}

// How subcontexts share the slots of the task table (PRT-02).
//
// While the machine is partitioned, an equal part of the slots is kept for each subcontext that is in use: those that
// the host has named, and those that have had a task. What nobody's part needs is for whoever comes.
class TableShares {
 public:
  static constexpr std::uint32_t kSubcontexts = arch::kSubcontexts;

  // `guarantee`: which part of an equal share is kept, 0 to 1.
  TableShares(std::uint32_t slots, double guarantee, bool partitioned)
      : slots_(slots), guarantee_(guarantee), initially_(partitioned), partitioned_(partitioned) {}

  void set_partitioned(bool partitioned) { partitioned_ = partitioned; }
  bool partitioned() const { return partitioned_; }
  void use(std::uint32_t subcontext);

  // A task has been sent, or has left.
  void enter(std::uint32_t subcontext);
  void leave(std::uint32_t subcontext);

  std::uint32_t slots() const { return slots_; }
  // Slots that are kept for each of them.
  std::uint32_t share() const { return share_; }
  // The next free slot may be one of its tasks'.
  bool has_slot(std::uint32_t subcontext) const;
  // A task of it may take the slot of a less urgent one of `other`. So many slots come to it already, and so many tasks
  // of the other are about to leave.
  bool may_displace(std::uint32_t subcontext, std::uint32_t coming, std::uint32_t other, std::uint32_t going) const {
    if (!partitioned_ || subcontext == other) return true;
    return taken_[subcontext] + coming < share_ && taken_[other] > share_ + going;
  }
  void reset();

 private:
  std::uint32_t missing(std::uint32_t subcontext) const {
    return used_[subcontext] && taken_[subcontext] < share_ ? share_ - taken_[subcontext] : 0;
  }
  void count_kept();

  const std::uint32_t slots_;
  const double guarantee_;
  const bool initially_;
  bool partitioned_;
  std::array<bool, kSubcontexts> used_{};
  std::array<std::uint32_t, kSubcontexts> taken_{};  // slots
  std::uint32_t in_use_ = 0;                         // subcontexts
  std::uint32_t all_taken_ = 0;
  std::uint32_t share_ = 0;
  std::uint32_t kept_ = 0;  // slots that are missing from shares
};

class TaskDispatcher final : private EventHandler {
 public:
  // A credit of `task_out` is a free slot of the task table; `shares`: who may have it.
  TaskDispatcher(Timebase& timebase, const std::string& name, OpenTasks& tasks, TaskLife& life, TaskRecords& records,
                 PacketSender<protocol::TaskPacket>& task_out, PacketSender<protocol::EvictPacket>& evict_out,
                 const TableShares& shares, const SchedulerTable::Costs& costs, const std::string& stat_prefix);

  // Without a distributor that evicts no task is asked to leave.
  void set_evicts(bool evicts) { evicts_ = evicts; }
  // The host changes how the machine is shared.
  void on_share(const protocol::SubcontextPacket& packet);
  // The task joins the list of its priority, and is sent as soon as it can be.
  void enlist(Task& task);
  // What is to be read of the task before it is sent has been. `sound`: it can run.
  void fetched(Task& task, bool sound);
  // How far an evicted task has come is kept: it waits for a slot again, unless it rests.
  void come_back(Task& task);
  // A queue task that runs has no entries for the time being, or has some again.
  void rest_changed(Task& task);
  // A slot has become free.
  void on_credit(std::uint32_t);
  void on_evicted(const protocol::EvictedPacket& packet, std::uint32_t);
  // From the distributor; or of a task that is killed and not on the machine.
  void on_task_done(const protocol::TaskDonePacket& done, std::uint32_t);

  // Sends what can be sent, and asks for the slots of others. To be called when something that keeps tasks waiting has
  // changed.
  void dispatch();

  void reset();
  template <class Name>
  void collect_waits(WaitGraph& graph, const Name& name) const;

 private:
  static constexpr std::uint32_t kTaken = 0;
  static constexpr std::uint32_t kDue = 1;

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void taken(Task& task);
  void due(Task& task);
  void go(Task& task);
  void send(Task& task);
  void entered(Task& task);
  void gone(const protocol::EvictedPacket& packet);
  bool has_ended(Task& task);
  void end(Task& task, const protocol::TaskDonePacket& done);
  bool ask(std::optional<TableView::Operation> victim);
  void ask_for_slots();

  Timebase& timebase_;
  const std::string name_;
  OpenTasks& tasks_;
  TaskLife& life_;
  TaskRecords& records_;
  PacketSender<protocol::TaskPacket>& task_out_;
  PacketSender<protocol::EvictPacket>& evict_out_;
  bool evicts_ = false;
  SchedulerTable lists_;             // of tasks that wait for a slot
  std::size_t pending_ = 0;          // tasks that were taken out of them, and are not sent yet
  std::deque<std::uint32_t> ready_;  // of those, the ones that only wait for the slot to be free
  TableView table_;
  TableShares shares_;
  DispatchStats stats_;
};

// Who waits for a slot, and who has one. `name` gives the text for an operation id.
template <class Name>
void TaskDispatcher::collect_waits(WaitGraph& graph, const Name& name) const {
  constexpr const char* kTable = "the task table";
  const auto waits = [&](std::int32_t, std::uint32_t operation) {
    graph.add(name(operation), "for a slot of", kTable);
  };
  lists_.lists().each(waits);
  for (const std::uint32_t operation : ready_) waits(0, operation);
  constexpr const char* kLists = "the lists of tasks";
  lists_.outside().each([&](std::int32_t, std::uint32_t operation) {
    graph.add(name(operation), "for an entry of", kLists, WaitGraph::For::room);
  });
  if (!lists_.outside().empty()) graph.add(kLists, "for a slot, for those that are in them, of", kTable);
  if (lists_.used() == 0 && ready_.empty()) return;
  for (const std::uint32_t operation : table_.operations()) {
    graph.add(kTable, "for a slot, and one has", name(operation), WaitGraph::For::room);
  }
}

}  // namespace heddle::task
