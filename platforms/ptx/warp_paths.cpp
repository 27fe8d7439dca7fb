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

void WarpPaths::release(Action action, LaneMask arrived) {
  const Meeting own = meeting(state_.pc);
  for (std::size_t i = others(); i-- > 0;) {
    const std::int64_t path = slot(i);
    if ((path & kParked) == 0) continue;
    const Meeting its = meeting(pc_of(path));
    if (code_.instructions[its.pc].action != action) continue;
    LaneMask behind = 0;
    bits::for_each(arrived, [&](std::uint32_t lane) { behind |= same(its, lanes_of(path), own.of(lane)); });
    if (behind == 0) continue;
    const LaneMask left = lanes_of(path) & ~behind;
    slot(i) = std::int64_t{behind} | std::int64_t{its.pc + 1} << 32;
    if (left != 0) push(pc_of(path), left, true);
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

// Free instructions before it may copy its mask.
WarpPaths::Meeting WarpPaths::meeting(std::uint32_t pc) const {
  Meeting result;
  result.pc = pc;
  while (code_.instructions[result.pc].free) ++result.pc;
  PlaneRef mask = code_.instructions[result.pc].r[7];
  for (std::uint32_t at = result.pc; at-- > pc && mask >= 0;) {
    const ResolvedInstruction& before = code_.instructions[at];
    if (before.action != Action::copy || before.guard.any()) continue;
    const std::int32_t plane = mask - before.r[0];
    if (plane < 0 || plane >= before.planes) continue;
    mask = before.r[2] >= 0 ? before.r[2] + plane : before.r[2] - plane;
  }
  if (mask >= 0) {
    result.masks = &state_.of(static_cast<std::uint16_t>(mask))[0];
  } else if (mask != kNoPlane) {
    result.masks = &code_.constants[static_cast<std::size_t>(~mask) * arch::kWarpLanes];
  }
  return result;
}

LaneMask WarpPaths::same(const Meeting& meeting, LaneMask lanes, LaneMask mask) {
  LaneMask result = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) { result |= LaneMask{meeting.of(lane) == mask} << lane; });
  return result;
}

// Barriers and warp_syncs need not be the same instruction for all lanes.
LaneMask WarpPaths::gathered() const {
  const Meeting own = meeting(state_.pc);
  const Action action = code_.instructions[own.pc].action;
  LaneMask result = 0;
  for (LaneMask left = active(); left != 0;) {
    const LaneMask mask = own.of(bits::lowest(left));
    const LaneMask group = same(own, left, mask);
    left &= ~group;
    LaneMask here = group;
    if (action == Action::barrier || action == Action::warp_sync) {
      for (std::size_t i = 0; i < others(); ++i) {
        const Meeting its = meeting(pc_of(slot(i)));
        const bool parked = (slot(i) & kParked) != 0;
        if (parked && code_.instructions[its.pc].action == action) here |= same(its, lanes_of(slot(i)), mask);
      }
    }
    if ((mask & alive() & ~here) == 0) result |= group;
  }
  return result;
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
    const bool collects = code_.instructions[meeting(state_.pc).pc].collects;
    if (!code_.instructions[state_.pc].leader && !collects) return true;
    merge();
    if (alone()) return true;
    const LaneMask come = collects ? gathered() : active();
    if (come == 0) {
      const std::size_t next = runnable(true);
      if (next == others()) return true;  // nobody is left who could come
      const std::uint32_t pc = state_.pc;
      const LaneMask lanes = active();
      take(next);
      push(pc, lanes, true);
      state_.scalars[kFavouredScalar] = 0;
      continue;
    }
    if (come != active()) {
      push(state_.pc, active() & ~come, true);
      set_active(come);
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
