// Task management over its sockets: operations and streams.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random_program.h"
#include "task/task_bench.h"

namespace task_unit_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::protocol::DonePacket;
using heddle::protocol::DoneStatus;
using heddle::protocol::SubmitKind;
using heddle::protocol::SubmitPacket;
using heddle::protocol::TaskPacket;
using heddle::task::TaskParams;
using namespace heddle::test;

namespace {

SubmitPacket kernel(std::uint32_t operation, std::uint32_t stream, std::int32_t priority = 0) {
  SubmitPacket packet = kernel_packet(operation, stream, {4, 1, 1}, {64, 1, 1});
  packet.priority = priority;
  return packet;
}

}  // namespace

TEST_CASE("the gap of a stream is honoured exactly on an idle machine", "[task]") {
  TaskBench bench;
  bench.host.submit(10, kernel(0, 1));
  bench.host.submit(11, kernel(1, 1));
  bench.host.submit(12, hold_packet(2, 1, 500));
  bench.host.submit(13, kernel(3, 1));
  heddle::test::run_until_idle();
  REQUIRE(bench.host.order == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(bench.host.results.at(0).submitted == 11'000);
  CHECK(bench.start(0) == Approx(11 + 30));
  CHECK(bench.end(0) == Approx(11 + 30 + 100));
  CHECK(bench.start(1) == Approx(bench.end(0) + 1300));
  CHECK(bench.start(2) == Approx(bench.end(1) + 1300));
  CHECK(bench.end(2) == Approx(bench.start(2) + 500));
  CHECK(bench.start(3) == Approx(bench.end(2) + 1300));
  CHECK(bench.unit.open() == 0);
}

TEST_CASE("a gap shorter than the machine's own path costs nothing more", "[task]") {
  TaskParams params;
  params.stream_gap = 5;
  TaskBench bench(8, params);
  bench.host.submit(0, kernel(0, 1));
  bench.host.submit(0, kernel(1, 1));
  heddle::test::run_until_idle();
  CHECK(bench.start(1) == Approx(bench.end(0) + 20 + 30));  // back, and there
}

TEST_CASE("a kernel submitted after the gap starts at once", "[task]") {
  TaskBench bench;
  bench.host.submit(0, kernel(0, 1));
  bench.host.submit(50'000, kernel(1, 1));
  heddle::test::run_until_idle();
  CHECK(bench.start(1) == Approx(50'001 + 30));
}

TEST_CASE("streams run side by side, waits order them", "[task]") {
  TaskBench bench;
  bench.cwd.duration = [](std::uint32_t operation) { return operation == 0 ? Cycle{5000} : Cycle{100}; };
  bench.host.submit(0, kernel(0, 1));
  bench.host.submit(0, kernel(1, 2));
  bench.host.submit(0, wait_packet(2, 2, 0));
  bench.host.submit(0, kernel(2, 2));
  bench.host.submit(0, wait_packet(3, 3, 4));  // of an operation that is submitted much later
  bench.host.submit(0, kernel(3, 3));
  bench.host.submit(20'000, kernel(4, 4));
  heddle::test::run_until_idle();
  CHECK(bench.host.order == std::vector<std::uint32_t>{1, 0, 2, 4, 3});
  CHECK(bench.start(1) < bench.end(0));
  CHECK(bench.start(2) == Approx(bench.end(0) + 1300));
  CHECK(bench.start(3) == Approx(bench.end(4) + 1300));
}

TEST_CASE("a kernel that no SM can hold is rejected, and its stream goes on", "[task]") {
  TaskBench bench;
  SubmitPacket large = kernel(0, 1);
  large.kernel.shared_bytes = 300'000;
  SubmitPacket empty = kernel(1, 1);
  empty.kernel.grid.y = 0;
  bench.host.submit(0, large);
  bench.host.submit(0, empty);
  bench.host.submit(0, kernel(2, 1));
  bench.host.submit(0, wait_packet(3, 2, 0));
  bench.host.submit(0, kernel(3, 2));
  heddle::test::run_until_idle();
  CHECK(bench.host.results.at(0).status == DoneStatus::rejected);
  CHECK(bench.host.results.at(1).status == DoneStatus::rejected);
  CHECK(bench.host.results.at(2).status == DoneStatus::ok);
  CHECK(bench.host.results.at(3).status == DoneStatus::ok);
  CHECK(bench.stat("rejected") == 2);
  CHECK(bench.stat("kernels") == 2);
  CHECK(bench.cwd.tasks.size() == 2);
}

TEST_CASE("waiting tasks go by priority, then by turn", "[task][TSK-02]") {
  TaskBench bench(1);  // a task table of one slot
  for (std::uint32_t i = 0; i < 8; ++i) {
    bench.host.submit(i, kernel(i, i, i == 0 ? -9 : static_cast<std::int32_t>(i % 3)));
  }
  bench.host.submit(180, kernel(8, 8, 2));  // joins the list of its priority
  heddle::test::run_until_idle();
  CHECK(bench.host.order == std::vector<std::uint32_t>{0, 2, 5, 8, 1, 4, 7, 3, 6});
  CHECK(bench.cwd.most_held == 1);
}

TEST_CASE("a task carries what the distributor needs", "[task]") {
  TaskBench bench;
  SubmitPacket packet = kernel_packet(7, 1, {5, 6, 7}, {100, 2, 1}, {3, 9});
  packet.kernel.registers_per_thread = 40;
  packet.kernel.shared_bytes = 1000;
  packet.priority = -3;
  bench.host.submit(0, packet);
  heddle::test::run_until_idle();
  REQUIRE(bench.cwd.tasks.size() == 1);
  const TaskPacket& task = bench.cwd.tasks[0];
  CHECK(task.operation == 7);
  CHECK(task.priority == -3);
  CHECK(task.grid == heddle::arch::Dim3{5, 6, 7});
  CHECK(task.duration.min == 3);
  CHECK(task.duration.max == 9);
  // 200 threads: 7 warps; 1,280 registers per warp, for 8 warps; 2,024 bytes in steps of 128.
  CHECK(task.need == heddle::arch::ResourceVector{{7, 224, 10'240, 2048, 1, 16}});
}

TEST_CASE("random programs keep the order of streams and waits", "[task]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    ProgramLimits limits;
    limits.operations = random.between(1, 50);
    limits.streams = random.between(1, 8);
    limits.oversized = true;
    const Program program = random_program(random, limits);
    TaskParams params;
    params.stream_gap = random.below(2000);
    params.to_cwd = random.between(0, kStartPath);
    const TimingMode mode = random.chance(30) ? TimingMode::lt : TimingMode::at;
    const std::uint32_t slots = random.between(1, 4);
    TaskBench bench(slots, params, mode, 1.0, random.chance(50) ? 0 : 1024);
    Random delays(seed);
    bench.cwd.duration = [&delays](std::uint32_t) { return Cycle{delays.below(3000)}; };
    Cycle when = 0;
    for (const SubmitPacket& packet : program.packets) bench.host.submit(when += random.below(200), packet);
    heddle::test::run_until_idle();

    REQUIRE(bench.host.problems == std::vector<std::string>{});
    REQUIRE(bench.host.results.size() == limits.operations);
    REQUIRE(bench.unit.open() == 0);
    REQUIRE(bench.cwd.most_held <= slots);
    const double gap = mode == TimingMode::at ? params.stream_gap : 0;
    for (const auto& [operation, before] : program.before) {
      const DonePacket& done = bench.host.results.at(operation);
      REQUIRE(done.start >= done.submitted);
      REQUIRE(done.end >= done.start);
      const bool rejected = done.status == DoneStatus::rejected;
      REQUIRE(rejected == (program.work.at(operation).kernel.block.count() > 1024));
      for (const std::uint32_t other : before) {
        // What is rejected is so where it would have been sent: the way to the distributor is not taken.
        const double path = rejected && mode == TimingMode::at ? std::min<double>(kStartPath, gap) : 0;
        REQUIRE(bench.start(operation) >= bench.end(other) + gap - path - 1e-6);
      }
      if (program.work.at(operation).kind == SubmitKind::hold) {
        REQUIRE(bench.end(operation) - bench.start(operation) ==
                Approx(program.work.at(operation).hold_ns).margin(1e-6));
      }
    }
    heddle::WaitGraph waits;
    bench.domain.collect_waits(waits);
    REQUIRE(waits.empty());
  }
}

TEST_CASE("a reset task unit runs the same ids again, at the same times", "[task]") {
  const auto feed = [](TaskBench& bench, Cycle origin) {
    Random random(5);
    const Program program = random_program(random, {});
    Cycle when = origin;
    for (const SubmitPacket& packet : program.packets) {
      bench.host.submit_until_forgotten(when += random.below(100), packet);
    }
  };
  std::map<std::uint32_t, std::pair<double, double>> fresh;
  {
    TaskBench bench(2, {}, TimingMode::at, 1.755);
    feed(bench, 0);
    heddle::test::run_until_idle();
    for (const auto& [operation, done] : bench.host.results)
      fresh[operation] = {bench.start(operation), bench.end(operation)};
    REQUIRE(fresh.size() == 30);
  }
  for (const std::uint64_t seed : heddle::test::seeds(40)) {
    CAPTURE(seed);
    const Cycle when = Random(seed).between(1, 40'000);
    TaskBench bench(2, {}, TimingMode::at, 1.755);
    feed(bench, 0);
    bench.host.at(when, [&] {
      bench.domain.reset();
      bench.observation.stats.clear();
      bench.host.forget();
      feed(bench, when);
    });
    heddle::test::run_until_idle();
    REQUIRE(bench.host.problems == std::vector<std::string>{});
    REQUIRE(bench.host.results.size() == fresh.size());
    for (const auto& [operation, times] : fresh) {
      CHECK(bench.start(operation) - static_cast<double>(when) == Approx(times.first).margin(1e-4));
      CHECK(bench.end(operation) - static_cast<double>(when) == Approx(times.second).margin(1e-4));
    }
    CHECK(bench.stat("submitted") == 30);
  }
}

}  // namespace task_unit_test
