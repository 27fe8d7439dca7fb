// Records of device-side launches that somebody has overwritten: what comes of them is a fault, and everybody else goes
// on (TSK-12, TSK-13).
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/byte_codec.h"
#include "task/task_launch_bench.h"

namespace heddle::test::task_launch_record_test {
namespace {

using protocol::ChildPacket;
using protocol::DoneStatus;
using protocol::TaskKind;
using protocol::TaskPacket;
namespace tmd = arch::tmd;
namespace context = arch::context;
namespace saved = arch::saved;

constexpr std::uint64_t kObject = 0x1000;
constexpr std::uint64_t kRoot = 0x2000;   // a grid that only memory knows, with a context for its CTA
constexpr std::uint64_t kOuter = 0x3000;  // that context
constexpr std::uint64_t kInner = 0x3800;  // context of the parent's CTA
constexpr std::uint64_t kBeyond = AtomicMemory::kBytes;
constexpr std::uint32_t kOld = 7;  // a task of the host that runs all the time
constexpr std::uint32_t kNew = 8;  // and one that comes when all is over

// A parent, launched by the root, whose CTA is saved while it waits for its child.
struct Family : TaskLaunchBench {
  Family()
      : parent(place.memory.tasks.pool.record(0)),
        child(place.memory.tasks.pool.record(1)),
        area(place.memory.chunks.record(0)) {
    arch::KernelObject object;
    object.duration = {100, 100};
    object.name = "leaf";
    memory.write(kObject, arch::encode(object));
    memory.put(place.memory.tasks.pool.base + arch::ring::kTaken, 2);
    memory.put(place.memory.tasks.pool.base + arch::ring::kUsed, 2);
    memory.put(kRoot + tmd::kOpen, 2);
    put_context(kOuter, kRoot, 2 + arch::kWorkWaiter, arch::home_of_sm(0));
    put_context(kInner, parent, 2 + arch::kWorkWaiter, arch::saved_home(area));
    put_task(parent, kOuter, 2);
    put_task(child, kInner, 1);
    table.work = [](const TaskPacket& task) { return task.operation == kOld ? Cycle{30'000} : Cycle{100}; };
    table.on_end = [this](const TaskPacket& task) {
      if (task.kind == TaskKind::restore) {
        sm.send(domain.now(), {ChildPacket::Kind::leave, kInner, 0, 0});
      } else if (task.record == parent) {
        put_area(task.operation, parent);
        spoil(task.operation);
        sm.send(domain.now(), {ChildPacket::Kind::start, child, 0, 0});
      }
    };
    host.submit(0, kernel_packet(kOld, 0, {1, 1, 1}, {64, 1, 1}));
    host.submit(50'000, kernel_packet(kNew, 1, {1, 1, 1}, {64, 1, 1}));
  }
  void put_context(std::uint64_t at, std::uint64_t owner, std::uint64_t work, std::uint64_t home) {
    memory.put(at + context::kWork, work);
    memory.put(at + context::kOwner, owner);
    memory.put(at + context::kHome, home);
  }
  // The only one of its TMDQ.
  void put_task(std::uint64_t at, std::uint64_t of, std::uint64_t open) {
    task::RecordLine line{};
    arch::put_number(line, tmd::kContext, 8, of);
    arch::put_number(line, tmd::kKernel, 8, kObject);
    arch::put_number(line, tmd::kGridX, 4, 1);
    for (const std::uint32_t extent : {tmd::kGridY, tmd::kGridZ}) arch::put_number(line, extent, 2, 1);
    arch::put_number(line, tmd::kOpen, 8, open);
    memory.write(at, line);
    memory.put(of + context::kTmdqs, at);
  }
  void put_area(std::uint32_t operation, std::uint64_t record) {
    memory.put(area + saved::kOperation, operation, 4);
    memory.put(area + saved::kRecord, record);
    memory.put(area + saved::kContext, kInner);
  }
  // The parent begins; all is over.
  void run() {
    sm.send(100, {ChildPacket::Kind::start, parent, 0, 90});
    run_until_idle();
  }
  std::size_t restores() const {
    return static_cast<std::size_t>(std::count_if(
        table.tasks.begin(), table.tasks.end(), [](const TaskPacket& task) { return task.kind == TaskKind::restore; }));
  }
  // One fault, of no task, at that address; and the host's own tasks have not noticed.
  void check_fault(std::uint64_t address, const std::string& where) {
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].kind == arch::FaultKind::child);
    CHECK(faults[0].task == arch::kNoTask);
    CHECK(faults[0].address == address);
    CHECK_THAT(faults[0].where, Catch::Contains(where));
    for (const std::uint32_t operation : {kOld, kNew}) {
      REQUIRE(host.results.count(operation) == 1);
      CHECK(host.results.at(operation).status == DoneStatus::ok);
    }
    CHECK(host.results.at(kOld).end < 31'000'000);
  }
  std::string waits() const {
    WaitGraph graph;
    unit.collect_waits(graph);
    std::string chain;
    for (const std::string& line : graph.chain()) chain += line + "\n";
    return chain;
  }

  const std::uint64_t parent;
  const std::uint64_t child;
  const std::uint64_t area;
  std::function<void(std::uint32_t)> spoil = [](std::uint32_t) {};  // given the parent's operation, once it is saved
};

}  // namespace

TEST_CASE("a family whose records are sound ends", "[task][TSK-12]") {
  Family family;
  family.run();
  CHECK(family.faults.empty());
  CHECK(family.restores() == 1);
  CHECK(family.sm.woken == std::vector<std::uint64_t>{kOuter});
  CHECK(family.host.results.size() == 2);
  CHECK(family.unit.launches_idle());
}

TEST_CASE("the area of a saved CTA that does not name its task is a fault, and nothing is restored from it",
          "[task][TSK-12]") {
  Family family;
  SECTION("no such task") {
    family.spoil = [&](std::uint32_t operation) { family.put_area(operation + 1, family.parent); };
  }
  SECTION("the largest number") {
    family.spoil = [&](std::uint32_t) { family.put_area(~std::uint32_t{0}, family.parent); };
  }
  SECTION("another record") {
    family.spoil = [&](std::uint32_t operation) { family.put_area(operation, family.child); };
  }
  SECTION("a task of the host, which runs") {
    family.spoil = [&](std::uint32_t) { family.put_area(kOld, family.parent); };
  }
  SECTION("a task of the host, which has no record") {
    family.spoil = [&](std::uint32_t) { family.put_area(kOld, 0); };
  }
  family.run();
  CHECK(family.restores() == 0);
  CHECK(family.stat("restores") == 0);
  family.check_fault(family.area, "does not name its task");
  // Those that wait for the CTA say so.
  CHECK_FALSE(family.unit.launches_idle());
  CHECK_THAT(family.waits(), Catch::Contains("leaf #1 waits: for its descendants"));
}

TEST_CASE("a record that names what memory does not have is a fault, and others go on", "[task][TSK-13]") {
  Family family;
  std::uint64_t at = family.child;
  SECTION("the area of a CTA") {
    family.spoil = [&](std::uint32_t) { family.memory.put(kInner + context::kHome, arch::saved_home(kBeyond)); };
  }
  SECTION("an area so far up that its line ends below") {
    family.spoil = [&](std::uint32_t) { family.memory.put(kInner + context::kHome, arch::saved_home(~0xFULL)); };
  }
  SECTION("the context of a task") {
    family.spoil = [&](std::uint32_t) { family.memory.put(family.child + tmd::kContext, kBeyond); };
  }
  SECTION("the task behind another") {
    at = kBeyond + arch::kRecordBytes;
    family.spoil = [&](std::uint32_t) {
      family.memory.put(kInner + context::kTmdqs, at);  // it is the last one
      family.memory.put(family.child + tmd::kNext, at);
    };
  }
  SECTION("the owner of a context") {
    at = kBeyond;
    family.spoil = [&](std::uint32_t) { family.memory.put(kInner + context::kOwner, kBeyond); };
  }
  family.run();
  family.check_fault(at, "memory refused");
  // The memory takes requests as before.
  CHECK(family.unit.payloads() <= 16);
}

TEST_CASE("a reset forgets those that wait for what a wrong record names", "[task][TSK-13]") {
  Family family;
  family.spoil = [&](std::uint32_t operation) { family.put_area(operation, 0); };
  family.sm.send(100, {ChildPacket::Kind::start, family.parent, 0, 90});
  run_until(sc_core::sc_time(20, sc_core::SC_US));
  REQUIRE(family.faults.size() == 1);
  CHECK_FALSE(family.unit.launches_idle());
  family.domain.reset();
  CHECK(family.unit.launches_idle());
  CHECK(family.waits().empty());
}

}  // namespace heddle::test::task_launch_record_test
