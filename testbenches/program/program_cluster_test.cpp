// Steps of programs that concern clusters: what they become, and what they compute without an SM.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/address_map.h"
#include "common/yaml_util.h"
#include "program/program_machine.h"

namespace program_cluster_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using arch::OpCode;
using arch::Order;
using arch::Scope;
using arch::Space;
using Catch::Contains;
using test::ProgramMachine;

namespace {

const std::string kOut = "[{name: out, bytes: 64 KiB}]";

// What the first warp of a CTA issues, with the demand of each operation.
struct Issued {
  arch::Operation operation;
  arch::OperationNeeds demand;
  std::string name;
};
std::vector<Issued> issued(const std::string& steps, arch::LaneMask lanes = ~arch::LaneMask{0},
                           const std::string& kernel = "  grid: 1\n  block: 32\n") {
  const ProgramMachine machine(kernel + "  program:\n" + steps);
  const arch::WarpProgram& program = *machine.kernel().program;
  arch::WarpPlace place;
  place.block = {32, 1, 1};
  place.lanes = lanes;
  place.rank = 3;
  place.cluster_size = 8;
  arch::WarpState state;
  program.start(place, state);
  std::vector<Issued> result;
  while (!state.exited) {
    Issued one;
    one.demand = program.demand(state);
    one.name = program.describe(state);
    program.issue(place, state, one.operation);
    REQUIRE(one.operation.code == one.demand.code);
    REQUIRE(one.operation.unit == one.demand.unit);
    result.push_back(one);
  }
  return result;
}
Issued first(const std::string& step, arch::LaneMask lanes = ~arch::LaneMask{0}) {
  return issued("  - " + step + "\n", lanes).front();
}

bool has(const std::vector<arch::RegisterRange>& ranges, std::uint16_t reg) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const arch::RegisterRange& r) { return r.first <= reg && reg < r.first + r.count; });
}

}  // namespace

TEST_CASE("an access to the shared memory of the cluster has rank and offset", "[workload][SM-02][CGA-05]") {
  const Issued load = first("load: {to: x, type: f32, at: 64 + 4 * lane, space: cluster, rank: (rank + lane) % 5}");
  CHECK(load.operation.code == OpCode::load);
  CHECK(load.operation.space == Space::cluster);
  CHECK(load.operation.unit == arch::Unit::memory);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(load.operation.address[lane] == arch::dsmem_address((3 + lane) % 5, 64 + 4 * lane));
  }
  const Issued store =
      first("store: {value: 7, type: u8, at: 5, space: cluster, rank: 7, order: release, scope: cluster}");
  CHECK(store.operation.space == Space::cluster);
  CHECK(store.operation.address[31] == arch::dsmem_address(7, 5));
  CHECK(store.operation.order == Order::release);
  CHECK(store.operation.scope == Scope::cluster);
  const Issued atomic = first("atomic: {op: add, type: u32, at: 8, space: cluster, rank: 0, value: 3, to: old}");
  CHECK(atomic.operation.space == Space::cluster);
  CHECK(atomic.operation.address[0] == 8);
  CHECK(atomic.operation.destination == 0);
}

TEST_CASE("the registers of rank and offset are read", "[workload][SM-02]") {
  const std::vector<Issued> steps = issued(
      "  - set: {r: lane, type: u32}\n  - set: {o: lane, type: u32}\n"
      "  - load: {to: x, type: u32, at: 4 * o, space: cluster, rank: r}\n"
      "  - mbarrier_arrive: {at: 8 * o, rank: r, count: x, expect: o}\n");
  CHECK(has(steps[2].demand.reads, 0));
  CHECK(has(steps[2].demand.reads, 1));
  CHECK_FALSE(has(steps[2].demand.reads, 2));
  CHECK(has(steps[3].demand.reads, 0));
  CHECK(has(steps[3].demand.reads, 1));
  CHECK(has(steps[3].demand.reads, 2));
}

TEST_CASE("a rank or an offset that nothing has stays so", "[workload][CGA-05][CGA-07]") {
  const auto address = [](const std::string& rank, const std::string& at, const std::string& type) {
    const Issued load =
        first("load: {to: x, type: " + type + ", space: cluster, rank: \"" + rank + "\", at: \"" + at + "\"}");
    return load.operation.address[1];
  };
  using arch::dsmem_address;
  CHECK(address("255", "0", "u32") == dsmem_address(255, 0));
  for (const std::string wrong :
       {"256", "-1", "1 / (lane - 1)", "(lane - 1) / (lane - 1)", "2 ^ 40", "-(2 ^ 70)", "300 * lane"}) {
    CAPTURE(wrong);
    CHECK(address(wrong, "16", "u32") == dsmem_address(255, 16));
  }
  CHECK(address("0", "16777212", "u32") == dsmem_address(0, 0xFF'FFFC));
  for (const std::string wrong :
       {"16777216", "-4", "1 / (lane - 1)", "(lane - 1) / (lane - 1)", "2 ^ 32", "2 ^ 63", "-(2 ^ 40)"}) {
    CAPTURE(wrong);
    CHECK(address("2", wrong, "u32") == dsmem_address(2, 0xFF'FFFC));
    CHECK(address("2", wrong, "u64") == dsmem_address(2, 0xFF'FFF8));
    CHECK(address("2", wrong, "u8") == dsmem_address(2, 0xFF'FFFF));
  }
  CHECK(address("1.9", "4.5", "u32") == dsmem_address(1, 4));
}

TEST_CASE("the barrier of the cluster", "[workload][SM-02][CGA-13]") {
  const std::vector<Issued> both = issued("  - cluster_barrier\n");
  REQUIRE(both.size() == 3);
  CHECK(both[0].operation.code == OpCode::cluster_arrive);
  CHECK(both[0].operation.order == Order::release);
  CHECK(both[0].name == "cluster_barrier (line 9)");
  CHECK(both[1].operation.code == OpCode::cluster_wait);
  CHECK(both[1].operation.order == Order::acquire);
  const auto order = [](const std::string& step) { return first(step).operation.order; };
  CHECK(order("cluster_arrive") == Order::release);
  CHECK(order("cluster_arrive: {}") == Order::release);
  CHECK(order("cluster_arrive: {order: relaxed}") == Order::relaxed);
  CHECK(order("cluster_wait") == Order::acquire);
  CHECK(order("cluster_wait: {order: acquire}") == Order::acquire);
  CHECK(order("cluster_wait: {order: relaxed}") == Order::relaxed);
  CHECK(first("cluster_wait: {}").operation.code == OpCode::cluster_wait);
  CHECK(first("cluster_arrive: {}").operation.unit == arch::Unit::none);
}

TEST_CASE("operations on mbarriers", "[workload][SM-02][CGA-14]") {
  const auto operation = [](const std::string& step) { return first(step).operation; };
  const arch::Operation init = operation("mbarrier_init: {at: 64, count: 5}");
  CHECK(init.code == OpCode::mbarrier_init);
  CHECK(init.space == Space::shared);
  CHECK(init.unit == arch::Unit::memory);
  CHECK(init.width == 8);
  CHECK(init.address[0] == 64);
  CHECK(init.data[0][0] == 5);
  CHECK(operation("mbarrier_invalidate: {at: 8}").code == OpCode::mbarrier_invalidate);

  const arch::Operation arrive = operation("mbarrier_arrive: {at: 64}");
  CHECK(arrive.code == OpCode::mbarrier_arrive);
  CHECK(arrive.data[0][0] == 1);
  CHECK(arrive.data[0][1] == 0);
  CHECK(arrive.order == Order::release);
  CHECK(arrive.scope == Scope::cta);
  CHECK(arrive.destination == arch::kNoRegister);
  const arch::Operation remote =
      operation("mbarrier_arrive: {at: 64, rank: 2, count: 3, expect: 4096, order: relaxed}");
  CHECK(remote.space == Space::cluster);
  CHECK(remote.address[0] == arch::dsmem_address(2, 64));
  CHECK(remote.data[0][0] == 3);
  CHECK(remote.data[0][1] == 4096);
  CHECK(remote.order == Order::relaxed);
  CHECK(remote.scope == Scope::cluster);
  CHECK(operation("mbarrier_arrive: {at: 64, rank: 2, scope: gpu}").scope == Scope::gpu);
  CHECK(operation("mbarrier_arrive: {at: 64, scope: cluster}").scope == Scope::cluster);
  CHECK(operation("mbarrier_expect: {at: 64, bytes: 128}").code == OpCode::mbarrier_expect);
  CHECK(operation("mbarrier_expect: {at: 64, bytes: 128}").space == Space::shared);
  const arch::Operation complete = operation("mbarrier_complete: {at: 64, rank: rank + 1, bytes: 128}");
  CHECK(complete.code == OpCode::mbarrier_complete);
  CHECK(complete.address[0] == arch::dsmem_address(4, 64));
  CHECK(complete.data[0][0] == 128);

  const arch::Operation wait = operation("mbarrier_wait: {at: 64, parity: rank % 2}");
  CHECK(wait.code == OpCode::mbarrier_wait);
  CHECK(wait.data[0][0] == 1);
  CHECK(wait.order == Order::acquire);
  CHECK(wait.scope == Scope::cta);
  CHECK(operation("mbarrier_wait: {at: 64, parity: 0, scope: cluster, order: relaxed}").order == Order::relaxed);
  const Issued test = first("mbarrier_test: {at: 64, parity: 1, to: done}");
  CHECK(test.operation.code == OpCode::mbarrier_test);
  CHECK(test.operation.order == Order::acquire);
  CHECK(test.operation.destination == 0);
  REQUIRE(test.demand.writes.size() == 1);
  CHECK(test.demand.writes[0].count == 1);
  CHECK(first("mbarrier_arrive: {at: 64, to: p}").demand.writes.size() == 1);
}

TEST_CASE("one lane uses an mbarrier, unless all shall", "[workload][SM-02][CGA-14]") {
  const std::string uses[] = {
      "init: {at: 64, count: 1",        "invalidate: {at: 64",         "arrive: {at: 64",
      "expect: {at: 64, bytes: 1",      "complete: {at: 64, bytes: 1", "wait: {at: 64, parity: 0",
      "arrive: {at: 64, rank: 1, to: p"};
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(uses[i]);
    CHECK(first("mbarrier_" + uses[i] + "}", 0xFF00).operation.lanes == 0x100);
    CHECK(first("mbarrier_" + uses[i] + ", lanes: first}", 0x8000'0000).operation.lanes == 0x8000'0000);
    CHECK(first("mbarrier_" + uses[i] + ", lanes: all}", 0xFF00).operation.lanes == 0xFF00);
  }
  // A test changes nothing.
  CHECK(first("mbarrier_test: {at: 64, parity: 0, to: p}", 0xFF00).operation.lanes == 0xFF00);
  CHECK(first("mbarrier_test: {at: 64, parity: 0, to: p, lanes: first}", 0xFF00).operation.lanes == 0x100);
  // Each lane has numbers of its own.
  const arch::Operation all = first("mbarrier_arrive: {at: 8 * lane, count: lane + 1, lanes: all}").operation;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(all.address[lane] == 8 * lane);
    CHECK(all.data[lane][0] == lane + 1);
  }
}

TEST_CASE("a number that is too large for an mbarrier stays too large", "[workload][CGA-14]") {
  for (const std::string wrong : {"2 ^ 32", "2 ^ 32 + 1", "-1", "1 / (lane - 1)", "(lane - 1) / (lane - 1)"}) {
    CAPTURE(wrong);
    CHECK(first("mbarrier_init: {at: 0, lanes: all, count: \"" + wrong + "\"}").operation.data[1][0] == 0xFFFF'FFFF);
  }
  CHECK(first("mbarrier_init: {at: 0, count: 1048576}").operation.data[0][0] == 1'048'576);
  CHECK(first("mbarrier_wait: {at: 0, parity: 2}").operation.data[0][0] == 2);
}

TEST_CASE("a barrier names the level of its cluster, or means the innermost one", "[workload][SM-02][CWD-09]") {
  const std::string kernel = "  grid: 16\n  block: 32\n  cluster: {gpu: 16, ugpu: 8, gpc: 4}\n";
  const auto level = [&kernel](const std::string& step) {
    const std::vector<Issued> all = issued("  - " + step + "\n", ~arch::LaneMask{0}, kernel);
    for (const Issued& one : all) {
      if (one.operation.code != OpCode::exit) CHECK(one.operation.cga_level == all[0].operation.cga_level);
    }
    return all[0].operation.cga_level;
  };
  for (const std::string step : {"cluster_barrier", "cluster_arrive", "cluster_wait"}) {
    CAPTURE(step);
    CHECK(level(step) == std::nullopt);
    CHECK(level(step + ": {level: gpc}") == arch::CgaLevel::gpc);
    CHECK(level(step + ": {level: ugpu}") == arch::CgaLevel::ugpu);
    CHECK(level(step + ": {level: gpu}") == arch::CgaLevel::gpu);
  }
  CHECK(first("cluster_wait: {order: relaxed}").operation.cga_level == std::nullopt);
}

TEST_CASE("shared memory is given back, special registers are read", "[workload][SM-02][CGA-09][CGA-10]") {
  const arch::Operation release = first("release_shared: {from: 1024 * rank}").operation;
  CHECK(release.code == OpCode::release_shared);
  CHECK(release.address[0] == 3072);
  for (std::size_t i = 0; i < arch::kSpecialRegisters; ++i) {
    const auto special = static_cast<arch::SpecialRegister>(i);
    CAPTURE(arch::special_name(special));
    const arch::Operation read =
        first(fmt::format("special: {{to: x, register: {}}}", special_name(special))).operation;
    CHECK(read.special == special);
    CHECK(read.width == 4);
  }
  const Issued wide = first("special: {to: x, register: cga_memory, type: u64}");
  CHECK(wide.operation.width == 8);
  CHECK(wide.demand.writes.front().count == 2);
}

TEST_CASE("operations of clusters are possible without one", "[workload][SM-02][CGA-13]") {
  ProgramMachine machine(R"(
  grid: 2
  block: 64
  shared: 512 B
  program:
  - store: {value: thread + 100 * cta, type: u32, at: 4 * thread, space: cluster, rank: rank}
  - cluster_barrier
  - load: {to: x, type: u32, at: 4 * (63 - thread), space: cluster, rank: 0}
  - store: {value: x + 1000 * cluster.size, type: u32, at: out + 4 * (64 * cta + thread)}
)",
                         kOut);
  machine.run->run();
  for (std::uint32_t i = 0; i < 128; ++i) {
    CHECK(machine.at<std::uint32_t>("out", i) == 1000 + 100 * (i / 64) + 63 - i % 64);
  }
}

TEST_CASE("an mbarrier's parity tells phases apart", "[workload][SM-02][CGA-14]") {
  ProgramMachine machine(R"(
  grid: 4
  block: 32
  shared: 16 B
  cluster: 4
  program:
  - mbarrier_init: {at: 8, count: 1}
  - cluster_barrier
  - loop:
      var: round
      to: 5
      do:
      - mbarrier_arrive: {at: 8, rank: (rank + round) % 4}
      - mbarrier_wait: {at: 8, parity: round % 2}
      - set: {done: 0, type: u32}
      - set: {tests: 0, type: u32}
      - while: {cond: done == 0, do: [{mbarrier_test: {at: 8, parity: round % 2, to: done}}, {set: {tests: tests + 1}}]}
      - store: {value: 10 * tests + done, type: u32, at: out + 4 * (160 * rank + 32 * round + lane)}
      - cluster_barrier
  - mbarrier_invalidate: {at: 8}
)",
                         kOut);
  machine.run->checkpoints = GENERATE(false, true);
  machine.run->run();
  for (std::uint32_t i = 0; i < 640; ++i) REQUIRE(machine.at<std::uint32_t>("out", i) == 11);
  CHECK(machine.run->of_code[OpCode::mbarrier_arrive] == 20);
}

TEST_CASE("the shipped scenarios of clusters exchange what they say, or fail as they say", "[workload][SM-02]") {
  const std::string folder = std::string(HEDDLE_SOURCE_DIR) + "/scenarios/";
  ProgramMachine exchange(read_scenario(folder + "cluster_exchange.yaml"));
  CHECK(exchange.scenario.workloads[0].warnings.empty());
  const auto uneven = static_cast<std::uint64_t>(GENERATE(0, 1, 2));
  for (const Op& op : exchange.scenario.workloads[0].ops) {
    test::ProgramRun run(op.kernel, exchange.global);
    run.uneven = uneven;
    run.run();
  }
  int memories = 0;
  for (const Expectation& expectation : exchange.scenario.expectations) {
    if (expectation.kind != ExpectationKind::memory) continue;
    ++memories;
    CHECK(difference(expectation, exchange.bytes(expectation.memory)).empty());
  }
  CHECK(memories == 1);

  ProgramMachine fault(read_scenario(folder + "cluster_fault.yaml"));
  const std::vector<Op>& ops = fault.scenario.workloads[0].ops;
  CHECK_THROWS_WITH(test::ProgramRun(ops[0].kernel, fault.global).run(), "the CTA has exited");
  test::ProgramRun(ops[1].kernel, fault.global).run();
  const std::vector<Expectation>& expected = fault.scenario.expectations;
  REQUIRE(expected.size() == 2);
  CHECK(expected[0].fault == arch::FaultKind::cta_not_present);
  CHECK(expected[0].cluster == 0U);
  CHECK(expected[0].rank == 0U);
  CHECK(difference(expected[1], fault.bytes("y")).empty());
}

TEST_CASE("the example of clusters on the page on scenarios is right", "[workload][SM-02]") {
  const std::string page = read_text_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.md");
  const std::size_t begin = page.find("heddle: 1\nname: neighbours");
  REQUIRE(begin != std::string::npos);
  ProgramMachine machine(parse_scenario(page.substr(begin, page.find("```", begin) - begin), "scenario.md"));
  machine.run->uneven = static_cast<std::uint64_t>(GENERATE(range(0, 20)));
  machine.run->run();
  REQUIRE(machine.scenario.expectations.size() == 1);
  CHECK(difference(machine.scenario.expectations[0], machine.bytes("y")).empty());
}

}  // namespace program_cluster_test
