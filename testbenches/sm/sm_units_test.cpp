// Units of an SM by themselves, on a time base without SystemC: the scheduler, the barriers, records of CTAs, and what
// device-side launches consist of.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/timebase.h"
#include "sm/alu.h"
#include "sm/barrier_unit.h"
#include "sm/launch_sequence.h"
#include "sm/warp_scheduler.h"
#include "support/list_program.h"

namespace sm_units_test {

using namespace heddle;
using namespace heddle::sm;
using arch::OpCode;
using arch::Operation;
using protocol::ClusterNoticePacket;
using test::ListProgram;

namespace {

// A link that notes what is sent, and when it leaves.
template <class Packet>
struct NotedLink final : PacketSender<Packet> {
  std::vector<std::pair<Cycle, Packet>> sent;

 private:
  bool do_can_send(std::uint32_t) override { return true; }
  void do_send(const Packet& packet, std::uint32_t) override { sent.emplace_back(0, packet); }
  void do_send_at(Cycle departure, const Packet& packet, std::uint32_t) override {
    sent.emplace_back(departure, packet);
  }
};

// Carries out operations of the other units: each takes one cycle, and an exit ends its warp.
struct NotedUnit final : IssueUnit {
  explicit NotedUnit(Timebase& its_time) : time(its_time) {}
  Timebase& time;
  std::vector<std::pair<Cycle, std::uint32_t>> issued;  // when, and warp slot
  std::function<void(std::uint32_t slot)> on_exit;

  IssueResult issue(std::uint32_t slot, const Operation& operation) override {
    issued.emplace_back(time.now(), slot);
    if (operation.code != OpCode::exit) return IssueResult::done(time.now() + 1, time.now() + 1);
    if (on_exit) on_exit(slot);
    return IssueResult::blocks();
  }
};

struct NotedCtas final : CtaSupervisor {
  std::vector<arch::FaultKind> faults;
  std::uint32_t waits = 0;

  void fault(std::uint32_t, OpCode, const IssueFault& wrong) override { faults.push_back(wrong.kind); }
  void check_end(Cta&, Cycle) override {}
  void warp_waits(Cta&) override { ++waits; }
  void warp_stops(std::uint32_t) override {}
};

struct NoReleases final : ReleaseQueue {
  IssueResult defer(std::uint32_t, const Operation&) override {
    HEDDLE_CHECK(false, "nothing is released here");
    return IssueResult::blocks();
  }
};

// One CTA whose warps run a program of arithmetic, barriers and exits.
struct UnitsWithoutSystemC {
  explicit UnitsWithoutSystemC(ListProgram its_program, std::uint32_t warp_count, WarpPolicy policy = {})
      : program(std::move(its_program)),
        time(TimingMode::at, observation),
        params([policy] {
          SmParams its;
          its.issue.policy = policy;
          return its;
        }()),
        stats(observation.stats, "gpu0.sm0"),
        ctas(params.limits.ctas),
        context{time, params, place, stats, warps, ctas, "sm", registers},
        port(params.memory.queue, params.memory.shared_starts),
        gate(port, params.memory),
        l1(params.memory.l1_ways, 64),
        scheduler(context, gate, supervisor),
        alu(context, scheduler),
        shared(1024, params.limits.ctas),
        barriers(context, {scheduler, releases, supervisor, l1, notices, shared}),
        others(time) {
    WarpScheduler::Units units;
    for (const arch::OperationRow& row : arch::kOperations) units.add(row.executor, others);
    units.add(arch::Executor::alu, alu);
    units.add(arch::Executor::barrier, barriers);
    units.alu = &alu;
    scheduler.connect(units);
    gate.listen(scheduler);
    protocol::CtaStartPacket start;
    start.id.cga_size = 1;
    begin(start, warp_count);
    others.on_exit = [this](std::uint32_t slot) {
      warps[slot].wait = WarpWait::exited;
      --cta().live;
      CHECK(barriers.warp_exits(slot));
    };
  }
  Cta& cta() { return ctas[0]; }

  void begin(const protocol::CtaStartPacket& start, std::uint32_t count) {
    warps.resize(scheduler.slots());
    cta().arrive(start, 0);
    cta().live = count;
    cta().barriers.start(count);
    for (std::uint32_t number = 0; number < count; ++number) {
      const std::uint32_t slot =
          number == 0 ? scheduler.enter_first() : scheduler.enter_behind(cta().warps[number - 1]);
      cta().warps.push_back(slot);
      Warp& warp = warps[slot];
      warp.program = &program;
      warp.place.warp = number;
      warp.place.lanes = ~arch::LaneMask{0};
      warp.state.pc = 0;
      program.start(warp.place, warp.state);
      warp.scoreboard.start(program.registers());
      warp.begin();
    }
  }
  void run() {
    for (const std::uint32_t slot : cta().warps) scheduler.prepare(slot, time.now());
    time.run();
  }

  ListProgram program;
  GpuObservation observation{"gpu0"};
  PlainTimebase time;
  SmParams params;
  SmContext place;
  SmStats stats;
  std::vector<Warp> warps;
  CtaTable ctas;
  SmRegisters registers;
  UnitContext context;
  IssuePort port;
  RequestGate gate;
  L1Cache l1;
  NotedCtas supervisor;
  NoReleases releases;
  NotedLink<ClusterNoticePacket> notices;
  WarpScheduler scheduler;
  Alu alu;
  SharedMemory shared;
  BarrierUnit barriers;
  NotedUnit others;
};

ListProgram with(const std::function<void(ListProgram&)>& fill, std::uint32_t registers = 4) {
  ListProgram program(registers);
  fill(program);
  program.exit();
  return program;
}

}  // namespace

TEST_CASE("warps of a CTA spread over the sub-partitions and issue side by side", "[sm][SM-01]") {
  UnitsWithoutSystemC units(with([](ListProgram&) {}), 8);
  for (std::uint32_t number = 0; number < 8; ++number) CHECK(units.cta().warps[number] % kSubPartitions == number % 4);
  units.run();
  REQUIRE(units.others.issued.size() == 8);
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(units.others.issued[i].first == i / kSubPartitions);
}

TEST_CASE("a chain of instructions takes the unit's interval, and its result the latency", "[sm][SM-01][SM-03]") {
  constexpr std::uint32_t kCount = 5;
  UnitsWithoutSystemC units(with([](ListProgram& p) {
                              p.compute(arch::Unit::fp64, kCount, {}, {{1, 1}});
                              p.compute(arch::Unit::int32, 1, {{1, 1}}, {});
                            }),
                            1);
  units.run();
  const UnitParams& fp64 = units.params.issue.fp64;
  const Cycle interval = arch::kWarpLanes / fp64.lanes;
  REQUIRE(units.others.issued.size() == 1);
  // The second waits for the last of the first, and the exit issues in the cycle behind it.
  CHECK(units.others.issued[0].first == (kCount - 1) * interval + fp64.latency + 1);
  CHECK(units.stats.stall_scoreboard.cycles.value() == fp64.latency - 1);
}

TEST_CASE("warps that arrive at a barrier one after another go on together", "[sm][SM-03]") {
  constexpr std::uint32_t kWarps = 4;
  UnitsWithoutSystemC units(with([](ListProgram& p) { p.barrier(); }), kWarps);
  units.run();
  const IssueParams& issue = units.params.issue;
  REQUIRE(units.others.issued.size() == kWarps);
  for (const auto& [cycle, slot] : units.others.issued) {
    CHECK(cycle == kWarps * issue.barrier_interval + issue.barrier_latency);
  }
  CHECK(units.supervisor.waits == kWarps - 1);  // the last one has nobody to wait for
  CHECK(units.supervisor.faults.empty());
}

TEST_CASE("a barrier that waits for more warps than there are is a fault", "[sm][SM-03]") {
  UnitsWithoutSystemC units(with([](ListProgram& p) { p.barrier(CtaBarriers::kBarriers); }), 1);
  units.run();
  CHECK(units.supervisor.faults == std::vector<arch::FaultKind>{arch::FaultKind::barrier});
  CHECK(units.others.issued.empty());
}

TEST_CASE("a CTA of a CGA reports that all its warps have arrived, and goes on when the phase completes",
          "[sm][CGA-13]") {
  UnitsWithoutSystemC units(with([](ListProgram& p) { p.cluster_arrive(arch::Order::relaxed).cluster_wait(); }), 2);
  units.cta().start.tag.cga_id = heddle::protocol::CgaId(7);
  units.run();
  REQUIRE(units.notices.sent.size() == 1);
  CHECK(units.notices.sent[0].second.kind == ClusterNoticePacket::Kind::arrived);
  CHECK(units.notices.sent[0].second.tag.cga_id == 7);
  CHECK(units.others.issued.empty());
  CHECK(units.warps[units.cta().warps[0]].wait == WarpWait::cluster);

  constexpr Cycle kPasses = 500;
  units.time.run_until(kPasses - 1);
  units.barriers.pass(units.cta(), heddle::arch::CgaLevel::gpc, kPasses);
  units.time.run();
  REQUIRE(units.others.issued.size() == 2);
  for (const auto& [cycle, slot] : units.others.issued) CHECK(cycle == kPasses);
  CHECK(units.cta().cluster[0].phases == 1);
}

TEST_CASE("a closed gate holds back what issues to memory, and nothing else", "[sm][SM-03]") {
  ListProgram loads(4);
  loads.load({}, 1, [](const test::Warp&, std::uint32_t lane) { return 4 * lane; }).exit();
  UnitsWithoutSystemC units(std::move(loads), 1);
  for (std::uint32_t i = 0; i < units.params.memory.requests; ++i) units.gate.request_begins();
  units.gate.note_closed();
  CHECK(units.gate.free() == kNever);
  units.run();
  CHECK(units.others.issued.empty());
  constexpr Cycle kOpens = 40;
  units.time.run_until(kOpens - 1);
  units.gate.request_ends();
  units.gate.consider_opening(kOpens);
  units.time.run();
  REQUIRE(units.others.issued.size() == 2);
  CHECK(units.others.issued[0].first == kOpens);
}

TEST_CASE("a record of a CTA begins anew with every CTA", "[sm]") {
  CtaTable ctas(2);
  protocol::CtaStartPacket start;
  start.cta_slot = heddle::protocol::CtaSlot(1);
  start.tag.operation = 9;
  start.tag.cga_id = heddle::protocol::CgaId(3);
  const arch::Code code;
  ctas[1].arrive(start, 50);
  CHECK_FALSE(ctas.runs(9));  // without a program it does not count as running one
  ctas[1].code = &code;
  CHECK(ctas.runs(9));
  CHECK(ctas[1].in_cga());
  ctas[1].fate = CtaFate::killed;
  ctas[1].context.depth = 4;
  ctas[1].turn = Cta::QueueTurn{1, 2};
  ctas[1].cluster[0].arrived = 3;
  ctas[1].stage = CtaStage::absent;
  CHECK_FALSE(ctas.runs(9));

  ctas[1].arrive(start, 70);
  CHECK(ctas[1].stage == CtaStage::running);
  CHECK_FALSE(ctas[1].killed());
  CHECK_FALSE(ctas[1].context.depth);
  CHECK_FALSE(ctas[1].turn);
  CHECK(ctas[1].cluster[0].arrived == 0);
  CHECK(ctas[1].begin == 70);
}

namespace {

struct LaunchLab {
  NotedLink<protocol::ChildPacket> link;
  TaskLink tasks{link};
  GpuObservation observation{"gpu0"};
  SmStats stats{observation.stats, "gpu0.sm0"};
  arch::LaunchMemory memory = [] {
    arch::LaunchMemory its;
    its.tasks.pool = {0x10000, 8, 128};
    its.contexts.pool = {0x20000, 8, 128};
    return its;
  }();
  std::uint64_t progress = 0;
  LaunchSequence sequence{{memory, 3, stats, progress, tasks}, 300};
  Cta cta;
  LaunchRun run;
};

}  // namespace

TEST_CASE("a launch in a grid that no record describes is a fault, and a wait finds nothing", "[sm][TSK-06]") {
  LaunchLab lab;
  lab.run.code = OpCode::launch_child;
  lab.run.lanes = 1;
  lab.run.children.resize(1);
  lab.run.children[0].kernel = 0x4000;
  const LaunchNext launch = lab.sequence.begin(lab.run, lab.cta, 10);
  CHECK(launch.kind == LaunchNext::Kind::fault);
  CHECK(launch.address == 0x4000);
  lab.run.code = OpCode::wait_children;
  const LaunchNext wait = lab.sequence.begin(lab.run, lab.cta, 10);
  CHECK(wait.kind == LaunchNext::Kind::finish);
  CHECK(wait.when == 10);
}

TEST_CASE("a stream gets a TMDQ that has none, whatever other CTAs of its context have made meanwhile",
          "[sm][TSK-07][TSK-11]") {
  LaunchLab lab;
  lab.cta.record = 0x10000;
  lab.cta.context.state = Cta::Context::State::here;
  lab.cta.context.address = 0x20080;
  lab.run.code = OpCode::stream_create;
  lab.run.lanes = 0b101;
  std::vector<std::uint32_t> registers(arch::kWarpLanes, 77);
  LaunchNext next = lab.sequence.begin(lab.run, lab.cta, 10);
  REQUIRE(next.kind == LaunchNext::Kind::stage);
  REQUIRE(next.stage == LaunchStage::begin);
  next = lab.sequence.begin_one(lab.run, lab.cta, registers.data(), 11);
  REQUIRE(next.stage == LaunchStage::create);
  lab.run.stage = next.stage;
  // TMDQ 0 has stream 0.
  arch::MemoryStep step = lab.sequence.step(lab.run, lab.cta);
  CHECK(step.kind == arch::MemoryStep::Kind::compare_exchange);
  CHECK(step.address == 0x20080 + arch::context::live_streams(1));
  CHECK(step.compare == 0);
  CHECK(step.value == 1);
  // Others have three there.
  next = lab.sequence.answer(lab.run, lab.cta, 0b1101, registers.data(), 300);
  REQUIRE(next.stage == LaunchStage::create);
  CHECK(registers[0] == 77);
  step = lab.sequence.step(lab.run, lab.cta);
  CHECK(step.address == 0x20080 + arch::context::live_streams(2));
  next = lab.sequence.answer(lab.run, lab.cta, 0, registers.data(), 400);
  CHECK(next.kind == LaunchNext::Kind::finish);
  CHECK(next.when == 400);
  CHECK(registers[0] == arch::stream_number(2, 0));
  CHECK(registers[1] == 77);
  CHECK(registers[2] == arch::stream_number(2, 0));
  CHECK(lab.cta.context.lives(arch::stream_number(1, 2)));
  CHECK_FALSE(lab.cta.context.lives(arch::stream_number(1, 1)));
}

}  // namespace sm_units_test
