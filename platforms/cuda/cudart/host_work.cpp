#include "cuda/cudart/host_work.h"

#include <algorithm>
#include <set>
#include <utility>

namespace heddle::cuda {

WorkGraph::WorkGraph(const WorkGraph& other) {
  for (const auto& node : other.nodes_) add(node->work, {});
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t before : other.before(i)) nodes_[i]->after.push_back(nodes_[before].get());
  }
}

WorkNode& WorkGraph::add(HostWork work, std::vector<WorkNode*> after) {
  nodes_.push_back(std::make_unique<WorkNode>(WorkNode{std::move(work), std::move(after)}));
  return *nodes_.back();
}

std::size_t WorkGraph::index_of(const WorkNode* node) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(), [node](const auto& one) { return one.get() == node; });
  return static_cast<std::size_t>(found - nodes_.begin());
}

std::vector<std::size_t> WorkGraph::before(std::size_t index) const {
  std::vector<std::size_t> result;
  for (const WorkNode* node : nodes_[index]->after) result.push_back(index_of(node));
  return result;
}

std::vector<std::size_t> WorkGraph::order() const {
  std::vector<std::size_t> result;
  std::vector<bool> placed(nodes_.size(), false);
  for (bool any = true; any;) {
    any = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const std::vector<std::size_t> needs = before(i);
      if (placed[i] || !std::all_of(needs.begin(), needs.end(), [&](std::size_t one) { return placed[one]; })) continue;
      placed[i] = any = true;
      result.push_back(i);
    }
  }
  return result;
}

bool WorkGraph::joined_by(const std::vector<WorkNode*>& ends) const {
  std::set<const WorkNode*> reached;  // looked up only
  std::vector<const WorkNode*> open(ends.begin(), ends.end());
  while (!open.empty()) {
    const WorkNode* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return reached.size() == nodes_.size();
}

}  // namespace heddle::cuda
