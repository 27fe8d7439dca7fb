// Task management: kernels of the packet processor, which come without a stream.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/observation.h"
#include "support/random.h"
#include "task/task_bench.h"

namespace heddle::test::task_dispatch_test {
namespace {

using protocol::DispatchDonePacket;
using protocol::DispatchPacket;
using protocol::DoneStatus;
using protocol::kDispatchBit;
using protocol::SubmitPacket;
using protocol::TaskDonePacket;
using task::TaskParams;

DispatchPacket dispatch(std::uint32_t number, std::int32_t priority = 0) {
  DispatchPacket packet;
  packet.operation = kDispatchBit | number;
  packet.priority = priority;
  packet.queue = number;  // of its own
  packet.kernel.grid = {4, 1, 1};
  packet.kernel.block = {64, 1, 1};
  packet.kernel.duration = {100, 100};
  return packet;
}

std::vector<std::uint32_t> operations(const FakeCwd& cwd) {
  std::vector<std::uint32_t> result;
  for (const protocol::TaskPacket& task : cwd.tasks) result.push_back(task.operation);
  return result;
}

std::vector<std::string> waits_of(const TaskBench& bench) {
  WaitGraph graph;
  bench.unit.collect_waits(graph);
  return graph.chain();
}

}  // namespace

TEST_CASE("a dispatch starts without the gap of a stream, and is answered with its cycles", "[task]") {
  TaskBench bench;
  bench.packets.send(10, dispatch(0));
  bench.packets.send(150, dispatch(1));  // the first has just ended: no gap
  run_until_idle();
  REQUIRE(bench.packets.results.size() == 2);
  const DispatchDonePacket& first = bench.packets.results[0].done;
  CHECK(first.operation == kDispatchBit);
  CHECK(first.status == DoneStatus::ok);
  CHECK(first.start == 10 + kStartPath);
  CHECK(first.end == 10 + kStartPath + 100);
  CHECK(bench.packets.results[0].arrived == first.end + 20);
  CHECK(bench.packets.results[1].done.start == 150 + kStartPath);
  CHECK(bench.stat("dispatches") == 2);
  CHECK(bench.stat("kernels") == 2);
  CHECK(bench.stat("submitted") == 0);
  const auto stats = bench.observation.stats.to_json();
  CHECK(stats.at("gpu0.task.launch_latency.count").at("value") == 2);
  CHECK(stats.at("gpu0.task.launch_latency.max").at("value") == kStartPath);
  CHECK(stats.at("gpu0.task.queue_time.min").at("value") == kStartPath);
  CHECK(bench.host.results.empty());
}

TEST_CASE("a dispatch carries what the distributor needs", "[task]") {
  TaskBench bench;
  DispatchPacket packet = dispatch(5, -3);
  packet.kernel.grid = {5, 6, 7};
  packet.kernel.block = {100, 2, 1};
  packet.kernel.registers_per_thread = 40;
  packet.kernel.shared_bytes = 1000;
  packet.kernel.local_bytes = 8;
  packet.kernel.subcontext = 9;
  packet.kernel.code = 77;
  packet.kernel.cluster.of(arch::CgaLevel::gpc) = {5, 1, 1};
  bench.packets.send(0, packet);
  run_until_idle();
  REQUIRE(bench.cwd.tasks.size() == 1);
  const protocol::TaskPacket& task = bench.cwd.tasks[0];
  CHECK(task.operation == (kDispatchBit | 5));
  CHECK(task.priority == -3);
  CHECK(task.grid == arch::Dim3{5, 6, 7});
  CHECK(task.need == arch::ResourceVector{{7, 224, 10'240, 2048, 1, 16}});
  CHECK(task.cluster.of(arch::CgaLevel::gpc) == arch::Dim3{5, 1, 1});
  CHECK(task.local_memory());
  CHECK(task.subcontext == 9);
  CHECK(task.code == 77);
}

TEST_CASE("dispatches and operations of one priority go in the order of their arrival", "[task][TSK-02]") {
  TaskBench bench(1);  // a task table of one slot
  const auto kernel = [](std::uint32_t operation, std::int32_t priority) {
    SubmitPacket packet = kernel_packet(operation, operation, {4, 1, 1}, {64, 1, 1});
    packet.priority = priority;
    return packet;
  };
  bench.packets.send(0, dispatch(0));
  // The host's packets take a cycle.
  bench.host.submit(9, kernel(1, 0));
  bench.packets.send(20, dispatch(2));
  bench.packets.send(30, dispatch(3, 1));
  bench.host.submit(39, kernel(4, 1));
  bench.host.submit(49, kernel(5, 0));
  bench.packets.send(60, dispatch(6, 2));
  bench.packets.send(70, dispatch(7, -1));
  run_until_idle();
  const std::uint32_t d = kDispatchBit;
  CHECK(operations(bench.cwd) == std::vector<std::uint32_t>{d | 0, d | 6, d | 3, 4, 1, d | 2, 5, d | 7});
  CHECK(bench.cwd.most_held == 1);
  CHECK(bench.packets.results.size() == 5);
  CHECK(bench.host.results.size() == 3);
}

TEST_CASE("what can never run is rejected at once, and takes no slot", "[task]") {
  TaskBench bench;
  DispatchPacket large = dispatch(0);
  large.kernel.shared_bytes = 300'000;
  bench.packets.send(7, large);
  run_until_idle();
  REQUIRE(bench.packets.results.size() == 1);
  CHECK(bench.packets.results[0].done.status == DoneStatus::rejected);
  CHECK(bench.packets.results[0].done.start == 7);
  CHECK(bench.packets.results[0].done.end == 7);
  CHECK(bench.packets.results[0].arrived == 7);
  CHECK(bench.cwd.tasks.empty());
  CHECK(bench.stat("rejected") == 1);
  CHECK(bench.stat("kernels") == 0);
  CHECK(bench.unit.open() == 0);
}

TEST_CASE("a distributor's refusal and a fault come back", "[task]") {
  TaskBench bench;
  bench.cwd.on_done = [](TaskDonePacket& done) {
    done.rejected = done.operation == (kDispatchBit | 0);
    done.faulted = done.operation == (kDispatchBit | 1);
  };
  for (std::uint32_t i = 0; i < 3; ++i) bench.packets.send(i * 1000, dispatch(i));
  run_until_idle();
  REQUIRE(bench.packets.results.size() == 3);
  CHECK(bench.packets.results[0].done.status == DoneStatus::rejected);
  CHECK(bench.packets.results[1].done.status == DoneStatus::faulted);
  CHECK(bench.packets.results[2].done.status == DoneStatus::ok);
  CHECK(bench.stat("rejected") == 1);
  CHECK(bench.stat("faulted") == 1);
  CHECK(bench.stat("kernels") == 1);
  CHECK(bench.observation.stats.value("gpu0.task.launch_latency.count") == 2);
}

TEST_CASE("open dispatches are counted, and those in a list say what they wait for", "[task]") {
  TaskBench bench(1, {}, TimingMode::at, 1.0, 0);
  bench.observation.labels.set(kDispatchBit | 1, "queue 3: gemm");
  bench.packets.send(0, dispatch(0));
  bench.packets.send(1, dispatch(1));
  run_until(sc_core::sc_time(50, sc_core::SC_NS));
  CHECK(bench.unit.open() == 2);
  CHECK(bench.stat("open") == 2);
  const std::vector<std::string> waits = waits_of(bench);
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].find("queue 3: gemm") != std::string::npos);
  CHECK(waits[0].find("the task table") != std::string::npos);
  CHECK(waits[1].find("the task table waits: for a slot") == 0);
  run_until_idle();
  CHECK(bench.unit.open() == 0);
  CHECK(waits_of(bench).empty());
}

TEST_CASE("an id of the wrong side, or one that is in use, is an error of our own", "[task]") {
  SECTION("a dispatch with an id of the host's") {
    TaskBench bench;
    DispatchPacket packet = dispatch(1);
    packet.operation = 1;
    bench.packets.send(0, packet);
    CHECK(failure_of(run_until_idle).find("an id of the host's") != std::string::npos);
  }
  SECTION("an operation with an id of the packet processor's") {
    TaskBench bench;
    bench.host.submit(0, kernel_packet(kDispatchBit | 4, 1, {1, 1, 1}, {32, 1, 1}));
    CHECK(failure_of(run_until_idle).find("an id of the packet processor's") != std::string::npos);
  }
  SECTION("twice") {
    TaskBench bench;
    bench.packets.send(0, dispatch(1));
    bench.packets.send(1, dispatch(1));
    CHECK(failure_of(run_until_idle).find("used twice") != std::string::npos);
  }
}

TEST_CASE("a reset forgets dispatches, and their ids can be used again", "[task]") {
  for (const Cycle when : {5, 15, 40, 100, 149, 155, 400}) {
    CAPTURE(when);
    TaskBench bench(1, {}, TimingMode::at, 1.0, 0);
    for (std::uint32_t i = 0; i < 4; ++i) bench.packets.send(10, dispatch(i));
    run_until(sc_core::sc_time(static_cast<double>(when), sc_core::SC_NS));
    if (when == 40) CHECK(bench.stat("open") == 4);
    bench.domain.reset();
    CHECK(bench.stat("open") == 0);
    bench.packets.results.clear();
    CHECK(bench.unit.open() == 0);
    for (std::uint32_t i = 0; i < 4; ++i) bench.packets.send(10, dispatch(i));
    run_until_idle();
    REQUIRE(bench.packets.results.size() == 4);
    CHECK(bench.packets.results[0].done.start == 10 + kStartPath);
    CHECK(bench.packets.results[3].done.operation == (kDispatchBit | 3));
  }
}

// The oracle: of what has arrived and waits, the most urgent goes first, and of equals the first.
TEST_CASE("random dispatches and operations leave in the order of priority and arrival", "[task][TSK-02]") {
  for (const std::uint64_t seed : seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t slots = random.between(1, 3);
    TaskBench bench(slots, {}, random.chance(30) ? TimingMode::lt : TimingMode::at);
    Random delays(seed);
    bench.cwd.duration = [&delays](std::uint32_t) { return Cycle{delays.between(1, 2000)}; };
    struct Kernel {
      std::uint32_t operation;
      std::int32_t priority;
    };
    std::vector<Kernel> kernels;
    Cycle when = 0;
    const std::uint32_t count = random.between(1, 60);
    for (std::uint32_t i = 0; i < count; ++i) {
      when += random.between(1, 300);
      const auto priority = static_cast<std::int32_t>(random.below(3)) - 1;
      const bool direct = random.chance(50);
      kernels.push_back({direct ? kDispatchBit | i : i, priority});
      if (direct) {
        bench.packets.send(when, dispatch(i, priority));
      } else {
        SubmitPacket packet = kernel_packet(i, i, {4, 1, 1}, {64, 1, 1});
        packet.priority = priority;
        bench.host.submit(when - 1, packet);
      }
    }
    run_until_idle();
    REQUIRE(bench.cwd.tasks.size() == count);
    REQUIRE(bench.packets.results.size() + bench.host.results.size() == count);
    REQUIRE(bench.cwd.most_held <= slots);
    std::map<std::uint32_t, std::size_t> place;
    for (std::size_t i = 0; i < count; ++i) place[bench.cwd.tasks[i].operation] = i;
    // Within a priority nobody overtakes.
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j) {
        if (kernels[i].priority == kernels[j].priority) {
          REQUIRE(place.at(kernels[i].operation) < place.at(kernels[j].operation));
        }
      }
    }
  }
}

}  // namespace heddle::test::task_dispatch_test
