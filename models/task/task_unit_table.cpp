// Lists and task table: who is sent next, and who gives up a slot (TSK-02, TSK-03).
#include <algorithm>
#include <utility>

#include "arch/gpu_observation.h"
#include "task/task_unit.h"

namespace heddle::task {

using protocol::DoneStatus;

Task TaskUnit::task_of(std::uint32_t operation, std::int32_t priority, const arch::KernelShape& kernel) const {
  Task task;
  protocol::TaskPacket& packet = task.packet;
  packet.operation = operation;
  packet.priority = priority;
  packet.grid = kernel.grid;
  packet.need = arch::need_of(limits_, kernel);
  packet.duration = kernel.duration;
  packet.cluster = kernel.cluster;
  packet.local_memory = kernel.local_bytes > 0;
  packet.subcontext = kernel.subcontext;
  packet.code = kernel.code;
  task.launches = launches(kernel);
  return task;
}

// On the way to its list: its queue is looked at, and it is given a TMD if its program launches.
void TaskUnit::take_in(Task task) {
  const std::uint32_t operation = task.operation();
  Task& here = tasks_.emplace(operation, std::move(task)).first->second;
  if (here.queue != 0) {
    find_queue(here);
  } else if (here.launches) {
    if (here.head) {
      unprepared_.push_head(here.packet.priority, operation);
    } else {
      unprepared_.push(here.packet.priority, here.source, operation);
    }
    prepare_some();
  } else {
    enlist(here);
  }
}

void TaskUnit::enlist(Task& task) {
  task.waiting = true;
  task.listed = now();
  if (task.head) {
    lists_.push_head(task.packet.priority, task.operation());
  } else {
    lists_.push(task.packet.priority, task.source, task.operation());
  }
  dispatch();
}

void TaskUnit::on_credit(std::uint32_t) { dispatch(); }

// A credit is a free slot of the task table.
void TaskUnit::dispatch() {
  while (!lists_.empty()) {
    if (!task_out.can_send()) {
      ask_for_slots();
      return;
    }
    send(tasks_.at(lists_.take()));
    progress();
  }
}

void TaskUnit::send(Task& task) {
  task.waiting = false;
  table_.enter(task.operation(), task.packet.priority);
  task.packet.resumed = task.sent;
  task_out.send(task.packet);
  if (task.sent) {
    task.evicted.back().second = now();
    stats_.resumptions.add();
    return;
  }
  task.sent = true;
  task.sent_at = now();
  if (task.queue != 0) begin_queue(task);
  if (!task.holds_record) return;
  task.holds_record = false;
  holding_.erase(holding_.find(task.packet.priority));
  prepare_some();
}

// One eviction for every waiting task that is more urgent than one in the table.
void TaskUnit::ask_for_slots() {
  if (evict_out.links() == 0) return;
  while (table_.leaving() < lists_.size()) {
    const auto victim = table_.evict_for(lists_.priority_at(table_.leaving()));
    if (!victim) return;
    evict_out.send({*victim});
  }
}

// What is left of it goes on from the head of its list.
void TaskUnit::on_evicted(const protocol::EvictedPacket& packet, std::uint32_t) {
  if (!packet.evicted) {
    table_.refused(packet.operation);
    return;
  }
  stats_.evictions.add();
  if (!table_.leave(packet.operation)) return;  // its end was faster
  Task& task = tasks_.at(packet.operation);
  task.evicted.emplace_back(now(), 0);
  if (packet.remainder) {
    task.waiting = true;
    lists_.push_head(task.packet.priority, task.operation());
  }
  progress();
  dispatch();
}

void TaskUnit::on_task_done(const protocol::TaskDonePacket& done, std::uint32_t) {
  const auto found = tasks_.find(done.operation);
  HEDDLE_CHECK(found != tasks_.end() && found->second.sent && !found->second.run_over,
               "a task ended that does not run");
  Task& task = found->second;
  table_.leave(done.operation);
  // A fault ends what was evicted as well.
  if (task.waiting) lists_.remove(task.packet.priority, done.operation);
  task.waiting = false;
  task.status = done.faulted ? DoneStatus::faulted : DoneStatus::ok;
  if (done.rejected) task.status = DoneStatus::rejected;  // no domain can hold its CGAs (CWD-25)
  task.start = done.start;
  task.end = done.end;
  if (!done.rejected && task.origin == Task::Origin::packet) {
    const Cycle arrived = dispatches_.at(done.operation).arrived;
    note_latency(done.start, arrived, arrived);
  } else if (!done.rejected && task.origin == Task::Origin::stream) {
    note_latency(done.start, streams_.head(task.stream).submitted, dispatched_.at(done.operation).released);
  }
  run_over(task);
  dispatch();
}

// With a TMD, it has completed only once its descendants have (TSK-10).
void TaskUnit::run_over(Task& task) {
  task.run_over = true;
  if (task.queue != 0) end_queue(task);
  task.queue = 0;  // another task may have it now
  if (task.origin == Task::Origin::restored) {
    const auto origin = tasks_.find(task.packet.runs_as);
    if (task.status == DoneStatus::faulted && origin != tasks_.end()) origin->second.status = DoneStatus::faulted;
    gpu_observation(domain_).labels.forget(task.operation());
    tasks_.erase(task.operation());
    progress();
  } else if (task.record() != 0) {
    enter(NestedChain::ended(nested_.memory, task.record()));
  } else {
    finish_task(task.operation(), task.end);
  }
}

void TaskUnit::finish_task(std::uint32_t operation, Cycle end) {
  const auto found = tasks_.find(operation);
  const Task task = std::move(found->second);
  tasks_.erase(found);
  if (task.record() != 0) records_.erase(task.record());
  if (task.lent != 0) nested_.codes->give_back(task.lent);
  switch (task.origin) {
    case Task::Origin::stream:
      finish(task.stream, task.start, end, task.status, &task);
      return;
    case Task::Origin::packet:
      if (timeline() != nullptr) rows_.subcontext(task, end);
      end_dispatch({operation, task.status, task.start, end});
      return;
    default:
      finish_child(task, end);
      return;
  }
}

}  // namespace heddle::task
