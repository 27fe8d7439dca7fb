#include "sm/warp_scheduler.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include <fmt/format.h>

#include "common/error.h"
#include "sm/alu.h"
#include "sm/device_launch_unit.h"
#include "sm/instruction_fetch.h"

namespace heddle::sm {

using arch::OpCode;

namespace {

// What an operation issues to: its row says or, of compute, the operation.
arch::Unit unit_of(const arch::OperationNeeds& demand) {
  return demand.code == arch::OpCode::compute ? demand.unit : arch::row_of(demand.code).unit;
}

// Between two instructions; not in the middle of an operation that takes several steps.
bool stops_here(const Warp& warp) { return warp.next == WarpNext::fetch || warp.next == WarpNext::compute; }

// Throws what is being handled again, of the same kind, with the place before its message and itself as the cause.
[[noreturn]] void throw_from(const std::string& place) {
  try {
    throw;
  } catch (const InputError& error) {
    std::throw_with_nested(InputError(error.where(), fmt::format("{}: {}", place, error.message()), error.remedy()));
  } catch (const CheckFailed& error) {
    std::throw_with_nested(CheckFailed(fmt::format("{}: {}", place, error.what())));
  } catch (const std::exception& error) {
    std::throw_with_nested(std::runtime_error(fmt::format("{}: {}", place, error.what())));
  } catch (...) {
    std::throw_with_nested(
        std::runtime_error(fmt::format("{}: something that is no std::exception was thrown", place)));
  }
}

bool same(const arch::WarpState& a, const arch::WarpState& b) {
  return a.pc == b.pc && a.scalars == b.scalars && a.registers == b.registers;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x9E37'79B9'7F4A'7C15U ^ hash >> 29U;
}

// What an operation leaves where others can see it.
enum class Trace {
  none,
  value,   // the same if it is done again
  change,  // another one each time
};

// Words of Operation::data that count.
std::uint32_t words_of(const arch::Operation& operation) { return std::max<std::uint32_t>(1, operation.width / 4); }

bool is_zero(const arch::Operation& operation) {
  bool zero = true;
  bits::for_each(operation.lanes, [&](std::uint32_t lane) {
    for (std::uint32_t word = 0; word < words_of(operation); ++word) zero = zero && operation.data[lane][word] == 0;
  });
  return zero;
}

Trace trace_of(const arch::Operation& operation) {
  switch (operation.code) {
    case OpCode::compute:
    case OpCode::special:
    case OpCode::load:
    case OpCode::async_commit:
    case OpCode::async_wait:
    case OpCode::matmul:
    case OpCode::matmul_async:
    case OpCode::matmul_commit:
    case OpCode::matmul_wait:
    case OpCode::barrier:
    case OpCode::fence:
    case OpCode::cluster_arrive:
    case OpCode::cluster_wait:
    case OpCode::mbarrier_wait:
    case OpCode::mbarrier_test:
    case OpCode::tensor_prefetch:
    case OpCode::bulk_prefetch:
    case OpCode::bulk_commit:
    case OpCode::bulk_wait:
    case OpCode::bulk_drain:
    case OpCode::tensor_fence:
    case OpCode::tensor_fetch:
    case OpCode::elect:
    case OpCode::proxy_fence:
    case OpCode::wait_children:
    case OpCode::query_occupancy:
    case OpCode::launch_dependents:
    case OpCode::grid_dependency_wait:
      return Trace::none;
    case OpCode::store:
      return operation.completes ? Trace::change : Trace::value;
    case OpCode::atomic:
      if (operation.completes) return Trace::change;
      switch (operation.atomic) {
        case arch::AtomicKind::min:
        case arch::AtomicKind::max:
        case arch::AtomicKind::bit_and:
        case arch::AtomicKind::bit_or:
        case arch::AtomicKind::exchange:
        case arch::AtomicKind::compare_exchange:
          return Trace::value;
        default:
          return is_zero(operation) ? Trace::value : Trace::change;
      }
    default:
      return Trace::change;
  }
}

}  // namespace

void WarpRound::before(const arch::WarpState& state) {
  if (!closed_ && issued_ > marked_ && same(state, mark_)) met();
  if (!closed_ && !round_ && issued_ == renewed_) {
    mark_ = state;
    marked_ = at_ = issued_;
    renewed_ = 2 * issued_ + 1;
    writes_ = 0;
  }
  pc_ = state.pc;
  ++issued_;
}

void WarpRound::met() {
  length_ = issued_ - at_;
  at_ = issued_;
  closed_ = !counts_ && round_ == writes_;
  if (round_ && !closed_) counts_ = true;
  round_ = writes_;
  writes_ = 0;
}

void WarpRound::after(const arch::Operation& operation) {
  if (closed_ || counts_) return;
  const bool looks =
      operation.code == OpCode::load || operation.code == OpCode::atomic || operation.code == OpCode::mbarrier_test;
  if (looks && operation.lanes != 0) {
    look_ = Look{pc_, operation.space, operation.address[bits::lowest(operation.lanes)]};
  }
  // Who looks at the clock may end by it.
  if (operation.code == OpCode::special && operation.special == arch::SpecialRegister::clock) counts_ = true;
  const Trace trace = trace_of(operation);
  if (trace == Trace::none) return;
  acts_ = true;
  if (trace == Trace::change) {
    counts_ = true;
    return;
  }
  writes_ = mixed(writes_, std::uint64_t{pc_} << 32U | operation.lanes);
  bits::for_each(operation.lanes, [&](std::uint32_t lane) {
    writes_ = mixed(writes_, operation.address[lane]);
    for (std::uint32_t word = 0; word < words_of(operation); ++word) {
      writes_ = mixed(writes_, operation.data[lane][word]);
    }
    if (operation.atomic == arch::AtomicKind::compare_exchange) writes_ = mixed(writes_, operation.compare[lane]);
  });
}

Course course(const Warp& warp, Cycle now) {
  if (warp.wait == WarpWait::exited) return Course::round;
  if (warp.round == nullptr) return Course::runs;
  if (warp.round->closed()) return Course::round;
  if (warp.round->acts()) return Course::acts;
  switch (warp.wait) {
    case WarpWait::barrier:
    case WarpWait::cluster:
    case WarpWait::mbarrier:
    case WarpWait::context:
    case WarpWait::children:
    case WarpWait::dependency:
      return Course::round;  // others decide
    case WarpWait::issue:
      // It has a time, or is in the middle of an operation of many instructions. Steps of launches are polls as well.
      if (warp.next != WarpNext::launch && (warp.since > now || warp.next == WarpNext::compute)) return Course::runs;
      break;
    default:
      break;
  }
  return warp.round->issued() == 0 ? Course::round : Course::runs;
}

WarpScheduler::WarpScheduler(const UnitContext& context, const RequestGate& gate, CtaSupervisor& ctas)
    : SmUnit(context),
      gate_(gate),
      supervisor_(ctas),
      sub_partitions_(kSubPartitions,
                      SubPartition(context.params.issue.policy, context.params.warp_slots() / kSubPartitions)) {
  due_.fill(kNever);
}

std::uint32_t WarpScheduler::slots() const { return params_.warp_slots(); }

void WarpScheduler::reset() {
  for (SubPartition& sub_partition : sub_partitions_) sub_partition.reset();
  due_.fill(kNever);
  armed_ = kNever;
  issuing_ = false;
}

std::uint32_t WarpScheduler::enter_first() {
  const auto fewest =
      std::min_element(sub_partitions_.begin(), sub_partitions_.end(),
                       [](const SubPartition& a, const SubPartition& b) { return a.resident() < b.resident(); });
  return enter(static_cast<std::uint32_t>(fewest - sub_partitions_.begin()));
}

std::uint32_t WarpScheduler::enter(std::uint32_t turn) {
  for (std::uint32_t i = 0; i < kSubPartitions; ++i) {
    const std::uint32_t p = (turn + i) % kSubPartitions;
    const std::uint32_t slot = sub_partitions_[p].free_slot();
    if (slot == SubPartition::kNone) continue;
    sub_partitions_[p].enter(slot, ++serial_);
    return slot * kSubPartitions + p;
  }
  HEDDLE_CHECK(false, "a CTA was started without warp slots for it");
  return 0;
}

void WarpScheduler::leave(std::uint32_t slot) { sub_partition_of(slot).leave(slot / kSubPartitions); }

void WarpScheduler::kill(std::uint32_t slot) {
  const std::uint32_t p = slot % kSubPartitions;
  SubPartition& sub_partition = sub_partitions_[p];
  sub_partition.block(slot / kSubPartitions);
  sub_partition.cut(slot / kSubPartitions, now());
  due_[p] = std::min(due_[p], sub_partition.next(gate_.free()));
}

void WarpScheduler::on_event(std::uint32_t, std::uint64_t) {
  if (now() == armed_) issue_all();
}

// One instruction of each sub-partition that can issue. The first turn goes round, as all share the load-store unit.
void WarpScheduler::issue_all() {
  armed_ = kNever;
  issuing_ = true;
  const Cycle cycle = now();
  for (std::uint32_t i = 0; i < kSubPartitions; ++i) {
    const std::uint32_t p = (cycle + i) % kSubPartitions;
    if (due_[p] > cycle) continue;
    SubPartition& sub_partition = sub_partitions_[p];
    const std::uint32_t chosen = sub_partition.choose(cycle, gate_.free());
    if (chosen != SubPartition::kNone) {
      const std::uint32_t slot = chosen * kSubPartitions + p;
      try {
        issue(slot);
      } catch (...) {  // of a program, mostly: the embedder's own code
        issuing_ = false;
        const Cta& cta = ctas_[warps_[slot].cta];
        throw_from(fmt::format("{}, CTA {}, SM {}, warp {}, in cycle {}", name_of(cta.operation), cta.start.id.index,
                               place_.id.value(), warps_[slot].place.warp, now()));
      }
    }
    due_[p] = sub_partition.next(gate_.free());
  }
  issuing_ = false;
  arm();
}

void WarpScheduler::arm() {
  const Cycle first = *std::min_element(due_.begin(), due_.end());
  if (first >= armed_) return;
  armed_ = std::max(first, now());
  time_.schedule(armed_, *this, 0);
}

// A warp can go on, or earlier than was thought.
void WarpScheduler::wake(std::uint32_t slot) {
  const std::uint32_t p = slot % kSubPartitions;
  const Cycle when = sub_partitions_[p].next_of(slot / kSubPartitions, gate_.free());
  if (when >= due_[p]) return;
  due_[p] = when;
  rearm();
}

void WarpScheduler::gate_opened(Cycle when) {
  for (std::uint32_t p = 0; p < kSubPartitions; ++p) {
    const Cycle next = sub_partitions_[p].next(gate_.free());
    if (next != kNever) due_[p] = std::min(due_[p], std::max(next, when));
  }
  rearm();
}

void WarpScheduler::prepare(std::uint32_t slot, Cycle from, const StallCounter& stall) {
  Warp& warp = warps_[slot];
  if (units_.fetch != nullptr && !units_.fetch->supplies(slot, from)) {
    return sub_partition_of(slot).block(slot / kSubPartitions);
  }
  const arch::OperationNeeds& demand = warp.program->demand(warp.state);
  warp.code = demand.code;
  warp.unit = sm::unit_of(demand);
  warp.writes = demand.writes;
  warp.accumulators = demand.accumulators;
  warp.since = from;
  const Cycle ready = warp.scoreboard.ready(demand, from);
  if (ready == kNever) {
    warp.wait = WarpWait::registers;
    sub_partition_of(slot).block(slot / kSubPartitions);
    return;
  }
  if (ready > from) {
    waited_next(ready <= warp.loads_until ? stats_.stall_memory : stall, warp, ready - from);
  }
  give_turn(slot, ready, warp.unit);
}

void WarpScheduler::give_turn(std::uint32_t slot, Cycle when, arch::Unit unit) {
  Warp& warp = warps_[slot];
  warp.wait = WarpWait::issue;
  warp.since = when;
  warp.unit = unit;
  sub_partition_of(slot).ready(slot / kSubPartitions, when, unit);
  wake(slot);
}

void WarpScheduler::freeze(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  warp.frozen = true;
  if (warp.wait == WarpWait::issue && stops_here(warp)) stop(slot);
}

void WarpScheduler::stop(std::uint32_t slot) {
  sub_partition_of(slot).block(slot / kSubPartitions);
  warps_[slot].wait = WarpWait::frozen;
}

void WarpScheduler::interrupt(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  warp.since = when;
  SubPartition& sub_partition = sub_partition_of(slot);
  sub_partition.ready(slot / kSubPartitions, when, warp.unit);
  sub_partition.end_burst();
  wake(slot);
}

void WarpScheduler::resume(std::uint32_t slot, Cycle ready, const StallCounter& stall) {
  const Warp& warp = warps_[slot];
  const Cycle from = std::max(warp.since, ready);
  waited(stall, warp, from - warp.since);
  prepare(slot, from);
}

void WarpScheduler::issue(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  if (warp.next == WarpNext::fetch) {
    waited_next(stats_.stall_issue, warp, now() - warp.since);
  } else {
    waited(stats_.stall_issue, warp, now() - warp.since);
  }
  if (warp.frozen && stops_here(warp)) {
    stop(slot);
    return supervisor_.warp_stops(slot);
  }
  switch (warp.next) {
    case WarpNext::fetch:
      return fetch(slot);
    case WarpNext::compute:
      return settle(slot, warp.code, units_.alu->go_on(slot));
    case WarpNext::deferred: {
      warp.next = WarpNext::fetch;
      take_turn(slot);
      const arch::Operation& operation = *warp.operation;
      return settle(slot, operation.code, unit_of(operation.code).issue_deferred(slot, operation));
    }
    case WarpNext::launch:
      take_turn(slot);
      return settle(slot, warp.code, units_.launches->step(slot));
  }
}

void WarpScheduler::fetch(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  warp.issued_pc = warp.state.pc;
  ++warp.issued;
  static thread_local arch::Operation operation;  // large, and needed by one SM at a time
  if (warp.round != nullptr) warp.round->before(warp.state);
  warp.program->issue(warp.place, warp.state, operation);
  if (warp.round != nullptr) warp.round->after(operation);
  if (operation.code != arch::OpCode::compute) {  // which says by itself what it takes
    take_turn(slot);
    stats_.instructions[static_cast<std::size_t>(warp.unit)]->add();
    stats_.charge(warp.kernel, KernelCount::instructions, 1);
  }
  settle(slot, operation.code, unit_of(operation.code).issue(slot, operation));
}

void WarpScheduler::settle(std::uint32_t slot, arch::OpCode code, const IssueResult& result) {
  switch (result.kind) {
    case IssueResult::Kind::done:
      warps_[slot].write_results(result.ready);
      return prepare(slot, result.next);
    case IssueResult::Kind::ready:
      return prepare(slot, result.next);
    case IssueResult::Kind::blocks:
      return;
    case IssueResult::Kind::fault:
      return supervisor_.fault(slot, code, result.wrong);
  }
}

IssueResult GroupWait::begin(std::uint32_t slot, std::uint32_t open) {
  Warp& warp = warps_[slot];
  const Cycle next = now() + 1;
  if ((warp.*groups_).ready(open, now()) <= next) return IssueResult::done(next, next);
  warp.write_results(next);
  warp.wait = wait_;
  warp.since = next;
  warp.groups_wanted = open;
  consider(slot);
  return IssueResult::blocks();
}

void GroupWait::consider(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  if (warp.wait != wait_) return;
  const Cycle ready = (warp.*groups_).ready(warp.groups_wanted, now());
  if (ready != kNever) scheduler_.resume(slot, ready, stall_);
}

}  // namespace heddle::sm
