#include "ptx/warp_paths.h"

#include "common/bits.h"
#include "common/error.h"

namespace heddle::ptx {

using arch::LaneMask;

LaneMask WarpPaths::alive() const {
  LaneMask lanes = active();
  for (std::size_t i = 0; i < others(); ++i) lanes |= lanes_of(slot(i));
  return lanes;
}

void WarpPaths::push(std::uint32_t pc, LaneMask lanes, bool parked) {
  HEDDLE_CHECK(others() + 1 < arch::kWarpLanes, "a warp has more paths than lanes");
  slot(others()) = std::int64_t{lanes} | std::int64_t{pc} << 32 | (parked ? kParked : 0);
  ++state_.scalars[kOthersScalar];
}

void WarpPaths::remove(std::size_t index) {
  for (std::size_t i = index; i + 1 < others(); ++i) slot(i) = slot(i + 1);
  slot(others() - 1) = 0;
  --state_.scalars[kOthersScalar];
}

void WarpPaths::take(std::size_t index) {
  const std::int64_t path = slot(index);
  remove(index);
  state_.pc = pc_of(path);
  set_active(lanes_of(path));
}

void WarpPaths::branch(LaneMask taken, std::uint32_t target) {
  const ResolvedInstruction& now = code_.instructions[state_.pc];
  const LaneMask rest = active() & ~taken;
  const std::uint32_t next = state_.pc + 1;
  if (taken == 0) {
    state_.pc = next;
    return;
  }
  if (rest != 0) {
    const bool target_first = order_of(target) < order_of(next);
    push(target_first ? next : target, target_first ? rest : taken, false);
    set_active(target_first ? taken : rest);
    state_.pc = target_first ? target : next;
  } else {
    state_.pc = target;
  }
  if (now.backward && state_.pc == target) count_turn(now);
}

void WarpPaths::part(LaneMask lanes, std::uint32_t target) {
  push(target, lanes, false);
  set_active(active() & ~lanes);
}

void WarpPaths::count_turn(const ResolvedInstruction& branch) {
  if (alone()) return;
  if (++state_.scalars[kTurnsScalar] >= (branch.spins ? kPollTurns : kLoopTurns)) yield();
}

void WarpPaths::yield() {
  state_.scalars[kTurnsScalar] = 0;
  const std::size_t first = runnable(false);
  if (first == others()) return;
  const std::uint32_t pc = state_.pc;
  const LaneMask lanes = active();
  take(first);
  push(pc, lanes, false);
  state_.scalars[kFavouredScalar] = 1;
}

void WarpPaths::leave(LaneMask lanes) {
  set_active(active() & ~lanes);
  // Who waits for lanes that have ended looks again.
  for (std::size_t i = 0; i < others(); ++i) slot(i) &= ~kParked;
}

void WarpPaths::release(Action action, LaneMask members) {
  for (std::size_t i = 0; i < others(); ++i) {
    const std::int64_t path = slot(i);
    if ((path & kParked) == 0 || (lanes_of(path) & members) == 0) continue;
    if (code_.instructions[pc_of(path)].action != action) continue;
    slot(i) = (path & ~kParked) + (std::int64_t{1} << 32);
  }
}

std::size_t WarpPaths::runnable(bool in_order) const {
  std::size_t best = others();
  for (std::size_t i = 0; i < others(); ++i) {
    if ((slot(i) & kParked) != 0) continue;
    if (!in_order) return i;
    if (best == others() || order_of(pc_of(slot(i))) < order_of(pc_of(slot(best)))) best = i;
  }
  return best;
}

void WarpPaths::merge() {
  for (std::size_t i = 0; i < others();) {
    if (pc_of(slot(i)) != state_.pc) {
      ++i;
      continue;
    }
    set_active(active() | lanes_of(slot(i)));
    remove(i);
    state_.scalars[kFavouredScalar] = 0;
    state_.scalars[kTurnsScalar] = 0;
  }
}

LaneMask WarpPaths::members() const {
  const PlaneRef mask = code_.instructions[state_.pc].r[7];
  if (mask == kNoPlane) return ~LaneMask{0};
  if (mask < 0) return code_.constants[static_cast<std::size_t>(~mask) * arch::kWarpLanes];
  return state_.of(static_cast<std::uint16_t>(mask))[bits::lowest(active())];
}

// Barriers and warp_syncs need not be the same instruction for all lanes.
bool WarpPaths::gathered() const {
  const Action action = code_.instructions[state_.pc].action;
  LaneMask here = active();
  if (action == Action::barrier || action == Action::warp_sync) {
    for (std::size_t i = 0; i < others(); ++i) {
      const bool parked = (slot(i) & kParked) != 0;
      if (parked && code_.instructions[pc_of(slot(i))].action == action) here |= lanes_of(slot(i));
    }
  }
  return (members() & alive() & ~here) == 0;
}

bool WarpPaths::settle() {
  while (true) {
    const bool gone = active() == 0;
    if (alone()) return !gone;
    if (gone) {
      state_.scalars[kFavouredScalar] = 0;
      state_.scalars[kTurnsScalar] = 0;
      const std::size_t next = runnable(true);
      take(next == others() ? 0 : next);
      continue;
    }
    const ResolvedInstruction& now = code_.instructions[state_.pc];
    if (!now.leader && !now.collects) return true;
    merge();
    if (alone()) return true;
    if (now.collects && !gathered()) {
      const std::size_t next = runnable(true);
      if (next == others()) return true;  // nobody is left who could come
      const std::uint32_t pc = state_.pc;
      const LaneMask lanes = active();
      take(next);
      push(pc, lanes, true);
      state_.scalars[kFavouredScalar] = 0;
      continue;
    }
    if (state_.scalars[kFavouredScalar] != 0) return true;
    const std::size_t next = runnable(true);
    if (next == others() || order_of(pc_of(slot(next))) >= order_of(state_.pc)) return true;
    const std::uint32_t pc = state_.pc;
    const LaneMask lanes = active();
    take(next);
    push(pc, lanes, false);
  }
}

}  // namespace heddle::ptx
