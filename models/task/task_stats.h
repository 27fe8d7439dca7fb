// Statistics of the task table's traffic and of device-side launches, as task management sees them.
#pragma once

#include <string>

#include "common/stats.h"

namespace heddle::task {

struct TaskStats {
  // `prefix`: path of task management's statistics.
  TaskStats(Stats& stats, const std::string& prefix);

  Counter& evictions;
  Counter& resumptions;
  Counter& children;
  Counter& child_faults;
  Counter& false_dependencies;
  Counter& wakes;
  Counter& restores;
  Counter& queue_entries;
  Counter& chains;
  Gauge& depth;
  Gauge& open_children;
  // Of a launch, in ns: all of it, and its parts one after another.
  Histogram& child_latency;
  Histogram& child_launch;
  Histogram& child_read;
  Histogram& child_list;
  Histogram& child_dispatch;
};

}  // namespace heddle::task
