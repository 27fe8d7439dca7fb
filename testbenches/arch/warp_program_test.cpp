// The state of a warp as bytes, and names of operations and special registers.
#include "arch/warp_program.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/list_program.h"
#include "support/random.h"

namespace arch_warp_program_test {

using namespace heddle::arch;
using heddle::InputError;
using heddle::test::ListProgram;
using heddle::test::Random;
using heddle::test::Warp;

namespace {

WarpState random_state(Random& random) {
  WarpState state;
  state.pc = static_cast<std::uint32_t>(random.next());
  state.exited = random.chance(50);
  state.registers.resize(std::size_t{kWarpLanes} * random.between(0, 40));
  for (std::uint32_t& value : state.registers) value = static_cast<std::uint32_t>(random.next());
  state.scalars.resize(random.between(0, 20));
  for (std::int64_t& value : state.scalars) value = static_cast<std::int64_t>(random.next());
  return state;
}

bool same(const WarpState& a, const WarpState& b) {
  return a.pc == b.pc && a.exited == b.exited && a.registers == b.registers && a.scalars == b.scalars;
}

// Runs to the exit; the codes in order, and what compute steps were asked to do.
std::string trace(const WarpProgram& program, const WarpPlace& place, WarpState& state, int most = 1'000) {
  std::string text;
  Operation operation;
  while (!state.exited && most-- > 0) {
    const OpCode code = program.demand(state).code;
    program.issue(place, state, operation);
    CHECK(operation.code == code);
    text += op_name(operation.code);
    if (operation.code == OpCode::load) text += std::to_string(operation.address[3]);
    text += ' ';
  }
  return text;
}

}  // namespace

TEST_CASE("a warp's state comes back from its bytes", "[arch][SM-02]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const WarpState state = random_state(random);
    CHECK(same(restore(save(state)), state));
  }
}

TEST_CASE("bytes that save() did not write are refused", "[arch][SM-02]") {
  for (const std::uint64_t seed : heddle::test::seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<std::uint8_t> bytes = save(random_state(random));
    std::uint32_t refused = 0;
    for (int round = 0; round < 50; ++round) {  // any bit, anywhere
      std::vector<std::uint8_t> damaged = bytes;
      damaged[random.below(damaged.size())] ^= static_cast<std::uint8_t>(1U << random.below(8));
      try {
        restore(damaged);
      } catch (const InputError&) {
        ++refused;
      }
    }
    CHECK(refused == 50);
    std::vector<std::uint8_t> cut(bytes.begin(), bytes.begin() + random.below(bytes.size()));
    CHECK_THROWS_AS(restore(cut), InputError);
    std::vector<std::uint8_t> longer = bytes;
    longer.push_back(0);
    CHECK_THROWS_AS(restore(longer), InputError);
  }
  CHECK_THROWS_AS(restore({}), InputError);
}

TEST_CASE("a state of another version is refused by its number", "[arch][SM-02]") {
  std::vector<std::uint8_t> bytes = save(WarpState{});
  bytes[4] = 77;
  CHECK_THROWS_WITH(restore(bytes), Catch::Contains("version 77"));
  bytes = save(WarpState{});
  bytes[16] = 0xFF;  // registers
  bytes[17] = 0xFF;
  CHECK_THROWS_WITH(restore(bytes), Catch::Contains("65535 registers"));
  WarpState half;
  half.registers.resize(kWarpLanes / 2);
  CHECK_THROWS_AS(save(half), heddle::CheckFailed);
}

TEST_CASE("a program goes on from a restored state as if nothing had been", "[arch][SM-02]") {
  ListProgram program(4);
  const std::size_t outer = program.loop(3);
  program.compute(Unit::fp32, 2);
  const std::size_t inner = program.loop(2);
  program.load({}, 1, [=](const Warp& warp, std::uint32_t lane) {
    return 1'000 * warp.count(outer) + 100 * warp.count(inner) + lane;
  });
  program.end_loop();
  program.end_loop();
  program.exit();
  const WarpPlace place;
  WarpState state;
  program.start(place, state);
  const std::string whole = trace(program, place, state);
  CHECK(whole == "compute load3 load103 compute load1003 load1103 compute load2003 load2103 exit ");
  program.start(place, state);
  std::string pieces;
  for (int step = 0; step < 10; ++step) {
    pieces += trace(program, place, state, 1);
    state = restore(save(state));
  }
  CHECK(state.exited);
  CHECK(pieces == whole);
}

TEST_CASE("a list program branches on what it loaded, and its lanes can be few", "[arch]") {
  ListProgram program(4);
  const std::uint32_t again = program.here();
  program.load({}, 2, ListProgram::linear(64, 4));
  program.branch(again, [](const Warp& warp) { return warp.reg(2, 0) == 0; }, {{2, 1}});
  ListProgram::Access one;
  one.lanes = ListProgram::only(5);
  program.store(one, ListProgram::of_register(2), ListProgram::linear(0, 4), {{2, 1}}).exit();
  const WarpPlace place;
  WarpState state;
  program.start(place, state);
  CHECK(trace(program, place, state, 4) == "load76 compute load76 compute ");
  state.of(2)[0] = 9;
  Operation operation;
  CHECK(trace(program, place, state, 2) == "load76 compute ");
  program.issue(place, state, operation);
  CHECK(operation.code == OpCode::store);
  CHECK(operation.lanes == 1U << 5);
  CHECK(operation.data[0][0] == 9);
}

TEST_CASE("operations have names of their own", "[arch][SM-02]") {
  std::set<std::string> names;
  for (std::uint32_t i = 0;
       i <= static_cast<std::uint32_t>(heddle::arch::kOperations[std::size(heddle::arch::kOperations) - 1].code); ++i) {
    names.insert(op_name(static_cast<OpCode>(i)));
  }
  CHECK(names.size() ==
        static_cast<std::size_t>(heddle::arch::kOperations[std::size(heddle::arch::kOperations) - 1].code) + 1);
  CHECK(op_name(OpCode::queue_append) == std::string("queue_append"));
  CHECK(op_name(OpCode::mbarrier_wait) == std::string("mbarrier_wait"));
  CHECK(unit_name(Unit::memory) == std::string("memory"));
}

TEST_CASE("special registers have names of their own", "[arch][CGA-10]") {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kSpecialRegisters; ++i) names.insert(special_name(static_cast<SpecialRegister>(i)));
  CHECK(names.size() == kSpecialRegisters);
  CHECK(special_name(SpecialRegister::clock) == std::string("clock"));
  CHECK(special_name(SpecialRegister::cta_slot) == std::string("cta_slot"));
  CHECK(special_name(SpecialRegister::block_z) == std::string("block_z"));
  CHECK(special_name(SpecialRegister::cga_cta_id) == std::string("cga_cta_id"));
  CHECK(special_name(SpecialRegister::gpc_local_cga_id) == std::string("gpc_local_cga_id"));
  CHECK(static_cast<std::size_t>(SpecialRegister::gpu_cga_z) == kSpecialRegisters - 1);
  CHECK(special_name(SpecialRegister::tpc) == std::string("tpc"));
  CHECK(special_name(SpecialRegister::trap_cga_cta_id) == std::string("trap_cga_cta_id"));
  CHECK(special_name(SpecialRegister::ugpu_cga_rank) == std::string("ugpu_cga_rank"));
  CHECK(special_name(SpecialRegister::gpu_cga_z) == std::string("gpu_cga_z"));
  CHECK(special_name(SpecialRegister::cga_memory) == std::string("cga_memory"));
}

}  // namespace arch_warp_program_test
