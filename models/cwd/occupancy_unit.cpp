#include "cwd/occupancy_unit.h"

#include <algorithm>

namespace heddle::cwd {

EmptyMachine& OccupancyUnit::machine() {
  if (machine_ == nullptr) {
    machine_ = std::make_unique<EmptyMachine>(context_.topology, context_.params, capacity_, cgas_per_gpc_);
  }
  return *machine_;
}

// The search runs on models of empty GPCs, and takes what the questions of a session would; it starts nothing.
protocol::OccupancyAnswerPacket OccupancyUnit::answer(const protocol::OccupancyQueryPacket& query) {
  protocol::OccupancyAnswerPacket result;
  result.tag = query.tag;
  SearchWork work;
  const bool any = query.cluster.any();
  const arch::Dim3 grid = any ? query.cluster.of(query.cluster.outermost()) : arch::Dim3{};
  result.well_formed = arch::why_malformed(grid, query.cluster, context_.params.max_gpc_cga).empty();
  if (result.well_formed) {
    EmptyMachine& empty = machine();
    empty.set_share(partition_.share_of(query.subcontext, query.local_memory));
    const Occupancy found = empty.occupancy(query.need, query.cluster, 0, query.local_memory);
    result.active = found.cgas;
    work = found.work;
    if (query.largest) {
      result.largest = empty.largest_gpc_cga(query.need, query.cluster.mode, query.local_memory, work);
    }
  }
  const CwdParams& params = context_.params;
  const Cycle length = params.session_pipeline + params.search_cycles(work);
  free_ = std::max(free_, context_.now()) + context_.timebase.cost(length);
  stats_.queries.add();
  stats_.steps.add(work.steps);
  stats_.cycles.add(free_ - context_.now());
  return result;
}

void OccupancyUnit::on_host_query(const protocol::OccupancyQueryPacket& query, std::uint32_t) {
  const protocol::OccupancyAnswerPacket packet = answer(query);
  answers_.host.send_at(free_, packet);
}

// The link is as long as the way to the nearest GPC.
void OccupancyUnit::on_query(const protocol::OccupancyQueryPacket& query, std::uint32_t sm) {
  const protocol::OccupancyAnswerPacket packet = answer(query);
  const std::uint32_t further =
      context_.params.distance_of(context_.topology.sm(sm).gpc) - context_.params.nearest_gpc();
  answers_.sms.send_at(free_ + context_.timebase.cost(further), packet, sm);
}

}  // namespace heddle::cwd
