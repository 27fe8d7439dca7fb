#include "task/task_rows.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "arch/fault.h"

namespace heddle::task {

using protocol::SubmitKind;

namespace {

std::string text_of(TaskWait wait) {
  static_assert(std::size(kTaskWaits) == static_cast<std::size_t>(TaskWait::completion) + 1);
  return kTaskWaits[static_cast<std::size_t>(wait)].text;
}

std::string text_of(TaskWait wait, const std::string& name, std::uint32_t stream) {
  std::string text = text_of(wait);
  const auto fill = [&text](const std::string& place, const std::string& with) {
    const std::size_t at = text.find(place);
    if (at != std::string::npos) text.replace(at, place.size(), with);
  };
  fill("stream N", fmt::format("stream {}", stream));
  fill("NAME", name);
  return text;
}

}  // namespace

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

void TaskRows::until(Waits& waits, Cycle when, Cycle latest, TaskWait why) { until(waits, when, latest, text_of(why)); }

// From when nothing but the launch holds it back. What the distributor says of it is told as it says it; where it says
// nothing, the task is on its way, for as long as that takes on an idle machine, or others are dealt with.
void TaskRows::before_start(Waits& waits, const Task& task, Cycle start) {
  until(waits, task.listed, start, TaskWait::preparing);
  until(waits, task.sent, start, TaskWait::table);
  const auto silent = [&](Cycle when) {
    until(waits, std::min(when, waits.at + start_path_), start, TaskWait::way);
    until(waits, when, start, TaskWait::turn);
  };
  for (const Absences::Wait& wait : observation_.absences.take_waits(task.operation())) {
    silent(wait.begin);
    until(waits, wait.end, start, std::string(wait.why));
  }
  silent(start);
}

// While it runs it can lose its slot; when its run is over, descendants can be left.
void TaskRows::after_start(TrackId waits, const Task& task, Cycle completed) {
  Cycle at = task.start;
  for (const Task::Absence& absence : task.evicted) {
    const Cycle begin = std::max(at, absence.from);
    const Cycle end = std::min(absence.until.value_or(task.end), task.end);
    if (end > begin) sink()->slice(waits, time(begin), time(end), text_of(TaskWait::evicted));
    at = std::max(at, end);
  }
  at = std::max(at, task.end);
  if (task.record() != 0 && completed > at) {
    const TaskWait why = task.launched ? TaskWait::descendants : TaskWait::completion;
    sink()->slice(waits, time(at), time(completed), text_of(why));
  }
}

void TaskRows::edge(std::uint32_t operation, std::uint32_t of) {
  if (sink() != nullptr) edges_[operation].push_back(of);
}

void TaskRows::run(std::uint32_t operation, const TimelineMark& mark, TimelineArgs args) {
  sink()->slice(mark.track, mark.begin, mark.end, observation_.labels.of(operation), args);
  if (const auto found = edges_.find(operation); found != edges_.end()) {
    for (const std::uint32_t of : found->second) {
      if (const auto cause = drawn_.find(of); cause != drawn_.end()) sink()->flow(cause->second, mark);
    }
    edges_.erase(found);
  }
  if (const auto found = launched_.find(operation); found != launched_.end()) {
    for (const TimelineMark& child : found->second) sink()->flow(mark, child);
    launched_.erase(found);
  }
}

void TaskRows::host(const protocol::SubmitPacket& packet, const Host& times, const Task* task) {
  std::string stream = observation_.streams.of(packet.stream);
  // Kernels of a graph can run beside each other, and one that was launched ahead beside the one before it.
  if (task != nullptr && task->packet.ahead) stream += " ahead";
  if (packet.in_graph) {
    const std::string line = stream + " graph";
    stream = fmt::format("{}.{}", line, lane(line, times.before, times.end));
  }
  const TrackId runs = sink()->track(group("streams"), stream);
  Waits waits{sink()->track(group("streams"), stream + " waits"), times.before};
  std::uint64_t ctas = packet.kind == SubmitKind::kernel ? packet.kernel.grid.count() : 0;
  if (packet.kind == SubmitKind::start || packet.kind == SubmitKind::queued) ctas = task->packet.grid.count();
  const TimelineMark mark{runs, time(times.start), time(times.end)};
  run(packet.operation, mark, {{"operation", packet.operation}, {"ctas", static_cast<std::int64_t>(ctas)}});
  drawn_[packet.operation] = mark;
  until(waits, times.submitted, times.start, TaskWait::submission);
  until(waits, times.released, times.start, TaskWait::stream);
  until(waits, times.due, times.start, TaskWait::gap);
  if (task == nullptr) return;
  before_start(waits, *task, times.start);
  after_start(waits.track, *task, times.end);
  subcontext(*task, times.end);
}

void TaskRows::child(const Task& task, Cycle completed) {
  const Task::Launch& launch = task.launch;
  const Cycle begin = std::min(launch.issued.value_or(launch.arrived), launch.arrived);
  const Cycle start = task.start == 0 ? completed : task.start;
  const std::string depth = fmt::format("depth {}", launch.child.depth);
  const std::string line = fmt::format("{}.{}", depth, lane(depth, begin, completed));
  const TrackId runs = sink()->track(group("nested"), line);
  Waits waits{sink()->track(group("nested"), line + " waits"), begin};
  const bool tail = launch.child.mode == arch::LaunchMode::tail;
  // In its TMDQ from there on.
  until(waits, launch.pushed.value_or(begin), std::min(start, launch.arrived), TaskWait::launch);
  if (tail) until(waits, launch.tails_from, start, TaskWait::tail);
  if (launch.behind) {
    const Task::Launch::Ahead& ahead = *launch.behind;
    const TaskWait why = tail                                  ? TaskWait::tail_behind
                         : ahead.stream == launch.child.stream ? TaskWait::behind
                                                               : TaskWait::false_dependency;
    until(waits, launch.arrived, start, text_of(why, ahead.name, ahead.stream));
  } else {
    until(waits, launch.arrived, start, launch.behind_event ? TaskWait::event : TaskWait::launch);
  }
  until(waits, launch.read, start, TaskWait::reads);
  before_start(waits, task, start);
  if (task.start == 0) return;
  const TimelineMark mark{runs, time(start), time(completed)};
  run(task.operation(), mark,
      {{"operation", task.operation()},
       {"parent", launch.parent.value_or(arch::kNoTask)},
       {"context", static_cast<std::int64_t>(launch.child.context)},
       {"stream", launch.child.stream},
       {"tmdq", launch.child.tmdq},
       {"mode", static_cast<std::int64_t>(launch.child.mode)}});
  if (launch.parent) launched_[*launch.parent].push_back(mark);
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
  drawn_.clear();
  edges_.clear();
  launched_.clear();
  subcontexts_ = false;
}

}  // namespace heddle::task
