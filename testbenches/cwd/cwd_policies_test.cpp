// Policies in the distributor: what they see there, and that what they say is done.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd.h"
#include "cwd/cwd_bench.h"

namespace cwd_policies_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::cwd::LevelSearch;
using heddle::protocol::TaskPacket;

namespace {

const ResourceVector kTwo{{1, 1, 1, 1, 2, 1}};  // takes two of an SM's CTA slots

CwdParams fast() {
  CwdParams params;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 100;
  return params;
}

TaskPacket clusters(std::uint32_t operation, std::uint32_t ctas, std::uint32_t size, const ResourceVector& need = kOne,
                    std::int32_t priority = 0, CgaMode mode = CgaMode::load_balancing) {
  TaskPacket task = CwdBench::task(operation, ctas, need, priority);
  task.cluster.of(CgaLevel::gpc) = {size, 1, 1};
  task.cluster.mode = mode;
  return task;
}

void run_for(CwdBench& bench, Cycle cycles) {
  bench.all_gpcs([cycles](auto& gpc) { gpc.duration = [cycles](std::uint32_t, std::uint64_t) { return cycles; }; });
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
}

// The GPCs of an operation's packets, in the order of their arrival.
std::vector<std::uint32_t> gpcs(const CwdBench& bench, std::uint32_t operation) {
  std::vector<std::uint32_t> result;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == operation) result.push_back(launch.gpc);
  }
  return result;
}

Cycle first(const CwdBench& bench, std::uint32_t operation) {
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == operation) return launch.cycle;
  }
  FAIL("nothing of the operation was launched");
  return 0;
}

std::vector<std::uint32_t> sms(const CwdBench& bench, std::uint32_t operation) {
  std::set<std::uint32_t> found;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation != operation) continue;
    for (const std::uint32_t sm : bench.sms_of(launch)) found.insert(sm);
  }
  return {found.begin(), found.end()};
}

}  // namespace

TEST_CASE("striped in the machine, packets go round the GPCs, from one grid to the next", "[cwd]") {
  CwdParams params = fast();
  params.plain = "gpc_striped";
  CwdBench bench(Shape::from_sms_per_gpc({4, 4, 4}), params, capacity(2));
  bench.tasks.submit(0, CwdBench::task(0, 4, kOne));
  bench.tasks.submit(1000, CwdBench::task(1, 4, kOne));
  run_for(bench, 50);
  CHECK(gpcs(bench, 0) == std::vector<std::uint32_t>{0, 1, 2, 0});
  CHECK(gpcs(bench, 1) == std::vector<std::uint32_t>{1, 2, 0, 1});
}

TEST_CASE("after a reset policies begin anew", "[cwd]") {
  CwdParams params = fast();
  params.plain = "gpc_striped";
  params.domain_policy = "round_robin";
  CwdBench bench(Shape::from_sms_per_gpc({4, 4, 4}), params, capacity(2));
  bench.tasks.submit(0, CwdBench::task(0, 1, kOne));
  bench.tasks.submit(500, clusters(1, 2, 2));
  run_for(bench, 50);
  bench.domain.reset();
  const Cycle now = bench.domain.now();
  bench.tasks.submit(now + 1, CwdBench::task(2, 1, kOne));
  bench.tasks.submit(now + 500, clusters(3, 2, 2));
  bench.tasks.submit(now + 1000, clusters(4, 2, 2));
  run_for(bench, 50);
  CHECK(gpcs(bench, 2) == std::vector<std::uint32_t>{0});
  CHECK(gpcs(bench, 3) == std::vector<std::uint32_t>{0});
  CHECK(gpcs(bench, 4) == std::vector<std::uint32_t>{1});
}

TEST_CASE("capped in the machine, a grid waits for its share to come free", "[cwd]") {
  CwdParams params = fast();
  params.plain = "capped";
  params.plain_share = 50;
  CwdBench bench(Shape::from_sms_per_gpc({4}), params, capacity(8));
  bench.tasks.submit(0, CwdBench::task(0, 40, kOne));
  run_for(bench, 5000);
  std::uint32_t early = 0;
  for (const LoggedLaunch& launch : bench.log.launches) early += launch.cycle < 4000 ? launch.packet.num_ctas : 0;
  CHECK(early == 16);  // four of eight slots on each of four SMs
  CHECK(bench.stat("ctas_launched") == 40);
  CHECK(bench.waited("free_slots") > 4000);
}

TEST_CASE("what waits reaches the policy between GPCs", "[cwd][CWD-13]") {
  const bool ahead = GENERATE(false, true);
  CwdParams params = fast();
  params.domain_policy = ahead ? "lookahead" : "fastest";
  CwdBench bench(Shape::from_sms_per_gpc({4, 4}), params, capacity(2));
  for (const std::uint32_t sm : bench.topology.gpc(0).sm_ids) bench.cwd.preload(sm, kOne, 0);
  // Operation 0 is more urgent, and fits on both GPCs; operation 1 needs four empty SMs: only GPC 1 has them.
  bench.tasks.submit(0, clusters(1, 4, 4, kTwo));
  bench.tasks.submit(0, clusters(0, 2, 2, kOne, 5));
  run_for(bench, 5000);
  CHECK(gpcs(bench, 0) == std::vector<std::uint32_t>{ahead ? 0U : 1U});
  CHECK(gpcs(bench, 1) == std::vector<std::uint32_t>{1});
  CHECK((first(bench, 1) > 5000) == !ahead);
}

TEST_CASE("what waits reaches the policies for SMs and for plain grids", "[cwd]") {
  const bool clustered = GENERATE(false, true);  // what goes first
  CwdParams params = fast();
  params.load_balancing = "yielding";
  params.plain = "yielding";
  params.backfill = true;
  CwdBench bench(Shape::from_sms_per_gpc({4}), params, capacity(4));
  // While a CGA of 16 CTAs waits, those of the other task are on one SM.
  bench.tasks.submit(0, clusters(1, 16, 16));
  bench.tasks.submit(0, clustered ? clusters(0, 4, 4, kOne, 5) : CwdBench::task(0, 4, kOne, 5));
  bench.tasks.submit(20'000, clustered ? clusters(2, 4, 4) : CwdBench::task(2, 4, kOne));
  run_for(bench, 5000);
  CHECK(sms(bench, 0).size() == 1);
  CHECK(first(bench, 1) > 5000);
  CHECK(sms(bench, 2).size() == 4);  // nothing waits any more
}

TEST_CASE("a bisection of levels takes its time for a CGA within a GPC, too", "[cwd][CWD-04]") {
  const CgaMode mode = GENERATE(CgaMode::load_balancing, CgaMode::multicast);
  const auto length = [&](LevelSearch search) {
    CwdParams params = fast();
    params.level_search = search;
    params.session_step = 7;
    CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(30));
    bench.tasks.submit(0, clusters(0, 4, 4, kOne, 0, mode));
    run_for(bench, 50);
    return bench.stat("session_cycles.max");
  };
  // On equal SMs a scan finds the level in its first step; 30 levels, or none, are halved five times.
  CHECK(length(LevelSearch::bisection) - length(LevelSearch::scan) == 4 * 7);
}

}  // namespace cwd_policies_test
