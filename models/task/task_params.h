// Parameters of task management.
#pragma once

#include <cmath>
#include <cstdint>

#include "arch/task_record.h"
#include "common/cycle.h"
#include "common/param_fwd.h"
#include "common/stats.h"
#include "protocol/host_task.h"

namespace heddle::task {

// What the streams of one thread-group context are shared by (TSK-07).
enum class ContextSharing : std::uint8_t { cta, grid };

// What a launch does that finds no free record (TSK-12): takes one from a larger pool behind, or fails, as the program
// is told.
enum class LaunchOverflow : std::uint8_t { spill, error };

// Device-side launches (TSK-06 to TSK-13).
struct NestedParams {
  std::uint32_t pending_launches = 2048;
  std::uint32_t contexts = 0;  // 0: as many as CTAs can be resident
  LaunchOverflow overflow = LaunchOverflow::spill;
  double memory = 6;  // percent of device memory
  std::uint32_t parts = 4;
  std::uint32_t tmdqs = 4;
  std::uint32_t max_depth = 24;
  ContextSharing shared_by = ContextSharing::cta;
  std::uint32_t in_flight = 16;
  std::uint32_t schedule_cycles = 100;
  std::uint32_t sm_distance = 60;
  std::uint32_t retry = 200;

  static void describe(ParamTable<NestedParams>& t);
};

// From the end of a kernel to the start of the next one of its stream.
struct GapParams {
  double drain = 0;           // ns
  double front_end = 0;       // ns
  std::uint32_t fetches = 0;  // lines
  bool report = false;

  // It uses lines of memory, for each stream.
  bool uses_memory() const { return report || fetches > 0; }

  static void describe(ParamTable<GapParams>& t);
};

struct TaskParams {
  double stream_gap = 1300;           // ns
  std::uint32_t to_cwd = 20;          // cycles
  std::uint32_t submit_queue = 1024;  // packets
  double table_guarantee = 100;       // percent
  bool host_records = false;
  std::uint32_t list_entries = 4096;
  std::uint32_t list_insert = 0;  // cycles
  std::uint32_t list_take = 0;    // cycles
  GapParams gap;
  NestedParams nested;

  static void describe(ParamTable<TaskParams>& t);
};

// What of a machine decides where the records of device-side launches lie.
struct LaunchRoom {
  std::uint64_t end = 0;       // they lie below
  std::uint64_t memory = 0;    // bytes of device memory
  std::uint32_t resident = 1;  // CTAs that the machine has room for
};
// The records end at or below `end`, and begin at a page. Throws InputError if there is no room for them above address
// 0.
arch::LaunchMemory nested_memory(const NestedParams& params, const LaunchRoom& room);
// The second halves of all its TMDs (task/task_records.h), a line each, lie below it from here on, on whole pages.
std::uint64_t second_halves_of(const arch::LaunchMemory& memory);
// That of one TMD. `memory`: all of it, not a part.
std::uint64_t second_half_of(const arch::LaunchMemory& memory, std::uint64_t record);

// Statistics of task management. Their paths begin with that of the unit, whichever part counts them.
struct StreamStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& submitted = counter("submitted", "operations", "operations taken in from the host");
  Counter& dispatches = counter("dispatches", "kernels", "kernels taken in from the packet processor");
  Counter& kernels = counter("kernels", "kernels", "kernels that have ended");
  Counter& holds = counter("holds", "operations", "copies and fills that have ended");
  Counter& rejected = counter("rejected", "kernels", "kernels that can never run on this machine");
  Counter& faulted = counter("faulted", "kernels", "kernels that a fault ended");
  Counter& aborted = counter("aborted", "kernels", "kernels that were killed with their queue");
  Gauge& open = gauge("open", "operations", "operations and dispatches taken in and not ended");
  Histogram& launch_latency =
      histogram("launch_latency", "ns",
                "from when nothing but the launch held a kernel back (its submission, or the end of what it waited "
                "for) to its first launch packet");
  Histogram& queue_time = histogram("queue_time", "ns", "from a kernel's submission to its first launch packet");

  // A kernel has ended.
  void count(protocol::DoneStatus status) {
    kernels.add(status == protocol::DoneStatus::ok ? 1 : 0);
    rejected.add(status == protocol::DoneStatus::rejected ? 1 : 0);
    faulted.add(status == protocol::DoneStatus::faulted ? 1 : 0);
    aborted.add(status == protocol::DoneStatus::aborted ? 1 : 0);
  }
};

struct DispatchStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& evictions = counter("evictions", "tasks", "tasks that gave up their slot to a more urgent one");
  Counter& resumptions = counter("resumptions", "tasks", "evicted tasks that were sent again");
};

struct ListStats : StatGroup {
  using StatGroup::StatGroup;

  Gauge& list_used = gauge("list_used", "tasks", "entries of the scheduler table that are taken (TSK-02)");
  Counter& list_waits = counter("list_waits", "tasks", "tasks that found no entry of the scheduler table free");
  Counter& list_wait_cycles = counter("list_wait_cycles", "task cycles", "time that tasks waited for such an entry");
};

struct QueueStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& queue_entries = counter("queue_entries", "entries", "entries of queue tasks that have arrived");
};

struct ChainStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& chains =
      counter("nested_chains", "chains", "starts, ends and closes that the nested scheduler has worked on");
};

// Events of device code.
struct EventStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& event_waits =
      counter("event_waits", "waits", "waits of streams for events that had not come to pass when it was their turn");
};

// Device-side launches.
struct LaunchStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& children = counter("children", "tasks", "tasks of device code that have been taken in");
  Counter& child_faults = counter("child_faults", "tasks", "of those, the ones that a fault ended");
  Counter& false_dependencies = counter("false_dependencies", "tasks",
                                        "tasks that waited behind one of another stream of the same TMDQ (TSK-11)");
  Counter& next_waits = counter("next_waits", "tasks",
                                "tasks that had completed when another had just been pushed behind them, and waited "
                                "until their `next` named it (TSK-09)");
  Counter& wakes = counter("wakes", "contexts", "contexts whose waiting warps were told to go on");
  Counter& restores = counter("restores", "CTAs", "saved CTAs that were sent to be restored");
  Gauge& depth = gauge("depth", "levels", "nesting depth of the last task of device code");
  Gauge& open_children =
      gauge("open_children", "tasks", "tasks of device code taken in whose descendants have not all completed");
  // Of a launch: all of it, and its parts one after another.
  Histogram& child_latency =
      histogram("child_latency", "ns", "from the issue of a launch that nothing held back to its first launch packet");
  Histogram& child_launch =
      histogram("child_launch", "ns", "of that: from the issue to the start packet at task management");
  Histogram& child_read =
      histogram("child_read", "ns", "then: to the end of the reads of its TMD, kernel object and parent");
  Histogram& child_list = histogram("child_list", "ns", "then: to its place in a list");
  Histogram& child_dispatch = histogram("child_dispatch", "ns", "then: to its first launch packet");
};

// Between cycles of a clock and nanoseconds.
struct CycleTime {
  double period_seconds = 1e-9;

  // Rounded to the nearest.
  std::uint64_t ns(Cycle cycles) const {
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(cycles) * period_seconds * 1e9));
  }
  Cycle cycles(double ns) const { return ns <= 0 ? 0 : static_cast<Cycle>(std::llround(ns * 1e-9 / period_seconds)); }
};

}  // namespace heddle::task
