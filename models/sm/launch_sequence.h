// What the operations of device-side launches consist of: launches, waits for children, streams and appends, as one
// memory step after another (TSK-05 to TSK-14). Without time: a DeviceLaunchUnit makes the steps.
#pragma once

#include <cstdint>
#include <vector>

#include "sm/accesses.h"
#include "sm/child_launches.h"
#include "sm/context_streams.h"
#include "sm/event_calls.h"
#include "sm/issue_unit.h"
#include "sm/launch_run.h"

namespace heddle::sm {

class Faults;
class GlobalPath;

class LaunchSequence {
 public:
  // `instructions`: of the device runtime, for each launch.
  LaunchSequence(const LaunchTools& tools, std::uint32_t instructions)
      : tools_(tools),
        memory_(tools.memory),
        streams_(tools),
        launches_(tools),
        events_(tools),
        instructions_(instructions) {}

  // The operation has issued; `next`: the cycle behind.
  LaunchNext begin(LaunchRun& run, const Cta& cta, Cycle next);
  // What its release had to wait for has been answered.
  LaunchNext released(LaunchRun& run, const Cta& cta, Cycle when);
  // Stage `call`: an instruction of the device runtime has issued; its result is there at `when`.
  LaunchNext called(LaunchRun& run, Cycle when);
  // Stage `begin`: the launch or append of one lane. The device runtime has done its work. `registers`: the warp's, for
  // the result; null if it has none.
  LaunchNext begin_one(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle next);
  // Stages `start`, `appended` and `closed`: task management is told.
  LaunchNext tell(LaunchRun& run, Cycle next);
  // The memory step of the stage, or the line that it writes, has been done; `old` is what was there.
  LaunchNext answer(LaunchRun& run, Cta& cta, std::uint64_t old, std::uint32_t* registers, Cycle when);

  // The memory step of a stage that has one.
  arch::MemoryStep step(LaunchRun& run, const Cta& cta) const;
  // The line that a stage writes which has none.
  LaunchLine line(const LaunchRun& run, const Cta& cta) const;
  // A ticket whose entry will never come.
  void tell_lost_entry(const LaunchRun& run);
  // It was at wait_children when it was saved, is still counted as a waiter, and has been woken.
  arch::WaitSteps woken_wait(const Cta& cta, const std::vector<arch::WaitTarget>& targets) const;

 private:
  LaunchNext look_at_context(LaunchRun& run, const Cta& cta, Cycle when) const;
  LaunchNext check_operands(LaunchRun& run, const Cta& cta, Cycle when) const;
  bool check_waits(LaunchRun& run, const Cta& cta) const;
  LaunchNext begin_wait(LaunchRun& run, const Cta& cta, Cycle when) const;
  static LaunchNext begin_append(LaunchRun& run, Cycle next);
  LaunchNext begin_inside(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle next);
  LaunchNext call(LaunchRun& run, Cycle when) const;
  LaunchNext begin_context(LaunchRun& run, Cta& cta, Cycle next) const;
  LaunchNext context_made(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle when);
  LaunchNext go_on(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when);
  LaunchNext refused(LaunchRun& run, std::uint32_t* registers, Cycle when);
  LaunchNext pushed(LaunchRun& run, Cycle when);
  LaunchNext next_one(LaunchRun& run, Cycle when);
  LaunchNext after_one(LaunchRun& run, Cycle when) const;

  LaunchTools tools_;
  const arch::LaunchMemory& memory_;
  ContextStreams streams_;
  ChildLaunches launches_;
  EventCalls events_;
  const std::uint32_t instructions_;
};

// The entries of queue tasks: a CTA that has worked on one gives it back at its end, to the appender of a later ticket
// (TSK-05).
class QueueTurns final : private SmUnit, public AccessClient, private EventHandler {
 public:
  struct Peers {
    CtaSupervisor& supervisor;
    Faults& faults;
    GlobalPath& global;
  };
  QueueTurns(const UnitContext& context, const Peers& peers)
      : SmUnit(context), peers_(peers), giving_(context.params.limits.ctas) {}

  // Where the CTA's entry lies, and what gives it back.
  static void find(Cta& cta);
  // All that the CTA has read of its entry has come by `when`.
  void give(Cta& cta, Cycle when);

  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override;
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;

 private:
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;

  Peers peers_;
  std::vector<Cta::QueueTurn> giving_;  // by CTA slot: what its write is
};

}  // namespace heddle::sm
