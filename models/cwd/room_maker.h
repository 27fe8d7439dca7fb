// Makes room by saving CTAs that run: for a more urgent task, or for the subcontext whose time slice begins (TSK-16).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/packet_port.h"
#include "common/timebase.h"
#include "cwd/cluster_claims.h"
#include "cwd/cwd_context.h"
#include "cwd/machine_ledger.h"
#include "cwd/task_table.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::cwd {

// What SMs do with CTAs that wait for tasks.
struct SavesOfWaiting {
  bool any = true;      // they save them, by themselves
  bool wanted = false;  // or when they are asked
};

class RoomMaker final : private EventHandler {
 public:
  // `out`: link = GPC.
  // `sm_priority`, `cgas_per_gpc`: as for ClaimPlanner.
  RoomMaker(const CwdContext& context, const TaskTable& table, const LiveModel& live,
            const arch::ResourceVector& capacity, const std::vector<std::uint32_t>& sm_priority,
            std::uint32_t cgas_per_gpc, SavesOfWaiting saves, PacketSender<protocol::AbortPacket>& out);

  // Called when another subcontext may start CTAs from now on, or when tasks are to be looked at again.
  void on_slice(std::function<void()> sink) { slice_sink_ = std::move(sink); }

  // The task waits for room, and less urgent ones could make some: has it not asked already?
  bool may_ask(const TaskEntry& entry) const;
  // CTAs of the task that each SM would hold in place of less urgent ones; 0 where nothing less urgent runs.
  std::vector<std::uint16_t> possible(const TaskEntry& entry) const;
  // Asks as many of those SMs as the task's CTAs need.
  void ask(TaskEntry& entry, const std::vector<std::uint16_t>& slots);

  // A task of CGAs waits for room, and somebody less urgent could take what becomes free, or could make some.
  bool wants_claim(const TaskEntry& entry, WaitReason reason) const;
  // It has one from now on: where CTAs that can be made to go are in its way, which are asked; if there is no such
  // place, where they will end. True: it has had another one. `usable`: SMs that it may use.
  bool claim(TaskEntry& entry, const std::vector<bool>& usable);
  ClusterClaims& claims() { return claims_; }
  // The task waits, and holds those behind it. CTAs that hold its room, and cannot give it up before tasks that they
  // have launched have completed, belong to tasks of this nesting depth or of greater ones: deeper tasks go on. None:
  // there is no such CTA.
  std::optional<std::uint32_t> depth_in_the_way(const TaskEntry& entry) const;

  // Some task finds no room that CTAs which wait could make, or none does: SMs are told of what changes.
  void tell_wanted(const WaitLog& waits);

  // Whether tasks of that subcontext may start CTAs now.
  bool has_slice(std::uint32_t subcontext) const { return !slices() || subcontext == current_; }
  // Tasks have come or gone: whose slice it is.
  void update();
  void reset();

 private:
  struct RoomStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& asked = counter("preemptions", "SMs", "times that an SM was asked to save CTAs for a more urgent task");
    Counter& wanted = counter("slots_wanted", "times", "times that SMs were asked to save CTAs that wait for tasks");
    Counter& slices = counter("time_slices", "slices", "times that the machine went from one subcontext to another");
  };

  enum Event : std::uint32_t { kSliceEnds, kStandsFull };
  bool table_stands_full();
  bool slices() const { return context_.params.time_slice > 0; }
  std::vector<InTheWay> in_the_way(const TaskEntry& entry, bool stopped) const;
  bool look_for_claim(TaskEntry& entry, const std::vector<bool>& usable, bool stopped);
  std::uint64_t machine_size(const TaskEntry& entry) const;
  void ask_claimed(const TaskEntry& entry);
  void want(std::uint32_t ctas, const arch::ResourceVector& need, std::uint32_t slot);
  std::vector<std::uint32_t> with_work() const;
  void send(std::uint32_t gpc, const protocol::Preemption& preemption);
  void give_to(std::uint32_t subcontext);
  const char* handler_name() const override { return context_.name; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;

  const CwdContext& context_;
  const TaskTable& table_;
  const LiveModel& live_;
  const arch::ResourceVector capacity_;
  PacketSender<protocol::AbortPacket>& out_;
  ClaimPlanner planner_;
  ClusterClaims claims_;
  std::function<void()> slice_sink_;
  const SavesOfWaiting saves_;
  Cycle full_since_ = 0;      // the task table, by the same tasks; 0: it has a free slot
  std::uint64_t newest_ = 0;  // of those tasks
  std::uint32_t wanted_ = 0;  // CTAs on each SM
  arch::ResourceVector wanted_need_;
  std::uint32_t wanted_by_ = TaskTable::kNone;  // operation; kNone: who finds no slot of the task table
  std::uint32_t current_ = 0;                   // subcontext
  Cycle ends_ = 0;                              // of the slice; 0: nobody else wants the machine
  RoomStats stats_;
};

}  // namespace heddle::cwd
