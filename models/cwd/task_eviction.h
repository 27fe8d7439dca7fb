// Tasks that give up their slot of the task table, so that a more urgent one can have it, and come back (TSK-03).
#pragma once

#include <cstdint>

#include "common/packet_port.h"
#include "cwd/cwd_context.h"
#include "cwd/launch_session.h"
#include "cwd/machine_ledger.h"
#include "cwd/task_arbiter.h"
#include "cwd/task_table.h"
#include "cwd/wait_log.h"
#include "protocol/task_cwd.h"

namespace heddle::cwd {

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
  // An evicted task takes a slot again.
  void resume(const protocol::TaskPacket& task);

 private:
  struct EvictionStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& evictions =
        counter("evictions", "tasks", "times that a task gave up its slot of the task table to another");
    Counter& resumed = counter("resumed", "tasks", "times that an evicted task came back into the task table");
  };

  void evict(std::uint32_t slot);
  void answer(std::uint32_t slot, bool evicted);
  void draw(std::uint32_t slot) const;

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  WaitLog& waits_;
  const LaunchSession& session_;
  TaskArbiter& arbiter_;
  CreditSink& slots_;
  PacketSender<protocol::EvictedPacket>& answers_;
  EvictionStats stats_;
  TrackId track_;
};

}  // namespace heddle::cwd
