// The timeline of tasks: rows per stream, per nesting depth and per subcontext, each with a row of waits and why.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arch/gpu_observation.h"
#include "task/stream_table.h"
#include "task/task.h"

namespace heddle::task {

// Why an operation of the host or a task of device code does not start, or has not completed. What the distributor says
// of one that it has is cwd/task_table.h's (wait_text).
enum class TaskWait : std::uint8_t {
  // Of operations of the host alone.
  submission,
  stream,
  gap,
  // Of tasks that programs launch alone.
  launch,
  behind,
  false_dependency,
  event,
  tail,
  tail_behind,
  reads,
  // Of both.
  preparing,
  table,
  way,
  turn,
  evicted,
  descendants,
  completion,
};
struct TaskWaitRow {
  TaskWait wait;
  bool host;         // on the lines of streams
  bool nested;       // on those of nested tasks
  const char* text;  // what the slice is called; NAME and N stand for a task and a stream
  const char* what;  // that it waited for
};
inline constexpr TaskWaitRow kTaskWaits[] = {
    {TaskWait::submission, true, false, "not submitted yet", "the host"},
    {TaskWait::stream, true, false, "waits for another stream", "an edge between streams"},
    {TaskWait::gap, true, false, "gap between operations", "`gpu.task.stream_gap`, and what `gpu.task.gap` takes"},
    {TaskWait::launch, false, true, "its launch is on its way",
     "the steps of the launch operation, and the way to task management"},
    {TaskWait::behind, false, true, "behind NAME in its stream", "the task ahead of it in its TMDQ"},
    {TaskWait::false_dependency, false, true, "false dependency on stream N: behind NAME",
     "the same, where that is of another stream"},
    {TaskWait::event, false, true, "behind an event of its stream",
     "a record of an event ahead of it in its TMDQ, or the wait for one"},
    {TaskWait::tail, false, true, "waits for its parent's end",
     "of a tail launch: the end of its parent grid, and of all else that this has launched"},
    {TaskWait::tail_behind, false, true, "behind NAME, a tail launch before it", "the tail launch before it"},
    {TaskWait::reads, false, true, "its records are read", "the launch scheduler: TMD and kernel object"},
    {TaskWait::preparing, true, true, "prepared by task management", "a TMD, a shared context, or its queue"},
    {TaskWait::table, true, true, "no task table slot",
     "a slot of the task table: all are taken, or all that its subcontext may have"},
    {TaskWait::way, true, true, "on its way through the distributor", "the path to the first launch packet"},
    {TaskWait::turn, true, true, "other tasks first",
     "its turn: sessions of the distributor for tasks that are more urgent or older"},
    {TaskWait::evicted, true, true, "evicted from the task table",
     "a slot: a more urgent task has taken its own; its CTAs that run go on"},
    {TaskWait::descendants, true, true, "waits for its descendants", "what it has launched: its own CTAs have exited"},
    {TaskWait::completion, true, true, "its end is noted in memory",
     "the records of its contexts and TMDs: nothing of it is left"},
};

class TaskRows {
 public:
  // `start_path`: cycles from task management to a task's first launch packet on an idle machine.
  TaskRows(Timebase& timebase, Cycle start_path)
      : timebase_(timebase), observation_(gpu_observation(timebase)), start_path_(start_path) {}

  // What held an operation of the host back, and when. Cycles.
  struct Host {
    Cycle before = 0;  // end of the operation ahead of it in its stream, or its submission
    Cycle submitted = 0;
    Cycle released = 0;
    Cycle due = 0;
    Cycle start = 0;
    Cycle end = 0;
  };
  // `task`: null for a hold.
  void host(const protocol::SubmitPacket& packet, const Host& times, const Task* task);
  void child(const Task& task, Cycle completed);
  // Operation `operation`, which has not started, waits for the end of `of`.
  void edge(std::uint32_t operation, std::uint32_t of);
  void false_dependency(const Task& task, Cycle when);
  // Rows of subcontexts, once there is more than the one.
  void subcontext(const Task& task, Cycle end);
  void show_subcontexts() { subcontexts_ = true; }
  void reset();

 private:
  struct Waits {
    TrackId track;
    Cycle at = 0;
  };
  TimelineSink* sink() const { return observation_.timeline; }
  Picoseconds time(Cycle cycle) const { return timebase_.time_of(cycle); }
  std::string group(const char* what) const { return observation_.prefix + " " + what; }
  // The first line of that name on which nothing has been drawn since `begin`.
  // Draws what an operation of the host or a task has been, with arrows to it and to tasks that it has launched.
  void run(std::uint32_t operation, const TimelineMark& mark, TimelineArgs args);
  std::uint32_t lane(const std::string& name, Cycle begin, Cycle end);
  void until(Waits& waits, Cycle when, Cycle latest, const std::string& why);
  void until(Waits& waits, Cycle when, Cycle latest, TaskWait why);
  void before_start(Waits& waits, const Task& task, Cycle start);
  void after_start(TrackId waits, const Task& task, Cycle completed);

  Timebase& timebase_;
  GpuObservation& observation_;
  const Cycle start_path_;
  std::map<std::string, std::vector<Cycle>> lanes_;        // end of what was drawn last
  std::unordered_map<std::uint32_t, TimelineMark> drawn_;  // operations of the host
  // By operation or task: those that it waits for; and tasks that it has launched, which have ended.
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> edges_;
  std::unordered_map<std::uint32_t, std::vector<TimelineMark>> launched_;
  bool subcontexts_ = false;
};

}  // namespace heddle::task
