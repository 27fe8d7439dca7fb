// What follows the last completion of a grid (gpu.task.gap): its SMs let go of it, and then its end is written to
// memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/timebase.h"
#include "task/channel.h"
#include "task/launch_scheduler.h"
#include "task/task.h"

namespace heddle::task {

class GridEnds final : private EventHandler {
 public:
  struct Setup {
    Cycle drain = 0;
    std::uint64_t channels = 0;  // lines of streams, where ends are written to; 0: they are not
  };

  GridEnds(Timebase& timebase, std::string name, const Setup& setup, OpenTasks& tasks, TaskLife& life,
           LaunchScheduler& scheduler)
      : timebase_(timebase), name_(std::move(name)), setup_(setup), tasks_(tasks), life_(life), scheduler_(scheduler) {}

  // All CTAs of the task have completed. False: it has ended with that, and that is known. Otherwise task_ended()
  // follows.
  bool begin(const Task& task) {
    const bool reports = task.host.reports && setup_.channels != 0;
    if (setup_.drain > 0) {
      const Cycle end = std::max(task.end + setup_.drain, timebase_.now());
      timebase_.schedule(end, *this, reports ? kReports : kSilent, task.operation());
      return true;
    }
    if (reports) report(task.operation());
    return reports;
  }
  // The end of the task is in memory.
  void reported(std::uint32_t operation) { life_.task_ended(tasks_.at(operation)); }

 private:
  static constexpr std::uint32_t kSilent = 0;
  static constexpr std::uint32_t kReports = 1;

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    const auto operation = static_cast<std::uint32_t>(argument);
    tasks_.at(operation).end = timebase_.now();
    if (kind == kReports) return report(operation);
    reported(operation);
  }
  void report(std::uint32_t operation) {
    scheduler_.enter(report_chain(channel::line(setup_.channels, operation, channel::kReport), operation));
  }

  Timebase& timebase_;
  const std::string name_;
  const Setup setup_;
  OpenTasks& tasks_;
  TaskLife& life_;
  LaunchScheduler& scheduler_;
};

}  // namespace heddle::task
