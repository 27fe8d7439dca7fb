// Device-side launches and their like: a warp does one memory step after another, each an access of its own that takes
// its turn at the memory unit (TSK-13).
#include <algorithm>
#include <type_traits>

#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

using arch::FaultKind;
using arch::MemoryStep;
using arch::OpCode;
using arch::Operation;

bool takes_memory(NestedStage stage) {
  switch (stage) {
    case NestedStage::begin:
    case NestedStage::start:
    case NestedStage::appended:
    case NestedStage::fault:
      return false;
    default:
      return true;
  }
}

// Of the walk that the run is in; of none: no step.
MemoryStep step_of(const NestedRun& run) {
  return std::visit(
      [](const auto& walk) -> MemoryStep {
        if constexpr (std::is_same_v<std::decay_t<decltype(walk)>, std::monostate>) {
          return {};
        } else {
          return walk.step();
        }
      },
      run.walk);
}

// Queues are memory of the program; all else belongs to the machine (MEM-04).
bool is_physical(const NestedRun& run) { return run.code != OpCode::queue_append; }

void put_word(Operation& operation, std::uint32_t lane, std::uint64_t value) {
  operation.data[lane][0] = static_cast<std::uint32_t>(value);
  operation.data[lane][1] = static_cast<std::uint32_t>(value >> 32);
}

// Strong: the L2 serves it.
void fill_access(Operation& operation, OpCode code) {
  operation = Operation{};
  operation.code = code;
  operation.unit = arch::Unit::memory;
  operation.width = 8;
  operation.type = arch::ValueType::u64;
  operation.order = arch::Order::relaxed;
  operation.scope = arch::Scope::gpu;
}

}  // namespace

void WarpEngine::run_nested(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  warp.nested = std::make_unique<NestedRun>();
  NestedRun& run = *warp.nested;
  run.code = operation.code;
  run.lanes = operation.lanes;
  run.destination = operation.destination;
  run.children = operation.children;
  run.entries = operation.entries;
  run.lane = operation.lanes == 0 ? 0 : static_cast<std::uint32_t>(__builtin_ctz(operation.lanes));
  run.issued = domain_.now();
  if (operation.code == OpCode::stream_destroy) {
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      const std::uint32_t number = operation.data[lane][0];
      run.stream = std::max<std::uint64_t>(run.stream, number);
      if (number == 0) run.fault_address = 1;  // stream 0 is always there
    }
  }
  const std::size_t registers = std::size_t{warp.program->registers() + kNestedRegisters} * arch::kWarpLanes;
  if (warp.state.registers.size() < registers) warp.state.registers.resize(registers);
  warp.since = domain_.now() + 1;
  begin_nested(slot);
}

// The next step can be made from `when` on, when the warp has its turn.
void WarpEngine::nested_ready(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const NestedRun& run = *warp.nested;
  const Cycle from = std::max({when, warp.since, domain_.now()});
  (run.stage == NestedStage::wait ? stats_.stall_children : stats_.stall_launch).add(from - warp.since);
  warp.since = from;
  warp.wait = WarpWait::issue;
  warp.unit = takes_memory(run.stage) ? arch::Unit::memory : arch::Unit::none;
  partition_of(slot).ready(slot / kPartitions, from, warp.unit);
  wake(slot);
}

void WarpEngine::nested_goes_on(std::uint32_t slot, NestedStage stage, Cycle when) {
  warps_[slot].nested->stage = stage;
  nested_ready(slot, when);
}

// The warp has its turn.
void WarpEngine::nested_step(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  NestedRun& run = *warp.nested;
  const Cta& cta = ctas_[warp.cta];
  partition_of(slot).issued(slot / kPartitions, domain_.now(), 1, 1);
  partition_of(slot).block(slot / kPartitions);
  warp.since = domain_.now() + 1;
  issuing_code_ = run.code;
  const std::uint64_t record = cta.start.record;
  switch (run.stage) {
    case NestedStage::depth:  // with the priority in front of it
      return nested_ask(slot, {MemoryStep::Kind::read, record + arch::tmd::kPriority});
    case NestedStage::shared:
      return nested_ask(slot, {MemoryStep::Kind::read, record + arch::tmd::kSharedContext});
    case NestedStage::streams:
      return nested_ask(slot, {MemoryStep::Kind::read, cta.context + arch::context::kStreams});
    case NestedStage::begin:
      return begin_launch(slot);
    case NestedStage::take_context:
    case NestedStage::take_task:
    case NestedStage::push:
    case NestedStage::place:
    case NestedStage::wait:
      return nested_ask(slot, step_of(run));
    case NestedStage::write_context:
      return write_context(slot);
    case NestedStage::count_context:
      return nested_ask(slot, {MemoryStep::Kind::add, record + arch::tmd::kOpen, 1});
    case NestedStage::create:
      return nested_ask(slot, {MemoryStep::Kind::add, cta.context + arch::context::kStreams, 1});
    case NestedStage::count_task:
      return nested_ask(slot, {MemoryStep::Kind::add, cta.context + arch::context::kWork, 1});
    case NestedStage::write_task:
      return write_task(slot);
    case NestedStage::write_entry:
      return write_entry(slot);
    case NestedStage::turn: {
      const auto& walk = std::get<arch::AppendSteps>(run.walk);
      return nested_ask(slot,
                        {MemoryStep::Kind::write, walk.entry(), arch::turn_ready(walk.ticket(), walk.capacity())});
    }
    case NestedStage::start:
      host_.tell_tasks({protocol::ChildPacket::Kind::start, run.record, 0, run.issued});
      return next_launch(slot, domain_.now() + 1);
    case NestedStage::appended:
      host_.tell_tasks({protocol::ChildPacket::Kind::appended, run.entries[run.index].queue,
                        std::get<arch::AppendSteps>(run.walk).ticket(), run.issued});
      return next_launch(slot, domain_.now() + 1);
    case NestedStage::fault:
      return nested_wrong(slot, run.fault, run.fault_address);
    case NestedStage::release:
    case NestedStage::elsewhere:
      break;
  }
  HEDDLE_CHECK(false, "a warp had a turn in the middle of a launch that waits for something");
}

// What has a number that others count on must not stop half-way.
void WarpEngine::nested_ask(std::uint32_t slot, const MemoryStep& step) {
  NestedRun& run = *warps_[slot].nested;
  static thread_local Operation operation;  // large
  const bool read = step.kind == MemoryStep::Kind::read;
  const bool write = step.kind == MemoryStep::Kind::write;
  run.begun |= !read && run.stage != NestedStage::create && run.stage != NestedStage::turn;
  run.asked = step.address;
  if (step.again) stats_.nested_retries.add();
  fill_access(operation, read ? OpCode::load : write ? OpCode::store : OpCode::atomic);
  operation.lanes = arch::LaneMask{1} << run.lane;
  operation.address[run.lane] = step.address;
  put_word(operation, run.lane, step.value);
  if (!write) operation.destination = static_cast<std::uint16_t>(warps_[slot].program->registers());
  if (step.kind == MemoryStep::Kind::exchange) operation.atomic = arch::AtomicKind::exchange;
  if (step.kind == MemoryStep::Kind::compare_exchange) {
    operation.atomic = arch::AtomicKind::compare_exchange;
    operation.compare[run.lane] = step.compare;
  }
  nested_access(slot, operation);
}

// Words that lie behind each other, by one lane each: one access.
void WarpEngine::nested_line(std::uint32_t slot, std::uint64_t address, const std::vector<std::uint64_t>& words) {
  static thread_local Operation operation;
  fill_access(operation, OpCode::store);
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    operation.lanes |= arch::LaneMask{1} << i;
    operation.address[i] = address + std::uint64_t{8} * i;
    put_word(operation, i, words[i]);
  }
  nested_access(slot, operation);
}

void WarpEngine::nested_access(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  NestedRun& run = *warp.nested;
  stats_.nested_steps.add();
  warp.wait = WarpWait::nested;
  run.asking = true;
  warp.stepping = true;
  const MemoryUnit::Result result = memory_.global(operation, slot, domain_.now(), is_physical(run));
  warp.stepping = false;
  cta.last = std::max(cta.last, result.arrival);
  cta.landed = std::max(cta.landed, result.arrival);
  if (result.lost) return nested_drop(slot);
  if (result.open) {
    ++cta.open;
    return;
  }
  run.asking = false;
  nested_answer(slot, result.ready);
}

void WarpEngine::nested_ended(const Access& access, Cycle when) {
  Warp& warp = warps_[access.warp];
  if (warp.nested == nullptr || !warp.nested->asking) return check_end(ctas_[access.cta], domain_.now());
  warp.nested->asking = false;
  nested_answer(access.warp, when);
}

// Memory that device-side launches need has failed: what was begun stays as it is, and the fault stops the CTA.
void WarpEngine::nested_lost(const Access& access) {
  Warp& warp = warps_[access.warp];
  if (warp.nested != nullptr && warp.nested->asking) nested_drop(access.warp);
}

std::uint64_t WarpEngine::nested_word(std::uint32_t slot, std::uint32_t lane) const {
  const Warp& warp = warps_[slot];
  const std::uint32_t* registers = warp.state.of(static_cast<std::uint16_t>(warp.program->registers()));
  return registers[lane] | std::uint64_t{registers[arch::kWarpLanes + lane]} << 32;
}

// The operation is over.
void WarpEngine::nested_finish(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const NestedRun& run = *warp.nested;
  if (run.stopped) return nested_drop(slot);
  if (run.code == OpCode::wait_children && run.stage == NestedStage::wait) memory_.l1().invalidate_all();  // TSK-14
  const Cycle from = std::max(when, warp.since);
  (run.stage == NestedStage::wait ? stats_.stall_children : stats_.stall_launch).add(from - warp.since);
  ++domain_.observation().progress;
  warp.nested.reset();
  finish(slot, from, from);
}

// A ticket whose entry will never come.
void WarpEngine::tell_lost_entry(const NestedRun& run) {
  const bool writing =
      run.stage == NestedStage::place || run.stage == NestedStage::write_entry || run.stage == NestedStage::turn;
  if (run.code != OpCode::queue_append || !writing) return;
  const auto& walk = std::get<arch::AppendSteps>(run.walk);
  if (!walk.has_ticket()) return;
  host_.tell_tasks({protocol::ChildPacket::Kind::lost_entry, run.entries[run.index].queue, walk.ticket(), run.issued});
}

// Nothing more comes of it.
void WarpEngine::nested_drop(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  tell_lost_entry(*warp.nested);
  const bool stopped = warp.nested->stopped;
  warp.nested.reset();
  if (!stopped) {
    warp.wait = WarpWait::access;  // a fault is on its way
    return;
  }
  warp.wait = WarpWait::exited;
  Cta& cta = ctas_[warp.cta];
  --cta.open;
  check_end(cta, domain_.now());
}

void WarpEngine::nested_wrong(std::uint32_t slot, FaultKind kind, std::uint64_t address) {
  const std::uint32_t lane = warps_[slot].nested->lane;
  if (warps_[slot].nested->stopped) return nested_drop(slot);
  warps_[slot].nested.reset();
  fault(slot, kind, lane, address);
}

// Its CTA is killed. What others count on is done to its end: a task that is half launched is launched, a ticket is
// used, a waiter is no longer counted.
void WarpEngine::stop_nested(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  if (warp.nested == nullptr) return;
  NestedRun& run = *warp.nested;
  if (!run.begun) {
    warp.nested.reset();
    return;
  }
  run.stopped = true;
  Cta& cta = ctas_[warp.cta];
  ++cta.open;
  if (auto* walk = std::get_if<arch::WaitSteps>(&run.walk)) walk->give_up();
  if (!run.asking) nested_ready(slot, std::max(domain_.now(), warp.since));
}

// A wake is a hint: those who wait look at the work counter again.
void WarpEngine::on_wake(const protocol::WakePacket& wake) {
  for (Cta& cta : ctas_) {
    if (!cta.running || !cta.has_warps || !cta.has_context() || cta.context != wake.context) continue;
    if (woken_in_save(cta)) continue;
    cta.home_here = false;
    for (const std::uint32_t slot : cta.warps) {
      NestedRun* run = warps_[slot].nested.get();
      if (run == nullptr || run->stage != NestedStage::wait) continue;
      auto& walk = std::get<arch::WaitSteps>(run->walk);
      const bool waited = walk.waiting();
      walk.woken();
      if (waited) nested_ready(slot, domain_.now());
    }
  }
}

// After a restore: it was at wait_children, is still counted as a waiter, and has been woken.
void WarpEngine::begin_wait_children(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const Cta& cta = ctas_[warp.cta];
  warp.nested = std::make_unique<NestedRun>();
  NestedRun& run = *warp.nested;
  run.code = OpCode::wait_children;
  run.stage = NestedStage::wait;
  run.issued = domain_.now();
  run.begun = true;
  arch::WaitSteps walk(cta.context, arch::home_of_sm(place_.id), false);
  walk.answer(2);  // it has found work
  walk.woken();
  run.walk = walk;
  const std::size_t registers = std::size_t{warp.program->registers() + kNestedRegisters} * arch::kWarpLanes;
  if (warp.state.registers.size() < registers) warp.state.registers.resize(registers);
  warp.since = domain_.now();
  nested_ready(slot, domain_.now());
}

}  // namespace heddle::sm
