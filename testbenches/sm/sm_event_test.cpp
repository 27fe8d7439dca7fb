// Events of device code at an SM: what they leave in memory, what a program that uses them wrongly is told, and
// launches and closes of queue tasks.
#include <string>

#include <catch2/catch.hpp>

#include "sm/nested_bench.h"

namespace sm_event_test {

using namespace heddle;
using namespace heddle::test;
using arch::OpCode;
using arch::RecordKind;
using Kind = protocol::ChildPacket::Kind;

namespace {

constexpr std::uint64_t kQueue = 0x5000;

std::uint64_t handle(const Warp& w, std::uint32_t) { return w.reg(2, 0) | std::uint64_t{w.reg(3, 0)} << 32; }

std::uint32_t kind_of(RecordKind kind) { return static_cast<std::uint32_t>(kind) << arch::kRecordKindShift; }

}  // namespace

TEST_CASE("an event that is recorded and waited for is a record in each of the two streams", "[sm][TSK-08][TSK-13]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    NestedBench bench(mode);
    ListProgram program(8);
    program.event_create(2);
    program.stream_create(4);
    program.launch_child(always(child()));
    program.event(OpCode::event_record, handle, ListProgram::constant(0), {{2, 2}});
    program.event(OpCode::stream_wait, handle, ListProgram::of_register(4), {{2, 2}, {4, 1}});
    program.launch_child([](const Warp& w, std::uint32_t) { return child(w.reg(4, 0)); }, {{4, 1}});
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    CHECK(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == 1);
    const auto flags = [&](std::uint32_t task) {
      return bench.l2.get<std::uint32_t>(bench.task(task) + arch::tmd::kFlags);
    };
    const auto ticket = [&](std::uint32_t task) {
      return bench.l2.get<std::uint32_t>(bench.task(task) + arch::tmd::kTicket);
    };
    const auto word = [&](std::uint32_t task, std::uint32_t offset) { return bench.word(bench.task(task) + offset); };
    const std::uint64_t recorded = arch::launch_handle(bench.task(2), ticket(2));
    CHECK(word(0, arch::tmd::kFlags) == arch::event_word(ticket(0)));
    CHECK(word(0, arch::tmd::kLatest) == recorded);
    CHECK(word(1, arch::tmd::kNext) == bench.task(2));
    CHECK(flags(2) == kind_of(RecordKind::event_record));
    CHECK(word(2, arch::tmd::kContext) == bench.context());
    CHECK(word(2, arch::tmd::kOpen) == std::uint64_t{ticket(2)} << 32);
    const std::uint32_t stream = arch::stream_number(1, 0);
    CHECK(flags(3) == (1 | kind_of(RecordKind::event_wait) | stream << 16));
    CHECK(word(3, arch::tmd::kAwaited) == recorded);
    CHECK(word(3, arch::tmd::kOpen) == 1);
    CHECK(word(3, arch::tmd::kGrid) == kOwner);
    CHECK(word(3, arch::tmd::kNext) == bench.task(4));
    CHECK(bench.word(bench.context() + arch::context::kWork) == 4);
    // The wait is the first of its stream.
    CHECK(bench.tmu.started == std::vector<std::uint64_t>{bench.task(1), bench.task(3)});
    CHECK(bench.stat("nested.events") == 2);
    CHECK(bench.stat("nested.launches") == 2);
  }
}

TEST_CASE("an event that was never recorded takes no record to wait for, and one that is destroyed gives its own back",
          "[sm][TSK-12]") {
  NestedBench bench;
  ListProgram program(8);
  program.event_create(2);
  program.event(OpCode::stream_wait, handle, ListProgram::constant(0), {{2, 2}});
  program.event(OpCode::event_destroy, handle, ListProgram::constant(0), {{2, 2}});
  program.exit();
  bench.start_parent(std::move(program));
  run_until_idle();
  CHECK(bench.faults.empty());
  REQUIRE(bench.mpc.exits.size() == 1);
  CHECK(bench.tmu.count(Kind::start) == 0);
  CHECK(bench.word(bench.nested.tasks.pool.base + arch::ring::kTaken) == 1);
  CHECK(bench.word(bench.task(0) + arch::tmd::kFlags) == 0);
  bench.check_clean();
}

TEST_CASE("a program that makes an event is told that no record is free; recording one then is a fault",
          "[sm][TSK-12]") {
  for (const bool record : {false, true}) {
    NestedBench bench(TimingMode::at, 1);
    ListProgram program(8);
    program.event_create(2);
    if (record) {
      program.event(OpCode::event_record, handle, ListProgram::constant(0), {{2, 2}});
    } else {
      program.event_create(4);
      program.store_registers({}, 4, ListProgram::linear(0x4000, 4));
      program.store_registers({}, 5, ListProgram::linear(0x4100, 4));
    }
    program.exit();
    bench.l2.put(0x4000, std::uint32_t{77});
    bench.start_parent(std::move(program));
    run_until_idle();
    REQUIRE(bench.faults.size() == (record ? 1 : 0));
    CHECK(bench.stat("nested.refused") == 1);
    if (record) {
      CHECK(bench.faults[0].kind == arch::FaultKind::launch_limit);
      CHECK(bench.faults[0].operation == OpCode::event_record);
    } else {
      CHECK(bench.l2.get<std::uint32_t>(0x4000) == 0);
      CHECK(bench.l2.get<std::uint32_t>(0x4100) == 0);
    }
  }
}

TEST_CASE("an event that is destroyed may not be used any more, whatever has its place", "[sm][TSK-11]") {
  const bool again = GENERATE(false, true);
  for (const OpCode code : {OpCode::event_record, OpCode::stream_wait, OpCode::event_destroy}) {
    NestedBench bench(TimingMode::at, 1);
    ListProgram program(8);
    program.event_create(2);
    program.event(OpCode::event_destroy, handle, ListProgram::constant(0), {{2, 2}});
    if (again) program.event_create(4);
    program.event(code, handle, ListProgram::constant(0), {{2, 2}});
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == arch::FaultKind::child);
    CHECK(bench.faults[0].operation == code);
    CHECK(bench.word(bench.nested.tasks.pool.base + arch::ring::kUsed) == (again ? 1 : 0));
    CHECK(bench.stat("nested.refused") == 0);
  }
}

TEST_CASE("what is no event of the program, or no stream, is a fault", "[sm][TSK-11]") {
  const std::uint64_t number =
      GENERATE(std::uint64_t{0}, arch::launch_handle(0x40, 2), arch::launch_handle(kNestedBase + 0x1000, 2));
  const bool stream = GENERATE(false, true);
  for (const OpCode code : {OpCode::event_record, OpCode::stream_wait, OpCode::event_destroy}) {
    CAPTURE(number, stream);
    if (stream && code == OpCode::event_destroy) continue;
    NestedBench bench;
    ListProgram program(8);
    program.event_create(2);
    program.event(code, [=](const Warp& w, std::uint32_t lane) { return stream ? handle(w, lane) : number; },
                  ListProgram::constant(stream ? std::uint64_t{1} << 32 : 0), {{2, 2}});
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == arch::FaultKind::child);
    CHECK(bench.faults[0].operation == code);
    if (!stream) CHECK(bench.faults[0].address == number);
  }
}

TEST_CASE("the record of a queue task names its queue, and a close is told once", "[sm][TSK-01][TSK-05]") {
  for (const bool closed : {false, true}) {
    NestedBench bench;
    bench.l2.put(kQueue + arch::queue::kTickets, closed ? arch::kQueueClosed | 3 : std::uint64_t{3});
    ListProgram program(4);
    arch::ChildLaunch launch = child();
    launch.queue = kQueue;
    launch.entries = 3;
    launch.held_open = true;
    launch.args[5] = 99;
    program.launch_child(always(launch));
    program.queue_close(kQueue);
    program.queue_close(kQueue);
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == arch::FaultKind::queue_closed);
    CHECK(bench.faults[0].address == kQueue);
    CHECK(bench.faults[0].operation == (closed ? OpCode::launch_child : OpCode::queue_close));
    CHECK(bench.tmu.count(Kind::enough) == (closed ? 0 : 1));
    CHECK(bench.tmu.count(Kind::start) == (closed ? 0 : 1));
    if (closed) continue;
    const std::uint64_t record = bench.task(0);
    CHECK(bench.l2.get<std::uint32_t>(record + arch::tmd::kFlags) == (1U << 12 | 1U << 13));
    CHECK(bench.word(record + arch::tmd::kQueue) == kQueue);
    CHECK(bench.word(record + arch::tmd::kEntries) == 3);
    CHECK(bench.word(record + arch::tmd::kArgs + 40) == 0);
    CHECK(bench.word(kQueue + arch::queue::kEnough) == 1);
  }
}

}  // namespace sm_event_test
