#include "sm/queue_turns.h"

#include <algorithm>

#include "common/error.h"
#include "sm/faults.h"
#include "sm/global_path.h"

namespace heddle::sm {

void QueueTurns::find(Cta& cta) {
  const arch::QueueGeometry& queue = cta.code->queue;
  HEDDLE_CHECK(queue.any(), "a CTA of a queue task has no queue");
  const std::uint64_t ticket = cta.start.id.index;
  cta.turn = Cta::QueueTurn{queue.turn(ticket), arch::turn_done(ticket, queue.capacity)};
}

// The write counts as an access from now on. Its entry and value stay known until then.
void QueueTurns::give(Cta& cta, Cycle when) {
  giving_[cta.start.cta_slot] = *cta.turn;
  cta.turn.reset();
  ++cta.open;
  const Cycle last = std::max(cta.killed() ? cta.landed : cta.last, when);
  time_.schedule(std::max(last, now()), *this, 0, cta.start.cta_slot);
}

void QueueTurns::on_event(std::uint32_t, std::uint64_t argument) {
  const auto cta_slot = static_cast<std::uint32_t>(argument);
  Cta& cta = ctas_[cta_slot];
  const Cta::QueueTurn& turn = giving_[cta_slot];
  static thread_local arch::Operation operation;
  operation = arch::Operation{};
  operation.code = arch::OpCode::store;
  operation.unit = arch::Unit::memory;
  operation.width = 8;
  operation.order = arch::Order::relaxed;
  operation.lanes = 1;
  operation.address[0] = turn.entry;
  operation.data[0] = {static_cast<std::uint32_t>(turn.value), static_cast<std::uint32_t>(turn.value >> 32), 0, 0};
  const MemoryResult result = peers_.global.access(operation, cta.warps.front(), now(), *this, AccessUse::step);
  cta.last = std::max(cta.last, result.arrival);
  cta.landed = std::max(cta.landed, result.arrival);
  if (result.open && !result.lost) return;  // it counts as open already
  --cta.open;
  peers_.supervisor.check_end(cta, now());
}

void QueueTurns::access_ended(const Access& access, Cycle when) {
  Cta& cta = ctas_[access.cta];
  --cta.open;
  cta.last = std::max(cta.last, when);
  cta.landed = std::max(cta.landed, when);
  peers_.supervisor.check_end(cta, now());
}

void QueueTurns::access_lost(const Access& access, Cycle when) {
  Cta& cta = ctas_[access.cta];
  --cta.open;
  cta.landed = std::max(cta.landed, when);
  peers_.supervisor.check_end(cta, when);
}

void QueueTurns::access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) {
  peers_.faults.access_failed(access, access.code, lane, address, when);
}

}  // namespace heddle::sm
