// Memory accesses of warps, and what they order (MEM-05, MEM-06).
#include <algorithm>

#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

using arch::FaultKind;
using arch::OpCode;
using arch::Operation;
using arch::Scope;
using arch::Space;

std::uint32_t width_of(const Operation& operation) {
  return operation.code == OpCode::atomic ? arch::bytes_of(operation.type) : operation.width;
}

bool width_exists(std::uint32_t width) { return width != 0 && width <= 16 && (width & (width - 1)) == 0; }

std::uint32_t first_lane(arch::LaneMask lanes) {
  return lanes == 0 ? 0 : static_cast<std::uint32_t>(__builtin_ctz(lanes));
}

// The registers that the operation reads from memory.
arch::RegisterRange result_of(const Operation& operation) {
  if (operation.destination == arch::kNoRegister) return {};
  return {operation.destination, static_cast<std::uint16_t>(std::max(1U, width_of(operation) / 4))};
}

bool beyond_cta(Scope scope) { return scope != Scope::cta; }

}  // namespace

// False, and a fault, for an access that cannot be carried out.
bool WarpEngine::check_access(std::uint32_t slot, const Operation& operation) {
  const Warp& warp = warps_[slot];
  const std::uint32_t width = width_of(operation);
  const bool copy = operation.code == OpCode::async_copy;
  const bool exists = width_exists(width) &&
                      (operation.code != OpCode::atomic || atomic_exists(operation.atomic, operation.type)) &&
                      (operation.code != OpCode::load || operation.destination != arch::kNoRegister) &&
                      !(copy && operation.space != Space::global);
  if (!exists) {
    const std::uint32_t lane = first_lane(operation.lanes);
    fault(slot, FaultKind::unsupported, lane, operation.address[lane]);
    return false;
  }
  const std::uint32_t crooked = first_misaligned(operation.lanes, operation.address, width);
  if (crooked < arch::kWarpLanes) {
    fault(slot, FaultKind::misaligned, crooked, operation.address[crooked]);
    return false;
  }
  if (operation.space == Space::shared) return check_shared(slot, operation);
  if (operation.space == Space::cluster) return check_cluster(slot, operation, width);
  if (!copy) return true;
  const SharedMemory& shared = memory_.shared_memory();
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    const std::uint32_t target = operation.shared_address[lane];
    if (target % width == 0 && shared.contains(warp.cta, target, width)) continue;
    fault(slot, target % width != 0 ? FaultKind::misaligned : FaultKind::shared_bounds, lane, target);
    return false;
  }
  return true;
}

bool WarpEngine::check_shared(std::uint32_t slot, const Operation& operation) {
  const std::uint32_t window = warps_[slot].cta;
  const SharedMemory& shared = memory_.shared_memory();
  const std::uint32_t outside = shared.first_outside(window, operation);
  if (outside < arch::kWarpLanes) {
    fault(slot, FaultKind::shared_bounds, outside, operation.address[outside]);
    return false;
  }
  if (operation.code == OpCode::store) return true;
  const std::uint32_t corrupt = shared.first_poisoned(window, operation);
  if (corrupt >= arch::kWarpLanes) return true;
  fault(slot, FaultKind::poison, corrupt, operation.address[corrupt]);
  return false;
}

void WarpEngine::run_memory(std::uint32_t slot, const Operation& operation) {
  if (!check_access(slot, operation)) return;
  if (operation.space == Space::shared) {
    Cta& cta = ctas_[warps_[slot].cta];
    const Cycle ready = memory_.shared(operation, warps_[slot].cta, slot, domain_.now()).ready;
    if (!cta.mbarrier_waiters.empty() && operation.code != OpCode::load) {
      look_at_waiters(cta, ready);
      if (cta.killed) return;
    }
    return finish(slot, ready, domain_.now() + 1);
  }
  const bool releases = arch::releases(operation.order) && beyond_cta(operation.scope);
  if (!releases || operation.code == OpCode::load || operation.code == OpCode::async_copy) {
    return run_access(slot, operation);
  }
  hold(slot, operation);
}

// It is carried out when what its release has to wait for has been answered.
void WarpEngine::hold(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  if (warp.operation == nullptr) warp.operation = std::make_unique<Operation>();
  *warp.operation = operation;
  warp.held = true;
  begin_release(slot, operation.scope == Scope::system);
}

void WarpEngine::run_held(std::uint32_t slot) {
  const Operation& operation = *warps_[slot].operation;
  issuing_code_ = operation.code;
  if (operation.code == OpCode::cluster_arrive) return arrive(slot);
  if (operation.code == OpCode::mbarrier_arrive && operation.space == Space::shared) {
    return change_mbarrier(slot, operation);
  }
  run_access(slot, operation);
}

void WarpEngine::run_access(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const Cycle now = domain_.now();
  partition_of(slot).block(slot / kPartitions);
  const bool cluster = operation.space == Space::cluster;
  const MemoryUnit::Result result = cluster ? run_cluster(slot, operation) : memory_.global(operation, slot, now);
  if (result.open && !result.lost) ++cta.open;
  cta.last = std::max(cta.last, result.arrival);
  cta.landed = std::max(cta.landed, result.arrival);
  if (cta.killed) return;  // what it did was too much for another warp that waits for an mbarrier
  if (operation.code == OpCode::async_copy) {
    if (result.open) {
      warp.copies.add();
    } else {
      warp.copies.end(warp.current_group(), result.ready, false);
    }
  }
  const arch::RegisterRange target = result_of(operation);
  for (const arch::RegisterRange& range : warp.writes) {
    if (range.first != target.first || range.count != target.count) warp.scoreboard.write(range, now + 1);
  }
  if (target.count > 0) warp.scoreboard.write(target, result.ready);
  if (!arch::acquires(operation.order) || operation.code == OpCode::async_copy) return prepare(slot, now + 1);
  if (result.open) {
    warp.wait = WarpWait::access;
    warp.since = now + 1;
    return;
  }
  if (beyond_cta(operation.scope)) memory_.l1().invalidate_all();
  prepare(slot, std::max(now + 1, result.ready));
}

void WarpEngine::run_fence(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = domain_.now() + 1;
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, next);
  if (!beyond_cta(operation.scope)) return prepare(slot, next);
  warp.acquires = arch::acquires(operation.order);
  const bool releases = arch::releases(operation.order);
  // An acquire waits as well: what was read before it must not come later than what is read behind it.
  if (releases || warp.acquires) return begin_release(slot, releases && operation.scope == Scope::system);
  prepare(slot, next);
}

// All requests of the SM up to now have to be answered, reads included: what was read before must not come later.
void WarpEngine::begin_release(std::uint32_t slot, bool system) {
  Warp& warp = warps_[slot];
  warp.wants_flush = system;
  warp.mark = memory_.ledger().mark();
  warp.since = domain_.now() + 1;
  warp.wait = WarpWait::order;
  // Some may have been answered ahead of time.
  warp.answered = memory_.ledger().latest();
  if (!memory_.ledger().done(warp.mark)) {
    order_waiters_.push_back(slot);
    return;
  }
  if (warp.answered > domain_.now()) return acknowledge(slot);
  warp.acknowledged = domain_.now();
  release_acknowledged(slot);
}

// All that the warp's release waits for has been answered, and the warp gets to know that later.
void WarpEngine::acknowledge(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const Cycle rest = params_.memory.l1_latency - params_.memory.l1_tag_latency;
  warp.acknowledged = std::max(warp.answered, domain_.now()) + rest;
  domain_.schedule(warp.acknowledged, *this, kAcknowledged, slot);
}

void WarpEngine::request_ended(RequestLedger::Mark group, Cycle when) {
  for (std::size_t i = 0; i < order_waiters_.size();) {
    const std::uint32_t slot = order_waiters_[i];
    Warp& warp = warps_[slot];
    if (group <= warp.mark) warp.answered = std::max(warp.answered, when);
    if (!memory_.ledger().done(warp.mark)) {
      ++i;
      continue;
    }
    order_waiters_.erase(order_waiters_.begin() + static_cast<std::ptrdiff_t>(i));
    acknowledge(slot);
  }
}

void WarpEngine::release_acknowledged(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  // It may have been killed meanwhile, and its slot may have a new owner.
  if (!warp.resident || warp.wait != WarpWait::order || !memory_.ledger().done(warp.mark)) return;
  if (warp.acknowledged != domain_.now()) return;
  if (!warp.wants_flush) return released(slot, domain_.now());
  warp.wants_flush = false;
  warp.wait = WarpWait::flush;
  const MemoryUnit::Result result = memory_.flush(slot, domain_.now());
  if (result.open) {
    if (!result.lost) ++ctas_[warp.cta].open;
    return;
  }
  ctas_[warp.cta].landed = std::max(ctas_[warp.cta].landed, result.arrival);
  released(slot, result.ready);
}

void WarpEngine::released(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const Cycle from = std::max(when, warp.since);
  stats_.stall_memory.add(from - warp.since);
  if (warp.nested != nullptr) return nested_released(slot, from);
  if (!warp.held) {
    if (warp.acquires) memory_.l1().invalidate_all();
    return prepare(slot, from);
  }
  warp.wait = WarpWait::issue;
  warp.since = from;
  partition_of(slot).ready(slot / kPartitions, from, warp.unit);
  wake(slot);
}

void WarpEngine::access_ended(const Access& access, Cycle when) {
  if (of_move(access)) return move_access_ended(access, when);
  Warp& warp = warps_[access.warp];
  Cta& cta = ctas_[access.cta];
  const Cycle ready = access.cluster ? when : when + params_.memory.l1_latency - params_.memory.l1_tag_latency;
  --cta.open;
  cta.last = std::max(cta.last, when);
  cta.landed = std::max(cta.landed, when);
  if (access.step) return nested_ended(access, ready);
  const auto registers = static_cast<std::uint16_t>(std::max(1U, access.width / 4U));
  switch (access.kind) {
    case AccessKind::load:
    case AccessKind::atomic:
      warp.scoreboard.write({access.destination, registers}, ready);
      break;
    case AccessKind::copy:
      warp.copies.end(access.group, ready, true);
      break;
    case AccessKind::flush:
      released(access.warp, ready);
      break;
    default:
      break;
  }
  if (access.acquires) memory_.l1().invalidate_all();
  if (access.blocks) {
    resume(access.warp, ready);
  } else if (warp.wait == WarpWait::copies) {
    const Cycle all = warp.copies.ready(warp.groups_wanted, domain_.now());
    if (all != kNeverReady) resume(access.warp, all);
  } else if (warp.wait == WarpWait::registers) {
    prepare(access.warp, warp.since, stats_.stall_memory);
  }
  check_end(cta, when);
}

// Its CTA waits for it all the same: what it does to memory must not come after the end of the CTA.
void WarpEngine::access_lost(const Access& access, Cycle when) {
  if (of_move(access)) return move_access_ended(access, when);
  Cta& cta = ctas_[access.cta];
  --cta.open;
  cta.landed = std::max(cta.landed, when);
  if (access.step) nested_lost(access);
  check_end(cta, when);
}

void WarpEngine::access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) {
  if (of_move(access)) return move_access_failed(access);
  FaultKind kind = access.poisoned ? FaultKind::poison : FaultKind::address;
  if (access.unmapped) kind = FaultKind::unmapped;
  if (access.read_only) kind = FaultKind::read_only;
  if (access.outside) kind = FaultKind::shared_bounds;  // a copy found its destination released (CGA-09)
  Failure failure;
  failure.cta = access.cta;
  failure.record = record_of(warps_[access.warp], kind, access.pc);
  failure.record.lane = lane;
  failure.record.operation = access.code;
  failure.record.address = address;
  failure.record.write = access.writes();
  failure.record.cycle = when;
  if (const NestedRun* run = warps_[access.warp].nested.get(); access.step && run != nullptr) {
    failure.record.operation = run->code;
    failure.record.lane = run->lane;
  }
  add_failure(std::move(failure));
}

}  // namespace heddle::sm
