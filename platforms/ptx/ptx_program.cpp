#include "ptx/ptx_program.h"

#include <algorithm>

#include "common/bits.h"
#include "common/error.h"
#include "ptx/access_work.h"
#include "ptx/warp_paths.h"

namespace heddle::ptx {

using arch::LaneMask;
using arch::OpCode;
using arch::Operation;
using arch::WarpPlace;
using arch::WarpState;

namespace {

// Aligned to every width, and beyond every memory.
constexpr std::uint64_t kNowhere = ~std::uint64_t{0xF};

}  // namespace

std::size_t PtxCode::scalars() const { return paths_at() + arch::kWarpLanes; }

bool PtxCode::multicasts() const {
  return std::any_of(bulk.begin(), bulk.end(), [](const BulkForm& form) {
    return std::any_of(form.operands.begin(), form.operands.end(),
                       [](const BulkOperand& operand) { return operand.kind == BulkOperandKind::multicast; });
  });
}

bool PtxProgram::stores_bulk() const {
  return std::any_of(code_.bulk.begin(), code_.bulk.end(), [](const BulkForm& form) {
    using arch::BulkKind;
    const BulkKind kind = form.request.kind;
    return kind == BulkKind::store || kind == BulkKind::reduce || kind == BulkKind::send;
  });
}

arch::TmauNeeds PtxProgram::tmau_needs() const {
  arch::TmauNeeds needs;
  for (const BulkForm& form : code_.bulk) {
    needs.unit = true;
    if (form.request.tensor) {
      needs.tensors = true;
    } else if (arch::moves(form.request.kind)) {
      needs.blocks = true;
    }
  }
  return needs;
}

void PtxProgram::start(const WarpPlace& place, WarpState& state) const {
  state.pc = 0;
  state.exited = false;
  state.registers.assign(std::size_t{code_.planes} * arch::kWarpLanes, 0);
  state.scalars.assign(code_.scalars(), 0);
  state.scalars[kActiveScalar] = place.lanes;
}

std::string PtxProgram::describe(const WarpState& state) const {
  std::uint32_t pc = state.pc;
  while (code_.instructions[pc].free) ++pc;
  return code_.texts[pc];
}

LaneMask PtxProgram::lanes_of(const WarpState& state, const ResolvedInstruction& now) const {
  const auto active = static_cast<LaneMask>(state.scalars[kActiveScalar]);
  if (!now.guard.any()) return active;
  const auto guard = static_cast<LaneMask>(state.scalars[now.guard.scalar]);
  return active & (now.guard.negated ? ~guard : guard);
}

void PtxProgram::advance(WarpState& state) const {
  ++state.pc;
  if (state.scalars[kOthersScalar] != 0) WarpPaths(code_, state).settle();
}

void PtxProgram::issue(const WarpPlace& place, WarpState& state, Operation& operation) const {
  const ResolvedInstruction* now = &code_.instructions[state.pc];
  LaneWork work(code_, place, state);
  while (now->free) {
    work.run(*now, lanes_of(state, *now));
    ++state.pc;
    ++now;
  }
  const auto pending = static_cast<LaneMask>(state.scalars[kPendingScalar]);
  const LaneMask lanes = pending != 0 ? pending : lanes_of(state, *now);
  operation.code = OpCode::compute;
  operation.unit = now->unit;
  operation.count = now->count;
  operation.latency = 0;
  operation.lanes = lanes;
  if (LaneWork::runs(now->action)) {
    if (lanes != 0) work.run(*now, lanes);
    if (now->action == Action::special) machine(*now, operation);
    return advance(state);
  }
  switch (now->action) {
    case Action::branch:
      return branch(state, *now, lanes);
    case Action::table:
      return table(work, state, *now, lanes, operation);
    case Action::trap:
      if (lanes != 0) fault(lanes, operation);
      return advance(state);
    case Action::exit: {
      WarpPaths paths(code_, state);
      paths.leave(lanes);
      ++state.pc;
      if (!paths.settle()) end(state, operation);
      return;
    }
    case Action::machine:
      machine(*now, operation);
      return advance(state);
    case Action::barrier:
      if (lanes != 0) barrier(work, *now, lanes, operation);
      WarpPaths(code_, state).release(Action::barrier, 1);
      return advance(state);
    case Action::warp_sync:
      WarpPaths(code_, state).release(Action::warp_sync, lanes);
      return advance(state);
    case Action::sleep:
      ++state.pc;
      if (state.scalars[kOthersScalar] != 0) {
        WarpPaths paths(code_, state);
        paths.yield();
        paths.settle();
      }
      return;
    case Action::nothing:
      return advance(state);
    default: {
      const LaneMask rest = lanes == 0 ? 0 : AccessWork(code_, place, state, work).fill(*now, lanes, operation);
      state.scalars[kPendingScalar] = rest;
      if (rest == 0) advance(state);
    }
  }
}

void PtxProgram::end(WarpState& state, Operation& operation) const {
  operation.code = OpCode::exit;
  state.exited = true;
}

// An access that no machine can carry out: there is no other way to say that a kernel has failed.
void PtxProgram::fault(LaneMask lanes, Operation& operation) const {
  operation.code = OpCode::load;
  operation.space = arch::Space::global;
  operation.width = 4;
  operation.order = arch::Order::weak;
  operation.combines = false;
  operation.destination = code_.dummy;
  bits::for_each(lanes, [&](std::uint32_t lane) { operation.address[lane] = kNowhere; });
}

void PtxProgram::branch(WarpState& state, const ResolvedInstruction& now, LaneMask lanes) const {
  WarpPaths paths(code_, state);
  paths.branch(lanes, now.target);
  paths.settle();
}

void PtxProgram::table(LaneWork& work, WarpState& state, const ResolvedInstruction& now, LaneMask lanes,
                       Operation& operation) const {
  WarpPaths paths(code_, state);
  const std::vector<std::uint32_t>& targets = code_.tables[now.target];
  if (lanes == 0) return advance(state);
  const std::uint32_t* index = work.plane(now.r[2]);
  const std::uint32_t first = index[bits::lowest(lanes)];
  if (first >= targets.size()) {
    fault(lanes, operation);
    return advance(state);
  }
  LaneMask same = 0;
  bits::for_each(lanes, [&](std::uint32_t lane) { same |= LaneMask{index[lane] == first} << lane; });
  // Lanes with another target come back to this instruction.
  const LaneMask active = paths.active();
  if (same != active && (lanes & ~same) != 0) {
    paths.part(same, targets[first]);
  } else {
    paths.branch(same, targets[first]);
  }
  paths.settle();
}

void PtxProgram::barrier(const LaneWork& work, const ResolvedInstruction& now, LaneMask lanes,
                         Operation& operation) const {
  const std::uint32_t lane = bits::lowest(lanes);
  operation.code = OpCode::barrier;
  operation.barrier = work.plane(now.r[2])[lane];
  operation.count = now.r[3] == kNoPlane ? 0 : work.plane(now.r[3])[lane];
}

// What the machine's own register holds goes where nobody reads it if the number is one of the thread's place.
void PtxProgram::machine(const ResolvedInstruction& now, Operation& operation) const {
  operation.code = OpCode::special;
  const bool place = now.action == Action::special;
  operation.special = place ? arch::SpecialRegister::cta_id_x : static_cast<arch::SpecialRegister>(now.kind);
  operation.destination = place ? code_.dummy : static_cast<std::uint16_t>(now.r[0]);
  operation.width = !place && now.planes == 2 ? 8 : 4;
}

}  // namespace heddle::ptx
