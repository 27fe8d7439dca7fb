// The barrier of a CGA against sets of CTAs, under random interleavings of everything that can happen to them.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "gpc/cga_table.h"
#include "support/random.h"

namespace gpc_cga_barrier_test {

using heddle::CheckFailed;
using heddle::Cycle;
using heddle::gpc::CgaBarrier;
using heddle::gpc::CgaResidency;
using heddle::test::Random;

namespace {

// What a CTA has gone through; the oracle counts from nothing but that.
enum class State { unlaunched, running, waiting, gone };

struct Oracle {
  std::vector<State> ctas;
  std::vector<bool> entered;

  std::uint32_t in(State state) const {
    return static_cast<std::uint32_t>(std::count(ctas.begin(), ctas.end(), state));
  }
  bool complete() const {
    for (const bool known : entered) {
      if (!known) return false;
    }
    return in(State::waiting) > 0 && in(State::running) == 0 && in(State::unlaunched) == 0;
  }
  std::uint32_t pick(State state, Random& random) const {
    std::uint32_t which = random.below(in(state));
    for (std::uint32_t rank = 0;; ++rank) {
      if (ctas[rank] == state && which-- == 0) return rank;
    }
  }
};

std::uint32_t population(std::uint32_t mask) { return heddle::bits::count(mask); }

}  // namespace

TEST_CASE("a cluster barrier completes when all CTAs are known and all that live have arrived",
          "[gpc][CGA-04][CGA-13]") {
  std::uint64_t phases = 0;
  std::uint64_t by_exit = 0;
  std::uint64_t by_entry = 0;
  for (const std::uint64_t seed : heddle::test::seeds(4000)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ctas = random.chance(10) ? 32 : random.between(1, 8);
    CgaBarrier barrier;
    barrier.open(ctas);
    Oracle oracle{std::vector<State>(ctas, State::unlaunched), std::vector<bool>(ctas, false)};
    const std::uint32_t leave_percent = random.between(1, 30);
    std::uint32_t released = 0;
    Cycle now = 0;
    Cycle latest = 0;
    bool due = false;
    for (int step = 0; step < 300 && oracle.in(State::gone) < ctas; ++step) {
      now += random.below(3);
      const Cycle when = now + random.below(5);  // it is heard ahead
      enum { none, entry, arrival, exit } what = none;
      // A CTA is launched, and entered some time later: even after it has arrived or gone.
      if (oracle.in(State::unlaunched) > 0 && random.chance(20)) {
        oracle.ctas[oracle.pick(State::unlaunched, random)] = State::running;
      } else if (random.chance(30)) {
        const std::uint32_t rank = random.below(ctas);
        if (oracle.ctas[rank] == State::unlaunched || oracle.entered[rank]) continue;
        barrier.enter(rank, when);
        oracle.entered[rank] = true;
        what = entry;
      } else if (oracle.in(State::running) > 0 && random.chance(leave_percent)) {
        const std::uint32_t rank = oracle.pick(State::running, random);
        barrier.leave(rank, when);
        oracle.ctas[rank] = State::gone;
        what = exit;
      } else if (oracle.in(State::waiting) > 0 && random.chance(leave_percent / 2)) {
        // It has arrived and does not wait: it goes at any time.
        const std::uint32_t rank = oracle.pick(State::waiting, random);
        barrier.leave(rank, when);
        oracle.ctas[rank] = State::gone;
        what = exit;
      } else if (oracle.in(State::running) > 0 && !due) {
        const std::uint32_t rank = oracle.pick(State::running, random);
        barrier.arrive(rank, when);
        oracle.ctas[rank] = State::waiting;
        what = arrival;
      }
      if (what != none) latest = std::max(latest, when);
      const bool now_due = !due && what != none && oracle.complete();
      REQUIRE(barrier.completes() == now_due);
      due = due || now_due;
      if (now_due) {
        ++phases;
        by_exit += what == exit ? 1 : 0;
        by_entry += what == entry ? 1 : 0;
        REQUIRE(barrier.latest() == latest);
      }
      REQUIRE(population(barrier.arrived()) == oracle.in(State::waiting));
      REQUIRE(barrier.waited_for() == (oracle.in(State::waiting) > 0 && !due));
      REQUIRE(barrier.all_entered() == (std::count(oracle.entered.begin(), oracle.entered.end(), false) == 0));
      REQUIRE(population(barrier.missing()) == oracle.in(State::unlaunched) + oracle.in(State::running));
      if (due && random.chance(40)) {
        barrier.release();
        due = false;
        std::replace(oracle.ctas.begin(), oracle.ctas.end(), State::waiting, State::running);
        REQUIRE(barrier.phases() == ++released);
        REQUIRE(barrier.arrived() == 0);
        REQUIRE_FALSE(barrier.completes());
      }
    }
  }
  CHECK(phases > 10'000);
  CHECK(by_exit > 1000);
  CHECK(by_entry > 300);
}

TEST_CASE("what cannot happen at a cluster barrier is caught", "[gpc][CGA-13]") {
  CgaBarrier barrier;
  CHECK_THROWS_AS(barrier.open(0), CheckFailed);
  CHECK_THROWS_AS(barrier.open(33), CheckFailed);
  barrier.open(2);
  CHECK_THROWS_AS(barrier.enter(2, 0), CheckFailed);
  CHECK_THROWS_AS(barrier.arrive(32, 0), CheckFailed);
  CHECK_THROWS_AS(barrier.release(), CheckFailed);
  barrier.enter(0, 5);
  barrier.enter(1, 3);
  CHECK(barrier.entered_from() == 5);
  CHECK_THROWS_AS(barrier.enter(1, 3), CheckFailed);
  barrier.arrive(0, 7);
  CHECK_THROWS_AS(barrier.arrive(0, 8), CheckFailed);
  CHECK_FALSE(barrier.completes());
  barrier.leave(1, 6);
  CHECK_THROWS_AS(barrier.leave(1, 6), CheckFailed);
  CHECK_THROWS_AS(barrier.arrive(1, 6), CheckFailed);
  CHECK(barrier.completes());
  CHECK(barrier.latest() == 7);
  CHECK_FALSE(barrier.completes());                    // once
  CHECK_THROWS_AS(barrier.arrive(0, 8), CheckFailed);  // before it was told of the end
  barrier.release();
  barrier.arrive(0, 9);
  CHECK(barrier.completes());
  barrier.open(1);
  CHECK_FALSE(barrier.all_entered());
  CHECK(barrier.phases() == 0);
}

TEST_CASE("a flush has ended when every host has answered", "[gpc][CGA-12]") {
  for (const std::uint64_t seed : heddle::test::seeds(500)) {
    CAPTURE(seed);
    Random random(seed);
    CgaResidency residency(4);
    const std::uint32_t id = random.below(4);
    for (int round = 0; round < 5; ++round) {
      std::set<std::uint32_t> used;
      for (std::uint32_t i = random.between(1, 20); i > 0; --i) {
        const std::uint32_t host = random.below(64);
        used.insert(host);
        residency.add(id, host);
      }
      REQUIRE(heddle::bits::count(residency.places(id)) == used.size());
      REQUIRE_THROWS_AS(residency.answer(id, *used.begin(), 0), CheckFailed);
      if (random.chance(20)) {
        residency.forget(id);
        REQUIRE(residency.places(id) == 0);
        continue;
      }
      residency.begin_flush(id);
      REQUIRE(residency.places(id) == 0);
      REQUIRE_THROWS_AS(residency.begin_flush(id), CheckFailed);
      std::vector<std::uint32_t> order(used.begin(), used.end());
      random.shuffle(order);
      Cycle latest = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        const Cycle when = random.below(100);
        latest = std::max(latest, when);
        REQUIRE(residency.answer(id, order[i], when) == (i + 1 == order.size()));
        REQUIRE_THROWS_AS(residency.answer(id, order[i], when), CheckFailed);
        REQUIRE(heddle::bits::count(residency.silent(id)) == order.size() - i - 1);
      }
      REQUIRE(residency.answered(id) == latest);
    }
    residency.add(id, 3);
    residency.reset();
    REQUIRE(residency.places(id) == 0);
  }
}

}  // namespace gpc_cga_barrier_test
