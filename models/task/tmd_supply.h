// TMDs for tasks of the host whose programs launch (TSK-15): few of them hold one while they wait for a slot, so that
// those that run find some for their children.
#pragma once

#include <cstdint>
#include <set>

#include "task/launch_scheduler.h"
#include "task/priority_lists.h"
#include "task/task.h"

namespace heddle::task {

class TmdSupply {
 public:
  // `places`: tasks that may hold a TMD before they are sent.
  TmdSupply(OpenTasks& tasks, LaunchScheduler& scheduler, const arch::LaunchMemory& memory, std::uint32_t places)
      : tasks_(tasks), scheduler_(scheduler), memory_(memory), places_(places) {}

  // The task is given a TMD once it may hold one; RecordPrepared follows.
  void request(const Task& task);
  // A task that has asked for one has been sent.
  void sent(const Task& task);
  void reset();

 private:
  void prepare_some();
  void prepare(const Task& task);

  OpenTasks& tasks_;
  LaunchScheduler& scheduler_;
  const arch::LaunchMemory memory_;
  const std::uint32_t places_;
  PriorityLists waiting_;                // operations of tasks without a TMD
  std::multiset<std::int32_t> holding_;  // priorities of those that have one, or are being given one, and were not sent
};

}  // namespace heddle::task
