#include "cwd/task_table.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::cwd {

TaskTable::TaskTable(std::uint32_t slots) : entries_(slots) { reset(); }

void TaskTable::reset() {
  waiting_.clear();
  used_.clear();
  free_.clear();
  arrivals_ = 0;
  for (auto slot = static_cast<std::uint32_t>(entries_.size()); slot-- > 0;) {
    entries_[slot] = {};
    free_.push_back(slot);
  }
}

std::uint32_t TaskTable::insert(const protocol::TaskPacket& task) {
  HEDDLE_CHECK(!free_.empty(), "a task arrived without a slot of the task table");
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  TaskEntry& entry = entries_[slot];
  entry = {};
  entry.task = task;
  entry.total = task.grid.count();
  entry.order = arrivals_++;
  entry.used = true;
  used_.push_back(slot);
  const auto later = [this, &entry](std::uint32_t other) {
    return entries_[other].task.priority < entry.task.priority;
  };
  waiting_.insert(std::find_if(waiting_.begin(), waiting_.end(), later), slot);
  return slot;
}

void TaskTable::all_placed(std::uint32_t slot) { waiting_.erase(std::find(waiting_.begin(), waiting_.end(), slot)); }

void TaskTable::remove(std::uint32_t slot) {
  HEDDLE_CHECK(entries_[slot].used && (entries_[slot].completed == entries_[slot].total || entries_[slot].rejected) &&
                   entries_[slot].open_cgas == 0,
               "a task left the table before its CTAs had completed");
  entries_[slot].used = false;
  used_.erase(std::find(used_.begin(), used_.end(), slot));
  free_.push_back(slot);
}

}  // namespace heddle::cwd
