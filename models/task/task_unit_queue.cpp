// Queue tasks: entries arrive while they run, and they end once nobody can append any more (TSK-05).
#include "task/task_unit.h"

namespace heddle::task {

using protocol::DoneStatus;

// One task at a time has the entries of a queue.
void TaskUnit::find_queue(Task& task) {
  Queue& queue = queues_[task.queue];
  if (queue.operation != kNoOperation) {
    task.queue = 0;
    task.status = DoneStatus::rejected;
    task.start = task.end = now();
    finish_task(task.operation(), now());
    return;
  }
  queue.operation = task.operation();
  enter(NestedChain::find_queue(task.queue));
}

void TaskUnit::queue_found(const ChainEffect& effect) {
  Task& task = tasks_.at(queues_.at(effect.record).operation);
  if (!effect.ok) {  // no queue lies there, or it is closed
    queues_.erase(effect.record);
    stopped_queues_.insert(effect.record);
    task.status = DoneStatus::rejected;
    task.start = task.end = now();
    finish_task(task.operation(), now());
    return;
  }
  stopped_queues_.erase(effect.record);
  task.packet.kind = protocol::TaskKind::queue;
  if (task.packet.code != arch::kNoCode && nested_.codes->has(task.packet.code)) {
    arch::KernelShape shape;
    const arch::Code& code = nested_.codes->at(task.packet.code);
    shape.block = code.block;
    shape.shared_bytes = code.shared_bytes;
    shape.cluster = code.cluster;
    task.lent = nested_.codes->lend(task.packet.code, shape, effect.geometry);
    task.packet.code = task.lent;
  }
  if (task.launches) {
    if (task.head) {
      unprepared_.push_head(task.packet.priority, task.operation());
    } else {
      unprepared_.push(task.packet.priority, task.source, task.operation());
    }
    prepare_some();
  } else {
    enlist(task);
  }
}

void TaskUnit::begin_queue(const Task& task) {
  Queue& queue = queues_.at(task.queue);
  queue.state.begin(task.entries, task.held_open);
  if (queue.broken) return stop_broken(queue);
  grow(task.queue);
  try_close(task.queue);
}

// Closes that have had their turn in their streams. They can come before the task, or after its end.
void TaskUnit::close_turns() {
  for (const std::uint32_t operation : streams_.take_closed()) {
    const auto found = tasks_.find(operation);
    if (found == tasks_.end()) {
      if (!streams_.completed(operation)) released_queues_.insert(operation);
      continue;
    }
    Task& task = found->second;
    if (task.queue == 0) continue;
    task.held_open = false;
    queues_.at(task.queue).state.release();
    try_close(task.queue);
  }
}

// Entries may come before their task. One that was on its way when its task was stopped is nobody's: they count again
// once the host has submitted the queue's next task, which it does behind those that have appended.
void TaskUnit::on_appended(std::uint64_t queue, std::uint64_t ticket) {
  stats_.queue_entries.add();
  if (stopped_queues_.count(queue) != 0) return;
  queues_[queue].state.appended(ticket);
  grow(queue);
}

// A fault has kept the entry of a ticket from being written. No entry behind it can be launched, and who has a ticket
// a round later waits for it: the queue's task ends as faulted, and all who append are told that it is closed.
void TaskUnit::on_lost_entry(std::uint64_t queue) {
  if (stopped_queues_.count(queue) != 0) return;
  Queue& here = queues_[queue];
  here.broken = true;
  if (here.state.begun()) stop_broken(here);
}

void TaskUnit::stop_broken(const Queue& queue) { grow_out.send({queue.operation, 0, true, true}); }

// The distributor is told of entries in the order of their tickets.
void TaskUnit::grow(std::uint64_t address) {
  Queue& queue = queues_.at(address);
  const std::uint64_t entries = queue.state.take_grown();
  if (entries > 0) grow_out.send({queue.operation, entries, false});
}

void TaskUnit::on_idle(const protocol::IdlePacket& packet, std::uint32_t) {
  const auto found = tasks_.find(packet.operation);
  if (found == tasks_.end() || found->second.queue == 0) return;
  queues_.at(found->second.queue).state.idle(packet.completed);
  try_close(found->second.queue);
}

void TaskUnit::try_close(std::uint64_t address) {
  QueueState& state = queues_.at(address).state;
  if (state.wants_close()) enter(NestedChain::close_queue(address, state.start_close()));
}

void TaskUnit::queue_closed(const ChainEffect& effect) {
  const auto found = queues_.find(effect.record);
  if (found == queues_.end() || found->second.state.close() != QueueState::Close::trying) {
    if (!effect.ok) enter(NestedChain::stop_queue(effect.record));  // a fault has ended its task in the meantime
    return;
  }
  Queue& queue = found->second;
  queue.state.tried(effect.ok);
  if (effect.ok) {
    grow_out.send({queue.operation, 0, true});
  } else {
    try_close(effect.record);
  }
}

// Those that append to a queue whose task has been stopped are told so. While it is being closed, that comes first.
void TaskUnit::end_queue(const Task& task) {
  const auto found = queues_.find(task.queue);
  if (found == queues_.end()) return;
  const QueueState::Close close = found->second.state.close();
  queues_.erase(found);
  if (task.status != DoneStatus::ok) stopped_queues_.insert(task.queue);
  if (close == QueueState::Close::open) enter(NestedChain::stop_queue(task.queue));
}

}  // namespace heddle::task
