// A close look at a warp: it goes round if it comes back to the same state and writes the same, and only then.
#include <catch2/catch.hpp>

#include "sm/warp.h"
#include "support/random.h"

namespace sm_warp_round_test {

using namespace heddle;
using arch::AtomicKind;
using arch::OpCode;
using sm::WarpRound;

namespace {

arch::WarpState state_of(std::uint32_t pc, std::uint32_t value, std::int64_t count = 0) {
  arch::WarpState state;
  state.pc = pc;
  state.registers = {value, value + 1};
  state.scalars = {count};
  return state;
}

arch::Operation operation(OpCode code, std::uint64_t address = 0, std::uint32_t value = 0) {
  arch::Operation op;
  op.code = code;
  op.lanes = 1;
  op.address[0] = address;
  op.data[0][0] = value;
  return op;
}

arch::Operation atomic(AtomicKind kind, std::uint32_t value, std::uint64_t compare = 0) {
  arch::Operation op = operation(OpCode::atomic, 64, value);
  op.atomic = kind;
  op.compare[0] = compare;
  return op;
}

// `rounds` rounds of a state with a load and one with that operation.
WarpRound loop_with(const arch::Operation& op, int rounds = 20) {
  WarpRound round;
  for (int i = 0; i < rounds; ++i) {
    round.before(state_of(4, 0));
    round.after(operation(OpCode::load, 128));
    round.before(state_of(5, 7));
    round.after(op);
  }
  return round;
}

}  // namespace

TEST_CASE("a loop that polls goes round, and it is known where it looks", "[sm][TSK-12]") {
  const WarpRound round = loop_with(operation(OpCode::compute));
  CHECK(round.closed());
  CHECK_FALSE(round.acts());
  CHECK(round.length() == 2);
  REQUIRE(round.look().has_value());
  CHECK(round.look()->pc == 4);
  CHECK(round.look()->address == 128);
}

TEST_CASE("what a loop writes decides whether it goes round", "[sm][TSK-12]") {
  CHECK(loop_with(operation(OpCode::store, 64, 3)).closed());
  CHECK(loop_with(atomic(AtomicKind::exchange, 1)).closed());
  CHECK(loop_with(atomic(AtomicKind::compare_exchange, 1, 0)).closed());
  CHECK(loop_with(atomic(AtomicKind::max, 9)).closed());
  CHECK(loop_with(atomic(AtomicKind::add, 0)).closed());  // a way to read
  for (const AtomicKind kind : {AtomicKind::add, AtomicKind::bit_xor, AtomicKind::increment, AtomicKind::decrement}) {
    const WarpRound counts = loop_with(atomic(kind, 1));
    CHECK_FALSE(counts.closed());
    CHECK(counts.acts());
  }
  for (const OpCode code : {OpCode::launch_child, OpCode::queue_append, OpCode::mbarrier_arrive, OpCode::bulk_store,
                            OpCode::async_copy, OpCode::tensor_reduce}) {
    CHECK(loop_with(operation(code)).acts());
  }
}

TEST_CASE("a loop whose state is the same, and whose stores are not, does not go round", "[sm][TSK-12]") {
  WarpRound round;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    round.before(state_of(4, 0));
    round.after(operation(OpCode::load, 128));
    round.before(state_of(5, 0));
    round.after(operation(OpCode::store, 128, i));
    REQUIRE_FALSE(round.closed());
  }
  CHECK(round.acts());
}

TEST_CASE("who looks at the clock does not go round, and has done nothing that others can see", "[sm][TSK-12]") {
  arch::Operation special = operation(OpCode::special);
  special.special = arch::SpecialRegister::warp_slot;
  CHECK(loop_with(special).closed());
  special.special = arch::SpecialRegister::clock;
  CHECK_FALSE(loop_with(special).closed());
  CHECK_FALSE(loop_with(special).acts());
}

TEST_CASE("words of a store that are not written do not count", "[sm][TSK-12]") {
  WarpRound round;
  for (std::uint32_t i = 0; i < 20; ++i) {
    arch::Operation store = operation(OpCode::store, 128, 1);
    store.data[0][1] = i;
    store.compare[0] = i;
    store.data[5][0] = i;  // of a lane that takes no part
    round.before(state_of(4, 0));
    round.after(store);
  }
  CHECK(round.closed());
}

TEST_CASE("on random automata: a warp goes round if its states come again, soon after they do for the second time",
          "[sm][TSK-12]") {
  HEDDLE_RANDOM(dice);
  for (int run = 0; run < 300; ++run) {
    const std::uint64_t before = dice.between64(0, 50);
    const std::uint64_t period = dice.between64(1, 60);
    const bool counts = dice.one_in(3);  // in a loop counter
    CAPTURE(run, before, period, counts);
    WarpRound round;
    std::uint64_t closed = 0;
    const std::uint64_t steps = 4 * (before + 2 * period) + 16;
    for (std::uint64_t i = 0; i < steps; ++i) {
      const std::uint64_t at = i < before ? i : before + (i - before) % period;
      const std::int64_t count = counts ? static_cast<std::int64_t>(i) : 0;
      // Two places share a pc: only their registers tell them apart.
      round.before(state_of(static_cast<std::uint32_t>(at / 2), static_cast<std::uint32_t>(at % 2), count));
      round.after(operation(OpCode::compute));
      if (round.closed() && closed == 0) closed = i;
    }
    REQUIRE(round.closed() == !counts);
    if (counts) continue;
    CHECK(round.length() == period);
    CHECK(closed >= before + 2 * period);  // twice the same
    CHECK(round.issued() == steps);
  }
}

}  // namespace sm_warp_round_test
