// What sessions cost, by laws that are worked out here from the texts' steps; what a failed one costs, and what
// sessions that overlap gain.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cluster_place.h"
#include "cwd/cost_laws.h"
#include "cwd/cwd_bench.h"
#include "support/random.h"

namespace cwd_session_cost_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::CwdParams;
using heddle::cwd::LevelSearch;
using heddle::protocol::TaskPacket;

namespace {

// Every cost has another length, so that none can stand for another.
CwdParams costly() {
  CwdParams params;
  params.session_pipeline = 1000;
  params.session_step = 7;
  params.level_search = LevelSearch::scan;
  params.prefix_step = 0.5;
  params.compare_step = 3;
  params.query_distance = 11;
  params.mask_cycles = 100;
  params.snapshot_sms = 16;
  params.trt_updates = 4096;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_queue = 1000;
  params.gpc_distance = 100;
  return params;
}

// ceil(log2 n), counted.
std::uint32_t doublings(std::uint32_t n) {
  std::uint32_t count = 0;
  for (std::uint32_t reached = 1; reached < n; reached += reached) ++count;
  return count;
}
Cycle rounded_up(double cycles) {
  Cycle whole = 0;
  while (static_cast<double>(whole) < cycles) ++whole;
  return whole;
}
// The copy of the live model: so many rows of 16 SMs; the first is part of the session's fixed length.
Cycle copy_of(std::uint32_t sms) { return (sms + 15) / 16 - 1; }
// The sums of a prefix count go up a tree of the SMs and down again, half a cycle a level [0157].
Cycle prefix_of(std::uint32_t sms) { return rounded_up(doublings(sms) * 2 * 0.5); }

// As statistics have it.
double stat_of(Cycle cycles) { return static_cast<double>(cycles); }

TaskPacket grid(std::uint32_t operation, std::uint32_t ctas) { return CwdBench::task(operation, ctas, kOne); }
TaskPacket clusters(std::uint32_t operation, std::uint32_t ctas, std::uint32_t size,
                    CgaMode mode = CgaMode::multicast) {
  TaskPacket task = grid(operation, ctas);
  task.cluster.of(CgaLevel::gpc) = {size, 1, 1};
  task.cluster.mode = mode;
  return task;
}
// One GPU_CGA of `parts` GPC_CGAs of `size`.
TaskPacket gpu_cga(std::uint32_t operation, std::uint32_t parts, std::uint32_t size) {
  TaskPacket task = clusters(operation, parts * size, size);
  task.cluster.of(CgaLevel::gpu) = {parts * size, 1, 1};
  return task;
}

void run(CwdBench& bench, Cycle cycles = 50) {
  bench.all_gpcs([cycles](auto& gpc) { gpc.duration = [cycles](std::uint32_t, std::uint64_t) { return cycles; }; });
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
}
// CTAs of operation 0 run for that long, all others for 50 cycles.
void run_beside(CwdBench& bench, Cycle cycles) {
  bench.all_gpcs([cycles](auto& gpc) {
    gpc.duration = [cycles](std::uint32_t operation, std::uint64_t) { return operation == 0 ? cycles : Cycle{50}; };
  });
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
}
std::vector<Cycle> arrivals(const CwdBench& bench, std::uint32_t operation) {
  std::vector<Cycle> cycles;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == operation) cycles.push_back(launch.cycle);
  }
  return cycles;
}
Shape equal_gpcs(std::uint32_t gpcs, std::uint32_t sms) {
  return Shape::from_sms_per_gpc(std::vector<std::uint32_t>(gpcs, sms));
}

}  // namespace

TEST_CASE("a session of a plain grid grows with the machine", "[cwd][CWD-05][CWD-28][CWD-33]") {
  for (const auto& [gpcs, sms] : {std::pair(1U, 16U), std::pair(8U, 16U), std::pair(7U, 18U), std::pair(64U, 64U)}) {
    CAPTURE(gpcs, sms);
    const std::uint32_t all = gpcs * sms;
    // One level, partly filled: a step of the scan, a prefix count, and every GPC's generator makes one mask.
    CwdBench partly(equal_gpcs(gpcs, sms), costly(), capacity(2));
    partly.tasks.submit(0, grid(0, all - 1));
    run(partly);
    CHECK(partly.stat("session_cycles.max") == stat_of(copy_of(all) + 1000 + 7 + prefix_of(all) + 100));
    CHECK(partly.stat("decision_cycles") == stat_of(copy_of(all) + 1000 + 7 + prefix_of(all)));
    // Two full levels: no SM has to be chosen among equals; two masks one after another.
    CwdBench full(equal_gpcs(gpcs, sms), costly(), capacity(2));
    full.tasks.submit(0, grid(0, 2 * all));
    run(full);
    if (2 * all <= costly().session_limit) {
      CHECK(full.stat("session_cycles.max") == stat_of(copy_of(all) + 1000 + 2 * 7 + 2 * 100));
    }
  }
}

TEST_CASE("a plain grid's masks are made one after another by each GPC, as a cluster's are", "[cwd][CWD-28][CWD-30]") {
  CwdBench plain(equal_gpcs(2, 4), costly(), capacity(3));
  plain.tasks.submit(0, grid(0, 24));
  run(plain);
  const Cycle decided = 1000 + 3 * 7;
  const std::vector<Cycle> wanted{decided + 200, decided + 200, decided + 300,
                                  decided + 300, decided + 400, decided + 400};
  CHECK(arrivals(plain, 0) == wanted);  // of levels 3, 2 and 1 over 100 cycles of way
  CHECK(arrivals(plain, 0).front() == decided + 100 + 100);
}

TEST_CASE("a session waits for the updates that were before it", "[cwd][CWD-02][CWD-28]") {
  CwdParams params = costly();
  params.trt_updates = 0.25;  // an SM takes four cycles
  params.mask_cycles = 0;
  params.prefix_step = 0;
  CwdBench bench(equal_gpcs(1, 8), params, capacity(2));
  bench.tasks.submit(0, grid(0, 8));
  bench.tasks.submit(500, grid(1, 8));
  run(bench, 10'000);
  // The first launches 8 CTAs in cycle 1007: in cycle 1007 + 8 * 4 - 1 the last of them is being entered.
  CHECK(arrivals(bench, 0).front() == 1007 + 100);
  CHECK(bench.stat("update_wait_cycles") == 31);
  CHECK(arrivals(bench, 1).front() == 1007 + 31 + 1007 + 100);
}

TEST_CASE("reports of ends are taken in at a rate, in their order", "[cwd][CWD-28]") {
  CwdParams params = costly();
  params.end_reports = 0.01;  // one in a hundred cycles
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = 0;
  CwdBench bench(equal_gpcs(4, 1), params, capacity(1));
  bench.tasks.submit(0, grid(0, 4));
  run(bench, 1000);
  // All four GPCs report in the same cycle; each report is in with the last of its hundred cycles.
  CHECK(bench.stat("report_wait_cycles") == 99 + 199 + 299 + 399);
  CHECK(bench.log.done.at(0).end == 10 + 7 + 100 + 1000 + 100 + 399);
  params.end_reports = 4;
  CwdBench quick(equal_gpcs(4, 1), params, capacity(1));
  quick.tasks.submit(0, grid(0, 4));
  run(quick, 1000);
  CHECK(quick.stat("report_wait_cycles") == 0);
}

TEST_CASE("a query costs the comparison of the answers", "[cwd][CWD-12][CWD-13][CWD-33]") {
  for (const std::uint32_t gpcs : {1U, 2U, 5U, 8U, 64U}) {
    CAPTURE(gpcs);
    CwdBench bench(equal_gpcs(gpcs, 16), costly(), capacity(1));
    bench.tasks.submit(0, clusters(0, 16, 16));
    run(bench);
    // The question goes to all mimics and back, a decision in each; a tree of comparators; to the GPC that has won; the
    // mask. All 16 SMs of the GPC receive a CTA, so that nobody is counted.
    CHECK(bench.stat("session_cycles.max") ==
          stat_of(copy_of(16 * gpcs) + 1000 + 11 + 7 + 11 + 3 * doublings(gpcs) + 11 + 100));
  }
}

TEST_CASE("what ends while the GPCs are asked changes nothing for the session", "[cwd][CWD-02]") {
  // GPC 0 has a loaded SM when the session begins, and none when it answers: then both GPCs are alike, and it would be
  // the first of them.
  for (const bool ends : {false, true}) {
    for (const bool whole : {false, true}) {
      CAPTURE(ends, whole);
      CwdParams params = costly();
      params.query_distance = 200;
      CwdBench bench(equal_gpcs(2, 2), params, capacity(2));
      bench.cwd.preload(0, kOne, ends ? 100 : 1'000'000);
      TaskPacket task = clusters(0, 2, 2, CgaMode::multicast);
      if (whole) task.cluster.of(CgaLevel::gpu) = {2, 1, 1};
      bench.tasks.submit(0, task);
      run(bench, 300);
      const auto launches = bench.launches_in_order();
      REQUIRE(!launches.empty());
      CHECK(launches.front().gpc == 1);
      CHECK(launches.front().cycle > 400);
    }
  }
}

TEST_CASE("a GPU_CGA pays both passes", "[cwd][CWD-18][CWD-19]") {
  // 4 GPC_CGAs of 8 CTAs on GPCs of 16 empty SMs.
  for (const std::uint32_t gpcs : {4U, 8U, 16U, 32U}) {
    CAPTURE(gpcs);
    CwdBench bench(equal_gpcs(gpcs, 16), costly(), capacity(1));
    bench.tasks.submit(0, gpu_cga(0, 4, 8));
    run(bench);
    // One question, all GPCs are valid, so that one is enough in either pass [0210]. 8 of 16 equal SMs are a prefix
    // count over the GPC.
    const Cycle query = 11 + 7 + prefix_of(16) + 11 + 3 * doublings(gpcs);
    const Cycle reset = 7;              // of the launch-slot registers [0218]
    const Cycle one_by_one = 3 * 7;     // the last of the four is started three steps after the first [0220]
    const Cycle to_the_gpc = 11 + 100;  // and its mask
    CHECK(bench.stat("gpu2gpc.query_steps") == 2);
    CHECK(bench.stat("session_cycles.max") ==
          stat_of(copy_of(16 * gpcs) + 1000 + query + reset + query + one_by_one + to_the_gpc));
  }
}

TEST_CASE("a GPU_CGA with more parts than GPCs asks again and again, in either pass", "[cwd][CWD-18][CWD-19]") {
  CwdParams params = costly();
  params.compare_step = 0;
  CwdBench bench(equal_gpcs(2, 16), params, capacity(1));
  bench.tasks.submit(0, gpu_cga(0, 4, 8));
  run(bench);
  // Two GPCs, four parts: two questions in each pass. For a GPC's second part all SMs that are left are needed, so that
  // nobody is counted.
  const Cycle first = 11 + 7 + prefix_of(16) + 11;
  const Cycle second = 11 + 7 + 11;
  CHECK(bench.stat("gpu2gpc.query_steps") == 4);
  // The second GPC gets the second and the fourth part, and makes its masks one after the other.
  CHECK(bench.stat("session_cycles.max") ==
        stat_of(copy_of(32) + 1000 + first + second + 7 + first + second + 1 * 7 + 11 + 2 * 100));
}

TEST_CASE("the queries of a session find out that a GPU_CGA has no room", "[cwd][CWD-18][CWD-20][CWD-21]") {
  CwdParams params = costly();
  CwdBench bench(equal_gpcs(4, 8), params, capacity(1));
  bench.tasks.submit(0, grid(0, 1));  // takes an SM for 50,000 cycles
  bench.tasks.submit(2000, gpu_cga(1, 4, 8));
  run_beside(bench, 50'000);
  // Three GPCs answer that they take one, then none takes another: two questions, and the end. All SMs of a GPC are
  // taken: nothing is counted. Nothing changes until the SM is free, so that there is one failure and no more.
  const Cycle failed = copy_of(32) + 1000 + 2 * (11 + 7 + 11 + 3 * 2);
  CHECK(bench.stat("failed_sessions") == 1);
  CHECK(bench.stat("sessions") == 3);
  CHECK(bench.stat("session_cycles.count") == 3);
  const Cycle plain = copy_of(32) + 1000 + 7 + prefix_of(32);
  const Cycle second = copy_of(32) + 1000 + 2 * (11 + 7 + 11 + 3 * 2) + 7;  // both passes, a question each, the reset
  CHECK(bench.stat("decision_cycles") == stat_of(plain + failed + second));
  CHECK(bench.stat("wait.free_slots") > 40'000);
  REQUIRE(arrivals(bench, 1).size() == 4);
  CHECK(arrivals(bench, 1).front() > 50'000);
}

TEST_CASE("a hopeless CGA takes the distributor's time from others at each of its retries", "[cwd][CWD-21][CWD-26]") {
  // Operation 0 runs 16 CTAs one after another on one SM: each end lets the GPU_CGA behind it try again, in vain.
  CwdParams params = costly();
  params.session_pipeline = 10;
  std::vector<Cycle> last;
  for (const bool hopeless : {false, true}) {
    CwdBench bench(equal_gpcs(4, 8), params, capacity(1));
    bench.all_gpcs([](auto& gpc) {
      gpc.duration = [](std::uint32_t operation, std::uint64_t) {
        return operation == 0 ? Cycle{90'000} : Cycle{1000};
      };
    });
    bench.tasks.submit(0, grid(0, 31));
    if (hopeless) bench.tasks.submit(500, gpu_cga(1, 4, 8));
    bench.tasks.submit(2000, grid(2, 16));
    run_until_idle();
    REQUIRE(bench.log.problems == std::vector<std::string>{});
    CHECK(bench.stat("failed_sessions") == (hopeless ? 17 : 0));  // at its arrival, and after each of the 16 ends
    last.push_back(arrivals(bench, 2).back());
  }
  // No GPC has room for a part: one question. It waits in front: 15 ends come before the last launch.
  const Cycle failed = copy_of(32) + 10 + 11 + 7 + 11 + 3 * 2;
  CHECK(last[1] - last[0] == 15 * failed);
}

TEST_CASE("smaller sizes are tried in time, a session each", "[cwd][CWD-21]") {
  CwdParams params = costly();
  params.compare_step = 0;
  params.prefix_step = 0;
  CwdBench bench(equal_gpcs(2, 8), params, capacity(1));
  // Three SMs of each GPC are left: a cluster of 8 or 4 has no home, one of 2 has.
  for (std::uint32_t gpc = 0; gpc < 2; ++gpc) {
    for (std::uint32_t sm = 0; sm < 5; ++sm) bench.cwd.preload(bench.topology.gpc(gpc).sm_ids[sm], kOne, 0);
  }
  TaskPacket task = clusters(1, 8, 8);
  task.cluster.fallback[0] = {4, 1, 1};
  task.cluster.fallback[1] = {2, 1, 1};
  bench.tasks.submit(0, task);
  run(bench);
  const Cycle failed = copy_of(16) + 1000 + 11 + 7 + 11;
  CHECK(bench.stat("failed_sessions") >= 2);
  // Two sizes in vain, the third: a question, to the GPC, the mask, the way.
  CHECK(arrivals(bench, 1).front() == 2 * failed + failed + 11 + 100 + 100);
}

TEST_CASE("counters rule out what the enabled SMs can never hold, without a session", "[cwd][CWD-18][CWD-20]") {
  CwdBench bench(equal_gpcs(1, 8), costly(), capacity(1));
  bench.tasks.control(0, switched(0, 1, false));
  bench.tasks.submit(10, clusters(0, 8, 8));
  bench.tasks.control(20'000, switched(0, 1, true));
  run(bench);
  CHECK(bench.stat("failed_sessions") == 0);
  CHECK(bench.stat("sessions") == 1);
  CHECK(arrivals(bench, 0).front() > 20'000);
}

TEST_CASE("a GPC's counter goes down at launch and up at cga_complete", "[cwd][CWD-20]") {
  CwdBench bench(equal_gpcs(1, 8), costly(), capacity(1));
  bench.all_gpcs([](auto& gpc) { gpc.flush = [](std::uint32_t, std::uint64_t) { return Cycle{30'000}; }; });
  bench.tasks.submit(0, clusters(0, 32, 8));
  run(bench, 10);
  // All SMs are free long before the CGA is flushed; no session is tried before.
  CHECK(bench.stat("failed_sessions") == 0);
  CHECK(bench.stat("sessions") == 4);
  CHECK(bench.stat("wait.flush") > 80'000);
}

TEST_CASE("the prior art launches each CTA as it is decided", "[cwd][CWD-08]") {
  CwdParams params = costly();
  params.plain = "one_at_a_time";
  params.session_pipeline = 2;
  params.session_step = 1;
  params.mask_cycles = 1;
  params.snapshot_sms = 128;
  CwdBench bench(equal_gpcs(8, 16), params, capacity(8));
  bench.tasks.submit(0, grid(0, 1024));
  run(bench, 10'000);
  REQUIRE(bench.log.launches.size() == 1024);
  // A decision of one step, its mask, the way; the last after 1,024 decisions [0130].
  CHECK(bench.log.launches.front().cycle == 2 + 1 + 1 + 100);
  CHECK(bench.log.launches.back().cycle == 2 + 1024 + 1 + 100);
  CHECK(bench.stat("decision_cycles") == stat_of(2 + 1024));
}

TEST_CASE("sessions overlap: one decides while the masks of another are made", "[cwd][CWD-02][CWD-27]") {
  std::vector<Cycle> last;
  for (const std::uint32_t in_flight : {1U, 2U, 4U}) {
    CwdParams params = costly();
    params.session_pipeline = 10;
    params.mask_cycles = 200;
    params.sessions = in_flight;
    params.mask_buffers = 16;
    CwdBench bench(equal_gpcs(4, 8), params, capacity(1));
    for (std::uint32_t i = 0; i < 4; ++i) bench.tasks.submit(0, clusters(i, 8, 8));
    run(bench, 100'000);
    REQUIRE(bench.log.launches.size() == 4);
    std::vector<bool> taken(4, false);
    for (const LoggedLaunch& launch : bench.log.launches) {
      CHECK_FALSE(taken[launch.gpc]);  // what another session has decided is not there any more
      taken[launch.gpc] = true;
    }
    last.push_back(bench.log.launches.back().cycle);
  }
  // A decision and its masks take so long; four in a row, or the decisions in a row and the masks beside them.
  const Cycle decision = copy_of(32) + 10 + 11 + 7 + 11 + 3 * 2;
  const Cycle masks = 11 + 200;
  CHECK(last[0] == 4 * (decision + masks) + 100);
  CHECK(last[1] == 2 * (decision + masks) + decision + 100);
  CHECK(last[2] == 4 * decision + masks + 100);
}

TEST_CASE("sessions that overlap place as one after another does", "[cwd][CWD-02][CWD-07][CWD-27]") {
  // All that is launched stays, so that sessions see the same machine whenever they come.
  for (const std::uint64_t seed : seeds(100)) {
    CAPTURE(seed);
    std::vector<std::vector<std::string>> launched;
    for (const bool overlap : {false, true}) {
      Random random(seed);
      CwdParams params;
      const std::uint32_t in_flight = random.between(2, 6);
      params.sessions = overlap ? in_flight : 1;
      params.mask_buffers = random.between(1, 8);
      params.mask_cycles = random.below(60);
      params.session_limit = random.between(1, 40);
      params.active_pool = params.pending_pool = 0;
      CwdBench bench(random.shape(4), params, capacity(random.between(1, 4)));
      for (std::uint32_t i = 0; i < 6; ++i) {
        const std::uint32_t size = random.between(1, 4);
        const std::uint32_t count = random.between(1, 12);
        TaskPacket task = random.chance(50) ? grid(i, count) : clusters(i, size * count, size);
        task.priority = -static_cast<std::int32_t>(i);
        bench.tasks.submit(0, task);
      }
      bench.all_gpcs([](auto& gpc) { gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{10'000'000}; }; });
      sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_MS));
      REQUIRE(bench.log.problems == std::vector<std::string>{});  // the bench objects to more CTAs than fit on an SM
      launched.emplace_back();
      for (const LoggedLaunch& launch : bench.log.launches) {
        for (const std::uint32_t sm : bench.sms_of(launch)) {
          launched.back().push_back(fmt::format("operation {} on SM {}", launch.packet.operation, sm));
        }
      }
      std::sort(launched.back().begin(), launched.back().end());
    }
    REQUIRE(launched[0].size() > 0);
    CHECK(launched[0] == launched[1]);
  }
}

TEST_CASE("a choice among uGPUs costs their comparison beside that of each one's GPCs", "[cwd][CWD-13][CWD-46]") {
  for (const std::uint32_t ugpus : {1U, 2U, 4U}) {
    CAPTURE(ugpus);
    CwdParams params = costly();
    params.ugpu_distance = 13;
    CwdBench bench(equal_gpcs(8, 16), params, capacity(1), TimingMode::at, 0,
                   std::vector<std::uint32_t>(ugpus, 8 / ugpus));
    TaskPacket task = clusters(0, 16, 16);
    task.cluster.of(CgaLevel::ugpu) = {16, 1, 1};
    bench.tasks.submit(0, task);
    run(bench);
    // uGPUs ask their GPCs in parallel, in two passes with the reset between them; then they are compared.
    const Cycle way = 11 + (ugpus > 1 ? 13 : 0);
    const Cycle query = way + 7 + way + 3 * doublings(8 / ugpus);
    CHECK(bench.stat("gpu2gpc.query_steps") == 2);
    CHECK(bench.stat("session_cycles.max") ==
          stat_of(copy_of(128) + 1000 + query + 7 + query + 3 * doublings(ugpus) + way + 100));
    // CTAs without GPC_CGAs: every uGPU fills its SMs, one step of the scan that takes all of them.
    CwdBench wide(equal_gpcs(8, 16), params, capacity(1), TimingMode::at, 0,
                  std::vector<std::uint32_t>(ugpus, 8 / ugpus));
    TaskPacket whole = grid(0, 128 / ugpus);
    whole.cluster.of(CgaLevel::ugpu) = {128 / ugpus, 1, 1};
    wide.tasks.submit(0, whole);
    run(wide);
    CHECK(wide.stat("session_cycles.max") ==
          stat_of(copy_of(128) + 1000 + 7 + 3 * doublings(ugpus) + 2 * (ugpus > 1 ? 13 : 0) + 100));
  }
}

namespace {

// A grouping of every kind that the distributor places, and one of its CTAs.
heddle::arch::ClusterShape random_grouping(Random& random, std::uint32_t ugpus) {
  heddle::arch::ClusterShape shape;
  shape.mode = random.chance(50) ? CgaMode::multicast : CgaMode::load_balancing;
  std::uint32_t ctas = random.between(1, 4);
  const bool gpc_cgas = random.chance(80);
  if (gpc_cgas) {
    if (random.chance(30)) {
      shape.of(CgaLevel::cpc) = {ctas, 1, 1};
      ctas *= random.between(1, 3);
    }
    shape.of(CgaLevel::gpc) = {ctas, 1, 1};
  }
  if (ugpus > 1 && random.chance(40)) shape.of(CgaLevel::ugpu) = {ctas *= random.between(1, 3), 1, 1};
  // Without GPC_CGAs a CGA is of one level (CWD-10).
  if (gpc_cgas ? random.chance(40) : !shape.has(CgaLevel::ugpu)) {
    shape.of(CgaLevel::gpu) = {ctas *= random.between(2, 4), 1, 1};
  }
  return shape;
}

// Masks by GPC, in their order.
using Masks = std::map<std::uint32_t, std::vector<std::uint64_t>>;

}  // namespace

TEST_CASE("random sessions over the links place as the session in zero time",
          "[cwd][CWD-09][CWD-13][CWD-18][CWD-19][CWD-23][CWD-46]") {
  std::map<std::string, std::uint64_t> seen;
  for (const std::uint64_t seed : seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    CwdParams params = costly();
    params.session_pipeline = random.below(20);
    params.query_distance = random.below(4);
    params.ugpu_distance = random.below(9);
    params.mask_cycles = random.below(9);
    params.compare_step = random.below(3);
    params.sessions = random.between(1, 3);
    params.active_pool = params.pending_pool = 0;
    const Shape shape = random.shape(5);
    std::vector<std::uint32_t> ugpus;
    const auto gpcs = static_cast<std::uint32_t>(shape.gpcs.size());
    if (gpcs > 1 && random.chance(60)) ugpus = {1, gpcs - 1};
    TaskPacket task = grid(0, 1);
    task.cluster = random_grouping(random, ugpus.empty() ? 1 : 2);
    const auto ctas = static_cast<std::uint32_t>(task.cluster.of(task.cluster.outermost()).count());
    task.grid = {ctas * 60, 1, 1};
    params.session_limit = random.chance(30) ? 4096 : ctas * random.between(1, 5);
    const std::uint32_t slots = random.between(1, 4);
    CwdBench bench(shape, params, capacity(slots), TimingMode::at, 0, ugpus, {4096, 4096});
    std::vector<std::uint16_t> free(bench.topology.sms(), static_cast<std::uint16_t>(slots));
    for (std::uint32_t sm = 0; sm < free.size(); ++sm) {
      for (std::uint32_t n = random.below(slots + 1); n > 0; --n) {
        bench.cwd.preload(sm, kOne, 0);
        --free[sm];
      }
    }

    const heddle::cwd::Policies policies(params);
    std::vector<std::uint32_t> sm_order(bench.topology.sms());
    std::iota(sm_order.begin(), sm_order.end(), 0U);
    std::vector<std::uint32_t> gpc_order(bench.topology.gpcs());
    std::iota(gpc_order.begin(), gpc_order.end(), 0U);
    const std::uint32_t barriers = heddle::cwd::wide_barriers(task.cluster, 0);
    const std::uint64_t units = barriers == 0 ? 60 : std::min<std::uint64_t>(60, params.gpu_cga_barriers / barriers);
    const bool wide = heddle::cwd::is_domain_wide(task.cluster);
    Masks wanted;
    std::vector<std::string> order;  // of GPC_CGAs
    std::uint64_t placed_ctas = 0;
    if (wide) {
      heddle::cwd::DomainWideFill fill(bench.topology, slots, params.level_search, sm_order, *policies.domain);
      for (const auto& cga : fill.place(free, ctas, units, task.cluster.outermost())) {
        for (const auto& level : cga.placement.levels) {
          for (std::uint32_t g = 0; g < gpcs; ++g) {
            if (level.mask[g] != 0) wanted[g].push_back(level.mask[g]);
          }
        }
        placed_ctas += ctas;
      }
    } else {
      heddle::cwd::ClusterPlacer placer(bench.topology, policies, sm_order, gpc_order);
      const std::vector<std::uint32_t> limits(gpcs, 4096);
      for (const auto& placed : placer.place(free, heddle::cwd::gpc_cga_shape_for(task.cluster, 0), task.cluster.mode,
                                             limits, heddle::cwd::request_for(task.cluster, 0, units))) {
        for (const std::uint64_t mask : placed.masks) {
          wanted[placed.home.gpc].push_back(mask);
          order.push_back(fmt::format("{}: {:x}", placed.home.gpc, mask));
        }
        placed_ctas += task.cluster.of(CgaLevel::gpc).count();
      }
    }

    bench.tasks.submit(0, task);
    bench.all_gpcs([](auto& gpc) { gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{10'000'000}; }; });
    sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_MS));
    CAPTURE(ctas, slots, ugpus, wide, params.session_limit, params.sessions);
    Masks got;
    std::vector<std::string> got_order;
    for (const LoggedLaunch& launch : bench.launches_in_order()) {
      std::vector<std::uint64_t> masks{launch.packet.sm_mask};
      for (const std::uint64_t mask : launch.packet.further_masks) {
        if (mask != 0) masks.push_back(mask);
      }
      for (const std::uint64_t mask : masks) {
        got[launch.gpc].push_back(mask);
        got_order.push_back(fmt::format("{}: {:x}", launch.gpc, mask));
      }
    }
    REQUIRE(got == wanted);
    if (!wide) REQUIRE(got_order == order);
    REQUIRE(bench.stat("ctas_launched") == stat_of(placed_ctas));
    if (placed_ctas == 0) continue;
    ++seen[wide ? "wide" : "gpc"];
    if (task.cluster.has(CgaLevel::cpc)) ++seen["cpc"];
    if (!ugpus.empty() && task.cluster.has(CgaLevel::ugpu)) ++seen[wide ? "wide ugpu" : "ugpu"];
    if (task.cluster.has(CgaLevel::ugpu) && task.cluster.has(CgaLevel::gpu)) ++seen["nested"];
    if (bench.stat("sessions") > 2) ++seen["cut"];
  }
  for (const char* kind : {"wide", "gpc", "cpc", "wide ugpu", "ugpu", "nested", "cut"}) {
    CAPTURE(kind, seen[kind]);
    CHECK(seen[kind] >= 10);
  }
}

TEST_CASE("a machine of 64 GPCs of 64 SMs runs grids of every kind", "[cwd][CWD-28]") {
  CwdBench bench(equal_gpcs(64, 64), CwdParams{}, capacity(2));
  bench.tasks.submit(0, grid(0, 10'000));
  bench.tasks.submit(0, clusters(1, 4096, 16));
  bench.tasks.submit(0, gpu_cga(2, 64, 16));
  TaskPacket wide = grid(3, 5000);
  wide.cluster.of(CgaLevel::gpu) = {5000, 1, 1};
  bench.tasks.submit(0, wide);
  run(bench, 300);
  CHECK(bench.stat("ctas_launched") == 10'000 + 4096 + 1024 + 5000);
}

TEST_CASE("levels of trees, and queues with a rate", "[cwd][CWD-05][CWD-28]") {
  for (std::uint32_t n = 1; n < 5000; ++n) REQUIRE(heddle::cwd::tree_levels(n) == doublings(n));
  heddle::cwd::RateQueue slow(0.5);
  CHECK(slow.add(10) == 11);  // it takes cycles 10 and 11
  CHECK(slow.add(10) == 13);
  CHECK(slow.add(100) == 101);
  for (const std::uint32_t rate : {1U, 3U, 7U, 11U, 64U}) {
    CAPTURE(rate);
    heddle::cwd::RateQueue queue(rate);
    CHECK(queue.add(5, rate) == 5);      // as many as a cycle takes
    CHECK(queue.add(5, 1) == 6);         // and one more
    CHECK(queue.add(5, rate - 1) == 6);  // a second cycle's
  }
}

}  // namespace cwd_session_cost_test
