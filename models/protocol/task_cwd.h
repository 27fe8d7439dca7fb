// Task management <-> CWD: tasks for the task table and their completions, eviction (TSK-03), and the growth of queue
// tasks (TSK-05).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arch/cluster.h"
#include "arch/raster.h"
#include "protocol/kernel_launch.h"

namespace heddle::protocol {

// Task management -> CWD: a task for the task table. CWD -> task management: all its CTAs have completed.
enum class TaskKind : std::uint8_t {
  grid,
  queue,    // one CTA per entry of a queue, as entries arrive (GrowPacket); the grid is ignored (TSK-05)
  restore,  // CTAs of a task that were saved, and go on where they stopped (TSK-12): `id` and `area` of the first,
            // `further`; or one CGA, whose shape is that of the grid: `area`
};

// How far a task had come when it was evicted (TSK-03): what it goes on with.
struct TaskProgress {
  std::uint64_t next_cta = 0;               // in linear order: all before it have been launched
  std::uint32_t size = 0;                   // size index of the outermost CGA that is being split (CWD-21)
  std::uint64_t order = 0;                  // number of its arrival: among equals the earlier one goes first
  std::optional<std::uint64_t> start = {};  // cycle at which its first launch packet left the CWD
};

struct RestoredCta {
  std::uint64_t area = 0;
  arch::CtaId id;
  std::uint32_t ctas =
      1;  // a CGA that was preempted as a whole: of its CTAs, those that had not exited; `id`: its size
};

// The credits of this link are the slots of the CWD's task table (TSK-03).
struct TaskPacket : KernelLaunch {
  std::uint32_t operation = 0;
  std::uint32_t depth = 0;  // of nesting: among equals the deeper one goes first
  arch::Dim3 grid;
  arch::ClusterShape cluster;
  arch::RasterOrder raster;
  bool cooperative = false;  // grid: all of it is placed before another such grid begins, and it fits at once
  TaskKind kind = TaskKind::grid;
  bool resumed = false;       // it was evicted with a remainder, and goes on exactly where it stopped
  std::uint32_t runs_as = 0;  // restore: the operation that the CTAs belong to
  arch::CtaId id;             // restore
  std::shared_ptr<const std::vector<RestoredCta>> further;  // restore: beside the first; null: none
  TaskProgress progress;                                    // resumed
  bool anew = false;  // resumed: the CWD has said that it is gone, and gives it another number

  std::uint64_t restored_ctas() const {
    return cluster.any() ? grid.count() : 1 + (further == nullptr ? 0 : further->size());
  }
};

struct TaskDonePacket {
  std::uint32_t operation = 0;
  std::uint64_t start = 0;  // cycle at which the first launch packet left the CWD
  std::uint64_t end = 0;    // cycle at which the last completion arrived there
  bool rejected = false;    // it can never run on this machine (CWD-25); nothing of it was started
  bool faulted = false;     // a CTA faulted: the rest was not started, or was stopped
};

// Task management <-> CWD, beside tasks: eviction (TSK-03) and the growth of queue tasks (TSK-05).

// Task management -> CWD: the task is to give up its slot of the task table. CTAs of it that run are not touched. The
// CWD answers every one, once the session of the task that may be under way has ended.
struct EvictPacket {
  std::uint32_t operation = 0;
};

// CWD -> task management. The slot's credit has been returned if `evicted`. One more follows for an evicted task that
// was not gone, once it is, with `gone` alone: had it been sent again before that arrived, the CWD has returned the
// credit, and it is to be sent once more.
struct EvictedPacket {
  std::uint32_t operation = 0;
  bool evicted = false;        // false: it had left the table before, or no place for evicted tasks was free
  bool remainder = false;      // evicted with CTAs left to launch: it is to be sent again
  TaskProgress progress = {};  // of one that is to be sent again; when it was evicted it may not have started yet
  bool gone = false;           // nothing of it is on the machine, and the CWD knows nothing of it any more
};

// Task management -> CWD: so many more entries of a queue task have arrived, and whether they are the last: the task
// ends once all of them have completed. `broken`: an entry will never come, or the task is to be killed, of whatever
// kind it is: it is aborted.
struct GrowPacket {
  std::uint32_t operation = 0;
  std::uint64_t entries = 0;
  bool last = false;
  bool broken = false;
  std::optional<RestoredCta> returned = {};  // a CTA of the task, of any kind, that was preempted: it can go on
};

// CWD -> task management: all entries of a queue task so far have been launched and have completed. It may end.
struct IdlePacket {
  std::uint32_t operation = 0;
  std::uint64_t completed = 0;  // entries so far
};

}  // namespace heddle::protocol
