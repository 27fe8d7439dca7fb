#include "task/task.h"

#include <utility>

#include "common/error.h"

namespace heddle::task {

Task make_task(const arch::SmLimits& limits, const arch::CodeStore* codes, std::uint32_t operation,
               std::int32_t priority, const arch::KernelShape& kernel) {
  Task task;
  protocol::TaskPacket& packet = task.packet;
  packet.operation = operation;
  packet.priority = priority;
  task.take_shape(limits, kernel);
  packet.subcontext = kernel.subcontext;
  packet.code = kernel.code;
  task.launches = codes != nullptr && kernel.code != arch::kNoCode && codes->at(kernel.code).launches();
  return task;
}

void Task::take_shape(const arch::SmLimits& limits, const arch::KernelShape& kernel) {
  tmd.kernel = kernel;
  packet.grid = kernel.grid;
  packet.need = arch::need_of(limits, kernel);
  packet.duration = kernel.duration;
  packet.cluster = kernel.cluster;
  packet.raster = kernel.raster;
  packet.cooperative = kernel.cooperative;
  packet.local_bytes = kernel.local_bytes;
}

Task& OpenTasks::add(Task task) {
  const std::uint32_t operation = task.operation();
  const auto [here, added] = tasks_.emplace(operation, std::move(task));
  HEDDLE_CHECK(added, "a task was added that is there");
  prepared_.insert(operation);
  prepared_work_.add();
  open_work_.add();
  if (here->second.of_host()) host_work_.add();
  return here->second;
}

Task* OpenTasks::find(std::uint32_t operation) {
  const auto found = tasks_.find(operation);
  return found == tasks_.end() ? nullptr : &found->second;
}

void OpenTasks::set_record(Task& task, std::uint64_t record) {
  task.packet.record = record;
  records_[record] = task.operation();
}

Task* OpenTasks::of_record(std::uint64_t record) {
  const auto found = records_.find(record);
  return found == records_.end() ? nullptr : &tasks_.at(found->second);
}

// A restored CTA names the TMD of the task that it belongs to, and does not own it.
Task OpenTasks::take(std::uint32_t operation) {
  const auto found = tasks_.find(operation);
  Task task = std::move(found->second);
  tasks_.erase(found);
  sent(task);
  open_work_.remove();
  if (task.of_host()) host_work_.remove();
  const auto record = records_.find(task.record());
  if (record != records_.end() && record->second == operation) records_.erase(record);
  return task;
}

bool OpenTasks::doomed(const Task& task) const {
  const Task* at = &task;
  while (at != nullptr && !at->leave.killed) at = at->launch.parent ? find(*at->launch.parent) : nullptr;
  return at != nullptr;
}

void OpenTasks::mark_codes(std::set<std::uint32_t>& used) const {
  for (const auto& [operation, task] : tasks_) used.insert(task.packet.code);
}

void OpenTasks::clear() {
  tasks_.clear();
  prepared_.clear();
  records_.clear();
}

}  // namespace heddle::task
