// The chain of waits that a run without progress ends with.
#include "common/waits.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace common_waits_test {

using namespace heddle;

namespace {

using Lines = std::vector<std::string>;

std::string name(std::uint64_t number) { return "n" + std::to_string(number); }

struct Edge {
  std::uint64_t from, to;
};

WaitGraph graph_of(const std::vector<Edge>& edges) {
  WaitGraph graph;
  for (const Edge& edge : edges) graph.add(name(edge.from), "for", name(edge.to));
  return graph;
}

// "n1 waits: for n2" -> {"n1", "n2"}
std::pair<std::string, std::string> ends(const std::string& line) {
  return {line.substr(0, line.find(' ')), line.substr(line.rfind(' ') + 1)};
}

// Longest path by trying everything; ~0 if there is a circle.
std::size_t longest(const std::vector<Edge>& edges, std::uint64_t at, std::set<std::uint64_t>& path) {
  if (!path.insert(at).second) return ~std::size_t{0};
  std::size_t best = 0;
  for (const Edge& edge : edges) {
    if (edge.from != at) continue;
    const std::size_t rest = longest(edges, edge.to, path);
    if (rest == ~std::size_t{0}) {
      path.erase(at);
      return rest;
    }
    best = std::max(best, rest + 1);
  }
  path.erase(at);
  return best;
}

}  // namespace

TEST_CASE("without waits there is nothing to say", "[waits]") {
  const WaitGraph graph;
  CHECK(graph.empty());
  CHECK(graph.chain().empty());
}

TEST_CASE("one wait is one sentence", "[waits]") {
  WaitGraph graph;
  graph.add("stream a: gemm", "its place in the stream is behind", "stream a: first");
  CHECK(graph.size() == 1);
  CHECK(graph.chain() == Lines{"stream a: gemm waits: its place in the stream is behind stream a: first"});
}

TEST_CASE("the longest chain is told, from its first waiter to its last", "[waits]") {
  WaitGraph graph;
  graph.add("x", "needs", "end");
  graph.add("b", "needs", "c");
  graph.add("a", "needs", "b");
  graph.add("c", "needs", "end");
  graph.add("c", "also needs", "other end");
  CHECK(graph.chain() == Lines{"a waits: needs b", "b waits: needs c", "c waits: needs end"});
}

TEST_CASE("a longer way to a name that was seen before is found", "[waits]") {
  // x waits for b directly and by way of a; the short way is entered first.
  const Lines chain = graph_of({{0, 2}, {0, 1}, {1, 2}, {2, 3}}).chain();
  CHECK(chain == Lines{"n0 waits: for n1", "n1 waits: for n2", "n2 waits: for n3"});
}

TEST_CASE("a circle is told rather than any chain", "[waits]") {
  const Lines chain = graph_of({{0, 1}, {1, 2}, {2, 3}, {3, 4}, {20, 21}, {21, 22}, {22, 20}}).chain();
  CHECK(chain ==
        Lines{"n20 waits: for n21", "n21 waits: for n22", "n22 waits: for n20", "and so back to n20: a circle"});
}

TEST_CASE("only the circle is told, not the way to it", "[waits]") {
  const Lines chain = graph_of({{0, 1}, {1, 2}, {2, 3}, {3, 1}}).chain();
  CHECK(chain == Lines{"n1 waits: for n2", "n2 waits: for n3", "n3 waits: for n1", "and so back to n1: a circle"});
}

TEST_CASE("who waits for itself is a circle of one", "[waits]") {
  CHECK(graph_of({{0, 1}, {1, 1}}).chain() == Lines{"n1 waits: for n1", "and so back to n1: a circle"});
}

TEST_CASE("on random graphs: a circle if there is one, else a chain of the greatest length", "[waits]") {
  HEDDLE_RANDOM(dice);
  int circles = 0, chains = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::uint64_t nodes = dice.between64(1, 9);
    const std::uint64_t count = dice.between64(1, 12);
    const bool acyclic = dice.one_in(2);
    std::vector<Edge> edges;
    for (std::uint64_t i = 0; i < count; ++i) {
      Edge edge{dice.between64(0, nodes - 1), dice.between64(0, nodes - 1)};
      if (acyclic) edge.to += nodes * dice.between64(edge.to > edge.from ? 0 : 1, 1);
      edges.push_back(edge);
    }
    std::size_t expected = 0;
    for (std::uint64_t n = 0; n < 2 * nodes; ++n) {
      std::set<std::uint64_t> path;
      expected = std::max(expected, longest(edges, n, path));
    }
    const bool circle = expected == ~std::size_t{0};
    Lines chain = graph_of(edges).chain();
    CAPTURE(round, chain, circle);
    (circle ? circles : chains) += 1;
    REQUIRE(!chain.empty());
    if (circle) {
      REQUIRE(chain.back() == "and so back to " + ends(chain.front()).first + ": a circle");
      chain.pop_back();
      REQUIRE(ends(chain.back()).second == ends(chain.front()).first);
    } else {
      REQUIRE(chain.size() == expected);
    }
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const auto [who, on] = ends(chain[i]);
      REQUIRE(std::any_of(edges.begin(), edges.end(),
                          [&](const Edge& e) { return name(e.from) == who && name(e.to) == on; }));
      if (i > 0) REQUIRE(ends(chain[i - 1]).second == who);
    }
  }
  CHECK(circles > 500);
  CHECK(chains > 500);
}

TEST_CASE("of a circle the wait for room comes last", "[waits]") {
  WaitGraph graph;
  graph.add("a", "is behind", "b");
  graph.add("b", "for a slot, and it is with", "c", WaitGraph::For::room);
  graph.add("c", "is behind", "d");
  graph.add("d", "is behind", "a");
  CHECK(graph.chain() == Lines{"c waits: is behind d", "d waits: is behind a", "a waits: is behind b",
                               "b waits: for a slot, and it is with c", "and so back to c: a circle"});
}

TEST_CASE("a chain is told from what decides", "[waits]") {
  CHECK(told({}).empty());
  CHECK(told({"a waits: for b"}) == Lines{"the cause: a waits: for b"});
  CHECK(told({"a waits: for b", "b waits: for c"}) == Lines{"the cause: b waits: for c", "a waits: for b"});
  CHECK(told({"a waits: for b", "b waits: for a", "and so back to a: a circle"}) ==
        Lines{"the cause: b waits: for a", "a waits: for b", "and so back to a: a circle"});
}

TEST_CASE("of waits that repeat each other the first and the last are told, and none is lost", "[waits]") {
  // Lines of one kind in periods of `period`, between two of others.
  const auto chain_of = [](std::size_t times, std::size_t period) {
    Lines chain = {"begin waits: for op 0"};
    for (std::size_t i = 0; i < times; ++i) {
      for (std::size_t line = 0; line < period; ++line) {
        chain.push_back("op " + std::to_string(i) + " of kind " + std::string(line + 1, 'x') + " waits: for 7");
      }
    }
    chain.push_back("end waits: for room");
    return chain;
  };
  for (const std::size_t period : {1U, 2U, 5U}) {
    for (const std::size_t times : {1U, 4U, 5U, 1000U}) {
      CAPTURE(period, times);
      const Lines chain = chain_of(times, period);
      const Lines lines = told(chain);
      CHECK(lines.front() == "the cause: end waits: for room");
      CHECK(lines[1] == chain.front());
      if (times <= 4) {
        CHECK(lines.size() == chain.size());
        continue;
      }
      REQUIRE(lines.size() == 2 + 2 * period + 1);
      CHECK(Lines(lines.begin() + 2, lines.begin() + 2 + static_cast<std::ptrdiff_t>(period)) ==
            Lines(chain.begin() + 1, chain.begin() + 1 + static_cast<std::ptrdiff_t>(period)));
      CHECK(lines[2 + period].find(std::to_string(times - 2) + " more ") != std::string::npos);
      CHECK(lines.back() == chain[chain.size() - 2]);
    }
  }
}

// With a search per waiter each of these would take hours.
TEST_CASE("a hundred thousand waits are no matter", "[waits]") {
  constexpr std::uint64_t kMany = 100'000;
  SECTION("in one chain, entered from its end") {
    WaitGraph graph;
    for (std::uint64_t i = kMany; i-- > 0;) graph.add(name(i), "for", name(i + 1));
    CHECK(graph.chain().size() == kMany);
  }
  SECTION("in one chain, entered from its beginning") {
    WaitGraph graph;
    for (std::uint64_t i = 0; i < kMany; ++i) graph.add(name(i), "for", name(i + 1));
    CHECK(graph.chain().front() == "n0 waits: for n1");
  }
  SECTION("in one circle") {
    WaitGraph graph;
    for (std::uint64_t i = 0; i < kMany; ++i) graph.add(name(i), "for", name((i + 1) % kMany));
    CHECK(graph.chain().size() == kMany + 1);
  }
  SECTION("all for the same") {
    WaitGraph graph;
    for (std::uint64_t i = 1; i <= kMany; ++i) graph.add(name(i), "for", "the one");
    graph.add("the one", "for", "nothing");
    CHECK(graph.chain() == Lines{"n1 waits: for the one", "the one waits: for nothing"});
  }
  SECTION("in layers, each for all of the next: more paths than atoms") {
    WaitGraph graph;
    for (std::uint64_t layer = 0; layer < 250; ++layer) {
      for (std::uint64_t a = 0; a < 20; ++a) {
        for (std::uint64_t b = 0; b < 20; ++b) graph.add(name(layer * 20 + a), "for", name(layer * 20 + 20 + b));
      }
    }
    CHECK(graph.size() == kMany);
    CHECK(graph.chain().size() == 250);
  }
}

}  // namespace common_waits_test
