#include "sm/child_launches.h"

#include <algorithm>

#include "common/bits.h"

namespace heddle::sm {

using arch::ChildLaunch;
using arch::FaultKind;
using arch::LaunchMode;
using protocol::ChildPacket;

namespace {

std::uint64_t pair_of(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }

std::uint32_t flags_of(const ChildLaunch& child, bool waited) {
  return arch::tmdq_of(child.stream) | static_cast<std::uint32_t>(child.mode) << 8 | (child.head ? 1U << 10 : 0U) |
         (waited ? 1U << 11 : 0U) | (child.queue != 0 ? 1U << 12 : 0U) | (child.held_open ? 1U << 13 : 0U) |
         child.stream << 16;
}

}  // namespace

bool ChildLaunches::publish(const LaunchRun& run) {
  return std::any_of(run.children.begin(), run.children.end(),
                     [](const ChildLaunch& child) { return child.mode != LaunchMode::tail; });
}

bool ChildLaunches::check(LaunchRun& run, const Cta& cta, const ContextStreams& streams) const {
  for (std::uint32_t i = 0; i < run.children.size(); ++i) {
    const ChildLaunch& child = run.children[i];
    const bool deep = *cta.context.depth >= memory_.max_depth;  // TSK-06
    const bool empty = child.grid_x == 0 || child.grid_y == 0 || child.grid_z == 0;
    const bool unknown = child.mode == LaunchMode::stream && !streams.is_live(child.stream, cta);
    if (!deep && !empty && !unknown) continue;
    run.lane = bits::nth(run.lanes, i);
    run.fault = deep ? FaultKind::nesting : FaultKind::child;
    run.fault_address = child.kernel;
    return false;
  }
  return true;
}

LaunchNext ChildLaunches::look_at_queue(LaunchRun& run, Cycle when) const {
  run.lane = bits::nth(run.lanes, run.index);
  const std::uint64_t queue = run.children[run.index].queue;
  if (!is_word_aligned(queue)) return LaunchNext::wrong(FaultKind::misaligned, queue);
  return LaunchNext::to(LaunchStage::look_queue, when);
}

bool ChildLaunches::queue_open(LaunchRun& run, std::uint64_t tickets) const {
  run.fault = FaultKind::queue_closed;
  run.fault_address = run.children[run.index].queue;
  return (tickets & arch::kQueueClosed) == 0;
}

LaunchNext ChildLaunches::take(LaunchRun& run, const Cta& cta, Cycle when) const {
  run.lane = bits::nth(run.lanes, run.index);
  run.steps = arch::TakeSteps(memory_.of(cta.start.subcontext).tasks);
  return LaunchNext::to(LaunchStage::take_task, when);
}

LaunchNext ChildLaunches::refused(LaunchRun& run, std::uint32_t* registers, Cycle when, bool& over) {
  tools_.stats.nested_refused.add();
  run.begun = false;
  over = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  run.lane = bits::nth(run.lanes, run.index);
  if (registers == nullptr) {
    run.fault = FaultKind::launch_limit;
    run.fault_address = run.children[run.index].kernel;
    return LaunchNext::to(LaunchStage::fault, when);
  }
  put_result(run, registers, run.lane, 0);
  ++tools_.progress;
  over = true;
  return {};
}

arch::MemoryStep ChildLaunches::count(const Cta& cta) {
  return {arch::MemoryStep::Kind::add, cta.context.address + arch::context::kWork, 1};
}

LaunchLine ChildLaunches::line(const LaunchRun& run, const Cta& cta) const {
  std::vector<std::uint64_t> words(arch::kRecordBytes / 8, 0);
  const ChildLaunch& child = run.children[run.index];
  words[arch::tmd::kContext / 8] = needs_context(child) ? cta.context.address : cta.record;
  words[arch::tmd::kKernel / 8] = child.kernel;
  words[arch::tmd::kGridX / 8] = pair_of(child.grid_x, child.grid_y | child.grid_z << 16);
  words[arch::tmd::kFlags / 8] = pair_of(flags_of(child, run.destination != arch::kNoRegister), run.ticket);
  const std::int32_t priority = child.priority.value_or(cta.context.priority);
  words[arch::tmd::kPriority / 8] = pair_of(static_cast<std::uint32_t>(priority), *cta.context.depth + 1);
  words[arch::tmd::kOpen / 8] = 1;
  if (child.queue == 0) {
    std::copy(child.args.begin(), child.args.end(), words.begin() + arch::tmd::kArgs / 8);
  } else {
    words[arch::tmd::kQueue / 8] = child.queue;
    words[arch::tmd::kEntries / 8] = child.entries;
  }
  return {run.record, words};
}

LaunchNext ChildLaunches::taken(LaunchRun& run, std::uint32_t* registers, Cycle when) {
  const auto& steps = std::get<arch::TakeSteps>(run.steps);
  if (steps.spilled()) tools_.stats.nested_spilled.add();
  run.record = steps.record();
  run.ticket = steps.ticket();
  put_result(run, registers, run.lane, arch::launch_handle(run.record, run.ticket));
  const bool counted = needs_context(run.children[run.index]);
  return LaunchNext::to(counted ? LaunchStage::count_task : LaunchStage::write_task, when);
}

LaunchNext ChildLaunches::written(LaunchRun& run, const Cta& cta, Cycle when) const {
  const ChildLaunch& child = run.children[run.index];
  if (child.mode == LaunchMode::fire_and_forget) return LaunchNext::to(LaunchStage::start, when);
  const std::uint64_t owner = cta.record;
  const std::uint64_t tmdq = cta.context.address + arch::context::last_task(arch::tmdq_of(child.stream));
  run.steps = child.mode == LaunchMode::stream
                  ? arch::PushSteps(tmdq, run.record)
                  : arch::PushSteps(owner + arch::tmd::kTailLast, run.record, owner + arch::tmd::kTailFirst);
  return LaunchNext::to(LaunchStage::push, when);
}

bool ChildLaunches::pushed(const LaunchRun& run) {
  const auto& steps = std::get<arch::PushSteps>(run.steps);
  if (steps.starts()) return true;
  const bool tail = run.code == arch::OpCode::launch_child && run.children[run.index].mode == LaunchMode::tail;
  if (steps.previous() != 0 || tail) {
    tools_.tasks.send({ChildPacket::Kind::queued, run.record, steps.previous(), run.issued});
  }
  return false;
}

void ChildLaunches::tell_start(const LaunchRun& run) {
  tools_.tasks.send({ChildPacket::Kind::start, run.record, 0, run.issued});
}

}  // namespace heddle::sm
