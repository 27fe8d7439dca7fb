// Resources that are reserved ahead: as exact as a paced link for what comes in order, and never more than the resource
// has for what does not.
#include "common/reservation.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "common/link_network.h"
#include "support/random.h"

namespace heddle::common_reservation_test {
namespace {

using test::Random;
using test::seeds;

struct Served {
  Cycle when = 0;
  Cycle begin = 0;
  std::uint32_t amount = 0;
};

// What begins in any stretch of time is no more than the resource serves in it, but for a window on either side and
// a few that begin where little is left and are served behind it.
void check_rate(std::vector<Served> served, double rate) {
  std::sort(served.begin(), served.end(), [](const Served& a, const Served& b) { return a.begin < b.begin; });
  std::uint32_t largest = 0;
  for (const Served& one : served) largest = std::max(largest, one.amount);
  for (std::size_t i = 0; i < served.size(); ++i) {
    double sum = 0;
    for (std::size_t k = i; k < served.size(); ++k) {
      sum += served[k].amount;
      const double cycles = static_cast<double>(served[k].begin - served[i].begin) + 2.0 * ReservedLink::kWindow;
      if (sum > rate * cycles + 3 * largest) {
        CAPTURE(i, k, served[i].begin, served[k].begin, sum, rate);
        REQUIRE(sum <= rate * cycles + 3 * largest);
      }
    }
  }
}

}  // namespace

TEST_CASE("what comes in order is served as by a paced link, to the cycle", "[common][HST-03]") {
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    const double rate = random.between(1, 2000) / 8.0;
    ReservedLink link(rate);
    LinkPace pace(rate);
    Cycle when = random.below(1000);
    for (std::uint32_t i = 0; i < 400; ++i) {
      const std::uint32_t amount = random.between(1, 300);
      const Cycle expected = pace.earliest(when);
      pace.take(expected, amount);
      REQUIRE(link.take(when, amount) == expected);
      when = expected + (random.chance(5) ? random.below(5000) : random.below(8));
    }
  }
}

TEST_CASE("what comes late gets what was left free, and nothing is served twice as fast", "[common][HST-03]") {
  std::uint64_t filled = 0;
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const double rate = random.between(8, 1600) / 8.0;
    ReservedLink link(rate);
    const std::uint32_t spread = random.between(1, 1000);  // cycles
    const double load = random.between(10, 150) / 100.0;
    std::vector<Served> served;
    double now = 0;
    for (std::uint32_t i = 0; i < 500; ++i) {
      const std::uint32_t amount = random.between(1, 200);
      now += amount / (rate * load);
      Served one;
      one.when = static_cast<Cycle>(now) + (random.chance(50) ? random.below(spread) : spread);
      one.amount = amount;
      const Cycle last = served.empty() ? 0 : served.back().begin;
      one.begin = link.take(one.when, amount);
      REQUIRE(one.begin >= one.when);
      filled += one.begin < last ? 1 : 0;
      served.push_back(one);
    }
    check_rate(served, rate);
    // Where there is enough for all, nobody waits for long.
    if (load < 0.6) {
      for (const Served& one : served) REQUIRE(static_cast<double>(one.begin - one.when) <= 64 + 20 * 200 / rate);
    }
  }
  CHECK(filled > 10'000);
}

TEST_CASE("a time that the calendar has left behind is free, unless all was taken then", "[common][HST-03]") {
  const auto link_after = [](std::uint32_t taken) {
    ReservedLink link(1);
    for (std::uint32_t i = 0; i < taken / 16; ++i) link.take(0, 16);  // all of [0, taken)
    CHECK(link.take(50'000, 1) == 50'000);
    return link;
  };
  for (const std::uint32_t taken : {16U, 160U, 9600U}) {
    CAPTURE(taken);
    for (const Cycle when : {Cycle{0}, Cycle{taken / 2}, Cycle{taken - 1}}) {
      CHECK(link_after(taken).take(when, 1) >= taken);
    }
    for (const Cycle when : {Cycle{taken}, Cycle{taken + 1}, Cycle{20'000}}) {
      CHECK(link_after(taken).take(when, 1) == when);
    }
  }
}

TEST_CASE("a resource that was reset is free", "[common][HST-03]") {
  ReservedLink link(2);
  for (int i = 0; i < 100; ++i) link.take(5000, 128);
  CHECK(link.take(5000, 128) > 10'000);
  link.reset();
  CHECK(link.take(3, 128) == 3);
  CHECK(link.take(3, 128) == 67);
}

TEST_CASE("who finds a line that is still to come waits for it", "[common][HST-03]") {
  PendingFills fills;
  CHECK(fills.ready(7, 10) == 10);
  fills.note(7, 500);
  fills.note(8, 300);
  CHECK(fills.ready(7, 10) == 500);
  CHECK(fills.ready(7, 600) == 600);
  CHECK(fills.ready(8, 10) == 300);
  CHECK(fills.ready(9, 10) == 10);
  fills.reset();
  CHECK(fills.ready(7, 10) == 10);
  fills.note(0, 90);
  CHECK(fills.ready(0, 10) == 90);
  CHECK(fills.ready(1, 10) == 10);
}

}  // namespace heddle::common_reservation_test
