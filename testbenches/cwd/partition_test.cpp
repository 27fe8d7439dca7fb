// Subcontexts that share the machine, over the distributor's sockets: what is launched where, what waits and why.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd.h"
#include "cwd/cwd_bench.h"

namespace cwd_partition_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::protocol::PartitionMode;
using heddle::protocol::ShareRefusal;
using heddle::protocol::SubcontextPacket;
using heddle::protocol::TaskPacket;
using What = SubcontextPacket::What;

namespace {

CwdParams plain(PartitionMode mode, std::uint32_t credits = 0) {
  CwdParams params;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 100;
  params.partition = mode;
  params.tpc_credits = credits;
  return params;
}

TaskPacket grid(std::uint32_t operation, std::uint32_t ctas, std::uint8_t subcontext) {
  TaskPacket task = CwdBench::task(operation, ctas, kOne);
  task.subcontext = subcontext;
  return task;
}

TaskPacket clusters(std::uint32_t operation, std::uint32_t ctas, std::uint32_t size, std::uint8_t subcontext) {
  TaskPacket task = grid(operation, ctas, subcontext);
  task.cluster.of(CgaLevel::gpc) = {size, 1, 1};
  return task;
}

SubcontextPacket change(What what, std::uint8_t subcontext, std::uint64_t value, std::uint32_t gpc = 0,
                        std::uint32_t tpc = 0) {
  SubcontextPacket packet;
  packet.what = what;
  packet.subcontext = subcontext;
  packet.value = value;
  packet.gpc = heddle::protocol::GpcId(gpc);
  packet.tpc = heddle::protocol::TpcInGpc(tpc);
  return packet;
}

SubcontextPacket to(PartitionMode mode) {
  SubcontextPacket packet;
  packet.what = What::mode;
  packet.mode = mode;
  return packet;
}

// By operation.
void durations(CwdBench& bench, const std::vector<Cycle>& cycles) {
  bench.all_gpcs([cycles](auto& gpc) {
    gpc.duration = [cycles](std::uint32_t operation, std::uint64_t) { return cycles.at(operation); };
  });
}

void finish(CwdBench& bench, std::size_t tasks) {
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.log.done.size() == tasks);
  REQUIRE(bench.cwd.quiescent());
}

// TPCs, counted GPC by GPC, that received CTAs of the operation in packets that arrived in [first, last).
std::set<std::uint32_t> tpcs_of(const CwdBench& bench, std::uint32_t operation, Cycle first = 0,
                                Cycle last = ~Cycle{0}) {
  std::set<std::uint32_t> tpcs;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation != operation || launch.cycle < first || launch.cycle >= last) continue;
    std::uint32_t first_tpc = 0;
    for (std::uint32_t g = 0; g < launch.gpc; ++g) {
      first_tpc += static_cast<std::uint32_t>(bench.topology.gpc(g).tpcs.size());
    }
    for (const std::uint32_t sm : bench.sms_of(launch)) tpcs.insert(first_tpc + bench.topology.sm(sm).tpc);
  }
  return tpcs;
}

Cycle first_arrival(const CwdBench& bench, std::uint32_t operation) {
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == operation) return launch.cycle;
  }
  return 0;
}

}  // namespace

TEST_CASE("a task without credits stalls, and the next one is considered", "[cwd][PRT-02]") {
  CwdParams params = plain(PartitionMode::dynamic, 2);
  params.backfill = false;
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(2));
  durations(bench, {5000, 300, 300});
  bench.tasks.submit(0, grid(0, 20, 1));  // two TPCs hold 8 of its CTAs
  bench.tasks.submit(50, grid(1, 4, 2));  // behind it in the table
  bench.tasks.submit(60, grid(2, 4, 1));  // of the same subcontext: it stalls as well
  finish(bench, 3);
  CHECK(tpcs_of(bench, 0, 0, 1000).size() == 2);
  CHECK(first_arrival(bench, 1) < 1000);
  CHECK(first_arrival(bench, 2) > 5000);
  CHECK(bench.log.most_tpcs == 2);
  CHECK(bench.waited("credits") > 9000);
  CHECK(bench.stat("subcontext1.wait.credits") > 9000);
  CHECK(bench.stat("subcontext1.ctas_completed") == 24);
  CHECK(bench.stat("subcontext2.ctas_launched") == 4);
  CHECK(bench.stat("subcontext1.tpcs_held.max") == 2);
  CHECK(bench.stat("subcontext1.tpc_cycles") > 2 * 10'000);
}

TEST_CASE("who has no credit and waits for ever shows, and counts as treated unfairly", "[cwd][PRT-09]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::dynamic, 2), capacity(1));
  durations(bench, {4000, 4000, 100});
  bench.tasks.share(0, change(What::credits, 3, 0));
  bench.tasks.submit(1000, grid(0, 12, 1));  // three waves on two TPCs
  bench.tasks.submit(1000, grid(1, 12, 2));  // on the other two
  bench.tasks.submit(1000, grid(2, 1, 3));
  run_until_idle();
  REQUIRE(bench.log.done.size() == 2);
  CHECK(bench.stat("subcontext3.tasks_waiting") == 1);
  CHECK(bench.stat("subcontext1.tasks_waiting") == 0);
  CHECK(bench.stat("subcontext3.wait.credits") > 12'000);
  CHECK(bench.stat("subcontext3.progress") == 0);
  CHECK(bench.stat("subcontext3.contested_cycles") > 12'000);
  // Two of three have all that they were promised, but for the way of a launch between two waves.
  CHECK(bench.stat("subcontext1.progress") > 0.9);
  CHECK(bench.stat("subcontext_fairness") == Approx(2.0 / 3).epsilon(0.01));
  // 12 CTAs of an SM each, for 4000 cycles and the way there and back.
  CHECK(bench.stat("subcontext1.sm_cycles") > 12 * 4000);
  CHECK(bench.stat("subcontext1.sm_cycles") < 12 * 4600);
}

TEST_CASE("a small task that waits behind a full machine makes progress for the part of its time in which it runs",
          "[cwd][PRT-09]") {
  CwdParams params = plain(PartitionMode::none);
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(1));
  durations(bench, {9000, 1000});
  bench.tasks.submit(0, grid(0, 15, 1));    // all SMs, and then all but one
  bench.tasks.submit(3000, grid(1, 1, 2));  // waits for 6000 cycles or more, and then runs for 1000
  finish(bench, 2);
  const double waited = bench.stat("subcontext2.wait.behind");
  CHECK(bench.stat("subcontext2.busy_cycles") == Approx(waited + 1000).margin(500));
  CHECK(bench.stat("subcontext2.contested_cycles") == bench.stat("subcontext2.busy_cycles"));
  CHECK(bench.stat("subcontext2.progress") == Approx(1000 / (waited + 1000)).margin(0.03));
  CHECK(bench.stat("subcontext1.progress") == Approx(1).margin(0.03));  // half of the machine would do
  const double p = bench.stat("subcontext2.progress");
  CHECK(p < 0.2);
  CHECK(bench.stat("subcontext_fairness") < 0.75);
  CHECK(bench.stat("subcontext1.tpc_cycles") > 2 * 4 * 9000);
  // A cycle of the bench is a nanosecond.
  CHECK(bench.stat("subcontext1.ctas_per_us") == Approx(15'000 / bench.stat("subcontext1.busy_cycles")));
}

TEST_CASE("who gets nothing until the others are through has made no progress beside them", "[cwd][PRT-09]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::none), capacity(1));
  durations(bench, {5000, 1000});
  bench.tasks.submit(0, grid(0, 16, 1));  // two waves of all SMs
  bench.tasks.submit(1000, grid(1, 1, 2));
  finish(bench, 2);
  CHECK(bench.stat("subcontext2.progress") == 0);
  CHECK(bench.stat("subcontext2.busy_cycles") > bench.stat("subcontext2.contested_cycles") + 1000);
  CHECK(bench.stat("subcontext_fairness") == Approx(0.5).margin(0.01));
}

TEST_CASE("different shares that are kept are fair, and idle ones and small tasks are no complaint", "[cwd][PRT-09]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::dynamic), capacity(1));
  durations(bench, {20'000, 20'000, 5000});
  bench.tasks.share(0, change(What::credits, 1, 3));
  bench.tasks.share(0, change(What::credits, 2, 1));
  bench.tasks.share(0, change(What::credits, 4, 2));  // and no work
  bench.tasks.submit(1000, grid(0, 60, 1));
  bench.tasks.submit(1000, grid(1, 20, 2));
  finish(bench, 2);
  CHECK(bench.stat("subcontext1.tpcs_held.max") == 3);
  CHECK(bench.stat("subcontext2.tpcs_held.max") == 1);
  CHECK(bench.stat("subcontext1.progress") > 0.95);
  CHECK(bench.stat("subcontext2.progress") > 0.95);
  CHECK(bench.stat("subcontext_fairness") > 0.999);
  CHECK(bench.stat("subcontext4.contested_cycles") == 0);
}

TEST_CASE("a task that is refused or aborted wants nothing any more", "[cwd][PRT-09][CWD-25]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::dynamic, 1), capacity(1));
  durations(bench, {5000, 100, 5000});
  bench.tasks.submit(0, grid(0, 4, 1));
  bench.tasks.submit(100, clusters(1, 8, 8, 2));  // eight SMs, where one TPC is allowed
  bench.tasks.submit(200, grid(2, 2, 3));
  run_until_idle();
  REQUIRE(bench.log.done.size() == 3);
  CHECK(bench.stat("subcontext2.tasks_waiting") == 0);
  CHECK(bench.stat("subcontext2.busy_cycles") == 0);
  CHECK(bench.stat("subcontext_fairness") > 0.99);
}

TEST_CASE("tasks that stall for credits take no places of the pools of GPCs", "[cwd][PRT-02][TSK-04]") {
  CwdParams params = plain(PartitionMode::dynamic, 1);
  params.pending_pool = 4;
  params.table_slots = 64;
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(1));
  constexpr std::uint32_t kBusy = 40;
  durations(bench, std::vector<Cycle>(kBusy + 1, 1000));
  for (std::uint32_t i = 0; i < kBusy; ++i) bench.tasks.submit(i, grid(i, 2, 1));  // one TPC, one after another
  bench.tasks.submit(500, grid(kBusy, 2, 2));
  finish(bench, kBusy + 1);
  CHECK(first_arrival(bench, kBusy) < 500 + 200);
  CHECK(bench.stat("subcontext1.wait.credits") > 0);
}

TEST_CASE("without partitioning a task that waits for room holds others back, as before", "[cwd][PRT-02]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::none, 2), capacity(2));
  durations(bench, {5000, 300});
  bench.tasks.submit(0, grid(0, 20, 1));
  bench.tasks.submit(50, grid(1, 4, 2));
  finish(bench, 2);
  CHECK(tpcs_of(bench, 0, 0, 1000).size() == 4);  // credits are not asked for
  CHECK(first_arrival(bench, 1) > 5000);
}

TEST_CASE("several subcontexts hold one TPC, and room on a held TPC costs nothing", "[cwd][PRT-02][PRT-03][PRT-04]") {
  CwdBench bench(Shape::from_sms_per_gpc({4}), plain(PartitionMode::dynamic, 1), capacity(4));
  durations(bench, {2000, 2000, 2000, 2000});
  for (std::uint32_t i = 0; i < 4; ++i) bench.tasks.submit(20 * i, grid(i, 2, static_cast<std::uint8_t>(i % 2)));
  finish(bench, 4);
  CHECK(tpcs_of(bench, 0) == std::set<std::uint32_t>{0});
  CHECK(tpcs_of(bench, 1) == std::set<std::uint32_t>{1});  // less loaded
  CHECK(tpcs_of(bench, 2) == std::set<std::uint32_t>{0});  // its own: no credit is left for another
  CHECK(tpcs_of(bench, 3) == std::set<std::uint32_t>{1});
  for (std::uint32_t i = 0; i < 4; ++i) CHECK(first_arrival(bench, i) < 300);
}

TEST_CASE("credits change while tasks run, and are negative until enough came back", "[cwd][PRT-07]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::dynamic, 1), capacity(1));
  durations(bench, {1000});
  bench.tasks.submit(0, grid(0, 40, 9));
  bench.tasks.share(2500, change(What::credits, 9, 4));
  bench.tasks.share(6600, change(What::credits, 9, 2));
  std::vector<std::int64_t> credits;
  for (const Cycle cycle : {500, 2600, 6700}) {
    run_until(sc_core::sc_time(static_cast<double>(cycle), sc_core::SC_NS));
    credits.push_back(bench.cwd.partition().quota().credits(9));
  }
  CHECK(credits == std::vector<std::int64_t>{0, 0, -2});
  finish(bench, 1);
  CHECK(tpcs_of(bench, 0, 0, 2500).size() == 1);
  CHECK(tpcs_of(bench, 0, 2500, 6600).size() == 4);
  // By the end never more than two at a time: 40 CTAs in waves of 2, 2, 8, 8 …, 4, 4.
  std::map<Cycle, std::size_t> late;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.cycle >= 7000) late[launch.cycle] += bench.sms_of(launch).size();
  }
  REQUIRE_FALSE(late.empty());
  for (const auto& [cycle, ctas] : late) CHECK(ctas <= 4);
  CHECK(bench.cwd.partition().quota().credits(9) == 2);
}

// CTAs that end one by one never leave a TPC empty by themselves.
TEST_CASE("credits that are cut take TPCs back within the longest CTA, and who waits gets them", "[cwd][PRT-07]") {
  constexpr Cycle kLongest = 1200;
  CwdBench bench(Shape::from_sms_per_gpc({8, 8}), plain(PartitionMode::dynamic), capacity(4));
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t operation, std::uint64_t cta) {
      return operation == 0 ? kLongest - 400 + cta * 61 % 401 : Cycle{300};
    };
  });
  bench.tasks.submit(0, grid(0, 1500, 1));
  bench.tasks.submit(3000, grid(1, 48, 2));  // there is no room for it
  const std::uint32_t left = GENERATE(0U, 1U, 3U);
  CAPTURE(left);
  bench.tasks.share(0, change(What::credits, 2, 5));
  bench.tasks.share(6000, change(What::credits, 1, left));
  if (left == 0) bench.tasks.share(15'000, change(What::credits, 1, 8));
  finish(bench, 2);
  CHECK(tpcs_of(bench, 0, 0, 6000).size() == 8);
  CHECK(first_arrival(bench, 1) > 6000);
  const Cycle way = 200;  // of a launch to a GPC, and of what came before the change
  CHECK(first_arrival(bench, 1) <= 6000 + kLongest + 2 * way);
  CHECK(tpcs_of(bench, 0, 6000 + way, 15'000).size() == left);
  CHECK(bench.stat("subcontext1.wait.credits") > 3000);
}

TEST_CASE("a cleared enable bit blocks new launches, and what runs drains", "[cwd][PRT-05][PRT-07]") {
  CwdBench bench(Shape::from_sms_per_gpc({4, 4}), plain(PartitionMode::dynamic), capacity(1));
  durations(bench, {1000, 1000});
  bench.tasks.submit(0, grid(0, 48, 3));
  bench.tasks.submit(10, grid(1, 8, 4));
  for (const std::uint32_t tpc : {0U, 1U}) bench.tasks.share(1500, change(What::enable, 3, 0, 0, tpc));
  bench.tasks.share(5500, change(What::enable, 3, 1, 0, 1));
  finish(bench, 2);
  CHECK(tpcs_of(bench, 0, 0, 1500).size() == 4);
  CHECK(tpcs_of(bench, 0, 1700, 5500) == std::set<std::uint32_t>{2, 3});
  CHECK(tpcs_of(bench, 0, 5700) == std::set<std::uint32_t>{1, 2, 3});
  const std::set<std::uint32_t> other = tpcs_of(bench, 1);  // the masks are a subcontext's own
  CHECK(std::count_if(other.begin(), other.end(), [](std::uint32_t tpc) { return tpc < 2; }) == 2);
  CHECK(bench.waited("tpc_mask") > 0);
}

TEST_CASE("static mode keeps processes apart, whatever the others do", "[cwd][PRT-05][PRT-07]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::static_), capacity(2));
  durations(bench, {1000, 1000, 1000});
  for (std::uint32_t tpc = 0; tpc < 4; ++tpc) {
    bench.tasks.share(0, change(What::enable, static_cast<std::uint8_t>(tpc == 0 ? 1 : 2), 1, 0, tpc));
  }
  std::vector<ShareRefusal> refusals;
  bench.cwd.on_share_refused([&](const SubcontextPacket&, ShareRefusal why) { refusals.push_back(why); });
  bench.tasks.share(1, change(What::enable, 1, 1, 0, 3));  // it belongs to the other
  bench.tasks.submit(10, grid(0, 40, 1));                  // ten waves on its one TPC
  bench.tasks.submit(20, grid(1, 12, 2));                  // one wave on three
  bench.tasks.submit(30, grid(2, 1, 5));                   // nothing belongs to this one
  bench.tasks.share(5000, change(What::enable, 2, 0, 0, 3));
  bench.tasks.share(5000, change(What::enable, 5, 1, 0, 3));
  finish(bench, 3);
  CHECK(refusals == std::vector<ShareRefusal>{ShareRefusal::overlap});
  CHECK(bench.stat("share_refused") == 1);
  CHECK(tpcs_of(bench, 0) == std::set<std::uint32_t>{0});
  CHECK(tpcs_of(bench, 1) == std::set<std::uint32_t>{1, 2, 3});
  CHECK(tpcs_of(bench, 2) == std::set<std::uint32_t>{3});
  CHECK(first_arrival(bench, 1) < 300);
  CHECK(bench.log.done.at(1).end < 1600);
  CHECK(first_arrival(bench, 2) >= 5000);
  CHECK(bench.stat("subcontext5.wait.tpc_mask") > 4900);
}

TEST_CASE("a TPC that changes hands in static mode is empty in between", "[cwd][PRT-05][PRT-07]") {
  CwdBench bench(Shape::from_sms_per_gpc({4}), plain(PartitionMode::static_), capacity(2));
  durations(bench, {3000, 100});
  for (const std::uint32_t tpc : {0U, 1U}) bench.tasks.share(0, change(What::enable, 1, 1, 0, tpc));
  bench.tasks.submit(10, grid(0, 4, 1));  // one CTA on every SM
  bench.tasks.share(500, change(What::enable, 1, 0, 0, 1));
  bench.tasks.share(500, change(What::enable, 2, 1, 0, 1));
  bench.tasks.submit(510, grid(1, 2, 2));
  finish(bench, 2);
  CHECK(first_arrival(bench, 1) > 3000);
  CHECK(tpcs_of(bench, 1) == std::set<std::uint32_t>{1});
}

TEST_CASE("the mode changes while tasks run", "[cwd][PRT-05][PRT-07]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::none, 1), capacity(1));
  durations(bench, {1000, 1000});
  for (std::uint32_t tpc = 0; tpc < 4; ++tpc) {
    bench.tasks.share(0, change(What::enable, 1, tpc < 2 ? 1 : 0, 0, tpc));
    bench.tasks.share(0, change(What::enable, 2, tpc == 3 ? 1 : 0, 0, tpc));
  }
  bench.tasks.submit(0, grid(0, 60, 1));
  bench.tasks.share(2500, to(PartitionMode::static_));
  bench.tasks.submit(2600, grid(1, 4, 2));
  bench.tasks.share(6500, to(PartitionMode::dynamic));
  bench.tasks.share(10'500, to(PartitionMode::none));
  finish(bench, 2);
  CHECK(tpcs_of(bench, 0, 0, 2500).size() == 4);
  CHECK(tpcs_of(bench, 0, 2700, 6500) == std::set<std::uint32_t>{0, 1});
  CHECK(tpcs_of(bench, 0, 6700, 10'500).size() == 1);  // one credit
  CHECK(tpcs_of(bench, 0, 10'800).size() == 4);
  CHECK(tpcs_of(bench, 1) == std::set<std::uint32_t>{3});
}

TEST_CASE("blocks of static mode are set by software, and a launch without one waits", "[cwd][PRT-05][PRT-06]") {
  CwdParams params = plain(PartitionMode::static_);
  params.local_memory_blocks = 8;
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(1));
  durations(bench, {500});
  for (std::uint32_t tpc = 0; tpc < 4; ++tpc) bench.tasks.share(0, change(What::enable, 7, 1, 0, tpc));
  TaskPacket task = grid(0, 12, 7);
  task.local_bytes = 64;
  bench.tasks.submit(10, task);
  bench.tasks.share(1000, change(What::block, 7, 5, 0, 2));
  bench.tasks.share(2100, change(What::block, 7, 3, 0, 0));
  bench.tasks.share(2100, change(What::block, 7, 3, 0, 1));  // refused: it is another TPC's
  finish(bench, 1);
  CHECK(first_arrival(bench, 0) > 1000);
  CHECK(tpcs_of(bench, 0, 0, 2000) == std::set<std::uint32_t>{2});
  CHECK(tpcs_of(bench, 0, 2300) == std::set<std::uint32_t>{0, 2});
  REQUIRE_FALSE(bench.log.blocks.empty());
  for (const LoggedBlock& block : bench.log.blocks) {
    CHECK(block.packet.subcontext == 7);
    CHECK(block.packet.block == (block.packet.tpc == 2 ? 5 : 3));
  }
  CHECK(bench.stat("share_refused") == 1);
  CHECK(bench.stat("subcontext7.wait.local_memory") > 900);
}

TEST_CASE("a task with more local memory than its subcontext has for a thread is rejected", "[cwd][PRT-06]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::none), capacity(1));
  durations(bench, {500, 500, 500});
  bench.tasks.share(0, change(What::local_bytes, 7, 64));
  bench.tasks.share(0, change(What::local_address, 7, 0x8000));
  TaskPacket task = grid(0, 4, 7);
  task.local_bytes = 64;
  bench.tasks.submit(10, task);
  bench.tasks.share(300, change(What::local_bytes, 7, 128));  // refused: CTAs use it
  task = grid(1, 4, 7);
  task.local_bytes = 68;
  bench.tasks.submit(2000, task);
  task = grid(2, 4, 8);  // another subcontext's is another
  task.local_bytes = 68;
  bench.tasks.submit(2000, task);
  finish(bench, 3);
  CHECK(bench.stat("share_refused") == 1);
  CHECK(bench.stat("rejected") == 1);
  CHECK_FALSE(tpcs_of(bench, 0).empty());
  CHECK(tpcs_of(bench, 1).empty());
  CHECK_FALSE(tpcs_of(bench, 2).empty());
  REQUIRE_FALSE(bench.log.blocks.empty());
  for (const LoggedBlock& block : bench.log.blocks) {
    const heddle::arch::LocalMemory memory{0x8000, 64};
    CHECK(block.packet.memory == (block.packet.subcontext == 7 ? memory : heddle::arch::LocalMemory{}));
  }
}

TEST_CASE("local-memory blocks run out, and the launch waits for one; others have their own", "[cwd][PRT-06]") {
  for (const PartitionMode mode : {PartitionMode::none, PartitionMode::dynamic}) {
    CwdParams params = plain(mode);
    params.local_memory_blocks = 1;
    CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(2));
    durations(bench, {3000, 300, 300, 300});
    TaskPacket task = grid(0, 4, 1);  // as much as a TPC holds, for long
    task.local_bytes = 64;
    bench.tasks.submit(10, task);
    task = grid(1, 2, 1);  // the same subcontext, which has no other block
    task.local_bytes = 64;
    bench.tasks.submit(20, task);
    task = grid(2, 4, 2);
    task.local_bytes = 64;
    bench.tasks.submit(30, task);
    bench.tasks.submit(40, grid(3, 4, 3));  // has no use for blocks
    finish(bench, 4);
    CHECK(tpcs_of(bench, 0).size() == 1);
    CHECK(first_arrival(bench, 1) > 3000);
    CHECK(first_arrival(bench, 2) < 500);
    CHECK(first_arrival(bench, 3) < 500);
    CHECK(bench.waited("local_memory") > 0);
  }
}

TEST_CASE("CGAs count the credits that they would take, and give them back", "[cwd][PRT-10]") {
  CwdBench bench(Shape::from_sms_per_gpc({8, 8}), plain(PartitionMode::dynamic, 4), capacity(1));
  durations(bench, {1000, 1000});
  TaskPacket task = clusters(0, 16, 8, 1);  // four TPCs each
  task.cluster.mode = CgaMode::multicast;
  bench.tasks.submit(0, task);
  bench.tasks.submit(5, grid(1, 4, 2));
  finish(bench, 2);
  CHECK(bench.log.most_tpcs == 4);
  CHECK(bench.log.launches.size() >= 3);
  CHECK(bench.cwd.partition().quota().credits(1) == 4);
  CHECK(first_arrival(bench, 1) < 500);
  std::vector<Cycle> cgas;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == 0 && launch.packet.cga_first) cgas.push_back(launch.cycle);
  }
  REQUIRE(cgas.size() == 2);
  CHECK(cgas[1] > cgas[0] + 1000);
}

TEST_CASE("a CGA finds the GPC that its credits are enough for", "[cwd][PRT-03][PRT-10]") {
  // Of the least loaded four TPCs, three are in the first GPC, which cannot take the CGA.
  CwdBench bench(Shape::from_sms_per_gpc({6, 8}), plain(PartitionMode::dynamic, 4), capacity(4));
  durations(bench, {5000, 100});
  bench.tasks.share(0, change(What::credits, 1, 7));
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) bench.tasks.share(1, change(What::enable, 1, 0, 0, tpc));
  bench.tasks.submit(10, grid(0, 8, 1));  // a CTA on every SM of the second GPC
  TaskPacket task = clusters(1, 8, 8, 2);
  task.cluster.mode = CgaMode::multicast;
  bench.tasks.submit(100, task);
  finish(bench, 2);
  CHECK(tpcs_of(bench, 0) == std::set<std::uint32_t>{3, 4, 5, 6});
  CHECK(tpcs_of(bench, 1) == std::set<std::uint32_t>{3, 4, 5, 6});
  CHECK(first_arrival(bench, 1) < 500);
}

TEST_CASE("credits of the start decide what can never run, until somebody changes them", "[cwd][PRT-07][PRT-10]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::dynamic, 2), capacity(1));
  durations(bench, {100, 100, 100});
  bench.tasks.submit(0, clusters(0, 8, 8, 1));  // needs four TPCs
  bench.tasks.share(1000, change(What::credits, 1, 3));
  bench.tasks.submit(1010, clusters(1, 8, 8, 1));  // waits: who has changed them may do so again
  bench.tasks.share(5000, change(What::credits, 1, 4));
  finish(bench, 2);
  CHECK(bench.log.done.at(0).rejected);
  CHECK_FALSE(bench.log.done.at(1).rejected);
  CHECK(first_arrival(bench, 1) > 5000);
  CHECK(bench.waited("credits") > 3900);
}

TEST_CASE("changes that make no sense are refused and reported, and change nothing", "[cwd][PRT-05][PRT-07]") {
  CwdBench bench(Shape::from_sms_per_gpc({4}), plain(PartitionMode::dynamic, 2), capacity(1));
  std::vector<ShareRefusal> refusals;
  bench.cwd.on_share_refused([&](const SubcontextPacket&, ShareRefusal why) { refusals.push_back(why); });
  bench.tasks.share(1, change(What::credits, 64, 1));
  bench.tasks.share(2, change(What::credits, 0, 4097));
  bench.tasks.share(3, change(What::enable, 0, 1, 0, 2));
  bench.tasks.share(4, change(What::enable, 0, 1, 1, 0));
  bench.tasks.share(5, change(What::enable, 0, 2, 0, 0));
  bench.tasks.share(6, change(What::block, 0, 2, 0, 0));
  bench.tasks.share(7, to(static_cast<PartitionMode>(9)));
  bench.tasks.share(8, change(What::page_table, 0, 0x1000));  // there is no MMU
  bench.tasks.share(9, change(What::page_table, 0, 0));       // as it is
  finish(bench, 0);
  using R = ShareRefusal;
  CHECK(refusals == std::vector<R>{R::subcontext, R::value, R::tpc, R::tpc, R::value, R::value, R::value, R::no_mmu});
  CHECK(bench.cwd.partition().quota().credits(0) == 2);
  CHECK(bench.stat("share_changes") == 1);
}

TEST_CASE("a reset takes back what the host has changed", "[cwd][PRT-07]") {
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(PartitionMode::dynamic, 1), capacity(1));
  durations(bench, {1000});
  bench.tasks.share(0, change(What::credits, 0, 3));
  bench.tasks.submit(10, grid(0, 40, 0));
  run_until(sc_core::sc_time(500, sc_core::SC_NS));
  CHECK(bench.cwd.partition().quota().tpcs_held(0) == 3);
  bench.domain.reset();
  CHECK(bench.cwd.quiescent());
  CHECK(bench.cwd.partition().quota().credits(0) == 1);
  CHECK(bench.cwd.partition().quota().tpcs_held(0) == 0);
}

TEST_CASE("a launch that sharing keeps off says so when nothing goes on", "[cwd][PRT-02][PRT-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({4}), plain(PartitionMode::static_), capacity(1));
  durations(bench, {100});
  bench.tasks.submit(0, grid(0, 1, 6));
  run_until_idle();
  CHECK(bench.log.done.empty());
  heddle::WaitGraph waits;
  bench.domain.collect_waits(waits);
  REQUIRE_FALSE(waits.empty());
  CHECK_THAT(waits.chain().front(), Catch::Contains("subcontext 6: no room on the TPCs of its subcontext"));
}

}  // namespace cwd_partition_test
