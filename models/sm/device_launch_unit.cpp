#include "sm/device_launch_unit.h"

#include <algorithm>

#include "common/bits.h"
#include "sm/cta_swap.h"
#include "sm/faults.h"
#include "sm/global_path.h"
#include "sm/instruction_fetch.h"
#include "sm/load_store_unit.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {
namespace {

using arch::MemoryStep;
using arch::OpCode;
using arch::Operation;

// What a step issues to.
arch::Unit unit_of(LaunchStage stage) {
  switch (stage) {
    case LaunchStage::call:
      return arch::Unit::int32;
    case LaunchStage::begin:
    case LaunchStage::start:
    case LaunchStage::appended:
    case LaunchStage::closed:
    case LaunchStage::fault:
      return arch::Unit::none;
    default:
      return arch::Unit::memory;
  }
}

// Queues are memory of the program; all else belongs to the machine (MEM-04).
bool is_physical(const LaunchRun& run) {
  return run.code != OpCode::queue_append && run.code != OpCode::queue_close && run.stage != LaunchStage::look_queue;
}

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

DeviceLaunchUnit::DeviceLaunchUnit(const UnitContext& context, const arch::LaunchMemory& memory, const Peers& peers)
    : SmUnit(context),
      peers_(peers),
      sequence_({memory, context.place.id, context.stats, context.time.observation().progress, peers.tasks},
                context.params.nested.launch_instructions) {}

LaunchRun& DeviceLaunchUnit::begin(std::uint32_t slot, OpCode code) {
  Warp& warp = warps_[slot];
  if (runs_.size() <= slot) runs_.resize(slot + 1);
  runs_[slot] = std::make_unique<LaunchRun>();
  runs_[slot]->code = code;
  runs_[slot]->issued = now();
  warp.next = WarpNext::launch;
  const std::size_t registers = std::size_t{warp.program->registers() + kLaunchRegisters} * arch::kWarpLanes;
  if (warp.state.registers.size() < registers) warp.state.registers.resize(registers);
  return *runs_[slot];
}

IssueResult DeviceLaunchUnit::issue(std::uint32_t slot, const Operation& operation) {
  LaunchRun& run = begin(slot, operation.code);
  run.lanes = operation.lanes;
  run.destination = operation.destination;
  run.children = operation.children;
  run.entries = operation.entries;
  run.lane = operation.lanes == 0 ? 0 : bits::lowest(operation.lanes);
  if (operation.code == OpCode::wait_children) run.wait = operation.wait;
  name_operands(run, operation);
  Warp& warp = warps_[slot];
  warp.since = now() + 1;
  return follow(slot, sequence_.begin(run, ctas_[warp.cta], now() + 1));
}

// Streams that it names, or launches, each once. Stream 0 is always there; a launch that has failed is over.
void DeviceLaunchUnit::name_operands(LaunchRun& run, const Operation& operation) {
  const auto name = [&run](std::uint64_t value) {
    if (std::find(run.named.begin(), run.named.end(), value) == run.named.end()) run.named.push_back(value);
  };
  const bool waits_for_some = operation.code == OpCode::wait_children && operation.wait != arch::ChildWait::all;
  const auto value_of = [&operation](std::uint32_t lane) {
    return operation.data[lane][0] | std::uint64_t{operation.data[lane][1]} << 32;
  };
  if (operation.code == OpCode::event_record || operation.code == OpCode::stream_wait) {
    bits::for_each(operation.lanes, [&](std::uint32_t lane) {
      // No stream has a number beyond 32 bits.
      const std::uint32_t stream = operation.data[lane][3] == 0 ? operation.data[lane][2] : ~std::uint32_t{0};
      run.marks.push_back({value_of(lane), stream});
      if (stream != 0) name(stream);
    });
    return;
  }
  const bool ends = operation.code == OpCode::stream_destroy || operation.code == OpCode::event_destroy;
  if (waits_for_some || ends) {
    bits::for_each(operation.lanes, [&](std::uint32_t lane) {
      const std::uint64_t value = value_of(lane);
      if (value != 0 || run.wait != arch::ChildWait::launch) name(value);
    });
  }
  if (operation.code != OpCode::launch_child) return;  // what it has of earlier operations means nothing
  for (const arch::ChildLaunch& child : operation.children) {
    if (child.mode == arch::LaunchMode::stream && child.stream != 0) name(child.stream);
  }
}

// A fault can only follow in the warp's turn.
IssueResult DeviceLaunchUnit::follow(std::uint32_t slot, const LaunchNext& next) {
  Warp& warp = warps_[slot];
  LaunchRun& run = *runs_[slot];
  switch (next.kind) {
    case LaunchNext::Kind::stage:
      run.stage = next.stage;
      make_ready(slot, next.when);
      break;
    case LaunchNext::Kind::again:
      if (waits_for_entry(&run)) peers_.swap.cannot_stop(ctas_[warp.cta]);
      make_ready(slot, next.when);
      break;
    case LaunchNext::Kind::release:
      peers_.fences.wait(slot, FenceReach::requests);
      break;
    case LaunchNext::Kind::elsewhere:
      warp.wait = WarpWait::context;
      break;
    case LaunchNext::Kind::children:
      warp.wait = WarpWait::children;
      warp.since = std::max(warp.since, next.when);
      peers_.supervisor.warp_waits(ctas_[warp.cta]);
      break;
    case LaunchNext::Kind::finish:
      finish(slot, next.when);
      break;
    case LaunchNext::Kind::drop:
      drop(slot);
      break;
    case LaunchNext::Kind::fault: {
      const std::uint32_t lane = run.lane;
      if (run.stopped) {
        drop(slot);
        break;
      }
      forget(slot);
      return IssueResult::fault(next.fault, lane, next.address);
    }
  }
  return IssueResult::blocks();
}

// The next step can be made from `when` on, when the warp has its turn.
void DeviceLaunchUnit::make_ready(std::uint32_t slot, Cycle when) {
  const LaunchRun& run = *runs_[slot];
  const Cycle since = warps_[slot].since;
  const Cycle from = std::max({when, since, now()});
  waited(stall_of(run), warps_[slot], from - since);
  peers_.scheduler.give_turn(slot, from, unit_of(run.stage));
}

IssueResult DeviceLaunchUnit::step(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  LaunchRun& run = *runs_[slot];
  Cta& cta = ctas_[warp.cta];
  const Cycle next = now() + 1;
  warp.since = next;
  switch (run.stage) {
    case LaunchStage::call: {
      Cycle from = now();
      if (!peers_.fetch.supplies_runtime(slot, params_.nested.launch_instructions - run.instructions, from)) {
        return IssueResult::blocks();
      }
      if (from > now()) {
        peers_.scheduler.give_turn(slot, from, arch::Unit::int32);
        return IssueResult::blocks();
      }
      const UnitParams& unit = params_.issue.int32;
      peers_.scheduler.occupy(slot, 1, (arch::kWarpLanes + unit.lanes - 1) / unit.lanes);
      stats_.instructions[static_cast<std::size_t>(arch::Unit::int32)]->add();
      stats_.charge(warp.kernel, KernelCount::instructions, 1);
      return follow(slot, sequence_.called(run, now() + unit.latency));
    }
    case LaunchStage::begin:
      return follow(slot, sequence_.begin_one(run, cta, results_of(slot), next));
    case LaunchStage::start:
    case LaunchStage::appended:
    case LaunchStage::closed:
      return follow(slot, sequence_.tell(run, next));
    case LaunchStage::fault:
      return follow(slot, LaunchNext::wrong(run.fault, run.fault_address));
    case LaunchStage::write_context:
    case LaunchStage::write_task:
    case LaunchStage::write_entry:
      write(slot, sequence_.line(run, cta));
      return IssueResult::blocks();
    case LaunchStage::release:
    case LaunchStage::elsewhere:
      HEDDLE_CHECK(false, "a warp had a turn in the middle of a launch that waits for something");
      return IssueResult::blocks();
    default:
      ask(slot, sequence_.step(run, cta));
      return IssueResult::blocks();
  }
}

// The wait so far was one for memory.
void DeviceLaunchUnit::released(std::uint32_t slot, Cycle when) {
  warps_[slot].since = std::max(warps_[slot].since, when);
  follow(slot, sequence_.released(*runs_[slot], ctas_[warps_[slot].cta], when));
}

// What has a number that others count on must not stop half-way.
void DeviceLaunchUnit::ask(std::uint32_t slot, const MemoryStep& step) {
  LaunchRun& run = *runs_[slot];
  static thread_local Operation operation;  // large
  const bool read = step.kind == MemoryStep::Kind::read;
  const bool write = step.kind == MemoryStep::Kind::write;
  run.begun |=
      !read && run.stage != LaunchStage::create && run.stage != LaunchStage::destroy && run.stage != LaunchStage::turn;
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
  access(slot, operation);
}

// A word of the line for each lane.
void DeviceLaunchUnit::write(std::uint32_t slot, const LaunchLine& line) {
  static thread_local Operation operation;
  fill_access(operation, OpCode::store);
  for (std::uint32_t i = 0; i < line.words.size(); ++i) {
    operation.lanes |= arch::LaneMask{1} << i;
    operation.address[i] = line.address + std::uint64_t{8} * i;
    put_word(operation, i, line.words[i]);
  }
  access(slot, operation);
}

void DeviceLaunchUnit::access(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  LaunchRun& run = *runs_[slot];
  stats_.nested_steps.add();
  warp.wait = WarpWait::nested;
  run.asking = true;
  const MemoryResult result = peers_.global.access(operation, slot, now(), *this, AccessUse::step, is_physical(run));
  cta.last = std::max(cta.last, result.arrival);
  cta.landed = std::max(cta.landed, result.arrival);
  if (result.lost) return drop(slot);
  if (result.open) {
    ++cta.open;
    return;
  }
  run.asking = false;
  answer(slot, result.ready);
}

void DeviceLaunchUnit::access_ended(const Access& access, Cycle when) {
  Cta& cta = ctas_[access.cta];
  --cta.open;
  cta.last = std::max(cta.last, when);
  cta.landed = std::max(cta.landed, when);
  const LaunchRun* run = run_of(access.warp);
  if (run == nullptr || !run->asking) return peers_.supervisor.check_end(cta, now());
  runs_[access.warp]->asking = false;
  answer(access.warp, when + params_.memory.l1_latency - params_.memory.l1_tag_latency);
}

// Memory that device-side launches need has failed: what was begun stays as it is, and the fault stops the CTA.
void DeviceLaunchUnit::access_lost(const Access& access, Cycle when) {
  Cta& cta = ctas_[access.cta];
  --cta.open;
  cta.landed = std::max(cta.landed, when);
  const LaunchRun* run = run_of(access.warp);
  if (run != nullptr && run->asking) drop(access.warp);
  peers_.supervisor.check_end(cta, when);
}

void DeviceLaunchUnit::access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) {
  const LaunchRun* run = run_of(access.warp);
  const bool known = run != nullptr;
  peers_.faults.access_failed(access, known ? run->code : access.code, known ? run->lane : lane, address, when);
}

// The step that the warp was at has been done; what it found is in the warp's registers.
void DeviceLaunchUnit::answer(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  LaunchRun& run = *runs_[slot];
  Cta& cta = ctas_[warp.cta];
  const std::uint32_t* found = warp.state.of(static_cast<std::uint16_t>(warp.program->registers()));
  const std::uint64_t old = found[run.lane] | std::uint64_t{found[arch::kWarpLanes + run.lane]} << 32;
  const bool being_made = cta.context.state == Cta::Context::State::being_made;
  const LaunchNext next = sequence_.answer(run, cta, old, results_of(slot), when);
  if (being_made && cta.context.state != Cta::Context::State::being_made) context_decided(cta, when);
  follow(slot, next);
}

std::uint32_t* DeviceLaunchUnit::results_of(std::uint32_t slot) {
  const std::uint16_t destination = runs_[slot]->destination;
  return destination == arch::kNoRegister ? nullptr : warps_[slot].state.of(destination);
}

// The context is there, or there is none: others have waited for it.
void DeviceLaunchUnit::context_decided(const Cta& cta, Cycle when) {
  for (const std::uint32_t other : cta.warps) {
    const LaunchRun* its = run_of(other);
    if (its != nullptr && its->stage == LaunchStage::elsewhere) follow(other, LaunchNext::to(LaunchStage::begin, when));
  }
}

// The operation is over.
void DeviceLaunchUnit::finish(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const LaunchRun& run = *runs_[slot];
  if (run.stopped) return drop(slot);
  if (run.code == OpCode::wait_children && run.stage == LaunchStage::wait) {  // TSK-14
    peers_.l1.invalidate_all();
    note_acquire(ctas_[warp.cta].operation);
  }
  const Cycle from = std::max(when, warp.since);
  waited(stall_of(run), warp, from - warp.since);
  ++time_.observation().progress;
  forget(slot);
  warp.write_results(from);
  peers_.scheduler.prepare(slot, from);
}

// Nothing more comes of it.
void DeviceLaunchUnit::drop(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  sequence_.tell_lost_entry(*runs_[slot]);
  const bool stopped = runs_[slot]->stopped;
  forget(slot);
  if (!stopped) {
    warp.wait = WarpWait::access;  // a fault is on its way
    return;
  }
  warp.wait = WarpWait::exited;
  Cta& cta = ctas_[warp.cta];
  --cta.open;
  peers_.supervisor.check_end(cta, now());
}

void DeviceLaunchUnit::forget(std::uint32_t slot) {
  if (run_of(slot) == nullptr) return;
  runs_[slot].reset();
  warps_[slot].next = WarpNext::fetch;
  warps_[slot].front.runtime = 0;
}

void DeviceLaunchUnit::stop(std::uint32_t slot) {
  if (run_of(slot) == nullptr) return;
  LaunchRun& run = *runs_[slot];
  if (!run.begun) return forget(slot);
  Warp& warp = warps_[slot];
  run.stopped = true;
  ++ctas_[warp.cta].open;
  if (auto* steps = std::get_if<arch::WaitSteps>(&run.steps)) steps->give_up();
  if (!run.asking) make_ready(slot, std::max(now(), warp.since));
}

// A wake is a hint: those who wait look at the work counter again.
void DeviceLaunchUnit::on_wake(const protocol::WakePacket& wake, std::uint32_t) {
  for (Cta& cta : ctas_) {
    if (!cta.here() || !cta.has_warps() || !cta.context.here() || cta.context.address != wake.context) continue;
    if (peers_.swap.woken(cta)) continue;
    cta.context.home_here = false;
    for (const std::uint32_t slot : cta.warps) {
      const LaunchRun* run = run_of(slot);
      if (run == nullptr || run->stage != LaunchStage::wait) continue;
      auto& steps = std::get<arch::WaitSteps>(runs_[slot]->steps);
      const bool waited = steps.waiting();
      steps.woken();
      if (waited) make_ready(slot, now());
    }
  }
}

std::vector<arch::WaitTarget> DeviceLaunchUnit::targets_of(std::uint32_t slot) const {
  const LaunchRun* run = run_of(slot);
  const auto* steps = run == nullptr ? nullptr : std::get_if<arch::WaitSteps>(&run->steps);
  return steps == nullptr ? std::vector<arch::WaitTarget>{} : steps->targets();
}

void DeviceLaunchUnit::resume_wait(std::uint32_t slot, const std::vector<arch::WaitTarget>& targets) {
  Warp& warp = warps_[slot];
  LaunchRun& run = begin(slot, OpCode::wait_children);
  run.stage = LaunchStage::wait;
  run.begun = true;
  run.steps = sequence_.woken_wait(ctas_[warp.cta], targets);
  warp.since = now();
  make_ready(slot, now());
}

}  // namespace heddle::sm
