// mbarriers: their 64 bits, their limits, and random histories against a reference.
#include "arch/mbarrier.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/mbarrier_reference.h"
#include "support/random.h"

namespace arch_mbarrier_test {

using namespace heddle::arch;
using heddle::test::agree;
using heddle::test::MbarrierReference;
using heddle::test::Random;

namespace {

using Result = MbarrierResult;

constexpr std::uint64_t kMaxCount = kMbarrierMaxCount;
constexpr std::uint64_t kMaxTx = kMbarrierMaxTx;

std::uint64_t fresh(std::uint64_t count) {
  std::uint64_t object = 0;
  REQUIRE(mbarrier_init(object, count) == Result::ok);
  return object;
}

// `action` is refused and changes nothing.
template <class Action>
void check_refused(std::uint64_t object, Action action) {
  const std::uint64_t before = object;
  CHECK(action(object) == Result::wrong);
  CHECK(object == before);
}

}  // namespace

TEST_CASE("an mbarrier comes back from its 64 bits", "[arch][CGA-14]") {
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    Mbarrier barrier;
    barrier.valid = random.chance(80);
    barrier.parity = random.below(2);
    barrier.pending = random.between(0, kMaxCount);
    barrier.expected = random.between(0, kMaxCount);
    barrier.tx = static_cast<std::int32_t>(random.between(0, 2 * kMaxTx)) - kMbarrierMaxTx;
    const Mbarrier back = decode(encode(barrier));
    REQUIRE(back.valid == barrier.valid);
    REQUIRE(back.parity == barrier.parity);
    REQUIRE(back.pending == barrier.pending);
    REQUIRE(back.expected == barrier.expected);
    REQUIRE(back.tx == barrier.tx);
  }
}

TEST_CASE("the bits of an mbarrier lie where they are said to", "[arch][CGA-14]") {
  CHECK(encode(Mbarrier{true, 0, 0, 0, 0}) == 0x8000'0000'0000'0000U);
  CHECK(encode(Mbarrier{true, 1, 0, 0, 0}) == 0xA000'0000'0000'0000U);
  CHECK(encode(Mbarrier{false, 0, 0x1'2345, 0, 0}) == 0x1'2345U);
  CHECK(encode(Mbarrier{false, 0, 0, 0xF'FFFF, 0}) == 0xFF'FFF0'0000U);
  CHECK(encode(Mbarrier{false, 0, 0, 0, 1}) == 0x100'0000'0000U);
  CHECK(encode(Mbarrier{false, 0, 0, 0, -1}) == 0x1FFF'FF00'0000'0000U);
  CHECK_FALSE(decode(0).valid);
  CHECK_FALSE(decode(~std::uint64_t{0}).valid);  // bit 62 is set
  CHECK_FALSE(decode(0x4000'0000'0000'0000U).valid);
}

TEST_CASE("an mbarrier is initialised with 1 to 2^20 - 1 arrivals", "[arch][CGA-14]") {
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{7}, kMaxCount}) {
    const Mbarrier barrier = decode(fresh(count));
    CHECK(barrier.valid);
    CHECK(barrier.parity == 0);
    CHECK(barrier.pending == count);
    CHECK(barrier.expected == count);
    CHECK(barrier.tx == 0);
  }
  for (const std::uint64_t count : {std::uint64_t{0}, kMaxCount + 1, (std::uint64_t{1} << 32) + 1, ~std::uint64_t{0}}) {
    check_refused(0x1234, [&](std::uint64_t& object) { return mbarrier_init(object, count); });
    check_refused(fresh(3), [&](std::uint64_t& object) { return mbarrier_init(object, count); });
  }
  // Whatever was there before.
  std::uint64_t object = ~std::uint64_t{0};
  REQUIRE(mbarrier_init(object, 5) == Result::ok);
  CHECK(object == fresh(5));
}

TEST_CASE("what was not initialised, or was invalidated, is no mbarrier", "[arch][CGA-14]") {
  std::uint64_t gone = fresh(2);
  REQUIRE(mbarrier_invalidate(gone) == Result::ok);
  // Bit 63 and the one transaction count that no operation leaves: -2^20.
  const std::uint64_t impossible = encode(Mbarrier{true, 0, 1, 1, 0}) | std::uint64_t{1} << 60;
  for (const std::uint64_t object : {std::uint64_t{0}, std::uint64_t{0x4000'0000'0000'0001}, gone, impossible}) {
    check_refused(object, [](std::uint64_t& o) { return mbarrier_invalidate(o); });
    check_refused(object, [](std::uint64_t& o) { return mbarrier_arrive(o, 1, 0); });
    check_refused(object, [](std::uint64_t& o) { return mbarrier_expect(o, 0); });
    check_refused(object, [](std::uint64_t& o) { return mbarrier_complete(o, 0); });
    CHECK(mbarrier_test(object, 0) == MbarrierTest::wrong);
    CHECK(mbarrier_test(object, 1) == MbarrierTest::wrong);
  }
}

TEST_CASE("arrivals complete a phase, and the next one expects as many", "[arch][CGA-14]") {
  std::uint64_t object = fresh(3);
  std::uint32_t parity = 9;
  CHECK(mbarrier_arrive(object, 1, 0, &parity) == Result::ok);
  CHECK(parity == 0);
  CHECK(decode(object).pending == 2);
  CHECK(mbarrier_test(object, 0) == MbarrierTest::waits);
  CHECK(mbarrier_test(object, 1) == MbarrierTest::passed);  // the phase before the first
  CHECK(mbarrier_arrive(object, 2, 0, &parity) == Result::completes);
  CHECK(parity == 0);  // of the phase that it arrived in
  CHECK(decode(object).pending == 3);
  CHECK(mbarrier_test(object, 0) == MbarrierTest::passed);
  CHECK(mbarrier_test(object, 1) == MbarrierTest::waits);
  CHECK(mbarrier_arrive(object, 3, 0, &parity) == Result::completes);
  CHECK(parity == 1);
  CHECK(object == fresh(3));
  CHECK(mbarrier_test(object, 2) == MbarrierTest::wrong);
  CHECK(mbarrier_test(object, std::uint64_t{1} << 32) == MbarrierTest::wrong);
}

TEST_CASE("an arrival too many, or a count out of range, is refused", "[arch][CGA-14]") {
  std::uint32_t parity = 9;
  for (const std::uint64_t count : {std::uint64_t{0}, kMaxCount + 1, ~std::uint64_t{0}}) {
    check_refused(fresh(kMaxCount), [&](std::uint64_t& o) { return mbarrier_arrive(o, count, 0, &parity); });
  }
  check_refused(fresh(4), [&](std::uint64_t& o) { return mbarrier_arrive(o, 5, 0, &parity); });
  // The bytes that it would have expected are not expected either.
  check_refused(fresh(4), [&](std::uint64_t& o) { return mbarrier_arrive(o, 5, 64, &parity); });
  CHECK(parity == 9);
  std::uint64_t object = fresh(1);
  REQUIRE(mbarrier_arrive(object, 1, 16) == Result::ok);
  CHECK(decode(object).pending == 0);
  check_refused(object, [](std::uint64_t& o) { return mbarrier_arrive(o, 1, 0); });
  std::uint64_t most = fresh(kMaxCount);
  CHECK(mbarrier_arrive(most, kMaxCount, 0) == Result::completes);
}

TEST_CASE("the transaction count keeps to its range", "[arch][CGA-14]") {
  std::uint64_t object = fresh(1);
  REQUIRE(mbarrier_expect(object, kMaxTx) == Result::ok);
  CHECK(decode(object).tx == kMbarrierMaxTx);
  check_refused(object, [](std::uint64_t& o) { return mbarrier_expect(o, 1); });
  check_refused(object, [](std::uint64_t& o) { return mbarrier_arrive(o, 1, 1); });
  CHECK(mbarrier_complete(object, 2 * kMaxTx) == Result::ok);
  CHECK(decode(object).tx == -kMbarrierMaxTx);
  check_refused(object, [](std::uint64_t& o) { return mbarrier_complete(o, 1); });
  CHECK(mbarrier_expect(object, 2 * kMaxTx) == Result::ok);
  for (const std::uint64_t bytes : {kMaxTx + 1, std::uint64_t{1} << 32, ~std::uint64_t{0}, ~std::uint64_t{0} - 5}) {
    check_refused(fresh(1), [&](std::uint64_t& o) { return mbarrier_expect(o, bytes); });
    check_refused(fresh(1), [&](std::uint64_t& o) { return mbarrier_complete(o, bytes); });
    check_refused(fresh(1), [&](std::uint64_t& o) { return mbarrier_arrive(o, 1, bytes); });
  }
  std::uint64_t idle = fresh(2);
  CHECK(mbarrier_expect(idle, 0) == Result::ok);
  CHECK(mbarrier_complete(idle, 0) == Result::ok);
  CHECK(idle == fresh(2));
}

TEST_CASE("a phase ends with the last byte, arrival or expectation", "[arch][CGA-14]") {
  std::uint64_t bytes_last = fresh(1);
  CHECK(mbarrier_arrive(bytes_last, 1, 48) == Result::ok);
  CHECK(mbarrier_complete(bytes_last, 32) == Result::ok);
  CHECK(mbarrier_test(bytes_last, 0) == MbarrierTest::waits);
  CHECK(mbarrier_complete(bytes_last, 16) == Result::completes);
  CHECK(mbarrier_test(bytes_last, 0) == MbarrierTest::passed);

  std::uint64_t arrival_last = fresh(2);
  CHECK(mbarrier_expect(arrival_last, 48) == Result::ok);
  CHECK(mbarrier_complete(arrival_last, 48) == Result::ok);
  CHECK(mbarrier_arrive(arrival_last, 2, 0) == Result::completes);

  // Data before they are expected: the count is negative for a while, and that holds the phase open.
  std::uint64_t expect_last = fresh(1);
  CHECK(mbarrier_complete(expect_last, 48) == Result::ok);
  CHECK(decode(expect_last).tx == -48);
  CHECK(mbarrier_arrive(expect_last, 1, 0) == Result::ok);
  CHECK(mbarrier_test(expect_last, 0) == MbarrierTest::waits);
  CHECK(mbarrier_expect(expect_last, 47) == Result::ok);
  CHECK(mbarrier_expect(expect_last, 1) == Result::completes);
  CHECK(decode(expect_last).pending == 1);

  std::uint64_t both_last = fresh(1);
  CHECK(mbarrier_complete(both_last, 48) == Result::ok);
  CHECK(mbarrier_arrive(both_last, 1, 48) == Result::completes);
}

// All have arrived, and the data came before: the expectation ends the phase, and the arrival counts for the next one.
TEST_CASE("an arrival that expects expects first", "[arch][CGA-14]") {
  std::uint64_t object = fresh(2);
  REQUIRE(mbarrier_complete(object, 48) == Result::ok);
  REQUIRE(mbarrier_arrive(object, 2, 0) == Result::ok);
  std::uint32_t parity = 9;
  CHECK(mbarrier_arrive(object, 1, 48, &parity) == Result::completes);
  CHECK(parity == 1);
  CHECK(decode(object).parity == 1);
  CHECK(decode(object).pending == 1);
}

namespace {

enum class Op : std::uint8_t { init, invalidate, arrive, expect, complete };

struct Step {
  Op op = Op::arrive;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::string text() const {
    constexpr const char* kNames[] = {"init", "invalidate", "arrive", "expect", "complete"};
    return fmt::format("{} {} {}; ", kNames[static_cast<int>(op)], count, bytes);
  }
};

Result apply(std::uint64_t& object, const Step& step, std::uint32_t& parity) {
  switch (step.op) {
    case Op::init:
      return mbarrier_init(object, step.count);
    case Op::invalidate:
      return mbarrier_invalidate(object);
    case Op::arrive:
      return mbarrier_arrive(object, step.count, step.bytes, &parity);
    case Op::expect:
      return mbarrier_expect(object, step.bytes);
    case Op::complete:
      break;
  }
  return mbarrier_complete(object, step.bytes);
}

Result apply(MbarrierReference& reference, const Step& step, std::uint64_t& phase) {
  switch (step.op) {
    case Op::init:
      return reference.init(step.count);
    case Op::invalidate:
      return reference.invalidate();
    case Op::arrive:
      return reference.arrive(step.count, step.bytes, &phase);
    case Op::expect:
      return reference.expect(step.bytes);
    case Op::complete:
      break;
  }
  return reference.complete(step.bytes);
}

// The same step on both; true: a phase was completed.
bool both(std::uint64_t& object, MbarrierReference& reference, const Step& step) {
  const std::uint64_t before = object;
  std::uint32_t parity = 2;
  std::uint64_t phase = 0;
  const Result result = apply(object, step, parity);
  REQUIRE(result == apply(reference, step, phase));
  REQUIRE(agree(object, reference));
  if (result == Result::wrong) REQUIRE(object == before);
  REQUIRE(parity == (step.op == Op::arrive && result != Result::wrong ? phase % 2 : 2));
  for (const std::uint64_t asked : {0, 1, 2}) REQUIRE(mbarrier_test(object, asked) == reference.test(asked));
  return result == Result::completes;
}

std::uint64_t some_bytes(Random& random) {
  if (random.chance(70)) return random.between(0, 3) * 16;
  return random.chance(80) ? random.between(0, 2 * kMaxTx + 2) : random.next();
}

// An actor that takes turns with others: in every phase it expects, arrives and completes in an order of its own, and
// waits for the phase before it goes on.
struct Actor {
  std::vector<Step> plan;  // of this phase
  std::size_t next = 0;
  std::uint64_t phase = 0;
};

Actor begin_phase(Random& random, std::uint64_t phase, std::uint32_t arrivals) {
  Actor actor;
  actor.phase = phase;
  const std::uint64_t bytes = random.chance(70) ? random.between(1, 20) * 16 : random.between(1, kMaxTx / 8);
  actor.plan.push_back({Op::arrive, arrivals, random.chance(50) ? bytes : 0});
  if (actor.plan[0].bytes == 0 && random.chance(70)) {
    // Its own arrival comes after its expectation, or the phase could end between the two.
    actor.plan.insert(actor.plan.begin(), {Op::expect, 0, bytes});
  }
  const bool moves = actor.plan.size() == 2 || actor.plan[0].bytes != 0;
  if (!moves) return actor;
  const std::uint64_t first = random.between(0, bytes);
  for (const std::uint64_t part : {first, bytes - first}) {
    const std::uint32_t at = random.below(actor.plan.size() + 1);
    actor.plan.insert(actor.plan.begin() + at, {Op::complete, 0, part});
  }
  return actor;
}

}  // namespace

TEST_CASE("mbarriers agree with a reference in any history of operations", "[arch][CGA-14]") {
  std::uint64_t completions = 0;
  std::uint64_t refusals = 0;
  for (const std::uint64_t seed : heddle::test::seeds(4000)) {
    Random random(seed);
    std::uint64_t object = random.chance(90) ? 0 : random.next() >> 2;
    MbarrierReference reference;
    std::string log;
    for (int i = 0; i < 60; ++i) {
      Step step;
      const std::uint32_t kind = random.below(100);
      step.op = kind < 4    ? Op::init
                : kind < 5  ? Op::invalidate
                : kind < 45 ? Op::arrive
                : kind < 70 ? Op::expect
                            : Op::complete;
      step.count = random.chance(90)   ? random.between(1, 3)
                   : random.chance(50) ? random.between(0, kMaxCount + 2)
                                       : random.next();
      step.bytes = step.op == Op::arrive && random.chance(60) ? 0 : some_bytes(random);
      // Often what is missing: otherwise few phases would end.
      if (step.op == Op::expect && random.chance(30)) step.bytes = reference.delivered - reference.promised;
      if (step.op == Op::complete && random.chance(30)) step.bytes = reference.promised - reference.delivered;
      log += step.text();
      CAPTURE(seed, log);
      const std::uint64_t before = object;
      if (both(object, reference, step)) ++completions;
      refusals += object == before ? 1 : 0;
    }
  }
  CHECK(completions > 5'000);
  CHECK(refusals > 10'000);
}

TEST_CASE("actors that arrive, expect, complete and wait in turn never lose a phase", "[arch][CGA-14]") {
  std::uint64_t negative = 0;
  for (const std::uint64_t seed : heddle::test::seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t actors = random.between(1, 8);
    const std::uint32_t phases = random.between(1, 6);
    std::vector<std::uint32_t> arrivals;
    std::uint64_t total = 0;
    for (std::uint32_t a = 0; a < actors; ++a) {
      arrivals.push_back(random.chance(80) ? 1 : random.between(1, 1000));
      total += arrivals.back();
    }
    std::uint64_t object = 0;
    MbarrierReference reference;
    both(object, reference, {Op::init, total, 0});
    std::vector<Actor> running;
    for (std::uint32_t a = 0; a < actors; ++a) running.push_back(begin_phase(random, 0, arrivals[a]));
    std::uint64_t completed = 0;
    for (std::uint64_t ended = 0; ended < actors;) {
      const std::uint32_t a = random.below(actors);
      Actor& actor = running[a];
      if (actor.phase == phases) continue;
      if (actor.next < actor.plan.size()) {
        if (both(object, reference, actor.plan[actor.next++])) ++completed;
        negative += decode(object).tx < 0 ? 1 : 0;
        continue;
      }
      const MbarrierTest test = mbarrier_test(object, actor.phase % 2);
      REQUIRE((test == MbarrierTest::passed) == reference.over(actor.phase));
      if (test != MbarrierTest::passed) continue;
      REQUIRE(completed == actor.phase + 1);
      const std::uint64_t next = actor.phase + 1;
      actor = begin_phase(random, next, arrivals[a]);
      if (next == phases) ++ended;
    }
    REQUIRE(completed == phases);
    REQUIRE(decode(object).tx == 0);
  }
  CHECK(negative > 1000);
}

}  // namespace arch_mbarrier_test
