#include "scenario/scenario_program.h"

#include <cmath>
#include <limits>

#include "common/error.h"

namespace heddle::workload {
namespace {

using arch::LaneMask;
using arch::OpCode;
using arch::Operation;
using arch::WarpPlace;
using arch::WarpState;

// Rounds of loops without a single instruction in them, before one is spent on the loop itself: a warp that never
// issues would hold the simulation.
constexpr int kFreeRounds = 1000;

LaneMask mask(const WarpState& state, std::size_t scalar) { return static_cast<LaneMask>(state.scalars[scalar]); }
void set_mask(WarpState& state, std::size_t scalar, LaneMask lanes) { state.scalars[scalar] = lanes; }

// Offsets in shared memory have 32 bits; what does not fit is beyond every allocation.
std::uint32_t offset_of(std::uint64_t address) {
  constexpr std::uint32_t kBeyond = 0xFFFF'FFF0;
  return address > kBeyond ? kBeyond : static_cast<std::uint32_t>(address);
}
std::uint32_t offset_of(double value) {
  return offset_of(std::isfinite(value) ? whole_bits(value) : ~std::uint64_t{0});
}

// Where lane l's registers 2 i and 2 i + 1 lie in the tile: as MatmulTile says.
std::uint64_t tile_offset(const ProgramStep& step, std::uint32_t lane) {
  return std::uint64_t{lane / 4 + step.tile_row} * step.pitch +
         std::uint64_t{2 * (lane % 4) + step.tile_column} * arch::bytes_of(step.element);
}

}  // namespace

void ScenarioProgram::start(const WarpPlace& place, WarpState& state) const {
  state.pc = 0;
  state.exited = false;
  state.registers.assign(std::size_t{parts_.registers} * arch::kWarpLanes, 0);
  state.scalars.assign(parts_.scalars, 0);
  set_mask(state, kActiveScalar, place.lanes);
  set_mask(state, kAliveScalar, place.lanes);
  settle(place, state);
}

void ScenarioProgram::settle(const WarpPlace& place, WarpState& state) const {
  int rounds = 0;
  while (true) {
    if (mask(state, kAliveScalar) == 0) state.pc = static_cast<std::uint32_t>(parts_.steps.size() - 1);
    const ProgramStep& next = step(state);
    if (next.kind == StepKind::finish) return;
    const bool active = mask(state, kActiveScalar) != 0;
    if (next.kind < StepKind::loop_begin) {
      if (active) return;
      ++state.pc;
      continue;
    }
    if (active && !next.free) return;
    if (active && next.kind == StepKind::loop_end && ++rounds > kFreeRounds) return;
    control(place, state);
  }
}

void ScenarioProgram::control(const WarpPlace& place, WarpState& state) const {
  const ProgramStep& now = step(state);
  const LaneMask active = mask(state, kActiveScalar);
  const LaneMask alive = mask(state, kAliveScalar);
  ++state.pc;
  switch (now.kind) {
    case StepKind::loop_begin:
    case StepKind::loop_end:
      return count(place, state, now);
    case StepKind::while_begin:
      return set_mask(state, now.scalar, active);
    case StepKind::while_test: {
      const LaneMask left = active == 0 ? 0 : condition(place, state, now.at, active);
      set_mask(state, kActiveScalar, left != 0 ? left : mask(state, now.scalar) & alive);
      if (left == 0) state.pc = now.target;
      return;
    }
    case StepKind::if_begin: {
      const LaneMask taken = active == 0 ? 0 : condition(place, state, now.at, active);
      set_mask(state, now.scalar, active);
      set_mask(state, now.scalar + 1, active & ~taken);
      set_mask(state, kActiveScalar, taken);
      if (taken == 0) state.pc = now.target;
      return;
    }
    case StepKind::if_else:
      set_mask(state, kActiveScalar, mask(state, now.scalar + 1) & alive);
      if (mask(state, kActiveScalar) == 0) state.pc = now.target;
      return;
    case StepKind::if_end:
      return set_mask(state, kActiveScalar, mask(state, now.scalar) & alive);
    case StepKind::role:
      if (place.warp < now.first_warp || place.warp > now.last_warp) state.pc = now.target;
      return;
    case StepKind::jump:
    case StepKind::while_end:
      state.pc = now.target;
      return;
    default:
      HEDDLE_CHECK(false, "a step that is not control flow");
  }
}

// pc is already behind the step.
void ScenarioProgram::count(const WarpPlace& place, WarpState& state, const ProgramStep& now) const {
  std::int64_t& counter = state.scalars[now.scalar];
  std::int64_t& limit = state.scalars[now.scalar + 1];
  const bool up = now.increment > 0;
  const bool active = mask(state, kActiveScalar) != 0;
  if (now.kind == StepKind::loop_begin) {
    if (active) {
      counter = static_cast<std::int64_t>(whole_bits(shared_value(place, state, now.at)));
      limit = static_cast<std::int64_t>(whole_bits(shared_value(place, state, now.to)));
    }
    if (!active || (up ? counter >= limit : counter <= limit)) state.pc = now.target;
    return;
  }
  if (!active) return;
  // Unsigned: the distance of two 64-bit integers may need all bits.
  const auto from = static_cast<std::uint64_t>(counter);
  const auto to = static_cast<std::uint64_t>(limit);
  const auto by = static_cast<std::uint64_t>(now.increment);
  const std::uint64_t distance = up ? to - from : from - to;
  if (distance <= (up ? by : 0 - by)) return;
  counter = static_cast<std::int64_t>(from + by);
  state.pc = now.target;
}

void ScenarioProgram::issue(const WarpPlace& place, WarpState& state, Operation& operation) const {
  const ProgramStep& now = step(state);
  operation.code = now.code;
  operation.unit = now.demand.unit;
  operation.space = now.space;
  operation.lanes = mask(state, kActiveScalar);
  if (now.one_lane) operation.lanes &= ~operation.lanes + 1;
  operation.width = now.width;
  operation.order = now.order;
  operation.scope = now.scope;
  operation.atomic = now.atomic;
  operation.type = now.type;
  operation.destination = now.destination;
  operation.count = now.count;
  operation.latency = now.latency;
  operation.special = now.special;
  operation.read = now.read;
  switch (now.kind) {
    case StepKind::finish:
      state.exited = true;
      return;
    case StepKind::operation:
      fill(place, state, now, operation);
      break;
    case StepKind::set:
      set(place, state, now, operation.lanes);
      break;
    case StepKind::zero:
      zero(state, now, operation.lanes);
      break;
    case StepKind::leave:
      set_mask(state, kAliveScalar, mask(state, kAliveScalar) & ~operation.lanes);
      set_mask(state, kActiveScalar, 0);
      break;
    default:
      control(place, state);
      return settle(place, state);
  }
  ++state.pc;
  settle(place, state);
}

void ScenarioProgram::fill(const WarpPlace& place, const WarpState& state, const ProgramStep& now,
                           Operation& operation) const {
  if (now.bulk != kNoBulk) return bulk(place, state, now, operation);
  if (now.child != kNoChild) return children(place, state, now, operation);
  switch (now.code) {
    case OpCode::store:
    case OpCode::atomic:
      if (!now.values.empty()) data(place, state, now, operation);
      if (now.atomic == arch::AtomicKind::compare_exchange && now.code == OpCode::atomic) {
        bits(place, state, now.compare, now.element, operation.lanes, operation.compare);
      }
      [[fallthrough]];
    case OpCode::load:
      aim(place, state, now, operation);
      if (now.pitch != 0) {
        for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
          if (operation.address[lane] != kNowhere) operation.address[lane] += tile_offset(now, lane);
        }
      }
      return;
    case OpCode::async_copy: {
      arch::PerLane<std::uint64_t> to{};
      addresses(place, state, now.to, operation.lanes, to);
      for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane)
        operation.shared_address[lane] = offset_of(to[lane]);
      return addresses(place, state, now.at, operation.lanes, operation.address);
    }
    case OpCode::matmul:
      operation.tile = now.tile;
      operation.tile.a = offset_of(shared_value(place, state, now.at));
      operation.tile.b = offset_of(shared_value(place, state, now.to));
      return;
    case OpCode::stream_destroy:
      return operands(place, state, now, operation);
    case OpCode::mbarrier_init:
    case OpCode::mbarrier_invalidate:
    case OpCode::mbarrier_arrive:
    case OpCode::mbarrier_expect:
    case OpCode::mbarrier_complete:
    case OpCode::mbarrier_wait:
    case OpCode::mbarrier_test:
      operands(place, state, now, operation);
      [[fallthrough]];
    case OpCode::release_shared:
    case OpCode::tensor_fence:
      return aim(place, state, now, operation);
    case OpCode::barrier:
      operation.barrier = offset_of(shared_value(place, state, now.to));
      return;
    default:
      return;
  }
}

void ScenarioProgram::aim(const WarpPlace& place, const WarpState& state, const ProgramStep& now,
                          Operation& operation) const {
  if (now.space == arch::Space::cluster) {
    return cluster_addresses(place, state, now, operation.lanes, operation.address);
  }
  addresses(place, state, now.at, operation.lanes, operation.address);
}

void ScenarioProgram::zero(WarpState& state, const ProgramStep& now, LaneMask lanes) {
  const arch::RegisterRange range = now.demand.writes.front();
  for (std::uint32_t i = 0; i < range.count; ++i) {
    std::uint32_t* registers = state.of(static_cast<std::uint16_t>(range.first + i));
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      if ((lanes >> lane & 1U) != 0) registers[lane] = 0;
    }
  }
}

}  // namespace heddle::workload
