// Device-side launches and their like: a warp does one memory step after another, each an access of its own that takes
// its turn at the load-store unit (TSK-05 to TSK-14). What the steps are, a LaunchSequence says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sm/accesses.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"
#include "sm/launch_sequence.h"

namespace heddle::sm {

class CtaSwap;
class Faults;
class FenceUnit;
class GlobalPath;
class InstructionFetch;
class WarpScheduler;

class DeviceLaunchUnit final : private SmUnit, public IssueUnit, public AccessClient {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    FenceUnit& fences;
    CtaSwap& swap;
    Faults& faults;
    CtaSupervisor& supervisor;
    GlobalPath& global;
    L1Cache& l1;
    InstructionFetch& fetch;
    TaskLink& tasks;
  };
  DeviceLaunchUnit(const UnitContext& context, const arch::LaunchMemory& memory, const Peers& peers);

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  // The warp has its turn in the middle of an operation.
  IssueResult step(std::uint32_t slot);
  // What the operation's release has to wait for has been answered.
  void released(std::uint32_t slot, Cycle when);
  // Its CTA is killed. What others count on is done to its end: a task that is half launched is launched, a ticket is
  // used, a waiter is no longer counted.
  void stop(std::uint32_t slot);
  // Its CTA is in memory.
  void forget(std::uint32_t slot);
  // A CTA has been restored whose warp waited for its children: all, or those.
  void resume_wait(std::uint32_t slot, const std::vector<arch::WaitTarget>& targets);
  // Device-side launches: the tasks of a context have completed.
  void on_wake(const protocol::WakePacket& wake, std::uint32_t = 0);

  // What a warp at wait_children still waits for; empty: all.
  std::vector<arch::WaitTarget> targets_of(std::uint32_t slot) const;
  bool waits_for_some(std::uint32_t slot) const { return !targets_of(slot).empty(); }

  // The operation that a warp is in; null if it is in none.
  const LaunchRun* run_of(std::uint32_t slot) const { return slot < runs_.size() ? runs_[slot].get() : nullptr; }
  void reset() { runs_.clear(); }

  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override;
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;

 private:
  LaunchRun& begin(std::uint32_t slot, arch::OpCode code);
  static void name_operands(LaunchRun& run, const arch::Operation& operation);
  std::uint32_t* results_of(std::uint32_t slot);
  void context_decided(const Cta& cta, Cycle when);
  IssueResult follow(std::uint32_t slot, const LaunchNext& next);
  void make_ready(std::uint32_t slot, Cycle when);
  void ask(std::uint32_t slot, const arch::MemoryStep& step);
  void write(std::uint32_t slot, const LaunchLine& line);
  void access(std::uint32_t slot, const arch::Operation& operation);
  void answer(std::uint32_t slot, Cycle when);
  void finish(std::uint32_t slot, Cycle when);
  void drop(std::uint32_t slot);
  const StallCounter& stall_of(const LaunchRun& run) const {
    return run.stage == LaunchStage::wait ? stats_.stall_children : stats_.stall_launch;
  }

  Peers peers_;
  LaunchSequence sequence_;
  std::vector<std::unique_ptr<LaunchRun>> runs_;  // by warp slot
};

}  // namespace heddle::sm
