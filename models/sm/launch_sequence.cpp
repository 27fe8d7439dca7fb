#include "sm/launch_sequence.h"

#include <algorithm>
#include <type_traits>

#include "common/bits.h"
#include "common/error.h"
#include "sm/faults.h"
#include "sm/global_path.h"

namespace heddle::sm {
namespace {

using arch::ChildLaunch;
using arch::FaultKind;
using arch::LaunchMode;
using arch::MemoryStep;
using arch::OpCode;

constexpr std::uint64_t kMaxStream = 0xFFFF;  // that a TMD can name

std::uint64_t pair_of(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }

std::uint32_t flags_of(const ChildLaunch& child, std::uint32_t tmdqs) {
  return child.stream % tmdqs | static_cast<std::uint32_t>(child.mode) << 8 | (child.head ? 1U << 10 : 0U) |
         child.stream << 16;
}

bool aligned(std::uint64_t address) { return address % 8 == 0; }

// The memory step that the machine of the run is at; without one: no step.
MemoryStep step_of(const LaunchRun& run) {
  return std::visit(
      [](const auto& steps) -> MemoryStep {
        if constexpr (std::is_same_v<std::decay_t<decltype(steps)>, std::monostate>) {
          return {};
        } else {
          return steps.step();
        }
      },
      run.steps);
}

}  // namespace

LaunchNext LaunchSequence::begin(LaunchRun& run, const Cta& cta, Cycle next) {
  const bool has_record = cta.record != 0 && memory_.tasks.count > 0 && memory_.contexts.count > 0;
  if (run.code == OpCode::wait_children) {
    stats_.nested_waits.add();
    if (!has_record) return LaunchNext::of(LaunchNext::Kind::finish, next);
    return look_at_context(run, cta, next);
  }
  if (run.lanes == 0) return LaunchNext::of(LaunchNext::Kind::finish, next);
  if (run.code == OpCode::queue_append) return LaunchNext::of(LaunchNext::Kind::release);
  if (!has_record) {
    return LaunchNext::wrong(FaultKind::child, run.children.empty() ? run.stream : run.children.front().kernel);
  }
  if (run.code != OpCode::launch_child) return look_at_context(run, cta, next);
  for (const ChildLaunch& child : run.children) {
    if (child.mode == LaunchMode::stream) run.stream = std::max<std::uint64_t>(run.stream, child.stream);
  }
  return LaunchNext::of(LaunchNext::Kind::release);  // TSK-14
}

LaunchNext LaunchSequence::released(LaunchRun& run, const Cta& cta, Cycle when) {
  if (run.code == OpCode::launch_child) return look_at_context(run, cta, when);
  if (run.code == OpCode::queue_append) return LaunchNext::to(LaunchStage::begin, when);
  const bool shared = memory_.shared_contexts;
  run.steps =
      arch::WaitSteps(cta.context.address, shared ? 0 : arch::home_of_sm(sm_), !shared && !cta.context.home_here);
  return LaunchNext::to(LaunchStage::wait, when);
}

// What has to be known of the CTA's task and context before operands can be checked.
LaunchNext LaunchSequence::look_at_context(LaunchRun& run, const Cta& cta, Cycle when) const {
  if (run.code == OpCode::launch_child && !cta.context.depth) return LaunchNext::to(LaunchStage::depth, when);
  if (memory_.shared_contexts && !cta.context.here()) return LaunchNext::to(LaunchStage::shared, when);
  if (run.stream > cta.context.streams && cta.context.here() && !run.looked) {
    return LaunchNext::to(LaunchStage::streams, when);
  }
  return check_operands(run, cta, when);
}

LaunchNext LaunchSequence::check_operands(LaunchRun& run, const Cta& cta, Cycle when) const {
  switch (run.code) {
    case OpCode::wait_children:
      if (!cta.context.here()) return LaunchNext::of(LaunchNext::Kind::finish, when);
      return LaunchNext::of(LaunchNext::Kind::release, when);
    case OpCode::stream_destroy:
      if (run.fault_address == 0 && run.stream <= cta.context.streams)
        return LaunchNext::of(LaunchNext::Kind::finish, when);
      run.fault_address = run.stream;
      return LaunchNext::to(LaunchStage::fault, when);
    case OpCode::stream_create:
      return LaunchNext::to(LaunchStage::begin, when);
    default:
      break;
  }
  if (!check_launches(run, cta)) return LaunchNext::to(LaunchStage::fault, when);
  return LaunchNext::to(LaunchStage::begin, when + launch_cycles_);
}

bool LaunchSequence::check_launches(LaunchRun& run, const Cta& cta) const {
  for (std::uint32_t i = 0; i < run.children.size(); ++i) {
    const ChildLaunch& child = run.children[i];
    const bool deep = *cta.context.depth >= memory_.max_depth;  // TSK-06
    const bool empty = child.grid_x == 0 || child.grid_y == 0 || child.grid_z == 0;
    const bool unknown =
        child.mode == LaunchMode::stream && (child.stream > cta.context.streams || child.stream > kMaxStream);
    if (!deep && !empty && !unknown) continue;
    run.lane = bits::nth(run.lanes, i);
    run.fault = deep ? FaultKind::nesting : FaultKind::child;
    run.fault_address = child.kernel;
    return false;
  }
  return true;
}

LaunchNext LaunchSequence::take_task(LaunchRun& run, const Cta& cta, Cycle when) const {
  run.lane = bits::nth(run.lanes, run.index);
  run.steps = arch::TakeSteps(memory_.of(cta.start.subcontext).tasks);
  return LaunchNext::to(LaunchStage::take_task, when);
}

LaunchNext LaunchSequence::begin_one(LaunchRun& run, Cta& cta, Cycle next) {
  if (run.code == OpCode::queue_append) {
    run.lane = bits::nth(run.lanes, run.index);
    const std::uint64_t queue = run.entries[run.index].queue;
    if (!aligned(queue)) return LaunchNext::wrong(FaultKind::misaligned, queue);
    run.steps = arch::AppendSteps(queue);
    return LaunchNext::to(LaunchStage::place, next);
  }
  if (cta.context.state == Cta::Context::State::being_made) {
    run.stage = LaunchStage::elsewhere;
    return LaunchNext::of(LaunchNext::Kind::elsewhere);
  }
  if (cta.context.state == Cta::Context::State::none) {
    cta.context.state = Cta::Context::State::being_made;
    run.steps = arch::TakeSteps(memory_.of(cta.start.subcontext).contexts);
    return LaunchNext::to(LaunchStage::take_context, next);
  }
  if (run.code == OpCode::stream_create) return LaunchNext::to(LaunchStage::create, next);
  return take_task(run, cta, next);
}

// The launch or append of the next lane, if there is one.
LaunchNext LaunchSequence::next_one(LaunchRun& run, Cycle when) {
  const bool launch = run.code == OpCode::launch_child;
  (launch ? stats_.nested_launches : stats_.nested_appends).add();
  ++progress_;
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  if (++run.index == (launch ? run.children.size() : run.entries.size()))
    return LaunchNext::of(LaunchNext::Kind::finish, when);
  return LaunchNext::to(LaunchStage::begin, launch ? when + launch_cycles_ : when);
}

LaunchNext LaunchSequence::context_made(LaunchRun& run, Cta& cta, Cycle when) const {
  cta.context.state = Cta::Context::State::here;
  cta.context.home_here = true;
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  if (run.code == OpCode::stream_create) return LaunchNext::to(LaunchStage::create, when);
  return take_task(run, cta, when);
}

LaunchNext LaunchSequence::answer(LaunchRun& run, Cta& cta, std::uint64_t old, std::uint32_t* registers, Cycle when) {
  LaunchNext next;
  // A step machine is told, and is over or says what follows.
  const auto is_over = [&](auto& steps) {
    const auto* wait = run.stage == LaunchStage::wait ? &std::get<arch::WaitSteps>(run.steps) : nullptr;
    const bool home = wait != nullptr && wait->writes_home() && !wait->was_woken();
    steps.answer(old);
    cta.context.home_here |= home;
    if (steps.over()) return true;
    if constexpr (std::is_same_v<std::decay_t<decltype(steps)>, arch::WaitSteps>) {
      if (steps.waiting()) {
        next = LaunchNext::of(LaunchNext::Kind::children, when);
        return false;
      }
    }
    next = LaunchNext::of(LaunchNext::Kind::again, steps.step().again ? when + memory_.retry : when);
    return false;
  };
  switch (run.stage) {
    case LaunchStage::depth:
      cta.context.depth = static_cast<std::uint32_t>(old >> 32);
      return look_at_context(run, cta, when);
    case LaunchStage::shared:
      if (old == 0) return LaunchNext::to(LaunchStage::fault, when);
      cta.context.address = old;
      cta.context.state = Cta::Context::State::here;
      return look_at_context(run, cta, when);
    case LaunchStage::streams:
      cta.context.streams = std::max(cta.context.streams, old);
      run.looked = true;
      return check_operands(run, cta, when);
    case LaunchStage::take_context:
      if (auto& steps = std::get<arch::TakeSteps>(run.steps); is_over(steps)) {
        cta.context.address = steps.record();
        return LaunchNext::to(LaunchStage::write_context, when);
      }
      return next;
    case LaunchStage::write_context:
      return LaunchNext::to(LaunchStage::count_context, when);
    case LaunchStage::count_context:
      return context_made(run, cta, when);
    case LaunchStage::create:
      if (registers != nullptr) {
        bits::for_each(run.lanes, [&](std::uint32_t lane) { registers[lane] = static_cast<std::uint32_t>(old + 1); });
      }
      cta.context.streams = std::max(cta.context.streams, old + 1);
      stats_.nested_streams.add();
      return LaunchNext::of(LaunchNext::Kind::finish, when);
    case LaunchStage::take_task:
      if (auto& steps = std::get<arch::TakeSteps>(run.steps); is_over(steps)) {
        run.record = steps.record();
        const bool tail = run.children[run.index].mode == LaunchMode::tail;
        return LaunchNext::to(tail ? LaunchStage::write_task : LaunchStage::count_task, when);
      }
      return next;
    case LaunchStage::count_task:
      return LaunchNext::to(LaunchStage::write_task, when);
    case LaunchStage::write_task: {
      const ChildLaunch& child = run.children[run.index];
      if (child.mode == LaunchMode::fire_and_forget) return LaunchNext::to(LaunchStage::start, when);
      const std::uint64_t owner = cta.record;
      const std::uint64_t tmdq =
          cta.context.address + arch::context::kTmdqs + std::uint64_t{8} * (child.stream % memory_.tmdqs);
      run.steps = child.mode == LaunchMode::stream
                      ? arch::PushSteps(tmdq, run.record)
                      : arch::PushSteps(owner + arch::tmd::kTailLast, run.record, owner + arch::tmd::kTailFirst);
      return LaunchNext::to(LaunchStage::push, when);
    }
    case LaunchStage::push:
      if (auto& steps = std::get<arch::PushSteps>(run.steps); is_over(steps)) {
        if (steps.starts()) return LaunchNext::to(LaunchStage::start, when);
        if (steps.previous() != 0 || run.children[run.index].mode == LaunchMode::tail) {
          tasks_.send({protocol::ChildPacket::Kind::queued, run.record, steps.previous(), run.issued});
        }
        return next_one(run, when);
      }
      return next;
    case LaunchStage::place:
      if (auto& steps = std::get<arch::AppendSteps>(run.steps); is_over(steps)) {
        run.fault_address = run.entries[run.index].queue;
        run.fault = steps.closed() ? FaultKind::queue_closed : FaultKind::misaligned;
        const bool wrong = steps.closed() || !aligned(steps.entry());
        return LaunchNext::to(wrong ? LaunchStage::fault : LaunchStage::write_entry, when);
      }
      return next;
    case LaunchStage::write_entry:
      return LaunchNext::to(LaunchStage::turn, when);
    case LaunchStage::turn:
      return LaunchNext::to(LaunchStage::appended, when);
    case LaunchStage::wait:
      return is_over(std::get<arch::WaitSteps>(run.steps)) ? LaunchNext::of(LaunchNext::Kind::finish, when) : next;
    default:
      HEDDLE_CHECK(false, "a memory step of a launch ended that nobody made");
      return next;
  }
}

LaunchNext LaunchSequence::tell(LaunchRun& run, Cycle next) {
  if (run.stage == LaunchStage::start) {
    tasks_.send({protocol::ChildPacket::Kind::start, run.record, 0, run.issued});
  } else {
    tasks_.send({protocol::ChildPacket::Kind::appended, run.entries[run.index].queue,
                 std::get<arch::AppendSteps>(run.steps).ticket(), run.issued});
  }
  return next_one(run, next);
}

MemoryStep LaunchSequence::step(const LaunchRun& run, const Cta& cta) const {
  switch (run.stage) {
    case LaunchStage::depth:  // with the priority in front of it
      return {MemoryStep::Kind::read, cta.record + arch::tmd::kPriority};
    case LaunchStage::shared:
      return {MemoryStep::Kind::read, cta.record + arch::tmd::kSharedContext};
    case LaunchStage::streams:
      return {MemoryStep::Kind::read, cta.context.address + arch::context::kStreams};
    case LaunchStage::count_context:
      return {MemoryStep::Kind::add, cta.record + arch::tmd::kOpen, 1};
    case LaunchStage::create:
      return {MemoryStep::Kind::add, cta.context.address + arch::context::kStreams, 1};
    case LaunchStage::count_task:
      return {MemoryStep::Kind::add, cta.context.address + arch::context::kWork, 1};
    case LaunchStage::turn: {
      const auto& steps = std::get<arch::AppendSteps>(run.steps);
      return {MemoryStep::Kind::write, steps.entry(), arch::turn_ready(steps.ticket(), steps.capacity())};
    }
    default:
      return step_of(run);
  }
}

LaunchLine LaunchSequence::line(const LaunchRun& run, const Cta& cta) const {
  if (run.stage == LaunchStage::write_entry) {
    const auto& data = run.entries[run.index].data;
    return {std::get<arch::AppendSteps>(run.steps).entry() + arch::kQueueEntryData, {data.begin(), data.end()}};
  }
  std::vector<std::uint64_t> words(arch::kRecordBytes / 8, 0);
  if (run.stage == LaunchStage::write_context) {
    words[arch::context::kWork / 8] = 1;
    words[arch::context::kOwner / 8] = cta.record;
    words[arch::context::kHome / 8] = arch::home_of_sm(sm_);
    return {cta.context.address, words};
  }
  const ChildLaunch& child = run.children[run.index];
  words[arch::tmd::kContext / 8] = cta.context.address;
  words[arch::tmd::kKernel / 8] = child.kernel;
  words[arch::tmd::kGridX / 8] = pair_of(child.grid_x, child.grid_y);
  words[arch::tmd::kGridZ / 8] = pair_of(child.grid_z, flags_of(child, memory_.tmdqs));
  words[arch::tmd::kPriority / 8] = pair_of(static_cast<std::uint32_t>(child.priority), *cta.context.depth + 1);
  words[arch::tmd::kOpen / 8] = 1;
  std::copy(child.args.begin(), child.args.end(), words.begin() + arch::tmd::kArgs / 8);
  return {run.record, words};
}

// A ticket whose entry will never come.
void LaunchSequence::tell_lost_entry(const LaunchRun& run) {
  const bool writing =
      run.stage == LaunchStage::place || run.stage == LaunchStage::write_entry || run.stage == LaunchStage::turn;
  if (run.code != OpCode::queue_append || !writing) return;
  const auto& steps = std::get<arch::AppendSteps>(run.steps);
  if (!steps.has_ticket()) return;
  tasks_.send({protocol::ChildPacket::Kind::lost_entry, run.entries[run.index].queue, steps.ticket(), run.issued});
}

arch::WaitSteps LaunchSequence::woken_wait(const Cta& cta) const {
  arch::WaitSteps steps(cta.context.address, arch::home_of_sm(sm_), false);
  steps.answer(2);  // it has found work
  steps.woken();
  return steps;
}

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
