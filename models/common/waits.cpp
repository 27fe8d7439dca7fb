#include "common/waits.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle {

void WaitGraph::add(const std::string& who, const std::string& reason, const std::string& on) {
  by_who_.emplace(who, edges_.size());
  edges_.push_back({who, reason, on});
}

// Depth first along the waits from edge `first`. Stops at the first circle; otherwise returns the longest path.
std::vector<std::size_t> WaitGraph::walk(std::size_t first, bool& circle) const {
  struct Frame {
    std::size_t edge;
    std::multimap<std::string, std::size_t>::const_iterator next, end;
  };
  std::vector<Frame> stack;
  std::vector<std::size_t> longest;
  std::map<std::string, std::size_t> depth_of;  // names on the current path
  std::vector<bool> done(edges_.size(), false);
  const auto enter = [&](std::size_t edge) {
    const auto range = by_who_.equal_range(edges_[edge].on);
    depth_of.emplace(edges_[edge].who, stack.size());
    stack.push_back({edge, range.first, range.second});
    if (stack.size() > longest.size()) {
      longest.clear();
      for (const Frame& frame : stack) longest.push_back(frame.edge);
    }
  };
  const auto circle_from = [&](const std::string& name) {
    std::vector<std::size_t> path;
    for (std::size_t i = depth_of.at(name); i < stack.size(); ++i) path.push_back(stack[i].edge);
    circle = true;
    return path;
  };
  circle = false;
  enter(first);
  while (!stack.empty()) {
    Frame& top = stack.back();
    const auto back = depth_of.find(edges_[top.edge].on);
    if (back != depth_of.end()) return circle_from(back->first);
    while (top.next != top.end && done[top.next->second]) ++top.next;
    if (top.next == top.end) {
      done[top.edge] = true;
      const std::string& name = edges_[top.edge].who;
      const auto at = depth_of.find(name);
      if (at != depth_of.end() && at->second == stack.size() - 1) depth_of.erase(at);
      stack.pop_back();
      continue;
    }
    enter((top.next++)->second);
  }
  return longest;
}

std::vector<std::string> WaitGraph::chain() const {
  std::vector<std::size_t> best;
  bool best_is_circle = false;
  // A bound on the search keeps the message prompt on machines with very many waiters.
  const std::size_t starts = std::min<std::size_t>(edges_.size(), 256);
  for (std::size_t i = 0; i < starts && !best_is_circle; ++i) {
    bool circle = false;
    std::vector<std::size_t> path = walk(i, circle);
    if (circle || path.size() > best.size()) {
      best = std::move(path);
      best_is_circle = circle;
    }
  }
  std::vector<std::string> lines;
  for (const std::size_t edge : best) {
    lines.push_back(fmt::format("{} waits: {} {}", edges_[edge].who, edges_[edge].reason, edges_[edge].on));
  }
  if (best_is_circle) lines.push_back(fmt::format("and so back to {}: a circle", edges_[best.front()].who));
  return lines;
}

}  // namespace heddle
