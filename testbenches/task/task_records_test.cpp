// Tasks of the host as records in memory, and how far an evicted task has come.
#include "task/task_records.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/byte_codec.h"
#include "arch/kernel_object.h"
#include "support/random.h"
#include "task/plain_task_bench.h"
#include "task/task_params.h"

namespace heddle::test::task_records_test {
namespace {

namespace tmd = arch::tmd;
namespace half = task::tmd_half;
using protocol::DoneStatus;

task::TaskParams with_records() {
  task::TaskParams params;
  params.host_records = true;
  return params;
}

arch::KernelObject object_in(const RecordLine& line) {
  arch::KernelObjectBytes bytes{};
  std::copy_n(line.begin(), half::kObjectBytes, bytes.begin());
  arch::KernelObject object;
  REQUIRE(arch::decode(bytes, object).ok());
  return object;
}

// The only record that is taken.
std::uint64_t first_record(const PlainBench& bench) { return bench.place.memory.tasks.pool.record(0); }

constexpr Cycle kMemory = PlainBench::kMemory;
// As long as no record has been given back, one is found by two accesses to the ring; it has two halves.
Cycle written(const PlainBench& bench) { return bench.params.nested.schedule_cycles + 4 * kMemory; }
Cycle read(const PlainBench& bench) { return bench.params.nested.schedule_cycles + 2 * kMemory; }

}  // namespace

TEST_CASE("the second halves of records lie apart, each once, below everything else", "[task][TSK-01][PRT-08]") {
  for (const std::uint64_t seed : seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    task::NestedParams params;
    params.pending_launches = random.between(1, 300);
    params.parts = random.between(1, 8);
    params.memory = random.between(0, 10) / 10.0;
    task::LaunchRoom room;
    room.end = (std::uint64_t{1} << 40) + random.below(1 << 20);
    room.memory = std::uint64_t{64} << 20;
    room.resident = 100;
    const arch::LaunchMemory memory = task::nested_memory(params, room);
    std::vector<std::uint64_t> halves;
    for (std::uint32_t part = 0; part < params.parts; ++part) {
      const arch::RecordSupply own = memory.part(part).tasks;
      for (const arch::RecordPool* pool : {&own.pool, &own.spill}) {
        for (std::uint64_t i = 0; i < pool->count; ++i) halves.push_back(task::second_half_of(memory, pool->record(i)));
      }
    }
    std::sort(halves.begin(), halves.end());
    const std::uint64_t begin = task::second_halves_of(memory);
    REQUIRE(halves.front() >= begin);
    REQUIRE(begin % (64 << 10) == 0);
    REQUIRE(halves.back() + arch::kRecordBytes <= memory.base());
    for (std::size_t i = 1; i < halves.size(); ++i) REQUIRE(halves[i] - halves[i - 1] >= arch::kRecordBytes);
  }
}

TEST_CASE("a task of the host lies in memory as a record, and what is read there is what runs",
          "[task][TSK-01][TSK-02]") {
  PlainBench bench(1, TimingMode::at, false, with_records());
  SubmitPacket blocker = kernel(0, 0, 9);
  bench.work = [](const TaskPacket& packet) { return packet.operation == 0 ? Cycle{10'000} : Cycle{100}; };
  bench.submit(10, blocker);
  SubmitPacket packet = kernel(1, 1, -3);
  packet.head = true;
  packet.kernel.grid = {5, 6, 7};
  packet.kernel.block = {32, 2, 3};
  packet.kernel.registers_per_thread = 40;
  packet.kernel.shared_bytes = 1000;
  packet.kernel.local_bytes = 24;
  packet.kernel.duration = {70, 90};
  packet.kernel.cluster.of(arch::CgaLevel::gpc) = {5, 1, 1};
  bench.submit(1000, packet);
  const std::uint64_t record = bench.place.memory.tasks.pool.record(1);
  bench.at(2000, [&] {
    const RecordLine line = bench.memory.line(record);
    CHECK(arch::get_32(line, tmd::kGridX) == 5);
    CHECK(arch::get_16(line, tmd::kGridY) == 6);
    CHECK(arch::get_16(line, tmd::kGridZ) == 7);
    CHECK(static_cast<std::int32_t>(arch::get_32(line, tmd::kPriority)) == -3);
    CHECK(arch::get_32(line, tmd::kFlags) == 1U << 10);  // to the head of its list
    CHECK(arch::get_64(line, tmd::kNext) == 0);
    CHECK(arch::get_64(line, tmd::kContext) == 0);
    const std::uint64_t second = arch::get_64(line, tmd::kKernel);
    CHECK(second == task::second_half_of(bench.place.memory, record));
    RecordLine other = bench.memory.line(second);
    const arch::KernelObject object = object_in(other);
    CHECK(object.program == arch::kNoCode);
    CHECK(object.threads_limit == 192);
    CHECK(object.registers_per_thread == 40);
    CHECK(object.static_shared == 1000);
    CHECK(object.duration.min == 70);
    CHECK(object.duration.max == 90);
    CHECK(object.cluster.of(arch::CgaLevel::gpc) == arch::Dim3{5, 1, 1});
    CHECK(arch::get_16(other, half::kBlockX) == 32);
    CHECK(arch::get_16(other, half::kBlockY) == 2);
    CHECK(arch::get_16(other, half::kBlockZ) == 3);
    CHECK(arch::get_32(other, half::kLocal) == 24);
    CHECK(arch::get_64(other, half::kProgress) == 0);
    // Somebody changes it while the task waits.
    RecordLine changed = line;
    arch::put_number(changed, tmd::kGridX, 4, 10);
    arch::put_number(changed, tmd::kPriority, 4, 7);
    bench.memory.write(record, changed);
    arch::put_number(other, half::kBlockX, 2, 128);
    arch::put_number(other, half::kBlockY, 2, 1);
    arch::put_number(other, half::kBlockZ, 2, 1);
    bench.memory.write(second, other);
  });
  bench.timebase.run();
  REQUIRE(bench.sent.size() == 2);
  const TaskPacket& task = bench.sent[1];
  CHECK(task.grid == arch::Dim3{10, 6, 7});
  CHECK(task.priority == 7);
  CHECK(task.need[arch::Resource::warps] == 4);
  CHECK(task.need[arch::Resource::shared_bytes] >= 1000);
  CHECK(task.cluster.of(arch::CgaLevel::gpc) == arch::Dim3{5, 1, 1});
  CHECK(task.duration.min == 70);
  CHECK(task.local_bytes == 24);
  CHECK(task.record == 0);  // its CTAs launch nothing
  CHECK(bench.results.at(1).status == DoneStatus::ok);
  CHECK(bench.memory.get(bench.place.memory.tasks.pool.base + arch::ring::kUsed) == 0);
}

TEST_CASE("a record costs its accesses where a kernel finds an idle machine, and none in the gap of a stream",
          "[task][TSK-01]") {
  PlainBench bench(8, TimingMode::at, false, with_records());
  bench.submit(10, kernel(0, 1));
  bench.submit(10, kernel(1, 1));
  bench.timebase.run();
  const auto start = [&](std::uint32_t operation) { return bench.results.at(operation).start / 1000; };
  const auto end = [&](std::uint32_t operation) { return bench.results.at(operation).end / 1000; };
  CHECK(start(0) == 10 + written(bench) + read(bench));
  CHECK(start(1) == end(0) + 1300 - PlainBench::kStartPath);
}

TEST_CASE("a record that no machine can run ends its task, and its slot is another one's", "[task][TSK-01]") {
  enum class Broken { threads, object, link, program };
  const Broken broken = GENERATE(Broken::threads, Broken::object, Broken::link, Broken::program);
  PlainBench bench(1, TimingMode::at, false, with_records());
  bench.work = [](const TaskPacket& packet) { return packet.operation == 0 ? Cycle{10'000} : Cycle{100}; };
  for (std::uint32_t i = 0; i < 3; ++i) bench.submit(10 + 500 * i, kernel(i, i));
  const std::uint64_t record = bench.place.memory.tasks.pool.record(1);
  bench.at(2000, [&] {
    RecordLine line = bench.memory.line(record);
    const std::uint64_t second = arch::get_64(line, tmd::kKernel);
    RecordLine other = bench.memory.line(second);
    if (broken == Broken::threads) arch::put_number(other, half::kBlockX, 2, 60'000);
    if (broken == Broken::object) arch::put_number(other, half::kObject, 4, 1);
    if (broken == Broken::program) arch::put_number(other, half::kObject + 8, 4, 17);
    if (broken == Broken::link) arch::put_number(line, tmd::kKernel, 8, second + arch::kRecordBytes);
    bench.memory.write(record, line);
    bench.memory.write(second, other);
  });
  bench.timebase.run();
  REQUIRE(bench.results.size() == 3);
  CHECK(bench.results.at(0).status == DoneStatus::ok);
  CHECK(bench.results.at(1).status == DoneStatus::rejected);
  CHECK(bench.results.at(2).status == DoneStatus::ok);
  CHECK(bench.sent.size() == 2);
  CHECK(bench.memory.get(bench.place.memory.tasks.pool.base + arch::ring::kUsed) == 0);
  CHECK(bench.unit.launches_idle());
}

TEST_CASE("an evicted task's record holds how far it has come, and it goes on from what is read there",
          "[task][TSK-03]") {
  const bool records = GENERATE(false, true);  // from the start
  CAPTURE(records);
  task::TaskParams params;
  params.host_records = records;
  PlainBench bench(1, TimingMode::at, false, params);
  bench.work = [](const TaskPacket&) { return Cycle{5000}; };
  bench.progress = [](std::uint32_t) { return protocol::TaskProgress{0x1234'5678, 2, 77, 4}; };
  SubmitPacket low = kernel(0, 0);
  low.kernel.grid = {0x2000'0000, 1, 1};
  low.kernel.cluster.of(arch::CgaLevel::gpc) = {4, 1, 1};
  low.kernel.cluster.fallback[0] = {2, 1, 1};
  low.kernel.cluster.fallback[1] = {1, 1, 1};
  bench.submit(10, low);
  bench.submit(2000, kernel(1, 1, 3));
  const std::uint64_t record = first_record(bench);
  const std::uint64_t second = task::second_half_of(bench.place.memory, record);
  bench.at(4000, [&] {
    CHECK(arch::get_32(bench.memory.line(record), tmd::kGridX) == 0x2000'0000);
    const RecordLine line = bench.memory.line(second);
    CHECK(arch::get_64(line, half::kNextCta) == 0x1234'5678);
    CHECK(arch::get_64(line, half::kProgress) == (2 | 8 | 77 << 4));
    CHECK(object_in(line).cluster.of(arch::CgaLevel::gpc) == arch::Dim3{4, 1, 1});
    bench.memory.put(second + half::kNextCta, 0x1000'0000);
    bench.memory.put(second + half::kProgress, 1 | 8 | 78 << 4);
  });
  bench.timebase.run();
  REQUIRE(bench.sent.size() == 3);
  CHECK_FALSE(bench.sent[0].resumed);
  const TaskPacket& again = bench.sent[2];
  CHECK(again.operation == 0);
  CHECK(again.resumed);
  CHECK(again.progress.next_cta == 0x1000'0000);
  CHECK(again.progress.size == 1);
  CHECK(again.progress.order == 78);
  CHECK(again.progress.start == 4);
  CHECK(bench.memory.get(bench.place.memory.tasks.pool.base + arch::ring::kUsed) == 0);
}

TEST_CASE("writing down how far a task has come, and reading it, takes the accesses that it takes", "[task][TSK-03]") {
  PlainBench bench(1);
  // The first is urgent for a moment only, so that it waits for nothing but its record.
  bench.work = [](const TaskPacket& packet) { return packet.operation == 1 ? Cycle{1} : Cycle{5000}; };
  bench.submit(10, kernel(0, 0));
  bench.submit(2000, kernel(1, 1, 3));
  std::vector<Cycle> again;
  bench.fault_after = [&](std::uint32_t) {
    again.push_back(bench.timebase.now());
    return std::nullopt;
  };
  bench.timebase.run();
  REQUIRE(again.size() == 1);
  REQUIRE(bench.sent.size() == 3);
  // It is given a record, which is written; for its slot the second half is read.
  const Cycle back = again[0] + written(bench) + bench.params.nested.schedule_cycles + kMemory;
  CHECK(bench.results.at(0).end / 1000 == back + 5000 - (again[0] - 10));
}

TEST_CASE("a record that makes no sense ends the evicted task that it is of", "[task][TSK-03]") {
  PlainBench bench(1);
  bench.work = [](const TaskPacket&) { return Cycle{5000}; };
  std::vector<std::uint32_t> broken;
  bench.grow.take = [&](const protocol::GrowPacket& grow, std::uint32_t) {
    if (grow.broken) broken.push_back(grow.operation);
  };
  bench.submit(10, kernel(0, 0));
  bench.submit(2000, kernel(1, 1, 3));
  const std::uint64_t second = task::second_half_of(bench.place.memory, first_record(bench));
  bench.at(4000, [&] { bench.memory.put(second + half::kNextCta, 5); });  // of four
  bench.timebase.run();
  CHECK(broken == std::vector<std::uint32_t>{0});  // the distributor is told to stop it
  CHECK(bench.results.at(0).status == DoneStatus::faulted);
  CHECK(bench.results.at(1).status == DoneStatus::ok);
}

TEST_CASE("tasks of the host that are out keep half of the spare records, and a child keeps only its own",
          "[task][TSK-03][TSK-15]") {
  PlainBench bench(1);
  task::OpenTasks tasks;
  task::TaskRecords::Setup setup;
  setup.memory = bench.place.memory;
  constexpr std::uint32_t kPlaces = 2;
  task::TaskRecords records(tasks, bench.unit.scheduler(), setup, kPlaces);
  const auto of = [](std::uint32_t operation, task::Task::Origin origin) {
    task::Task task;
    task.packet.operation = operation;
    task.origin = origin;
    return task;
  };
  const auto host = [&](std::uint32_t operation) { return of(operation, task::Task::Origin::stream); };
  const auto child = [&](std::uint32_t operation) {
    return of(protocol::kChildBit | operation, task::Task::Origin::child);
  };
  // As many that wait as places, as many that run, and one that goes to the head of its list.
  const std::uint64_t most = (bench.place.memory.tasks.pool.count - 2 * kPlaces - 1) / 2;
  REQUIRE(most > 2);
  for (std::uint32_t i = 0; i < most; ++i) {
    REQUIRE(records.spares_one(host(i)));
    records.leaves(host(i));
    records.leaves(host(i));  // it is asked, and its progress is written: it is one task
    records.leaves(child(i));
  }
  CHECK_FALSE(records.spares_one(host(1'000'000)));
  CHECK(records.spares_one(child(1'000'000)));
  records.back(child(0));
  CHECK_FALSE(records.spares_one(host(1'000'000)));
  records.back(host(0));
  CHECK(records.spares_one(host(1'000'000)));
}

}  // namespace heddle::test::task_records_test
