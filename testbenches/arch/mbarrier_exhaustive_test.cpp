// Every interleaving of three actors over two phases of an mbarrier, against a reference in every state.
#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/mbarrier.h"
#include "arch/mbarrier_reference.h"
#include "support/random.h"

namespace arch_mbarrier_exhaustive_test {

using namespace heddle::arch;
using heddle::test::agree;
using heddle::test::MbarrierReference;
using heddle::test::Random;

namespace {

constexpr std::uint32_t kActors = 3;
constexpr std::uint32_t kPhases = 2;
using Result = MbarrierResult;

enum class Op : std::uint8_t { init, invalidate, arrive, expect, complete, wait };

struct Step {
  Op op = Op::arrive;
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;
  std::uint32_t phase = 0;  // wait: for its end
};
using Programs = std::array<std::vector<Step>, kActors>;

Result act(std::uint64_t& object, const Step& step) {
  switch (step.op) {
    case Op::init:
      return mbarrier_init(object, step.count);
    case Op::invalidate:
      return mbarrier_invalidate(object);
    case Op::arrive:
      return mbarrier_arrive(object, step.count, step.bytes);
    case Op::expect:
      return mbarrier_expect(object, step.bytes);
    default:
      return mbarrier_complete(object, step.bytes);
  }
}

Result act(MbarrierReference& reference, const Step& step) {
  switch (step.op) {
    case Op::init:
      return reference.init(step.count);
    case Op::invalidate:
      return reference.invalidate();
    case Op::arrive:
      return reference.arrive(step.count, step.bytes);
    case Op::expect:
      return reference.expect(step.bytes);
    default:
      return reference.complete(step.bytes);
  }
}

// Depth first through all states that any interleaving reaches.
class Explorer {
 public:
  // `orderly`: programs that use the barrier as it is meant. Nothing is wrong then, and no interleaving gets stuck.
  Explorer(const Programs& programs, bool orderly) : programs_(programs), orderly_(orderly) {}

  struct State {
    std::uint64_t object = 0;
    MbarrierReference reference;
    std::array<std::uint8_t, kActors> at{};
  };

  void explore(const State& state) {
    if (!seen_.insert(key(state)).second) return;
    if (!agree(state.object, state.reference)) fail("the object and the reference differ");
    bool moved = false;
    bool open = false;
    for (std::uint32_t a = 0; a < kActors; ++a) {
      if (state.at[a] == programs_[a].size()) continue;
      open = true;
      State next = state;
      if (!go(next, programs_[a][state.at[a]])) continue;
      ++next.at[a];
      moved = true;
      explore(next);
    }
    if (open && !moved) {
      ++stuck;
      if (orderly_) fail("nobody can go on");
    }
    if (!open) {
      ++ends;
      if (orderly_ && state.reference.phase != kPhases) fail("the number of phases is wrong");
    }
  }

  std::uint64_t states() const { return seen_.size(); }
  std::uint64_t stuck = 0;
  std::uint64_t ends = 0;
  std::uint64_t refused = 0;
  std::string failure;  // the first

 private:
  void fail(const char* what) {
    if (failure.empty()) failure = what;
  }

  // False: it waits.
  bool go(State& state, const Step& step) {
    if (step.op == Op::wait) return passes(state, step.phase);
    const std::uint64_t before = state.object;
    const Result result = act(state.object, step);
    if (result != act(state.reference, step)) fail("a result differs");
    if (result != Result::wrong) return true;
    ++refused;
    if (orderly_) fail("an orderly step was refused");
    if (state.object != before) fail("a refused step has changed the object");
    return true;
  }

  bool passes(const State& state, std::uint32_t phase) {
    const MbarrierTest test = mbarrier_test(state.object, phase % 2);
    if (test != state.reference.test(phase % 2)) fail("a test differs");
    if (orderly_ && (test == MbarrierTest::passed) != state.reference.over(phase)) {
      fail("a waiter does not pass exactly when its phase is over");
    }
    return test != MbarrierTest::waits;
  }

  // All that the future depends on: the reference's totals matter by their difference.
  struct Key {
    std::uint64_t object;
    std::uint64_t rest;
    bool operator==(const Key& other) const { return object == other.object && rest == other.rest; }
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return heddle::test::scramble(key.object * 31 + key.rest); }
  };
  static Key key(const State& state) {
    std::uint64_t rest = state.reference.phase;
    for (const std::uint8_t at : state.at) rest = rest << 8 | at;
    return {state.object, rest};
  }

  const Programs& programs_;
  const bool orderly_;
  std::unordered_set<Key, Hash> seen_;
};

// How an actor gets through a phase, before it waits.
constexpr std::uint32_t kStyles = 9;
void add_phase(std::vector<Step>& program, std::uint32_t style, std::uint32_t phase, std::uint32_t& arrivals) {
  constexpr std::uint32_t kBytes = 48;
  const Step arrive{Op::arrive, 1, 0, 0};
  const Step arrive_expect{Op::arrive, 1, kBytes, 0};
  const Step expect{Op::expect, 0, kBytes, 0};
  const Step complete{Op::complete, 0, kBytes, 0};
  const Step half{Op::complete, 0, kBytes / 2, 0};
  const std::array<std::vector<Step>, kStyles> steps{{
      {arrive},
      {arrive_expect, complete},
      {expect, arrive, complete},
      {expect, complete, arrive},
      {complete, arrive_expect},    // data before they are expected
      {complete, expect, arrive},   // the same
      {half, arrive_expect, half},  // the count crosses zero
      {arrive, complete, expect},   // the last step of the phase can be the expectation, or be in the next phase
      {Step{Op::arrive, 2, 0, 0}, expect, complete},
  }};
  for (const Step& step : steps[style]) {
    program.push_back(step);
    arrivals += step.count;
  }
  program.push_back({Op::wait, 0, 0, phase});
}

}  // namespace

TEST_CASE("no interleaving of three actors loses or invents one of two phases", "[arch][CGA-14]") {
  std::uint64_t states = 0;
  std::uint64_t programs = 0;
  for (std::uint32_t styles = 0; styles < kStyles * kStyles * kStyles; ++styles) {
    for (std::uint32_t shift = 0; shift < kStyles; ++shift) {
      const std::array<std::uint32_t, kActors> first{styles % kStyles, styles / kStyles % kStyles,
                                                     styles / kStyles / kStyles};
      Programs actors;
      std::array<std::uint32_t, kPhases> arrivals{};
      for (std::uint32_t a = 0; a < kActors; ++a) {
        for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
          add_phase(actors[a], (first[a] + phase * shift) % kStyles, phase, arrivals[phase]);
        }
      }
      if (arrivals[0] != arrivals[1]) continue;  // a barrier expects as many in every phase
      CAPTURE(first, shift);
      Explorer::State start;
      REQUIRE(mbarrier_init(start.object, arrivals[0]) == Result::ok);
      REQUIRE(start.reference.init(arrivals[0]) == Result::ok);
      Explorer explorer(actors, true);
      explorer.explore(start);
      REQUIRE(explorer.failure.empty());
      REQUIRE(explorer.ends > 0);
      states += explorer.states();
      ++programs;
    }
  }
  CHECK(programs > 3000);
  CHECK(states > 500'000);
}

// Programs that nobody should write: faults, waits that never end, barriers that come and go.
TEST_CASE("in every interleaving of any three programs an mbarrier does what its reference does", "[arch][CGA-14]") {
  std::uint64_t refused = 0;
  std::uint64_t stuck = 0;
  std::uint64_t states = 0;
  for (const std::uint64_t seed : heddle::test::seeds(1500)) {
    Random random(seed);
    Programs actors;
    for (std::vector<Step>& program : actors) {
      for (std::uint32_t i = random.between(2, 5); i > 0; --i) {
        Step step;
        step.op = random.chance(10) ? (random.chance(60) ? Op::init : Op::invalidate)
                                    : static_cast<Op>(random.between(2, static_cast<std::uint32_t>(Op::wait)));
        step.count = random.between(1, 2);
        step.bytes = random.chance(50) ? 16 : random.chance(70) ? 0 : kMbarrierMaxTx;
        step.phase = random.below(2);
        program.push_back(step);
      }
    }
    CAPTURE(seed);
    Explorer::State start;
    if (random.chance(90)) {
      const std::uint32_t count = random.between(1, 3);
      REQUIRE(mbarrier_init(start.object, count) == Result::ok);
      REQUIRE(start.reference.init(count) == Result::ok);
    }
    Explorer explorer(actors, false);
    explorer.explore(start);
    REQUIRE(explorer.failure.empty());
    refused += explorer.refused;
    stuck += explorer.stuck;
    states += explorer.states();
  }
  CHECK(refused > 1000);
  CHECK(stuck > 100);
  CHECK(states > 100'000);
}

}  // namespace arch_mbarrier_exhaustive_test
