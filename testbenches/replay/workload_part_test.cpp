// Where the operations of a run can be divided: against all prefixes, by brute force.
#include "replay/workload_part.h"

#include <catch2/catch.hpp>

#include "support/random.h"

namespace replay_workload_part_test {

using namespace heddle;
using namespace heddle::replay;
using heddle::test::Random;
using workload::Workload;

namespace {

// Operations with times, streams, edges within and between GPUs that lead to what was made before, and launches of
// graphs. Edges may lead forward in the order of submission.
struct Made {
  std::vector<Workload> workloads;
  std::vector<const Workload*> pointers;
};

Made random_run(Random& random) {
  Made made;
  made.workloads.resize(1 + random.below(2));
  for (Workload& workload : made.workloads) {
    workload.streams.resize(3);
    const std::size_t ops = 4 + random.below(12);
    for (std::size_t i = 0; i < ops; ++i) {
      workload::Op op;
      op.kernel.name = "k";
      op.stream = random.below(3);
      op.enqueue = static_cast<workload::Nanoseconds>(random.below(3) * 100);
      // A launch of two, whose second one waits for the first.
      if (random.below(6) == 0) {
        op.graph = workload::GraphUse{};
        workload.ops.push_back(op);
        op.graph->after = {workload.ops.size() - 1};
        op.graph->last = true;
      }
      workload.ops.push_back(op);
    }
  }
  for (std::size_t gpu = 0; gpu < made.workloads.size(); ++gpu) {
    std::vector<workload::Op>& ops = made.workloads[gpu].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (random.below(5) != 0) continue;
      const std::size_t other = random.below(made.workloads.size());
      workload::Edge edge;
      edge.from = random.below(made.workloads[other].ops.size());
      if (other != gpu) edge.gpu = other;
      if (other != gpu || edge.from != i) ops[i].after.push_back(edge);
    }
  }
  for (const Workload& workload : made.workloads) made.pointers.push_back(&workload);
  return made;
}

// Nothing of the set needs what is not in it: what is ahead in its stream, what it waits for, the rest of its launch.
bool closed(const Made& made, const std::vector<OpSet>& set) {
  for (std::size_t gpu = 0; gpu < made.workloads.size(); ++gpu) {
    const std::vector<workload::Op>& ops = made.workloads[gpu].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!set[gpu][i]) continue;
      for (std::size_t j = 0; j < i; ++j) {
        if (ops[j].stream == ops[i].stream && !set[gpu][j]) return false;
      }
      for (const workload::Edge& edge : ops[i].after) {
        if (!set[edge.gpu.value_or(gpu)][edge.from]) return false;
      }
      if (ops[i].graph && !ops[i].graph->last && !set[gpu][i + 1]) return false;
    }
  }
  return true;
}

std::size_t size_of(const std::vector<OpSet>& set) {
  std::size_t count = 0;
  for (const OpSet& gpu : set) {
    for (const bool in : gpu) count += in ? 1 : 0;
  }
  return count;
}

std::vector<OpSet> none_of(const Made& made) {
  std::vector<OpSet> set;
  for (const Workload& workload : made.workloads) set.emplace_back(workload.ops.size());
  return set;
}

}  // namespace

TEST_CASE("stretches end at the first place where nothing waits for what is behind", "[replay][RUN-01]") {
  HEDDLE_RANDOM(random);
  std::size_t divided = 0;
  for (int round = 0; round < 300; ++round) {
    const Made made = random_run(random);
    const std::uint64_t every = 1 + random.below(4);
    const auto stretches =
        stretches_of(made.pointers, Pace::recorded, every, std::vector<OpSet>(made.workloads.size()));
    std::vector<OpSet> so_far = none_of(made);
    std::uint32_t stretch = 0;
    std::uint64_t count = 0;
    for (const auto& [gpu, op] : submission_order(made.pointers, Pace::recorded)) {
      CAPTURE(round, gpu, op);
      REQUIRE(stretches[gpu][op] == stretch);
      so_far[gpu][op] = true;
      if (++count < every || !closed(made, so_far)) continue;
      ++stretch;
      count = 0;
    }
    divided += stretch;
  }
  CHECK(divided > 300);
}

TEST_CASE("what stands ahead of a place is whole, and holds nothing that is not needed", "[replay][RUN-02]") {
  HEDDLE_RANDOM(random);
  std::size_t less = 0;
  for (int round = 0; round < 300; ++round) {
    const Made made = random_run(random);
    const auto order = submission_order(made.pointers, Pace::recorded);
    const std::size_t place = random.below(order.size() + 1);
    const Ahead ahead = ahead_of(made.pointers, Pace::recorded, place);
    CAPTURE(round, place);
    CHECK(closed(made, ahead.ops));
    std::vector<OpSet> prefix = none_of(made);
    for (std::size_t p = 0; p < place; ++p) prefix[order[p].first][order[p].second] = true;
    for (const auto& [gpu, op] : order) {
      if (prefix[gpu][op]) CHECK(ahead.ops[gpu][op]);
      if (prefix[gpu][op] || !ahead.ops[gpu][op]) continue;
      // Whoever pulls it along leads back to the prefix; and it stands before that one in its stream or launch, or that
      // one waits for it.
      OpPlace who{gpu, op};
      for (std::size_t steps = 0; !prefix[who.first][who.second]; ++steps) {
        REQUIRE(steps < order.size());
        const OpPlace by = ahead.needs.at(who);
        const workload::Op& its = made.workloads[by.first].ops[by.second];
        bool needed = by.first == who.first && who.second < by.second &&
                      made.workloads[who.first].ops[who.second].stream == its.stream;
        needed = needed || (by.first == who.first && its.graph && !its.graph->last && who.second == by.second + 1);
        for (const workload::Edge& edge : its.after) {
          needed = needed || (edge.gpu.value_or(by.first) == who.first && edge.from == who.second);
        }
        REQUIRE(needed);
        who = by;
      }
    }
    // A beginning of the order that is whole has more.
    std::size_t length = place;
    while (length < order.size() && !closed(made, prefix)) {
      prefix[order[length].first][order[length].second] = true;
      ++length;
    }
    less += size_of(ahead.ops) < length ? 1 : 0;
  }
  CHECK(less > 10);
}

TEST_CASE("a recording without some of its operations waits for none of them", "[replay][RUN-02]") {
  Workload recording;
  recording.streams.resize(2);
  recording.ops.resize(5);
  for (std::size_t i = 0; i < 5; ++i) recording.ops[i].kernel.name = std::string(1, static_cast<char>('a' + i));
  recording.ops[3].after = {{0}, {2}};
  recording.ops[4].after = {{3}};
  const Workload part = without(recording, {true, true, false, false, false});
  REQUIRE(part.ops.size() == 3);
  CHECK(part.ops[0].kernel.name == "c");
  REQUIRE(part.ops[1].after.size() == 1);
  CHECK(part.ops[1].after[0].from == 0);
  CHECK(part.ops[2].after[0].from == 1);
}

}  // namespace replay_workload_part_test
