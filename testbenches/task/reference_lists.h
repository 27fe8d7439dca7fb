// The lists of tasks that wait, as a reference that looks at everything every time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "task/launch_scheduler.h"

namespace heddle::test {

using task::Urgency;

// Every waiting item with all that decides its turn.
struct Waiting {
  Urgency urgency;
  bool head;
  std::uint64_t source;
  std::uint64_t arrival;
  std::uint32_t item;
};

// Sources of a priority have their turn after the one that was served before it began to wait, or was served last.
class ReferenceLists {
 public:
  void push(const Urgency& urgency, bool head, std::uint64_t source, std::uint32_t item) {
    if (!head && !has(urgency, source)) turn_[key_of(urgency, source)] = ++clock_;
    items_.push_back({urgency, head, source, ++clock_, item});
  }
  std::uint32_t take() {
    return *take_of([](std::uint32_t) { return true; });
  }
  // Of those that may; what keeps one item of a source keeps all of them.
  template <class May>
  std::optional<std::uint32_t> take_of(const May& may) {
    auto best = items_.end();
    for (auto at = items_.begin(); at != items_.end(); ++at) {
      if (may(at->item) && (best == items_.end() || before(*at, *best))) best = at;
    }
    if (best == items_.end()) return std::nullopt;
    const Waiting taken = *best;
    items_.erase(best);
    if (!taken.head) turn_[key_of(taken.urgency, taken.source)] = ++clock_;
    return taken.item;
  }
  void remove(std::uint32_t item) {
    items_.erase(std::find_if(items_.begin(), items_.end(), [=](const Waiting& w) { return w.item == item; }));
  }
  const std::vector<Waiting>& items() const { return items_; }
  std::vector<std::int32_t> priorities() const {
    std::vector<std::int32_t> result;
    for (const Waiting& w : items_) result.push_back(w.urgency.priority);
    std::sort(result.rbegin(), result.rend());
    return result;
  }

 private:
  using Key = std::tuple<std::int32_t, std::uint32_t, std::uint64_t>;
  static Key key_of(const Urgency& urgency, std::uint64_t source) { return {urgency.priority, urgency.depth, source}; }
  bool has(const Urgency& urgency, std::uint64_t source) const {
    return std::any_of(items_.begin(), items_.end(), [&](const Waiting& w) {
      return !w.head && key_of(w.urgency, w.source) == key_of(urgency, source);
    });
  }
  bool before(const Waiting& a, const Waiting& b) const {
    if (a.urgency.priority != b.urgency.priority) return a.urgency.priority > b.urgency.priority;
    if (a.urgency.depth != b.urgency.depth) return a.urgency.depth > b.urgency.depth;
    if (a.head != b.head) return a.head;
    if (a.head) return a.arrival > b.arrival;  // the last one first
    const std::uint64_t turn_a = turn_.at(key_of(a.urgency, a.source));
    const std::uint64_t turn_b = turn_.at(key_of(b.urgency, b.source));
    return turn_a != turn_b ? turn_a < turn_b : a.arrival < b.arrival;
  }
  std::vector<Waiting> items_;
  std::map<Key, std::uint64_t> turn_;
  std::uint64_t clock_ = 0;
};

}  // namespace heddle::test
