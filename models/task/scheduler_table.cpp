#include "task/scheduler_table.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::task {

SchedulerTable::SchedulerTable(Timebase& timebase, std::string name, OpenTasks& tasks, const Costs& costs,
                               std::function<void(Task&)> entered, const std::string& stat_prefix)
    : timebase_(timebase),
      name_(std::move(name)),
      tasks_(tasks),
      costs_(costs),
      entered_(std::move(entered)),
      stats_(timebase.observation().stats, stat_prefix) {}

SchedulerTable::List SchedulerTable::list_of(const Task& task) {
  return {task.packet.priority, task.packet.depth, task.packet.subcontext};
}

void SchedulerTable::push(PriorityLists& lists, const Task& task) const {
  if (task.head) {
    lists.push_head(task.urgency(), task.operation());
  } else {
    lists.push(task.urgency(), task.source, task.operation());
  }
}

bool SchedulerTable::may_enter(const Task& task) const {
  return used_ + expected_ < costs_.entries || sizes_.count(list_of(task)) == 0;
}

// Nobody overtakes those of its list that wait already.
void SchedulerTable::join(Task& task) {
  task.state = Task::State::waiting;
  push(outside_, task);
  waits_[task.operation()] = timebase_.now();
  let_in();
  if (task.state == Task::State::waiting) stats_.list_waits.add();
}

void SchedulerTable::let_in() {
  const auto may = [this](Operation operation) { return may_enter(tasks_.at(operation)); };
  while (const std::optional<Operation> next = outside_.take_if(may)) {
    const auto wait = waits_.find(*next);
    stats_.list_wait_cycles.add(timebase_.now() - wait->second);
    waits_.erase(wait);
    insert(tasks_.at(*next));
  }
}

void SchedulerTable::come_back(Task& task) {
  task.head = true;
  insert(task);
  expect_less();
}

void SchedulerTable::expect_less() {
  HEDDLE_CHECK(expected_ > 0, "a task came back into the lists that nobody had asked to leave the task table");
  --expected_;
  let_in();
}

void SchedulerTable::insert(Task& task) {
  ++used_;
  ++sizes_[list_of(task)];
  stats_.list_used.set(static_cast<double>(used_));
  if (task.state == Task::State::waiting) task.state = Task::State::entering;
  put_at_ = std::max(put_at_, timebase_.now()) + costs_.insert;
  if (put_at_ > timebase_.now()) {
    timebase_.schedule(put_at_, *this, 0, task.operation());
  } else {
    put_in(task.operation());
  }
}

void SchedulerTable::on_event(std::uint32_t, std::uint64_t operation) {
  put_in(static_cast<Operation>(operation));
  entered_(tasks_.at(static_cast<Operation>(operation)));
}

void SchedulerTable::put_in(Operation operation) {
  Task& task = tasks_.at(operation);
  if (task.state == Task::State::entering) task.state = Task::State::listed;
  push(lists_, task);
}

bool SchedulerTable::remove(const Task& task) {
  if (outside_.remove(task.urgency(), task.operation())) {
    waits_.erase(task.operation());
    return true;
  }
  if (!lists_.remove(task.urgency(), task.operation())) return false;
  left(task);
  return true;
}

void SchedulerTable::left(const Task& task) {
  --used_;
  const auto size = sizes_.find(list_of(task));
  if (--size->second == 0) sizes_.erase(size);
  stats_.list_used.set(static_cast<double>(used_));
  let_in();
}

void SchedulerTable::reset() {
  lists_.clear();
  outside_.clear();
  sizes_.clear();
  waits_.clear();
  used_ = expected_ = 0;
  put_at_ = taken_at_ = 0;
  stats_.list_used.set(0);
}

}  // namespace heddle::task
