#include "sm/launch_sequence.h"

#include <algorithm>
#include <type_traits>

#include "common/bits.h"
#include "common/error.h"
#include "sm/faults.h"
#include "sm/global_path.h"

namespace heddle::sm {
namespace {

using arch::FaultKind;
using arch::MemoryStep;
using arch::OpCode;

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

void put_result(const LaunchRun& run, std::uint32_t* registers, std::uint32_t lane, std::uint64_t value) {
  if (registers == nullptr) return;
  registers[lane] = static_cast<std::uint32_t>(value);
  const bool handle = run.code == OpCode::launch_child || run.code == OpCode::event_create;
  if (handle) registers[arch::kWarpLanes + lane] = static_cast<std::uint32_t>(value >> 32);
}

bool waits_for_entry(const LaunchRun* run) {
  if (run == nullptr || run->stage != LaunchStage::place) return false;
  const auto& steps = std::get<arch::AppendSteps>(run->steps);
  if (!steps.has_ticket() || steps.over()) return false;
  const MemoryStep step = steps.step();
  return step.again || step.address != steps.entry();  // between two looks at the entry: is the queue still open?
}

LaunchNext LaunchSequence::begin(LaunchRun& run, const Cta& cta, Cycle next) {
  const bool has_record = cta.record != 0 && memory_.any();
  if (run.code == OpCode::wait_children) {
    tools_.stats.nested_waits.add();
    if (!has_record) return LaunchNext::of(LaunchNext::Kind::finish, next);
    return look_at_context(run, cta, next);
  }
  if (run.lanes == 0) return LaunchNext::of(LaunchNext::Kind::finish, next);
  const bool of_queue = run.code == OpCode::queue_append || run.code == OpCode::queue_close;
  if (of_queue) return LaunchNext::of(LaunchNext::Kind::release);
  if (!has_record) {
    std::uint64_t named = run.named.empty() ? 0 : run.named.front();
    if (!run.marks.empty()) named = run.marks.front().event;
    return LaunchNext::wrong(FaultKind::child, run.children.empty() ? named : run.children.front().kernel);
  }
  if (run.code != OpCode::launch_child || !ChildLaunches::publish(run)) return look_at_context(run, cta, next);
  return LaunchNext::of(LaunchNext::Kind::release);  // TSK-14
}

LaunchNext LaunchSequence::released(LaunchRun& run, const Cta& cta, Cycle when) {
  if (run.code == OpCode::launch_child) return look_at_context(run, cta, when);
  if (run.code == OpCode::queue_append) return LaunchNext::to(LaunchStage::begin, when);
  if (run.code == OpCode::queue_close) return LaunchNext::to(LaunchStage::close, when);
  return begin_wait(run, cta, when);
}

LaunchNext LaunchSequence::begin_wait(LaunchRun& run, const Cta& cta, Cycle when) const {
  const bool shared = memory_.shared_contexts;
  std::vector<arch::WaitTarget> targets;
  for (const std::uint64_t value : run.named) {
    targets.push_back(
        run.wait == arch::ChildWait::launch
            ? arch::WaitTarget::of_launch(value)
            : arch::WaitTarget::of_tmdq(cta.context.address, arch::tmdq_of(static_cast<std::uint32_t>(value))));
  }
  run.steps = arch::WaitSteps(cta.context.address, shared ? 0 : arch::home_of_sm(tools_.sm),
                              !shared && !cta.context.home_here, std::move(targets));
  return LaunchNext::to(LaunchStage::wait, when);
}

// What has to be known of the CTA's task and context before operands can be checked.
LaunchNext LaunchSequence::look_at_context(LaunchRun& run, const Cta& cta, Cycle when) const {
  const bool launch = run.code == OpCode::launch_child;
  if (launch && !cta.context.depth) return LaunchNext::to(LaunchStage::depth, when);
  if (run.code == OpCode::event_create || run.code == OpCode::event_destroy) return check_operands(run, cta, when);
  const bool needs_context = !launch || ChildLaunches::publish(run);
  if (needs_context && memory_.shared_contexts && !cta.context.here() && !run.no_context) {
    return LaunchNext::to(LaunchStage::shared, when);
  }
  if (!streams_.known(run, cta)) return LaunchNext::to(LaunchStage::streams, when);
  return check_operands(run, cta, when);
}

LaunchNext LaunchSequence::check_operands(LaunchRun& run, const Cta& cta, Cycle when) const {
  switch (run.code) {
    case OpCode::wait_children:
      if (!check_waits(run, cta)) return LaunchNext::to(LaunchStage::fault, when);
      if (!cta.context.here() || (run.wait == arch::ChildWait::launch && run.named.empty())) {
        return LaunchNext::of(LaunchNext::Kind::finish, when);
      }
      return LaunchNext::of(LaunchNext::Kind::release, when);
    case OpCode::stream_destroy:
      if (!check_waits(run, cta)) return LaunchNext::to(LaunchStage::fault, when);
      return streams_.destroy(run, cta, when);
    case OpCode::stream_create:
      return LaunchNext::to(LaunchStage::begin, when);
    case OpCode::event_create:
    case OpCode::event_destroy:
    case OpCode::event_record:
    case OpCode::stream_wait:
      return LaunchNext::to(events_.check(run, cta, streams_) ? LaunchStage::begin : LaunchStage::fault, when);
    default:
      break;
  }
  if (!launches_.check(run, cta, streams_)) return LaunchNext::to(LaunchStage::fault, when);
  return call(run, when);
}

// Streams that are named live (TSK-11), and launches are those of the subcontext's programs.
bool LaunchSequence::check_waits(LaunchRun& run, const Cta& cta) const {
  for (const std::uint64_t value : run.named) {
    run.fault_address = value;
    const bool known =
        run.wait == arch::ChildWait::launch
            ? cta.context.here() && memory_.of(cta.start.subcontext).tasks.has(arch::record_of_handle(value))
            : value <= ~std::uint32_t{0} && streams_.is_live(static_cast<std::uint32_t>(value), cta);
    if (!known || (value == 0 && run.code == OpCode::stream_destroy)) return false;
  }
  return true;
}

// The device runtime runs for the launch of one lane.
LaunchNext LaunchSequence::call(LaunchRun& run, Cycle when) const {
  run.instructions = instructions_;
  return LaunchNext::to(instructions_ > 0 ? LaunchStage::call : LaunchStage::begin, when);
}

LaunchNext LaunchSequence::called(LaunchRun& run, Cycle when) {
  ++tools_.progress;
  if (--run.instructions > 0) return LaunchNext::of(LaunchNext::Kind::again, when);
  return LaunchNext::to(LaunchStage::begin, when);
}

LaunchNext LaunchSequence::begin_one(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle next) {
  if (run.code == OpCode::queue_append) return begin_append(run, next);
  if (run.code == OpCode::event_create || run.code == OpCode::event_destroy) return events_.begin(run, cta, next);
  if (run.code == OpCode::launch_child && run.children[run.index].queue != 0) {
    return launches_.look_at_queue(run, next);
  }
  return begin_inside(run, cta, registers, next);
}

// In its context, if it needs one.
LaunchNext LaunchSequence::begin_inside(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle next) {
  if (run.code == OpCode::launch_child && !ChildLaunches::needs_context(run.children[run.index])) {
    return launches_.take(run, cta, next);
  }
  if (run.no_context) return refused(run, registers, next);
  if (!cta.context.here()) return begin_context(run, cta, next);
  return go_on(run, cta, registers, next);
}

LaunchNext LaunchSequence::begin_append(LaunchRun& run, Cycle next) {
  run.lane = bits::nth(run.lanes, run.index);
  const std::uint64_t queue = run.entries[run.index].queue;
  if (!is_word_aligned(queue)) return LaunchNext::wrong(FaultKind::misaligned, queue);
  run.steps = arch::AppendSteps(queue);
  return LaunchNext::to(LaunchStage::place, next);
}

LaunchNext LaunchSequence::begin_context(LaunchRun& run, Cta& cta, Cycle next) const {
  if (cta.context.state == Cta::Context::State::being_made) {
    run.stage = LaunchStage::elsewhere;
    return LaunchNext::of(LaunchNext::Kind::elsewhere);
  }
  cta.context.state = Cta::Context::State::being_made;
  run.steps = arch::TakeSteps(memory_.of(cta.start.subcontext).contexts);
  return LaunchNext::to(LaunchStage::take_context, next);
}

// There is a context.
LaunchNext LaunchSequence::go_on(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when) {
  if (run.code == OpCode::stream_create) return streams_.create(run, cta, registers, when);
  if (run.code != OpCode::launch_child) return events_.begin_mark(run, when);
  return launches_.take(run, cta, when);
}

LaunchNext LaunchSequence::context_made(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle when) {
  cta.context.state = Cta::Context::State::here;
  cta.context.home_here = true;
  cta.context.streams = {};
  cta.context.streams.known = ~std::uint64_t{0};
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  return go_on(run, cta, registers, when);
}

// No record or context is free, or no stream (TSK-12).
LaunchNext LaunchSequence::refused(LaunchRun& run, std::uint32_t* registers, Cycle when) {
  if (run.code == OpCode::stream_create) return streams_.refused(run, registers, when);
  if (run.code != OpCode::launch_child) return events_.refused(run, registers, when);
  bool over = false;
  const LaunchNext next = launches_.refused(run, registers, when, over);
  return over ? after_one(run, when) : next;
}

// The task is started now, or waits in its TMDQ.
LaunchNext LaunchSequence::pushed(LaunchRun& run, Cycle when) {
  return launches_.pushed(run) ? LaunchNext::to(LaunchStage::start, when) : next_one(run, when);
}

// What the next lane does, if there is one.
LaunchNext LaunchSequence::next_one(LaunchRun& run, Cycle when) {
  if (run.code == OpCode::launch_child) tools_.stats.nested_launches.add();
  if (run.code == OpCode::queue_append) tools_.stats.nested_appends.add();
  if (!run.marks.empty()) tools_.stats.nested_marks.add();
  ++tools_.progress;
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  return after_one(run, when);
}

LaunchNext LaunchSequence::after_one(LaunchRun& run, Cycle when) const {
  const bool launch = run.code == OpCode::launch_child;
  const std::size_t all = run.marks.empty() ? run.entries.size() : run.marks.size();
  if (++run.index == (launch ? run.children.size() : all)) return LaunchNext::of(LaunchNext::Kind::finish, when);
  return launch ? call(run, when) : LaunchNext::to(LaunchStage::begin, when);
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
      cta.context.priority = static_cast<std::int32_t>(old);
      return look_at_context(run, cta, when);
    case LaunchStage::shared:
      run.no_context = old == 0;
      cta.context.address = old;
      if (old != 0) cta.context.state = Cta::Context::State::here;
      return look_at_context(run, cta, when);
    case LaunchStage::streams:
      streams_.looked_at(run, cta, old);
      return look_at_context(run, cta, when);
    case LaunchStage::take_context:
      if (auto& steps = std::get<arch::TakeSteps>(run.steps); is_over(steps)) {
        cta.context.address = steps.record();
        if (steps.spilled()) tools_.stats.nested_spilled.add();
        if (steps.record() != 0) return LaunchNext::to(LaunchStage::write_context, when);
        run.no_context = true;
        cta.context.state = Cta::Context::State::none;
        return refused(run, registers, when);
      }
      return next;
    case LaunchStage::write_context:
      run.written += kLineWords * sizeof(std::uint64_t);
      if (run.written < arch::context::bytes(memory_.tmdqs)) return LaunchNext::to(LaunchStage::write_context, when);
      return LaunchNext::to(LaunchStage::count_context, when);
    case LaunchStage::count_context:
      return context_made(run, cta, registers, when);
    case LaunchStage::create:
      return streams_.created(run, cta, old, registers, when);
    case LaunchStage::destroy:
      return streams_.destroyed(run, cta, old, when);
    case LaunchStage::take_task:
      if (auto& steps = std::get<arch::TakeSteps>(run.steps); is_over(steps)) {
        if (steps.record() == 0) return refused(run, registers, when);
        if (run.code != OpCode::launch_child) return events_.taken(run, when);
        return launches_.taken(run, registers, when);
      }
      return next;
    case LaunchStage::count_task:
      return LaunchNext::to(LaunchStage::write_task, when);
    case LaunchStage::write_task:
      if (run.code != OpCode::launch_child) return events_.written(run, cta, registers, when);
      return launches_.written(run, cta, when);
    case LaunchStage::look_queue:
      if (!launches_.queue_open(run, old)) return LaunchNext::to(LaunchStage::fault, when);
      return begin_inside(run, cta, registers, when);
    case LaunchStage::look_event:
      return events_.looked(run, cta, old, when);
    case LaunchStage::latest: {
      bool over = false;
      next = events_.latest(run, cta, old, when, over);
      return over ? next_one(run, when) : next;
    }
    case LaunchStage::publish:
      return pushed(run, when);
    case LaunchStage::end_event:
      return events_.ended(run, cta, old, when);
    case LaunchStage::give_event:
      return events_.given(run, cta, old, when);
    case LaunchStage::close:
      run.fault_address = run.entries.front().queue;
      run.fault = FaultKind::queue_closed;
      return LaunchNext::to(old == 0 ? LaunchStage::closed : LaunchStage::fault, when);
    case LaunchStage::push:
      if (auto& steps = std::get<arch::PushSteps>(run.steps); is_over(steps)) {
        if (run.code == OpCode::event_record) return LaunchNext::to(LaunchStage::publish, when);
        return pushed(run, when);
      }
      return next;
    case LaunchStage::place:
      if (auto& steps = std::get<arch::AppendSteps>(run.steps); is_over(steps)) {
        run.fault_address = run.entries[run.index].queue;
        run.fault = steps.closed() ? FaultKind::queue_closed : FaultKind::misaligned;
        const bool wrong = steps.closed() || !is_word_aligned(steps.entry());
        return LaunchNext::to(wrong ? LaunchStage::fault : LaunchStage::write_entry, when);
      }
      return next;
    case LaunchStage::write_entry:
      return LaunchNext::to(LaunchStage::turn, when);
    case LaunchStage::turn:
      return LaunchNext::to(LaunchStage::appended, when);
    case LaunchStage::wait:
      if (auto& steps = std::get<arch::WaitSteps>(run.steps); is_over(steps)) {
        if (!steps.in_vain()) return LaunchNext::of(LaunchNext::Kind::finish, when);
        run.fault_address = steps.targets().front().handle();
        return LaunchNext::to(LaunchStage::fault, when);
      }
      return next;
    default:
      HEDDLE_CHECK(false, "a memory step of a launch ended that nobody made");
      return next;
  }
}

LaunchNext LaunchSequence::tell(LaunchRun& run, Cycle next) {
  if (run.stage == LaunchStage::start) {
    launches_.tell_start(run);
  } else if (run.stage == LaunchStage::closed) {
    tools_.tasks.send({protocol::ChildPacket::Kind::enough, run.entries.front().queue, 0, run.issued});
    run.begun = false;
    ++tools_.progress;
    return LaunchNext::of(LaunchNext::Kind::finish, next);
  } else {
    tools_.tasks.send({protocol::ChildPacket::Kind::appended, run.entries[run.index].queue,
                       std::get<arch::AppendSteps>(run.steps).ticket(), run.issued});
  }
  return next_one(run, next);
}

MemoryStep LaunchSequence::step(LaunchRun& run, const Cta& cta) const {
  switch (run.stage) {
    case LaunchStage::depth:  // with the priority in front of it
      return {MemoryStep::Kind::read, cta.record + arch::tmd::kPriority};
    case LaunchStage::shared:
      return {MemoryStep::Kind::read, cta.record + arch::tmd::kSharedContext};
    case LaunchStage::count_context:
      return {MemoryStep::Kind::add, cta.record + arch::tmd::kOpen, 1};
    case LaunchStage::streams:
    case LaunchStage::create:
    case LaunchStage::destroy:
      return streams_.step(run, cta);
    case LaunchStage::count_task:
      return ChildLaunches::count(cta);
    case LaunchStage::look_queue:
      return {MemoryStep::Kind::read, run.children[run.index].queue + arch::queue::kTickets};
    case LaunchStage::close:
      return {MemoryStep::Kind::exchange, run.entries.front().queue + arch::queue::kEnough, 1};
    case LaunchStage::look_event:
    case LaunchStage::latest:
    case LaunchStage::publish:
    case LaunchStage::end_event:
    case LaunchStage::give_event:
      return events_.step(run);
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
  if (run.stage == LaunchStage::write_context) {
    const std::uint64_t left = (arch::context::bytes(memory_.tmdqs) - run.written) / sizeof(std::uint64_t);
    std::vector<std::uint64_t> part(std::min<std::uint64_t>(left, kLineWords), 0);
    if (run.written == 0) {
      part[arch::context::kWork / 8] = 1;
      part[arch::context::kOwner / 8] = cta.record;
      part[arch::context::kHome / 8] = arch::home_of_sm(tools_.sm);
    }
    return {cta.context.address + run.written, part};
  }
  return run.code == OpCode::launch_child ? launches_.line(run, cta) : events_.line(run, cta);
}

// A ticket whose entry will never come.
void LaunchSequence::tell_lost_entry(const LaunchRun& run) {
  const bool writing =
      run.stage == LaunchStage::place || run.stage == LaunchStage::write_entry || run.stage == LaunchStage::turn;
  if (run.code != OpCode::queue_append || !writing) return;
  const auto& steps = std::get<arch::AppendSteps>(run.steps);
  if (!steps.has_ticket()) return;
  tools_.tasks.send(
      {protocol::ChildPacket::Kind::lost_entry, run.entries[run.index].queue, steps.ticket(), run.issued});
}

arch::WaitSteps LaunchSequence::woken_wait(const Cta& cta, const std::vector<arch::WaitTarget>& targets) const {
  const std::uint64_t home = memory_.shared_contexts ? 0 : arch::home_of_sm(tools_.sm);
  return arch::WaitSteps::counted(cta.context.address, home, targets);
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
