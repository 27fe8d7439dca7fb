#include "sm/barrier_unit.h"

#include <algorithm>

#include "arch/mbarrier.h"
#include "common/bits.h"
#include "sm/lane_data.h"
#include "sm/load_store_unit.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

using arch::FaultKind;
using arch::kMbarrierBytes;
using arch::MbarrierResult;
using arch::MbarrierTest;
using arch::OpCode;
using arch::Operation;
using arch::Scope;
using arch::Space;

namespace {

bool orders(const Operation& operation) { return operation.scope != Scope::cta; }

bool is_wait(OpCode code) { return code == OpCode::mbarrier_wait || code == OpCode::mbarrier_test; }

// The level of the barrier that an operation means, as an index; none: the CTA belongs to no such CGA. One of no CGA at
// all is a cluster of its own.
std::optional<std::size_t> level_of(const Cta& cta, const Operation& operation) {
  const protocol::CtaTag& tag = cta.start.tag;
  const auto belongs = [&tag](arch::CgaLevel level) {
    return level == arch::CgaLevel::gpc ? tag.in_cga() : tag.barriers.of(level).has_value();
  };
  if (operation.cga_level) {
    if (!belongs(*operation.cga_level)) return std::nullopt;
    return arch::barrier_index(*operation.cga_level);
  }
  for (std::size_t index = 0; index < arch::kBarrierLevels; ++index) {
    if (belongs(arch::barrier_level(index))) return index;
  }
  return 0;
}

MbarrierResult changed(const Operation& operation, std::uint32_t lane, std::uint64_t& object, std::uint32_t& parity) {
  const std::uint64_t first = operation.data[lane][0];
  switch (operation.code) {
    case OpCode::mbarrier_init:
      return arch::mbarrier_init(object, first);
    case OpCode::mbarrier_invalidate:
      return arch::mbarrier_invalidate(object);
    case OpCode::mbarrier_expect:
      return arch::mbarrier_expect(object, first);
    case OpCode::mbarrier_complete:
      return arch::mbarrier_complete(object, first);
    default:
      return arch::mbarrier_arrive(object, first, operation.data[lane][1], &parity);
  }
}

}  // namespace

IssueResult BarrierUnit::issue(std::uint32_t slot, const Operation& operation) {
  if (operation.code == OpCode::barrier) return arrive(slot, operation);
  const Warp& warp = warps_[slot];
  const std::optional<std::size_t> level = level_of(ctas_[warp.cta], operation);
  if (!level) return IssueResult::fault(FaultKind::barrier, 0, 0);
  if (operation.code == OpCode::cluster_wait) return wait_cluster(slot, *level, operation.order);
  if (warp.cluster[*level].arrival != ClusterArrival::none) return IssueResult::fault(FaultKind::barrier, 0, 0);
  return arch::releases(operation.order) ? peers_.releases.defer(slot, operation) : arrive_cluster(slot, *level);
}

IssueResult BarrierUnit::issue_deferred(std::uint32_t slot, const Operation& operation) {
  return arrive_cluster(slot, *level_of(ctas_[warps_[slot].cta], operation));
}

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
  peers_.shared.synchronised(cta.start.cta_slot);
  for (const std::uint32_t warp : cta.barriers.opened()) {
    const std::uint32_t slot = cta.warps[warp];
    const Warp& its = warps_[slot];
    if (when > its.since) waited(stats_.stall_barrier, its, when - its.since);
    peers_.scheduler.prepare(slot, when);
  }
}

bool BarrierUnit::warp_exits(std::uint32_t slot) {
  const Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const CtaBarriers::Outcome outcome = cta.barriers.leave();
  if (outcome == CtaBarriers::Outcome::wrong) return false;
  if (outcome == CtaBarriers::Outcome::opens) open(cta);
  for (std::size_t level = 0; level < arch::kBarrierLevels; ++level) {
    if (warp.cluster[level].arrival == ClusterArrival::arrived) --cta.cluster[level].arrived;
    check_arrived(cta, level);
  }
  return true;
}

IssueResult BarrierUnit::arrive_cluster(std::uint32_t slot, std::size_t level) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  warp.cluster[level].arrival = ClusterArrival::arrived;
  ++cta.cluster[level].arrived;
  warp.write_results(now() + 1);
  peers_.scheduler.prepare(slot, now() + 1);
  check_arrived(cta, level);
  return IssueResult::blocks();
}

IssueResult BarrierUnit::wait_cluster(std::uint32_t slot, std::size_t level, arch::Order order) {
  Warp& warp = warps_[slot];
  ClusterPhase& phase = warp.cluster[level];
  const Cycle next = now() + 1;
  if (phase.arrival == ClusterArrival::none) return IssueResult::fault(FaultKind::barrier, 0, 0);
  warp.write_results(next);
  warp.acquires = arch::acquires(order);
  warp.since = next;
  warp.wait = WarpWait::cluster;
  warp.cluster_level = level;
  if (phase.arrival == ClusterArrival::arrived) {
    peers_.supervisor.warp_waits(ctas_[warp.cta]);
    return IssueResult::blocks();
  }
  const Cycle from = std::max(next, phase.passes);
  waited(stats_.stall_cluster, warp, from - next);
  phase.arrival = ClusterArrival::none;
  if (warp.acquires) peers_.l1.invalidate_all();
  return IssueResult::goes_on(from);
}

void BarrierUnit::check_arrived(Cta& cta, std::size_t level) {
  Cta::ClusterBarrier& barrier = cta.cluster[level];
  if (barrier.arrived == 0 || barrier.arrived < cta.live || barrier.reported) return;
  barrier.reported = true;
  const protocol::CtaTag& tag = cta.start.tag;
  if (!tag.in_any_cga()) {
    return pass(cta, arch::barrier_level(level), now() + params_.issue.barrier_latency);
  }
  protocol::ClusterNoticePacket notice = notice_of(cta, protocol::ClusterNoticePacket::Kind::arrived);
  notice.level = arch::barrier_level(level);
  peers_.notices.send_at(now(), notice);
}

// Those that wait go on, the others will find the phase passed.
void BarrierUnit::pass(Cta& cta, arch::CgaLevel level, Cycle when) {
  const std::size_t index = arch::barrier_index(level);
  Cta::ClusterBarrier& barrier = cta.cluster[index];
  HEDDLE_CHECK(cta.live == 0 || barrier.reported, "a cluster barrier has completed without all warps");
  barrier.arrived = 0;
  barrier.reported = false;
  ++barrier.phases;
  peers_.shared.synchronised(cta.start.cta_slot);
  std::uint64_t sum = 0;
  for (const std::uint32_t slot : cta.warps) {
    Warp& warp = warps_[slot];
    ClusterPhase& phase = warp.cluster[index];
    if (phase.arrival == ClusterArrival::none || warp.wait == WarpWait::exited) continue;
    if (warp.wait != WarpWait::cluster || warp.cluster_level != index) {
      phase.arrival = ClusterArrival::passed;
      phase.passes = when;
      continue;
    }
    phase.arrival = ClusterArrival::none;
    const Cycle from = std::max(when, warp.since);
    sum += from - warp.since;
    waited(stats_.stall_cluster, warp, from - warp.since);
    if (warp.acquires) peers_.l1.invalidate_all();
    peers_.scheduler.prepare(slot, from);
  }
  if (level != arch::CgaLevel::gpc || !cta.in_cga() || place_.gpc >= clusters_.gpcs()) return;
  const protocol::CgaId id = *cta.start.tag.cga_id;
  clusters_.barrier(place_.gpc, id, barrier.phases > clusters_.phases(place_.gpc, id), sum);
}

// Every lane must name an object.
std::optional<IssueFault> MbarrierUnit::check(std::uint32_t slot, const Operation& operation) const {
  const std::uint32_t window = warps_[slot].cta;
  for (std::uint64_t rest = operation.lanes; rest != 0; rest = bits::without_lowest(rest)) {
    const std::uint32_t lane = bits::lowest(rest);
    const std::uint64_t address = operation.address[lane];
    FaultKind kind = FaultKind::misaligned;
    if (address % kMbarrierBytes == 0) {
      const bool inside = peers_.shared.contains(window, address, kMbarrierBytes);
      const bool reads = operation.code != OpCode::mbarrier_init;
      if (inside && !(reads && peers_.shared.poisoned(window, address, kMbarrierBytes))) continue;
      kind = inside ? FaultKind::poison : FaultKind::shared_bounds;
    }
    return IssueFault{kind, lane, address};
  }
  return std::nullopt;
}

IssueResult MbarrierUnit::issue(std::uint32_t slot, const Operation& operation) {
  const std::uint32_t first = operation.lanes == 0 ? 0 : bits::lowest(operation.lanes);
  const bool remote = operation.space == Space::cluster;
  const bool can_be_remote = operation.code == OpCode::mbarrier_arrive || operation.code == OpCode::mbarrier_expect ||
                             operation.code == OpCode::mbarrier_complete;
  const bool returns = operation.destination != arch::kNoRegister;
  const bool exists = remote ? can_be_remote && !returns : operation.space == Space::shared;
  if (!exists || (operation.code == OpCode::mbarrier_test && !returns)) {
    return IssueResult::fault(FaultKind::unsupported, first, operation.address[first]);
  }
  if (remote) {
    const std::uint32_t misaligned = first_misaligned(operation.lanes, operation.address, kMbarrierBytes);
    if (misaligned < arch::kWarpLanes) {
      return IssueResult::fault(FaultKind::misaligned, misaligned, operation.address[misaligned]);
    }
    if (const auto wrong = peers_.accesses.check_cluster(slot, operation, kMbarrierBytes)) return *wrong;
  } else if (const auto wrong = check(slot, operation)) {
    return *wrong;
  }
  if (is_wait(operation.code)) return wait(slot, operation);
  if (operation.code == OpCode::mbarrier_arrive && arch::releases(operation.order) && orders(operation)) {
    return peers_.releases.defer(slot, operation);
  }
  return remote ? peers_.accesses.access(slot, operation) : change(slot, operation);
}

IssueResult MbarrierUnit::issue_deferred(std::uint32_t slot, const Operation& operation) {
  return operation.space == Space::shared ? change(slot, operation) : peers_.accesses.access(slot, operation);
}

// Lanes follow each other; a waiter sees what each of them leaves.
IssueResult MbarrierUnit::change(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  if (const auto wrong = check(slot, operation)) return *wrong;  // a release takes its time
  const bool atomic = operation.code != OpCode::mbarrier_init && operation.code != OpCode::mbarrier_invalidate;
  const Cycle ready = touch_shared() + (atomic ? params_.memory.mbarrier_latency : 0);
  for (std::uint64_t rest = operation.lanes; rest != 0; rest = bits::without_lowest(rest)) {
    const std::uint32_t lane = bits::lowest(rest);
    const std::uint64_t address = operation.address[lane];
    std::uint64_t object = peers_.shared.word(warp.cta, address);
    std::uint32_t parity = 0;
    if (changed(operation, lane, object, parity) == MbarrierResult::wrong) {
      return IssueResult::fault(FaultKind::mbarrier, lane, address);
    }
    peers_.shared.set_word(warp.cta, address, object);
    peers_.shared.synchronised(warp.cta);
    if (operation.code == OpCode::mbarrier_init) {
      phases_[key_of(warp.cta, address)] = {};
    } else {
      note_change(warp.cta, address, ready);
    }
    if (operation.destination != arch::kNoRegister) warp.state.of(operation.destination)[lane] = parity;
    look_at_waiters(cta, ready);
    if (cta.killed()) return IssueResult::blocks();
  }
  return IssueResult::done(ready, now() + 1);
}

IssueResult MbarrierUnit::wait(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle ready = touch_shared();
  Waiting waiting = waiting_lanes(slot, operation);
  if (waiting.wrong) return *waiting.wrong;
  warp.acquires = arch::acquires(operation.order) && orders(operation);
  if (operation.code == OpCode::mbarrier_test) {
    bits::for_each(operation.lanes, [&](std::uint32_t lane) {
      if (visible_of(warp, operation.address[lane]) > ready) waiting.lanes |= arch::LaneMask{1} << lane;
    });
    note_passed(warp, operation, operation.lanes & ~waiting.lanes);
    std::uint32_t* registers = warp.state.of(operation.destination);
    bits::for_each(operation.lanes,
                   [&](std::uint32_t lane) { registers[lane] = bits::contains(waiting.lanes, lane) ? 0 : 1; });
    if (warp.acquires && waiting.lanes != operation.lanes) peers_.l1.invalidate_all();
    return IssueResult::done(ready, now() + 1);
  }
  warp.write_results(now() + 1);
  warp.wait = WarpWait::mbarrier;
  warp.since = now() + 1;
  warp.release.answered = std::max(ready, note_passed(warp, operation, operation.lanes & ~waiting.lanes));
  if (waiting.lanes == 0) {
    passed(slot, ready);
    return IssueResult::blocks();
  }
  warp.keep(operation);
  warp.operation->lanes = waiting.lanes;
  ctas_[warp.cta].mbarrier_waiters.push_back(slot);
  peers_.supervisor.warp_waits(ctas_[warp.cta]);
  return IssueResult::blocks();
}

MbarrierUnit::Waiting MbarrierUnit::waiting_lanes(std::uint32_t slot, const Operation& operation) const {
  const std::uint32_t window = warps_[slot].cta;
  Waiting waiting;
  for (std::uint64_t rest = operation.lanes; rest != 0; rest = bits::without_lowest(rest)) {
    const std::uint32_t lane = bits::lowest(rest);
    const std::uint64_t address = operation.address[lane];
    const bool inside = peers_.shared.contains(window, address, kMbarrierBytes);
    const MbarrierTest test = inside ? arch::mbarrier_test(peers_.shared.word(window, address), operation.data[lane][0])
                                     : MbarrierTest::wrong;
    if (test == MbarrierTest::wrong) {
      waiting.wrong = IssueFault{inside ? FaultKind::mbarrier : FaultKind::shared_bounds, lane, address};
      return waiting;
    }
    if (test == MbarrierTest::waits) waiting.lanes |= arch::LaneMask{1} << lane;
  }
  return waiting;
}

void MbarrierUnit::look_at_waiters(Cta& cta, Cycle when) {
  std::vector<std::uint32_t>& waiters = cta.mbarrier_waiters;
  for (std::size_t i = 0; i < waiters.size();) {
    const std::uint32_t slot = waiters[i];
    Operation& operation = *warps_[slot].operation;
    const Waiting waiting = waiting_lanes(slot, operation);
    Cycle& answered = warps_[slot].release.answered;
    answered = std::max(answered, note_passed(warps_[slot], operation, operation.lanes & ~waiting.lanes));
    operation.lanes = waiting.lanes;
    if (waiting.wrong) return peers_.supervisor.fault(slot, operation.code, *waiting.wrong);
    if (waiting.lanes != 0) {
      ++i;
      continue;
    }
    waiters.erase(waiters.begin() + static_cast<std::ptrdiff_t>(i));
    passed(slot, when);
  }
}

void MbarrierUnit::passed(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const Cycle from = std::max({when, warp.release.answered, warp.since});
  waited(stats_.stall_mbarrier, warp, from - warp.since);
  if (warp.acquires) peers_.l1.invalidate_all();
  peers_.scheduler.prepare(slot, from);
}

void MbarrierUnit::resume_wait(std::uint32_t slot, arch::LaneMask lanes, bool acquires) {
  Warp& warp = warps_[slot];
  arch::WarpState before = warp.state;
  before.pc = warp.issued_pc;
  Operation operation;
  warp.program->issue(warp.place, before, operation);
  operation.lanes = lanes;
  warp.keep(operation);
  warp.code = operation.code;
  warp.unit = arch::Unit::none;
  warp.wait = WarpWait::mbarrier;
  warp.acquires = acquires;
  warp.since = warp.release.answered = now();
  ctas_[warp.cta].mbarrier_waiters.push_back(slot);
}

// An operation completes one phase at most. Those of others are told by their offset, or that of their line.
void MbarrierUnit::note_change(std::uint32_t window, std::uint64_t address, Cycle visible) {
  const auto found = phases_.find(key_of(window, address));
  if (found == phases_.end()) return;
  const std::uint32_t parity = arch::decode(peers_.shared.word(window, address)).parity;
  if (parity == found->second.parity) return;
  found->second.parity = parity;
  ++found->second.completed;
  found->second.visible = visible;
}

Cycle MbarrierUnit::visible_of(const Warp& warp, std::uint64_t address) const {
  const auto found = phases_.find(key_of(warp.cta, address));
  return found == phases_.end() ? 0 : found->second.visible;
}

Cycle MbarrierUnit::note_passed(const Warp& warp, const Operation& operation, arch::LaneMask lanes) {
  Cycle visible = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) {
    note_passed(warp, operation.address[lane]);
    visible = std::max(visible, visible_of(warp, operation.address[lane]));
  });
  return visible;
}

void MbarrierUnit::note_passed(const Warp& warp, std::uint64_t address) {
  const auto found = phases_.find(key_of(warp.cta, address));
  if (found == phases_.end()) return;
  std::vector<std::uint64_t>& passed = found->second.passed;
  if (passed.size() <= warp.place.warp) passed.resize(warp.place.warp + 1);
  passed[warp.place.warp] = found->second.completed;
}

MbarrierUnit::Passes MbarrierUnit::passes(std::uint32_t slot, std::uint64_t address) const {
  const Warp& warp = warps_[slot];
  const auto found = phases_.find(key_of(warp.cta, address));
  if (found == phases_.end()) return {};
  const std::vector<std::uint64_t>& passed = found->second.passed;
  const std::uint64_t before = warp.place.warp < passed.size() ? passed[warp.place.warp] : 0;
  return {found->second.completed - before};
}

void MbarrierUnit::window_changed(std::uint32_t window, std::uint32_t offset, Cycle when) {
  Cta& cta = ctas_[window];
  if (phases_.count(key_of(window, offset)) > 0) {
    note_change(window, offset, when);
  } else if (!phases_.empty()) {
    const auto line = static_cast<std::uint32_t>(arch::line_of(offset));
    for (std::uint32_t at = 0; at < arch::kLineBytes; at += kMbarrierBytes) note_change(window, line + at, when);
  }
  peers_.shared.synchronised(window);
  if (!cta.here() || cta.mbarrier_waiters.empty()) return;
  look_at_waiters(cta, when + params_.memory.shared_latency);
}

}  // namespace heddle::sm
