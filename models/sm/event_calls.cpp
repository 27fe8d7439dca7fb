#include "sm/event_calls.h"

#include "common/bits.h"

namespace heddle::sm {

using arch::MemoryStep;
using arch::OpCode;
using arch::RecordKind;
namespace tmd = arch::tmd;

namespace {

std::uint64_t word_of(std::uint64_t event) { return arch::event_word(arch::ticket_of_handle(event)); }

}  // namespace

// What the operation is at: an event's handle.
std::uint64_t EventCalls::named(const LaunchRun& run) const {
  return run.code == OpCode::event_destroy ? run.named[run.index] : run.marks[run.index].event;
}

LaunchNext EventCalls::unknown(LaunchRun& run, std::uint64_t event, Cycle when) const {
  run.fault = arch::FaultKind::child;
  run.fault_address = event;
  return LaunchNext::to(LaunchStage::fault, when);
}

bool EventCalls::check(LaunchRun& run, const Cta& cta, const ContextStreams& streams) const {
  const arch::RecordSupply& records = memory_.of(cta.start.subcontext).tasks;
  const auto is_record = [&records](std::uint64_t event) { return records.has(arch::record_of_handle(event)); };
  run.fault = arch::FaultKind::child;
  for (std::uint32_t i = 0; i < run.marks.size(); ++i) {
    const EventMark& mark = run.marks[i];
    run.lane = bits::nth(run.lanes, i);
    run.fault_address = streams.is_live(mark.stream, cta) ? mark.event : mark.stream;
    if (!is_record(mark.event) || !streams.is_live(mark.stream, cta)) return false;
  }
  if (run.code != OpCode::event_destroy) return true;
  for (const std::uint64_t event : run.named) {
    run.fault_address = event;
    if (!is_record(event)) return false;
  }
  return true;
}

LaunchNext EventCalls::begin(LaunchRun& run, const Cta& cta, Cycle when) const {
  if (run.code == OpCode::event_destroy) return LaunchNext::to(LaunchStage::end_event, when);
  return take(run, cta, when);
}

LaunchNext EventCalls::begin_mark(LaunchRun& run, Cycle when) const {
  run.lane = bits::nth(run.lanes, run.index);
  return LaunchNext::to(LaunchStage::look_event, when);
}

LaunchNext EventCalls::take(LaunchRun& run, const Cta& cta, Cycle when) const {
  run.steps = arch::TakeSteps(memory_.of(cta.start.subcontext).tasks);
  return LaunchNext::to(LaunchStage::take_task, when);
}

// A program that makes an event is told; any other is wrong.
LaunchNext EventCalls::refused(LaunchRun& run, std::uint32_t* registers, Cycle when) {
  tools_.stats.nested_refused.add();
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  if (run.code != OpCode::event_create) {
    run.fault = arch::FaultKind::launch_limit;
    run.fault_address = named(run);
    return LaunchNext::to(LaunchStage::fault, when);
  }
  bits::for_each(run.lanes, [&](std::uint32_t lane) { put_result(run, registers, lane, 0); });
  return LaunchNext::of(LaunchNext::Kind::finish, when);
}

MemoryStep EventCalls::step(const LaunchRun& run) const {
  const std::uint64_t event = named(run);
  const std::uint64_t record = arch::record_of_handle(event);
  switch (run.stage) {
    case LaunchStage::look_event:
      return {MemoryStep::Kind::read, record + tmd::kFlags};
    case LaunchStage::latest:
      return {MemoryStep::Kind::read, record + tmd::kLatest};
    case LaunchStage::publish:
      return {MemoryStep::Kind::write, record + tmd::kLatest, arch::launch_handle(run.record, run.ticket)};
    case LaunchStage::end_event:
      return {MemoryStep::Kind::compare_exchange, record + tmd::kFlags, 0, word_of(event)};
    default:
      return std::get<arch::GiveSteps>(run.steps).step();
  }
}

LaunchNext EventCalls::looked(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when) const {
  if (old != word_of(named(run))) return unknown(run, named(run), when);
  if (run.code == OpCode::stream_wait) return LaunchNext::to(LaunchStage::latest, when);
  return take(run, cta, when);
}

LaunchNext EventCalls::latest(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when, bool& over) const {
  run.awaited = old;
  over = old == 0;
  return over ? LaunchNext{} : take(run, cta, when);
}

LaunchNext EventCalls::taken(LaunchRun& run, Cycle when) {
  const auto& steps = std::get<arch::TakeSteps>(run.steps);
  if (steps.spilled()) tools_.stats.nested_spilled.add();
  run.record = steps.record();
  run.ticket = steps.ticket();
  const bool counted = run.code != OpCode::event_create;
  return LaunchNext::to(counted ? LaunchStage::count_task : LaunchStage::write_task, when);
}

LaunchLine EventCalls::line(const LaunchRun& run, const Cta& cta) const {
  std::vector<std::uint64_t> words(arch::kRecordBytes / 8, 0);
  if (run.code == OpCode::event_create) {
    words[tmd::kFlags / 8] = arch::event_word(run.ticket);
    return {run.record, words};
  }
  const bool wait = run.code == OpCode::stream_wait;
  const std::uint32_t stream = run.marks[run.index].stream;
  const auto kind = static_cast<std::uint32_t>(wait ? RecordKind::event_wait : RecordKind::event_record);
  words[tmd::kContext / 8] = cta.context.address;
  words[tmd::kFlags / 8] = arch::tmdq_of(stream) | kind << arch::kRecordKindShift | std::uint64_t{stream} << 16 |
                           std::uint64_t{run.ticket} << 32;
  words[tmd::kOpen / 8] = wait ? 1 : std::uint64_t{run.ticket} << 32;
  words[tmd::kAwaited / 8] = wait ? run.awaited : 0;
  words[tmd::kGrid / 8] = cta.record;
  return {run.record, words};
}

LaunchNext EventCalls::written(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when) {
  if (run.code != OpCode::event_create) return push(run, cta, when);
  const std::uint64_t handle = arch::launch_handle(run.record, run.ticket);
  bits::for_each(run.lanes, [&](std::uint32_t lane) { put_result(run, registers, lane, handle); });
  return LaunchNext::of(LaunchNext::Kind::finish, when);
}

LaunchNext EventCalls::push(LaunchRun& run, const Cta& cta, Cycle when) const {
  const std::uint32_t tmdq = arch::tmdq_of(run.marks[run.index].stream);
  run.steps = arch::PushSteps(cta.context.address + arch::context::last_task(tmdq), run.record);
  return LaunchNext::to(LaunchStage::push, when);
}

// Whoever ends an event gives its record back: nobody else can.
LaunchNext EventCalls::ended(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when) const {
  const std::uint64_t event = named(run);
  if (old != word_of(event)) {
    run.begun = false;
    if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
    return unknown(run, event, when);
  }
  run.steps = arch::GiveSteps(memory_.of(cta.start.subcontext).tasks, arch::record_of_handle(event));
  return LaunchNext::to(LaunchStage::give_event, when);
}

LaunchNext EventCalls::given(LaunchRun& run, const Cta& cta, std::uint64_t old, Cycle when) const {
  auto& steps = std::get<arch::GiveSteps>(run.steps);
  steps.answer(old);
  if (!steps.over()) {
    return LaunchNext::of(LaunchNext::Kind::again, steps.step().again ? when + memory_.retry : when);
  }
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  if (++run.index == run.named.size()) return LaunchNext::of(LaunchNext::Kind::finish, when);
  return begin(run, cta, when);
}

}  // namespace heddle::sm
