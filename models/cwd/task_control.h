// The life of tasks in the task table: they arrive, queue tasks grow (TSK-05), faults abort them, and they end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/packet_port.h"
#include "common/waits.h"
#include "cwd/cwd_context.h"
#include "cwd/launch_session.h"
#include "cwd/launcher.h"
#include "cwd/machine_ledger.h"
#include "cwd/occupancy.h"
#include "cwd/subcontext_partition.h"
#include "cwd/task_arbiter.h"
#include "cwd/task_table.h"
#include "protocol/task_cwd.h"

namespace heddle::cwd {

// Tasks that give up their slot of the task table, so that a more urgent one can have it, and come back (TSK-03).
class TaskEviction {
 public:
  // `slots`: where the credit of a slot of the task table goes back to.
  TaskEviction(const CwdContext& context, TaskTable& table, MachineLedger& machine, WaitLog& waits,
               const LaunchSession& session, TaskArbiter& arbiter, CreditSink& slots,
               PacketSender<protocol::EvictedPacket>& answers);

  // A session of the task that is under way ends first: what it places is launched.
  void on_evict(const protocol::EvictPacket& packet, std::uint32_t);
  void session_ended(std::uint32_t slot);
  // The task ends: if it was to be evicted, it no longer can be.
  void task_ends(std::uint32_t slot);
  // An evicted task gives up its number too, if nothing of it is on the machine.
  void forget_if_gone(std::uint32_t slot);
  // An evicted task takes a slot again.
  void resume(const protocol::TaskPacket& task);
  // A task of which nothing is on the machine will not come back: task management has ended it.
  void drop_gone(std::uint32_t operation) { gone_.erase(operation); }
  // Evicted tasks of which only their TMDs know.
  std::size_t gone() const { return gone_.size(); }
  void reset() {
    gone_.clear();
    stats_.evicted.set(0);
  }

 private:
  struct EvictionStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& evictions =
        counter("evictions", "tasks", "times that a task gave up its slot of the task table to another");
    Counter& resumed = counter("resumed", "tasks", "times that an evicted task came back into the task table");
    Gauge& evicted =
        gauge("evicted", "tasks", "evicted tasks that have a number: CTAs of them run, or they are queue tasks");
  };

  void evict(std::uint32_t slot);
  void answer(std::uint32_t slot, bool evicted, bool gone = false);
  void forget(std::uint32_t slot);
  void draw(std::uint32_t slot) const;

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  WaitLog& waits_;
  const LaunchSession& session_;
  TaskArbiter& arbiter_;
  CreditSink& slots_;
  PacketSender<protocol::EvictedPacket>& answers_;
  std::unordered_map<std::uint32_t, Cycle> gone_;  // operation -> since when it waits for a slot; looked up only
  EvictionStats stats_;
  TrackId track_;
};

// Links to task management. `slots`: where the credit of a slot of the task table goes back to.
struct TaskLinks {
  CreditSink& slots;
  PacketSender<protocol::TaskDonePacket>& done;
  PacketSender<protocol::IdlePacket>& idle;
};

// The other parts that a task meets.
struct TaskParts {
  TaskTable& table;
  MachineLedger& machine;
  SubcontextPartition& partition;
  WaitLog& waits;
  Launcher& launcher;
  const LaunchSession& session;
  TaskArbiter& arbiter;
  TaskEviction& eviction;
};

class TaskControl final : public SessionListener {
 public:
  TaskControl(const CwdContext& context, const TaskParts& parts, const TaskLinks& links,
              const arch::ResourceVector& sm_capacity, std::uint32_t cgas_per_gpc);

  void on_task(const protocol::TaskPacket& task, std::uint32_t);
  void on_grow(const protocol::GrowPacket& grow, std::uint32_t);
  void session_decided(const SessionPlan& plan, std::uint64_t placed) override;
  void session_ended(std::uint32_t slot) override;

  // A CTA of the task has faulted: what runs of the task is stopped, and the rest is not placed.
  void abort(std::uint32_t slot);
  // The task leaves the table if nothing of it is left.
  void finish_if_done(std::uint32_t slot);

  void collect_waits(WaitGraph& graph) const;

 private:
  struct TaskStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& tasks = counter("tasks", "tasks", "tasks that entered the task table");
    Counter& restored = counter("restored", "CTAs", "saved CTAs that came to be restored");
    Counter& returned = counter("returned", "CTAs", "preempted CTAs that came back");
    Counter& entries = counter("queue_entries", "entries", "entries of queue tasks that have arrived");
    Counter& rejected = counter("rejected", "tasks", "tasks that can never run on this machine");
  };

  bool admits(std::uint32_t slot);
  void raise(std::uint32_t slot);
  void take_back(std::uint32_t slot, const protocol::RestoredCta& cta);
  void tell_if_idle(std::uint32_t slot);
  void drop_rest(std::uint32_t slot);
  void finish(std::uint32_t slot);
  std::string name_of(std::uint32_t slot) const;
  void collect_slot_waits(WaitGraph& graph, std::uint32_t slot) const;
  std::optional<std::uint32_t> claims_from(std::uint32_t slot) const;
  void collect_evicted_waits(WaitGraph& graph, std::uint32_t slot) const;

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  SubcontextPartition& partition_;
  WaitLog& waits_;
  Launcher& launcher_;
  const LaunchSession& session_;
  TaskArbiter& arbiter_;
  TaskEviction& eviction_;
  const TaskLinks links_;
  Admission admission_;  // without the credits of a subcontext: they can change
  TaskStats stats_;
};

}  // namespace heddle::cwd
