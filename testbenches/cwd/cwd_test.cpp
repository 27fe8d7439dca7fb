// The distributor over its sockets: one property per case.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd_bench.h"

namespace cwd_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::cwd::LevelSearch;
using heddle::test::CwdBench;
using heddle::test::LoggedLaunch;
using heddle::test::switched;

namespace {

// An SM of `slots` CTA slots and 8 warps, and nothing else that could run out.
ResourceVector capacity(std::uint32_t slots) { return {{8, 1000, 1000, 1000, slots, 1000}}; }
const ResourceVector kOne{{1, 1, 1, 1, 1, 1}};
const ResourceVector kWholeSm{{8, 1, 1, 1, 1, 1}};

// Distances that are easy to add up: sessions of 10 cycles, packets and CTAs without limit, GPCs 100 cycles away.
CwdParams plain() {
  CwdParams params;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.session_step = 0;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 100;
  params.done_distance = 7;
  return params;
}

void run_for(CwdBench& bench, Cycle cycles) {
  bench.all_gpcs([cycles](auto& gpc) { gpc.duration = [cycles](std::uint32_t, std::uint64_t) { return cycles; }; });
  heddle::test::run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
}

std::vector<std::uint32_t> operations_in_order(const CwdBench& bench) {
  std::vector<std::uint32_t> order;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (order.empty() || order.back() != launch.packet.operation) order.push_back(launch.packet.operation);
  }
  return order;
}

}  // namespace

TEST_CASE("a grid on an empty machine launches level by level", "[cwd][CWD-03][CWD-05][CWD-30]") {
  CwdParams params = plain();
  params.sm_priority.order = heddle::cwd::UnitOrder::Order::descending;
  CwdBench bench(Shape::from_sms_per_gpc({4, 2}), params, capacity(3));
  bench.tasks.submit(0, CwdBench::task(0, 14, kOne));
  run_for(bench, 50);
  // Two full levels of 6, then two CTAs for the last SMs: ids 5 and 4. Ids: GPC 0 has 0 1 4 5, GPC 1 has 2 3.
  std::vector<std::vector<std::uint32_t>> sms;
  for (const LoggedLaunch& launch : bench.log.launches) sms.push_back(bench.sms_of(launch));
  CHECK(sms == std::vector<std::vector<std::uint32_t>>{{0, 1, 4, 5}, {2, 3}, {0, 1, 4, 5}, {2, 3}, {4, 5}});
  for (std::size_t i = 0; i < bench.log.launches.size(); ++i) {
    CHECK(bench.log.launches[i].packet.last == (i == 4));
    CHECK(bench.log.launches[i].packet.sequence == 0);
  }
  CHECK(bench.stat("session_cycles.mean") == 10);
  CHECK(bench.stat("session_steps") == 2);  // of the bisection of 3 levels
}

TEST_CASE("a packet starts many CTAs, and wide grids need few packets", "[cwd][CWD-30]") {
  CwdBench bench(Shape::from_sms_per_gpc({18, 18, 18, 18, 16, 16, 14, 14}), CwdParams{},
                 {{64, 2048, 65'536, 233'472, 32, 512}});
  bench.tasks.submit(0, CwdBench::task(0, 132 * 32, kOne));
  run_for(bench, 10'000);
  CHECK(bench.log.launches.size() <= 32 * 8 * 2);  // sessions are limited to 4,096 CTAs
  CHECK(bench.stat("ctas_launched") == 132 * 32);
  CHECK(bench.stat("ctas_per_packet.mean") > 14);
  CHECK(bench.stat("ctas_per_packet.max") == 18);
}

TEST_CASE("virtual GPCs are numbered by their TPCs", "[cwd][CWD-31]") {
  CwdBench bench(Shape::from_sms_per_gpc({4, 8, 2, 8}), plain(), capacity(1));
  bench.tasks.submit(0, CwdBench::task(0, 22, kOne));
  run_for(bench, 5);
  REQUIRE(bench.log.launches.size() == 4);
  const std::vector<std::uint32_t> wanted{2, 0, 3, 1};
  for (const LoggedLaunch& launch : bench.log.launches) CHECK(launch.packet.virtual_gpc == wanted[launch.gpc]);
}

TEST_CASE("a completion during a session is for the next one", "[cwd][CWD-02]") {
  CwdParams params = plain();
  params.session_pipeline = 500;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(1));
  bench.tasks.submit(0, CwdBench::task(0, 4, kOne));
  // SM 0's CTA is back when the second session begins, SM 1's while that session runs.
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t, std::uint64_t index) { return index == 0 ? Cycle{50} : Cycle{100}; };
  });
  heddle::test::run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.log.launches.size() == 3);
  CHECK(bench.sms_of(bench.log.launches[0]) == std::vector<std::uint32_t>{0, 1});
  CHECK(bench.sms_of(bench.log.launches[1]) == std::vector<std::uint32_t>{0});
  CHECK(bench.sms_of(bench.log.launches[2]) == std::vector<std::uint32_t>{1});
  CHECK(bench.log.launches[1].cycle == bench.log.launches[0].cycle + 50 + 100 + 500 + 100);
  CHECK(bench.log.launches[2].cycle == bench.log.launches[1].cycle + 500);
}

TEST_CASE("completions of one cycle are all in the next session", "[cwd][CWD-02]") {
  CwdBench bench(Shape::from_sms_per_gpc({2, 2}), plain(), capacity(1));
  bench.all_gpcs([](auto& gpc) { gpc.merge = false; });  // four packets in the same cycle
  bench.tasks.submit(0, CwdBench::task(0, 8, kOne));
  run_for(bench, 30);
  CHECK(bench.stat("sessions") == 2);
}

TEST_CASE("the round trip to a GPC is longer than a session, and both show", "[cwd][CWD-33]") {
  for (const Cycle distance : {0, 1, 60, 1000}) {
    for (const Cycle pipeline : {0, 4, 200}) {
      CAPTURE(distance, pipeline);
      CwdParams params = plain();
      params.gpc_distance = static_cast<std::uint32_t>(distance);
      params.session_pipeline = static_cast<std::uint32_t>(pipeline);
      params.session_step = 3;
      params.level_search = LevelSearch::scan;
      CwdBench bench(Shape::from_sms_per_gpc({1}), params, capacity(1));
      bench.tasks.submit(1000, CwdBench::task(0, 3, kOne));
      run_for(bench, 40);
      const Cycle session = pipeline + 3;
      REQUIRE(bench.log.launches.size() == 3);
      CHECK(bench.log.launches[0].cycle == 1000 + session + distance);
      CHECK(bench.log.launches[1].cycle == bench.log.launches[0].cycle + 40 + distance + session + distance);
      CHECK(bench.log.launches[2].cycle == bench.log.launches[1].cycle + 40 + distance + session + distance);
      CHECK(bench.log.done.at(0).start == 1000 + session);
      CHECK(bench.log.done.at(0).end == bench.log.launches[2].cycle + 40 + distance);
    }
  }
}

TEST_CASE("in lt mode links and sessions are free", "[cwd]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(1), TimingMode::lt);
  bench.tasks.submit(0, CwdBench::task(0, 6, kOne));
  run_for(bench, 40);
  CHECK(bench.log.done.at(0).start == 0);
  CHECK(bench.log.done.at(0).end == 120);
}

TEST_CASE("a launch packet takes the port as long as its bits need", "[cwd][CWD-31][CWD-34]") {
  // 40 GPCs of 21 SMs, a table of 8 slots and 32 for evicted tasks. Task id 6, virtual GPC 6, mask 21, number of
  // further masks 2, CTAs 7 (up to 84), sequence 16, flags 6: 64 bits. The first packet of the grid has its extents, 64
  // more.
  CwdParams params = plain();
  params.table_slots = 8;
  params.gpc_queue = 1000;
  struct Case {
    std::uint32_t width;
    Cycle first, others;
  };
  const Case c = GENERATE(Case{64, 2, 1}, Case{63, 3, 2}, Case{32, 4, 2}, Case{8, 16, 8}, Case{1000, 1, 1});
  CAPTURE(c.width);
  params.port_bits = c.width;
  CwdBench bench(Shape::from_sms_per_gpc(std::vector<std::uint32_t>(40, 21)), params, capacity(1));
  bench.tasks.submit(0, CwdBench::task(0, 840, kOne));
  run_for(bench, 5);
  REQUIRE(bench.log.launches.size() == 40);
  for (std::size_t i = 1; i < 40; ++i) {
    CHECK(bench.log.launches[i].cycle - bench.log.launches[0].cycle == c.first + (i - 1) * c.others);
  }
  CHECK(bench.stat("launch_packets") == 40);
  CHECK(bench.stat("launch_copies") == 40 * 40);
  CHECK(bench.stat("launch_bits") == 41 * 64);
  CHECK(bench.stat("link_bits") == 41 * 64 * 40);
  CHECK(bench.stat("port_busy_cycles") == static_cast<double>(c.first + 39 * c.others));
}

TEST_CASE("a broadcast to more GPCs than the port reaches at a time takes it again", "[cwd][CWD-34]") {
  CwdParams params = plain();
  params.port_bits = 1000;
  params.broadcast_width = GENERATE(1U, 3U, 8U);
  CwdBench bench(Shape::from_sms_per_gpc(std::vector<std::uint32_t>(8, 2)), params, capacity(1));
  bench.tasks.submit(0, CwdBench::task(0, 16, kOne));
  run_for(bench, 5);
  REQUIRE(bench.log.launches.size() == 8);
  const Cycle each = (8 + params.broadcast_width - 1) / params.broadcast_width;
  CHECK(bench.log.launches.back().cycle - bench.log.launches.front().cycle == 7 * each);
  CHECK(bench.stat("port_busy_cycles") == static_cast<double>(8 * each));
}

TEST_CASE("CTAs go into the tables of the distributor one after another", "[cwd][CWD-34]") {
  CwdParams params = plain();
  params.cta_commits = 0.25;
  CwdBench bench(Shape::from_sms_per_gpc({2, 2}), params, capacity(2));
  bench.tasks.submit(0, CwdBench::task(0, 8, kOne));
  run_for(bench, 500);
  REQUIRE(bench.log.launches.size() == 4);  // of two CTAs each
  for (std::size_t i = 1; i < 4; ++i) CHECK(bench.log.launches[i].cycle - bench.log.launches[i - 1].cycle == 8);
  CHECK(bench.stat("table_busy_cycles") == 32);
}

TEST_CASE("a GPC whose queue is full holds the broadcast back for all", "[cwd][CWD-35]") {
  CwdParams params = plain();
  params.gpc_queue = 2;
  CwdBench bench(Shape::from_sms_per_gpc({2, 2}), params, capacity(8));
  for (const std::uint32_t sm : bench.topology.gpc(1).sm_ids) bench.cwd.preload(sm, capacity(8), 0);  // no room there
  bench.gpcs[1]->credit_delay = [] { return Cycle{1000}; };
  const bool listens = GENERATE(true, false);
  CAPTURE(listens);
  if (!listens) bench.tasks.control(0, switched(1, 0, false));
  bench.tasks.submit(10, CwdBench::task(0, 12, kOne));
  run_for(bench, 10'000);
  REQUIRE(bench.log.launches.size() == 6);
  for (const LoggedLaunch& launch : bench.log.launches) CHECK(launch.gpc == 0);
  // A credit takes 100 cycles there, 1,000 or none in the GPC, 100 back.
  const Cycle round_trip = listens ? 1200 : 200;
  CHECK(bench.log.launches.back().cycle - bench.log.launches.front().cycle == 2 * round_trip);
  CHECK(bench.stat("queue_stall_cycles") == static_cast<double>(2 * round_trip));
  CHECK(bench.stat("launch_copies") == (listens ? 12 : 6));
}

TEST_CASE("a narrowed broadcast comes to the GPCs that the subcontext may use", "[cwd][CWD-35]") {
  CwdParams params = plain();
  params.partition = heddle::protocol::PartitionMode::dynamic;
  params.broadcast = GENERATE(heddle::cwd::Broadcast::all, heddle::cwd::Broadcast::usable);
  CwdBench bench(Shape::from_sms_per_gpc({2, 2, 2}), params, capacity(1));
  heddle::protocol::SubcontextPacket share;
  share.what = heddle::protocol::SubcontextPacket::What::enable;
  share.gpc = heddle::protocol::GpcId(1);
  bench.tasks.share(0, share);
  bench.tasks.submit(10, CwdBench::task(0, 4, kOne));
  run_for(bench, 50);
  CHECK(bench.log.launches.size() == 2);
  CHECK(bench.stat("launch_copies") == (params.broadcast == heddle::cwd::Broadcast::all ? 6 : 4));
}

TEST_CASE("a GPC's credits bound its packets", "[cwd]") {
  for (const std::uint32_t queue : {1U, 2U, 5U}) {
    CAPTURE(queue);
    CwdParams params = plain();
    params.gpc_queue = queue;
    CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(8));
    bench.all_gpcs([](auto& gpc) { gpc.credit_delay = [] { return Cycle{300}; }; });
    bench.tasks.submit(0, CwdBench::task(0, 16, kOne));
    run_for(bench, 10'000);  // the bench objects to more packets than places
    REQUIRE(bench.log.launches.size() == 8);
    // A credit takes 100 cycles there, 300 in the GPC, 100 back.
    CHECK(bench.log.launches.back().cycle - bench.log.launches.front().cycle == 7 / queue * 500);
  }
}

TEST_CASE("task table slots are the credits of the way in", "[cwd]") {
  CwdParams params = plain();
  params.table_slots = 2;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(8));
  for (std::uint32_t i = 0; i < 9; ++i) bench.tasks.submit(i, CwdBench::task(i, 1, kOne));
  run_for(bench, 5000);
  CHECK(bench.log.done.size() == 9);
  CHECK(bench.stat("table_used.max") == 2);
  CHECK(bench.log.done.at(2).start > bench.log.done.at(0).end);
  CHECK(bench.log.done.at(8).start > bench.log.done.at(6).end);
}

TEST_CASE("the more urgent task goes first, then the older", "[cwd]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(1));
  bench.tasks.submit(0, CwdBench::task(0, 6, kOne, 0));
  bench.tasks.submit(20, CwdBench::task(1, 2, kOne, 0));
  bench.tasks.submit(21, CwdBench::task(2, 2, kOne, 5));
  bench.tasks.submit(22, CwdBench::task(3, 2, kOne, -5));
  bench.tasks.submit(23, CwdBench::task(4, 2, kOne, 5));
  run_for(bench, 400);
  // The first session was over before the others came; from then on by priority. Nobody is thrown out.
  CHECK(operations_in_order(bench) == std::vector<std::uint32_t>{0, 2, 4, 0, 1, 3});
}

TEST_CASE("backfill lets a task pass one that waits for room", "[cwd][CWD-06]") {
  for (const bool backfill : {false, true}) {
    CAPTURE(backfill);
    CwdParams params = plain();
    params.backfill = backfill;
    CwdBench bench(Shape::from_sms_per_gpc({1}), params, capacity(8));
    bench.tasks.submit(0, CwdBench::task(0, 1, kOne));       // leaves room for 7 small CTAs, not for a large one
    bench.tasks.submit(50, CwdBench::task(1, 1, kWholeSm));  // must wait
    bench.tasks.submit(60, CwdBench::task(2, 1, kOne));
    run_for(bench, 2000);
    CHECK(operations_in_order(bench) ==
          (backfill ? std::vector<std::uint32_t>{0, 2, 1} : std::vector<std::uint32_t>{0, 1, 2}));
    CHECK((bench.stat("no_slot_cycles") > 1000) == true);
  }
}

TEST_CASE("a grid larger than the machine fills it and follows completions", "[cwd][CWD-06]") {
  CwdBench bench(Shape::from_sms_per_gpc({3, 2}), plain(), capacity(2));
  bench.tasks.submit(0, CwdBench::task(0, 1001, kOne));
  run_for(bench, 30);
  CHECK(bench.stat("ctas_launched") == 1001);
  CHECK(bench.stat("sessions") == 101);  // ten slots a time
}

TEST_CASE("a session limit cuts a grid into sessions", "[cwd][CWD-06]") {
  CwdParams params = plain();
  params.session_limit = 3;
  CwdBench bench(Shape::from_sms_per_gpc({4}), params, capacity(4));
  bench.tasks.submit(0, CwdBench::task(0, 10, kOne));
  run_for(bench, 5000);
  CHECK(bench.stat("sessions") == 4);
  std::uint64_t ctas = 0;
  for (const LoggedLaunch& launch : bench.log.launches) {
    CHECK(launch.packet.sequence == launch.position / 3);
    ctas += launch.packet.num_ctas;
    CHECK(launch.packet.last == (ctas % 3 == 0 || ctas == 10));
  }
}

TEST_CASE("an open task tells what it waits for", "[cwd]") {
  CwdBench bench(Shape::from_sms_per_gpc({1}), plain(), capacity(1));
  bench.observation.labels.set(0, "first");
  bench.observation.labels.set(1, "second");
  bench.all_gpcs([](auto& gpc) { gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{100'000}; }; });
  bench.tasks.submit(0, CwdBench::task(0, 1, kOne));
  bench.tasks.submit(1, CwdBench::task(1, 2, kOne));
  sc_core::sc_start(sc_core::sc_time(1000, sc_core::SC_NS));
  heddle::WaitGraph waits;
  bench.domain.collect_waits(waits);
  const std::vector<std::string> chain = waits.chain();
  REQUIRE(chain.size() == 2);
  CHECK(chain[0].find("second waits") == 0);
  CHECK(chain[0].find("first") != std::string::npos);
  CHECK(chain[1].find("first waits") == 0);
}

TEST_CASE("a CTA that did not fit starts in shared memory that another has given back", "[cwd][CGA-09]") {
  for (const bool released : {true, false}) {
    CAPTURE(released);
    CwdBench bench(Shape::from_sms_per_gpc({1}), plain(), capacity(3));
    bench.all_gpcs([released](auto& gpc) {
      gpc.releases = [released](std::uint32_t operation, std::uint64_t) {
        return released && operation == 0 ? 500U : 0U;
      };
    });
    ResourceVector large = kOne;
    large[heddle::arch::Resource::shared_bytes] = 800;
    ResourceVector small = kOne;
    small[heddle::arch::Resource::shared_bytes] = 600;
    bench.tasks.submit(0, CwdBench::task(0, 1, large));
    bench.tasks.submit(0, CwdBench::task(1, 1, small));
    run_for(bench, 1000);
    REQUIRE(bench.log.launches.size() == 2);
    // Half way through the run, or at its end; then the way back, a session, and the way there.
    CHECK(bench.log.launches[0].cycle == 110);
    CHECK(bench.log.launches[1].cycle == 110 + (released ? 500 : 1000) + 100 + 10 + 100);
    CHECK(bench.stat("shared_released") == (released ? 500 : 0));
  }
}

}  // namespace cwd_test
