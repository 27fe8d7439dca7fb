// Sessions of grids of CGAs, seen from outside: what is launched when, what waits and why.
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd.h"
#include "cwd/cwd_bench.h"

namespace cwd_cluster_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::Dim3;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::protocol::TaskPacket;

namespace {

CwdParams plain() {
  CwdParams params;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 100;
  return params;
}

// `ctas` CTAs in GPC_CGAs of `size`.
TaskPacket clusters(std::uint32_t operation, std::uint32_t ctas, std::uint32_t size) {
  TaskPacket task = CwdBench::task(operation, ctas, kOne);
  task.cluster.of(CgaLevel::gpc) = {size, 1, 1};
  return task;
}

void run_for(CwdBench& bench, Cycle cycles) {
  bench.all_gpcs([cycles](auto& gpc) { gpc.duration = [cycles](std::uint32_t, std::uint64_t) { return cycles; }; });
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

}  // namespace

TEST_CASE("GPCs that tie receive a CGA each in the same step, in priority order", "[cwd][CWD-13][CWD-30][CWD-31]") {
  CwdParams params = plain();
  params.gpc_priority.order = heddle::cwd::UnitOrder::Order::descending;
  CwdBench bench(Shape::from_sms_per_gpc({4, 4, 4}), params, capacity(1));
  bench.tasks.submit(0, clusters(0, 8, 4));
  run_for(bench, 50);
  REQUIRE(bench.log.launches.size() == 2);
  CHECK(bench.log.launches[0].gpc == 2);
  CHECK(bench.log.launches[1].gpc == 1);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& packet = bench.log.launches[i].packet;
    CHECK(packet.sm_mask == 0xF);
    CHECK(packet.num_ctas == 4);
    CHECK(packet.sequence == i);
    CHECK(packet.last);
    CHECK(packet.cga_first);
    CHECK(packet.cga_ctas == 4);
    CHECK(bench.log.launches[i].position == 4 * i);
    CHECK(packet.virtual_gpc == bench.topology.virtual_gpc(bench.log.launches[i].gpc));
  }
  CHECK(bench.stat("gpu2gpc.query_steps") == 1);
}

TEST_CASE("several CTAs of a CGA on one SM take further masks, then further packets", "[cwd][CWD-15][CWD-31]") {
  CwdParams params = plain();
  params.masks_per_packet = 2;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(8));
  TaskPacket task = clusters(0, 10, 10);
  task.cluster.mode = CgaMode::load_balancing;
  bench.tasks.submit(0, task);
  run_for(bench, 50);
  REQUIRE(bench.log.launches.size() == 3);
  std::uint64_t raster = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& packet = bench.log.launches[i].packet;
    CHECK(bench.log.launches[i].position == raster);
    CHECK(packet.sm_mask == 3);
    CHECK(packet.further_masks[0] == (i < 2 ? 3 : 0));
    CHECK(packet.cga_first == (i == 0));
    CHECK(packet.last == (i == 2));
    CHECK(packet.sequence == 0);
    raster += packet.num_ctas;
  }
  CHECK(raster == 10);
}

TEST_CASE("a GPU_CGA of GPC_CGAs starts as a whole or not at all", "[cwd][CWD-11][CWD-18][CWD-19][CWD-21]") {
  CwdBench bench(Shape::from_sms_per_gpc({4, 4}), plain(), capacity(1));
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t operation, std::uint64_t) { return operation == 0 ? Cycle{5000} : Cycle{50}; };
  });
  bench.tasks.submit(0, CwdBench::task(0, 1, kOne));  // takes an SM of one GPC for a long time
  TaskPacket task = clusters(1, 8, 4);
  task.cluster.of(CgaLevel::gpu) = {8, 1, 1};
  bench.tasks.submit(100, task);
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  CHECK(bench.cwd.quiescent());
  const std::vector<Cycle> cycles = arrivals(bench, 1);
  REQUIRE(cycles.size() == 2);
  CHECK(cycles[0] > 5000);  // not one of its GPC_CGAs went to the GPC that had room
  CHECK(bench.stat("wait.free_slots") > 4000);
  CHECK(bench.log.launches[1].packet.sequence == bench.log.launches[2].packet.sequence);
  CHECK_FALSE(bench.log.launches[1].packet.last);
  CHECK(bench.log.launches[2].packet.last);
}

TEST_CASE("a GPU_CGA of CTAs, and a uGPU_CGA within one uGPU", "[cwd][CWD-09][CWD-10]") {
  const bool ugpu = GENERATE(false, true);
  CwdBench bench(Shape::from_sms_per_gpc({2, 2, 2, 2}), plain(), capacity(2), TimingMode::at, 0, {2, 2});
  TaskPacket task = CwdBench::task(0, 14, kOne);
  task.cluster.of(ugpu ? CgaLevel::ugpu : CgaLevel::gpu) = {7, 1, 1};
  bench.tasks.submit(0, task);
  run_for(bench, 50);
  std::vector<std::set<std::uint32_t>> ugpus(2);
  for (const LoggedLaunch& launch : bench.log.launches) {
    CHECK(launch.packet.cga_ctas == 0);
    ugpus.at(launch.packet.sequence).insert(bench.topology.ugpu_of(launch.gpc));
  }
  CHECK(ugpus[0].size() == (ugpu ? 1 : 2));
  CHECK(bench.stat("cgas_launched") == 2);
}

TEST_CASE("a CGA that finds no home is split into the fallback size", "[cwd][CWD-21]") {
  CwdParams params = plain();
  CwdBench bench(Shape::from_sms_per_gpc({4, 4}), params, capacity(1));
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t operation, std::uint64_t) { return operation == 0 ? Cycle{5000} : Cycle{50}; };
  });
  bench.tasks.submit(0, CwdBench::task(0, 2, kOne));
  TaskPacket task = clusters(1, 8, 4);
  task.cluster.fallback[0] = {2, 1, 1};
  bench.tasks.submit(100, task);
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  CHECK(bench.cwd.quiescent());
  const std::vector<Cycle> cycles = arrivals(bench, 1);
  REQUIRE(!cycles.empty());
  CHECK(cycles.front() < 1000);
  std::uint32_t ctas = 0;
  bool smaller = false;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation != 1) continue;
    CHECK(launch.packet.num_ctas == launch.packet.cga_ctas);
    smaller = smaller || launch.packet.cga_ctas == 2;
    ctas += launch.packet.num_ctas;
  }
  CHECK(smaller);
  CHECK(ctas == 8);
}

TEST_CASE("a session places at most its limit", "[cwd][CWD-23]") {
  CwdParams params = plain();
  params.session_limit = 8;
  CwdBench bench(Shape::from_sms_per_gpc({8, 8}), params, capacity(4));
  bench.tasks.submit(0, clusters(0, 32, 4));
  run_for(bench, 5000);
  CHECK(bench.stat("sessions") == 4);
}

TEST_CASE("CGA ids come back with cga_complete, and until then the grid waits for them", "[cwd][CWD-19][CWD-20]") {
  const bool few_ids = GENERATE(false, true);
  CwdBench bench(Shape::from_sms_per_gpc({4}), plain(), capacity(1), TimingMode::at, 0, {}, {few_ids ? 1U : 8U, 8});
  bench.all_gpcs([](auto& gpc) { gpc.flush = [](std::uint32_t, std::uint64_t) { return Cycle{3000}; }; });
  bench.tasks.submit(0, clusters(0, 8, 2));
  run_for(bench, 10);
  const std::vector<Cycle> cycles = arrivals(bench, 0);
  REQUIRE(cycles.size() == 4);
  // An SM is free at once; the GPC holds two CGAs of the grid at a time, or as many as there are ids.
  CHECK(cycles[few_ids ? 1 : 2] > 3000);
  CHECK((bench.stat("wait.cga_ids") > 2000) == few_ids);
  CHECK((bench.stat("wait.flush") > 2000) == !few_ids);
  CHECK(bench.stat("cgas_completed") == 4);
}

TEST_CASE("CGAs wait for memory slots and barriers under their own reasons", "[cwd][CWD-19][CWD-22]") {
  CwdParams params = plain();
  params.memory_slots = 1;
  params.gpu_cga_barriers = 1;
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(2));
  TaskPacket task = clusters(0, 4, 2);
  const bool memory = GENERATE(true, false);
  if (memory) {
    task.cluster.linear_memory = true;
  } else {
    task.cluster.of(CgaLevel::gpc) = heddle::arch::kNoExtents;
    task.cluster.of(CgaLevel::gpu) = {2, 1, 1};
  }
  bench.tasks.submit(0, task);
  run_for(bench, 1000);
  CHECK((bench.stat("wait.memory_slot") > 900) == memory);
  CHECK((bench.stat("wait.gpu_barrier") > 900) == !memory);
  for (const LoggedLaunch& launch : bench.log.launches) {
    CHECK(launch.packet.memory_slot.value_or(heddle::protocol::CgaMemorySlot(99)) == (memory ? 0 : 99));
  }
  CHECK(bench.stat("memory_slots_freed") == (memory ? 2 : 0));
}

TEST_CASE("a smaller CGA passes a waiting larger one, until that has waited for too long", "[cwd][CWD-26]") {
  CwdParams params = plain();
  params.age_limit = GENERATE(0, 100'000);
  CwdBench bench(Shape::from_sms_per_gpc({4}), params, capacity(1));
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t operation, std::uint64_t) { return operation == 0 ? Cycle{3000} : Cycle{100}; };
  });
  bench.tasks.submit(0, CwdBench::task(0, 1, kOne));
  bench.tasks.submit(100, clusters(1, 4, 4));
  bench.tasks.submit(200, clusters(2, 2, 2));
  run_until_idle();
  CHECK(bench.cwd.quiescent());
  const bool passes = params.age_limit > 0;
  CHECK((arrivals(bench, 2).front() < arrivals(bench, 1).front()) == passes);
  CHECK((bench.stat("wait.behind") > 1000) == !passes);
}

// CTAs of the less urgent task end one by one, so that four SMs of a GPC are never free by themselves.
TEST_CASE("less urgent CTAs leave alone the SMs on which a more urgent CGA will have room, and no others",
          "[cwd][CWD-26][TSK-16]") {
  for (const std::uint32_t urgent : {1U, 2U}) {
    CAPTURE(urgent);
    CwdBench bench(Shape::from_sms_per_gpc({4, 4}), plain(), capacity(1));
    bench.all_gpcs([](auto& gpc) {
      gpc.duration = [](std::uint32_t operation, std::uint64_t cta) {
        return operation == 0 ? Cycle{1000 + 230 * (cta % 4)} : Cycle{500};
      };
    });
    bench.tasks.submit(0, CwdBench::task(0, 400, kOne));
    TaskPacket task = clusters(1, 4 * urgent, 4);
    task.priority = 1;
    bench.tasks.submit(3000, task);
    run_until_idle();
    REQUIRE(bench.log.problems == std::vector<std::string>{});
    CHECK(bench.cwd.quiescent());
    // The longest CTA, and the ways.
    const std::vector<Cycle> starts = arrivals(bench, 1);
    REQUIRE(starts.size() == urgent);
    for (const Cycle start : starts) CHECK(start < 3000 + 1690 + 1000);
    std::uint32_t meanwhile = 0;
    for (const LoggedLaunch& launch : bench.log.launches) {
      const bool between = launch.cycle > 3500 && launch.cycle < starts.front();
      if (launch.packet.operation == 0 && between) meanwhile += launch.packet.num_ctas;
    }
    CHECK((meanwhile > 0) == (urgent == 1));
    CHECK(bench.stat("wait.claimed") > 100);
  }
}

TEST_CASE("a more urgent CGA asks for room where the fewest CTAs have to go, and nowhere else", "[cwd][TSK-16]") {
  CwdParams params = plain();
  params.preemption = heddle::cwd::PreemptionMode::instruction;
  CwdBench bench(Shape::from_sms_per_gpc({4, 4, 4}), params, capacity(1));
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t operation, std::uint64_t) {
      return Cycle{operation == 0 ? 200'000U : operation == 1 ? 90'000U : 3000U};
    };
  });
  // As urgent ones hold all of two GPCs but one SM each, less urgent ones the rest.
  TaskPacket firm = clusters(0, 6, 3);
  firm.priority = 3;
  bench.tasks.submit(0, firm);
  bench.tasks.submit(500, CwdBench::task(1, 6, kOne));
  TaskPacket task = clusters(2, 4, 4);
  task.priority = 3;
  bench.tasks.submit(1000, task);
  run_until_idle();
  std::set<std::uint32_t> gpcs;
  std::uint64_t sms = 0;
  for (const auto& [gpc, preemption] : bench.log.preemptions) {
    gpcs.insert(gpc);
    sms |= preemption.sms;
    CHECK(preemption.kind == heddle::protocol::Preemption::Kind::room);
    CHECK(preemption.priority == 3);
    CHECK(preemption.ctas == 1);
  }
  REQUIRE(gpcs.size() == 1);  // the third, where all four are less urgent
  CHECK(sms == 0xF);
  bool firm_there = false;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == 0 && launch.gpc == *gpcs.begin()) firm_there = true;
  }
  CHECK_FALSE(firm_there);
}

TEST_CASE("what can never fit is rejected, and nothing of it starts", "[cwd][CWD-25]") {
  CwdBench bench(Shape::from_sms_per_gpc({4, 6}), plain(), capacity(1));
  bench.tasks.submit(0, clusters(0, 14, 7));
  bench.tasks.submit(0, clusters(1, 6, 6));
  run_for(bench, 10);
  CHECK(bench.log.done.at(0).rejected);
  CHECK_FALSE(bench.log.done.at(1).rejected);
  CHECK(bench.log.launches.size() == 1);
  CHECK(bench.stat("rejected") == 1);
}

TEST_CASE("credits bound the TPCs that a subcontext holds, and blocks follow the launch", "[cwd][CWD-19][CWD-32]") {
  CwdParams params = plain();
  params.partition = heddle::protocol::PartitionMode::dynamic;
  params.tpc_credits = 2;
  params.local_memory_blocks = 3;
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(2));
  TaskPacket task = CwdBench::task(0, 12, kOne);
  task.local_bytes = 64;
  task.subcontext = 5;
  bench.tasks.submit(0, task);
  run_for(bench, 1000);
  std::set<std::uint32_t> first_tpcs;
  for (std::size_t i = 0; i < bench.log.launches.size(); ++i) {
    for (const std::uint32_t sm : bench.sms_of(bench.log.launches[i])) first_tpcs.insert(bench.topology.sm(sm).tpc);
  }
  CHECK(first_tpcs.size() == 2);
  CHECK(bench.stat("wait.credits") > 900);
  REQUIRE(bench.log.blocks.size() == 4);  // two TPCs, held twice: all CTAs of the first round end together
  CHECK(bench.stat("credit_moves") == 2 * 4);
  for (const LoggedBlock& block : bench.log.blocks) {
    CHECK(block.packet.subcontext == 5);
    CHECK(block.packet.block < 3);
    CHECK(first_tpcs.count(block.packet.tpc) == 1);
  }
}

TEST_CASE("a block of local memory goes to all GPCs, or to the one that needs it", "[cwd][CWD-32]") {
  double link_bits[2] = {};
  for (const bool broadcast : {true, false}) {
    CAPTURE(broadcast);
    CwdParams params = plain();
    params.partition = heddle::protocol::PartitionMode::dynamic;
    params.local_memory_blocks = 3;
    params.local_memory_broadcast = broadcast;
    CwdBench bench(Shape::from_sms_per_gpc({2, 2, 2}), params, capacity(1));
    TaskPacket task = CwdBench::task(0, 6, kOne);
    task.local_bytes = 64;
    bench.tasks.submit(0, task);
    run_for(bench, 1000);
    CHECK(bench.stat("local_blocks") == 3);  // a TPC of each GPC
    CHECK(bench.log.blocks.size() == 3);     // for the GPC that hears it
    CHECK(bench.log.heard_blocks == (broadcast ? 9 : 3));
    link_bits[broadcast ? 1 : 0] = bench.stat("link_bits");
  }
  // Three blocks, to two more GPCs each: one of 3 GPCs (2 bits), its one TPC (none), one of 64 subcontexts (6), one of
  // 3 blocks (2).
  CHECK(link_bits[1] - link_bits[0] == 3 * 2 * (2 + 0 + 6 + 2));
}

TEST_CASE("a TPC that is enabled late is told where the grid stands", "[cwd][CWD-42]") {
  CwdBench bench(Shape::from_sms_per_gpc({4}), plain(), capacity(1));
  bench.tasks.control(0, switched(0, 1, false));
  bench.tasks.submit(10, CwdBench::task(0, 8, kOne));
  bench.tasks.control(500, switched(0, 1, true));
  run_for(bench, 1000);
  std::uint32_t late = 0;
  std::uint32_t placed = 0;
  for (const LoggedLaunch& launch : bench.log.launches) {
    const std::uint32_t position = placed;
    placed += launch.packet.num_ctas;
    if (launch.cycle < 500) CHECK((launch.packet.sm_mask & 0xC) == 0);
    CHECK(launch.packet.listeners == (launch.cycle < 500 ? 0b01 : ~std::uint64_t{0}));
    if (!launch.packet.sync) continue;
    ++late;
    CHECK(launch.packet.sync->tpcs == 0b10);
    CHECK(launch.packet.sync->outermost == heddle::arch::Coord{position, 0, 0});
    CHECK(launch.packet.sync->within == 0);
  }
  CHECK(late == 1);
  CHECK(bench.stat("late_joins") == 1);
}

TEST_CASE("the prior art decides one CTA per step", "[cwd][CWD-08][CWD-33]") {
  CwdParams params = plain();
  params.plain = GENERATE("one_at_a_time", "lake");
  CwdBench bench(Shape::from_sms_per_gpc(std::vector<std::uint32_t>(8, 16)), params, capacity(8));
  bench.tasks.submit(0, CwdBench::task(0, 1024, kOne));
  run_for(bench, 10'000);
  if (params.one_at_a_time()) {
    CHECK(bench.stat("session_cycles.max") > 1000);
    CHECK(bench.stat("launch_packets") == 1024);
  } else {
    CHECK(bench.stat("session_cycles.max") < 30);
    CHECK(bench.stat("session_cycles.max") < 2 * params.gpc_distance);
    CHECK(bench.stat("launch_packets") == 64);
  }
}

TEST_CASE("a central rasteriser sends every CTA on its own, with its id", "[cwd][CWD-34][CWD-43]") {
  CwdParams params = plain();
  params.central_raster = true;
  params.raster_cycles = 3;
  CwdBench bench(Shape::from_sms_per_gpc({4, 4}), params, capacity(2));
  TaskPacket task = CwdBench::task(0, 12, kOne);
  task.grid = {6, 2, 1};
  task.cluster.of(CgaLevel::gpc) = {3, 1, 1};
  bench.tasks.submit(0, task);
  run_for(bench, 1000);
  REQUIRE(bench.log.launches.size() == 12);
  // They go to the GPCs in turn: two CGAs of three CTAs for each of them.
  for (std::size_t i = 1; i < 12; ++i) CHECK(bench.log.launches[i].gpc != bench.log.launches[i - 1].gpc);
  const std::vector<LoggedLaunch> launches = bench.launches_in_order();
  for (std::size_t i = 0; i < 12; ++i) {
    const auto& packet = launches[i].packet;
    REQUIRE(packet.id.has_value());
    CHECK(packet.num_ctas == 1);
    CHECK(packet.id->rank == i % 3);
    CHECK(packet.id->cga == i / 3);
    CHECK(packet.id->cta ==
          heddle::arch::Coord{static_cast<std::uint32_t>(i % 6), static_cast<std::uint32_t>(i / 6), 0});
  }
  CHECK(bench.log.launches.back().cycle - bench.log.launches.front().cycle >= 11 * 3);
  CHECK(bench.stat("id_busy_cycles") == 12 * 3);
  CHECK(bench.stat("port_busy_cycles") == 0);  // its bits take no time
}

TEST_CASE("sessions take the cycles of their queries", "[cwd][CWD-33][CWD-34]") {
  CwdParams params = plain();
  params.query_distance = 5;
  params.session_step = 4;
  params.mask_cycles = 7;
  CwdBench bench(Shape::from_sms_per_gpc({4, 4}), params, capacity(1));
  bench.tasks.submit(0, clusters(0, 4, 4));
  run_for(bench, 50);
  // Start, query and answer with one step, command, one mask.
  CHECK(bench.stat("session_cycles.max") == 10 + 5 + 4 + 5 + 5 + 7);
  CHECK(bench.stat("gpc2sm0.mask_busy_cycles") + bench.stat("gpc2sm1.mask_busy_cycles") == 7);
  CHECK(bench.stat("session_cycles.max") < 2 * params.gpc_distance);
}

TEST_CASE("what lies within a uGPU is asked for through its distributor, at a distance of its own", "[cwd][CWD-46]") {
  // From the first launch of a grid to the first with the distributors of the uGPUs 7 cycles away.
  const auto later_by = [](const std::vector<std::uint32_t>& ugpus, CgaLevel level, std::uint32_t gpc_cga) {
    std::vector<Cycle> first;
    std::vector<double> steps;
    for (const std::uint32_t distance : {0U, 7U}) {
      CwdParams params = plain();
      params.ugpu_distance = distance;
      CwdBench bench(Shape::from_sms_per_gpc({2, 2, 2, 2}), params, capacity(2), TimingMode::at, 0, ugpus);
      TaskPacket task = CwdBench::task(0, 4, kOne);
      task.cluster.of(level) = {4, 1, 1};
      if (gpc_cga > 0) task.cluster.of(CgaLevel::gpc) = {gpc_cga, 1, 1};
      bench.tasks.submit(0, task);
      run_for(bench, 50);
      first.push_back(arrivals(bench, 0).front());
      steps.push_back(bench.stat("session_steps"));
    }
    CHECK(steps[0] == steps[1]);
    return std::pair(first[1] - first[0], static_cast<Cycle>(steps[0]));
  };
  // CTAs over a uGPU: there and back, once.
  CHECK(later_by({2, 2}, CgaLevel::ugpu, 0).first == 14);
  // GPC_CGAs in a uGPU: there and back for every query, and there once more for the order to make masks.
  const auto [later, queries] = later_by({2, 2}, CgaLevel::ugpu, 2);
  CHECK(queries >= 1);
  CHECK(later == 14 * queries + 7);
  // Nobody else pays: not CGAs of the whole GPU, and not a machine whose one uGPU is the GPU.
  CHECK(later_by({2, 2}, CgaLevel::gpu, 0).first == 0);
  CHECK(later_by({2, 2}, CgaLevel::gpu, 2).first == 0);
  CHECK(later_by({}, CgaLevel::ugpu, 0).first == 0);
  CHECK(later_by({}, CgaLevel::ugpu, 2).first == 0);
}

}  // namespace cwd_cluster_test
