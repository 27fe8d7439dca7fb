// Who issues when: the sub-partitions of an SM, what the next operation of a warp waits for, and which unit carries it
// out (SM-01 to SM-03).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/operation_table.h"
#include "arch/warp_program.h"
#include "sm/issue_unit.h"
#include "sm/l2_port.h"
#include "sm/sub_partition.h"

namespace heddle::sm {

class Alu;
class DeviceLaunchUnit;
class InstructionFetch;

// Driven by events: one for every cycle in which some sub-partition issues, none while nobody can. A warp that waits
// for a load costs nothing until the response comes.
class WarpScheduler final : private SmUnit, private EventHandler, public GateListener {
 public:
  struct Units {
    std::array<IssueUnit*, arch::kExecutors> by_executor{};
    Alu* alu = nullptr;
    DeviceLaunchUnit* launches = nullptr;
    InstructionFetch* fetch = nullptr;  // none: instructions are always there

    void add(arch::Executor executor, IssueUnit& unit) { by_executor[static_cast<std::size_t>(executor)] = &unit; }
  };
  WarpScheduler(const UnitContext& context, const RequestGate& gate, CtaSupervisor& ctas);
  void connect(const Units& units) { units_ = units; }

  // Slots. The warps of a CTA go to the sub-partitions in turn, beginning with the one that has fewest: `before` is the
  // slot of the warp before.
  std::uint32_t slots() const;
  std::uint32_t enter_first();
  std::uint32_t enter_behind(std::uint32_t before) { return enter(before % kSubPartitions + 1); }
  void leave(std::uint32_t slot);
  // The warp stops; those of its instructions that have not begun never do. rearm() follows.
  void kill(std::uint32_t slot);

  // The next operation is looked at: when can it issue? Not before `from`; what it waits beyond counts as a stall.
  void prepare(std::uint32_t slot, Cycle from) { prepare(slot, from, stats_.stall_scoreboard); }
  void prepare(std::uint32_t slot, Cycle from, const StallCounter& stall);
  // The warp has waited for memory or its like, and goes on at `ready`.
  void resume(std::uint32_t slot, Cycle ready) { resume(slot, ready, stats_.stall_memory); }
  void resume(std::uint32_t slot, Cycle ready, const StallCounter& stall);
  // The warp has its turn from `when` on, for what WarpNext says, at that unit.
  void give_turn(std::uint32_t slot, Cycle when, arch::Unit unit);

  // What issues now takes its unit for `interval` cycles for each of `count` instructions.
  void occupy(std::uint32_t slot, std::uint64_t count, Cycle interval) {
    sub_partition_of(slot).issued(slot / kSubPartitions, now(), count, interval);
    if (stats_.charges()) charge_unit(stats_, warps_[slot].kernel, warps_[slot].unit, count * interval);
  }
  bool others_before(std::uint32_t slot, Cycle until) {
    return sub_partition_of(slot).others_before(slot / kSubPartitions, until);
  }
  // The warp's; its own slots are numbered without the sub-partition: slot / kSubPartitions.
  SubPartition& sub_partition_of(std::uint32_t slot) { return sub_partitions_[slot % kSubPartitions]; }
  // The warp stops at its next instruction: at once, if it only waits for its turn. The supervisor is told if not.
  void freeze(std::uint32_t slot);
  // The warp has more instructions of the same operation, from `when` on, without any privilege.
  void interrupt(std::uint32_t slot, Cycle when);

  // After kill().
  void rearm() {
    if (!issuing_) arm();
  }
  void gate_opened(Cycle when) override;
  void reset();

 private:
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  std::uint32_t enter(std::uint32_t turn);
  void stop(std::uint32_t slot);
  void issue_all();
  void issue(std::uint32_t slot);
  void fetch(std::uint32_t slot);
  // A single instruction issues, and the warp is blocked until the unit has said more.
  void take_turn(std::uint32_t slot) {
    SubPartition& sub_partition = sub_partition_of(slot);
    sub_partition.issued(slot / kSubPartitions, now(), 1, 1);
    sub_partition.block(slot / kSubPartitions);
  }
  void settle(std::uint32_t slot, arch::OpCode code, const IssueResult& result);
  IssueUnit& unit_of(arch::OpCode code) {
    return *units_.by_executor[static_cast<std::size_t>(arch::row_of(code).executor)];
  }
  void wake(std::uint32_t slot);
  void arm();

  const RequestGate& gate_;
  CtaSupervisor& supervisor_;
  Units units_;
  std::vector<SubPartition> sub_partitions_;
  std::array<Cycle, kSubPartitions> due_{};  // when a sub-partition may issue next
  Cycle armed_ = kNever;                     // cycle of the one event that counts
  bool issuing_ = false;
  std::uint64_t serial_ = 0;  // of warps: their age
};

// How a warp waits for groups of what it has asked for: asynchronous copies, matrix multiplies.
class GroupWait final : private SmUnit {
 public:
  // `groups`: which of the warp's; `wait`: what a warp that waits for them waits for; `stall`: counts for how long.
  GroupWait(const UnitContext& context, WarpScheduler& scheduler, WarpGroups Warp::*groups, WarpWait wait,
            const StallCounter& stall)
      : SmUnit(context), scheduler_(scheduler), groups_(groups), wait_(wait), stall_(stall) {}

  // The warp goes on when at most `open` of the groups that it has committed are.
  IssueResult begin(std::uint32_t slot, std::uint32_t open);
  // Something in a group has ended: if the warp waits for that, it goes on.
  void consider(std::uint32_t slot);

 private:
  WarpScheduler& scheduler_;
  WarpGroups Warp::*const groups_;
  const WarpWait wait_;
  const StallCounter stall_;
};

}  // namespace heddle::sm
