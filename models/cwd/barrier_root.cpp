#include "cwd/barrier_root.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"

namespace heddle::cwd {

BarrierRoot::BarrierRoot(const CwdContext& context, PacketSender<protocol::BarrierReleasePacket>& releases)
    : context_(context),
      releases_(releases),
      interval_(context.timebase.cost(context.params.barrier_report_cycles)),
      barriers_(context.params.gpu_cga_barriers),
      stats_(context.observation.stats, context.stat_prefix) {
  for (std::uint32_t g = 0; g < context.topology.gpcs(); ++g) {
    extra_distance_.push_back(context.timebase.cost(context.params.distance_of(g) - context.params.nearest_gpc()));
  }
}

void BarrierRoot::reset() {
  for (Barrier& barrier : barriers_) barrier = {};
  queue_.clear();
  free_ = 0;
}

void BarrierRoot::open(protocol::BarrierSlot slot, arch::CgaLevel level, std::uint32_t operation,
                       std::uint64_t sequence, std::uint64_t ctas) {
  stats_.barriers.add();
  Barrier& barrier = barriers_[slot];
  barrier = {level, operation, sequence, ctas, 0, std::vector<Part>(context_.topology.gpcs())};
}

// One report after another.
void BarrierRoot::on_report(const protocol::BarrierReportPacket& report, std::uint32_t gpc) {
  stats_.reports.add();
  free_ = std::max(free_, context_.now()) + interval_;
  queue_.emplace_back(report, gpc);
  context_.timebase.schedule(free_, *this, 0);
}

void BarrierRoot::on_event(std::uint32_t, std::uint64_t) {
  const auto [report, gpc] = queue_.front();
  queue_.pop_front();
  take_in(report, gpc);
}

BarrierRoot::Part BarrierRoot::sum_of(const Barrier& barrier) {
  Part sum;
  for (const Part& part : barrier.parts) {
    sum.arrived += part.arrived;
    sum.gone += part.gone;
  }
  return sum;
}

// A report of a CGA that is gone may come when its slot is another's. One of the phase before comes when a CTA exits
// while the release is on its way: who had arrived then has been let go on.
void BarrierRoot::take_in(const protocol::BarrierReportPacket& report, std::uint32_t gpc) {
  Barrier& barrier = barriers_[report.slot];
  if (barrier.ctas == 0 || barrier.sequence != report.sequence) return;
  HEDDLE_CHECK(report.phase == barrier.phase || report.phase + 1 == barrier.phase,
               "a GPC is in another phase of a barrier of the GPU than its root");
  barrier.parts[gpc] = {report.phase == barrier.phase ? report.arrived : 0, report.gone};
  const Part sum = sum_of(barrier);
  HEDDLE_CHECK(std::uint64_t{sum.arrived} + sum.gone <= barrier.ctas, "more CTAs are at a barrier than its CGA has");
  if (sum.arrived > 0 && std::uint64_t{sum.arrived} + sum.gone == barrier.ctas) complete(report.slot, barrier);
}

// All CTAs of the CGA have been launched, and each has arrived or is gone.
void BarrierRoot::complete(protocol::BarrierSlot slot, Barrier& barrier) {
  ++barrier.phase;
  stats_.phases.add();
  for (std::uint32_t g = 0; g < barrier.parts.size(); ++g) {
    if (barrier.parts[g].arrived == 0) continue;
    barrier.parts[g].arrived = 0;
    releases_.send_at(context_.now() + extra_distance_[g], {slot, barrier.sequence, barrier.phase}, g);
  }
}

void BarrierRoot::collect_waits(WaitGraph& graph) const {
  for (std::uint32_t slot = 0; slot < barriers_.size(); ++slot) {
    const Barrier& barrier = barriers_[slot];
    const Part sum = sum_of(barrier);
    if (sum.arrived == 0) continue;
    const std::string kernel = context_.observation.labels.of(barrier.operation);
    graph.add(protocol::wide_barrier_name(kernel, barrier.level, protocol::BarrierSlot(slot)),
              fmt::format("where {} of the {} CTAs that have not exited have arrived, as the GPCs say, for",
                          sum.arrived, barrier.ctas - sum.gone),
              fmt::format("the other CTAs of {}", kernel));
  }
}

}  // namespace heddle::cwd
