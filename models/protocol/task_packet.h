// Task management -> CWD: a task for the task table. CWD -> task management: all its CTAs have completed.
#pragma once

#include <cstdint>

#include "arch/kernel_record.h"
#include "arch/raster.h"
#include "arch/sm_limits.h"
#include "common/packet_socket.h"

namespace heddle::protocol {

enum class TaskKind : std::uint8_t {
  grid,
  queue,    // one CTA per entry of a queue, as entries arrive (GrowPacket); the grid is ignored (TSK-05)
  restore,  // one CTA that was saved, and goes on where it stopped (TSK-12); `id`, `area`
};

// The credits of this link are the slots of the CWD's task table (TSK-03).
struct TaskPacket {
  std::uint32_t operation = 0;
  std::int32_t priority = 0;
  arch::Dim3 grid;
  arch::ResourceVector need;  // of one CTA
  arch::CtaDuration duration;
  arch::ClusterShape cluster;
  bool local_memory = false;  // its CTAs need a local-memory block of their TPC (CWD-32)
  std::uint8_t subcontext = 0;
  std::uint32_t code = 0;  // of its program; 0: CTAs run for `duration`
  TaskKind kind = TaskKind::grid;
  bool resumed = false;       // it was evicted with a remainder, and goes on exactly where it stopped
  std::uint32_t runs_as = 0;  // restore: the operation that the CTA belongs to
  arch::CtaId id;             // restore
  std::uint64_t area = 0;     // restore: of the saved state
  std::uint64_t record = 0;   // its TMD in memory; 0: it has none, and cannot launch children
};

struct TaskDonePacket {
  std::uint32_t operation = 0;
  std::uint64_t start = 0;  // cycle at which the first launch packet left the CWD
  std::uint64_t end = 0;    // cycle at which the last completion arrived there
  bool rejected = false;    // it can never run on this machine (CWD-25); nothing of it was started
  bool faulted = false;     // a CTA faulted: the rest was not started, or was stopped
};

}  // namespace heddle::protocol

HEDDLE_PACKET_LINK(heddle::protocol::TaskPacket);
HEDDLE_PACKET_LINK(heddle::protocol::TaskDonePacket);
