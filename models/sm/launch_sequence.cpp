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

std::uint64_t pair_of(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }

std::uint32_t flags_of(const ChildLaunch& child, bool waited) {
  return arch::tmdq_of(child.stream) | static_cast<std::uint32_t>(child.mode) << 8 | (child.head ? 1U << 10 : 0U) |
         (waited ? 1U << 11 : 0U) | child.stream << 16;
}

void put_result(const LaunchRun& run, std::uint32_t* registers, std::uint32_t lane, std::uint64_t value) {
  if (registers == nullptr) return;
  registers[lane] = static_cast<std::uint32_t>(value);
  if (run.code == OpCode::launch_child) registers[arch::kWarpLanes + lane] = static_cast<std::uint32_t>(value >> 32);
}

bool aligned(std::uint64_t address) { return address % 8 == 0; }

std::uint64_t bit_of(std::uint32_t stream) { return std::uint64_t{1} << arch::place_of(stream); }

MemoryStep change_stream(const LaunchRun& run, const Cta& cta, std::uint32_t stream, bool lives) {
  return {MemoryStep::Kind::compare_exchange, cta.context.address + arch::context::live_streams(arch::tmdq_of(stream)),
          lives ? run.expected | bit_of(stream) : run.expected & ~bit_of(stream), run.expected};
}

constexpr std::uint32_t kLineWords = arch::kWarpLanes;  // of one access

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
  const bool has_record = cta.record != 0 && memory_.any();
  if (run.code == OpCode::wait_children) {
    stats_.nested_waits.add();
    if (!has_record) return LaunchNext::of(LaunchNext::Kind::finish, next);
    return look_at_context(run, cta, next);
  }
  if (run.lanes == 0) return LaunchNext::of(LaunchNext::Kind::finish, next);
  if (run.code == OpCode::queue_append) return LaunchNext::of(LaunchNext::Kind::release);
  if (!has_record) {
    const std::uint64_t named = run.named.empty() ? 0 : run.named.front();
    return LaunchNext::wrong(FaultKind::child, run.children.empty() ? named : run.children.front().kernel);
  }
  if (run.code != OpCode::launch_child) return look_at_context(run, cta, next);
  return LaunchNext::of(LaunchNext::Kind::release);  // TSK-14
}

LaunchNext LaunchSequence::released(LaunchRun& run, const Cta& cta, Cycle when) {
  if (run.code == OpCode::launch_child) return look_at_context(run, cta, when);
  if (run.code == OpCode::queue_append) return LaunchNext::to(LaunchStage::begin, when);
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
  run.steps = arch::WaitSteps(cta.context.address, shared ? 0 : arch::home_of_sm(sm_),
                              !shared && !cta.context.home_here, std::move(targets));
  return LaunchNext::to(LaunchStage::wait, when);
}

// What has to be known of the CTA's task and context before operands can be checked.
LaunchNext LaunchSequence::look_at_context(LaunchRun& run, const Cta& cta, Cycle when) const {
  if (run.code == OpCode::launch_child && !cta.context.depth) return LaunchNext::to(LaunchStage::depth, when);
  if (memory_.shared_contexts && !cta.context.here() && !run.no_context) {
    return LaunchNext::to(LaunchStage::shared, when);
  }
  if (!streams_known(run, cta)) return LaunchNext::to(LaunchStage::streams, when);
  return check_operands(run, cta, when);
}

// Other CTAs create and destroy streams of a shared context: they are looked at each time. `run.created` is the stream
// that is to be looked at.
bool LaunchSequence::streams_known(LaunchRun& run, const Cta& cta) const {
  if (!cta.context.here() || run.wait == arch::ChildWait::launch) return true;
  for (const std::uint64_t value : run.named) {
    const auto stream = static_cast<std::uint32_t>(value);
    const std::uint32_t tmdq = arch::tmdq_of(stream);
    if (!arch::is_stream(stream, memory_.tmdqs) || (run.looked >> tmdq & 1) != 0) continue;
    if (!memory_.shared_contexts && cta.context.is_known(tmdq)) continue;
    run.created = stream;
    return false;
  }
  return true;
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
      return destroy(run, cta, when);
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
    const bool unknown = child.mode == LaunchMode::stream && !is_live(child.stream, cta);
    if (!deep && !empty && !unknown) continue;
    run.lane = bits::nth(run.lanes, i);
    run.fault = deep ? FaultKind::nesting : FaultKind::child;
    run.fault_address = child.kernel;
    return false;
  }
  return true;
}

bool LaunchSequence::is_live(std::uint32_t stream, const Cta& cta) const {
  return stream == 0 || (arch::is_stream(stream, memory_.tmdqs) && cta.context.here() && cta.context.lives(stream));
}

// Streams that are named live (TSK-11), and launches are those of the subcontext's programs.
bool LaunchSequence::check_waits(LaunchRun& run, const Cta& cta) const {
  for (const std::uint64_t value : run.named) {
    run.fault_address = value;
    const bool known =
        run.wait == arch::ChildWait::launch
            ? cta.context.here() && memory_.of(cta.start.subcontext).tasks.has(arch::record_of_handle(value))
            : value <= ~std::uint32_t{0} && is_live(static_cast<std::uint32_t>(value), cta);
    if (!known || (value == 0 && run.code == OpCode::stream_destroy)) return false;
  }
  return true;
}

LaunchNext LaunchSequence::take_task(LaunchRun& run, const Cta& cta, Cycle when) const {
  run.lane = bits::nth(run.lanes, run.index);
  run.steps = arch::TakeSteps(memory_.of(cta.start.subcontext).tasks);
  return LaunchNext::to(LaunchStage::take_task, when);
}

LaunchNext LaunchSequence::begin_one(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle next) {
  if (run.code == OpCode::queue_append) {
    run.lane = bits::nth(run.lanes, run.index);
    const std::uint64_t queue = run.entries[run.index].queue;
    if (!aligned(queue)) return LaunchNext::wrong(FaultKind::misaligned, queue);
    run.steps = arch::AppendSteps(queue);
    return LaunchNext::to(LaunchStage::place, next);
  }
  if (run.no_context) return refused(run, registers, next);
  if (cta.context.state == Cta::Context::State::being_made) {
    run.stage = LaunchStage::elsewhere;
    return LaunchNext::of(LaunchNext::Kind::elsewhere);
  }
  if (cta.context.state == Cta::Context::State::none) {
    cta.context.state = Cta::Context::State::being_made;
    run.steps = arch::TakeSteps(memory_.of(cta.start.subcontext).contexts);
    return LaunchNext::to(LaunchStage::take_context, next);
  }
  if (run.code == OpCode::stream_create) return create(run, cta, registers, next);
  return take_task(run, cta, next);
}

// No record or context is free, or no stream (TSK-12): a program that asks for the result is told, any other is wrong.
LaunchNext LaunchSequence::refused(LaunchRun& run, std::uint32_t* registers, Cycle when) {
  stats_.nested_refused.add();
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  if (run.code == OpCode::stream_create) {
    bits::for_each(run.lanes, [&](std::uint32_t lane) { put_result(run, registers, lane, arch::kNoStream); });
    return LaunchNext::of(LaunchNext::Kind::finish, when);
  }
  run.lane = bits::nth(run.lanes, run.index);
  if (registers == nullptr) {
    run.fault = FaultKind::launch_limit;
    run.fault_address = run.children[run.index].kernel;
    return LaunchNext::to(LaunchStage::fault, when);
  }
  put_result(run, registers, run.lane, 0);
  ++progress_;
  return after_one(run, when);
}

// The launch or append of the next lane, if there is one.
LaunchNext LaunchSequence::next_one(LaunchRun& run, Cycle when) {
  const bool launch = run.code == OpCode::launch_child;
  (launch ? stats_.nested_launches : stats_.nested_appends).add();
  ++progress_;
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  return after_one(run, when);
}

LaunchNext LaunchSequence::after_one(LaunchRun& run, Cycle when) const {
  const bool launch = run.code == OpCode::launch_child;
  if (++run.index == (launch ? run.children.size() : run.entries.size()))
    return LaunchNext::of(LaunchNext::Kind::finish, when);
  return LaunchNext::to(LaunchStage::begin, launch ? when + launch_cycles_ : when);
}

// The TMDQ with the fewest streams, the first of them: one is shared only if none is free (TSK-11). Gives how many it
// has; kStreamsOfTmdq: none has room.
std::uint32_t LaunchSequence::choose_stream(LaunchRun& run, const Cta& cta) const {
  const auto& known = cta.context.streams.live;
  const auto found = [&run](std::uint32_t tmdq) { return run.was_found && tmdq == arch::tmdq_of(run.created); };
  // One that another warp destroys is not used again before that warp knows it.
  const auto live = [&](std::uint32_t tmdq) { return known[tmdq] | (found(tmdq) ? run.expected : 0); };
  std::uint32_t best = memory_.tmdqs;
  std::uint32_t fewest = arch::kStreamsOfTmdq;
  for (std::uint32_t tmdq = 0; tmdq < memory_.tmdqs; ++tmdq) {
    const auto there = static_cast<std::uint32_t>(bits::count(live(tmdq)) + (tmdq == 0 ? 1 : 0));
    if (there >= fewest) continue;
    fewest = there;
    best = tmdq;
  }
  if (best == memory_.tmdqs) return fewest;
  std::uint32_t place = cta.context.streams.next[best];
  while ((live(best) >> place & 1) != 0 || (best == 0 && place == 0)) place = (place + 1) % arch::kStreamsOfTmdq;
  if (!found(best)) {
    run.expected = known[best];
    run.was_found = false;
  }
  run.created = arch::stream_number(best, place);
  return fewest;
}

LaunchNext LaunchSequence::create(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when) {
  const std::uint32_t there = choose_stream(run, cta);
  // Other CTAs of a shared context may have given back what this one knows as used.
  for (std::uint32_t tmdq = 0; memory_.shared_contexts && there > 0 && tmdq < memory_.tmdqs; ++tmdq) {
    if ((run.looked >> tmdq & 1) != 0) continue;
    run.created = arch::stream_number(tmdq, 0);
    return LaunchNext::to(LaunchStage::streams, when);
  }
  if (there == arch::kStreamsOfTmdq) return refused(run, registers, when);
  return LaunchNext::to(LaunchStage::create, when);
}

// What a step that has failed has found. The streams of a context of its own change by warps of the CTA alone: they
// count as each of these has its answer, in whatever order.
void LaunchSequence::found_streams(LaunchRun& run, Cta& cta, std::uint32_t tmdq, std::uint64_t old) const {
  run.expected = old;
  run.was_found = !memory_.shared_contexts && cta.context.is_known(tmdq);
  if (!run.was_found) cta.context.learn(tmdq, old);
}

LaunchNext LaunchSequence::created(LaunchRun& run, Cta& cta, std::uint64_t old, std::uint32_t* registers, Cycle when) {
  const std::uint32_t tmdq = arch::tmdq_of(run.created);
  if (old != run.expected) {
    found_streams(run, cta, tmdq, old);
    return create(run, cta, registers, when);
  }
  if (!cta.context.is_known(tmdq)) cta.context.learn(tmdq, old);
  cta.context.streams.live[tmdq] |= bit_of(run.created);
  cta.context.streams.next[tmdq] = static_cast<std::uint8_t>((arch::place_of(run.created) + 1) % arch::kStreamsOfTmdq);
  bits::for_each(run.lanes, [&](std::uint32_t lane) { put_result(run, registers, lane, run.created); });
  stats_.nested_streams.add();
  return LaunchNext::of(LaunchNext::Kind::finish, when);
}

// One after another. Another warp may have destroyed it meanwhile.
LaunchNext LaunchSequence::destroy(LaunchRun& run, const Cta& cta, Cycle when) const {
  const auto stream = static_cast<std::uint32_t>(run.named[run.index]);
  if (!run.was_found) run.expected = cta.context.streams.live[arch::tmdq_of(stream)];
  run.was_found = false;
  run.fault_address = stream;
  const bool lives = (run.expected & bit_of(stream)) != 0;
  return LaunchNext::to(lives ? LaunchStage::destroy : LaunchStage::fault, when);
}

LaunchNext LaunchSequence::destroyed(LaunchRun& run, Cta& cta, std::uint64_t old, Cycle when) {
  const auto stream = static_cast<std::uint32_t>(run.named[run.index]);
  const std::uint32_t tmdq = arch::tmdq_of(stream);
  if (old != run.expected) {
    found_streams(run, cta, tmdq, old);
    return destroy(run, cta, when);
  }
  cta.context.streams.live[tmdq] &= ~bit_of(stream);
  if (++run.index == run.named.size()) return LaunchNext::of(LaunchNext::Kind::finish, when);
  return destroy(run, cta, when);
}

LaunchNext LaunchSequence::context_made(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle when) {
  cta.context.state = Cta::Context::State::here;
  cta.context.home_here = true;
  cta.context.streams = {};
  cta.context.streams.known = ~std::uint64_t{0};
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  if (run.code == OpCode::stream_create) return create(run, cta, registers, when);
  return take_task(run, cta, when);
}

LaunchNext LaunchSequence::task_taken(LaunchRun& run, std::uint32_t* registers, Cycle when) {
  const auto& steps = std::get<arch::TakeSteps>(run.steps);
  run.record = steps.record();
  if (run.record == 0) return refused(run, registers, when);
  if (steps.spilled()) stats_.nested_spilled.add();
  run.ticket = steps.ticket();
  put_result(run, registers, run.lane, arch::launch_handle(run.record, run.ticket));
  const bool tail = run.children[run.index].mode == LaunchMode::tail;
  return LaunchNext::to(tail ? LaunchStage::write_task : LaunchStage::count_task, when);
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
      cta.context.learn(arch::tmdq_of(run.created), old);
      run.looked |= std::uint64_t{1} << arch::tmdq_of(run.created);
      return look_at_context(run, cta, when);
    case LaunchStage::take_context:
      if (auto& steps = std::get<arch::TakeSteps>(run.steps); is_over(steps)) {
        cta.context.address = steps.record();
        if (steps.spilled()) stats_.nested_spilled.add();
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
      return created(run, cta, old, registers, when);
    case LaunchStage::destroy:
      return destroyed(run, cta, old, when);
    case LaunchStage::take_task:
      if (auto& steps = std::get<arch::TakeSteps>(run.steps); is_over(steps)) {
        return task_taken(run, registers, when);
      }
      return next;
    case LaunchStage::count_task:
      return LaunchNext::to(LaunchStage::write_task, when);
    case LaunchStage::write_task: {
      const ChildLaunch& child = run.children[run.index];
      if (child.mode == LaunchMode::fire_and_forget) return LaunchNext::to(LaunchStage::start, when);
      const std::uint64_t owner = cta.record;
      const std::uint64_t tmdq = cta.context.address + arch::context::last_task(arch::tmdq_of(child.stream));
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
    tasks_.send({protocol::ChildPacket::Kind::start, run.record, 0, run.issued});
  } else {
    tasks_.send({protocol::ChildPacket::Kind::appended, run.entries[run.index].queue,
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
    case LaunchStage::streams:
      return {MemoryStep::Kind::read, cta.context.address + arch::context::live_streams(arch::tmdq_of(run.created))};
    case LaunchStage::count_context:
      return {MemoryStep::Kind::add, cta.record + arch::tmd::kOpen, 1};
    case LaunchStage::create:
      choose_stream(run, cta);  // other warps may have created some since it was its turn
      return change_stream(run, cta, run.created, true);
    case LaunchStage::destroy:
      return change_stream(run, cta, static_cast<std::uint32_t>(run.named[run.index]), false);
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
  if (run.stage == LaunchStage::write_context) {
    const std::uint64_t left = (arch::context::bytes(memory_.tmdqs) - run.written) / sizeof(std::uint64_t);
    std::vector<std::uint64_t> part(std::min<std::uint64_t>(left, kLineWords), 0);
    if (run.written == 0) {
      part[arch::context::kWork / 8] = 1;
      part[arch::context::kOwner / 8] = cta.record;
      part[arch::context::kHome / 8] = arch::home_of_sm(sm_);
    }
    return {cta.context.address + run.written, part};
  }
  std::vector<std::uint64_t> words(arch::kRecordBytes / 8, 0);
  const ChildLaunch& child = run.children[run.index];
  words[arch::tmd::kContext / 8] = cta.context.address;
  words[arch::tmd::kKernel / 8] = child.kernel;
  words[arch::tmd::kGridX / 8] = pair_of(child.grid_x, child.grid_y | child.grid_z << 16);
  words[arch::tmd::kFlags / 8] = pair_of(flags_of(child, run.destination != arch::kNoRegister), run.ticket);
  const std::int32_t priority = child.priority.value_or(cta.context.priority);
  words[arch::tmd::kPriority / 8] = pair_of(static_cast<std::uint32_t>(priority), *cta.context.depth + 1);
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

arch::WaitSteps LaunchSequence::woken_wait(const Cta& cta, const std::vector<arch::WaitTarget>& targets) const {
  const std::uint64_t home = memory_.shared_contexts ? 0 : arch::home_of_sm(sm_);
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
