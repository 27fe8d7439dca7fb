#include "sm/barrier_unit.h"

#include <algorithm>

#include "sm/warp_scheduler.h"

namespace heddle::sm {

using arch::FaultKind;
using arch::OpCode;
using arch::Operation;

IssueResult BarrierUnit::issue(std::uint32_t slot, const Operation& operation) {
  if (operation.code == OpCode::barrier) return arrive(slot, operation);
  if (operation.code == OpCode::cluster_wait) return wait_cluster(slot, operation);
  const Warp& warp = warps_[slot];
  const Cta& cta = ctas_[warp.cta];
  if (!cta.in_cga() && cta.start.id.cga_size > 1) return IssueResult::fault(FaultKind::cluster_domain, 0, 0);
  if (warp.cluster != ClusterArrival::none) return IssueResult::fault(FaultKind::barrier, 0, 0);
  return arch::releases(operation.order) ? peers_.releases.defer(slot, operation) : arrive_cluster(slot);
}

IssueResult BarrierUnit::issue_deferred(std::uint32_t slot, const Operation&) { return arrive_cluster(slot); }

// Warps arrive one after another, whatever their CTA and their barrier.
IssueResult BarrierUnit::arrive(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  free_ = std::max(free_, now()) + params_.issue.barrier_interval;
  warp.write_results(now() + 1);
  warp.wait = WarpWait::barrier;
  warp.since = now() + 1;
  warp.barrier = operation.barrier;
  switch (cta.barriers.arrive(operation.barrier, operation.count, warp.place.warp)) {
    case CtaBarriers::Outcome::wrong:
      return IssueResult::fault(FaultKind::barrier, 0, operation.barrier);
    case CtaBarriers::Outcome::opens:
      open(cta);
      break;
    case CtaBarriers::Outcome::waits:
      peers_.supervisor.warp_waits(cta);
      break;
  }
  return IssueResult::blocks();
}

void BarrierUnit::open(Cta& cta) {
  const Cycle when = std::max(free_, now()) + params_.issue.barrier_latency;
  for (const std::uint32_t warp : cta.barriers.opened()) {
    const std::uint32_t slot = cta.warps[warp];
    if (when > warps_[slot].since) stats_.stall_barrier.add(when - warps_[slot].since);
    peers_.scheduler.prepare(slot, when);
  }
}

bool BarrierUnit::warp_exits(std::uint32_t slot) {
  const Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const CtaBarriers::Outcome outcome = cta.barriers.leave();
  if (outcome == CtaBarriers::Outcome::wrong) return false;
  if (outcome == CtaBarriers::Outcome::opens) open(cta);
  if (warp.cluster == ClusterArrival::arrived) --cta.cluster.arrived;
  check_arrived(cta);
  return true;
}

IssueResult BarrierUnit::arrive_cluster(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  warp.cluster = ClusterArrival::arrived;
  ++cta.cluster.arrived;
  warp.write_results(now() + 1);
  peers_.scheduler.prepare(slot, now() + 1);
  check_arrived(cta);
  return IssueResult::blocks();
}

IssueResult BarrierUnit::wait_cluster(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = now() + 1;
  if (warp.cluster == ClusterArrival::none) return IssueResult::fault(FaultKind::barrier, 0, 0);
  warp.write_results(next);
  warp.acquires = arch::acquires(operation.order);
  warp.since = next;
  warp.wait = WarpWait::cluster;
  if (warp.cluster == ClusterArrival::arrived) return IssueResult::blocks();
  const Cycle from = std::max(next, warp.cluster_passes);
  stats_.stall_cluster.add(from - next);
  warp.cluster = ClusterArrival::none;
  if (warp.acquires) peers_.l1.invalidate_all();
  return IssueResult::goes_on(from);
}

void BarrierUnit::check_arrived(Cta& cta) {
  if (cta.cluster.arrived == 0 || cta.cluster.arrived < cta.live || cta.cluster.reported) return;
  cta.cluster.reported = true;
  if (!cta.in_cga()) return pass(cta, now() + params_.issue.barrier_latency);
  peers_.notices.send_at(now(), notice_of(cta, protocol::ClusterNoticePacket::Kind::arrived));
}

// Those that wait go on, the others will find the phase passed.
void BarrierUnit::pass(Cta& cta, Cycle when) {
  HEDDLE_CHECK(cta.live == 0 || cta.cluster.reported, "a cluster barrier has completed without all warps");
  cta.cluster.arrived = 0;
  cta.cluster.reported = false;
  ++cta.cluster.phases;
  std::uint64_t waited = 0;
  for (const std::uint32_t slot : cta.warps) {
    Warp& warp = warps_[slot];
    if (warp.cluster == ClusterArrival::none || warp.wait == WarpWait::exited) continue;
    if (warp.wait != WarpWait::cluster) {
      warp.cluster = ClusterArrival::passed;
      warp.cluster_passes = when;
      continue;
    }
    warp.cluster = ClusterArrival::none;
    const Cycle from = std::max(when, warp.since);
    waited += from - warp.since;
    if (warp.acquires) peers_.l1.invalidate_all();
    peers_.scheduler.prepare(slot, from);
  }
  stats_.stall_cluster.add(waited);
  if (!cta.in_cga() || place_.gpc >= clusters_.gpcs()) return;
  const std::uint32_t id = cta.start.tag.cga_id;
  clusters_.barrier(place_.gpc, id, cta.cluster.phases > clusters_.phases(place_.gpc, id), waited);
}

}  // namespace heddle::sm
