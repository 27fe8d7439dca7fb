// What passes between a CWD and its neighbours, and what was wrong with it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/event_queue.h"
#include "protocol/cwd_gpm.h"
#include "protocol/task_cwd.h"

namespace heddle::test {

struct LoggedLaunch {
  Cycle cycle = 0;  // of arrival at the GPC
  std::uint32_t gpc = 0;
  protocol::LaunchPacket packet;
  std::uint64_t position = 0;  // CTAs of the grid before it: in the packets heard there or, with an id, by that
};

// Place of a CTA in the launch order of its grid: level by level, from the outside in.
inline std::uint64_t position_of(const arch::RasterShape& shape, const arch::CtaId& id) {
  const auto divided = [](const arch::Coord& a, const arch::Dim3& b) {
    return arch::Coord{a.x / b.x, a.y / b.y, a.z / b.z};
  };
  arch::Dim3 outer = shape.grid;
  arch::Coord rest = id.cta;
  std::uint64_t position = 0;
  for (std::size_t level = 0; level <= shape.levels; ++level) {
    const arch::Dim3 inner = level < shape.levels ? shape.nest[level] : arch::Dim3{1, 1, 1};
    const arch::Coord which = divided(rest, inner);
    position += (which.x + outer.x / inner.x * (which.y + std::uint64_t{outer.y / inner.y} * which.z)) * inner.count();
    rest = {rest.x % inner.x, rest.y % inner.y, rest.z % inner.z};
    outer = inner;
  }
  return position;
}

struct LoggedBlock {
  std::uint32_t gpc = 0;
  protocol::LocalMemoryPacket packet;
};

struct LoggedAnswer {
  Cycle cycle = 0;  // of arrival in task management
  protocol::EvictedPacket packet;
};

struct LoggedIdle {
  Cycle cycle = 0;
  protocol::IdlePacket packet;
};

struct LoggedTask {
  Cycle cycle = 0;  // when it was sent
  protocol::TaskPacket packet;
};

struct Log {
  std::vector<LoggedTask> sent;
  std::vector<LoggedLaunch> launches;  // in order of arrival: that of departure, if all GPCs are equally far away
  std::map<std::uint32_t, protocol::TaskDonePacket> done;
  std::vector<LoggedAnswer> evicted;
  std::vector<std::uint32_t> gone;  // evicted operations that the distributor knows nothing of any more
  std::uint32_t in_vain = 0;        // of those, that had been sent again before that was heard
  std::vector<LoggedIdle> idle;
  std::vector<LoggedBlock> blocks;  // by the GPCs that they are for
  std::uint64_t heard_blocks = 0;   // by any
  std::vector<std::string> problems;

  // What is taken now, seen from the GPCs: less than, or as much as, the distributor counts.
  std::map<std::uint64_t, std::uint64_t> open;                              // GPC_CGAs, or tracked CTAs, by sequence
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> memory;  // sequence by subcontext and memory slot
  std::map<std::uint32_t, std::uint64_t> barriers;                          // of the GPU: whose CGA has it, by sequence
  using Tpc = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;      // subcontext, GPC, TPC of the GPC
  std::map<Tpc, std::uint32_t> holds;                                       // CTAs
  std::map<Tpc, std::uint32_t> local_holds;                                 // of those, of local operations
  std::map<Tpc, std::uint32_t> block;                                       // the last one given
  std::set<std::uint32_t> local_operations;                                 // those of tasks with local memory
  std::set<std::uint32_t> faulted;                                          // operations a CTA of which has faulted
  std::vector<std::pair<std::uint32_t, protocol::Preemption>> preemptions;  // GPC, and what it was asked
  std::set<std::pair<std::uint32_t, std::uint32_t>> aborted;                // GPC and operation
  std::size_t most_tpcs = 0;                                                // of one subcontext at once
  std::size_t most_cgas = 0;                                                // GPC_CGAs of one GPC at once
};

}  // namespace heddle::test
