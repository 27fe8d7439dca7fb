// What waits for a slot of the task table: a list per priority (TSK-02). Each begins with what was put at its head, the
// last first; behind that, the sources of the list take turns (TSK-03), and each is served in the order of arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>

namespace heddle::task {

class PriorityLists {
 public:
  using Item = std::uint32_t;
  using Priority = std::int32_t;  // larger is more urgent
  using Source = std::uint64_t;   // a stream, a queue of packets, a TMDQ

  void push(Priority priority, Source source, Item item);
  void push_head(Priority priority, Item item);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Priority of the item at that place of all of them, the most urgent first. The place exists.
  Priority priority_at(std::size_t place) const;
  // The next in turn of the most urgent list was put at its head. There is one.
  bool head_first() const { return !lists_.begin()->second.head.empty(); }
  // The next in turn of the most urgent list. There is one.
  Item take();
  // False: it does not wait.
  bool remove(Priority priority, Item item);
  // All items, the most urgent first; within a priority heads, then sources in their turn.
  template <class Visit>
  void each(const Visit& visit) const;
  void clear();

 private:
  struct List {
    std::deque<Item> head;
    std::deque<Source> turns;  // sources with items, the next in turn first
    std::unordered_map<Source, std::deque<Item>> sources;
    std::size_t size = 0;
  };
  using Lists = std::map<Priority, List, std::greater<>>;

  void left(Lists::iterator list);

  Lists lists_;
  std::size_t size_ = 0;
};

template <class Visit>
void PriorityLists::each(const Visit& visit) const {
  for (const auto& [priority, list] : lists_) {
    for (const Item item : list.head) visit(priority, item);
    for (const Source source : list.turns) {
      for (const Item item : list.sources.at(source)) visit(priority, item);
    }
  }
}

}  // namespace heddle::task
