// The launches of the lanes of one operation, one after another (TSK-08): each takes a record, counts it, writes it,
// and puts it into its TMDQ.
#pragma once

#include <cstdint>

#include "sm/context_streams.h"
#include "sm/launch_run.h"

namespace heddle::sm {

class ChildLaunches {
 public:
  explicit ChildLaunches(const LaunchTools& tools) : tools_(tools), memory_(tools.memory) {}

  // Whether one of them has to wait until what the program has written is visible (TSK-14). A tail launch starts behind
  // the end of its grid, which comes behind all writes.
  static bool publish(const LaunchRun& run);
  // A tail launch hangs on its grid alone: it is no work of the CTA's context, which need not even be there.
  static bool needs_context(const arch::ChildLaunch& child) { return child.mode != arch::LaunchMode::tail; }
  // False: `run` says what is wrong, and with which lane.
  bool check(LaunchRun& run, const Cta& cta, const ContextStreams& streams) const;
  // A queue task is launched for a queue that is open: of another one no entry will ever come.
  LaunchNext look_at_queue(LaunchRun& run, Cycle when) const;
  // `tickets`: what the stage `look_queue` has found. False: `run` says what is wrong.
  bool queue_open(LaunchRun& run, std::uint64_t tickets) const;
  // The next lane's.
  LaunchNext take(LaunchRun& run, const Cta& cta, Cycle when) const;
  // No record or context is free (TSK-12): a program that asks for the result is told, any other is wrong. `over`: the
  // launch of the lane is, without one.
  LaunchNext refused(LaunchRun& run, std::uint32_t* registers, Cycle when, bool& over);

  // Of the stage `count_task`.
  static arch::MemoryStep count(const Cta& cta);
  // What the stage `write_task` writes.
  LaunchLine line(const LaunchRun& run, const Cta& cta) const;
  // The steps of the stage `take_task` are over, and found a record.
  LaunchNext taken(LaunchRun& run, std::uint32_t* registers, Cycle when);
  LaunchNext written(LaunchRun& run, const Cta& cta, Cycle when) const;
  // Whether the task is to be started by the launcher; if not, task management is told that it waits.
  bool pushed(const LaunchRun& run);
  void tell_start(const LaunchRun& run);

 private:
  LaunchTools tools_;
  const arch::LaunchMemory& memory_;
};

}  // namespace heddle::sm
