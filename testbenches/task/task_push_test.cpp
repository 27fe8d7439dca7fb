// Tasks that the host has pushed into TMDQs of its own, as task management sees them over its sockets: records in
// memory, doorbells, and the links that the host writes late (TSK-06, TSK-09).
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "arch/kernel_object.h"
#include "task/task_launch_bench.h"

namespace heddle::test::task_push_test {
namespace {

using protocol::DoneStatus;
using protocol::SubmitKind;
using protocol::SubmitPacket;
using protocol::TaskPacket;
namespace tmd = arch::tmd;
namespace context = arch::context;

constexpr std::uint64_t kObject = 0x1000;
constexpr std::uint64_t kContext = 0x3000;  // of the host
constexpr std::uint8_t kSubcontext = 5;

std::uint64_t record(std::uint32_t operation) { return 0x8000 + std::uint64_t{operation} * arch::kRecordBytes; }
std::uint64_t last_task(std::uint32_t tmdq) { return kContext + context::last_task(tmdq); }

void put_context(TaskLaunchBench& bench, std::uint64_t pushed) {
  arch::KernelObject object;
  object.duration = {100, 100};
  object.registers_per_thread = 24;
  object.threads_limit = 96;
  object.name = "leaf";
  bench.memory.write(kObject, arch::encode(object));
  bench.memory.put(kContext + context::kWork, 1 + pushed);
  bench.memory.put(kContext + context::kOwner, arch::host_owner(kSubcontext));
}

void put_task(TaskLaunchBench& bench, std::uint32_t operation, std::uint32_t tmdq, std::uint64_t object = kObject) {
  task::RecordLine line{};
  arch::put_number(line, tmd::kContext, 8, kContext);
  arch::put_number(line, tmd::kKernel, 8, object);
  arch::put_number(line, tmd::kGridX, 4, 3);
  arch::put_number(line, tmd::kGridY, 2, 2);
  arch::put_number(line, tmd::kGridZ, 2, 1);
  arch::put_number(line, tmd::kFlags, 4, tmdq | tmdq << 16);
  arch::put_number(line, tmd::kTicket, 4, operation + 1);
  arch::put_number(line, tmd::kPriority, 4, 7);
  arch::put_number(line, tmd::kOpen, 8, 1);
  bench.memory.write(record(operation), line);
}

SubmitPacket start(std::uint32_t operation) {
  SubmitPacket packet;
  packet.kind = SubmitKind::start;
  packet.operation = operation;
  packet.record = record(operation);
  return packet;
}

SubmitPacket queued(std::uint32_t operation, std::uint32_t behind) {
  SubmitPacket packet;
  packet.kind = SubmitKind::queued;
  packet.operation = operation;
  packet.wait_for = behind;
  packet.record = record(operation);
  return packet;
}

std::vector<std::uint32_t> sent(const TaskLaunchBench& bench) {
  std::vector<std::uint32_t> result;
  for (const TaskPacket& task : bench.table.tasks) result.push_back(task.operation);
  return result;
}

}  // namespace

TEST_CASE("a pushed task is what its records in memory say, and its end empties its TMDQ", "[task][TSK-01][TSK-06]") {
  TaskLaunchBench bench;
  put_context(bench, 1);
  put_task(bench, 4, 1);
  bench.memory.put(last_task(1), record(4));
  bench.host.submit(10, start(4));
  run_until_idle();
  REQUIRE(bench.table.tasks.size() == 1);
  const TaskPacket& task = bench.table.tasks[0];
  CHECK(task.operation == 4);
  CHECK(task.grid == arch::Dim3{3, 2, 1});
  CHECK(task.subcontext == kSubcontext);
  CHECK(task.priority == 7);
  CHECK(task.depth == 0);  // as every task of the host
  CHECK(task.record == record(4));
  CHECK(task.need.amount[static_cast<std::size_t>(arch::Resource::warps)] == 3);
  CHECK(bench.host.results.at(4).status == DoneStatus::ok);
  CHECK(bench.memory.get(last_task(1)) == 0);
  CHECK(bench.memory.get(kContext + context::kWork) == 1);
  CHECK(bench.stat("kernels") == 1);
  CHECK(bench.stat("submitted") == 1);
  CHECK(bench.stat("children") == 0);
  CHECK(bench.unit.open() == 0);
  CHECK(bench.unit.launches_idle());
  // The TMD is the host's: it goes into no pool.
  CHECK(bench.memory.get(bench.place.memory.tasks.pool.base + arch::ring::kGiven) == 0);
}

TEST_CASE("a task behind another one starts once its link is written, however late that is", "[task][TSK-06][TSK-09]") {
  // When the host exchanges and when it links, in cycles of the memory; the first task ends at about 500.
  struct When {
    Cycle exchange;
    Cycle link;
    bool waits;  // the completion has to wait for the link
  };
  for (const When& when : {When{50, 60, false}, When{50, 3000, true}, When{300, 9000, true}}) {
    CAPTURE(when.exchange, when.link);
    TaskLaunchBench bench;
    bench.table.work = [](const TaskPacket&) { return Cycle{300}; };
    put_context(bench, 2);
    put_task(bench, 0, 0);
    put_task(bench, 1, 0);
    bench.memory.put(last_task(0), record(0));
    bench.host.submit(0, start(0));
    bench.host.at(when.exchange, [&] {
      bench.host.submit_out.send(queued(1, 0));
      CHECK(bench.memory.get(last_task(0)) == record(0));
      bench.memory.put(last_task(0), record(1));
    });
    bench.host.at(when.link, [&] { bench.memory.put(record(0) + tmd::kNext, record(1)); });
    run_until_idle();
    CHECK(sent(bench) == std::vector<std::uint32_t>{0, 1});
    CHECK(bench.host.order == std::vector<std::uint32_t>{0, 1});
    CHECK(bench.memory.get(last_task(0)) == 0);
    CHECK(bench.memory.get(kContext + context::kWork) == 1);
    CHECK(bench.stat("next_waits") == (when.waits ? 1 : 0));
    CHECK(bench.unit.launches_idle());
  }
}

TEST_CASE("a pushed task without a kernel object ends as faulted, and the next one of its TMDQ runs",
          "[task][TSK-06]") {
  TaskLaunchBench bench;
  put_context(bench, 2);
  put_task(bench, 0, 0, 0x1010);
  put_task(bench, 1, 0);
  bench.memory.put(record(0) + tmd::kNext, record(1));
  bench.memory.put(last_task(0), record(1));
  std::vector<arch::FaultRecord> faults;
  bench.unit.on_fault([&](const arch::FaultRecord& fault) { faults.push_back(fault); });
  bench.host.submit(0, start(0));
  bench.host.submit(0, queued(1, 0));
  run_until_idle();
  CHECK(sent(bench) == std::vector<std::uint32_t>{1});
  CHECK(bench.host.results.at(0).status == DoneStatus::faulted);
  CHECK(bench.host.results.at(1).status == DoneStatus::ok);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].task == 0);
  CHECK(faults[0].subcontext == kSubcontext);
}

TEST_CASE("a TMD that names no task that the host has pushed is a fault and no task", "[task][TSK-06]") {
  TaskLaunchBench bench;
  put_context(bench, 1);
  put_task(bench, 0, 0);
  bench.memory.put(record(0) + tmd::kTicket, 78, 4);  // somebody has written over it
  bench.memory.put(last_task(0), record(0));
  std::vector<arch::FaultRecord> faults;
  bench.unit.on_fault([&](const arch::FaultRecord& fault) { faults.push_back(fault); });
  bench.host.submit(0, start(0));
  run_until_idle();
  CHECK(sent(bench).empty());
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].address == record(0));
  CHECK(bench.unit.open() == 1);
  // The operation never ends, and says why.
  WaitGraph graph;
  bench.domain.collect_waits(graph);
  REQUIRE(graph.chain().size() == 1);
  CHECK(graph.chain()[0].find(fmt::format("to be started, from its TMD at 0x{:x}", record(0))) != std::string::npos);
}

TEST_CASE("a TMD that names another task that the host has pushed is a fault: each runs once at most, from its own TMD",
          "[task][TSK-06]") {
  // Of the other one, whose TMDQ is its own: it runs already; it is yet to come.
  for (const Cycle other : {Cycle{0}, Cycle{3000}}) {
    CAPTURE(other);
    TaskLaunchBench bench;
    bench.table.work = [](const TaskPacket&) { return Cycle{20'000}; };
    put_context(bench, 2);
    put_task(bench, 0, 0);
    put_task(bench, 1, 1);
    bench.memory.put(record(0) + tmd::kTicket, 2, 4);  // that of operation 1
    bench.memory.put(last_task(0), record(0));
    bench.memory.put(last_task(1), record(1));
    std::vector<arch::FaultRecord> faults;
    bench.unit.on_fault([&](const arch::FaultRecord& fault) { faults.push_back(fault); });
    bench.host.submit(other, start(1));
    bench.host.submit(1500, start(0));
    run_until_idle();
    CHECK(sent(bench) == std::vector<std::uint32_t>{1});
    CHECK(bench.host.results.at(1).status == DoneStatus::ok);
    CHECK(bench.host.results.count(0) == 0);
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].address == record(0));
    CHECK(bench.unit.open() == 1);
  }
}

TEST_CASE("a reset forgets what the host has pushed", "[task][TSK-06]") {
  TaskLaunchBench bench;
  bench.table.work = [](const TaskPacket&) { return Cycle{100'000}; };
  put_context(bench, 2);
  put_task(bench, 0, 0);
  bench.memory.put(last_task(0), record(0));
  bench.host.submit(0, start(0));
  bench.host.submit(5, queued(1, 0));
  run_until(sc_core::sc_time(2, sc_core::SC_US));
  CHECK(bench.unit.open() == 2);
  bench.domain.reset();
  CHECK(bench.unit.open() == 0);
  CHECK(bench.unit.launches_idle());
}

}  // namespace heddle::test::task_push_test
