// The timeline of tasks: rows per stream, per nesting depth and per subcontext, each with a row of waits and why.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "arch/gpu_observation.h"
#include "task/stream_table.h"
#include "task/task.h"

namespace heddle::task {

class TaskRows {
 public:
  explicit TaskRows(Timebase& timebase) : timebase_(timebase), observation_(gpu_observation(timebase)) {}

  // What held an operation of the host back, and when. Cycles.
  struct Host {
    Cycle before = 0;  // end of the operation ahead of it in its stream, or its submission
    Cycle submitted = 0;
    Cycle released = 0;
    Cycle due = 0;
    Cycle path = 0;  // from there to its first launch packet, at least
    Cycle start = 0;
    Cycle end = 0;
  };
  // `task`: null for a hold.
  void host(const protocol::SubmitPacket& packet, const Host& times, const Task* task);
  void child(const Task& task, Cycle completed);
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
  std::uint32_t lane(const std::string& name, Cycle begin, Cycle end);
  void until(Waits& waits, Cycle when, Cycle latest, const std::string& why);
  void after_start(TrackId waits, const Task& task, Cycle completed);

  Timebase& timebase_;
  GpuObservation& observation_;
  std::map<std::string, std::vector<Cycle>> lanes_;  // end of what was drawn last
  bool subcontexts_ = false;
};

}  // namespace heddle::task
