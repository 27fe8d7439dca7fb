// Records of events, and the waits of streams for them: what is in a TMDQ and is no task. Task management carries it
// out when it is due, and keeps what waits only to say so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "arch/gpu_observation.h"
#include "common/waits.h"
#include "task/launch_scheduler.h"
#include "task/task.h"
#include "task/task_params.h"

namespace heddle::task {

class StreamEvents {
 public:
  StreamEvents(Observation& observation, const OpenTasks& tasks, LaunchScheduler& scheduler,
               const arch::LaunchMemory& memory, const std::string& stat_prefix)
      : observation_(observation),
        tasks_(tasks),
        scheduler_(scheduler),
        memory_(memory),
        stats_(observation.stats, stat_prefix) {}

  // It ends, and what its stream has behind it goes on.
  void over(const MarkOver& effect);
  void awaited(const EventAwaited& effect);
  // What lies in that record if it waits for an event, or is waited for; else nothing.
  std::string name(std::uint64_t record) const;
  // `label`: of an operation; `name`: of what lies in a record.
  void collect_waits(WaitGraph& graph, const std::function<std::string(std::uint32_t)>& label,
                     const std::function<std::string(std::uint64_t)>& name) const;
  void reset() { awaiting_.clear(); }

 private:
  Observation& observation_;
  const OpenTasks& tasks_;
  LaunchScheduler& scheduler_;
  const arch::LaunchMemory memory_;
  EventStats stats_;
  std::map<std::uint64_t, EventAwaited> awaiting_;  // by record of the wait
};

}  // namespace heddle::task
