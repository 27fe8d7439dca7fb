#include "task/queue_tasks.h"

namespace heddle::task {

using protocol::DoneStatus;

QueueTasks::QueueTasks(Observation& observation, OpenTasks& tasks, TaskLife& life, TaskDispatcher& dispatcher,
                       LaunchScheduler& scheduler, arch::CodeStore* codes, const arch::LaunchMemory& memory,
                       PacketSender<protocol::GrowPacket>& grow_out, const std::string& stat_prefix)
    : tasks_(tasks),
      life_(life),
      dispatcher_(dispatcher),
      scheduler_(scheduler),
      codes_(codes),
      memory_(memory),
      grow_out_(grow_out),
      stats_(observation.stats, stat_prefix) {}

// One task at a time has the entries of a queue.
void QueueTasks::find(Task& task) {
  Task::QueueUse& use = *task.queue;
  if (use.held_open && released_.erase(task.operation()) != 0) use.held_open = false;
  Queue& queue = queues_[use.address];
  if (queue.operation) {
    task.queue.reset();
    life_.task_rejected(task);
    return;
  }
  queue.operation = task.operation();
  scheduler_.enter(find_queue_chain(use.address));
}

void QueueTasks::found(const QueueFound& effect) {
  Task& task = tasks_.at(*queues_.at(effect.queue).operation);
  if (!effect.geometry) {
    queues_.erase(effect.queue);
    stopped_.insert(effect.queue);
    life_.task_rejected(task);
    return;
  }
  stopped_.erase(effect.queue);
  if (effect.enough) task.queue->held_open = false;
  task.packet.kind = protocol::TaskKind::queue;
  lend_code(task, *effect.geometry);
  life_.task_ready(task);
}

// Its CTAs find their arguments in the entries.
void QueueTasks::lend_code(Task& task, const arch::QueueGeometry& geometry) {
  if (task.packet.code == arch::kNoCode || !codes_->has(task.packet.code)) return;
  arch::KernelShape shape;
  const arch::Code& code = codes_->at(task.packet.code);
  shape.block = code.block;
  shape.shared_bytes = code.shared_bytes;
  shape.cluster = code.cluster;
  task.lent = codes_->lend(task.packet.code, shape, geometry);
  task.packet.code = task.lent;
}

void QueueTasks::begin(const Task& task) {
  Queue& queue = queues_.at(task.queue->address);
  queue.state.begin(task.queue->entries, task.queue->held_open);
  if (queue.broken) return stop_broken(queue);
  grow(task.queue->address);
  try_close(task.queue->address);
}

void QueueTasks::release(std::uint32_t operation, bool ended) {
  Task* task = tasks_.find(operation);
  if (task == nullptr) {
    if (!ended) released_.insert(operation);
    return;
  }
  if (!task->queue) return;
  task->queue->held_open = false;
  queues_.at(task->queue->address).state.release();
  try_close(task->queue->address);
}

// Entries may come before their task. One that was on its way when its task was stopped belongs to none: entries count
// again once the host has submitted the queue's next task, which it does behind those that have appended.
void QueueTasks::appended(std::uint64_t queue, std::uint64_t ticket) {
  stats_.queue_entries.add();
  if (stopped_.count(queue) != 0) return;
  queues_[queue].state.appended(ticket);
  grow(queue);
}

// A fault has kept the entry of a ticket from being written. No entry behind it can be launched, and who has a ticket
// a round later waits for it: the queue's task ends as faulted, and all who append are told that it is closed.
void QueueTasks::lost_entry(std::uint64_t queue) {
  if (stopped_.count(queue) != 0) return;
  Queue& here = queues_[queue];
  here.broken = true;
  if (here.state.begun()) stop_broken(here);
}

void QueueTasks::stop_broken(const Queue& queue) { grow_out_.send({*queue.operation, 0, true, true}); }

// One that nobody has begun with finds it in memory.
void QueueTasks::enough(std::uint64_t queue) {
  const auto found = queues_.find(queue);
  if (found == queues_.end() || !found->second.operation) return;
  tasks_.at(*found->second.operation).queue->held_open = false;
  found->second.state.release();
  try_close(queue);
}

// The distributor is told of entries in the order of their tickets.
void QueueTasks::grow(std::uint64_t address) {
  Queue& queue = queues_.at(address);
  const std::uint64_t entries = queue.state.take_grown();
  if (entries == 0) return;
  grow_out_.send({*queue.operation, entries, false});
  note_rest(queue);
}

// A task without entries launches nothing: others may have its slot until there are more (TSK-05). One that is being
// closed most often ends at once.
void QueueTasks::note_rest(const Queue& queue) {
  Task& task = tasks_.at(*queue.operation);
  const bool rests = queue.state.rests();
  if (task.queue->rests == rests || (rests && queue.state.close() != QueueState::Close::open)) return;
  task.queue->rests = rests;
  dispatcher_.rest_changed(task);
}

void QueueTasks::on_idle(const protocol::IdlePacket& packet, std::uint32_t) {
  const Task* task = tasks_.find(packet.operation);
  if (task == nullptr || !task->queue) return;
  Queue& queue = queues_.at(task->queue->address);
  queue.state.idle(packet.completed);
  try_close(task->queue->address);
  note_rest(queue);
}

void QueueTasks::try_close(std::uint64_t address) {
  Queue& queue = queues_.at(address);
  if (!queue.state.may_close()) return;
  const std::uint64_t record = tasks_.at(*queue.operation).record();
  scheduler_.enter(close_queue_chain(memory_, address, queue.state.start_close(), record));
}

// A CTA of the queue's task that was saved, or whose children were not over, is over.
void QueueTasks::context_closed(const Task& task) {
  if (!task.queue || !task.runs()) return;
  queues_.at(task.queue->address).state.less_busy();
  try_close(task.queue->address);
}

void QueueTasks::closed(const QueueClosed& effect) {
  const auto found = queues_.find(effect.queue);
  if (found == queues_.end() || found->second.state.close() != QueueState::Close::trying) {
    if (!effect.closed) scheduler_.enter(stop_queue_chain(effect.queue));  // a fault has ended its task meanwhile
    return;
  }
  Queue& queue = found->second;
  queue.state.tried(effect.closed, effect.busy);
  if (effect.closed) {
    grow_out_.send({*queue.operation, 0, true});
  } else {
    try_close(effect.queue);
    note_rest(queue);
  }
}

// Those that append to a queue whose task has been stopped are told so. While it is being closed, that comes first.
void QueueTasks::end(const Task& task) {
  const std::uint64_t address = task.queue->address;
  const auto found = queues_.find(address);
  if (found == queues_.end()) return;
  const QueueState::Close close = found->second.state.close();
  queues_.erase(found);
  if (task.status != DoneStatus::ok) stopped_.insert(address);
  if (close == QueueState::Close::open) scheduler_.enter(stop_queue_chain(address));
}

bool QueueTasks::held_open(const Task& task) const {
  return task.queue && task.runs() && queues_.at(task.queue->address).state.held_open();
}

void QueueTasks::reset() {
  queues_.clear();
  stopped_.clear();
  released_.clear();
}

}  // namespace heddle::task
