// The core of graphs against a reference that looks at every edge every time, and launches of graphs in task
// management.
#include "task/graph_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random_program.h"
#include "task/plain_task_bench.h"

namespace task_graph_table_test {

using heddle::CheckFailed;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::WaitGraph;
using heddle::protocol::SubmitKind;
using heddle::protocol::SubmitPacket;
using heddle::task::GraphTable;
using heddle::task::TaskParams;
using namespace heddle::test;

namespace {

// A graph of kernels with numbers from `first` on, and its edges: from, to.
struct Drawn {
  std::uint32_t first = 0;
  std::uint32_t nodes = 0;
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;

  std::uint32_t last() const { return first + nodes - 1; }
  std::vector<SubmitPacket> packets(std::uint32_t stream) const {
    std::vector<SubmitPacket> result;
    for (std::uint32_t node = first; node <= last(); ++node) {
      SubmitPacket packet = kernel_packet(node, stream, {1, 1, 1}, {32, 1, 1});
      packet.in_graph = true;
      for (const auto& [from, to] : edges) {
        if (to != node) continue;
        SubmitPacket edge = packet;
        edge.kind = SubmitKind::edge;
        edge.wait_for = from;
        result.push_back(edge);
      }
      packet.graph_last = node == last();
      result.push_back(packet);
    }
    return result;
  }
};

Drawn draw(Random& random, std::uint32_t first) {
  Drawn graph;
  graph.first = first;
  graph.nodes = static_cast<std::uint32_t>(random.between(1, 12));
  const auto dense = static_cast<unsigned>(random.between(0, 60));
  for (std::uint32_t to = first; to <= graph.last(); ++to) {
    for (std::uint32_t from = first; from < to; ++from) {
      if (random.chance(dense)) graph.edges.emplace(from, to);
    }
  }
  return graph;
}

}  // namespace

TEST_CASE("kernels of graphs are ready when the reference says so", "[task]") {
  for (const std::uint64_t seed : seeds(1000)) {
    CAPTURE(seed);
    Random random(seed);
    GraphTable table;
    std::vector<Drawn> graphs;
    std::uint32_t number = 0;
    for (std::uint32_t stream = 0; stream < 3; ++stream) {
      graphs.push_back(draw(random, number));
      number += graphs.back().nodes;
      for (const SubmitPacket& packet : graphs.back().packets(stream)) table.submit(packet, stream);
    }
    REQUIRE(table.open() == number);
    std::set<std::uint32_t> taken;
    std::map<std::uint32_t, Cycle> ends;
    std::set<std::uint32_t> ready;
    std::vector<std::uint32_t> to_take;
    // Which kernels are ready, from nothing but the edges.
    const auto reference = [&] {
      std::set<std::uint32_t> result;
      for (const Drawn& graph : graphs) {
        for (std::uint32_t node = graph.first; node <= graph.last(); ++node) {
          if (taken.count(node) == 0 || ends.count(node) != 0) continue;
          const bool waits = std::any_of(graph.edges.begin(), graph.edges.end(), [&](const auto& edge) {
            return edge.second == node && ends.count(edge.first) == 0;
          });
          if (!waits) result.insert(node);
        }
      }
      return result;
    };
    Cycle now = 10;
    std::vector<Drawn> waiting = graphs;
    std::size_t over = 0;
    while (ends.size() < number) {
      now += random.below(5);
      if (!waiting.empty() && random.chance(20)) {
        const Drawn graph = waiting.back();
        waiting.pop_back();
        REQUIRE_FALSE(table.begun(graph.last()));
        for (const std::uint32_t node : table.begin(graph.last(), now)) to_take.push_back(node);
        REQUIRE(table.begun(graph.last()));
        continue;
      }
      if (!to_take.empty() && (ready.empty() || random.chance(50))) {
        const std::uint32_t node = to_take[random.below(to_take.size())];
        to_take.erase(std::find(to_take.begin(), to_take.end(), node));
        taken.insert(node);
        if (table.taken(node)) ready.insert(node);
      } else if (!ready.empty()) {
        auto which = ready.begin();
        std::advance(which, random.below(ready.size()));
        const std::uint32_t node = *which;
        ready.erase(which);
        ends[node] = now;
        for (const std::uint32_t next : table.ended(node, now)) {
          REQUIRE(ready.insert(next).second);
          Cycle released = 0;
          for (const Drawn& graph : graphs) {
            for (const auto& [from, to] : graph.edges) {
              if (to == next) released = std::max(released, ends.at(from));
            }
          }
          REQUIRE(table.node(next).released == released);
        }
        const auto launch = table.take_over(node);
        const Drawn& its = *std::find_if(graphs.begin(), graphs.end(), [&](const Drawn& graph) {
          return graph.first <= node && node <= graph.last();
        });
        bool all = true;
        for (std::uint32_t i = its.first; i <= its.last(); ++i) all = all && ends.count(i) != 0;
        REQUIRE(launch.has_value() == all);
        if (launch) {
          REQUIRE(*launch == its.last());
          REQUIRE_FALSE(table.has(its.first));
          ++over;
        }
      }
      REQUIRE(ready == reference());
    }
    REQUIRE(over == graphs.size());
    REQUIRE(table.open() == 0);
  }
}

TEST_CASE("a graph waits for nothing that is not ahead of it, and ends once", "[task]") {
  GraphTable table;
  SubmitPacket edge = kernel_packet(1, 0, {1, 1, 1}, {32, 1, 1});
  edge.in_graph = true;
  edge.kind = SubmitKind::edge;
  edge.wait_for = 2;
  CHECK_THROWS_AS(table.submit(edge, 0), CheckFailed);
  table.reset();
  const Drawn graph{0, 2, {{0, 1}}};
  for (const SubmitPacket& packet : graph.packets(7)) table.submit(packet, 0);
  table.begin(1, 5);
  CHECK(table.taken(0));
  CHECK_FALSE(table.taken(1));
  CHECK_THROWS_AS(table.ended(1, 6), CheckFailed);
  CHECK(table.ended(0, 6) == std::vector<std::uint32_t>{1});
  CHECK_THROWS_AS(table.ended(0, 7), CheckFailed);
  WaitGraph waits;
  table.collect_waits(waits, [](std::uint32_t operation) { return "kernel " + std::to_string(operation); });
  CHECK(table.open() == 1);
  table.reset();
  CHECK(table.open() == 0);
  CHECK_FALSE(table.has(1));
}

// Every kernel runs once and behind all that it waits for, a graph takes one place of its stream, and what is behind it
// there waits for all of it.
TEST_CASE("graphs in streams keep every edge and the order of the streams", "[task]") {
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    TaskParams params;
    params.stream_gap = random.chance(50) ? 0 : static_cast<double>(random.below(200));
    params.gap.drain = random.chance(50) ? 0 : static_cast<double>(random.below(100));
    params.gap.front_end = random.chance(50) ? 0 : static_cast<double>(random.below(100));
    params.gap.fetches = static_cast<std::uint32_t>(random.below(3));
    params.gap.report = random.chance(50);
    PlainBench bench(static_cast<std::uint32_t>(random.between(1, 8)),
                     random.chance(70) ? TimingMode::at : TimingMode::lt, false, params);
    bench.work = [&random](const heddle::protocol::TaskPacket&) { return Cycle{random.between(1, 300)}; };
    std::vector<Drawn> entries;
    std::map<std::uint32_t, std::vector<std::size_t>> streams;
    std::uint32_t number = 0;
    const std::uint64_t count = random.between(2, 8);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto stream = static_cast<std::uint32_t>(random.below(3));
      const bool plain = random.chance(40);
      Drawn entry = plain ? Drawn{number, 1, {}} : draw(random, number);
      number += entry.nodes;
      std::vector<SubmitPacket> packets = entry.packets(stream);
      if (plain) packets.back().in_graph = packets.back().graph_last = false;
      const Cycle when = 1 + 400 * i;
      for (const SubmitPacket& packet : packets) bench.submit(when, packet);
      streams[stream].push_back(entries.size());
      entries.push_back(entry);
    }
    bench.timebase.run();
    REQUIRE(bench.results.size() == number);
    REQUIRE(bench.order.size() == number);
    const auto start = [&](std::uint32_t node) { return bench.results.at(node).start; };
    const auto end = [&](std::uint32_t node) { return bench.results.at(node).end; };
    for (const Drawn& entry : entries) {
      for (const auto& [from, to] : entry.edges) REQUIRE(start(to) >= end(from));
    }
    for (const auto& [stream, its] : streams) {
      for (std::size_t i = 1; i < its.size(); ++i) {
        const Drawn& before = entries[its[i - 1]];
        const Drawn& behind = entries[its[i]];
        for (std::uint32_t a = before.first; a <= before.last(); ++a) {
          for (std::uint32_t b = behind.first; b <= behind.last(); ++b) REQUIRE(start(b) >= end(a));
        }
      }
    }
    REQUIRE(bench.unit.open() == 0);
    REQUIRE(bench.unit.launches_idle());
  }
}

// What lies between two kernels of a stream is what happens there, one thing after another; in a graph the
// front end has no part in it, and one line is read.
TEST_CASE("the gap of a stream is the sum of what happens in it", "[task]") {
  TaskParams params;
  params.stream_gap = 0;
  params.gap.drain = 70;
  params.gap.report = true;
  params.gap.front_end = 300;
  params.gap.fetches = 2;
  const Cycle scheduler = params.nested.schedule_cycles;
  const auto run = [&](const TaskParams& with, bool graph) {
    PlainBench bench(4, TimingMode::at, false, with);
    if (graph) {
      for (const SubmitPacket& packet : Drawn{0, 2, {{0, 1}}}.packets(1)) bench.submit(1, packet);
    } else {
      for (std::uint32_t i = 0; i < 2; ++i) bench.submit(1, kernel_packet(i, 1, {1, 1, 1}, {32, 1, 1}));
    }
    bench.timebase.run();
    const auto ns = [&](heddle::Picoseconds time) { return static_cast<Cycle>(time / 1000); };
    CHECK(ns(bench.results.at(0).end - bench.results.at(0).start) == 100 + (with.gap.drain > 0 ? 70 : 0));
    return ns(bench.results.at(1).start - bench.results.at(0).end);
  };
  CHECK(run(params, false) == (scheduler + PlainBench::kMemory) + 300 + (scheduler + 2 * PlainBench::kMemory));
  CHECK(run(params, true) == (scheduler + PlainBench::kMemory) + (scheduler + PlainBench::kMemory));
  TaskParams one = params;
  one.gap.report = false;
  CHECK(run(one, false) == 300 + (scheduler + 2 * PlainBench::kMemory));
  CHECK(run(one, true) == scheduler + PlainBench::kMemory);
  one.gap.fetches = 0;
  CHECK(run(one, false) == 300);
  CHECK(run(one, true) == 0);
  one.gap.front_end = one.gap.drain = 0;
  CHECK(run(one, false) == 0);
  // A floor below what the machine takes changes nothing, and one above is what it takes.
  TaskParams floor = params;
  floor.stream_gap = 400;
  CHECK(run(floor, false) == run(params, false));
  floor.stream_gap = 2000;
  CHECK(run(floor, false) == 2000 - PlainBench::kStartPath);
}

TEST_CASE("a graph goes on after a reset as if nothing had been", "[task]") {
  TaskParams params;
  params.gap.drain = 50;
  params.gap.fetches = 1;
  PlainBench bench(4, TimingMode::at, false, params);
  const Drawn graph{0, 3, {{0, 1}, {1, 2}}};
  for (const SubmitPacket& packet : graph.packets(1)) bench.submit(1, packet);
  bench.timebase.run_until(300);
  bench.reset();
  CHECK(bench.unit.open() == 0);
  for (const SubmitPacket& packet : graph.packets(1)) bench.submit(1, packet);
  bench.timebase.run();
  CHECK(bench.order == std::vector<std::uint32_t>{0, 1, 2});
}

}  // namespace task_graph_table_test
