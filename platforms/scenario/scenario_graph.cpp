#include "scenario/scenario_graph.h"

#include <algorithm>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/yaml_util.h"
#include "scenario/scenario.h"

namespace heddle::scenario {

using namespace program;
namespace {

constexpr std::size_t kMostNodes = 100'000;

// As the file has it: nodes by name.
struct Draft {
  std::string name;
  arch::KernelRecord kernel;
  std::size_t repeat = 1;
  std::vector<std::size_t> after;
  std::vector<std::pair<std::string, SourcePos>> waits;
};

std::vector<Draft> read_nodes(const MapReader& graph, const std::string& file, KernelTable& kernels) {
  std::vector<Draft> drafts;
  std::map<std::string, std::size_t> places;
  std::size_t total = 0;
  for (const auto& node : graph.node("nodes")) {
    const MapReader map(node, graph_node_spec(), graph.thing() + ", " + entry_name("node", node, "name"), file);
    Draft draft;
    draft.name = map.name("name");
    draft.kernel = kernels.find(map);
    if (map.has("repeat")) draft.repeat = map.number<std::size_t>("repeat", {Unit::count, 1, kMostNodes});
    total += draft.repeat;
    if (total > kMostNodes) map.fail("name", fmt::format("with it the graph has more than {} kernels", kMostNodes));
    if (map.has("after")) {
      for (const YAML::Node& item : map.items("after")) {
        if (!item.IsScalar() || item.Scalar().empty()) {
          map.fail("after", item, fmt::format("the name of a node is expected, found {}", kind_text(item)));
        }
        draft.waits.emplace_back(item.Scalar(), position(item, file));
      }
    }
    if (!places.emplace(draft.name, drafts.size()).second) {
      map.fail("name", fmt::format("the graph has two nodes {}", draft.name));
    }
    drafts.push_back(std::move(draft));
  }
  for (Draft& draft : drafts) {
    for (const auto& [name, where] : draft.waits) {
      const auto found = places.find(name);
      if (found == places.end()) {
        std::vector<std::string> names;
        for (const auto& place : places) names.push_back(place.first);
        throw InputError(where,
                         fmt::format("{}, node {}, after: the graph has no node {}", graph.thing(), draft.name, name),
                         suggestion(name, names));
      }
      if (std::find(draft.after.begin(), draft.after.end(), found->second) != draft.after.end()) {
        throw InputError(
            where, fmt::format("{}, node {}, after: {} stands twice in the list", graph.thing(), draft.name, name),
            "name each node once");
      }
      draft.after.push_back(found->second);
    }
  }
  return drafts;
}

// A kernel that is repeated waits for itself.
Graph expand(const std::vector<Draft>& drafts, const std::vector<std::size_t>& order) {
  Graph graph;
  std::vector<std::size_t> last(drafts.size());  // place of each one's last time
  for (const std::size_t place : order) {
    const Draft& draft = drafts[place];
    GraphNode node{draft.name, draft.kernel, {}};
    for (const std::size_t before : draft.after) node.after.push_back(last[before]);
    for (std::size_t i = 0; i < draft.repeat; ++i) {
      graph.push_back(node);
      node.after = {graph.size() - 1};
    }
    last[place] = graph.size() - 1;
  }
  return graph;
}

}  // namespace

std::vector<std::size_t> order_of(const std::vector<std::vector<std::size_t>>& after) {
  std::vector<std::size_t> waits(after.size());
  std::vector<std::vector<std::size_t>> next(after.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < after.size(); ++i) {
    waits[i] = after[i].size();
    for (const std::size_t before : after[i]) next[before].push_back(i);
    if (waits[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::size_t other : next[order.back()]) {
      if (--waits[other] == 0) ready.push(other);
    }
  }
  return order;
}

// Whoever is left out of every order waits for another one that is: following these leads into the circle.
std::vector<std::size_t> circle_of(const std::vector<std::vector<std::size_t>>& after) {
  std::vector<bool> ordered(after.size());
  for (const std::size_t place : order_of(after)) ordered[place] = true;
  const auto first = std::find(ordered.begin(), ordered.end(), false);
  HEDDLE_CHECK(first != ordered.end(), "a circle is asked for where there is none");
  std::vector<std::size_t> way{static_cast<std::size_t>(first - ordered.begin())};
  for (;;) {
    const std::vector<std::size_t>& waits = after[way.back()];
    const std::size_t next = *std::find_if(waits.begin(), waits.end(), [&](std::size_t i) { return !ordered[i]; });
    const auto seen = std::find(way.begin(), way.end(), next);
    if (seen != way.end()) return {seen, way.end()};
    way.push_back(next);
  }
}

void GraphList::read(const YAML::Node& list, const std::string& file, KernelTable& kernels) {
  for (const auto& node : list) {
    const MapReader map(node, graph_spec(), entry_name("graph", node, "name"), file);
    const std::string name = map.name("name");
    if (graphs_.count(name) != 0) map.fail("name", fmt::format("there are two graphs {}", name));
    if (map.node("nodes").size() == 0) map.fail("nodes", "the list is empty");
    const std::vector<Draft> drafts = read_nodes(map, file, kernels);
    std::vector<std::vector<std::size_t>> after;
    for (const Draft& draft : drafts) after.push_back(draft.after);
    const std::vector<std::size_t> order = order_of(after);
    if (order.size() < drafts.size()) {
      std::string names;
      const std::vector<std::size_t> circle = circle_of(after);
      for (const std::size_t place : circle) names += drafts[place].name + " after ";
      throw InputError(map.where("nodes"),
                       fmt::format("graph {}: its nodes wait in a circle: {}{}", name, names, drafts[circle[0]].name),
                       "leave one of these edges out");
    }
    graphs_[name].graph = expand(drafts, order);
  }
}

const Graph& GraphList::find(const MapReader& map) {
  const std::string name = map.name("graph");
  const auto found = graphs_.find(name);
  if (found == graphs_.end()) {
    std::vector<std::string> names;
    for (const auto& entry : graphs_) names.push_back(entry.first);
    throw InputError(map.where("graph"), fmt::format("{}: there is no graph {}", map.thing(), name),
                     names.empty() ? "describe it in the list `graphs`" : suggestion(name, names));
  }
  found->second.used = true;
  return found->second.graph;
}

std::vector<std::string> GraphList::unused(const std::string& file) const {
  std::vector<std::string> sentences;
  for (const auto& [name, entry] : graphs_) {
    if (!entry.used) sentences.push_back(fmt::format("{}: graph {} is never launched", file, name));
  }
  return sentences;
}

}  // namespace heddle::scenario
