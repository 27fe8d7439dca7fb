// The accesses of CTAs on their way to memory and back (TSK-12): made by warps behind those of CTAs, one for each move,
// which never issue and have nothing but registers for what comes.
#include <algorithm>
#include <cstring>

#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

using arch::kWarpLanes;
using arch::LaneMask;
using arch::MemoryStep;
using arch::OpCode;
using arch::Operation;
using Kind = CtaMove::Access::Kind;

constexpr std::uint16_t kFlightRegisters = 4;  // 16 bytes of each lane
constexpr std::uint32_t kLaneBytes = 4 * kFlightRegisters;

std::uint16_t registers_of(std::uint32_t flight) { return static_cast<std::uint16_t>(flight * kFlightRegisters); }

void put_word(std::array<std::uint32_t, 4>& data, std::uint64_t value) {
  data[0] = static_cast<std::uint32_t>(value);
  data[1] = static_cast<std::uint32_t>(value >> 32);
}

void fill_step(Operation& operation, const MemoryStep& step) {
  operation.lanes = 1;
  operation.width = 8;
  operation.address[0] = step.address;
  put_word(operation.data[0], step.value);
  operation.type = arch::ValueType::u64;
  switch (step.kind) {
    case MemoryStep::Kind::read:
      operation.code = OpCode::load;
      return;
    case MemoryStep::Kind::write:
      operation.code = OpCode::store;
      return;
    case MemoryStep::Kind::exchange:
      operation.atomic = arch::AtomicKind::exchange;
      break;
    case MemoryStep::Kind::compare_exchange:
      operation.atomic = arch::AtomicKind::compare_exchange;
      operation.compare[0] = step.compare;
      break;
    default:
      operation.atomic = arch::AtomicKind::add;
  }
  operation.code = OpCode::atomic;
}

void fill_chunk(Operation& operation, const CtaMove::Access& access) {
  const bool writes = access.kind == Kind::write;
  const std::uint32_t lanes = access.bytes / kLaneBytes;
  operation.code = writes ? OpCode::store : OpCode::load;
  operation.width = kLaneBytes;
  operation.lanes = lanes == kWarpLanes ? ~LaneMask{0} : (LaneMask{1} << lanes) - 1;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    operation.address[lane] = access.address + std::uint64_t{lane} * kLaneBytes;
    if (writes) std::memcpy(operation.data[lane].data(), access.data + std::size_t{lane} * kLaneBytes, kLaneBytes);
  }
}

}  // namespace

// Of a CTA that has none.
std::uint32_t WarpEngine::begin_move(Cta& cta, CtaMove walk, Cycle when) {
  HEDDLE_CHECK(cta.move == kNoMove, "a CTA goes to memory and comes back at the same time");
  const std::uint32_t index = moves_.take();
  Move& move = moves_[index];
  move = Move{};
  move.walk.emplace(std::move(walk));
  move.cta = cta.start.cta_slot;
  move.begin = move.not_before = std::max(when, domain_.now());
  cta.move = index;
  if (warps_.size() <= first_mover_ + index) warps_.resize(first_mover_ + index + 1);
  Warp& warp = warps_[first_mover_ + index];
  warp.cta = kNoCta;
  warp.state.registers.resize(std::size_t{CtaMove::kWindow} * kFlightRegisters * kWarpLanes);
  domain_.schedule(move.begin, *this, kMoves, index);
  return index;
}

// Everything that can go now. The port of the memory unit is shared with the warps.
void WarpEngine::pump(std::uint32_t index) {
  const Cycle now = domain_.now();
  while (moves_[index].walk) {
    Move& move = moves_[index];
    if (move.walk->over()) {
      HEDDLE_CHECK(move.cta == kNoCta, "a CTA does not know that its way to memory is over");
      move.walk.reset();
      moves_.give_back(index);
      return;
    }
    if (!move.walk->wants()) return;
    const Cycle from = std::max(memory_.free(), move.not_before);
    if (from == kNeverReady) {
      move.stopped = true;
      return;
    }
    if (from > now) return domain_.schedule(from, *this, kMoves, index);
    issue_move(index);
  }
}

void WarpEngine::issue_move(std::uint32_t index) {
  Move& move = moves_[index];
  const auto free =
      std::find_if(move.flights.begin(), move.flights.end(), [](const Move::Flight& flight) { return !flight.busy; });
  const auto number = static_cast<std::uint32_t>(free - move.flights.begin());
  HEDDLE_CHECK(number < move.flights.size(), "more accesses of a saved CTA than it may have");
  *free = {true, false, move.walk->next()};
  static thread_local Operation operation;  // large
  operation = Operation{};
  operation.unit = arch::Unit::memory;
  operation.order = arch::Order::relaxed;  // strong: the L2 serves it
  operation.scope = arch::Scope::gpu;
  if (free->access.kind == Kind::step) {
    fill_step(operation, free->access.step);
  } else {
    fill_chunk(operation, free->access);
  }
  if (operation.code != OpCode::store) operation.destination = registers_of(number);
  const std::uint32_t slot = first_mover_ + index;
  warps_[slot].issued_pc = number;  // comes back with the access
  const MemoryUnit::Result result = memory_.global(operation, slot, domain_.now(), true);
  if (result.open && !result.lost) return;
  const Cycle when = std::max(result.lost ? result.arrival : result.ready, domain_.now());
  domain_.schedule(when, *this, kMoved, std::uint64_t{number} << 32 | index);
}

// Ended, or lost.
void WarpEngine::move_access_ended(const Access& access, Cycle when) {
  const Cycle ready = when + params_.memory.l1_latency - params_.memory.l1_tag_latency;
  const std::uint32_t index = access.warp - first_mover_;
  domain_.schedule(std::max(ready, domain_.now()), *this, kMoved, std::uint64_t{access.pc} << 32 | index);
}

void WarpEngine::move_access_failed(const Access& access) {
  moves_[access.warp - first_mover_].flights[access.pc].failed = true;
}

void WarpEngine::move_answered(std::uint32_t index, std::uint32_t number) {
  Move& move = moves_[index];
  Move::Flight& flight = move.flights[number];
  flight.busy = false;
  if (flight.failed) {
    move.walk->fail(flight.access);
  } else {
    const arch::WarpState& state = warps_[first_mover_ + index].state;
    const std::uint16_t first = registers_of(number);
    std::array<std::uint8_t, CtaMove::kChunk> bytes;  // NOLINT(*-init-variables): filled where it counts
    for (std::uint32_t lane = 0; flight.access.kind == Kind::read && lane < flight.access.bytes / kLaneBytes; ++lane) {
      for (std::uint16_t word = 0; word < kFlightRegisters; ++word) {
        const std::uint32_t value = state.of(static_cast<std::uint16_t>(first + word))[lane];
        std::memcpy(bytes.data() + std::size_t{lane} * kLaneBytes + std::size_t{4} * word, &value, sizeof value);
      }
    }
    const std::uint64_t old = state.of(first)[0] | std::uint64_t{state.of(static_cast<std::uint16_t>(first + 1))[0]}
                                                       << 32;
    move.walk->answer(flight.access, old, bytes.data());
  }
  if (move.walk->again()) move.not_before = domain_.now() + nested_.retry;
  move_goes_on(index);
}

void WarpEngine::move_goes_on(std::uint32_t index) {
  if (moves_[index].cta != kNoCta) {
    if (moves_[index].restores) {
      restore_changed(index);
    } else {
      save_changed(index);
    }
  }
  pump(index);
}

// From now on it is alone: it gives back what it has taken.
void WarpEngine::detach(std::uint32_t index) {
  Move& move = moves_[index];
  Cta& cta = ctas_[move.cta];
  if (move.holds) --cta.open;
  move.holds = false;
  move.cta = kNoCta;
  cta.move = kNoMove;
  domain_.schedule(domain_.now(), *this, kMoves, index);
}

// The memory unit takes instructions again.
void WarpEngine::moves_go_on(Cycle when) {
  for (std::uint32_t index = 0; index < moves_.size(); ++index) {
    Move& move = moves_[index];
    if (!move.walk || !move.stopped) continue;
    move.stopped = false;
    domain_.schedule(std::max(when, domain_.now()), *this, kMoves, index);
  }
}

}  // namespace heddle::sm
