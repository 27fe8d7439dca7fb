#include "task/task_dispatcher.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::task {

using protocol::DoneStatus;

std::vector<TableView::Entry>::iterator TableView::find(Operation operation) {
  return std::find_if(entries_.begin(), entries_.end(), [=](const Entry& e) { return e.operation == operation; });
}

bool TableView::holds(Operation operation) const {
  return std::any_of(entries_.begin(), entries_.end(), [=](const Entry& e) { return e.operation == operation; });
}

void TableView::enter(Operation operation, Priority priority) {
  HEDDLE_CHECK(!holds(operation), "a task was sent that is in the task table");
  entries_.push_back({operation, priority, false});
}

bool TableView::leave(Operation operation) {
  stuck_ = false;
  const auto found = find(operation);
  if (found == entries_.end()) return false;
  if (found->leaving) --leaving_;
  entries_.erase(found);
  return true;
}

void TableView::refused(Operation operation) {
  const auto found = find(operation);
  if (found == entries_.end()) return;  // it has ended in the meantime
  if (found->leaving) --leaving_;
  found->leaving = false;
  stuck_ = true;
}

std::optional<TableView::Operation> TableView::evict_for(Priority priority) {
  if (stuck_) return std::nullopt;
  Entry* victim = nullptr;
  for (Entry& entry : entries_) {
    if (entry.leaving || entry.priority >= priority) continue;
    if (victim == nullptr || entry.priority <= victim->priority) victim = &entry;
  }
  if (victim == nullptr) return std::nullopt;
  victim->leaving = true;
  ++leaving_;
  return victim->operation;
}

std::vector<TableView::Operation> TableView::operations() const {
  std::vector<Operation> result;
  for (const Entry& entry : entries_) result.push_back(entry.operation);
  return result;
}

void TableView::clear() {
  entries_.clear();
  leaving_ = 0;
  stuck_ = false;
}

using State = Task::State;

TaskDispatcher::TaskDispatcher(Timebase& timebase, OpenTasks& tasks, TaskLife& life,
                               PacketSender<protocol::TaskPacket>& task_out,
                               PacketSender<protocol::EvictPacket>& evict_out, const std::string& stat_prefix)
    : timebase_(timebase),
      tasks_(tasks),
      life_(life),
      task_out_(task_out),
      evict_out_(evict_out),
      stats_(timebase.observation().stats, stat_prefix) {}

void TaskDispatcher::enlist(Task& task) {
  task.state = State::listed;
  task.listed = timebase_.now();
  if (task.head) {
    lists_.push_head(task.packet.priority, task.operation());
  } else {
    lists_.push(task.packet.priority, task.source, task.operation());
  }
  dispatch();
}

void TaskDispatcher::dispatch() {
  while (!lists_.empty()) {
    if (!task_out_.can_send()) {
      ask_for_slots();
      return;
    }
    send(tasks_.at(lists_.take()));
    ++timebase_.observation().progress;
  }
}

void TaskDispatcher::send(Task& task) {
  const bool resumed = task.state == State::suspended;
  task.state = State::running;
  table_.enter(task.operation(), task.packet.priority);
  task.packet.resumed = resumed;
  task_out_.send(task.packet);
  if (resumed) {
    task.evicted.back().until = timebase_.now();
    stats_.resumptions.add();
    return;
  }
  task.sent = timebase_.now();
  life_.task_sent(task);
}

// One eviction for every waiting task that is more urgent than one in the table.
void TaskDispatcher::ask_for_slots() {
  if (!evicts_) return;
  while (table_.leaving() < lists_.size()) {
    const auto victim = table_.evict_for(lists_.priority_at(table_.leaving()));
    if (!victim) return;
    evict_out_.send({*victim});
  }
}

// What is left of an evicted task waits at the head of its list.
void TaskDispatcher::on_evicted(const protocol::EvictedPacket& packet, std::uint32_t) {
  if (!packet.evicted) {
    table_.refused(packet.operation);
    return;
  }
  stats_.evictions.add();
  if (!table_.leave(packet.operation)) return;  // its end was faster
  Task& task = tasks_.at(packet.operation);
  task.evicted.push_back({timebase_.now(), {}});
  if (packet.remainder) {
    task.state = State::suspended;
    lists_.push_head(task.packet.priority, task.operation());
  }
  ++timebase_.observation().progress;
  dispatch();
}

void TaskDispatcher::on_task_done(const protocol::TaskDonePacket& done, std::uint32_t) {
  Task* found = tasks_.find(done.operation);
  HEDDLE_CHECK(found != nullptr && found->runs(), "a task ended that does not run");
  Task& task = *found;
  table_.leave(done.operation);
  // A fault ends what was evicted as well.
  if (task.state == State::suspended) lists_.remove(task.packet.priority, done.operation);
  task.status = done.faulted ? DoneStatus::faulted : DoneStatus::ok;
  if (done.rejected) task.status = DoneStatus::rejected;  // no domain can hold its CGAs (CWD-25)
  task.start = done.start;
  task.end = done.end;
  life_.task_run_over(task);
  dispatch();
}

void TaskDispatcher::reset() {
  lists_.clear();
  table_.clear();
}

}  // namespace heddle::task
