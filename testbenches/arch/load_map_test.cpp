// Load over time against an array with a cell per unit and cycle.
#include "arch/load_map.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace arch_load_map_test {

using namespace heddle;

namespace {

void require_near(double actual, double expected) {
  if (actual != Approx(expected).epsilon(1e-12).margin(1e-12)) REQUIRE(actual == Approx(expected));
}

}  // namespace

TEST_CASE("an empty map has no columns and no load", "[load_map]") {
  LoadMap map;
  CHECK(map.units() == 0);
  CHECK(map.bins() == 0);
  CHECK(map.mean() == 0.0);
  map.add(0, 0, 100, 1);  // not configured: nothing to record into
  CHECK(map.last() == 0);
  map.configure(3, 64);
  CHECK(map.units() == 3);
  CHECK(map.bins() == 0);
  CHECK(map.mean() == 0.0);
  map.add(1, 50, 50, 7);  // empty intervals
  map.add(1, 50, 40, 7);
  CHECK(map.bins() == 0);
}

TEST_CASE("a full unit is 100 %, in every column and on the mean", "[load_map]") {
  LoadMap map;
  map.configure(2, 64);
  map.add(0, 0, 1000, 64);
  REQUIRE(map.bins() == 16);  // of 64 cycles; the last has seen 40
  for (std::uint32_t bin = 0; bin < 16; ++bin) {
    CHECK(map.load(0, bin) == Approx(1.0));
    CHECK(map.load(1, bin) == 0.0);
  }
  CHECK(map.mean() == Approx(0.5));
}

TEST_CASE("columns become wider when the map is full, and never too many", "[load_map]") {
  LoadMap map;
  map.configure(1, 1);
  CHECK(map.bin_cycles() == 64);
  map.add(0, 0, 64 * 256, 1);
  CHECK(map.bins() == 256);
  CHECK(map.bin_cycles() == 64);
  map.add(0, 64 * 256, 64 * 256 + 1, 1);
  CHECK(map.bin_cycles() == 128);
  CHECK(map.bins() == 129);
  std::uint64_t end = 64 * 256 + 1;
  for (int i = 0; i < 20; ++i) {
    map.add(0, end, end * 3, 1);
    end *= 3;
    CHECK(map.bins() >= 128);
    CHECK(map.bins() <= 256);
    CHECK(map.mean() == Approx(1.0));
    CHECK(map.load(0, map.bins() - 1) == Approx(1.0));
    CHECK(map.last() == end);
  }
}

TEST_CASE("one interval far in the future finds its column at once", "[load_map]") {
  LoadMap map;
  map.configure(1, 2);
  const std::uint64_t far = 1'000'000'000'000;
  map.add(0, far, far + 500, 2);
  CHECK(map.bins() >= 128);
  CHECK(map.bins() <= 256);
  CHECK(map.mean() == Approx(500.0 / static_cast<double>(far + 500)));
}

TEST_CASE("clear() begins again with narrow columns", "[load_map]") {
  LoadMap map;
  map.configure(1, 1);
  map.add(0, 0, 1'000'000, 1);
  map.clear();
  CHECK(map.bins() == 0);
  CHECK(map.bin_cycles() == 64);
  map.add(0, 0, 64, 1);
  CHECK(map.bins() == 1);
  CHECK(map.load(0, 0) == Approx(1.0));
}

TEST_CASE("random intervals give the load of an array with a cell per cycle", "[load_map]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 150; ++round) {
    const std::uint32_t units = dice.between(1, 4);
    const double capacity = static_cast<double>(dice.between64(1, 64));
    const std::uint64_t horizon = dice.between64(1, dice.one_in(2) ? 20'000 : 100'000);
    CAPTURE(round, units, capacity, horizon);
    LoadMap map;
    map.configure(units, capacity);
    std::vector<std::vector<std::uint64_t>> steps(units, std::vector<std::uint64_t>(horizon + 1));
    std::uint64_t last = 0;
    const std::uint64_t count = dice.between64(1, 60);
    for (std::uint64_t i = 0; i < count; ++i) {
      // In no order, and with ends on the borders of columns now and then.
      std::uint64_t begin = dice.between64(0, horizon - 1);
      if (dice.one_in(3)) begin = begin / 64 * 64;
      std::uint64_t end = std::min(horizon, begin + dice.between64(1, dice.one_in(3) ? horizon : 300));
      if (dice.one_in(3)) end = std::max(begin + 1, end / 64 * 64);
      const std::uint32_t unit = dice.between(0, units - 1);
      const std::uint32_t weight = dice.between(1, 8);
      map.add(unit, begin, end, weight);
      steps[unit][begin] += weight;
      steps[unit][end] -= weight;  // wraps and comes back in the sum
      last = std::max(last, end);
    }
    REQUIRE(map.last() == last);
    REQUIRE(map.bins() <= LoadMap::kBins);
    REQUIRE((map.bins() >= LoadMap::kBins / 2 || map.bin_cycles() == 64));
    REQUIRE((map.bins() - 1) * map.bin_cycles() < last);
    REQUIRE(map.bins() * map.bin_cycles() >= last);
    double total = 0;
    for (std::uint32_t unit = 0; unit < units; ++unit) {
      std::uint64_t level = 0;
      std::uint64_t cycle = 0;
      for (std::uint32_t bin = 0; bin < map.bins(); ++bin) {
        std::uint64_t sum = 0;
        const std::uint64_t begin = cycle;
        for (; cycle < std::min(last, (bin + 1) * map.bin_cycles()); ++cycle) {
          level += steps[unit][cycle];
          sum += level;
        }
        total += static_cast<double>(sum);
        require_near(map.load(unit, bin), static_cast<double>(sum) / (static_cast<double>(cycle - begin) * capacity));
      }
    }
    require_near(map.mean(), total / (static_cast<double>(last) * capacity * units));
  }
}

}  // namespace arch_load_map_test
