// Task management without its sockets, on a time base of the test's own: what the parts do together, to the cycle.
#include "task/task_manager.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/byte_codec.h"
#include "common/timebase.h"
#include "support/random.h"
#include "task/launch_world.h"
#include "task/plain_task_bench.h"

namespace heddle::test::task_manager_test {
namespace {

using protocol::ChildPacket;
using protocol::DonePacket;
using protocol::DoneStatus;
using protocol::SubmitKind;
using protocol::SubmitPacket;
using protocol::TaskPacket;
using task::ChainAnswer;
using task::RecordLine;

}  // namespace

TEST_CASE("operations of a stream are a gap apart, without a simulation", "[task]") {
  PlainBench bench(8);
  SubmitPacket hold = kernel(1, 1);
  hold.kind = SubmitKind::hold;
  hold.hold_ns = 500;
  bench.submit(10, kernel(0, 1));
  bench.submit(11, hold);
  bench.submit(12, kernel(2, 1));
  bench.submit(13, kernel(3, 2));
  bench.timebase.run();
  REQUIRE(bench.order == std::vector<std::uint32_t>{0, 3, 1, 2});
  const auto start = [&](std::uint32_t operation) { return bench.results.at(operation).start / 1000; };
  const auto end = [&](std::uint32_t operation) { return bench.results.at(operation).end / 1000; };
  CHECK(start(0) == 10);
  CHECK(start(1) == end(0) + 1300);
  CHECK(end(1) == start(1) + 500);
  CHECK(start(2) == end(1) + 1300 - PlainBench::kStartPath);  // the rest is the distributor's
  CHECK(start(3) == 13);
  CHECK(bench.unit.open() == 0);
}

TEST_CASE("a child behind another starts with its end, and the last one wakes the warps that wait", "[task][TSK-10]") {
  constexpr std::uint64_t kObject = 0x1000;
  constexpr std::uint64_t kParent = 0x2000;
  constexpr std::uint64_t kContext = 0x3000;
  namespace tmd = arch::tmd;
  namespace context = arch::context;
  PlainBench bench(1);
  arch::KernelObject object;
  object.duration = {100, 100};
  object.name = "leaf";
  RecordLine encoded{};
  const auto bytes = arch::encode(object);
  std::copy(bytes.begin(), bytes.end(), encoded.begin());
  bench.memory.write(kObject, encoded);
  bench.memory.put(kParent + tmd::kOpen, 2);
  bench.memory.put(kContext + context::kWork, 3 + arch::kWorkWaiter);
  bench.memory.put(kContext + context::kOwner, kParent);
  bench.memory.put(kContext + context::kHome, arch::home_of_sm(1));
  const arch::RecordPool& pool = bench.place.memory.tasks.pool;
  const std::uint64_t first = pool.record(0);
  const std::uint64_t second = pool.record(1);
  bench.memory.put(pool.base + arch::ring::kTaken, 2);
  bench.memory.put(pool.base + arch::ring::kUsed, 2);
  for (const std::uint64_t record : {first, second}) {
    RecordLine line{};
    arch::put_number(line, tmd::kContext, 8, kContext);
    arch::put_number(line, tmd::kKernel, 8, kObject);
    arch::put_number(line, tmd::kGridX, 4, 1);
    for (const std::uint32_t extent : {tmd::kGridY, tmd::kGridZ}) arch::put_number(line, extent, 2, 1);
    arch::put_number(line, tmd::kOpen, 8, 1);
    bench.memory.write(record, line);
  }
  bench.memory.put(first + tmd::kNext, second);
  bench.memory.put(kContext + context::kTmdqs, second);
  std::vector<Cycle> starts;
  bench.work = [&](const TaskPacket&) {
    starts.push_back(bench.timebase.now());
    return Cycle{100};
  };
  bench.at(200, [&] { bench.unit.on_child({ChildPacket::Kind::start, first, 0, 190}, 0); });
  bench.timebase.run();
  REQUIRE(bench.sent.size() == 2);
  CHECK(bench.sent[0].record == first);
  CHECK(bench.sent[1].record == second);
  const Cycle scheduler = bench.params.nested.schedule_cycles;
  // A start reads the TMD, the kernel object and the parent.
  const Cycle read = scheduler + 3 * PlainBench::kMemory;
  CHECK(starts[0] == 200 + read);
  // An end counts down what is open, reads the TMD, and finds the next one behind the last-task pointer.
  CHECK(starts[1] == starts[0] + 100 + scheduler + 4 * PlainBench::kMemory + read);
  CHECK(bench.woken == std::vector<std::pair<std::uint64_t, std::uint32_t>>{{kContext, 1}});
  CHECK(bench.memory.get(pool.base + arch::ring::kGiven) == 2);
  CHECK(bench.memory.get(pool.base + arch::ring::kUsed) == 0);
  CHECK(bench.memory.get(kContext + context::kTmdqs) == 0);
  CHECK(bench.unit.launches_idle());
}

TEST_CASE("a subcontext that the host has named finds a slot beside any number of tasks of another", "[task][PRT-02]") {
  const bool partitioned = GENERATE(false, true);
  PlainBench bench(16, TimingMode::at, partitioned);
  bench.work = [](const TaskPacket& packet) { return Cycle{packet.operation < 100 ? 50'000U : 100U}; };
  for (const std::uint8_t subcontext : {std::uint8_t{1}, std::uint8_t{2}}) {
    protocol::SubcontextPacket share;
    share.what = protocol::SubcontextPacket::What::credits;
    share.subcontext = subcontext;
    share.value = 4;
    bench.at(0, [&bench, share] { bench.unit.dispatcher().on_share(share); });
  }
  for (std::uint32_t i = 0; i < 100; ++i) {
    SubmitPacket hog = kernel(i, i, 5);  // more urgent, even
    hog.kernel.subcontext = 1;
    bench.submit(10, hog);
  }
  // As many as its share at once, in its order; the next one when one of them has ended.
  for (std::uint32_t i = 0; i < 9; ++i) {
    SubmitPacket victim = kernel(100 + i, 200 + i);
    victim.kernel.subcontext = 2;
    bench.submit(1000, victim);
  }
  bench.timebase.run();
  REQUIRE(bench.results.size() == 109);
  for (std::uint32_t i = 0; i < 9; ++i) {
    const Cycle start = bench.results.at(100 + i).start / 1000;
    if (partitioned) {
      CHECK(start == (i < 8 ? 1000 : 1100));
    } else {
      CHECK(start > 50'000);
    }
  }
  CHECK(bench.evictions == 0);
  // The hog has what is left, and nothing more while the victim has work; slots that nobody needs stay kept.
  std::uint32_t first = 0;
  for (const auto& [operation, result] : bench.results) first += operation < 100 && result.start / 1000 < 1000 ? 1 : 0;
  CHECK(first == (partitioned ? 8 : 16));
}

TEST_CASE("who is urgent takes slots of its own subcontext, or of one beyond its share", "[task][PRT-02][TSK-03]") {
  PlainBench bench(8, TimingMode::at, true);
  bench.work = [](const TaskPacket&) { return Cycle{50'000}; };
  for (std::uint32_t i = 0; i < 8; ++i) {
    SubmitPacket old = kernel(i, i);
    old.kernel.subcontext = 1;
    bench.submit(10, old);  // all slots: nobody else is known
  }
  for (std::uint32_t i = 0; i < 6; ++i) {
    SubmitPacket urgent = kernel(10 + i, 10 + i, 9);
    urgent.kernel.subcontext = 2;
    bench.submit(1000, urgent);
  }
  // Less urgent than what subcontext 2 has.
  SubmitPacket last = kernel(20, 20, 5);
  last.kernel.subcontext = 1;
  bench.submit(2000, last);
  bench.timebase.run();
  REQUIRE(bench.results.size() == 15);
  std::uint32_t at_once = 0;
  for (std::uint32_t i = 0; i < 6; ++i) at_once += bench.results.at(10 + i).start / 1000 == 1000 ? 1 : 0;
  CHECK(at_once == 4);
  CHECK(bench.results.at(20).start / 1000 == 2000);  // in place of one of its own
  CHECK(bench.evictions == 5);
}

// On that way its record is read, or how far it had come: nobody can be asked for the slot meanwhile.
TEST_CASE("who is urgent waits for no task that was on its way to the last slot", "[task][TSK-03][TSK-16]") {
  task::TaskParams params;
  params.host_records = GENERATE(true, false);
  params.list_take = GENERATE(0U, 300U);
  constexpr Cycle kLong = 1'000'000;
  for (Cycle arrival = 10; arrival < 4000; arrival += 13) {
    CAPTURE(arrival);
    PlainBench bench(1, TimingMode::at, false, params);
    bench.work = [](const TaskPacket& packet) { return packet.operation == 0 ? kLong : Cycle{50}; };
    // The second comes as the first is sent, or runs; the third as the first runs, leaves or comes back.
    bench.submit(10, kernel(0, 0));
    bench.submit(arrival, kernel(1, 1, 5));
    bench.submit(5000, kernel(2, 2, 5));
    bench.submit(5000 + arrival, kernel(3, 3, 5));
    bench.timebase.run();
    REQUIRE(bench.results.size() == 4);
    REQUIRE(bench.results.at(1).start / 1000 < arrival + 3000);
    REQUIRE(bench.results.at(2).start / 1000 < 5000 + 3000);
    REQUIRE(bench.results.at(3).start / 1000 < 5000 + arrival + 3000);
    REQUIRE(bench.worked.at(0) == kLong);
  }
}

TEST_CASE("random operations with eviction, without a simulation: all are done once, and the same again after a reset",
          "[task][TSK-03]") {
  std::uint32_t evictions = 0;
  std::uint32_t in_vain = 0;
  double list_waits = 0;
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    task::TaskParams params;
    if (random.chance(70)) params.list_entries = random.between(1, 4);
    if (random.chance(50)) params.list_insert = random.below(30);
    if (random.chance(50)) params.list_take = random.below(30);
    params.host_records = random.chance(50);
    PlainBench bench(random.between(1, 4), random.chance(30) ? TimingMode::lt : TimingMode::at, false, params);
    // Only what runs can fault.
    Random draw(seed + 1);
    bench.gone_after = [&draw](std::uint32_t) {
      return draw.chance(50) ? std::optional<Cycle>(draw.below(400)) : std::nullopt;
    };
    bench.progress = [&draw](std::uint32_t) { return protocol::TaskProgress{draw.below(4), 0, draw.below(100), {}}; };
    const std::uint32_t count = random.between(5, 40);
    std::map<std::uint32_t, Cycle> work;
    bench.work = [&](const TaskPacket& packet) { return work.at(packet.operation); };
    std::vector<std::pair<Cycle, SubmitPacket>> script;
    Cycle when = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      work[i] = random.between(1, 2000);
      SubmitPacket packet = kernel(i, random.below(count), static_cast<std::int32_t>(random.below(5)));
      packet.head = random.chance(20);
      script.emplace_back(when += random.below(300), packet);
    }
    const auto run = [&] {
      for (const auto& [cycle, packet] : script) bench.submit(cycle, packet);
      bench.timebase.run();
      REQUIRE(bench.results.size() == count);
      REQUIRE(bench.order.size() == count);
      REQUIRE(bench.unit.open() == 0);
      REQUIRE(bench.unit.launches_idle());
    };
    run();
    REQUIRE(bench.worked == work);
    in_vain += bench.in_vain;
    list_waits += bench.observation.stats.value("gpu0.task.list_waits");
    const std::uint64_t used = bench.memory.get(bench.place.memory.tasks.pool.base + arch::ring::kUsed);
    REQUIRE(used == 0);  // all records are back
    const std::vector<std::uint32_t> order = bench.order;
    evictions += bench.evictions;
    bench.reset();
    draw = Random(seed + 1);
    for (const auto& [cycle, packet] : script) bench.submit(cycle, packet);
    bench.timebase.run_until(script.back().first / 2);
    bench.reset();  // in the middle
    draw = Random(seed + 1);
    run();
    REQUIRE(bench.order == order);
  }
  CHECK(evictions > 100);
  CHECK(in_vain > 0);
  CHECK(list_waits > 500);
}

TEST_CASE("a fault ends an evicted task at any time: it is done once, and all slots and records are back",
          "[task][TSK-03]") {
  std::uint32_t faults = 0;
  std::uint32_t in_vain = 0;
  for (const std::uint64_t seed : seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    task::TaskParams params;
    params.list_entries = random.between(1, 6);
    params.list_insert = random.below(60);
    params.list_take = random.below(60);
    params.host_records = random.chance(50);
    PlainBench bench(random.between(1, 3), TimingMode::at, false, params);
    bench.gone_after = [&random](std::uint32_t) {
      return random.chance(30) ? std::optional<Cycle>(random.below(400)) : std::nullopt;
    };
    bench.fault_after = [&random](std::uint32_t) {
      return random.chance(50) ? std::optional<Cycle>(random.below(600)) : std::nullopt;
    };
    bench.work = [&random](const TaskPacket&) { return Cycle{random.between(1, 2000)}; };
    const std::uint32_t count = random.between(5, 30);
    Cycle when = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      bench.submit(when += random.below(400), kernel(i, i, static_cast<std::int32_t>(random.below(5))));
    }
    bench.timebase.run();
    REQUIRE(bench.results.size() == count);
    REQUIRE(bench.order.size() == count);
    REQUIRE(bench.unit.open() == 0);
    REQUIRE(bench.unit.launches_idle());
    const std::uint64_t ring = bench.place.memory.tasks.pool.base;
    REQUIRE(bench.memory.get(ring + arch::ring::kUsed) == 0);
    REQUIRE(bench.memory.get(ring + arch::ring::kTaken) == bench.memory.get(ring + arch::ring::kGiven));
    WaitGraph waits;
    bench.unit.collect_waits(waits);
    REQUIRE(waits.chain().empty());
    for (const auto& [operation, done] : bench.results) faults += done.status == DoneStatus::faulted ? 1 : 0;
    in_vain += bench.in_vain;
  }
  CHECK(faults > 200);
  CHECK(in_vain > 2);
}

}  // namespace heddle::test::task_manager_test
