#include "task/task_rows.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::task {

using protocol::SubmitKind;

std::uint32_t TaskRows::lane(const std::string& name, Cycle begin, Cycle end) {
  std::vector<Cycle>& ends = lanes_[name];
  const auto found = std::find_if(ends.begin(), ends.end(), [begin](Cycle last) { return last <= begin; });
  const auto lane = static_cast<std::uint32_t>(found - ends.begin());
  if (found == ends.end()) ends.push_back(0);
  ends[lane] = end;
  return lane;
}

void TaskRows::until(Waits& waits, Cycle when, Cycle latest, const std::string& why) {
  when = std::min(when, latest);
  if (when > waits.at) sink()->slice(waits.track, time(waits.at), time(when), why);
  waits.at = std::max(waits.at, when);
}

// While it runs it can lose its slot; when its run is over, descendants can be left.
void TaskRows::after_start(TrackId waits, const Task& task, Cycle completed) {
  Cycle at = task.start;
  for (const Task::Absence& absence : task.evicted) {
    const Cycle begin = std::max(at, absence.from);
    const Cycle end = std::min(absence.until.value_or(task.end), task.end);
    if (end > begin) sink()->slice(waits, time(begin), time(end), "evicted from the task table");
    at = std::max(at, end);
  }
  at = std::max(at, task.end);
  if (task.record() != 0 && completed > at) {
    sink()->slice(waits, time(at), time(completed), "waits for its descendants");
  }
}

void TaskRows::host(const protocol::SubmitPacket& packet, const Host& times, const Task* task) {
  const std::string stream = observation_.streams.of(packet.stream);
  const TrackId runs = sink()->track(group("streams"), stream);
  Waits waits{sink()->track(group("streams"), stream + " waits"), times.before};
  sink()->slice(
      runs, time(times.start), time(times.end), observation_.labels.of(packet.operation),
      {{"operation", packet.operation},
       {"ctas", static_cast<std::int64_t>(packet.kind == SubmitKind::kernel ? packet.kernel.grid.count() : 0)}});
  until(waits, times.submitted, times.start, "not submitted yet");
  until(waits, times.released, times.start, "waits for another stream");
  until(waits, times.due, times.start, "gap between operations");
  until(waits, times.due + times.path, times.start, "on its way through task management and distributor");
  until(waits, times.start, times.start, "no task table slot, or other tasks first");
  if (task == nullptr) return;
  after_start(waits.track, *task, times.end);
  subcontext(*task, times.end);
}

void TaskRows::child(const Task& task, Cycle completed) {
  const Labels& labels = observation_.labels;
  const Task::Launch& launch = task.launch;
  const Cycle begin = std::min(launch.issued.value_or(launch.arrived), launch.arrived);
  const Cycle start = task.start == 0 ? completed : task.start;
  const std::string depth = fmt::format("depth {}", launch.child.depth);
  const std::string line = fmt::format("{}.{}", depth, lane(depth, begin, completed));
  const TrackId runs = sink()->track(group("nested"), line);
  Waits waits{sink()->track(group("nested"), line + " waits"), begin};
  if (launch.behind) {
    const std::string why =
        launch.child.mode == arch::LaunchMode::stream && launch.behind->stream != launch.child.stream
            ? fmt::format("false dependency on stream {}: behind {}", launch.behind->stream, launch.behind->name)
            : fmt::format("behind {} in its stream", launch.behind->name);
    until(waits, launch.arrived, start, why);
  } else {
    until(waits, launch.arrived, start, "its launch is on its way");
  }
  until(waits, task.listed, start, "nested scheduler");
  until(waits, task.sent, start, "no task table slot");
  until(waits, start, start, "on its way through the distributor, or other tasks first");
  if (task.start == 0) return;
  sink()->slice(runs, time(start), time(completed), labels.of(task.operation()),
                {{"operation", task.operation()},
                 {"parent", launch.parent.value_or(arch::kNoTask)},
                 {"context", static_cast<std::int64_t>(launch.child.context)},
                 {"stream", launch.child.stream},
                 {"tmdq", launch.child.tmdq},
                 {"mode", static_cast<std::int64_t>(launch.child.mode)}});
  after_start(waits.track, task, completed);
  subcontext(task, completed);
}

void TaskRows::false_dependency(const Task& task, Cycle when) {
  const TrackId track = sink()->track(group("nested"), "false dependencies");
  sink()->slice(track, time(when), time(when),
                fmt::format("{}: stream {} waited for stream {}", observation_.labels.of(task.operation()),
                            task.launch.child.stream, task.launch.behind->stream),
                {{"tmdq", task.launch.child.tmdq}});
}

void TaskRows::subcontext(const Task& task, Cycle end) {
  if (task.packet.subcontext != 0) subcontexts_ = true;
  if (!subcontexts_) return;
  const std::string name = fmt::format("subcontext {}", task.packet.subcontext);
  const std::uint32_t number = lane(name, task.start, end);
  const TrackId track = sink()->track(group("subcontexts"), number == 0 ? name : fmt::format("{}.{}", name, number));
  sink()->slice(track, time(task.start), time(end), observation_.labels.of(task.operation()),
                {{"operation", task.operation()}});
}

void TaskRows::reset() {
  lanes_.clear();
  subcontexts_ = false;
}

}  // namespace heddle::task
