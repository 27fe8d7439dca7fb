#include "task/task.h"

#include <utility>

#include "arch/byte_codec.h"

namespace heddle::task {

namespace tmd = arch::tmd;

Task make_task(const arch::SmLimits& limits, const arch::CodeStore* codes, std::uint32_t operation,
               std::int32_t priority, const arch::KernelShape& kernel) {
  Task task;
  protocol::TaskPacket& packet = task.packet;
  packet.operation = operation;
  packet.priority = priority;
  packet.grid = kernel.grid;
  packet.need = arch::need_of(limits, kernel);
  packet.duration = kernel.duration;
  packet.cluster = kernel.cluster;
  packet.raster = kernel.raster;
  packet.local_bytes = kernel.local_bytes;
  packet.subcontext = kernel.subcontext;
  packet.code = kernel.code;
  task.launches = codes != nullptr && kernel.code != arch::kNoCode && codes->at(kernel.code).program->launches();
  return task;
}

Task& OpenTasks::add(Task task) {
  const std::uint32_t operation = task.operation();
  return tasks_.emplace(operation, std::move(task)).first->second;
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
  const auto record = records_.find(task.record());
  if (record != records_.end() && record->second == operation) records_.erase(record);
  return task;
}

void OpenTasks::clear() {
  tasks_.clear();
  records_.clear();
}

void TmdSupply::request(const Task& task) {
  if (task.head) {
    waiting_.push_head(task.urgency(), task.operation());
  } else {
    waiting_.push(task.urgency(), task.source, task.operation());
  }
  prepare_some();
}

// A task that is more urgent than all of its subcontext that hold a TMD is let through, and so is a single one for the
// head of its list, which those that hold one are behind. One that is not keeps those of its subcontext behind it.
void TmdSupply::prepare_some() {
  std::array<bool, arch::kSubcontexts> full{};
  const auto may = [&](std::uint32_t operation) {
    const Task& task = tasks_.at(operation);
    const std::uint32_t subcontext = task.packet.subcontext;
    const std::multiset<std::int32_t>& holding = holding_[subcontext];
    const std::size_t places = places_ + (task.head ? 1 : 0);
    full[subcontext] = full[subcontext] || (holding.size() >= places && task.packet.priority <= *holding.rbegin());
    return !full[subcontext];
  };
  while (const auto next = waiting_.take_if(may)) prepare(tasks_.at(*next));
}

void TmdSupply::prepare(const Task& task) {
  holding_[task.packet.subcontext].insert(task.packet.priority);
  RecordLine line{};
  arch::put_number(line, tmd::kGridX, 4, task.packet.grid.x);
  arch::put_number(line, tmd::kGridY, 2, task.packet.grid.y);
  arch::put_number(line, tmd::kGridZ, 2, task.packet.grid.z);
  arch::put_number(line, tmd::kPriority, 4, static_cast<std::uint32_t>(task.packet.priority));
  scheduler_.enter(prepare_chain(memory_.of(task.packet.subcontext), line, task.operation()));
}

void TmdSupply::sent(const Task& task) {
  std::multiset<std::int32_t>& holding = holding_[task.packet.subcontext];
  holding.erase(holding.find(task.packet.priority));
  prepare_some();
}

void TmdSupply::reset() {
  waiting_.clear();
  holding_ = {};
}

}  // namespace heddle::task
