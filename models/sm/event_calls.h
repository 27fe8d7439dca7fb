// Events of device code: made, recorded into streams and waited for by streams. Each is a record of the pool of tasks;
// what enters a TMDQ for it is a record that task management carries out by itself when it is due.
#pragma once

#include <cstdint>

#include "sm/context_streams.h"
#include "sm/launch_run.h"

namespace heddle::sm {

class EventCalls {
 public:
  explicit EventCalls(const LaunchTools& tools) : tools_(tools), memory_(tools.memory) {}

  // False: `run` says what is wrong, and with which lane.
  bool check(LaunchRun& run, const Cta& cta, const ContextStreams& streams) const;
  // Event_create, or event_destroy. Nobody else has to know of it.
  LaunchNext begin(LaunchRun& run, const Cta& cta, Cycle when) const;
  // The record, or wait, of one lane.
  LaunchNext begin_mark(LaunchRun& run, Cycle when) const;
  // No record is free.
  LaunchNext refused(LaunchRun& run, std::uint32_t* registers, Cycle when);

  // Of the stages `look_event`, `latest`, `publish`, `end_event` and `give_event`.
  arch::MemoryStep step(const LaunchRun& run) const;
  // What the stage `write_task` writes.
  LaunchLine line(const LaunchRun& run, const Cta& cta) const;
  LaunchNext looked(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when) const;
  // `over`: the stream has nothing to wait for.
  LaunchNext latest(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when, bool& over) const;
  // The steps of the stage `take_task` are over, and found a record.
  LaunchNext taken(LaunchRun& run, Cycle when);
  LaunchNext written(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when);
  LaunchNext ended(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when) const;
  LaunchNext given(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when) const;

 private:
  LaunchNext push(LaunchRun& run, const Cta& cta, Cycle when) const;
  std::uint64_t named(const LaunchRun& run) const;
  LaunchNext take(LaunchRun& run, const Cta& cta, Cycle when) const;
  LaunchNext unknown(LaunchRun& run, std::uint64_t event, Cycle when) const;

  LaunchTools tools_;
  const arch::LaunchMemory& memory_;
};

}  // namespace heddle::sm
