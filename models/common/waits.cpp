#include "common/waits.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace heddle {
namespace {

// The waits with numbers for names: what depends on whom.
struct Network {
  struct Edge {
    std::size_t from;
    std::size_t to;
  };
  std::vector<Edge> edges;
  std::vector<std::vector<std::size_t>> out;  // by name: its edges, in the order in which they were entered
};

struct Chain {
  std::vector<std::size_t> edges;
  bool circle = false;
};

// Depth first, every edge once. A name on the current path that is met again closes a circle; a name that has been
// left knows its longest chain, because those of all that it waits for are known by then.
Chain find_chain(const Network& network) {
  constexpr std::size_t kNoEdge = ~std::size_t{0};
  struct Name {
    enum { unseen, on_path, left } state = unseen;
    std::size_t depth = 0;       // longest chain from here, in edges
    std::size_t best = kNoEdge;  // its first edge
    std::size_t position = 0;    // on the current path
  };
  struct Frame {
    std::size_t name;
    std::size_t next;  // index into its edges
  };
  std::vector<Name> names(network.out.size());
  std::vector<Frame> path;
  const auto enter = [&](std::size_t name) {
    names[name].state = Name::on_path;
    names[name].position = path.size();
    path.push_back({name, 0});
  };
  for (std::size_t first = 0; first < names.size(); ++first) {
    if (names[first].state != Name::unseen) continue;
    enter(first);
    while (!path.empty()) {
      Frame& top = path.back();
      Name& name = names[top.name];
      if (top.next == network.out[top.name].size()) {
        name.state = Name::left;
        path.pop_back();
        continue;
      }
      const std::size_t edge = network.out[top.name][top.next];
      const std::size_t to = network.edges[edge].to;
      if (names[to].state == Name::unseen) {
        enter(to);  // and look at this edge again afterwards
        continue;
      }
      if (names[to].state == Name::on_path) {
        Chain chain{{}, true};
        for (std::size_t i = names[to].position; i < path.size(); ++i) {
          chain.edges.push_back(network.out[path[i].name][path[i].next]);
        }
        return chain;
      }
      if (names[to].depth + 1 > name.depth) {
        name.depth = names[to].depth + 1;
        name.best = edge;
      }
      ++top.next;
    }
  }
  const auto longest =
      std::max_element(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.depth < b.depth; });
  Chain chain;
  if (longest == names.end()) return chain;
  for (std::size_t edge = longest->best; edge != kNoEdge; edge = names[network.edges[edge].to].best) {
    chain.edges.push_back(edge);
  }
  return chain;
}

}  // namespace

void WaitGraph::add(const std::string& who, const std::string& reason, const std::string& on) {
  edges_.push_back({who, reason, on});
}

std::vector<std::string> WaitGraph::chain() const {
  Network network;
  std::unordered_map<std::string, std::size_t> numbers;
  const auto number_of = [&](const std::string& name) {
    const auto [at, inserted] = numbers.try_emplace(name, network.out.size());
    if (inserted) network.out.emplace_back();
    return at->second;
  };
  for (const Wait& wait : edges_) {
    const std::size_t from = number_of(wait.who);
    const std::size_t to = number_of(wait.on);
    network.out[from].push_back(network.edges.size());
    network.edges.push_back({from, to});
  }
  const Chain chain = find_chain(network);
  std::vector<std::string> lines;
  for (const std::size_t edge : chain.edges) {
    lines.push_back(fmt::format("{} waits: {} {}", edges_[edge].who, edges_[edge].reason, edges_[edge].on));
  }
  if (chain.circle) lines.push_back(fmt::format("and so back to {}: a circle", edges_[chain.edges.front()].who));
  return lines;
}

}  // namespace heddle
