#include "sm/load_store_unit.h"

#include <algorithm>

#include "common/bits.h"
#include "sm/barrier_unit.h"
#include "sm/cta_table.h"
#include "sm/device_launch_unit.h"
#include "sm/dsmem_paths.h"
#include "sm/faults.h"
#include "sm/global_path.h"
#include "sm/lane_data.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {
namespace {

using arch::FaultKind;
using arch::OpCode;
using arch::Operation;
using arch::Scope;
using arch::Space;

bool width_exists(std::uint32_t width) { return width != 0 && width <= 16 && (width & (width - 1)) == 0; }

// The registers that the operation reads from memory.
arch::RegisterRange result_of(const Operation& operation) {
  if (operation.destination == arch::kNoRegister) return {};
  const std::uint32_t width = operation.code == OpCode::atomic ? arch::bytes_of(operation.type) : operation.width;
  return {operation.destination, static_cast<std::uint16_t>(std::max(1U, width / 4))};
}

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

}  // namespace

IssueResult LoadStoreUnit::issue(std::uint32_t slot, const Operation& operation) {
  if (operation.code == OpCode::async_commit) {
    warps_[slot].copies.commit(now());
    return IssueResult::done(now() + 1, now() + 1);
  }
  if (operation.code == OpCode::async_wait) return copies_.begin(slot, operation.count);
  if (const auto wrong = check(slot, operation)) return *wrong;
  if (operation.space == Space::shared) return access_shared(slot, operation);
  if (operation.space == Space::local) return access_local(slot, operation);
  const bool releases = arch::releases(operation.order) && operation.scope != Scope::cta;
  if (releases && (operation.code == OpCode::store || operation.code == OpCode::atomic)) {
    return peers_.fences.defer(slot, operation);
  }
  return access(slot, operation);
}

std::optional<IssueFault> LoadStoreUnit::check(std::uint32_t slot, const Operation& operation) {
  const std::uint32_t width = lane_width(operation);
  const bool copy = operation.code == OpCode::async_copy;
  const bool exists = width_exists(width) &&
                      (operation.code != OpCode::atomic || atomic_exists(operation.atomic, operation.type)) &&
                      (operation.code != OpCode::load || operation.destination != arch::kNoRegister) &&
                      !(copy && operation.space != Space::global) &&
                      !(operation.code == OpCode::atomic && operation.space == Space::local);
  if (!exists) {
    const std::uint32_t lane = operation.lanes == 0 ? 0 : bits::lowest(operation.lanes);
    return IssueFault{FaultKind::unsupported, lane, operation.address[lane]};
  }
  const std::uint32_t misaligned = first_misaligned(operation.lanes, operation.address, width);
  if (misaligned < arch::kWarpLanes) {
    return IssueFault{FaultKind::misaligned, misaligned, operation.address[misaligned]};
  }
  if (operation.space == Space::shared) return check_shared(slot, operation);
  if (operation.space == Space::cluster) return check_cluster(slot, operation, width);
  if (operation.space == Space::local) return check_local(slot, operation);
  return copy ? check_copy(slot, operation) : std::nullopt;
}

std::optional<IssueFault> LoadStoreUnit::check_copy(std::uint32_t slot, const Operation& operation) const {
  const std::uint32_t width = operation.width;
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    const std::uint32_t target = operation.shared_address[lane];
    if (target % width == 0 && paths_.shared.contains(warps_[slot].cta, target, width)) continue;
    return IssueFault{target % width != 0 ? FaultKind::misaligned : FaultKind::shared_bounds, lane, target};
  }
  return std::nullopt;
}

// A thread has what its kernel asks for, of what its subcontext has for each.
std::optional<IssueFault> LoadStoreUnit::check_local(std::uint32_t slot, const Operation& operation) const {
  const Cta& cta = ctas_[warps_[slot].cta];
  const SmRegisters::LocalBlock& block = registers_.local[cta.start.subcontext];
  const std::uint64_t room = std::min(cta.start.local_bytes, block.memory.bytes);
  for (std::uint64_t rest = operation.lanes; rest != 0; rest = bits::without_lowest(rest)) {
    const std::uint32_t lane = bits::lowest(rest);
    if (operation.address[lane] < room && operation.address[lane] + operation.width <= room) continue;
    return IssueFault{FaultKind::local_bounds, lane, operation.address[lane]};
  }
  return std::nullopt;
}

std::optional<IssueFault> LoadStoreUnit::check_shared(std::uint32_t slot, const Operation& operation) const {
  const std::uint32_t window = warps_[slot].cta;
  const std::uint32_t outside = paths_.shared.first_outside(window, operation);
  if (outside < arch::kWarpLanes) return IssueFault{FaultKind::shared_bounds, outside, operation.address[outside]};
  if (operation.code == OpCode::store) return std::nullopt;
  const std::uint32_t corrupt = paths_.shared.first_poisoned(window, operation);
  if (corrupt >= arch::kWarpLanes) return std::nullopt;
  return IssueFault{FaultKind::poison, corrupt, operation.address[corrupt]};
}

std::optional<IssueFault> LoadStoreUnit::check_cluster(std::uint32_t slot, const Operation& operation,
                                                       std::uint32_t width) {
  const Cta& cta = ctas_[warps_[slot].cta];
  const bool known = paths_.tables.enter_warp(slot, cta.start.tag.cga_id);
  // The CTAs of a CGA beyond the GPC have no way to each other (CGA-15).
  const bool alone = !cta.in_cga() && cta.start.id.cga_size > 1;
  // Side by side in one window, all lanes have a target if the first and the last have.
  if (known && !alone && has_unit_stride(operation.lanes, operation.address, width)) {
    const std::uint64_t first = operation.address[0];
    const std::uint64_t last = operation.address[arch::kWarpLanes - 1];
    const auto found = [&](std::uint64_t address) {
      return paths_.tables.find(slot, address, width, now()).found == ClusterTables::Found::ok;
    };
    if (arch::dsmem_rank(first) == arch::dsmem_rank(last) && found(first) && found(last)) return std::nullopt;
  }
  for (std::uint64_t rest = operation.lanes; rest != 0; rest = bits::without_lowest(rest)) {
    const std::uint32_t lane = bits::lowest(rest);
    std::uint64_t address = operation.address[lane];
    if (alone && arch::dsmem_rank(address) != cta.start.id.rank) {
      return IssueFault{FaultKind::cluster_domain, lane, address};
    }
    if (alone) address = arch::dsmem_offset(address);
    if (!known) return IssueFault{FaultKind::cluster_absent, lane, address};
    const ClusterTables::Target target = paths_.tables.find(slot, address, width, now());
    if (target.found == ClusterTables::Found::ok) continue;
    return IssueFault{fault_of(target.found), lane, operation.address[lane]};
  }
  return std::nullopt;
}

// Loads, stores and atomics of an open window, with all lanes inside and aligned.
IssueResult LoadStoreUnit::access_shared(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const std::uint32_t cycles = std::max(1U, wavefronts(operation));
  const std::uint32_t lanes = bits::count(operation.lanes);
  const std::uint32_t least = std::max(1U, (lanes * operation.width + arch::kLineBytes - 1) / arch::kLineBytes);
  count_wavefronts(stats_, warp.kernel, cycles);
  if (cycles > least) stats_.shared_conflicts.add(cycles - least);
  std::uint32_t* registers = nullptr;
  if (operation.destination != arch::kNoRegister) registers = warp.state.of(operation.destination);
  switch (operation.code) {
    case OpCode::load:
      paths_.shared.load(warp.cta, operation, registers);
      break;
    case OpCode::store:
      paths_.shared.store(warp.cta, operation, slot);
      break;
    default:
      paths_.shared.atomic(warp.cta, operation, registers, slot);
  }
  const Cycle ready = paths_.port.take_shared(now(), cycles) + cycles - 1 + params_.memory.shared_latency;
  Cta& cta = ctas_[warp.cta];
  if (!cta.mbarrier_waiters.empty() && operation.code != OpCode::load) {
    peers_.mbarriers.look_at_waiters(cta, ready);
    if (cta.killed()) return IssueResult::blocks();
  }
  return IssueResult::done(ready, now() + 1);
}

// PRT-06. Words of a thread lie a line apart: a wider access is one for each of its words. Nobody else is to see it: it
// has no order.
IssueResult LoadStoreUnit::access_local(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const Cycle next = now() + 1;
  const SmRegisters::LocalBlock& block = registers_.local[cta.start.subcontext];
  const std::uint64_t base = local_base(block, place_, params_.warp_slots(), slot);
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, next);
  Operation word = operation;
  word.space = Space::global;
  word.order = arch::Order::weak;
  word.width = static_cast<std::uint8_t>(std::min<std::uint32_t>(operation.width, arch::kLocalWord));
  for (std::uint32_t i = 0; i < operation.width; i += arch::kLocalWord) {
    bits::for_each(operation.lanes, [&](std::uint32_t lane) {
      word.address[lane] = base + arch::local_offset(operation.address[lane] + i, lane);
      word.data[lane][0] = operation.data[lane][i / arch::kLocalWord];
    });
    stats_.local_accesses.add();
    const MemoryResult result = paths_.global.access(word, slot, now(), *this);
    count(cta, result);
    if (operation.code == OpCode::load) warp.scoreboard.write({word.destination++, 1}, result.ready);
  }
  return IssueResult::goes_on(next);
}

void LoadStoreUnit::count(Cta& cta, const MemoryResult& result) {
  if (result.open && !result.lost) ++cta.open;
  cta.last = std::max(cta.last, result.arrival);
  cta.landed = std::max(cta.landed, result.arrival);
}

MemoryResult LoadStoreUnit::access_cluster(std::uint32_t slot, const Operation& operation) {
  const Cta& cta = ctas_[warps_[slot].cta];
  if (cta.in_cga() || cta.start.id.rank == 0) return paths_.dsmem.access(operation, slot, now(), *this);
  // To the memory it is a CTA without a CGA, and has found nothing but itself.
  Operation own = operation;
  for (std::uint64_t& address : own.address) address = arch::dsmem_offset(address);
  return paths_.dsmem.access(own, slot, now(), *this);
}

IssueResult LoadStoreUnit::access(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const Cycle next = now() + 1;
  const bool cluster = operation.space == Space::cluster;
  if (races_ != nullptr && !cluster) check_races(cta, operation);
  const MemoryResult result =
      cluster ? access_cluster(slot, operation) : paths_.global.access(operation, slot, now(), *this);
  count(cta, result);
  if (!result.open && result.arrival != 0) warp.note_load(result.ready);
  if (cta.killed()) return IssueResult::blocks();  // it was too much for another warp that waits for an mbarrier
  if (operation.code == OpCode::async_copy) {
    if (result.open) {
      warp.copies.add();
    } else {
      warp.copies.end(warp.copies.current(), result.ready, false);
    }
  }
  const arch::RegisterRange target = result_of(operation);
  for (const arch::RegisterRange& range : warp.writes) {
    if (range.first != target.first || range.count != target.count) warp.scoreboard.write(range, next);
  }
  if (target.count > 0) warp.scoreboard.write(target, result.ready);
  if (!arch::acquires(operation.order) || operation.code == OpCode::async_copy) return IssueResult::goes_on(next);
  if (result.open) {
    warp.wait = WarpWait::access;
    warp.since = next;
    return IssueResult::blocks();
  }
  if (operation.scope != Scope::cta) {
    paths_.l1.invalidate_all();
    note_acquire(cta.operation);
  }
  return IssueResult::goes_on(std::max(next, result.ready));
}

// Line by line.
void LoadStoreUnit::check_races(const Cta& cta, const Operation& operation) const {
  static thread_local LineAccesses lines;  // large
  const std::uint32_t width = lane_width(operation);
  coalesce(operation.lanes, operation.address, width, lines);
  const bool writes = operation.code == OpCode::store || operation.code == OpCode::atomic;
  const bool strong =
      operation.code == OpCode::atomic || (operation.order != arch::Order::weak && operation.scope != Scope::cta);
  if (!writes && strong) return;
  const auto name = [&] { return name_of(cta.operation); };
  for (const LineAccess& line : lines) {
    arch::LineBytes bytes;
    bits::for_each(line.lanes, [&](std::uint32_t lane) {
      const std::uint64_t begin = std::max(operation.address[lane], line.line);
      const std::uint64_t end = std::min(operation.address[lane] + width, line.line + arch::kLineBytes);
      bytes = bytes | arch::LineBytes::range(static_cast<std::uint32_t>(begin - line.line),
                                             static_cast<std::uint32_t>(end - begin));
    });
    const arch::RaceLine where{line.line, cta.start.subcontext};
    if (writes) {
      races_->writes(cta.operation, where, bytes, strong, name);
    } else {
      races_->reads(cta.operation, where, bytes, name);
    }
  }
}

void LoadStoreUnit::access_ended(const Access& access, Cycle when) {
  Warp& warp = warps_[access.warp];
  Cta& cta = ctas_[access.cta];
  const Cycle ready = access.cluster ? when : when + params_.memory.l1_latency - params_.memory.l1_tag_latency;
  --cta.open;
  cta.last = std::max(cta.last, when);
  cta.landed = std::max(cta.landed, when);
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
      peers_.fences.flushed(access.warp, ready);
      break;
    default:
      break;
  }
  if (access.wait == AccessWait::acquires) {
    paths_.l1.invalidate_all();
    note_acquire(cta.operation);
  }
  if (access.wait != AccessWait::none) {
    peers_.scheduler.resume(access.warp, ready);
  } else if (warp.wait == WarpWait::registers) {
    peers_.scheduler.prepare(access.warp, warp.since, stats_.stall_memory);
  } else {
    copies_.consider(access.warp);
  }
  peers_.supervisor.check_end(cta, when);
}

void LoadStoreUnit::load_ended(const PutOffLoad& load, const MemoryResult& result) {
  Warp& warp = warps_[load.warp];
  Cta& cta = ctas_[warp.cta];
  --cta.open;
  count(cta, result);
  if (!result.open && !cta.killed()) {
    warp.note_load(result.ready);
    warp.scoreboard.write({load.destination, static_cast<std::uint16_t>(load.width / 4)}, result.ready);
    if (warp.wait == WarpWait::registers) peers_.scheduler.prepare(load.warp, warp.since, stats_.stall_memory);
  }
  peers_.supervisor.check_end(cta, result.arrival);
}

// Its CTA waits for it all the same: what it does to memory must not come after the end of the CTA.
void LoadStoreUnit::access_lost(const Access& access, Cycle when) {
  Cta& cta = ctas_[access.cta];
  --cta.open;
  cta.landed = std::max(cta.landed, when);
  peers_.supervisor.check_end(cta, when);
}

void LoadStoreUnit::access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) {
  peers_.faults.access_failed(access, access.code, lane, address, when);
}

IssueResult FenceUnit::issue(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle drained = now() + params_.memory.fence;
  warp.write_results(now() + 1);
  if (operation.scope == Scope::cta) return IssueResult::goes_on(drained);
  warp.acquires = arch::acquires(operation.order);
  const bool releases = arch::releases(operation.order);
  // An acquire waits as well: what was read before it must not come later than what is read behind it.
  if (!releases && !warp.acquires) return IssueResult::goes_on(drained);
  wait(slot, releases && operation.scope == Scope::system ? FenceReach::memory : FenceReach::l2, drained);
  return IssueResult::blocks();
}

IssueResult FenceUnit::defer(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  warp.keep(operation);
  warp.next = WarpNext::deferred;
  // A store or an atomic that releases is a fence, and the access behind it. Who arrives at a barrier needs no more
  // than that what came before has been answered.
  const bool fences = operation.code == arch::OpCode::store || operation.code == arch::OpCode::atomic;
  const FenceReach near = fences ? FenceReach::l2 : FenceReach::requests;
  wait(slot, operation.scope == Scope::system ? FenceReach::memory : near, fences ? now() + params_.memory.fence : 0);
  return IssueResult::blocks();
}

void FenceUnit::wait(std::uint32_t slot, FenceReach reach, Cycle earliest) {
  peers_.global.settle();  // reads of this SM that were put off are earlier requests
  Warp& warp = warps_[slot];
  ReleaseWait& release = warp.release;
  release.reach = reach;
  release.earliest = earliest;
  release.epoch = peers_.tracker.epoch();
  warp.since = now() + 1;
  warp.wait = WarpWait::order;
  // Some may have been answered ahead of time.
  release.answered = peers_.tracker.latest();
  if (!peers_.tracker.done(release.epoch)) {
    waiting_.push_back(slot);
    return;
  }
  if (release.answered > now()) return acknowledge(slot);
  release.acknowledged = std::max(now(), earliest);
  if (earliest > now()) return time_.schedule(earliest, *this, 0, slot);
  acknowledged(slot);
}

void FenceUnit::forget(std::uint32_t slot) {
  const auto found = std::find(waiting_.begin(), waiting_.end(), slot);
  if (found != waiting_.end()) waiting_.erase(found);
}

// All that the warp's release waits for has been answered, and the warp gets to know that later.
void FenceUnit::acknowledge(std::uint32_t slot) {
  ReleaseWait& release = warps_[slot].release;
  const Cycle rest = params_.memory.l1_latency - params_.memory.l1_tag_latency;
  release.acknowledged = std::max(std::max(release.answered, now()) + rest, release.earliest);
  time_.schedule(release.acknowledged, *this, 0, slot);
}

void FenceUnit::request_ended(FenceTracker::Epoch epoch, Cycle when) {
  for (std::size_t i = 0; i < waiting_.size();) {
    const std::uint32_t slot = waiting_[i];
    ReleaseWait& release = warps_[slot].release;
    if (epoch <= release.epoch) release.answered = std::max(release.answered, when);
    if (!peers_.tracker.done(release.epoch)) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    acknowledge(slot);
  }
}

void FenceUnit::on_event(std::uint32_t, std::uint64_t argument) { acknowledged(static_cast<std::uint32_t>(argument)); }

void FenceUnit::acknowledged(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  ReleaseWait& release = warp.release;
  // It may have been killed meanwhile, and its slot may have a new owner.
  if (warp.wait != WarpWait::order || !peers_.tracker.done(release.epoch)) return;
  if (release.acknowledged != now()) return;
  if (release.reach == FenceReach::requests) return released(slot, now());
  warp.wait = WarpWait::flush;
  const MemoryResult result = release.reach == FenceReach::memory ? peers_.global.flush(slot, now(), peers_.flushes)
                                                                  : peers_.global.fence(slot, now(), peers_.flushes);
  Cta& cta = ctas_[warp.cta];
  if (result.open) {
    if (!result.lost) ++cta.open;
    return;
  }
  cta.landed = std::max(cta.landed, result.arrival);
  released(slot, result.ready);
}

void FenceUnit::released(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const Cycle from = std::max(when, warp.since);
  waited(stats_.stall_memory, warp, from - warp.since);
  note_release(ctas_[warp.cta].operation);
  switch (warp.next) {
    case WarpNext::launch:
      return peers_.launches.released(slot, from);
    case WarpNext::deferred:
      return peers_.scheduler.give_turn(slot, from, warp.unit);
    default:
      if (warp.acquires) {
        peers_.l1.invalidate_all();
        note_acquire(ctas_[warp.cta].operation);
      }
      return peers_.scheduler.prepare(slot, from);
  }
}

}  // namespace heddle::sm
