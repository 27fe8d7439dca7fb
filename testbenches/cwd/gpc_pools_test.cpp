// The pools in front of the GPCs: against a slow reference, and what they do to tasks.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "cwd/cwd_bench.h"
#include "cwd/machine_ledger.h"
#include "support/random.h"

namespace cwd_gpc_pools_test {

using namespace heddle::test;
using heddle::CheckFailed;
using heddle::Cycle;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::cwd::GpcPools;

namespace {

// One GPC's pools as the text has them: a list of places, and who has how many CTAs.
struct PoolOracle {
  std::uint32_t size;
  std::deque<std::uint32_t> places;             // in the order in which they were taken
  std::map<std::uint32_t, std::uint32_t> ctas;  // by task

  bool holds(std::uint32_t task) const { return std::find(places.begin(), places.end(), task) != places.end(); }
  // The place that a task of that priority would get; places.size(): a free one; beyond: none.
  std::size_t place_for(std::int32_t priority, const std::map<std::uint32_t, std::int32_t>& priorities) const {
    if (places.size() < size) return places.size();
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (ctas.count(places[i]) == 0) return i;
    }
    std::size_t best = places.size() + 1;
    for (std::size_t i = places.size(); i-- > 0;) {  // the youngest first
      const std::int32_t other = priorities.at(places[i]);
      if (other < priority && (best > places.size() || other < priorities.at(places[best]))) best = i;
    }
    return best;
  }
};

CwdParams plain() {
  CwdParams params;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.session_step = 0;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 100;
  params.backfill = true;
  return params;
}

void run(CwdBench& bench) {
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
}

Cycle first_launch(const CwdBench& bench, std::uint32_t operation, std::uint32_t gpc = 0) {
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == operation && launch.gpc == gpc) return launch.cycle;
  }
  return ~Cycle{0};
}

}  // namespace

TEST_CASE("each subcontext that shares a GPC has its part of the active pool", "[cwd][TSK-04][PRT-02]") {
  GpcPools pools(1, 32, 6);
  pools.share(0, 3);  // two places each
  std::uint32_t task = 0;
  const auto enter = [&](std::uint32_t owner, std::int32_t priority = 0) {
    if (!pools.admits(task, priority, 0, owner)) return false;
    pools.launch(task++, priority, 0, 1, owner);
    return true;
  };
  const auto active = [&] {
    std::uint32_t count = 0;
    for (std::uint32_t one = 0; one < task; ++one) count += pools.active(one, 0) ? 1 : 0;
    return count;
  };
  for (int i = 0; i < 6; ++i) CHECK(enter(1));  // what nobody asks for is anybody's
  CHECK_FALSE(enter(1));
  CHECK(enter(2));  // others have theirs at once
  CHECK_FALSE(pools.active(5, 0));
  CHECK(enter(3));
  CHECK(enter(3));
  CHECK(enter(2));
  CHECK(active() == 6);
  CHECK(enter(3, 9));  // in the place of a less urgent one of its own
  CHECK_FALSE(enter(1));
  CHECK_FALSE(enter(2));
}

TEST_CASE("random tasks of several subcontexts: no part is ever taken", "[cwd][TSK-04][PRT-02]") {
  HEDDLE_RANDOM(random);
  for (int round = 0; round < 400; ++round) {
    const std::uint32_t size = random.between(1, 9);
    const std::uint32_t sharers = random.between(2, 5);
    const std::uint32_t part = std::max(1U, size / sharers);
    GpcPools pools(1, 0, size);
    pools.share(0, sharers);
    struct Running {
      std::uint32_t task, owner;
      std::int32_t priority;
      bool active;
    };
    std::vector<Running> running;
    std::uint32_t next = 0;
    for (int step = 0; step < 60; ++step) {
      if (!running.empty() && random.chance(35)) {
        const std::size_t which = random.below(running.size());
        pools.complete(running[which].task, 0, 1);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
      }
      const std::uint32_t owner = random.below(sharers);
      const auto priority = static_cast<std::int32_t>(random.below(3));
      for (Running& one : running) one.active = pools.active(one.task, 0);
      const auto held = [&](std::uint32_t whose) {
        return static_cast<std::uint32_t>(std::count_if(
            running.begin(), running.end(), [whose](const Running& one) { return one.active && one.owner == whose; }));
      };
      std::uint32_t taken = 0;
      for (std::uint32_t other = 0; other < sharers; ++other) {
        taken += held(other);
      }
      const bool free = taken < size;
      const bool yields = std::any_of(running.begin(), running.end(), [&](const Running& one) {
        const bool beyond = one.owner != owner && held(one.owner) > part;
        if (!one.active) return false;
        return (beyond && held(owner) < part) || (one.priority < priority && (one.owner == owner || beyond));
      });
      const bool admitted = pools.admits(next, priority, 0, owner);
      CAPTURE(size, sharers, owner, held(owner), taken);
      CHECK(taken <= size);
      // Idle members, who have no CTA left and yield to everybody, are not in `running`.
      if (free || yields) CHECK(admitted);
      if (held(owner) < part && sharers <= size) CHECK(admitted);
      if (!admitted) continue;
      pools.launch(next, priority, 0, 1, owner);
      for (const Running& one : running) {
        const bool out = one.active && !pools.active(one.task, 0);
        if (out) CHECK((one.owner == owner || held(one.owner) > part));
      }
      running.push_back({next++, owner, priority, true});
    }
  }
}

TEST_CASE("pools agree with a list of places", "[cwd][task][TSK-04]") {
  std::uint32_t yields = 0;
  std::uint32_t refused = 0;
  for (const std::uint64_t seed : seeds(1000)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t gpcs = random.between(1, 3);
    const std::uint32_t size = random.between(1, 4);
    const std::uint32_t pending = random.below(4);
    GpcPools pools(gpcs, pending, size);
    std::vector<PoolOracle> oracle(gpcs, PoolOracle{size, {}, {}});
    std::map<std::uint32_t, std::int32_t> priorities;
    for (std::uint32_t task = 0; task < 8; ++task) priorities[task] = static_cast<std::int32_t>(random.below(3));
    for (std::uint32_t step = 0; step < 200; ++step) {
      const std::uint32_t gpc = random.below(gpcs);
      PoolOracle& model = oracle[gpc];
      const std::uint32_t task = random.below(8);
      if (random.chance(50)) {
        if (model.ctas.count(task) == 0) {
          CHECK_THROWS_AS(pools.complete(task, gpc, 1), CheckFailed);
          continue;
        }
        const std::uint32_t ctas = random.between(1, model.ctas[task]);
        pools.complete(task, gpc, ctas);
        if ((model.ctas[task] -= ctas) == 0) model.ctas.erase(task);
      } else {
        pools.begin_walk();
        std::uint32_t ahead = 0;
        for (std::uint32_t other = random.below(8); other < 8; ++other) {
          if (other == task) continue;
          pools.wait_at(other, gpc);
          ahead += model.holds(other) ? 0 : 1;
        }
        const bool is_pending = pending == 0 || ahead < pending;
        const std::size_t place = model.place_for(priorities[task], priorities);
        const bool finds = place <= model.places.size();
        REQUIRE(pools.admits(task, priorities[task], gpc) == (model.holds(task) || (is_pending && finds)));
        if (!model.holds(task) && !finds) {
          CHECK_THROWS_AS(pools.launch(task, priorities[task], gpc, 1), CheckFailed);
          ++refused;
          break;
        }
        const std::uint32_t ctas = random.between(1, 5);
        const bool yields_now = !model.holds(task) && place < model.places.size();
        REQUIRE(pools.launch(task, priorities[task], gpc, ctas) == yields_now);
        yields += yields_now ? 1 : 0;
        if (!model.holds(task)) {
          if (yields_now) model.places.erase(model.places.begin() + static_cast<std::ptrdiff_t>(place));
          model.places.push_back(task);
        }
        model.ctas[task] += ctas;
      }
      bool any = false;
      for (std::uint32_t g = 0; g < gpcs; ++g) {
        any = any || !oracle[g].ctas.empty();
        std::vector<std::uint32_t> running;
        for (const std::uint32_t holder : oracle[g].places) {
          if (oracle[g].ctas.count(holder) > 0) running.push_back(holder);
        }
        REQUIRE(pools.running(g) == running);
        for (std::uint32_t other = 0; other < 8; ++other) REQUIRE(pools.active(other, g) == oracle[g].holds(other));
      }
      REQUIRE(pools.empty() == !any);
    }
  }
  CHECK(yields > 1000);
  CHECK(refused > 0);
}

TEST_CASE("pools without a size let everybody pass", "[cwd][task][TSK-04]") {
  GpcPools pools(1, 0, 0);
  CHECK_FALSE(pools.limited());
  for (std::uint32_t task = 0; task < 500; ++task) {
    pools.wait_at(task, 0);
    REQUIRE(pools.admits(task, 0, 0));
    CHECK_FALSE(pools.launch(task, 0, 0, 1));
  }
  CHECK(pools.empty());
}

TEST_CASE("a GPC runs as many tasks as its active pool holds", "[cwd][task][TSK-04]") {
  for (const std::uint32_t size : {0U, 1U, 2U, 4U}) {
    CAPTURE(size);
    CwdParams params = plain();
    params.active_pool = size;
    CwdBench bench(Shape::from_sms_per_gpc({4}), params, capacity(8));
    bench.all_gpcs([](auto& gpc) { gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{1000}; }; });
    for (std::uint32_t operation = 0; operation < 6; ++operation) {
      bench.tasks.submit(0, CwdBench::task(operation, 2, kOne));
    }
    run(bench);
    const std::uint32_t places = size == 0 ? 6 : size;
    for (std::uint32_t operation = 0; operation < 6; ++operation) {
      CAPTURE(operation);
      const Cycle wave = (first_launch(bench, operation) - 110) / 1210;
      CHECK(wave == operation / places);
    }
    CHECK((bench.waited("pool") > 0) == (size != 0));
    CHECK((bench.stat("pool_yields") > 0) == (size != 0));
  }
}

TEST_CASE("pools are each GPC's own: a task uses the GPCs that have a place for it", "[cwd][task][TSK-04]") {
  CwdParams params = plain();
  params.active_pool = 1;
  CwdBench bench(Shape::from_sms_per_gpc({2, 2}), params, capacity(8));
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t operation, std::uint64_t) { return operation == 0 ? Cycle{5000} : Cycle{500}; };
  });
  bench.tasks.control(0, switched(1, 0, false));  // the first task finds only GPC 0
  bench.tasks.submit(1, CwdBench::task(0, 1, kOne));
  bench.tasks.control(300, switched(1, 0, true));
  bench.tasks.submit(400, CwdBench::task(1, 20, kOne));
  run(bench);
  CHECK(first_launch(bench, 0, 0) < 200);
  CHECK(first_launch(bench, 1, 1) < 600);
  CHECK(first_launch(bench, 1, 0) == ~Cycle{0});  // 20 CTAs in two waves of 16 slots, long before the first task ends
}

TEST_CASE("a more urgent task takes a less urgent one's place, whose CTAs run on", "[cwd][task][TSK-04]") {
  CwdParams params = plain();
  params.active_pool = 1;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(2));
  bench.all_gpcs(
      [](auto& gpc) { gpc.duration = [](std::uint32_t, std::uint64_t index) { return Cycle{1000 + 300 * index}; }; });
  bench.tasks.submit(0, CwdBench::task(0, 8, kOne, 0));
  bench.tasks.submit(500, CwdBench::task(1, 2, kOne, 1));
  bench.tasks.submit(500, CwdBench::task(2, 2, kOne, 0));
  run(bench);
  // At the first release, while three CTAs of task 0 run.
  CHECK(first_launch(bench, 1) == 110 + 1000 + 100 + 10 + 100);
  CHECK(first_launch(bench, 2) > first_launch(bench, 1) + 1000);
  CHECK(bench.stat("pool_yields") >= 1);
}

TEST_CASE("only the most urgent waiting tasks are in a GPC's pending pool", "[cwd][task][TSK-04]") {
  for (const std::uint32_t size : {0U, 1U, 2U}) {
    CAPTURE(size);
    CwdParams params = plain();
    params.pending_pool = size;
    params.active_pool = 0;
    CwdBench bench(Shape::from_sms_per_gpc({1}), params, capacity(8));
    bench.all_gpcs([](auto& gpc) { gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{2000}; }; });
    ResourceVector most = kOne;
    most.amount[0] = 600;
    bench.tasks.submit(0, CwdBench::task(0, 1, most));
    bench.tasks.submit(200, CwdBench::task(1, 1, most, 2));  // no room for these beside the first
    bench.tasks.submit(200, CwdBench::task(2, 1, most, 1));
    bench.tasks.submit(300, CwdBench::task(3, 1, kOne));  // for this there would be
    run(bench);
    const bool seen = size == 0;
    CHECK((first_launch(bench, 3) < 1000) == seen);
    CHECK((bench.waited("pool") > 0) == !seen);
  }
}

TEST_CASE("a task that the pools keep out says so", "[cwd][task][TSK-04]") {
  CwdParams params = plain();
  params.active_pool = 1;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(2));
  bench.observation.labels.set(0, "first");
  bench.observation.labels.set(1, "second");
  bench.all_gpcs([](auto& gpc) { gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{2000}; }; });
  bench.tasks.submit(0, CwdBench::task(0, 1, kOne));
  bench.tasks.submit(0, CwdBench::task(1, 1, kOne));
  sc_core::sc_start(sc_core::sc_time(1000, sc_core::SC_NS));
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  const std::vector<std::string> chain = graph.chain();
  REQUIRE(chain.size() == 2);
  CHECK(chain[0].find("places in the pools of the GPCs are with first") != std::string::npos);
  run(bench);
}

}  // namespace cwd_gpc_pools_test
