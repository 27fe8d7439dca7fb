// Device-side launches: from the start packet of an SM, or the end of what was ahead in memory, to the end of a task
// with all its descendants (TSK-06 to TSK-13).
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "arch/little_endian.h"
#include "task/task_unit.h"

namespace heddle::task {

using protocol::ChildPacket;
using protocol::DoneStatus;
namespace tmd = arch::tmd;

bool TaskUnit::launches(const arch::KernelShape& kernel) const {
  return nested_.codes != nullptr && kernel.code != arch::kNoCode && nested_.codes->at(kernel.code).program->launches();
}

void TaskUnit::enter(NestedChain chain) {
  stats_.chains.add();
  scheduler_.enter(std::move(chain));
}

Task* TaskUnit::task_at(std::uint64_t record) {
  const auto found = records_.find(record);
  return found == records_.end() ? nullptr : &tasks_.at(found->second);
}

// Few tasks of the host hold TMDs while they wait, so that those that run find some (TSK-15); a more urgent one is let
// through, and a single one for the head of its list, which those that hold one are behind.
void TaskUnit::prepare_some() {
  while (!unprepared_.empty()) {
    const std::int32_t priority = unprepared_.priority_at(0);
    const std::size_t places = record_places_ + (unprepared_.head_first() ? 1 : 0);
    if (holding_.size() >= places && priority <= *holding_.rbegin()) return;
    prepare(tasks_.at(unprepared_.take()));
  }
}

void TaskUnit::prepare(Task& task) {
  holding_.insert(task.packet.priority);
  task.holds_record = true;
  RecordLine line{};
  arch::put_number(line, tmd::kGridX, 4, task.packet.grid.x);
  arch::put_number(line, tmd::kGridY, 4, task.packet.grid.y);
  arch::put_number(line, tmd::kGridZ, 4, task.packet.grid.z);
  arch::put_number(line, tmd::kPriority, 4, static_cast<std::uint32_t>(task.packet.priority));
  enter(NestedChain::prepare(nested_.memory, line, task.operation()));
}

void TaskUnit::prepared(const ChainEffect& effect) {
  Task& task = tasks_.at(effect.task);
  task.packet.record = effect.record;
  records_[effect.record] = effect.task;
  enlist(task);
}

void TaskUnit::on_child(const ChildPacket& packet, std::uint32_t) {
  switch (packet.kind) {
    case ChildPacket::Kind::start: {
      Starting& starting = starting_[packet.record];
      starting = {};
      starting.issued = packet.issued;
      starting.arrived = now();
      starting.issue_known = true;
      enter(NestedChain::start(nested_.memory, packet.record, 0));
      break;
    }
    case ChildPacket::Kind::leave:
      enter(NestedChain::leave(nested_.memory, packet.record));
      break;
    case ChildPacket::Kind::appended:
      on_appended(packet.record, packet.ticket);
      break;
    case ChildPacket::Kind::lost_entry:
      on_lost_entry(packet.record);
      break;
    case ChildPacket::Kind::queued:
      if (Task* task = task_at(packet.record); task != nullptr) {
        task->issued = packet.issued;
        task->issue_known = true;
      } else if (const auto found = starting_.find(packet.record); found != starting_.end()) {
        found->second.issued = packet.issued;
        found->second.issue_known = true;
      } else {
        queued_[packet.record] = {packet.ticket, packet.issued};
      }
      return;
  }
  progress();
}

void TaskUnit::chain_effect(const ChainEffect& effect) {
  switch (effect.kind) {
    case ChainEffect::Kind::child_read:
      child_read(effect);
      return;
    case ChainEffect::Kind::prepared:
      prepared(effect);
      return;
    case ChainEffect::Kind::start:
      start_next(effect);
      return;
    case ChainEffect::Kind::completed:
      completed(effect.record);
      return;
    case ChainEffect::Kind::wake:
      wake(effect);
      return;
    case ChainEffect::Kind::restore:
      restore(effect);
      return;
    case ChainEffect::Kind::queue_found:
      queue_found(effect);
      return;
    case ChainEffect::Kind::queue_closed:
      queue_closed(effect);
      return;
    case ChainEffect::Kind::failed: {
      refused_records_.insert(effect.record);
      const Task* task = task_at(effect.record);
      fault(task == nullptr ? kNoOperation : task->operation(), 0, effect.record,
            "memory refused an access to the records of device-side launches");
      return;
    }
  }
}

// What was ahead of it in its TMDQ has completed; or all of the grid whose tail launch it is.
void TaskUnit::start_next(const ChainEffect& effect) {
  Starting& starting = starting_[effect.record];
  starting = {};
  starting.arrived = now();
  if (const Task* behind = task_at(effect.behind); behind != nullptr) {
    starting.behind = behind->operation();
    starting.behind_stream = behind->child.stream;
    if (timeline() != nullptr) starting.behind_name = label(starting.behind);
    starting.parent = behind->parent;
  }
  if (const Task* owner = task_at(effect.owner); owner != nullptr) starting.parent = owner->operation();
  if (const auto queued = queued_.find(effect.record); queued != queued_.end()) {
    starting.issued = queued->second.issued;
    starting.issue_known = true;
    queued_.erase(queued);
  }
  enter(NestedChain::start(nested_.memory, effect.record, effect.owner));
}

void TaskUnit::child_read(const ChainEffect& effect) {
  const Starting starting = starting_[effect.record];
  starting_.erase(effect.record);
  const ChildRecord child = child_record(effect.line);
  const std::uint32_t operation = protocol::kChildBit | next_number_++;
  arch::KernelObject object;
  arch::KernelShape shape;
  const std::string why = judge(effect, child, object, shape);
  const Task* parent = task_at(effect.owner);
  if (parent != nullptr) shape.subcontext = parent->packet.subcontext;
  gpu_observation(domain_).labels.set(operation,
                                   fmt::format("{} #{}", object.name.empty() ? "child" : object.name, ++child_number_));

  Task task = task_of(operation, child.priority, shape);
  task.origin = Task::Origin::child;
  task.packet.record = effect.record;
  task.source = child.context;
  if (child.mode == arch::LaunchMode::stream) task.source += arch::context::kTmdqs + 8 * std::uint64_t{child.tmdq};
  task.head = child.head;
  task.child = child;
  task.parent = parent == nullptr ? starting.parent : parent->operation();
  task.behind = starting.behind;
  task.behind_stream = starting.behind_stream;
  task.behind_name = starting.behind_name;
  task.issue_known = starting.issue_known;
  task.issued = starting.issued;
  task.arrived = starting.arrived;
  task.read = now();
  records_[effect.record] = operation;
  Task& here = tasks_.emplace(operation, std::move(task)).first->second;
  stats_.children.add();
  stats_.depth.set(child.depth);
  stats_.open_children.set(static_cast<double>(++open_children_));
  if (child.mode == arch::LaunchMode::stream && here.behind != kNoOperation && here.behind_stream != child.stream) {
    stats_.false_dependencies.add();
    if (timeline() != nullptr) rows_.false_dependency(here, now());
  }
  progress();
  if (!why.empty()) {
    refuse(here, why);
    return;
  }
  if (shape.code != arch::kNoCode) {
    here.lent = nested_.codes->lend(shape.code, shape, {}, effect.record + tmd::kArgs);
    here.packet.code = here.lent;
  }
  if (here.launches && nested_.memory.shared_contexts) {
    enter(NestedChain::share(nested_.memory, effect.record, operation));
  } else {
    enlist(here);
  }
}

// Block and shared memory are those of the program; a kernel without one has as many threads as its object allows.
std::string TaskUnit::judge(const ChainEffect& effect, const ChildRecord& child, arch::KernelObject& object,
                            arch::KernelShape& shape) const {
  if (!effect.ok) return "there is no kernel object";
  if (const arch::Verdict verdict = arch::decode(effect.other, object); !verdict.ok()) return verdict.why;
  shape.grid = child.grid;
  shape.block = {object.threads_limit == 0 ? limits_.warp_size : object.threads_limit, 1, 1};
  shape.registers_per_thread = object.registers_per_thread;
  shape.shared_bytes = object.static_shared;
  shape.cluster = object.cluster;
  shape.code = object.program;
  if (object.program == arch::kNoCode) {
    shape.duration = object.duration;
  } else if (!nested_.codes->has(object.program)) {
    shape.code = arch::kNoCode;
    return "the kernel object names a program that is not there";
  } else {
    const arch::Code& code = nested_.codes->at(object.program);
    shape.block = code.block;
    shape.shared_bytes = std::max(object.static_shared, code.shared_bytes);
  }
  if (child.grid.x > arch::kMaxGridX || child.grid.y > arch::kMaxGridY || child.grid.z > arch::kMaxGridZ) {
    return "the grid is too large";
  }
  const std::string impossible = arch::why_impossible(limits_, shape);
  if (!impossible.empty()) return impossible;
  return arch::why_malformed(shape.grid, shape.cluster, ~std::uint32_t{0});
}

// It completes without having run.
void TaskUnit::refuse(Task& task, const std::string& why) {
  fault(task.operation(), task.packet.subcontext, task.child.kernel, why);
  task.status = DoneStatus::faulted;
  task.listed = task.end = now();
  run_over(task);
}

void TaskUnit::fault(std::uint32_t operation, std::uint8_t subcontext, std::uint64_t address,
                     const std::string& where) {
  if (!fault_sink_) return;
  arch::FaultRecord record;
  record.kind = arch::FaultKind::child;
  record.task = operation;
  record.operation = arch::OpCode::launch_child;
  record.address = address;
  record.cycle = now();
  record.where = where;
  record.subcontext = subcontext;
  record.of_tasks = true;
  fault_sink_(record);
}

void TaskUnit::completed(std::uint64_t record) {
  const auto found = records_.find(record);
  if (found == records_.end()) return;
  finish_task(found->second, now());
}

void TaskUnit::finish_child(const Task& task, Cycle end) {
  stats_.open_children.set(static_cast<double>(--open_children_));
  if (task.start != 0 && task.issue_known && task.behind == kNoOperation && task.child.mode != arch::LaunchMode::tail) {
    const auto part = [this](Cycle from, Cycle to) { return ns(to - std::min(from, to)); };
    stats_.child_latency.add(part(task.issued, task.start));
    stats_.child_launch.add(part(task.issued, task.arrived));
    stats_.child_read.add(part(task.arrived, task.read));
    stats_.child_list.add(part(task.read, task.listed));
    stats_.child_dispatch.add(part(task.listed, task.start));
  }
  if (timeline() != nullptr) rows_.child(task, end);
  if (task.status == DoneStatus::ok) {
    gpu_observation(domain_).labels.forget(task.operation());
  } else {
    stats_.child_faults.add();
  }
  progress();
}

void TaskUnit::wake(const ChainEffect& effect) {
  stats_.wakes.add();
  for (std::uint32_t sm = 0; sm < wake_out.links(); ++sm) {
    if (effect.sm == kAllSms || effect.sm == sm) wake_out.send({effect.record}, sm);
  }
}

// A saved CTA goes on as a task of its own, at the head of the list of the task that it belongs to.
void TaskUnit::restore(const ChainEffect& effect) {
  namespace saved = arch::saved;
  const auto found = tasks_.find(arch::get_32(effect.line, saved::kOperation));
  const std::uint64_t record = arch::get_64(effect.line, saved::kRecord);
  if (found == tasks_.end() || record == 0 || found->second.record() != record) {
    fault(kNoOperation, 0, effect.record, "the area of a saved CTA does not name its task");
    return;
  }
  const Task& origin = found->second;
  Task task;
  task.origin = Task::Origin::restored;
  task.head = true;
  task.packet = origin.packet;
  task.packet.operation = protocol::kChildBit | next_number_++;
  task.packet.kind = protocol::TaskKind::restore;
  task.packet.resumed = false;
  task.packet.cluster = {};  // one CTA
  task.packet.runs_as = origin.operation();
  task.packet.area = effect.record;
  task.packet.id.cta = {arch::get_32(effect.line, saved::kCtaX), arch::get_32(effect.line, saved::kCtaY),
                        arch::get_32(effect.line, saved::kCtaZ)};
  task.packet.id.index = task.packet.id.cga = arch::get_64(effect.line, saved::kIndex);
  gpu_observation(domain_).labels.set(task.operation(), label(origin.operation()) + " (restored)");
  stats_.restores.add();
  stats_.wakes.add();
  Task& here = tasks_.emplace(task.operation(), std::move(task)).first->second;
  here.queue = 0;
  enlist(here);
}

}  // namespace heddle::task
