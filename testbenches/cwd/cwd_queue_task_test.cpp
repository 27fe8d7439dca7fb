// Queue tasks, which grow while they run, and saved CTAs that are restored.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/plain_cwd.h"
#include "support/random.h"

namespace cwd_queue_task_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::protocol::IdlePacket;
using heddle::protocol::TaskKind;
using heddle::protocol::TaskPacket;

namespace {

CwdParams plain(std::uint32_t table_slots = 4) { return plain_cwd(table_slots); }

TaskPacket queue_task(std::uint32_t operation, std::int32_t priority = 0) {
  TaskPacket task = CwdBench::task(operation, 1, kOne, priority);
  task.kind = TaskKind::queue;
  return task;
}

TaskPacket restored(std::uint32_t operation, std::uint32_t runs_as, std::uint64_t index) {
  TaskPacket task = CwdBench::task(operation, 1, kOne);
  task.kind = TaskKind::restore;
  task.runs_as = runs_as;
  task.id.cta = {static_cast<std::uint32_t>(index), 0, 0};
  task.id.index = index;
  task.area = 0x4000 + index * 0x100;
  task.record = 0x800;
  return task;
}

void all_run_for(CwdBench& bench, Cycle cycles) {
  bench.all_gpcs([cycles](auto& gpc) { gpc.duration = [cycles](std::uint32_t, std::uint64_t) { return cycles; }; });
}

void finish(CwdBench& bench) {
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.cwd.quiescent());
  REQUIRE(bench.tasks.task_out.outstanding() == 0);
}

std::vector<LoggedLaunch> launches_of(const CwdBench& bench, std::uint32_t operation) {
  std::vector<LoggedLaunch> result;
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation == operation) result.push_back(launch);
  }
  return result;
}

}  // namespace

TEST_CASE("a queue task launches entries as they arrive, and ends after the last", "[cwd][task][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(4));
  bench.tasks.submit(0, queue_task(0));
  bench.tasks.grow(100, {0, 3, false});
  bench.tasks.grow(1000, {0, 2, false});
  bench.tasks.grow(1005, {0, 4, false});  // the session of the two is under way
  bench.tasks.grow(5000, {0, 0, true});
  all_run_for(bench, 300);
  finish(bench);
  const std::vector<LoggedLaunch> launches = launches_of(bench, 0);
  std::uint64_t ticket = 0;
  std::map<Cycle, std::uint32_t> arrived;
  for (const LoggedLaunch& launch : launches) {
    CHECK(launch.packet.queue);
    CHECK(launch.position == ticket);
    CHECK(launch.packet.shape.grid.x == 0x7FFF'FFFF);
    ticket += launch.packet.num_ctas;
    arrived[launch.cycle] += launch.packet.num_ctas;
  }
  CHECK(arrived == std::map<Cycle, std::uint32_t>{{210, 3}, {1110, 2}, {1120, 4}});
  std::vector<std::pair<Cycle, std::uint64_t>> idle;
  for (const LoggedIdle& one : bench.log.idle) idle.emplace_back(one.cycle, one.packet.completed);
  CHECK(idle == std::vector<std::pair<Cycle, std::uint64_t>>{{7, 0}, {210 + 300 + 100 + 7, 3}, {1120 + 400 + 7, 9}});
  CHECK(bench.log.done.at(0).end == 5000);
  CHECK(bench.log.done.at(0).start == 110);
  CHECK(bench.stat("queue_entries") == 9);
}

TEST_CASE("a queue task whose last entry runs ends with it", "[cwd][task][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(4));
  bench.tasks.submit(0, queue_task(0));
  bench.tasks.grow(100, {0, 3, true});
  all_run_for(bench, 300);
  finish(bench);
  CHECK(bench.log.done.at(0).end == 610);
  CHECK(bench.log.idle.size() == 1);  // before the first entry; afterwards there was nothing to ask
}

TEST_CASE("a queue that was never used ends without a launch", "[cwd][task][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(4));
  bench.tasks.when_idle = [&](const IdlePacket& idle) { bench.tasks.grow(50, {idle.operation, 0, true}); };
  bench.tasks.submit(0, queue_task(0));
  finish(bench);
  CHECK(bench.log.launches.empty());
  CHECK(bench.log.done.at(0).end == 50);
  CHECK(bench.log.done.at(0).start == 50);
}

TEST_CASE("an empty queue holds up nobody behind it", "[cwd][task][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(4));  // without backfill
  bench.tasks.submit(0, queue_task(0, 5));
  bench.tasks.grow(0, {0, 2, false});
  bench.tasks.submit(10, CwdBench::task(1, 4, kOne, 0));
  bench.tasks.submit(500, queue_task(2, 9));
  bench.tasks.submit(2000, CwdBench::task(3, 4, kOne, 0));
  bench.tasks.grow(9000, {0, 0, true});
  bench.tasks.grow(9000, {2, 0, true});
  all_run_for(bench, 300);
  finish(bench);
  CHECK(launches_of(bench, 1).at(0).cycle == 120);
  CHECK(launches_of(bench, 3).at(0).cycle == 2110);
  CHECK(bench.stat("no_slot_cycles") == 0);
}

TEST_CASE("entries of an urgent queue go before a grid's CTAs", "[cwd][task][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({1}), plain(), capacity(1));
  bench.tasks.submit(0, queue_task(0, 5));
  bench.tasks.submit(10, CwdBench::task(1, 10, kOne, 0));
  bench.tasks.grow(700, {0, 2, true});
  all_run_for(bench, 300);
  finish(bench);
  std::vector<std::uint32_t> order;
  for (const LoggedLaunch& launch : bench.log.launches) order.push_back(launch.packet.operation);
  CHECK(order == std::vector<std::uint32_t>{1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("queue tasks are evicted and grow meanwhile", "[cwd][task][TSK-03][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({1}), plain(1), capacity(2));
  bench.tasks.back = [](std::uint32_t operation) { return operation == 0 ? Cycle{3000} : Cycle{1}; };
  bench.tasks.submit(0, queue_task(0));
  bench.tasks.grow(0, {0, 1, false});
  bench.tasks.evict(1000, 0);             // its queue is empty, but not closed: it is to come back
  bench.tasks.grow(2000, {0, 2, false});  // for later
  bench.tasks.submit(2500, queue_task(1));
  bench.tasks.evict(2600, 1);
  bench.tasks.grow(2700, {1, 0, true});  // closed before it is back in the table
  bench.tasks.grow(9000, {0, 0, true});
  all_run_for(bench, 300);
  finish(bench);
  REQUIRE(bench.log.evicted.size() == 2);
  CHECK(bench.log.evicted[0].packet.remainder);
  const std::vector<LoggedLaunch> launches = launches_of(bench, 0);
  REQUIRE(launches.size() == 3);
  CHECK(launches[1].cycle == 4007 + 110);
  CHECK(launches[1].position == 1);
  CHECK(launches[2].position == 2);
  CHECK(bench.log.done.at(1).end == 2700);
  CHECK(bench.log.done.at(0).end == 9000);
}

TEST_CASE("a fault ends a queue task, whatever still arrives", "[cwd][task][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(1));
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t, std::uint64_t index) { return 300 + 500 * Cycle{index % 2}; };
    gpc.faults = [](std::uint32_t, std::uint64_t index) { return index == 2; };
  });
  bench.tasks.submit(0, queue_task(0));
  bench.tasks.grow(0, {0, 100, false});
  for (Cycle cycle = 100; cycle < 4000; cycle += 100) bench.tasks.grow(cycle, {0, 1, false});
  finish(bench);
  CHECK(bench.log.done.at(0).faulted);
  CHECK(bench.log.done.at(0).end < 2500);
  CHECK(bench.stat("ctas_launched") < 6);
  CHECK(bench.log.aborted.size() == 1);
}

TEST_CASE("a queue task that an entry will never come to is aborted, wherever it is", "[cwd][task][TSK-05]") {
  const bool evicted = GENERATE(false, true);
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(1), capacity(1));
  bench.tasks.back = [](std::uint32_t) { return Cycle{50'000}; };
  bench.tasks.submit(0, queue_task(0));
  bench.tasks.grow(0, {0, 3, false});
  if (evicted) bench.tasks.evict(1000, 0);
  bench.tasks.grow(2000, {0, 0, true, true});
  bench.tasks.grow(2001, {0, 5, false});
  bench.tasks.grow(2002, {0, 0, true, true});
  all_run_for(bench, 300);
  run_until(sc_core::sc_time(20, sc_core::SC_US));
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.log.done.count(0) == 1);
  CHECK(bench.log.done.at(0).faulted);
  CHECK(bench.log.done.at(0).end < 2500);
  CHECK(bench.stat("ctas_launched") == 3);
  CHECK(bench.cwd.quiescent());
}

TEST_CASE("a queue task of clusters can never run", "[cwd][task][TSK-05][CWD-25]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(4));
  TaskPacket task = queue_task(0);
  task.cluster.of(heddle::arch::CgaLevel::gpc) = {1, 1, 1};
  bench.tasks.submit(0, task);
  finish(bench);
  CHECK(bench.log.done.at(0).rejected);
}

TEST_CASE("an empty queue tells what it waits for", "[cwd][task][TSK-05]") {
  CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(4));
  bench.observation.labels.set(0, "worker");
  bench.tasks.submit(0, queue_task(0));
  run_until_idle();
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  REQUIRE(graph.size() == 1);
  CHECK(graph.chain().at(0).find("worker waits: for more entries") == 0);
}

TEST_CASE("queues of any growth lose no entry", "[cwd][task][TSK-05]") {
  std::uint32_t in_session = 0;
  for (const std::uint64_t seed : seeds(500)) {
    CAPTURE(seed);
    Random random(seed);
    CwdParams params = plain(random.between(1, 3));
    params.session_pipeline = random.between(0, 200);
    params.session_limit = random.between(1, 10);
    params.gpc_distance = random.below(100);
    params.central_raster = random.chance(20);
    params.active_pool = random.below(3);
    const TimingMode mode = random.chance(20) ? TimingMode::lt : TimingMode::at;
    CwdBench bench(Shape::from_sms_per_gpc({2, 2}), params, capacity(2), mode);
    Random draw(seed + 5);
    bench.all_gpcs([&](auto& gpc) { gpc.duration = [&](std::uint32_t, std::uint64_t) { return draw.below(300); }; });
    std::map<std::uint32_t, std::uint64_t> entries;
    std::map<std::uint32_t, Cycle> close;
    const std::uint32_t tasks = random.between(1, 3);
    for (std::uint32_t operation = 0; operation < tasks; ++operation) {
      bench.tasks.submit(0, queue_task(operation, static_cast<std::int32_t>(random.below(2))));
      entries[operation] = 0;
      Cycle cycle = 20'000 * operation;  // a slot of the table may come late
      for (std::uint32_t i = random.below(12); i > 0; --i) {
        const std::uint64_t count = random.between(1, 6);
        cycle += random.below(400);
        bench.tasks.grow(cycle, {operation, count, false});
        entries[operation] += count;
      }
      close[operation] = cycle + random.below(1000);
      bench.tasks.grow(close[operation], {operation, 0, true});
      if (random.chance(50)) bench.tasks.evict(20'000 * operation + random.below(3000), operation);
    }
    finish(bench);
    std::map<std::uint32_t, std::uint64_t> ticket;
    for (const LoggedLaunch& launch : bench.launches_in_order()) {
      REQUIRE(launch.position == ticket[launch.packet.operation]);
      ticket[launch.packet.operation] += launch.packet.num_ctas;
      REQUIRE(launch.packet.id.has_value() == params.central_raster);
    }
    REQUIRE(bench.log.done.size() == tasks);
    std::map<std::uint32_t, std::uint64_t> last_idle;
    for (const LoggedIdle& idle : bench.log.idle) {
      REQUIRE(idle.packet.completed >= last_idle[idle.packet.operation]);
      last_idle[idle.packet.operation] = idle.packet.completed;
    }
    for (const auto& [operation, count] : entries) {
      REQUIRE(ticket[operation] == count);
      REQUIRE(bench.log.done.at(operation).end >= close[operation]);
      // All had completed before the end was said: then that was told.
      if (bench.log.done.at(operation).end == close[operation] && count > 0) {
        in_session += last_idle[operation] == count ? 1 : 0;
        if (mode == TimingMode::at) REQUIRE(last_idle[operation] == count);
      }
    }
  }
  CHECK(in_session > 100);
}

TEST_CASE("a saved CTA is launched with its own id, as the task that it belongs to", "[cwd][task][TSK-12]") {
  for (const bool central : {false, true}) {
    CwdParams params = plain();
    params.central_raster = central;
    CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(4));
    all_run_for(bench, 300);
    bench.tasks.submit(0, restored(70, 3, 41));
    finish(bench);
    REQUIRE(bench.log.launches.size() == 1);
    const auto& packet = bench.log.launches[0].packet;
    CHECK(packet.operation == 3);
    REQUIRE(packet.id.has_value());
    CHECK(packet.id->index == 41);
    CHECK(packet.id->cta.x == 41);
    CHECK(packet.area == 0x4000 + 41 * 0x100);
    CHECK(packet.record == 0x800);
    CHECK_FALSE(packet.queue);
    CHECK(bench.log.done.at(70).start == 10);
    CHECK(bench.log.done.at(70).end == 110 + 300 + 100);
    CHECK(bench.log.done.count(3) == 0);
    CHECK(bench.stat("restored") == 1);
  }
}

TEST_CASE("restored CTAs share their task's place in the pools", "[cwd][task][TSK-04][TSK-12]") {
  CwdParams params = plain(8);
  params.active_pool = 1;
  CwdBench bench(Shape::from_sms_per_gpc({2}), params, capacity(4));
  all_run_for(bench, 300);
  bench.tasks.submit(0, CwdBench::task(3, 2, kOne));
  bench.tasks.submit(0, restored(70, 3, 41));
  bench.tasks.submit(0, restored(71, 3, 42));
  bench.tasks.submit(0, restored(72, 4, 0));
  finish(bench);
  CHECK(launches_of(bench, 3).size() == 3);
  CHECK(launches_of(bench, 3).back().cycle < 200);
  CHECK(launches_of(bench, 4).at(0).cycle > 600);
}

TEST_CASE("a fault reaches a task and its restored CTAs alike", "[cwd][task][TSK-12]") {
  for (const bool restored_faults : {false, true}) {
    CAPTURE(restored_faults);
    CwdBench bench(Shape::from_sms_per_gpc({2}), plain(), capacity(1));
    bench.all_gpcs([&](auto& gpc) {
      gpc.duration = [](std::uint32_t, std::uint64_t index) { return Cycle{index == 0 || index == 41 ? 1000U : 500U}; };
      gpc.faults = [=](std::uint32_t operation, std::uint64_t index) {
        return operation == 3 && index == (restored_faults ? 41 : 1);
      };
    });
    // One SM has the restored CTA, which keeps its id, 41; the other runs the grid's from position 0 on.
    bench.tasks.submit(0, restored(70, 3, 41));
    bench.tasks.submit(10, CwdBench::task(3, 50, kOne));
    bench.tasks.submit(20, restored(71, 3, 42));  // not started when the fault comes: an SM will end it
    bench.tasks.submit(30, CwdBench::task(4, 4, kOne));
    finish(bench);
    CHECK(bench.log.done.at(3).faulted);
    CHECK(bench.log.done.at(71).faulted);
    CHECK(bench.log.done.at(70).faulted == restored_faults);
    CHECK_FALSE(bench.log.done.at(4).faulted);
    CHECK(bench.log.aborted.size() == 1);
    CHECK(bench.log.aborted.count({0, 3}) == 1);
    CHECK(launches_of(bench, 3).size() < 10);
    CHECK(bench.log.done.size() == 4);
  }
}

}  // namespace cwd_queue_task_test
