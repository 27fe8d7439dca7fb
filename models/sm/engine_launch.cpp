// What device-side launches, waits for children, streams and appends consist of (TSK-05 to TSK-14).
#include <algorithm>
#include <array>

#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

using arch::ChildLaunch;
using arch::FaultKind;
using arch::LaunchMode;
using arch::OpCode;

constexpr std::uint64_t kMaxStream = 0xFFFF;  // that a TMD can name

// The lane of the launch or entry with that index.
std::uint32_t lane_of(arch::LaneMask lanes, std::uint32_t index) {
  for (; index > 0; --index) lanes &= lanes - 1;
  return static_cast<std::uint32_t>(__builtin_ctz(lanes));
}

std::uint64_t pair_of(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }

std::uint32_t flags_of(const ChildLaunch& child, std::uint32_t tmdqs) {
  return child.stream % tmdqs | static_cast<std::uint32_t>(child.mode) << 8 | (child.head ? 1U << 10 : 0U) |
         child.stream << 16;
}

bool aligned(std::uint64_t address) { return address % 8 == 0; }

}  // namespace

void WarpEngine::begin_nested(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  NestedRun& run = *warp.nested;
  const Cta& cta = ctas_[warp.cta];
  const bool has_record = cta.start.record != 0 && nested_.tasks.count > 0 && nested_.contexts.count > 0;
  const Cycle next = domain_.now() + 1;
  if (run.code == OpCode::wait_children) {
    stats_.nested_waits.add();
    if (!has_record) return nested_finish(slot, next);
    return look_at_context(slot, next);
  }
  if (run.lanes == 0) return nested_finish(slot, next);
  if (run.code == OpCode::queue_append) return begin_release(slot, false);
  if (!has_record) {
    return nested_wrong(slot, FaultKind::child, run.children.empty() ? run.stream : run.children.front().kernel);
  }
  if (run.code != OpCode::launch_child) return look_at_context(slot, next);
  for (const ChildLaunch& child : run.children) {
    if (child.mode == LaunchMode::stream) run.stream = std::max<std::uint64_t>(run.stream, child.stream);
  }
  begin_release(slot, false);  // TSK-14
}

void WarpEngine::nested_released(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  NestedRun& run = *warp.nested;
  const Cta& cta = ctas_[warp.cta];
  if (run.code == OpCode::launch_child) return look_at_context(slot, when);
  if (run.code == OpCode::queue_append) return nested_goes_on(slot, NestedStage::begin, when);
  const bool shared = nested_.shared_contexts;
  run.walk = arch::WaitSteps(cta.context, shared ? 0 : arch::home_of_sm(place_.id), !shared && !cta.home_here);
  nested_goes_on(slot, NestedStage::wait, when);
}

// What has to be known of the CTA's task and context before operands can be checked.
void WarpEngine::look_at_context(std::uint32_t slot, Cycle when) {
  const NestedRun& run = *warps_[slot].nested;
  const Cta& cta = ctas_[warps_[slot].cta];
  if (run.code == OpCode::launch_child && !cta.knows_depth) return nested_goes_on(slot, NestedStage::depth, when);
  if (nested_.shared_contexts && !cta.has_context()) return nested_goes_on(slot, NestedStage::shared, when);
  if (run.stream > cta.streams && cta.has_context() && !run.looked) {
    return nested_goes_on(slot, NestedStage::streams, when);
  }
  check_operands(slot, when);
}

void WarpEngine::check_operands(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  NestedRun& run = *warp.nested;
  const Cta& cta = ctas_[warp.cta];
  switch (run.code) {
    case OpCode::wait_children:
      if (!cta.has_context()) return nested_finish(slot, when);
      warp.since = std::max(warp.since, when);
      return begin_release(slot, false);
    case OpCode::stream_destroy:
      if (run.fault_address == 0 && run.stream <= cta.streams) return nested_finish(slot, when);
      run.fault_address = run.stream;
      return nested_goes_on(slot, NestedStage::fault, when);
    case OpCode::stream_create:
      return nested_goes_on(slot, NestedStage::begin, when);
    default:
      break;
  }
  if (!check_launches(run, cta)) return nested_goes_on(slot, NestedStage::fault, when);
  nested_goes_on(slot, NestedStage::begin, when + domain_.cost(params_.nested.launch_cycles));
}

bool WarpEngine::check_launches(NestedRun& run, const Cta& cta) const {
  for (std::uint32_t i = 0; i < run.children.size(); ++i) {
    const ChildLaunch& child = run.children[i];
    const bool deep = cta.depth >= nested_.max_depth;  // TSK-06
    const bool empty = child.grid_x == 0 || child.grid_y == 0 || child.grid_z == 0;
    const bool unknown = child.mode == LaunchMode::stream && (child.stream > cta.streams || child.stream > kMaxStream);
    if (!deep && !empty && !unknown) continue;
    run.lane = lane_of(run.lanes, i);
    run.fault = deep ? FaultKind::nesting : FaultKind::child;
    run.fault_address = child.kernel;
    return false;
  }
  return true;
}

// Of one lane. The device runtime has done its work.
void WarpEngine::begin_launch(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  NestedRun& run = *warp.nested;
  Cta& cta = ctas_[warp.cta];
  const Cycle next = domain_.now() + 1;
  if (run.code == OpCode::queue_append) {
    run.lane = lane_of(run.lanes, run.index);
    const std::uint64_t queue = run.entries[run.index].queue;
    if (!aligned(queue)) return nested_wrong(slot, FaultKind::misaligned, queue);
    run.walk = arch::AppendSteps(queue);
    return nested_goes_on(slot, NestedStage::place, next);
  }
  if (cta.context_state == Cta::Context::being_made) {
    run.stage = NestedStage::elsewhere;
    warp.wait = WarpWait::context;
    return;
  }
  if (cta.context_state == Cta::Context::none) {
    cta.context_state = Cta::Context::being_made;
    run.walk = arch::TakeSteps(nested_.contexts);
    return nested_goes_on(slot, NestedStage::take_context, next);
  }
  if (run.code == OpCode::stream_create) return nested_goes_on(slot, NestedStage::create, next);
  run.lane = lane_of(run.lanes, run.index);
  run.walk = arch::TakeSteps(nested_.tasks);
  nested_goes_on(slot, NestedStage::take_task, next);
}

// The next lane's, if there is one.
void WarpEngine::next_launch(std::uint32_t slot, Cycle when) {
  NestedRun& run = *warps_[slot].nested;
  const bool launch = run.code == OpCode::launch_child;
  (launch ? stats_.nested_launches : stats_.nested_appends).add();
  ++domain_.observation().progress;
  run.begun = false;
  if (run.stopped) return nested_drop(slot);
  if (++run.index == (launch ? run.children.size() : run.entries.size())) return nested_finish(slot, when);
  nested_goes_on(slot, NestedStage::begin, launch ? when + domain_.cost(params_.nested.launch_cycles) : when);
}

void WarpEngine::context_made(std::uint32_t slot, Cycle when) {
  Cta& cta = ctas_[warps_[slot].cta];
  cta.context_state = Cta::Context::here;
  cta.home_here = true;
  NestedRun& run = *warps_[slot].nested;
  run.begun = false;
  for (const std::uint32_t other : cta.warps) {
    const NestedRun* its = warps_[other].nested.get();
    if (its != nullptr && its->stage == NestedStage::elsewhere) nested_goes_on(other, NestedStage::begin, when);
  }
  if (run.stopped) return nested_drop(slot);
  if (run.code == OpCode::stream_create) return nested_goes_on(slot, NestedStage::create, when);
  run.lane = lane_of(run.lanes, run.index);
  run.walk = arch::TakeSteps(nested_.tasks);
  nested_goes_on(slot, NestedStage::take_task, when);
}

// The step that the warp was at has been done; what it found is in the warp's registers.
void WarpEngine::nested_answer(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  NestedRun& run = *warp.nested;
  Cta& cta = ctas_[warp.cta];
  const std::uint64_t old = nested_word(slot, run.lane);
  // A walk is told, and goes on or is over.
  const auto walks = [&](auto& walk) {
    const auto* wait = run.stage == NestedStage::wait ? &std::get<arch::WaitSteps>(run.walk) : nullptr;
    const bool home = wait != nullptr && wait->writes_home() && !wait->was_woken();
    walk.answer(old);
    cta.home_here |= home;
    if (walk.over()) return true;
    if constexpr (std::is_same_v<std::decay_t<decltype(walk)>, arch::WaitSteps>) {
      if (walk.waiting()) {
        warp.wait = WarpWait::children;
        warp.since = std::max(warp.since, when);
        consider_save(cta);
        return false;
      }
    }
    nested_ready(slot, walk.step().again ? when + nested_.retry : when);
    return false;
  };
  switch (run.stage) {
    case NestedStage::depth:
      cta.depth = static_cast<std::uint32_t>(old >> 32);
      cta.knows_depth = true;
      return look_at_context(slot, when);
    case NestedStage::shared:
      if (old == 0) return nested_goes_on(slot, NestedStage::fault, when);
      cta.context = old;
      cta.context_state = Cta::Context::here;
      return look_at_context(slot, when);
    case NestedStage::streams:
      cta.streams = std::max(cta.streams, old);
      run.looked = true;
      return check_operands(slot, when);
    case NestedStage::take_context:
      if (auto& walk = std::get<arch::TakeSteps>(run.walk); walks(walk)) {
        cta.context = walk.record();
        nested_goes_on(slot, NestedStage::write_context, when);
      }
      return;
    case NestedStage::write_context:
      return nested_goes_on(slot, NestedStage::count_context, when);
    case NestedStage::count_context:
      return context_made(slot, when);
    case NestedStage::create: {
      std::uint32_t* registers = run.destination == arch::kNoRegister ? nullptr : warp.state.of(run.destination);
      for (std::uint32_t lane = 0; registers != nullptr && lane < arch::kWarpLanes; ++lane) {
        if ((run.lanes >> lane & 1) != 0) registers[lane] = static_cast<std::uint32_t>(old + 1);
      }
      cta.streams = std::max(cta.streams, old + 1);
      stats_.nested_streams.add();
      return nested_finish(slot, when);
    }
    case NestedStage::take_task:
      if (auto& walk = std::get<arch::TakeSteps>(run.walk); walks(walk)) {
        run.record = walk.record();
        const bool tail = run.children[run.index].mode == LaunchMode::tail;
        nested_goes_on(slot, tail ? NestedStage::write_task : NestedStage::count_task, when);
      }
      return;
    case NestedStage::count_task:
      return nested_goes_on(slot, NestedStage::write_task, when);
    case NestedStage::write_task: {
      const ChildLaunch& child = run.children[run.index];
      if (child.mode == LaunchMode::fire_and_forget) return nested_goes_on(slot, NestedStage::start, when);
      const std::uint64_t owner = cta.start.record;
      const std::uint64_t tmdq =
          cta.context + arch::context::kTmdqs + std::uint64_t{8} * (child.stream % nested_.tmdqs);
      run.walk = child.mode == LaunchMode::stream
                     ? arch::PushSteps(tmdq, run.record)
                     : arch::PushSteps(owner + arch::tmd::kTailLast, run.record, owner + arch::tmd::kTailFirst);
      return nested_goes_on(slot, NestedStage::push, when);
    }
    case NestedStage::push:
      if (auto& walk = std::get<arch::PushSteps>(run.walk); walks(walk)) {
        if (walk.starts()) return nested_goes_on(slot, NestedStage::start, when);
        if (walk.previous() != 0) {
          host_.tell_tasks({protocol::ChildPacket::Kind::queued, run.record, walk.previous(), run.issued});
        }
        next_launch(slot, when);
      }
      return;
    case NestedStage::place:
      if (auto& walk = std::get<arch::AppendSteps>(run.walk); walks(walk)) {
        run.fault_address = run.entries[run.index].queue;
        run.fault = walk.closed() ? FaultKind::queue_closed : FaultKind::misaligned;
        const bool wrong = walk.closed() || !aligned(walk.entry());
        nested_goes_on(slot, wrong ? NestedStage::fault : NestedStage::write_entry, when);
      }
      return;
    case NestedStage::write_entry:
      return nested_goes_on(slot, NestedStage::turn, when);
    case NestedStage::turn:
      return nested_goes_on(slot, NestedStage::appended, when);
    case NestedStage::wait:
      if (walks(std::get<arch::WaitSteps>(run.walk))) nested_finish(slot, when);
      return;
    default:
      HEDDLE_CHECK(false, "a memory step of a launch ended that nobody made");
  }
}

void WarpEngine::write_context(std::uint32_t slot) {
  const Cta& cta = ctas_[warps_[slot].cta];
  std::vector<std::uint64_t> words(arch::kRecordBytes / 8, 0);
  words[arch::context::kWork / 8] = 1;
  words[arch::context::kOwner / 8] = cta.start.record;
  words[arch::context::kHome / 8] = arch::home_of_sm(place_.id);
  nested_line(slot, cta.context, words);
}

void WarpEngine::write_task(std::uint32_t slot) {
  const NestedRun& run = *warps_[slot].nested;
  const Cta& cta = ctas_[warps_[slot].cta];
  const ChildLaunch& child = run.children[run.index];
  std::vector<std::uint64_t> words(arch::kRecordBytes / 8, 0);
  words[arch::tmd::kContext / 8] = cta.context;
  words[arch::tmd::kKernel / 8] = child.kernel;
  words[arch::tmd::kGridX / 8] = pair_of(child.grid_x, child.grid_y);
  words[arch::tmd::kGridZ / 8] = pair_of(child.grid_z, flags_of(child, nested_.tmdqs));
  words[arch::tmd::kPriority / 8] = pair_of(static_cast<std::uint32_t>(child.priority), cta.depth + 1);
  words[arch::tmd::kOpen / 8] = 1;
  std::copy(child.args.begin(), child.args.end(), words.begin() + arch::tmd::kArgs / 8);
  nested_line(slot, run.record, words);
}

void WarpEngine::write_entry(std::uint32_t slot) {
  const NestedRun& run = *warps_[slot].nested;
  const auto& data = run.entries[run.index].data;
  nested_line(slot, std::get<arch::AppendSteps>(run.walk).entry() + arch::kQueueEntryData, {data.begin(), data.end()});
}

// A CTA of a queue task: where its entry lies, and what gives it back (TSK-05).
void WarpEngine::find_entry(Cta& cta) {
  const arch::QueueGeometry& queue = cta.code->queue;
  HEDDLE_CHECK(queue.any(), "a CTA of a queue task has no queue");
  const std::uint64_t ticket = cta.start.id.index;
  cta.turn_entry = queue.turn(ticket);
  cta.turn = arch::turn_done(ticket, queue.capacity);
  cta.gives_turn = true;
}

// All that the CTA has read of its entry has come: the entry is free for the appender of a later ticket.
void WarpEngine::give_turn(Cta& cta, Cycle when) {
  cta.gives_turn = false;
  ++cta.open;
  const Cycle last = std::max(cta.killed ? cta.landed : cta.last, when);
  domain_.schedule(std::max(last, domain_.now()), *this, kGivesTurn, cta.start.cta_slot);
}

void WarpEngine::write_turn(Cta& cta) {
  const std::uint32_t slot = cta.warps.front();
  static thread_local arch::Operation operation;
  operation = arch::Operation{};
  operation.code = OpCode::store;
  operation.unit = arch::Unit::memory;
  operation.width = 8;
  operation.order = arch::Order::relaxed;
  operation.lanes = 1;
  operation.address[0] = cta.turn_entry;
  operation.data[0] = {static_cast<std::uint32_t>(cta.turn), static_cast<std::uint32_t>(cta.turn >> 32), 0, 0};
  warps_[slot].stepping = true;
  const MemoryUnit::Result result = memory_.global(operation, slot, domain_.now());
  warps_[slot].stepping = false;
  cta.last = std::max(cta.last, result.arrival);
  cta.landed = std::max(cta.landed, result.arrival);
  if (result.open && !result.lost) return;  // it counts as open already
  --cta.open;
  check_end(cta, domain_.now());
}

}  // namespace heddle::sm
