// Streams that become queues: who shares one, who waits for whom, and who has a completion signal.
#include "replay/packet_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "replay/replay_bench.h"
#include "support/random.h"

namespace replay_packet_plan_test {

using namespace heddle;
using namespace heddle::test;
using replay::Pace;
using replay::PacketPlan;
using replay::plan_packets;
using replay::SubmissionTimings;
using workload::Workload;

namespace {

std::string error_of(const Workload& w, std::uint32_t queues) {
  try {
    plan_packets(w, Pace::asap, {}, queues);
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

workload::Op after(workload::Op op, std::vector<std::size_t> from) {
  for (const std::size_t f : from) op.after.push_back({f, workload::EdgeSource::recorded});
  return op;
}

}  // namespace

TEST_CASE("every stream has a queue of its own while there are queues", "[replay]") {
  Workload w = empty_workload(3);
  w.streams[1].priority = 4;
  w.ops = {kernel_op(0, 1, 1), kernel_op(2, 1, 1), kernel_op(1, 1, 1), kernel_op(0, 1, 1)};
  w.ops[1].kernel.subcontext = 9;
  const PacketPlan plan = plan_packets(w, Pace::asap, {}, 8);
  REQUIRE(plan.queues.size() == 3);
  CHECK(plan.queues[0].ops == std::vector<std::size_t>{0, 3});
  CHECK(plan.queues[1].priority == 4);
  CHECK(plan.queues[2].subcontext == 9);
  CHECK(plan.ops[3].place == 1);
  CHECK(plan.warnings.empty());
  // The last of every queue has a signal, and nobody else.
  CHECK(plan.signals == 3);
  CHECK_FALSE(plan.ops[0].signal.has_value());
  for (const std::size_t op : {1U, 2U, 3U}) CHECK(plan.ops[op].signal.has_value());
}

TEST_CASE("streams of one kind share queues, with a warning; streams of different kinds never do", "[replay]") {
  Workload w = empty_workload(5);
  w.streams[4].priority = 1;
  for (std::size_t s = 0; s < 5; ++s) w.ops.push_back(kernel_op(s, 1, 1));
  const PacketPlan plan = plan_packets(w, Pace::asap, {}, 3);
  REQUIRE(plan.queues.size() == 3);
  REQUIRE(plan.warnings.size() == 1);
  CHECK(plan.warnings[0].find("5 streams share 3 queues") == 0);
  CHECK(plan.ops[0].queue == plan.ops[2].queue);
  CHECK(plan.ops[1].queue == plan.ops[3].queue);
  CHECK(plan.queues[plan.ops[4].queue].ops == std::vector<std::size_t>{4});
  CHECK(plan_packets(w, Pace::asap, {}, 2).queues.size() == 2);
  CHECK(error_of(w, 1).find("2 different priorities and subcontexts need as many queues, and there are 1") !=
        std::string::npos);
  w.ops.push_back(kernel_op(0, 1, 1));
  w.ops.back().kernel.subcontext = 2;
  CHECK(error_of(w, 8).find("stream s0 are of subcontexts 0 and 2") != std::string::npos);
}

TEST_CASE("an operation cannot wait for one that is behind it in its own queue", "[replay]") {
  Workload w = empty_workload(2);
  w.ops = {after(kernel_op(0, 1, 1), {1}), kernel_op(1, 1, 1)};
  CHECK(plan_packets(w, Pace::asap, {}, 2).ops[0].waits == std::vector<std::size_t>{1});
  CHECK(error_of(w, 1).find("behind it in the same queue") != std::string::npos);
}

TEST_CASE("plans keep streams and edges in order, and count signals once", "[replay]") {
  for (const std::uint64_t seed : seeds(300)) {
    Random random(seed);
    const Workload w = random_workload(random, 1 + random.below(60U));
    const Pace pace = random.chance(50) ? Pace::recorded : Pace::asap;
    const std::uint32_t queues = random.between(2, 6);
    CAPTURE(seed, queues);
    const PacketPlan plan = plan_packets(w, pace, {3000, 800}, queues);
    REQUIRE(plan.queues.size() <= queues);
    std::vector<std::size_t> last_place(w.streams.size(), 0);
    std::vector<bool> seen(w.streams.size(), false);
    std::vector<std::int64_t> times;
    std::set<std::uint32_t> signals;
    std::size_t placed = 0;
    for (std::uint32_t q = 0; q < plan.queues.size(); ++q) {
      std::int64_t time = std::numeric_limits<std::int64_t>::min();
      for (std::size_t place = 0; place < plan.queues[q].ops.size(); ++place) {
        const std::size_t op = plan.queues[q].ops[place];
        ++placed;
        CHECK(plan.ops[op].queue == q);
        CHECK(plan.ops[op].place == place);
        CHECK(plan.ops[op].when >= time);
        time = plan.ops[op].when;
        CHECK(w.streams[w.ops[op].stream].priority == plan.queues[q].priority);
      }
    }
    CHECK(placed == w.ops.size());
    for (std::size_t i = 0; i < w.ops.size(); ++i) {
      const replay::PlannedOp& op = plan.ops[i];
      const std::size_t stream = w.ops[i].stream;
      if (seen[stream]) CHECK(op.place > last_place[stream]);
      seen[stream] = true;
      last_place[stream] = op.place;
      for (const workload::Edge& edge : w.ops[i].after) {
        const bool same = plan.ops[edge.from].queue == op.queue;
        if (same) {
          CHECK(plan.ops[edge.from].place < op.place);
        } else {
          CHECK(std::count(op.waits.begin(), op.waits.end(), edge.from) > 0);
          CHECK(plan.ops[edge.from].signal.has_value());
        }
      }
      if (op.signal) CHECK(signals.insert(*op.signal).second);
      if (pace == Pace::asap) CHECK(op.when == 0);
      // The host's call and what is left of the launch latency.
      if (pace == Pace::recorded && w.ops[i].enqueue) CHECK(op.when >= *w.ops[i].enqueue + 2200);
    }
    CHECK(signals.size() == plan.signals);
  }
}

TEST_CASE("what packets cannot say of an operation is refused", "[replay][TSK-01][TSK-05]") {
  using Catch::Contains;
  Workload w = empty_workload(1);
  w.streams[0].priority = 3;
  w.ops = {kernel_op(0, 4, 10)};
  w.ops[0].priority = 3;
  CHECK(error_of(w, 8).empty());
  w.ops[0].priority = 2;
  CHECK_THAT(error_of(w, 8), Contains("its priority is 2, and that of its stream, which has one queue, 3") &&
                                 Contains("give it a stream of that priority"));
  w.ops[0].priority.reset();
  w.ops[0].head = true;
  CHECK_THAT(error_of(w, 8), Contains("no packet goes to the head of a list"));
  w.ops[0].head = false;
  w.ops[0].queue = workload::QueueUse{0x1000, 0, {}};
  CHECK_THAT(error_of(w, 8), Contains("a packet starts a grid, and no queue task"));
  w.ops[0].queue.reset();
  w.ops[0].kernel.subcontext = 2;
  w.ops[0].args = {1};
  CHECK(error_of(w, 8).empty());
  w.subcontexts.emplace_back();
  w.subcontexts[0].id = 2;
  w.subcontexts[0].translated = true;
  CHECK_THAT(error_of(w, 8), Contains("what packets need in memory does not lie in the address space of subcontext 2"));
}

}  // namespace replay_packet_plan_test
