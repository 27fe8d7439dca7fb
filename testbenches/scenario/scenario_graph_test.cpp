// Graphs of kernels in scenarios.
#include "scenario/scenario_graph.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "scenario/scenario.h"
#include "support/random.h"

namespace scenario_graph_test {

using Catch::Matchers::Contains;
using heddle::InputError;
using heddle::scenario::circle_of;
using heddle::scenario::order_of;
using heddle::scenario::parse_scenario;
using heddle::scenario::Scenario;
using heddle::test::Random;

namespace {

std::string text(const std::string& graphs, const std::string& submit) {
  return "heddle: 1\ngpu: small\nkernels:\n"
         "  - {name: a, grid: 1, block: 32, cycles: 10}\n"
         "  - {name: b, grid: 2, block: 32, cycles: 10}\n"
         "graphs:\n" +
         graphs + "submit:\n" + submit;
}

std::string refusal(const std::string& graphs, const std::string& submit = "  - {graph: g, stream: s}\n") {
  try {
    parse_scenario(text(graphs, submit), "graph.yaml", {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a graph is as many operations as it has kernels, each behind what it waits for", "[scenario]") {
  const Scenario scenario = parse_scenario(
      text(
          "  - {name: g, nodes: [{name: join, kernel: b, after: [left, right]}, {name: left, kernel: a, after: root},\n"
          "     {name: root, kernel: b}, {name: right, kernel: a, after: root, repeat: 2}]}\n",
          "  - {kernel: a, stream: t, id: first}\n"
          "  - {graph: g, stream: s, id: it, after: first, repeat: 2, priority: 3}\n"
          "  - {kernel: a, stream: u, after: it}\n"),
      "graph.yaml", {});
  const auto& ops = scenario.workloads[0].ops;
  REQUIRE(ops.size() == 1 + 2 * 5 + 1);
  for (const std::size_t first : {std::size_t{1}, std::size_t{6}}) {
    const std::vector<std::string> names{ops[first].kernel.name, ops[first + 1].kernel.name, ops[first + 2].kernel.name,
                                         ops[first + 3].kernel.name, ops[first + 4].kernel.name};
    CHECK(names == std::vector<std::string>{"b", "a", "a", "a", "b"});
    CHECK(ops[first].graph->after.empty());
    CHECK(ops[first + 1].graph->after == std::vector<std::size_t>{first});
    CHECK(ops[first + 2].graph->after == std::vector<std::size_t>{first});
    CHECK(ops[first + 3].graph->after == std::vector<std::size_t>{first + 2});
    CHECK(ops[first + 4].graph->after == std::vector<std::size_t>{first + 1, first + 3});
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(ops[first + i].graph->last == (i == 4));
      CHECK(ops[first + i].priority == 3);
    }
  }
  REQUIRE(ops[1].after.size() == 1);
  CHECK(ops[1].after[0].from == 0);
  CHECK(ops[6].after.empty());
  CHECK_FALSE(ops[0].graph);
  CHECK(ops[11].after[0].from == 10);
  CHECK(scenario.workloads[0].warnings.empty());
}

TEST_CASE("what is wrong with a graph is said by name", "[scenario]") {
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: a, after: z}, {name: y, kernel: a, after: x},\n"
                     "     {name: z, kernel: a, after: y}, {name: w, kernel: a}]}\n"),
             Contains("graph g: its nodes wait in a circle: x after z after y after x"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: a, after: x}]}\n"),
             Contains("graph g: its nodes wait in a circle: x after x"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: a}, {name: x, kernel: b}]}\n"),
             Contains("the graph has two nodes x"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: left, kernel: a}, {name: y, kernel: b, after: lift}]}\n"),
             Contains("the graph has no node lift"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: a}, {name: y, kernel: b, after: [x, x]}]}\n"),
             Contains("x stands twice in the list"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: c}]}\n"), Contains("there is no kernel c"));
  CHECK_THAT(refusal("  - {name: g, nodes: []}\n"), Contains("nodes"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: a}]}\n  - {name: g, nodes: [{name: x, kernel: a}]}\n"),
             Contains("there are two graphs g"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: a}]}\n", "  - {graph: h, stream: s}\n"),
             Contains("there is no graph h"));
  CHECK_THAT(refusal("  - {name: g, nodes: [{name: x, kernel: a}]}\n", "  - group: [{graph: g, stream: s}]\n"),
             Contains("not possible within a group"));
  const Scenario unused = parse_scenario(
      text("  - {name: g, nodes: [{name: x, kernel: b}]}\n", "  - {kernel: a, stream: s}\n"), "g.yaml", {});
  REQUIRE(unused.workloads[0].warnings.size() == 1);
  CHECK_THAT(unused.workloads[0].warnings[0], Contains("graph g is never launched"));
}

// Against a closure of the edges: whoever can reach itself waits in a circle, and so does who waits for one of those.
TEST_CASE("orders and circles are those of the closure of the edges", "[scenario]") {
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    const std::size_t nodes = random.between(1, 9);
    const auto dense = static_cast<unsigned>(random.between(0, 30));
    std::vector<std::vector<std::size_t>> after(nodes);
    std::vector<std::vector<bool>> reaches(nodes, std::vector<bool>(nodes));
    for (std::size_t i = 0; i < nodes; ++i) {
      for (std::size_t j = 0; j < nodes; ++j) {
        if (!random.chance(dense)) continue;
        after[i].push_back(j);
        reaches[i][j] = true;
      }
    }
    for (std::size_t k = 0; k < nodes; ++k) {
      for (std::size_t i = 0; i < nodes; ++i) {
        for (std::size_t j = 0; j < nodes; ++j) {
          if (reaches[i][k] && reaches[k][j]) reaches[i][j] = true;
        }
      }
    }
    const auto stuck = [&](std::size_t i) {
      if (reaches[i][i]) return true;
      for (std::size_t j = 0; j < nodes; ++j) {
        if (reaches[i][j] && reaches[j][j]) return true;
      }
      return false;
    };
    const std::vector<std::size_t> order = order_of(after);
    std::vector<bool> seen(nodes);
    for (const std::size_t place : order) {
      REQUIRE_FALSE(seen[place]);
      for (const std::size_t before : after[place]) REQUIRE(seen[before]);
      seen[place] = true;
    }
    for (std::size_t i = 0; i < nodes; ++i) REQUIRE(seen[i] != stuck(i));
    if (order.size() == nodes) continue;
    const std::vector<std::size_t> circle = circle_of(after);
    REQUIRE_FALSE(circle.empty());
    for (std::size_t i = 0; i < circle.size(); ++i) {
      const std::size_t next = circle[(i + 1) % circle.size()];
      REQUIRE(std::count(after[circle[i]].begin(), after[circle[i]].end(), next) == 1);
    }
  }
}

}  // namespace scenario_graph_test
