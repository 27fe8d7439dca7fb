#include "common/waits.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace heddle {
namespace {

constexpr const char* kCircle = ": a circle";

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

// The line without its numbers.
std::string kind_of(const std::string& line) {
  std::string kind;
  for (const char c : line) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) kind += c;
    if (digit && (kind.empty() || kind.back() != '#')) kind += '#';
  }
  return kind;
}

// How often the `period` lines from there on come again, one time after the other.
std::size_t repeats(const std::vector<std::string>& kinds, std::size_t first, std::size_t period) {
  std::size_t end = first + period;
  while (end < kinds.size() && kinds[end] == kinds[end - period]) ++end;
  return (end - first) / period - 1;
}

}  // namespace

std::vector<std::string> told(const std::vector<std::string>& chain) {
  constexpr std::size_t kLongest = 6;  // lines that may repeat together
  constexpr std::size_t kFew = 3;      // repeats that are told in full
  if (chain.empty()) return chain;
  const bool circle = chain.size() > 1 && chain.back().find(kCircle) != std::string::npos;
  const std::size_t cause = chain.size() - (circle ? 2 : 1);
  std::vector<std::string> lines = {"the cause: " + chain[cause]};
  std::vector<std::string> kinds;
  for (std::size_t i = 0; i < cause; ++i) kinds.push_back(kind_of(chain[i]));
  for (std::size_t i = 0; i < cause;) {
    std::size_t period = 1;
    while (period <= kLongest && (i + period > cause || repeats(kinds, i, period) <= kFew)) ++period;
    if (period > kLongest) {
      lines.push_back(chain[i++]);
      continue;
    }
    const std::size_t more = repeats(kinds, i, period);
    const auto tell = [&](std::size_t from) {
      for (std::size_t line = 0; line < period; ++line) lines.push_back(chain[from + line]);
    };
    tell(i);
    lines.push_back(period == 1 ? fmt::format("... and so on: {} more lines like this one ...", more - 1)
                                : fmt::format("... and so on: {} more times these {} lines ...", more - 1, period));
    i += more * period;
    tell(i);
    i += period;
  }
  if (circle) lines.push_back(chain.back());
  return lines;
}

void WaitGraph::add(const std::string& who, const std::string& reason, const std::string& on, For what) {
  edges_.push_back({who, reason, on, what});
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
  Chain chain = find_chain(network);
  if (chain.circle) {
    const auto last = std::find_if(chain.edges.rbegin(), chain.edges.rend(),
                                   [this](std::size_t edge) { return edges_[edge].what == For::room; });
    if (last != chain.edges.rend()) std::rotate(chain.edges.begin(), last.base(), chain.edges.end());
  }
  std::vector<std::string> lines;
  for (const std::size_t edge : chain.edges) {
    lines.push_back(fmt::format("{} waits: {} {}", edges_[edge].who, edges_[edge].reason, edges_[edge].on));
  }
  if (chain.circle) lines.push_back(fmt::format("and so back to {}{}", edges_[chain.edges.front()].who, kCircle));
  return lines;
}

}  // namespace heddle
