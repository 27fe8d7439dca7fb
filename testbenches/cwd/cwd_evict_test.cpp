// Eviction from the task table, one property per case.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/plain_cwd.h"
#include "support/random.h"

namespace cwd_evict_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::arch::CgaLevel;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::protocol::EvictedPacket;
using heddle::protocol::TaskPacket;

namespace {

CwdParams plain(std::uint32_t table_slots = 1) {
  CwdParams params = plain_cwd(table_slots);
  params.active_pool = params.pending_pool = 0;
  return params;
}

void all_run_for(CwdBench& bench, Cycle cycles) {
  bench.all_gpcs([cycles](auto& gpc) { gpc.duration = [cycles](std::uint32_t, std::uint64_t) { return cycles; }; });
}

void finish(CwdBench& bench) {
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
  REQUIRE(bench.tasks.task_out.outstanding() == 0);  // every slot is back, once
  heddle::WaitGraph waits;
  bench.domain.collect_waits(waits);
  REQUIRE(waits.empty());
}

// Launch packets of an operation, which must follow each other without a gap.
std::vector<LoggedLaunch> launches_of(const CwdBench& bench, std::uint32_t operation, std::uint64_t ctas) {
  std::vector<LoggedLaunch> result;
  std::uint64_t raster = 0;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation != operation) continue;
    REQUIRE(launch.position == raster);
    raster += launch.packet.num_ctas;
    result.push_back(launch);
  }
  REQUIRE(raster == ctas);
  return result;
}

std::vector<std::uint32_t> operations_in_order(const CwdBench& bench) {
  std::vector<std::uint32_t> order;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (order.empty() || order.back() != launch.packet.operation) order.push_back(launch.packet.operation);
  }
  return order;
}

std::vector<std::string> waits_of(const CwdBench& bench) {
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  return graph.chain();
}

void run_to(Cycle cycle) {
  sc_core::sc_start(sc_core::sc_time(static_cast<double>(cycle), sc_core::SC_NS) - sc_core::sc_time_stamp());
}

}  // namespace

TEST_CASE("an evicted task gives its slot up and goes on where it stopped", "[cwd][task][TSK-03]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(1));
  bench.tasks.submit(0, CwdBench::task(0, 10, kOne, 0));
  bench.tasks.submit(50, CwdBench::task(1, 2, kOne, 5));
  bench.tasks.evict(1000, 0);
  all_run_for(bench, 600);
  finish(bench);
  const std::vector<LoggedLaunch> low = launches_of(bench, 0, 10);
  const std::vector<LoggedLaunch> high = launches_of(bench, 1, 2);
  CHECK(operations_in_order(bench) == std::vector<std::uint32_t>{0, 1, 0});
  // The second two CTAs, of cycle 920, run on to their end; the urgent ones start at that release.
  CHECK(low[1].cycle == 920);
  CHECK(high[0].cycle == 920 + 600 + 100 + 10 + 100);
  CHECK(low[2].cycle == high[0].cycle + 600 + 100 + 10 + 100);
  REQUIRE(bench.log.evicted.size() == 1);
  CHECK(bench.log.evicted[0].cycle == 1007);
  CHECK(bench.log.evicted[0].packet.evicted);
  CHECK(bench.log.evicted[0].packet.remainder);
  CHECK(bench.log.sent.at(1).packet.operation == 1);
  CHECK(bench.log.sent.at(1).cycle == 1000);  // with the slot of the evicted one
  CHECK(bench.log.sent.at(2).packet.resumed);
  CHECK(bench.log.sent.at(2).cycle == bench.log.done.at(1).end);
  CHECK(bench.stat("evictions") == 1);
  CHECK(bench.stat("resumed") == 1);
  CHECK(bench.stat("tasks") == 2);
  CHECK(bench.stat("table_used.max") == 1);
  CHECK(bench.waited("evicted") == static_cast<double>(bench.log.done.at(1).end - 1000));
  // CTAs of it ran when it was evicted, and end before it comes back: by then only its TMD knows of it.
  CHECK(bench.log.evicted[0].packet.progress.next_cta == 4);
  CHECK(bench.log.evicted[0].packet.progress.start == low[0].packet.departure);
  CHECK_FALSE(bench.log.evicted[0].packet.gone);
  CHECK(bench.log.gone == std::vector<std::uint32_t>{0});
}

TEST_CASE("an evicted task of which nothing runs gives its number up, and goes on under another",
          "[cwd][task][TSK-03][CWD-42]") {
  CwdParams params = plain(1);
  params.evicted_tasks = 1;
  CwdBench bench(Shape::from_sms_per_gpc({2, 2}), params, capacity(1));
  // Three tasks are out at a time, though only one of them could have a number.
  constexpr std::uint32_t kTasks = 4;
  bench.tasks.back = [](std::uint32_t operation) { return Cycle{20'000} - 2000 * operation; };
  for (std::uint32_t operation = 0; operation < kTasks; ++operation) {
    bench.tasks.submit(operation * 2000, CwdBench::task(operation, 11, kOne));
    if (operation + 1 < kTasks) bench.tasks.evict(operation * 2000 + 900, operation);
  }
  all_run_for(bench, 700);
  run_to(7500);
  CHECK(bench.log.gone == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(bench.stat("evicted") == 0);
  CHECK(bench.log.done.empty());
  CHECK_FALSE(bench.cwd.quiescent());
  finish(bench);
  CHECK(bench.stat("evicted.max") == 1);
  CHECK(bench.stat("evictions") == 3);
  CHECK(bench.stat("resumed") == 3);
  CHECK(bench.stat("ctas_launched") == kTasks * 11);
  for (std::uint32_t operation = 0; operation + 1 < kTasks; ++operation) {
    CAPTURE(operation);
    const std::vector<LoggedLaunch> launches = launches_of(bench, operation, 11);
    // No SM has heard of the grid under that number: each that it starts on first is told where it stands.
    std::uint64_t before = 0;
    for (const LoggedLaunch& launch : launches) {
      const bool first = before == bench.log.evicted.at(operation).packet.progress.next_cta;
      if (first) CHECK(launch.packet.sync.has_value());
      before += launch.packet.num_ctas;
    }
    const auto begins = [](const LoggedLaunch& launch) { return launch.packet.begins; };
    CHECK(std::count_if(launches.begin(), launches.end(), begins) == 1);
    CHECK(bench.log.done.at(operation).start == launches[0].packet.departure);
  }
}

TEST_CASE("a task goes on with the CTA that it is sent again with", "[cwd][task][TSK-03]") {
  const bool runs = GENERATE(false, true);  // a CTA of it still does
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(1), capacity(1));
  bench.all_gpcs([runs](auto& gpc) {
    gpc.duration = [runs](std::uint32_t, std::uint64_t index) { return runs && index == 1 ? 9000 : 500; };
  });
  bench.tasks.submit(0, CwdBench::task(0, 20, kOne));
  bench.tasks.evict(300, 0);
  bench.tasks.change = [](TaskPacket& task) {
    REQUIRE(task.progress.next_cta == 2);
    task.progress.next_cta = 15;
  };
  bench.tasks.back = [](std::uint32_t) { return Cycle{2000}; };
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
  std::vector<std::uint64_t> positions;
  for (const LoggedLaunch& launch : bench.log.launches) {
    for (std::uint32_t i = 0; i < launch.packet.num_ctas; ++i) positions.push_back(launch.position + i);
  }
  CHECK(positions == std::vector<std::uint64_t>{0, 1, 15, 16, 17, 18, 19});
  CHECK(bench.log.done.count(0) == 1);
}

TEST_CASE("a session that is under way ends before its task is evicted", "[cwd][task][TSK-03]") {
  CwdParams params = plain(2);
  params.session_pipeline = 500;
  params.session_limit = 3;
  CwdBench bench(Shape::from_sms_per_gpc({4}), params, capacity(4));
  bench.tasks.submit(0, CwdBench::task(0, 9, kOne));
  bench.tasks.evict(100, 0);
  bench.tasks.back = [](std::uint32_t) { return Cycle{2000}; };
  all_run_for(bench, 50);
  finish(bench);
  const std::vector<LoggedLaunch> launches = launches_of(bench, 0, 9);
  CHECK(bench.log.evicted.at(0).cycle == 500 + 7);
  CHECK(launches[0].cycle == 500 + 100);  // what the session placed is launched
  CHECK(launches[0].packet.num_ctas == 3);
  CHECK(launches[1].cycle == 507 + 2000 + 500 + 100);
}

TEST_CASE("masks that wait for the launch port are launched, however soon their task is evicted",
          "[cwd][task][TSK-03]") {
  CwdParams params = plain(2);
  params.gpc_queue = 1;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(4));
  bench.all_gpcs([](auto& gpc) { gpc.credit_delay = [] { return Cycle{300}; }; });
  bench.tasks.submit(0, CwdBench::task(0, 12, kOne));
  bench.tasks.evict(11, 0);  // of 4 packets, the first has left
  bench.tasks.back = [](std::uint32_t) { return Cycle{100'000}; };
  all_run_for(bench, 50);
  finish(bench);
  const std::vector<LoggedLaunch> launches = launches_of(bench, 0, 12);
  CHECK(bench.log.evicted.at(0).cycle == 18);
  CHECK(launches[3].cycle == 110 + 3 * 500);
  CHECK(launches[4].cycle > 100'000);
}

TEST_CASE("a task without CTAs left to place gives its slot up and only drains", "[cwd][task][TSK-03]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(2));
  bench.tasks.submit(0, CwdBench::task(0, 2, kOne));
  bench.tasks.submit(5, CwdBench::task(1, 2, kOne));
  bench.tasks.evict(300, 0);
  all_run_for(bench, 5000);
  finish(bench);
  REQUIRE(bench.log.evicted.size() == 1);
  CHECK(bench.log.evicted[0].packet.evicted);
  CHECK_FALSE(bench.log.evicted[0].packet.remainder);
  CHECK(launches_of(bench, 1, 2)[0].cycle == 300 + 10 + 100);  // beside the CTAs that drain
  CHECK(bench.log.done.at(0).end == 110 + 5000 + 100);
  CHECK(bench.stat("resumed") == 0);
}

TEST_CASE("a CGA that was split goes on in its parts", "[cwd][task][TSK-03][CWD-21]") {
  CwdParams params = plain(2);
  CwdBench bench(Shape::from_sms_per_gpc({2, 2}), params, capacity(1));
  TaskPacket task = CwdBench::task(0, 16, kOne);
  task.cluster.of(CgaLevel::gpu) = {8, 1, 1};  // more than the machine holds at once
  task.cluster.of(CgaLevel::gpc) = {2, 1, 1};
  task.cluster.fallback[0] = {2, 1, 1};
  bench.tasks.submit(0, task);
  bench.tasks.evict(300, 0);  // four of the first eight run
  bench.tasks.back = [](std::uint32_t) { return Cycle{10'000}; };
  all_run_for(bench, 1000);
  finish(bench);
  const std::vector<LoggedLaunch> launches = launches_of(bench, 0, 16);
  REQUIRE(launches.size() == 8);
  CHECK(launches[1].cycle < 400);
  CHECK(launches[2].cycle > 10'300);
  CHECK(launches[2].position == 4);
  for (const LoggedLaunch& launch : launches) {
    CHECK(launch.packet.shape.levels == launches[0].packet.shape.levels);
    CHECK(launch.packet.cga_ctas == 2);
  }
}

TEST_CASE("an eviction that cannot be is refused", "[cwd][task][TSK-03]") {
  CwdParams params = plain(3);
  params.evicted_tasks = 1;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(1));
  TaskPacket huge = CwdBench::task(7, 1, kOne);
  huge.need = {{2000, 1, 1, 1, 1, 1}};
  bench.tasks.submit(0, huge);
  bench.tasks.submit(0, CwdBench::task(0, 8, kOne));
  bench.tasks.submit(0, CwdBench::task(1, 8, kOne));
  bench.tasks.back = [](std::uint32_t) { return Cycle{500}; };
  all_run_for(bench, 100);
  std::map<Cycle, EvictedPacket> wanted;
  const auto evict = [&](Cycle cycle, std::uint32_t operation, bool evicted) {
    bench.tasks.evict(cycle, operation);
    wanted[cycle + 7] = {operation, evicted, evicted};
  };
  evict(20, 99, false);  // never heard of
  evict(21, 7, false);   // rejected: it has gone
  evict(200, 0, true);
  evict(250, 0, false);     // is out already
  evict(251, 1, false);     // only one can be out at a time
  evict(900, 1, true);      // the other is back
  evict(50'000, 0, false);  // ended long ago
  finish(bench);
  REQUIRE(bench.log.evicted.size() == wanted.size());
  for (const LoggedAnswer& answer : bench.log.evicted) {
    CAPTURE(answer.cycle);
    REQUIRE(wanted.count(answer.cycle) == 1);
    CHECK(answer.packet.operation == wanted[answer.cycle].operation);
    CHECK(answer.packet.evicted == wanted[answer.cycle].evicted);
    CHECK(answer.packet.remainder == wanted[answer.cycle].remainder);
  }
  CHECK(bench.log.done.at(7).rejected);
  launches_of(bench, 0, 8);
  launches_of(bench, 1, 8);
}

TEST_CASE("a fault ends a task while it is evicted, and its remainder is not missed", "[cwd][task][TSK-03]") {
  for (const Cycle back :
       {Cycle{1}, Cycle{450}, Cycle{5000}}) {  // before the fault, while the last CTA drains, long after
    CAPTURE(back);
    CwdBench bench(Shape::from_sms_per_gpc({2}), plain(2), capacity(1));
    bench.all_gpcs([](auto& gpc) {
      gpc.duration = [](std::uint32_t, std::uint64_t index) { return index == 0 ? Cycle{500} : Cycle{1500}; };
      gpc.faults = [](std::uint32_t operation, std::uint64_t index) { return operation == 0 && index == 0; };
    });
    bench.tasks.submit(0, CwdBench::task(0, 50, kOne));
    bench.tasks.evict(300, 0);
    bench.tasks.back = [back](std::uint32_t) { return back; };
    bench.tasks.submit(20'000, CwdBench::task(1, 2, kOne));
    bench.tasks.submit(20'000, CwdBench::task(2, 2, kOne));
    finish(bench);
    CHECK(bench.log.done.at(0).faulted);
    CHECK(bench.log.done.at(0).end == 110 + 1500 + 100);
    CHECK(bench.stat("ctas_launched") == 2 + 2 + 2);
    CHECK(bench.log.sent.size() == 4);
    CHECK(bench.stat("resumed") == (back == 1 ? 1 : 0));
  }
}

TEST_CASE("an evicted task says that it waits for a slot, and who has them", "[cwd][task][TSK-03]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(1));
  bench.observation.labels.set(0, "low");
  bench.observation.labels.set(1, "high");
  bench.tasks.submit(0, CwdBench::task(0, 4, kOne));
  bench.tasks.submit(1, CwdBench::task(1, 1, kOne, 1));
  bench.tasks.evict(300, 0);
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t operation, std::uint64_t index) {
      return operation == 0 && index == 0 ? Cycle{500} : Cycle{5000};
    };
  });
  run_to(2000);  // the second CTA of "low" runs, and that of "high"
  const std::vector<std::string> chain = waits_of(bench);
  CAPTURE(chain);
  const auto says = [&chain](const std::string& text) {
    return std::any_of(chain.begin(), chain.end(), [&](const std::string& line) { return line.find(text) == 0; });
  };
  CHECK(says("low waits: for a slot of the task table, from which it was evicted"));
  CHECK(says("high waits: for the end of 1 of its CTAs"));
  finish(bench);
}

TEST_CASE("a reset forgets evicted tasks", "[cwd][task][TSK-03]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(1));
  bench.tasks.submit(0, CwdBench::task(0, 10, kOne));
  bench.tasks.evict(300, 0);
  bench.tasks.back = [](std::uint32_t) { return Cycle{100'000}; };
  all_run_for(bench, 600);
  run_to(2000);
  CHECK_FALSE(bench.cwd.quiescent());
  bench.domain.reset();
  bench.log = {};
  REQUIRE(bench.cwd.quiescent());
  bench.tasks.submit(bench.domain.now(), CwdBench::task(0, 4, kOne));
  finish(bench);
  launches_of(bench, 0, 4);
}

// The machine and the task table are full of older tasks of lower priority, none of which lets another pass.
TEST_CASE("an urgent task starts with the first release after its arrival", "[cwd][task][TSK-03]") {
  std::uint32_t evictions = 0;
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t slots = random.between(1, 5);
    CwdParams params = plain(slots);
    params.gpc_queue = 1000;  // short CTAs would wait for credits of the launch port otherwise
    if (random.chance(50)) params.active_pool = random.between(1, 4);
    if (random.chance(50)) params.pending_pool = random.between(1, 4);
    const std::uint32_t gpcs = random.between(1, 3);
    CwdBench bench(Shape::from_sms_per_gpc(std::vector<std::uint32_t>(gpcs, 2)), params, capacity(2));
    Random draw(seed + 999);
    const std::uint32_t longest = random.between(50, 3000);
    std::vector<Cycle> ends;  // of CTAs, as the distributor hears of them
    bench.all_gpcs([&](auto& gpc) {
      gpc.duration = [&](std::uint32_t, std::uint64_t) {
        const Cycle run = draw.between(1, longest);
        ends.push_back(bench.domain.now() + run + 100);
        return run;
      };
    });
    for (std::uint32_t operation = 0; operation < slots; ++operation) {
      bench.tasks.submit(operation, CwdBench::task(operation, 300, kOne, -static_cast<std::int32_t>(operation % 3)));
    }
    const Cycle arrival = random.between(1000, 6000);
    const std::uint32_t least = slots >= 3 ? 2 : slots - 1;
    bench.tasks.submit(arrival, CwdBench::task(50, 5, kOne, 1));
    bench.tasks.evict(arrival, least);
    finish(bench);
    REQUIRE(bench.log.done.size() == slots + 1);
    REQUIRE(bench.log.evicted.size() == 1);
    evictions += bench.log.evicted[0].packet.evicted ? 1 : 0;
    Cycle there = 0;
    for (const LoggedTask& sent : bench.log.sent) there = sent.packet.operation == 50 ? sent.cycle : there;
    if (bench.log.evicted[0].packet.evicted) REQUIRE(there <= arrival + 10);  // at most a session later
    Cycle release = ~Cycle{0};
    for (const Cycle end : ends) release = end > there ? std::min(release, end) : release;
    CAPTURE(there, arrival, release, slots);
    // The session that is under way, and its own.
    REQUIRE(bench.log.done.at(50).start <= release + 2 * 10);
    for (std::uint32_t operation = 0; operation < slots; ++operation) launches_of(bench, operation, 300);
  }
  CHECK(evictions > 150);
}

}  // namespace cwd_evict_test
