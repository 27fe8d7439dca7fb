// Asynchronous transaction barriers in a CTA's own shared memory (CGA-14). Those of other CTAs are DSMEM accesses.
#include <algorithm>

#include "arch/mbarrier.h"
#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

using arch::FaultKind;
using arch::kMbarrierBytes;
using arch::MbarrierResult;
using arch::MbarrierTest;
using arch::OpCode;
using arch::Operation;
using arch::Scope;
using arch::Space;

bool orders(const Operation& operation) { return operation.scope != Scope::cta; }

bool is_wait(OpCode code) { return code == OpCode::mbarrier_wait || code == OpCode::mbarrier_test; }

MbarrierResult change(const Operation& operation, std::uint32_t lane, std::uint64_t& object, std::uint32_t& parity) {
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

// False, and a fault, if a lane names no object.
bool WarpEngine::check_mbarrier(std::uint32_t slot, const Operation& operation) {
  const std::uint32_t window = warps_[slot].cta;
  const SharedMemory& shared = memory_.shared_memory();
  for (arch::LaneMask rest = operation.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    const std::uint64_t address = operation.address[lane];
    FaultKind kind = FaultKind::misaligned;
    if (address % kMbarrierBytes == 0) {
      const bool inside = shared.contains(window, address, kMbarrierBytes);
      const bool reads = operation.code != OpCode::mbarrier_init;
      if (inside && !(reads && shared.poisoned(window, address, kMbarrierBytes))) continue;
      kind = inside ? FaultKind::poison : FaultKind::shared_bounds;
    }
    fault(slot, kind, lane, address);
    return false;
  }
  return true;
}

void WarpEngine::run_mbarrier(std::uint32_t slot, const Operation& operation) {
  const std::uint32_t first = operation.lanes == 0 ? 0 : static_cast<std::uint32_t>(__builtin_ctz(operation.lanes));
  const bool remote = operation.space == Space::cluster;
  const bool can_be_remote = operation.code == OpCode::mbarrier_arrive || operation.code == OpCode::mbarrier_expect ||
                             operation.code == OpCode::mbarrier_complete;
  const bool returns = operation.destination != arch::kNoRegister;
  const bool exists = remote ? can_be_remote && !returns : operation.space == Space::shared;
  if (!exists || (operation.code == OpCode::mbarrier_test && !returns)) {
    return fault(slot, FaultKind::unsupported, first, operation.address[first]);
  }
  if (remote) {
    const std::uint32_t crooked = first_misaligned(operation.lanes, operation.address, kMbarrierBytes);
    if (crooked < arch::kWarpLanes) return fault(slot, FaultKind::misaligned, crooked, operation.address[crooked]);
    if (!check_cluster(slot, operation, kMbarrierBytes)) return;
  } else if (!check_mbarrier(slot, operation)) {
    return;
  }
  if (is_wait(operation.code)) return run_mbarrier_wait(slot, operation);
  if (operation.code == OpCode::mbarrier_arrive && arch::releases(operation.order) && orders(operation)) {
    return hold(slot, operation);
  }
  if (remote) return run_access(slot, operation);
  change_mbarrier(slot, operation);
}

// Lanes follow each other; a waiter sees what each of them leaves.
void WarpEngine::change_mbarrier(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  if (!check_mbarrier(slot, operation)) return;  // a release takes its time
  SharedMemory& shared = memory_.shared_memory();
  const Cycle ready = memory_.touch_shared(domain_.now());
  for (arch::LaneMask rest = operation.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    const std::uint64_t address = operation.address[lane];
    std::uint64_t object = shared.word(warp.cta, address);
    std::uint32_t parity = 0;
    if (change(operation, lane, object, parity) == MbarrierResult::wrong) {
      return fault(slot, FaultKind::mbarrier, lane, address);
    }
    shared.set_word(warp.cta, address, object);
    if (operation.destination != arch::kNoRegister) warp.state.of(operation.destination)[lane] = parity;
    look_at_waiters(cta, ready);
    if (cta.killed) return;
  }
  finish(slot, ready, domain_.now() + 1);
}

void WarpEngine::run_mbarrier_wait(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle ready = memory_.touch_shared(domain_.now());
  const arch::LaneMask waiting = waiting_lanes(slot, operation);
  if (ctas_[warp.cta].killed) return;
  warp.acquires = arch::acquires(operation.order) && orders(operation);
  if (operation.code == OpCode::mbarrier_test) {
    std::uint32_t* registers = warp.state.of(operation.destination);
    for (arch::LaneMask rest = operation.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
      registers[lane] = (waiting >> lane & 1) == 0 ? 1 : 0;
    }
    if (warp.acquires && waiting != operation.lanes) memory_.l1().invalidate_all();
    return finish(slot, ready, domain_.now() + 1);
  }
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, domain_.now() + 1);
  warp.wait = WarpWait::mbarrier;
  warp.since = domain_.now() + 1;
  warp.answered = ready;
  if (waiting == 0) return mbarrier_passed(slot, ready);
  if (warp.operation == nullptr) warp.operation = std::make_unique<Operation>();
  *warp.operation = operation;
  warp.operation->lanes = waiting;
  ctas_[warp.cta].mbarrier_waiters.push_back(slot);
}

// Lanes whose phase has not completed; a fault if one waits for what is no mbarrier.
arch::LaneMask WarpEngine::waiting_lanes(std::uint32_t slot, const Operation& operation) {
  const SharedMemory& shared = memory_.shared_memory();
  const std::uint32_t window = warps_[slot].cta;
  arch::LaneMask waiting = 0;
  for (arch::LaneMask rest = operation.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    const std::uint64_t address = operation.address[lane];
    const bool inside = shared.contains(window, address, kMbarrierBytes);
    const MbarrierTest test =
        inside ? arch::mbarrier_test(shared.word(window, address), operation.data[lane][0]) : MbarrierTest::wrong;
    if (test == MbarrierTest::wrong) {
      issuing_code_ = operation.code;
      fault(slot, inside ? FaultKind::mbarrier : FaultKind::shared_bounds, lane, address);
      return waiting;
    }
    if (test == MbarrierTest::waits) waiting |= arch::LaneMask{1} << lane;
  }
  return waiting;
}

// Something in the window has changed, and is to be seen at `when`.
void WarpEngine::look_at_waiters(Cta& cta, Cycle when) {
  std::vector<std::uint32_t>& waiters = cta.mbarrier_waiters;
  for (std::size_t i = 0; i < waiters.size();) {
    const std::uint32_t slot = waiters[i];
    Operation& operation = *warps_[slot].operation;
    operation.lanes = waiting_lanes(slot, operation);
    if (cta.killed) return;
    if (operation.lanes != 0) {
      ++i;
      continue;
    }
    waiters.erase(waiters.begin() + static_cast<std::ptrdiff_t>(i));
    mbarrier_passed(slot, when);
  }
}

void WarpEngine::mbarrier_passed(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const Cycle from = std::max({when, warp.answered, warp.since});
  stats_.stall_mbarrier.add(from - warp.since);
  if (warp.acquires) memory_.l1().invalidate_all();
  prepare(slot, from);
}

void WarpEngine::mbarrier_changed(std::uint32_t window, std::uint32_t, Cycle when) {
  Cta& cta = ctas_[window];
  if (!cta.running || cta.mbarrier_waiters.empty()) return;
  look_at_waiters(cta, when + params_.memory.shared_latency);
}

}  // namespace heddle::sm
