#include "task/graph_table.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::task {

using protocol::SubmitKind;

void GraphTable::submit(const protocol::SubmitPacket& packet, Cycle now) {
  HEDDLE_CHECK(packet.in_graph, "an operation of no graph was submitted as one of a graph");
  const Operation operation = packet.operation;
  Launch& launch = coming_[packet.stream];
  if (packet.kind == SubmitKind::edge) {
    const auto found = std::find(launch.nodes.begin(), launch.nodes.end(), packet.wait_for);
    HEDDLE_CHECK(found != launch.nodes.end(), "a kernel of a graph waits for one that is not ahead of it there");
    coming_edges_[operation].push_back(packet.wait_for);
    return;
  }
  State state;
  state.node = {packet, now, 0};
  if (const auto edges = coming_edges_.find(operation); edges != coming_edges_.end()) {
    for (const Operation before : edges->second) nodes_.at(before).next.push_back(operation);
    state.waits += static_cast<std::uint32_t>(edges->second.size());
    coming_edges_.erase(edges);
  }
  HEDDLE_CHECK(nodes_.emplace(operation, std::move(state)).second, "a kernel of a graph was submitted twice");
  launch.nodes.push_back(operation);
  ++open_;
  if (!packet.graph_last) return;
  launch.left = launch.nodes.size();
  for (const Operation node : launch.nodes) nodes_.at(node).launch = operation;
  launches_.emplace(operation, std::move(launch));
  coming_.erase(packet.stream);
}

std::vector<GraphTable::Operation> GraphTable::begin(Operation launch, Cycle now) {
  launches_.at(launch).begun = true;
  const std::vector<Operation>& nodes = launches_.at(launch).nodes;
  for (const Operation node : nodes) nodes_.at(node).node.released = now;
  return nodes;
}

bool GraphTable::taken(Operation operation) { return --nodes_.at(operation).waits == 0; }

std::vector<GraphTable::Operation> GraphTable::ended(Operation operation, Cycle end) {
  State& state = nodes_.at(operation);
  HEDDLE_CHECK(state.waits == 0 && !state.ended, "a kernel of a graph ended that was not ready, or twice");
  state.ended = true;
  --open_;
  --launches_.at(state.launch).left;
  std::vector<Operation> ready;
  for (const Operation next : state.next) {
    State& other = nodes_.at(next);
    other.node.released = std::max(other.node.released, end);
    if (--other.waits == 0) ready.push_back(next);
  }
  return ready;
}

std::optional<GraphTable::Operation> GraphTable::take_over(Operation operation) {
  const Operation launch = nodes_.at(operation).launch;
  const auto found = launches_.find(launch);
  if (found->second.left > 0) return std::nullopt;
  for (const Operation node : found->second.nodes) nodes_.erase(node);
  launches_.erase(found);
  return launch;
}

void GraphTable::reset() {
  nodes_.clear();
  launches_.clear();
  coming_.clear();
  coming_edges_.clear();
  open_ = 0;
}

}  // namespace heddle::task
