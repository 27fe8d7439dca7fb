// Tasks that go wrong while CTAs of them are saved, or have been, on the whole machine (TSK-12).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "protocol/packet_task.h"
#include "support/nested_parents.h"
#include "support/random.h"

namespace system_nested_fault_test {

using namespace heddle;
using namespace heddle::test;
using namespace heddle::test::parents;
using arch::FaultKind;
using arch::FaultRecord;
using arch::LaneMask;
using arch::OpCode;
using arch::Space;
using protocol::DoneStatus;

namespace {

const std::vector<std::string> kSmallPools = {"gpu.task.nested.pending_launches=64", "gpu.task.nested.contexts=64",
                                              "gpu.cwd.table_slots=16", "gpu.cwd.evicted_tasks=8"};

}  // namespace

TEST_CASE("a CTA that goes wrong after it was saved ends its operation, and the others go on", "[system][TSK-12]") {
  struct Case {
    const char* name;
    FaultKind kind;
    OpCode operation;
    std::uint32_t lane;
    std::uint64_t address;
    Crime crime;
  };
  const auto access = [](std::uint8_t width, Space space) {
    Access result;
    result.width = width;
    result.space = space;
    return result;
  };
  const std::vector<Case> cases = {
      {"a store beyond memory", FaultKind::address, OpCode::store, 8, kBytes,
       [=](ListProgram& p) {
         p.store(access(4, Space::global), ListProgram::constant(1), ListProgram::linear(kBytes - 32, 4));
       }},
      {"a misaligned load", FaultKind::misaligned, OpCode::load, 1, 0x50002,
       [=](ListProgram& p) { p.load(access(4, Space::global), 3, ListProgram::linear(0x50000, 2)); }},
      {"shared memory that was given back before", FaultKind::shared_bounds, OpCode::load, 16, kKept,
       [=](ListProgram& p) { p.load(access(4, Space::shared), 3, ListProgram::linear(kKept - 64, 4)); }},
  };
  const std::string timing = GENERATE(as<std::string>{}, "at", "fast", "lt");
  constexpr std::uint32_t kCtas = 24;
  constexpr std::uint64_t kGuilty = 5;
  for (const Case& one : cases) {
    for (const std::uint32_t rounds : {1U, 2U}) {
      CAPTURE(timing, one.name, rounds);
      SimFixture sim;
      // Ten places, so that parents and children need each other's.
      Machine machine(with(kSmallPools, {"gpu.timing=" + timing, "gpu.sm.limits.ctas=1"}));
      Plan plan;
      plan.rounds = rounds;
      const std::uint32_t good = machine.start(plan, kCtas, 1);
      plan.guilty = kGuilty;
      plan.warp = rounds % 2;
      plan.crime = one.crime;
      const std::uint32_t bad = machine.start(plan, kCtas, 0);
      plan.guilty = ~0ULL;
      const std::uint32_t next = machine.start(plan, 3, 0);
      run_until_idle();
      REQUIRE(machine.gpu.log().faults().size() == 1);
      const FaultRecord& fault = machine.gpu.log().faults().front();
      const Lives::Life& guilty = machine.lives.of(bad, kGuilty);
      CHECK(fault.kind == one.kind);
      CHECK(fault.task == bad);
      CHECK(machine.observation.labels.of(fault.task) == "parents " + std::to_string(bad));
      CHECK(fault.subcontext == bad + 2);
      CHECK(fault.sm == guilty.sms.back());
      CHECK(fault.cta == kGuilty);
      CHECK(fault.cta_x == kGuilty);
      CHECK(fault.warp == plan.warp);
      CHECK(fault.lane == one.lane);
      CHECK(fault.operation == one.operation);
      CHECK(fault.address == one.address);
      CHECK(guilty.text == (rounds == 1 ? "SsrE" : "SsrsrE"));
      CHECK(machine.host.results.at(bad).status == DoneStatus::faulted);
      CHECK(machine.stat("task.faulted") == 1);
      CHECK(machine.stat("task.child_faults") == 0);
      machine.check_results(good, kCtas);
      machine.check_results(next, 3);
      machine.check_over();
    }
  }
}

TEST_CASE("a child that goes wrong after it was saved is named, and its parent goes on", "[system][TSK-12]") {
  constexpr std::uint64_t kMiddle = 0x11'0000;  // kernel object
  constexpr std::uint64_t kNotes = 0x11'1000;
  SimFixture sim;
  Machine machine(kSmallPools);
  Access one;
  one.lanes = ListProgram::only(0);
  const auto launch = [](std::uint64_t kernel) {
    return [kernel](const Warp&, std::uint32_t lane) {
      arch::ChildLaunch child;
      child.kernel = kernel;
      child.mode = arch::LaunchMode::fire_and_forget;
      child.args[0] = 100 + lane;
      return child;
    };
  };
  const auto kernarg = [](const Warp& warp, std::uint32_t) { return warp.place.kernarg; };
  auto middle = std::make_shared<ListProgram>(4);
  middle->launch_child(launch(kLong));
  middle->wait_children();
  middle->load(one, 2, kernarg);  // its own arguments, wherever it is now
  middle->branch(middle->here() + 2, [](const Warp& warp) { return warp.reg(2, 0) != 101; }, {{2, 1}});
  middle->load({}, 3, ListProgram::linear(kBytes * 2, 4));
  middle->store(one, ListProgram::of_register(2),
                [](const Warp& warp, std::uint32_t) { return kNotes + 4 * (warp.reg(2, 0) - 100); }, {{2, 1}, {3, 1}});
  middle->exit();
  arch::KernelShape shape;
  shape.block = {32, 1, 1};
  machine.put_object(kMiddle, machine.gpu.add_code(middle, shape), "middle");
  auto root = std::make_shared<ListProgram>(2);
  root->launch_child(launch(kMiddle), {}, [](const Warp&) { return LaneMask{7}; });
  root->wait_children();
  root->store(one, ListProgram::constant(1), ListProgram::linear(kNotes + 12, 0));
  root->exit();
  const std::uint32_t operation = machine.run(root, {1, 1, 1}, {32, 1, 1});
  REQUIRE(machine.gpu.log().faults().size() == 1);
  const FaultRecord& fault = machine.gpu.log().faults().front();
  CHECK(fault.kind == FaultKind::address);
  CHECK((fault.task & protocol::kChildBit) != 0);
  CHECK_THAT(machine.observation.labels.of(fault.task), Catch::StartsWith("middle #"));
  CHECK_THAT(machine.observation.labels.of(fault.task), !Catch::Contains("restored"));
  CHECK(machine.lives.of(fault.task, 0).text == "SsrE");
  CHECK(machine.host.results.at(operation).status == DoneStatus::ok);
  CHECK(machine.stat("task.child_faults") == 1);
  CHECK(machine.read<std::uint32_t>(kNotes) == 100);
  CHECK(machine.read<std::uint32_t>(kNotes + 4) == 0);
  CHECK(machine.read<std::uint32_t>(kNotes + 8) == 102);
  CHECK(machine.read<std::uint32_t>(kNotes + 12) == 1);
  CHECK(machine.read<std::uint32_t>(kSum) == 3);
  machine.gpu.check_quiescent();
}

// One CTA goes wrong at any moment of the lives of the others. Either it has launched nothing; or it has been saved
// itself, and is back before the others, so that nothing of the task may be left in the distributor's table.
TEST_CASE("a fault at any moment ends the CTAs of its task that are saved, or are about to be", "[system][TSK-12]") {
  const bool was_saved = GENERATE(false, true);
  const std::string timing = GENERATE(as<std::string>{}, "at", "fast", "lt");
  constexpr std::uint32_t kCtas = 9;
  std::uint32_t running = 0;  // CTAs, when it happened
  std::uint32_t in_memory = 0;
  std::uint32_t back = 0;
  std::uint32_t half_way = 0;  // to memory
  // The others are saved from about 4000 to 5000, and back from about 10'000 on.
  std::vector<std::uint32_t> pauses;
  for (std::uint32_t at = 3600; !was_saved && at < 5400; at += 25) pauses.push_back(at);
  for (std::uint32_t at = 5400; !was_saved && at < 12'500; at += 200) pauses.push_back(at);
  for (std::uint32_t at = 1; was_saved && at < 4500; at += 40) pauses.push_back(at);
  for (const std::uint32_t pause : pauses) {
    CAPTURE(was_saved, timing, pause);
    SimFixture sim;
    Machine machine(with(kSmallPools, {"gpu.timing=" + timing}));
    Plan plan;
    plan.guilty = 4;
    (was_saved ? plan.impatient : plan.alone) = plan.guilty;
    plan.pause = pause;
    const std::uint32_t bad = machine.start(plan, kCtas, 0);
    plan = {};
    plan.rounds = 2;
    const std::uint32_t good = machine.start(plan, kCtas, 1);
    run_until_idle();
    REQUIRE(machine.gpu.log().faults().size() == 1);
    const FaultRecord& fault = machine.gpu.log().faults().front();
    REQUIRE(fault.task == bad);
    REQUIRE(fault.cta == 4);
    REQUIRE(machine.host.results.at(bad).status == DoneStatus::faulted);
    machine.check_results(good, kCtas);
    machine.check_over();
    for (std::uint64_t cta = 0; cta < kCtas; ++cta) {
      const auto life = machine.lives.lives.find({bad, cta});
      if (cta == 4 || life == machine.lives.lives.end()) continue;
      char last = ' ';
      for (std::size_t i = 0; i < life->second.text.size(); ++i) {
        if (life->second.cycles[i] <= fault.cycle) last = life->second.text[i];
        half_way += life->second.text[i] == 's' && life->second.cycles[i] > fault.cycle ? 1 : 0;
      }
      running += last == 'S' ? 1 : 0;
      in_memory += last == 's' ? 1 : 0;
      back += last == 'r' ? 1 : 0;
    }
  }
  CAPTURE(running, in_memory, back, half_way);
  CHECK((was_saved || running > 50));
  CHECK(in_memory > 40);
  CHECK(back > 5);
  CHECK((was_saved || half_way > 3));
}

TEST_CASE("random operations, some of them guilty, on a machine that is short of places or of memory",
          "[system][TSK-03][TSK-12]") {
  double saves = 0;
  double shared_saves = 0;
  double evictions = 0;
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    const auto number = [&](const char* name, std::uint32_t low, std::uint32_t high) {
      return std::string(name) + "=" + std::to_string(random.between(low, high));
    };
    std::vector<std::string> sets = {random.chance(30) ? "gpu.timing=lt" : "gpu.timing=at",
                                     number("gpu.sm.nested.save_delay", 1, 600),
                                     number("gpu.task.nested.in_flight", 1, 8)};
    if (random.chance(50)) {
      sets = with(sets, {number("gpu.cwd.table_slots", 1, 4), number("gpu.sm.limits.ctas", 1, 2)});
    } else {  // those that cannot be saved keep what they have
      sets = with(sets, {"gpu.cwd.active_pool=0", "gpu.cwd.pending_pool=0"});
      sets.push_back("gpu.task.nested.memory=" + std::to_string(random.between(5, 20) / 1000.0));  // a few chunks
    }
    CAPTURE(sets.front());
    const bool shared = random.chance(40);
    if (shared) sets.push_back("gpu.task.nested.shared_by=grid");
    SimFixture sim;
    Machine machine(sets);
    struct Work {
      Plan plan;
      std::uint32_t ctas = 0;
    };
    std::vector<Work> work(random.between(2, 5));
    std::size_t guilty = 0;
    for (Work& one : work) {
      one.ctas = random.between(1, 14);
      one.plan.rounds = random.between(1, 3);
      one.plan.impatient = random.below(one.ctas);
      if (random.chance(50)) one.plan.alone = random.below(one.ctas);
      if (random.chance(60)) one.plan.guilty = random.below(one.ctas);
      one.plan.warp = random.below(2);
      one.plan.pause = random.between(1, 8000);
      guilty += one.plan.guilty != ~0ULL ? 1 : 0;
      machine.start(one.plan, one.ctas, random.below(3), static_cast<std::int32_t>(random.below(3)));
    }
    run_until_idle();
    REQUIRE(machine.host.results.size() == work.size());
    REQUIRE(machine.gpu.log().faults().size() == guilty);
    for (const FaultRecord& fault : machine.gpu.log().faults()) {
      REQUIRE(fault.task < work.size());
      REQUIRE(fault.cta == work[fault.task].plan.guilty);
    }
    for (std::uint32_t operation = 0; operation < work.size(); ++operation) {
      if (work[operation].plan.guilty == ~0ULL) {
        machine.check_results(operation, work[operation].ctas);
      } else {
        REQUIRE(machine.host.results.at(operation).status == DoneStatus::faulted);
      }
    }
    machine.check_over();
    (shared ? shared_saves : saves) += machine.saves();
    evictions += machine.stat("task.evictions");
  }
  CHECK(saves > 300);
  CHECK(shared_saves > 100);
  CHECK(evictions > 10);
}

TEST_CASE("a saved CTA that memory has lost is a fault of its task, and others go on", "[system][TSK-12]") {
  enum class Lost { state, context, operation, line };
  const Lost lost = GENERATE(Lost::state, Lost::context, Lost::operation, Lost::line);
  CAPTURE(static_cast<int>(lost));
  SimFixture sim;
  Machine machine(kSmallPools);
  Plan plan;
  plan.alone = 0;
  const std::uint32_t bad = machine.start(plan, 2, 0);
  sc_core::sc_start(sc_core::sc_time(8, sc_core::SC_US));
  REQUIRE(machine.lives.of(bad, 1).text == "Ss");
  const std::uint64_t area = machine.gpu.params().nested_memory().of(machine.subcontext_of(bad)).chunks.record(0);
  REQUIRE(machine.read<std::uint32_t>(area + arch::saved::kOperation) == bad);
  switch (lost) {
    case Lost::state:
      REQUIRE(machine.gpu.memory().poison(area + arch::kRecordBytes + 64, 4));
      break;
    case Lost::context:
      machine.write<std::uint64_t>(area + arch::saved::kContext, 0x1234);
      break;
    case Lost::operation:
      machine.write<std::uint32_t>(area + arch::saved::kOperation, 4711);
      break;
    case Lost::line:
      REQUIRE(machine.gpu.memory().poison(area, 4));
      break;
  }
  const std::uint32_t good = machine.start({}, 4, 1);
  run_until_idle();
  machine.check_results(good, 4);
  REQUIRE(machine.gpu.log().faults().size() == 1);
  const FaultRecord& fault = machine.gpu.log().faults().front();
  const std::string name = "parents " + std::to_string(bad);
  if (lost == Lost::state || lost == Lost::context) {
    CHECK(fault.kind == (lost == Lost::state ? FaultKind::address : FaultKind::poison));
    CHECK(fault.cta == 1);
    CHECK(fault.address == area);
    CHECK_THAT(fault.where, Catch::StartsWith("restoring its CTA"));
    CHECK(fault.task == bad);
    CHECK(machine.observation.labels.of(fault.task) == name);
  } else {
    CHECK(fault.kind == FaultKind::child);
  }
  if (lost == Lost::state) {
    CHECK(machine.host.results.at(bad).status == DoneStatus::faulted);
    CHECK(machine.lives.of(bad, 1).text == "SsrE");
    machine.check_over();
    return;
  }
  // Nobody knows what the CTA has launched: its task waits for that, and the run says so.
  CHECK(machine.host.results.count(bad) == 0);
  WaitGraph graph;
  machine.gpu.domain().collect_waits(graph);
  std::string chain;
  for (const std::string& line : graph.chain()) chain += line + "\n";
  CHECK_THAT(chain, Catch::Contains(name + " waits: for its descendants"));
}

}  // namespace system_nested_fault_test
