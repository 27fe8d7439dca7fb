#include "task/child_launcher.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "arch/kernel_object.h"

namespace heddle::task {

namespace tmd = arch::tmd;
using protocol::DoneStatus;

namespace {

LaunchedKernels::Task::End how_ended(DoneStatus status) {
  using End = LaunchedKernels::Task::End;
  switch (status) {
    case DoneStatus::ok:
      return End::well;
    case DoneStatus::rejected:
      return End::rejected;
    case DoneStatus::faulted:
      return End::faulted;
    case DoneStatus::aborted:
      return End::aborted;
  }
  return End::well;
}

// What the host pushes it has put where it likes; a grid launches what its process can reach. One that is not known any
// more is of subcontext 0, as its children are.
ObjectSpaces spaces_of(const OpenTasks& tasks) {
  return [&tasks](std::uint64_t parent) -> std::optional<std::uint8_t> {
    if (arch::is_host_owner(parent)) return std::nullopt;
    const Task* task = tasks.of_record(parent);
    return task == nullptr ? std::uint8_t{0} : task->packet.subcontext;
  };
}

// Code in memory was refused before where there is nobody to decode it.
bool can_launch(const LaunchPlace& place, const arch::KernelObject& object) {
  return place.brought != nullptr ? place.brought->can_launch(object) : place.codes->has(object.program);
}

// Why a child cannot run; empty: it can, with `shape`, whose subcontext is known. Block, shared and local memory are
// those of the program; a kernel without one has as many threads as its object allows.
std::string why_refused(const ChildLauncher::Setup& setup, const ChildRead& read, const ChildRecord& child,
                        arch::KernelObject& object, arch::KernelShape& shape) {
  if (!read.readable) return "there is no kernel object";
  if (const arch::HsaResult result = arch::decode(read.object, object); !result.ok()) {
    return arch::reason_text(result.reason);
  }
  if (object.code.any()) {
    if (!read.code.complete()) return arch::reason_text(arch::Reason::code_unreadable);
    if (setup.place.brought == nullptr) return arch::reason_text(arch::Reason::code_machine);
    if (const arch::HsaResult result = setup.place.brought->resolve(read.code.bytes(), shape.subcontext, object);
        !result.ok()) {
      return arch::reason_text(result.reason);
    }
  }
  shape.grid = child.grid;
  shape.block = {object.threads_limit == 0 ? setup.limits.warp_size : object.threads_limit, 1, 1};
  shape.registers_per_thread = object.registers_per_thread;
  shape.shared_bytes = object.static_shared;
  shape.cluster = object.cluster;
  shape.raster = object.raster;
  shape.cooperative = object.cooperative;
  shape.code = object.program;
  if (object.program == arch::kNoCode) {
    shape.duration = object.duration;
  } else if (!can_launch(setup.place, object)) {
    shape.code = arch::kNoCode;
    return "the kernel object names a program that is not there";
  } else {
    const arch::Code& code = setup.place.codes->at(object.program);
    shape.block = code.block;
    shape.shared_bytes = std::max(object.static_shared, code.shared_bytes);
    shape.local_bytes = code.local_bytes;
  }
  if (child.queue != 0 && shape.code == arch::kNoCode) return "a queue task needs a program, which reads its entries";
  if (child.queue != 0 && shape.cluster.any()) return "the CTAs of a queue task start one by one, without clusters";
  if (child.grid.x > arch::kMaxGridX || child.grid.y > arch::kMaxGridY || child.grid.z > arch::kMaxGridZ) {
    return "the grid is too large";
  }
  const std::string impossible = arch::why_impossible(setup.limits, shape);
  if (!impossible.empty()) return impossible;
  return arch::why_malformed(shape.grid, shape.cluster, ~std::uint32_t{0});
}

}  // namespace

ChildLauncher::ChildLauncher(Timebase& timebase, const Setup& setup, OpenTasks& tasks, TaskLife& life,
                             TaskDispatcher& dispatcher, LaunchScheduler& scheduler, TaskRows& rows,
                             PacketSender<protocol::WakePacket>& wake_out, PacketSender<protocol::GrowPacket>& grow_out,
                             const std::string& stat_prefix)
    : timebase_(timebase),
      observation_(gpu_observation(timebase)),
      setup_(setup),
      tasks_(tasks),
      life_(life),
      dispatcher_(dispatcher),
      scheduler_(scheduler),
      rows_(rows),
      wake_out_(wake_out),
      grow_out_(grow_out),
      stats_(observation_.stats, stat_prefix) {}

void ChildLauncher::start(std::uint64_t record, std::optional<Cycle> issued) {
  Starting& starting = starting_[record];
  starting = {};
  starting.issued = issued;
  starting.arrived = now();
  scheduler_.enter(start_chain(record, spaces_of(tasks_)));
}

void ChildLauncher::queued(const protocol::ChildPacket& packet) {
  if (Task* task = tasks_.of_record(packet.record); task != nullptr) {
    task->launch.issued = packet.issued;
  } else if (const auto found = starting_.find(packet.record); found != starting_.end()) {
    found->second.issued = packet.issued;
  } else {
    queued_[packet.record] = {packet.ticket, packet.issued, now()};
  }
}

// What was ahead of the task in its TMDQ has completed; or all of the grid whose tail launch it is.
void ChildLauncher::ready(const ChildReady& effect) {
  stats_.next_waits.add(effect.waited ? 1 : 0);
  Starting& starting = starting_[effect.record];
  starting = {};
  starting.arrived = now();
  const Task* behind = tasks_.of_record(effect.behind);
  if (behind != nullptr) {
    starting.behind = Task::Launch::Ahead{behind->operation(), behind->launch.child.stream, {}};
    if (observation_.timeline != nullptr) starting.behind->name = label(behind->operation());
    starting.parent = behind->launch.parent;
  }
  starting.behind_event = effect.behind != 0 && behind == nullptr;
  // When what the first tail launch of the same grid waited for had ended.
  if (effect.owner != 0) starting.tails_from = behind == nullptr ? now() : behind->launch.tails_from;
  if (const Task* owner = tasks_.of_record(effect.owner); owner != nullptr) starting.parent = owner->operation();
  if (const auto queued = queued_.find(effect.record); queued != queued_.end()) {
    starting.issued = queued->second.issued;
    starting.pushed = queued->second.pushed;
    queued_.erase(queued);
  }
  scheduler_.enter(start_chain(effect.record, spaces_of(tasks_)));
}

void ChildLauncher::read(const ChildRead& effect, bool known) {
  if (!known) {
    starting_.erase(effect.record);
    fault(std::nullopt, arch::subcontext_of_owner(effect.parent), effect.record,
          "a TMD in a queue of the host does not name the task that the host has pushed with it");
    return;
  }
  const ChildRecord child = child_record(effect.line);
  arch::KernelObject object;
  arch::KernelShape shape;
  const bool of_host = arch::is_host_owner(effect.parent);
  if (of_host) {
    shape.subcontext = arch::subcontext_of_owner(effect.parent);
  } else if (const Task* parent = tasks_.of_record(effect.parent); parent != nullptr) {
    shape.subcontext = parent->packet.subcontext;
  }
  const std::string why = why_refused(setup_, effect, child, object, shape);
  Task& here = tasks_.add(make_child(effect, child, shape));
  tasks_.set_record(here, effect.record);
  if (!of_host) here.tmd.address = effect.record;
  if (!of_host) note_launch(here, object.name);
  ++observation_.progress;
  if (!why.empty()) {
    refuse(here, why);
    return;
  }
  if (child.queue != 0) {
    here.queue = Task::QueueUse{child.queue, child.entries, child.held_open};
    life_.task_placed(here);
    return;
  }
  if (shape.code != arch::kNoCode) {
    here.lent = setup_.place.codes->lend(shape.code, shape, {}, effect.record + tmd::kArgs);
    here.packet.code = here.lent;
  }
  life_.task_ready(here);
}

Task ChildLauncher::make_child(const ChildRead& effect, const ChildRecord& child, const arch::KernelShape& shape) {
  Starting starting = std::move(starting_[effect.record]);
  starting_.erase(effect.record);
  const bool of_host = arch::is_host_owner(effect.parent);
  const std::uint32_t operation = of_host ? child.operation() : protocol::kChildBit | next_number_++;
  Task task = make_task(setup_.limits, setup_.place.codes, operation, child.priority, shape);
  task.origin = of_host ? Task::Origin::tmdq : Task::Origin::child;
  task.source = child.context;
  if (child.mode == arch::LaunchMode::stream) task.source += arch::context::last_task(child.tmdq);
  task.head = child.head;
  const Task* parent = tasks_.of_record(effect.parent);
  task.packet.depth = child.depth;
  task.launch.child = child;
  task.launch.parent = parent == nullptr ? starting.parent : parent->operation();
  task.launch.behind = std::move(starting.behind);
  task.launch.behind_event = starting.behind_event;
  task.launch.issued = starting.issued;
  task.launch.pushed = starting.pushed;
  task.launch.tails_from = starting.tails_from;
  task.launch.arrived = starting.arrived;
  task.launch.read = now();
  return task;
}

void ChildLauncher::note_launch(const Task& task, const std::string& kernel) {
  const Task::Launch& launch = task.launch;
  const std::string name = kernel.empty() ? "child" : kernel;
  const std::uint32_t depth = launch.child.depth;
  observation_.labels.set(task.operation(), fmt::format("{} #{}", name, ++child_number_));
  if (Task* by = launch.parent ? tasks_.find(*launch.parent) : nullptr; by != nullptr) by->launched = true;
  observation_.launched.launched(task.operation(), name, launch.parent, depth);
  if (observation_.ctas != nullptr) {
    observation_.ctas->task_launched({task.operation(), launch.parent, name, depth, task.packet.subcontext});
  }
  stats_.children.add();
  stats_.depth.set(depth);
  stats_.open_children.set(static_cast<double>(++open_children_));
  const bool in_stream = launch.behind && launch.child.mode == arch::LaunchMode::stream;
  if (!in_stream || launch.behind->stream == launch.child.stream) return;
  stats_.false_dependencies.add();
  ++observation_.launched.of(task.operation())->false_dependencies;
  if (observation_.timeline != nullptr) rows_.false_dependency(task, now());
}

void ChildLauncher::refuse(Task& task, const std::string& why) {
  fault(task.operation(), task.packet.subcontext, task.launch.child.kernel, why);
  task.status = DoneStatus::faulted;
  task.listed = task.end = now();
  if (task.of_host()) task.start = task.end;
  life_.task_run_over(task);
}

void ChildLauncher::failed(const AccessFailed& effect) {
  refused_.insert(effect.record);
  const Task* task = tasks_.of_record(effect.record);
  fault(task == nullptr ? std::nullopt : std::optional(task->operation()), 0, effect.record,
        "memory refused an access to the records of device-side launches");
}

void ChildLauncher::fault(std::optional<std::uint32_t> operation, std::uint8_t subcontext, std::uint64_t address,
                          const std::string& where) {
  if (!fault_sink_) return;
  arch::FaultRecord record;
  record.kind = arch::FaultKind::child;
  record.task = operation.value_or(arch::kNoTask);
  record.operation = arch::OpCode::launch_child;
  record.address = address;
  record.cycle = now();
  record.where = where;
  record.subcontext = subcontext;
  record.of_tasks = true;
  fault_sink_(record);
}

void ChildLauncher::finished(const Task& task, Cycle end) {
  stats_.open_children.set(static_cast<double>(--open_children_));
  note_latency(task);
  note_end(task, end);
  if (observation_.timeline != nullptr) rows_.child(task, end);
  if (task.status == DoneStatus::faulted) {
    stats_.child_faults.add();
  } else {
    observation_.labels.forget(task.operation());
  }
  ++observation_.progress;
}

void ChildLauncher::note_end(const Task& task, Cycle end) {
  LaunchedKernels::Sum& sum = *observation_.launched.of(task.operation());
  const Cycle last = std::max(task.start, std::min(task.end, end));
  LaunchedKernels::Task ended;
  ended.task = task.operation();
  ended.parent = task.launch.parent;
  ended.priority = task.packet.priority;
  ended.subcontext = task.packet.subcontext;
  ended.how = how_ended(task.status);
  ended.grid = task.packet.grid;
  ended.issued = task.launch.issued.value_or(task.launch.arrived);
  ended.start = task.start;
  ended.end = last;
  ended.completed = end;
  observation_.launched.ended(ended);
  sum.faulted += task.status == DoneStatus::faulted ? 1 : 0;
  if (task.start == 0) return;
  ++sum.started;
  sum.waited += task.start - std::min(task.start, task.launch.issued.value_or(task.launch.arrived));
  sum.ran += last - task.start;
  if (!task.launched) return;
  ++sum.parents;
  sum.completed += end - last;
}

// Only launches that nothing held back count.
void ChildLauncher::note_latency(const Task& task) {
  const Task::Launch& launch = task.launch;
  const bool held = launch.behind || launch.behind_event || launch.child.mode == arch::LaunchMode::tail;
  if (task.start == 0 || !launch.issued || held) return;
  const auto part = [this](Cycle from, Cycle to) { return setup_.time.ns(to - std::min(from, to)); };
  stats_.child_latency.add(part(*launch.issued, task.start));
  stats_.child_launch.add(part(*launch.issued, launch.arrived));
  stats_.child_read.add(part(launch.arrived, launch.read));
  stats_.child_list.add(part(launch.read, task.listed));
  stats_.child_dispatch.add(part(task.listed, task.start));
}

void ChildLauncher::wake(const WakeContext& effect) {
  stats_.wakes.add();
  for (std::uint32_t sm = 0; sm < setup_.place.sms; ++sm) {
    if (!effect.sm || *effect.sm == sm) wake_out_.send({effect.context}, sm);
  }
}

// A saved CTA becomes a task of its own, at the head of the list of the task that it belongs to. One that was preempted
// goes back to that task, which has counted on it.
void ChildLauncher::restore(const RestoreCta& effect) {
  namespace saved = arch::saved;
  const Task* origin = tasks_.find(arch::get_32(effect.line, saved::kOperation));
  const std::uint64_t record = arch::get_64(effect.line, saved::kRecord);
  const bool owed = arch::get_32(effect.line, saved::kOwed) != 0;
  if (origin == nullptr || origin->record() != record || (record == 0 && !owed)) {
    fault(std::nullopt, 0, effect.area, "the area of a saved CTA does not name its task");
    return;
  }
  stats_.restores.add();
  arch::CtaId id;
  id.cta = {arch::get_32(effect.line, saved::kCtaX), arch::get_32(effect.line, saved::kCtaY),
            arch::get_32(effect.line, saved::kCtaZ)};
  id.index = id.cga = arch::get_64(effect.line, saved::kIndex);
  if (owed) {
    grow_out_.send({origin->operation(), 0, false, false, protocol::RestoredCta{effect.area, id, 1}});
    return;
  }
  if (join_restored(*origin, {effect.area, id, 1})) return;
  Task task = make_restored(*origin, effect.area);
  task.packet.cluster = {};
  task.packet.id = id;
  restored_[origin->operation()] = task.operation();
  dispatcher_.enlist(tasks_.add(std::move(task)));
}

constexpr std::uint64_t kMostRestored = 1024;  // CTAs of one restored task

// CTAs of one task that wait for a slot of the task table wait for the same one.
bool ChildLauncher::join_restored(const Task& origin, const protocol::RestoredCta& cta) {
  const auto found = restored_.find(origin.operation());
  if (found == restored_.end()) return false;
  Task* task = tasks_.find(found->second);
  const bool waits = task != nullptr && (task->state == Task::State::listed || task->state == Task::State::entering ||
                                         task->state == Task::State::waiting);
  if (!waits || task->packet.restored_ctas() >= kMostRestored) {
    restored_.erase(found);
    return false;
  }
  auto all = std::make_shared<std::vector<protocol::RestoredCta>>();
  if (task->packet.further != nullptr) *all = *task->packet.further;
  all->push_back(cta);
  task->packet.further = std::move(all);
  stats_.wakes.add();
  ++observation_.progress;
  return true;
}

// A CGA becomes a grid of its own.
void ChildLauncher::restore(const RestoreCga& effect) {
  namespace cga = arch::saved_cga;
  const Task* origin = tasks_.find(arch::get_32(effect.line, cga::kOperation));
  const std::uint64_t record = arch::get_64(effect.line, cga::kRecord);
  const std::uint32_t size = arch::get_32(effect.line, cga::kSize);
  const std::uint32_t saved = arch::get_32(effect.line, cga::kSaved);
  const bool owed = arch::get_32(effect.line, cga::kOwed) != 0;
  const bool sound = origin != nullptr && (record != 0 || owed) && origin->record() == record &&
                     origin->packet.cluster.any() && size < origin->packet.cluster.sizes();
  if (!sound) {
    fault(std::nullopt, 0, effect.record, "the record of a saved CGA does not name its task");
    return;
  }
  if (owed) {
    arch::CtaId id;
    id.size = static_cast<std::uint8_t>(size);
    stats_.restores.add(saved);
    grow_out_.send(
        {origin->operation(), 0, false, false, protocol::RestoredCta{arch::preempted_cga(effect.record), id, saved}});
    return;
  }
  Task task = make_restored(*origin, arch::saved_cga_home(effect.record));
  arch::ClusterShape& cluster = task.packet.cluster;
  const arch::Dim3 extents = cluster.size(size);
  cluster.of(cluster.outermost()) = extents;
  cluster.fallback = {arch::kNoExtents, arch::kNoExtents, arch::kNoExtents, arch::kNoExtents};
  task.packet.grid = extents;
  task.packet.raster = {};
  stats_.restores.add(extents.count());
  dispatcher_.enlist(tasks_.add(std::move(task)));
}

Task ChildLauncher::make_restored(const Task& origin, std::uint64_t area) {
  Task task;
  task.origin = Task::Origin::restored;
  task.head = true;
  task.packet = origin.packet;
  task.packet.operation = protocol::kChildBit | next_number_++;
  task.packet.kind = protocol::TaskKind::restore;
  task.packet.resumed = false;
  task.packet.progress = {};
  task.packet.runs_as = origin.operation();
  task.packet.area = area;
  // An SM is to end it, whatever else there is to do.
  if (origin.leave.killed) task.packet.priority = std::numeric_limits<std::int32_t>::max();
  ++task.packet.depth;  // before CTAs of its task that have not begun
  observation_.labels.set(task.operation(), label(origin.operation()) + " (restored)");
  stats_.wakes.add();
  return task;
}

// A fault of the CTA is one of its task.
void ChildLauncher::restored_over(const Task& task) {
  Task* origin = tasks_.find(task.packet.runs_as);
  const bool broken = task.status == DoneStatus::faulted || task.status == DoneStatus::aborted;
  if (broken && origin != nullptr && origin->leave.killed) origin->status = DoneStatus::aborted;
  if (task.status == DoneStatus::faulted && origin != nullptr && !origin->leave.killed) {
    origin->status = DoneStatus::faulted;
    // If it was evicted the distributor may not have known it.
    if (origin->state == Task::State::running && !origin->evicted.empty()) {
      grow_out_.send({origin->operation(), 0, false, true});
    }
  }
  observation_.labels.forget(task.operation());
  // A CGA counts as open for as long as one of its CTAs can run, whoever launches.
  if (arch::is_saved_cga(task.packet.area)) {
    scheduler_.enter(ended_chain(setup_.place.memory_of(task), task.record()));
  }
  tasks_.take(task.operation());
  ++observation_.progress;
}

void ChildLauncher::collect_waits(WaitGraph& graph, const QueueTasks& queues, const StreamEvents& events) const {
  // The ends of tasks whose records memory refused are not known any more: only a reset ends what waits for them.
  for (const std::uint64_t record : refused_) {
    const std::string what = fmt::format("what lies at 0x{:x}, which memory refused", record);
    if (queues.known(record)) {
      graph.add(label(queues.operation_of(record).value_or(arch::kNoTask)), "for", what);
      continue;
    }
    const Task* owner = tasks_.of_record(record);
    tasks_.for_each([&](const Task& task) {
      const bool concerned = owner == nullptr ? task.record() != 0 : &task == owner;
      if (concerned) graph.add("children of " + label(task.operation()), "for", what);
    });
  }
  const auto name = [&](std::uint64_t at) {
    if (const std::string event = events.name(at); !event.empty()) return event;
    const Task* task = tasks_.of_record(at);
    return task == nullptr ? fmt::format("the launch at 0x{:x}", at) : label(task->operation());
  };
  events.collect_waits(
      graph, [this](std::uint32_t operation) { return label(operation); }, name);
  // Of further launches only memory knows.
  for (const auto& [record, queued] : queued_) {
    if (queued.behind == 0) continue;
    graph.add(name(record), "for its turn in its TMDQ, behind", name(queued.behind));
  }
}

void ChildLauncher::reset() {
  starting_.clear();
  queued_.clear();
  refused_.clear();
  restored_.clear();
  next_number_ = 0;
  child_number_ = 0;
  open_children_ = 0;
}

}  // namespace heddle::task
