// Whose turn it is: selects the task that the next launch session is for, and what that session may use (CWD-19,
// CWD-21, CWD-26, TSK-04, PRT-02).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/idle_account.h"
#include "cwd/cluster_place.h"
#include "cwd/cwd_context.h"
#include "cwd/launch_session.h"
#include "cwd/machine_ledger.h"
#include "cwd/room_maker.h"
#include "cwd/subcontext_partition.h"
#include "cwd/task_table.h"

namespace heddle::cwd {

// Tells the account of idle SMs what the task that is next waits for.
class IdleCause {
 public:
  IdleCause(const CwdContext& context, const TaskTable& table, const MachineLedger& machine, const WaitLog& waits,
            const LaunchSession& session, const Launcher& launcher)
      : context_(context), table_(table), machine_(machine), waits_(waits), session_(session), launcher_(launcher) {}

  // After whatever may have changed it.
  void tell() const;

 private:
  IdleReason of(std::uint32_t slot) const;

  const CwdContext& context_;
  const TaskTable& table_;
  const MachineLedger& machine_;
  const WaitLog& waits_;
  const LaunchSession& session_;
  const Launcher& launcher_;
};

class TaskArbiter final : private EventHandler {
 public:
  TaskArbiter(const CwdContext& context, TaskTable& table, MachineLedger& machine, SubcontextPartition& partition,
              WaitLog& waits, const ClusterRoom& room, GpcCapacity& capacity, const PlainPolicy& plain,
              const arch::ResourceVector& sm_capacity, const Launcher& launcher, LaunchSession& session,
              RoomMaker& room_maker);

  // Something has changed that may let a task begin a session. Completions of one cycle are all seen before the next
  // session starts: the tasks are looked at in an event of this cycle.
  void arbitrate_later();
  // A session has decided: whether its task goes on, tries another size or other TPCs, or waits. `placed`: as told to
  // the SessionListener.
  void conclude(const SessionPlan& plan, std::uint64_t placed);
  // The counters of a task that has arrived, and of all tasks once TPCs of the GPC have been switched (CWD-20).
  void init_counters(TaskEntry& entry) { capacity_.init(entry.task, machine_.live(), entry.room); }
  void update_counters(std::uint32_t gpc);
  // The task waits for something that its subcontext's quota keeps from it.
  bool limited_by_quota(std::uint32_t slot) const { return partition_.limits(waits_.reason(slot)); }

  void reset();

 private:
  struct ArbiterStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& no_slot_cycles = counter("no_slot_cycles", "cycles", "time in which CTAs waited and none could start");
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return context_.name; }
  void arbitrate();
  bool select(std::uint32_t slot);
  bool select_plain(std::uint32_t slot);
  bool select_cluster(std::uint32_t slot);
  bool select_returned(std::uint32_t slot);
  bool keeps_apart(const TaskEntry& entry) const;
  bool unchanged_since_blocked(const TaskEntry& entry) const;
  bool lets_others_pass(const TaskEntry& entry) const;
  WaitReason restrict_to_pools(const TaskEntry& entry, std::vector<std::uint16_t>& slots) const;
  void take_pending_places(const TaskEntry& entry);
  void restrict_slots(TaskEntry& entry, std::uint32_t slot);
  WaitReason why_no_home(const TaskEntry& entry, const SessionPlan& plan) const;
  void make_room(TaskEntry& entry);
  std::vector<bool> usable(const TaskEntry& entry);
  void block(TaskEntry& entry, std::uint32_t slot, WaitReason reason, std::uint64_t version);
  void note_waiting(bool waiting);

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  SubcontextPartition& partition_;
  WaitLog& waits_;
  const ClusterRoom& room_;
  GpcCapacity& capacity_;
  const PlainPolicy& plain_;
  const arch::ResourceVector sm_capacity_;
  const Launcher& launcher_;
  LaunchSession& session_;
  RoomMaker& room_maker_;
  SessionPlan plan_;  // of the session that may begin next
  bool scheduled_ = false;
  std::optional<Cycle> waiting_since_;  // CTAs are left and no SM has room
  const IdleCause idle_cause_;
  ArbiterStats stats_;
  TrackId track_;
};

}  // namespace heddle::cwd
