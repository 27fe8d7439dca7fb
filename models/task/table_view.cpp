#include "task/table_view.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::task {

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

}  // namespace heddle::task
