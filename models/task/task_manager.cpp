#include "task/task_manager.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

namespace heddle::task {

using protocol::ChildPacket;
using protocol::DoneStatus;

namespace {

template <class... Parts>
struct Visitor : Parts... {
  using Parts::operator()...;
};
template <class... Parts>
Visitor(Parts...) -> Visitor<Parts...>;

// A kernel whose record is written is handed on early, so that this is done in the gap.
StreamFront::Costs front_costs(const Timebase& timebase, const TaskParams& params, const TaskManager::Setup& setup) {
  StreamFront::Costs costs;
  costs.gap = timebase.cost(setup.time.cycles(params.stream_gap));
  costs.start_path = timebase.cost(setup.start_path);
  costs.front_end = timebase.cost(setup.time.cycles(params.gap.front_end));
  costs.fetches = params.gap.fetches;
  costs.channels = setup.place.channels;
  costs.early = params.host_records && setup.place.memory.any();
  return costs;
}

}  // namespace

TaskManager::TaskManager(Timebase& timebase, const std::string& name, const std::string& stat_prefix,
                         const TaskParams& params, const Setup& setup, const TaskPorts& ports)
    : timebase_(timebase),
      place_(setup.place),
      tasks_(idle_account(timebase)),
      rows_(timebase, timebase.cost(setup.start_path)),
      scheduler_(timebase, name + ".scheduler", ports.memory, *this,
                 {params.nested.in_flight, timebase.cost(params.nested.schedule_cycles),
                  std::max<Cycle>(1, params.nested.retry)},
                 stat_prefix),
      records_(tasks_, scheduler_, {setup.limits, setup.place.codes, setup.place.memory, params.host_records},
               std::max(setup.task_slots, 1U)),
      dispatcher_(timebase, name, tasks_, *this, records_, ports.task, ports.evict,
                  {setup.task_slots, params.table_guarantee / 100, setup.partitioned},
                  {params.list_entries, timebase.cost(params.list_insert), timebase.cost(params.list_take)},
                  stat_prefix),
      grow_out_(ports.grow),
      queues_(timebase.observation(), tasks_, *this, dispatcher_, scheduler_, setup.place.codes, setup.place.memory,
              ports.grow, stat_prefix),
      dependents_(ports.wake, setup.preempts),
      streams_(timebase, name, {setup.limits, setup.time, setup.place.codes, front_costs(timebase, params, setup)},
               *this, scheduler_, dependents_, queues_, rows_, {ports.done, ports.dispatch_done, ports.copy},
               stat_prefix),
      ends_(timebase, name + ".ends",
            {timebase.cost(setup.time.cycles(params.gap.drain)), params.gap.report ? setup.place.channels : 0}, tasks_,
            *this, scheduler_),
      events_(timebase.observation(), tasks_, scheduler_, setup.place.memory, stat_prefix),
      launcher_(timebase, {setup.limits, setup.time, setup.place}, tasks_, *this, dispatcher_, scheduler_, rows_,
                ports.wake, ports.grow, stat_prefix) {
  if (place_.brought != nullptr) place_.brought->add_user(tasks_);
}

void TaskManager::on_child(const ChildPacket& packet, std::uint32_t) {
  switch (packet.kind) {
    case ChildPacket::Kind::start:
      launcher_.start(packet.record, packet.issued);
      break;
    case ChildPacket::Kind::leave:
      scheduler_.enter(leave_chain(place_.memory.part_at(packet.record), packet.record));
      break;
    case ChildPacket::Kind::wake:
      scheduler_.enter(wake_chain(place_.memory.part_at(packet.record), packet.record));
      break;
    case ChildPacket::Kind::preempted:
      scheduler_.enter(preempted_chain(place_.memory.part_at(packet.record), packet.record));
      break;
    case ChildPacket::Kind::wake_cga:
      scheduler_.enter(wake_cga_chain(place_.memory.part_at(packet.record), packet.record));
      break;
    case ChildPacket::Kind::ended:
      scheduler_.enter(ended_chain(place_.memory_of(tasks_, packet.record), packet.record));
      break;
    case ChildPacket::Kind::appended:
      queues_.appended(packet.record, packet.ticket);
      break;
    case ChildPacket::Kind::lost_entry:
      queues_.lost_entry(packet.record);
      break;
    case ChildPacket::Kind::enough:
      queues_.enough(packet.record);
      break;
    case ChildPacket::Kind::lets_go:
      if (Task* task = tasks_.find(static_cast<std::uint32_t>(packet.record)); task != nullptr) {
        if (dependents_.cta_lets_go(*task)) streams_.lets_go(*task);
      }
      break;
    case ChildPacket::Kind::depends:
      dependents_.asked(static_cast<std::uint32_t>(packet.record), static_cast<std::uint32_t>(packet.ticket));
      break;
    case ChildPacket::Kind::queued:
      launcher_.queued(packet);
      return;
  }
  ++timebase_.observation().progress;
}

void TaskManager::on_push(const protocol::SubmitPacket& packet) {
  streams_.pushed(packet);
  if (packet.kind == protocol::SubmitKind::start) launcher_.start(packet.record, std::nullopt);
  ++timebase_.observation().progress;
}

// On the way to its list a task's queue is looked up.
void TaskManager::task_due(Task task) {
  Task& here = tasks_.add(std::move(task));
  if (here.queue) {
    queues_.find(here);
  } else {
    task_ready(here);
  }
}

// Its descendants are to end with it, for which it would wait. What one of these has launched and nobody has read yet
// ends when it comes (task_ready()). Of what runs the distributor tells the end, also of an evicted task of which it
// still knows, or whose notice that it does not is under way. The rest ends at once, or when it gets to its list.
void TaskManager::task_killed(std::uint32_t operation) {
  Task* top = tasks_.find(operation);
  if (top == nullptr) return;
  top->leave.killed = true;
  std::vector<std::uint32_t> doomed;
  tasks_.for_each([&](const Task& task) {
    if (tasks_.doomed(task)) doomed.push_back(task.operation());
  });
  if (doomed.size() > 1) top->status = DoneStatus::aborted;  // what it waits for does not end as it should
  for (const std::uint32_t number : doomed) {
    Task* task = tasks_.find(number);
    if (task == nullptr || task->origin == Task::Origin::restored) continue;  // an SM ends what was saved
    task->leave.killed = true;
    if (task->runs()) grow_out_.send({number, 0, false, true});
    const bool begins = task->state == Task::State::preparing || task->state == Task::State::run_over;
    const bool known = task->state == Task::State::running || (task->runs() && !task->packet.anew);
    if (!begins && !known) dispatcher_.on_task_done(task->end_unsent(timebase_.now()), 0);
  }
  ++timebase_.observation().progress;
}

void TaskManager::task_placed(Task& task) {
  queues_.submitted(task.queue->address);
  queues_.find(task);
}

// It is given a TMD if its program launches, or if all tasks have one. One that came through memory has it.
void TaskManager::task_ready(Task& task) {
  task.leave.killed = tasks_.doomed(task);
  if (task.brought()) {
    const arch::LaunchMemory memory = place_.memory_of(task);
    if (task.launches && memory.shared_contexts) {
      scheduler_.enter(share_chain(memory, task.record(), task.operation()));
    } else {
      dispatcher_.enlist(task);
    }
  } else if (records_.wanted(task)) {
    records_.request(task);
  } else {
    dispatcher_.enlist(task);
  }
}

void TaskManager::task_rejected(Task& task) {
  if (task.origin == Task::Origin::child) {
    launcher_.refuse(task, "its queue is closed, or another task has it");
    return;
  }
  task.status = DoneStatus::rejected;
  task.start = task.end = timebase_.now();
  finish(task.operation(), timebase_.now());
}

// A task that has a TMD and was sent gives its place among those that hold one to another; those that came through
// memory brought theirs.
void TaskManager::task_sent(Task& task) {
  tasks_.sent(task);
  if (task.queue) queues_.begin(task);
  if (records_.wanted(task)) records_.sent(task);
}

// A fault of a saved CTA of it, which was restored in the meantime, or a record that makes no sense has ended it.
void TaskManager::task_sent_again(Task& task) {
  records_.back(task);
  if (task.status == DoneStatus::faulted) grow_out_.send({task.operation(), 0, false, true});
}

// A task with a TMD has completed only once its descendants have (TSK-10).
void TaskManager::task_run_over(Task& task) {
  const bool ended_well = task.status != DoneStatus::rejected && task.status != DoneStatus::aborted;
  if (task.of_host() && ended_well) streams_.note_start(task);
  task.state = Task::State::run_over;
  if (task.queue) queues_.end(task);
  task.queue.reset();  // another task may have it now
  if (task.origin == Task::Origin::stream && !task.launches) {
    streams_.lets_go(task);
    dependents_.over(task.operation());
  }
  const bool ran = task.status != DoneStatus::rejected && task.origin != Task::Origin::restored;
  if (!ran || !ends_.begin(task)) task_ended(task);
}

void TaskManager::task_ended(Task& task) {
  if (task.origin == Task::Origin::restored) {
    launcher_.restored_over(task);
  } else if (task.record() != 0) {
    scheduler_.enter(ended_chain(place_.memory_of(task), task.record()));
  } else {
    finish(task.operation(), task.end);
  }
}

void TaskManager::finish(std::uint32_t operation, Cycle end) {
  const Task task = tasks_.take(operation);
  records_.give_back(task);
  if (task.lent != 0) place_.codes->give_back(task.lent);
  if (task.origin == Task::Origin::child) {
    launcher_.finished(task, end);
  } else {
    streams_.finished(task, end);
  }
}

void TaskManager::chain_effect(const ChainEffect& effect) {
  std::visit(Visitor{[this](const ChildRead& task) {
                       const bool of_host = arch::is_host_owner(task.parent);
                       const std::uint32_t operation = of_host ? child_record(task.line).operation() : 0;
                       const bool awaited = streams_.all_pushed().awaits(operation, task.record);
                       launcher_.read(task, !of_host || (awaited && tasks_.find(operation) == nullptr));
                     },
                     [this](const RecordPrepared& record) { prepared(record); },
                     [this](const RecordRead& record) {
                       Task& task = tasks_.at(record.task);
                       dispatcher_.fetched(task, records_.take_over(task, record));
                     },
                     [this](const ProgressWritten& progress) { dispatcher_.come_back(tasks_.at(progress.task)); },
                     [this](const ChildReady& ready) { launcher_.ready(ready); },
                     [this](const TaskCompleted& completed) {
                       const Task* task = tasks_.of_record(completed.record);
                       if (task == nullptr) return;
                       finish(task->operation(), timebase_.now());
                       dispatcher_.dispatch();  // it may have kept a record, for want of which others were not evicted
                     },
                     [this](const WakeContext& context) { launcher_.wake(context); },
                     [this](const RestoreCta& cta) { launcher_.restore(cta); },
                     [this](const RestoreCga& cga) { launcher_.restore(cga); },
                     [this](const MarkOver& mark) {
                       launcher_.forget(mark.record);
                       events_.over(mark);
                     },
                     [this](const EventAwaited& wait) {
                       launcher_.forget(wait.record);
                       events_.awaited(wait);
                     },
                     [this](const QueueFound& queue) { queues_.found(queue); },
                     [this](const QueueClosed& queue) { queues_.closed(queue); },
                     [this](const ContextClosed& context) {
                       if (const Task* task = tasks_.of_record(context.record)) queues_.context_closed(*task);
                     },
                     [this](const DescriptorRead& read) { streams_.front().fetched(read.operation); },
                     [this](const EndReported& end) { ends_.reported(end.operation); },
                     [this](const AccessFailed& access) { launcher_.failed(access); }},
             effect);
}

void TaskManager::prepared(const RecordPrepared& effect) {
  Task& task = tasks_.at(effect.task);
  // One that came through memory has been given a shared context, or a record for how far it has come.
  if (!task.brought() || task.state == Task::State::suspended) task.tmd.address = effect.record;
  if (task.launches && task.record() == 0) tasks_.set_record(task, effect.record);
  if (task.state == Task::State::suspended) {
    dispatcher_.come_back(task);
  } else {
    dispatcher_.enlist(task);
  }
}

void TaskManager::reset() {
  streams_.reset();
  dependents_.reset();
  queues_.reset();
  dispatcher_.reset();
  records_.reset();
  scheduler_.reset();
  launcher_.reset();
  events_.reset();
  rows_.reset();
  tasks_.clear();
}

// Who waits for what, when nothing happens any more.
void TaskManager::collect_waits(WaitGraph& graph) const {
  constexpr const char* kRecords = "the records of tasks in memory";
  const Labels& labels = gpu_observation(timebase_).labels;
  const auto label = [&labels](std::uint32_t operation) { return labels.of(operation); };
  const auto started = [this](std::uint32_t operation) { return tasks_.find(operation) != nullptr; };
  streams_.collect_waits(graph, label, started);
  dispatcher_.collect_waits(graph, label);
  bool records = false;
  tasks_.for_each([&](const Task& task) {
    const std::string name = label(task.operation());
    if (task.state == Task::State::run_over) graph.add(name, "for its descendants:", "children of " + name);
    if (task.origin == Task::Origin::restored) graph.add(label(task.packet.runs_as), "for its saved CTA,", name);
    if (task.tmd.address == 0 && (records_.wanted(task) || task.leave.writing)) {
      graph.add(name, "for one of", kRecords);
      records = true;
    }
    if (task.origin == Task::Origin::child) {
      graph.add("children of " + label(task.launch.parent.value_or(arch::kNoTask)), "for the end of", name);
    }
    if (queues_.held_open(task)) {
      graph.add(name, "for entries, or the close, of", fmt::format("its queue at 0x{:x}", task.queue->address));
    }
  });
  dependents_.collect_waits(graph, label);
  launcher_.collect_waits(graph, queues_, events_);
  if (!records) return;
  tasks_.for_each([&](const Task& task) {
    if (task.tmd.address != 0)
      graph.add(kRecords, "for one to be given back, as by", label(task.operation()), WaitGraph::For::room);
  });
}

}  // namespace heddle::task
