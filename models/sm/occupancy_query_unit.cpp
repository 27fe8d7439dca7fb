#include "sm/occupancy_query_unit.h"

#include <algorithm>
#include <limits>

#include "common/bits.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {
namespace {

using arch::Operation;

// The first lane, from the lowest on, that asks for something else than the lowest; kWarpLanes: all ask for the same.
std::uint32_t other_shape(const Operation& operation) {
  const std::uint32_t first = bits::lowest(operation.lanes);
  std::uint32_t other = arch::kWarpLanes;
  bits::for_each(operation.lanes, [&](std::uint32_t lane) {
    if (other == arch::kWarpLanes && operation.data[lane] != operation.data[first]) other = lane;
  });
  return other;
}

// A word of Operation::data for each level, innermost first: CTAs, 0 for a level that the shape does not have. Where
// they lie in the grid is no matter: extents are given as one row.
arch::ClusterShape shape_of(const Operation& operation) {
  arch::ClusterShape shape;
  shape.mode = operation.mode;
  const auto& ctas = operation.data[bits::lowest(operation.lanes)];
  for (std::size_t level = 0; level < arch::kCgaLevels; ++level) {
    if (ctas[level] != 0) shape.extents[level] = {ctas[level], 1, 1};
  }
  return shape;
}

}  // namespace

IssueResult OccupancyQueryUnit::issue(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  if (operation.lanes == 0) return IssueResult::done(now() + 1, now() + 1);
  if (!connected_) return IssueResult::fault(arch::FaultKind::unsupported, bits::lowest(operation.lanes), 0);
  const std::uint32_t other = other_shape(operation);
  if (other != arch::kWarpLanes) return IssueResult::fault(arch::FaultKind::unsupported, other, 0);
  protocol::OccupancyQueryPacket query;
  query.tag = slot;
  query.need = cta.start.need;
  query.cluster = shape_of(operation);
  query.local_memory = cta.start.local_memory();
  query.subcontext = warp.subcontext;
  warp.keep(operation);
  warp.wait = WarpWait::occupancy;
  warp.since = now() + 1;
  ++cta.open;
  peers_.queries.send(query);
  return IssueResult::blocks();
}

void OccupancyQueryUnit::on_answer(const protocol::OccupancyAnswerPacket& answer, std::uint32_t) {
  const std::uint32_t slot = answer.tag;
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const Cycle here = now() + time_.cost(place_.answer_way);
  --cta.open;
  if (warp.wait != WarpWait::occupancy) return peers_.supervisor.check_end(cta, here);
  const auto active =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(answer.active, std::numeric_limits<std::uint32_t>::max()));
  std::uint32_t* registers = warp.state.of(warp.operation->destination);
  bits::for_each(warp.operation->lanes, [&](std::uint32_t lane) { registers[lane] = active; });
  warp.write_results(here);
  peers_.scheduler.resume(slot, here, stats_.stall_occupancy);
}

}  // namespace heddle::sm
