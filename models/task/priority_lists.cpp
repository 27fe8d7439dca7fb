#include "task/priority_lists.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::task {

void PriorityLists::push(Priority priority, Source source, Item item) {
  List& list = lists_[priority];
  std::deque<Item>& items = list.sources[source];
  if (items.empty()) list.turns.push_back(source);
  items.push_back(item);
  ++list.size;
  ++size_;
}

void PriorityLists::push_head(Priority priority, Item item) {
  List& list = lists_[priority];
  list.head.push_front(item);
  ++list.size;
  ++size_;
}

PriorityLists::Priority PriorityLists::priority_at(std::size_t place) const {
  for (const auto& [priority, list] : lists_) {
    if (place < list.size) return priority;
    place -= list.size;
  }
  HEDDLE_CHECK(false, "a place beyond the lists of waiting tasks");
  return 0;
}

PriorityLists::Item PriorityLists::take() {
  HEDDLE_CHECK(size_ > 0, "a task was taken from empty lists");
  const auto at = lists_.begin();
  List& list = at->second;
  Item item = 0;
  if (!list.head.empty()) {
    item = list.head.front();
    list.head.pop_front();
  } else {
    const Source source = list.turns.front();
    list.turns.pop_front();
    const auto found = list.sources.find(source);
    item = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) {
      list.sources.erase(found);
    } else {
      list.turns.push_back(source);
    }
  }
  left(at);
  return item;
}

bool PriorityLists::remove(Priority priority, Item item) {
  const auto at = lists_.find(priority);
  if (at == lists_.end()) return false;
  List& list = at->second;
  if (const auto head = std::find(list.head.begin(), list.head.end(), item); head != list.head.end()) {
    list.head.erase(head);
    left(at);
    return true;
  }
  for (auto turn = list.turns.begin(); turn != list.turns.end(); ++turn) {
    const auto found = list.sources.find(*turn);
    std::deque<Item>& items = found->second;
    const auto place = std::find(items.begin(), items.end(), item);
    if (place == items.end()) continue;
    items.erase(place);
    if (items.empty()) {
      list.sources.erase(found);
      list.turns.erase(turn);
    }
    left(at);
    return true;
  }
  return false;
}

void PriorityLists::left(Lists::iterator list) {
  --size_;
  if (--list->second.size == 0) lists_.erase(list);
}

void PriorityLists::clear() {
  lists_.clear();
  size_ = 0;
}

}  // namespace heddle::task
