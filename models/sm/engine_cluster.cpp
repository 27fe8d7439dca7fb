// Warps of clusters: the barrier of the CGA (CGA-13), and what is wrong with accesses to its shared memory (CGA-07 to
// CGA-09).
#include <algorithm>

#include "arch/gpu_observation.h"
#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

using arch::DsmemStatus;
using arch::FaultKind;
using arch::Operation;
using protocol::ClusterNoticePacket;

FaultKind fault_of(ClusterTables::Found found) {
  switch (found) {
    case ClusterTables::Found::no_rank:
      return FaultKind::cluster_rank;
    case ClusterTables::Found::no_offset:
      return FaultKind::cluster_offset;
    default:
      return FaultKind::cluster_absent;
  }
}

FaultKind fault_of(DsmemStatus status) {
  switch (status) {
    case DsmemStatus::out_of_range:
      return FaultKind::out_of_range;
    case DsmemStatus::poison:
      return FaultKind::poison;
    case DsmemStatus::mbarrier:
      return FaultKind::mbarrier;
    default:
      return FaultKind::cta_not_present;
  }
}

std::uint32_t first_lane(arch::LaneMask lanes) {
  return lanes == 0 ? 0 : static_cast<std::uint32_t>(__builtin_ctz(lanes));
}

std::uint64_t round_up(std::uint64_t value, std::uint32_t granularity) {
  return granularity == 0 ? value : (value + granularity - 1) / granularity * granularity;
}

}  // namespace

// bl_table is filled in for warps that use it. False while nothing is known of the CGA: before its first entry has
// come.
bool WarpEngine::enter_table(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const Cta& cta = ctas_[warp.cta];
  const bool known = !cta.in_cga() || tables_.knows(cta.start.tag.cga_id);
  if (!warp.in_table && known) {
    tables_.set_warp(slot, cta.start.tag.cga_id);
    warp.in_table = true;
  }
  return known;
}

// What the source of an access can see. False, and a fault, for one that has no target.
bool WarpEngine::check_cluster(std::uint32_t slot, const Operation& operation, std::uint32_t width) {
  const protocol::CtaStartPacket& start = ctas_[warps_[slot].cta].start;
  const bool in_cga = ctas_[warps_[slot].cta].in_cga();
  const bool known = enter_table(slot);
  // The CTAs of a CGA beyond the GPC have no way to each other (CGA-15).
  const bool alone = !in_cga && start.id.cga_size > 1;
  for (arch::LaneMask rest = operation.lanes; rest != 0; rest &= rest - 1) {
    const std::uint32_t lane = first_lane(rest);
    std::uint64_t address = operation.address[lane];
    if (alone && arch::dsmem_rank(address) != start.id.rank) {
      fault(slot, FaultKind::cluster_domain, lane, address);
      return false;
    }
    if (alone) address = arch::dsmem_offset(address);
    if (known) {
      const ClusterTables::Target target = tables_.find(slot, address, width, domain_.now());
      if (target.found == ClusterTables::Found::ok) continue;
      fault(slot, fault_of(target.found), lane, operation.address[lane]);
    } else {
      fault(slot, FaultKind::cluster_absent, lane, address);
    }
    return false;
  }
  return true;
}

MemoryUnit::Result WarpEngine::run_cluster(std::uint32_t slot, const Operation& operation) {
  const Cta& cta = ctas_[warps_[slot].cta];
  if (cta.in_cga() || cta.start.id.rank == 0) return memory_.cluster(operation, slot, domain_.now());
  // To the memory it is a CTA without a CGA, and has found nothing but itself.
  Operation own = operation;
  for (std::uint64_t& address : own.address) address = arch::dsmem_offset(address);
  return memory_.cluster(own, slot, domain_.now());
}

void WarpEngine::run_cluster_arrive(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cta& cta = ctas_[warp.cta];
  if (!cta.in_cga() && cta.start.id.cga_size > 1) return fault(slot, FaultKind::cluster_domain, 0, 0);
  if (warp.cluster_arrived) return fault(slot, FaultKind::barrier, 0, 0);
  if (arch::releases(operation.order)) return hold(slot, operation);
  arrive(slot);
}

void WarpEngine::arrive(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  warp.cluster_arrived = true;
  warp.cluster_passed = false;
  ++cta.arrived;
  finish(slot, domain_.now() + 1, domain_.now() + 1);
  check_arrived(cta);
}

void WarpEngine::run_cluster_wait(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = domain_.now() + 1;
  if (!warp.cluster_arrived) return fault(slot, FaultKind::barrier, 0, 0);
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, next);
  warp.acquires = arch::acquires(operation.order);
  warp.since = next;
  warp.wait = WarpWait::cluster;
  if (!warp.cluster_passed) return;
  const Cycle from = std::max(next, warp.cluster_passes);
  stats_.stall_cluster.add(from - next);
  warp.cluster_arrived = warp.cluster_passed = false;
  if (warp.acquires) memory_.l1().invalidate_all();
  prepare(slot, from);
}

// A warp that has exited no longer counts.
void WarpEngine::warp_left(std::uint32_t slot) {
  const Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  if (warp.cluster_arrived && !warp.cluster_passed) --cta.arrived;
  check_arrived(cta);
}

void WarpEngine::check_arrived(Cta& cta) {
  if (cta.arrived == 0 || cta.arrived < cta.live || cta.reported) return;
  cta.reported = true;
  if (!cta.in_cga()) return pass(cta, domain_.now() + params_.issue.barrier_latency);
  host_.notify(notice_of(cta, ClusterNoticePacket::Kind::arrived), domain_.now());
}

// The phase completes: those that wait go on, the others will find it passed.
void WarpEngine::pass(Cta& cta, Cycle when) {
  HEDDLE_CHECK(cta.live == 0 || cta.reported, "a cluster barrier has completed without all warps");
  cta.arrived = 0;
  cta.reported = false;
  ++cta.phases;
  std::uint64_t waited = 0;
  for (const std::uint32_t slot : cta.warps) {
    Warp& warp = warps_[slot];
    if (!warp.cluster_arrived || warp.wait == WarpWait::exited) continue;
    if (warp.wait != WarpWait::cluster) {
      warp.cluster_passed = true;
      warp.cluster_passes = when;
      continue;
    }
    warp.cluster_arrived = false;
    const Cycle from = std::max(when, warp.since);
    waited += from - warp.since;
    if (warp.acquires) memory_.l1().invalidate_all();
    prepare(slot, from);
  }
  stats_.stall_cluster.add(waited);
  ClusterMap& clusters = gpu_observation(domain_).clusters;
  if (!cta.in_cga() || place_.gpc >= clusters.gpcs()) return;
  const std::uint32_t id = cta.start.tag.cga_id;
  clusters.barrier(place_.gpc, id, cta.phases > clusters.phases(place_.gpc, id), waited);
}

// The end of the CTA's shared memory is given back (CGA-09). What lies behind an earlier end is gone already.
void WarpEngine::run_release_shared(std::uint32_t slot, const Operation& operation) {
  const Cycle next = domain_.now() + 1;
  const std::uint32_t cta_slot = warps_[slot].cta;
  Cta& cta = ctas_[cta_slot];
  const std::uint32_t lane = first_lane(operation.lanes);
  const std::uint64_t from = operation.address[lane];
  if (operation.lanes == 0) return finish(slot, next, next);
  if (from > cta.code->shared_bytes) return fault(slot, FaultKind::shared_bounds, lane, from);
  if (give_back_shared(cta, from) > 0) {
    look_at_waiters(cta, next);
    if (cta.killed) return;
  }
  finish(slot, next, next);
}

// Gives the number of bytes that the window has lost.
std::uint32_t WarpEngine::give_back_shared(Cta& cta, std::uint64_t from) {
  const std::uint32_t cta_slot = cta.start.cta_slot;
  SharedMemory& shared = memory_.shared_memory();
  const auto held = [this](std::uint64_t size) {
    const arch::SmLimits& limits = params_.limits;
    return static_cast<std::uint32_t>(round_up(size + limits.shared_reserve, limits.shared_granularity));
  };
  const std::uint32_t before = held(shared.size(cta_slot));
  const std::uint32_t gone = shared.release(cta_slot, from);
  const std::uint32_t bytes = gone > 0 ? before - held(from) : 0;
  if (bytes > 0) {
    cta.released += bytes;
    shared_held_ -= bytes;
    host_.shared_released(cta_slot, bytes);
    ClusterNoticePacket notice = notice_of(cta, ClusterNoticePacket::Kind::shared_released);
    notice.bytes = bytes;
    host_.notify(notice, domain_.now());
  }
  return gone;
}

// The target has seen what is wrong: the fault is one of the CGA (CGA-08). A CTA of none has addressed itself.
void WarpEngine::cluster_failed(const Access& access, const ClusterError& error, Cycle when) {
  const Cta& cta = ctas_[access.cta];
  Failure failure;
  failure.cta = access.cta;
  failure.record = record_of(warps_[access.warp], fault_of(error.status), access.pc);
  arch::FaultRecord& record = failure.record;
  record.operation = access.code;
  record.address = error.offset;
  record.target = error.rank;
  record.cycle = when;
  record.of_cga = cta.in_cga();
  if (record.of_cga) {
    record.warp = 0;
    record.where.clear();
  }
  add_failure(std::move(failure));
}

void WarpEngine::orphan_failed(const ClusterError& error, Cycle when) {
  Failure failure;
  failure.cta = kNoCta;
  failure.cga_id = error.cga_id;
  failure.sequence = error.sequence;
  arch::FaultRecord& record = failure.record;
  record.kind = fault_of(error.status);
  record.sm = place_.id;
  record.address = error.offset;
  record.cycle = when;
  record.of_cga = true;
  record.gpc = place_.gpc;
  record.gpc_local_cga_id = error.cga_id;
  record.target = error.rank;
  record.cta = error.from_cta;
  record.cta_id_in_cga = error.from_rank;
  add_failure(std::move(failure));
}

// The CTA has gone. The distributor stops the task of its CGA; once that has gone too, nobody is left to be told.
void WarpEngine::trap(const Failure& failure) {
  Hosted& cga = hosted_[failure.cga_id];
  const bool lives = cga.here && !cga.flushing && cga.tag.sequence == failure.sequence;
  if (!lives || cga.trapped || aborted(cga.tag.operation)) return stats_.dropped_errors.add();
  cga.trapped = true;
  stats_.faults.add();
  ClusterNoticePacket notice;
  notice.kind = ClusterNoticePacket::Kind::trap;
  notice.tag = cga.tag;
  notice.rank = failure.record.cta_id_in_cga;
  host_.notify(notice, domain_.now());
  if (!fault_sink_) return;
  arch::FaultRecord record = failure.record;
  record.task = cga.tag.operation;
  record.cga = cga.cga;
  fault_sink_(record);
}

}  // namespace heddle::sm
