// How tiles lie in shared memory, and how many cycles the banks need for their rows and columns.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_descriptor.h"
#include "common/error.h"
#include "support/random.h"

namespace arch_swizzle_test {

using namespace heddle::arch;
using heddle::InputError;

namespace {

constexpr std::array<Swizzle, 4> kAll{Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128};
constexpr std::uint32_t kWindow = 232'448;  // a CTA's largest shared memory

std::uint32_t bit(std::uint32_t value, std::uint32_t number) { return value >> number & 1; }

// TMA-20 as it is written: bit by bit.
std::uint32_t by_formula(Swizzle swizzle, std::uint32_t a) {
  if (swizzle == Swizzle::bytes32) return a ^ bit(a, 7) << 4;
  if (swizzle == Swizzle::bytes64) return a ^ bit(a, 7) << 4 ^ bit(a, 8) << 5;
  if (swizzle == Swizzle::bytes128) return a ^ bit(a, 7) << 4 ^ bit(a, 8) << 5 ^ bit(a, 9) << 6;
  return a;
}

// Cycles by the 32 banks of 4 bytes: in each, every different word takes one.
std::uint32_t by_banks(const std::vector<std::uint32_t>& units) {
  std::vector<std::set<std::uint32_t>> banks(32);
  for (const std::uint32_t unit : units) {
    for (std::uint32_t word = unit / 4; word < unit / 4 + 4; ++word) banks[word % 32].insert(word);
  }
  std::size_t most = 0;
  for (const auto& bank : banks) most = std::max(most, bank.size());
  return static_cast<std::uint32_t>(most);
}

std::uint32_t cycles(const std::vector<std::uint32_t>& units) {
  return unit_cycles(units.data(), static_cast<std::uint32_t>(units.size()));
}

// A tile of rows that are `pitch` bytes long and follow each other.
struct Tile {
  std::uint32_t base;
  std::uint32_t pitch;

  // Units of rows [from, from + 8) in one column.
  std::vector<std::uint32_t> column(const SwizzleTable& table, Swizzle swizzle, std::uint32_t from,
                                    std::uint32_t unit) const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t row = from; row < from + 8; ++row) {
      result.push_back(table(swizzle, base + row * pitch + unit * kSwizzleUnit));
    }
    return result;
  }
  // Eight units that follow each other: a line.
  std::vector<std::uint32_t> line(const SwizzleTable& table, Swizzle swizzle, std::uint32_t number) const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t unit = 0; unit < 8; ++unit) {
      result.push_back(table(swizzle, base + number * 128 + unit * kSwizzleUnit));
    }
    return result;
  }
};

std::vector<std::uint32_t> numbers(std::uint32_t (*unit)(std::uint32_t row, std::uint32_t unit)) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t row = 0; row < 8; ++row) {
    for (std::uint32_t u = 0; u < 8; ++u) result.push_back(unit(row, u));
  }
  return result;
}

std::string refusal(Swizzle swizzle, const std::vector<std::uint32_t>& units) {
  SwizzleTable table;
  try {
    table.set(swizzle, units, "gpu.sm.memory.swizzle");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the swizzles are the formulas, at every address", "[arch][TMA-20]") {
  const SwizzleTable table;
  for (const Swizzle swizzle : kAll) {
    for (std::uint32_t a = 0; a < kWindow; ++a) {
      if (table(swizzle, a) != by_formula(swizzle, a)) FAIL(swizzle_name(swizzle) << " at " << a);
    }
  }
  // Written out: the second row of 128 bytes, and the last.
  CHECK(table(Swizzle::bytes32, 0x80) == 0x90);
  CHECK(table(Swizzle::bytes32, 0xB4) == 0xA4);
  CHECK(table(Swizzle::bytes64, 0x180) == 0x1B0);
  CHECK(table(Swizzle::bytes64, 0x200) == 0x200);
  CHECK(table(Swizzle::bytes128, 0x3FF) == 0x38F);
  CHECK(table(Swizzle::bytes128, 0x400) == 0x400);
}

TEST_CASE("a swizzle exchanges units within its span and repeats after its period", "[arch][TMA-20]") {
  const SwizzleTable table;
  const std::array<std::uint32_t, 4> spans{16, 32, 64, 128};
  const std::array<std::uint32_t, 4> periods{16, 256, 512, 1024};
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    const Swizzle swizzle = kAll[i];
    CAPTURE(swizzle_name(swizzle));
    CHECK(swizzle_span(swizzle) == spans[i]);
    std::set<std::uint32_t> places;
    bool within = true;
    bool repeats = true;
    for (std::uint32_t a = 0; a < 2048; ++a) {
      const std::uint32_t to = table(swizzle, a);
      places.insert(to);
      within = within && to / spans[i] == a / spans[i] && to % 16 == a % 16;
      repeats = repeats && table(swizzle, a + periods[i]) == to + periods[i];
    }
    CHECK(places.size() == 2048);
    CHECK(*places.rbegin() == 2047);
    CHECK(within);
    CHECK(repeats);
    if (i == 0) continue;
    bool sooner = true;
    for (std::uint32_t a = 0; a < 2048; ++a) {
      sooner = sooner && table(swizzle, a + periods[i] / 2) == table(swizzle, a) + periods[i] / 2;
    }
    CHECK_FALSE(sooner);
  }
  CHECK(swizzle_name(Swizzle::none) == std::string("none"));
  CHECK(swizzle_name(Swizzle::bytes32) == std::string("32"));
  CHECK(swizzle_name(Swizzle::bytes64) == std::string("64"));
  CHECK(swizzle_name(Swizzle::bytes128) == std::string("128"));
}

// TMA-21: 8 rows of eight 16-byte units.
TEST_CASE("a column of an 8x8 tile takes 8 cycles without and 1 with the swizzle of 128 bytes",
          "[arch][TMA-20][TMA-21]") {
  const SwizzleTable table;
  for (const std::uint32_t base : {0U, 1024U, 73 * 1024U}) {
    const Tile tile{base, 128};
    for (std::uint32_t unit = 0; unit < 8; ++unit) {
      CHECK(cycles(tile.column(table, Swizzle::none, 0, unit)) == 8);
      CHECK(cycles(tile.column(table, Swizzle::bytes32, 0, unit)) == 4);
      CHECK(cycles(tile.column(table, Swizzle::bytes64, 0, unit)) == 2);
      CHECK(cycles(tile.column(table, Swizzle::bytes128, 0, unit)) == 1);
      for (const Swizzle swizzle : kAll) CHECK(cycles(tile.line(table, swizzle, unit)) == 1);
    }
  }
}

// Rows of a tile follow each other: two of 64 bytes in a line, four of 32. The table of docs/tmau.md.
TEST_CASE("the columns of a tile as wide as the span, or narrower, are free of conflicts", "[arch][TMA-20][TMA-21]") {
  const SwizzleTable table;
  struct Case {
    std::uint32_t row;  // bytes
    std::array<std::uint32_t, 4> cycles;
  };
  const std::array<Case, 4> cases{{{16, {1, 1, 1, 1}}, {32, {2, 1, 1, 1}}, {64, {4, 2, 1, 1}}, {128, {8, 4, 2, 1}}}};
  for (const Case& c : cases) {
    const Tile tile{2048, c.row};
    for (std::size_t i = 0; i < kAll.size(); ++i) {
      CAPTURE(c.row, swizzle_name(kAll[i]));
      bool as_expected = true;
      for (std::uint32_t from = 0; from < 64; from += 8) {
        for (std::uint32_t unit = 0; unit < c.row / kSwizzleUnit; ++unit) {
          as_expected = as_expected && cycles(tile.column(table, kAll[i], from, unit)) == c.cycles[i];
        }
      }
      CHECK(as_expected);
      for (std::uint32_t line = 0; line < 16; ++line) CHECK(cycles(tile.line(table, kAll[i], line)) == 1);
    }
  }
  // Four rows of 128 bytes are what the swizzle of 64 bytes keeps apart, two what that of 32 does.
  const std::array<std::uint32_t, 4> apart{1, 2, 4, 8};
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    const std::vector<std::uint32_t> rows = Tile{0, 128}.column(table, kAll[i], 0, 0);
    CHECK(unit_cycles(rows.data(), apart[i]) == 1);
    if (apart[i] < 8) CHECK(unit_cycles(rows.data(), apart[i] + 1) == 2);
  }
}

// The pattern belongs to the address, not to the tile: a tile that does not begin at a period is as free of conflicts.
TEST_CASE("eight rows in a row have no conflict wherever they begin", "[arch][TMA-20][TMA-21]") {
  const SwizzleTable table;
  for (std::uint32_t row = 0; row < 16; ++row) {
    for (std::uint32_t unit = 0; unit < 8; ++unit) {
      CHECK(cycles(Tile{row * 128, 128}.column(table, Swizzle::bytes128, 0, unit)) == 1);
    }
  }
}

TEST_CASE("the cycles of units are those of the busiest bank", "[arch][TMA-21]") {
  CHECK(cycles({}) == 0);
  CHECK(cycles({0}) == 1);
  CHECK(cycles({0, 0, 0}) == 1);  // the same unit is read once
  CHECK(cycles({0, 128}) == 2);
  CHECK(cycles({0, 16}) == 1);
  CHECK(cycles({0, 16, 144, 128, 256, 16}) == 3);
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint32_t> units(dice.between(1, 32));
    const std::uint32_t most = dice.between(1, 200);
    for (std::uint32_t& unit : units) unit = 16 * dice.between(0, most);
    if (cycles(units) != by_banks(units)) {
      CAPTURE(units);
      CHECK(cycles(units) == by_banks(units));
    }
  }
}

TEST_CASE("another table can be configured for one mode", "[arch][TMA-20]") {
  SwizzleTable table;
  // The row counted backwards, 128 bytes: it is conflict-free as well.
  table.set(Swizzle::bytes128, numbers([](std::uint32_t row, std::uint32_t unit) { return (unit + 8 - row) % 8; }),
            "key");
  CHECK(table(Swizzle::bytes128, 0) == 0);
  CHECK(table(Swizzle::bytes128, 0x80) == 0xF0);
  CHECK(table(Swizzle::bytes128, 0x81) == 0xF1);
  CHECK(table(Swizzle::bytes128, 0x480) == 0x4F0);
  for (std::uint32_t unit = 0; unit < 8; ++unit) {
    CHECK(cycles(Tile{0, 128}.column(table, Swizzle::bytes128, 0, unit)) == 1);
  }
  const SwizzleTable usual;
  for (const Swizzle swizzle : {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64}) {
    for (std::uint32_t a = 0; a < 2048; ++a) {
      if (table(swizzle, a) != usual(swizzle, a)) FAIL("another mode has changed");
    }
  }
  // The usual ones can be given as tables.
  for (const Swizzle swizzle : kAll) {
    std::vector<std::uint32_t> units;
    for (std::uint32_t a = 0; a < 1024; a += 16) units.push_back(by_formula(swizzle, a) / 16 % 8);
    SwizzleTable given;
    given.set(swizzle, units, "key");
    for (std::uint32_t a = 0; a < 2048; ++a) {
      if (given(swizzle, a) != usual(swizzle, a)) FAIL(swizzle_name(swizzle) << " at " << a);
    }
  }
}

TEST_CASE("a table that loses units, or moves them out of their span, is refused by its key", "[arch][TMA-20]") {
  using Catch::Contains;
  const auto usual = numbers([](std::uint32_t row, std::uint32_t unit) { return unit ^ row; });
  CHECK(refusal(Swizzle::bytes128, usual).empty());
  auto changed = usual;
  changed[13] = changed[12];
  CHECK_THAT(refusal(Swizzle::bytes128, changed),
             Contains("gpu.sm.memory.swizzle") && Contains("unit 5 of row 1 cannot lie at 5"));
  changed[13] = 8;
  CHECK_THAT(refusal(Swizzle::bytes128, changed), Contains("cannot lie at 8"));
  changed = usual;
  changed.pop_back();
  CHECK_THAT(refusal(Swizzle::bytes128, changed), Contains("63 numbers") && Contains("give 64"));
  changed = usual;
  changed.push_back(0);
  CHECK_THAT(refusal(Swizzle::bytes128, changed), Contains("65 numbers"));
  // Those of 128 bytes are too wide for the others; the first row that leaves its span is named.
  CHECK_THAT(refusal(Swizzle::bytes64, usual), Contains("unit 0 of row 4 cannot lie at 4") && Contains("group of 4"));
  CHECK_THAT(refusal(Swizzle::bytes32, usual), Contains("unit 0 of row 2 cannot lie at 2"));
  CHECK_THAT(refusal(Swizzle::none, usual), Contains("unit 0 of row 1 cannot lie at 1"));
  CHECK(refusal(Swizzle::none, numbers([](std::uint32_t, std::uint32_t unit) { return unit; })).empty());
  // A refused table changes nothing.
  SwizzleTable table;
  changed = numbers([](std::uint32_t row, std::uint32_t unit) { return row < 7 ? 7 - unit : 0; });
  CHECK_THROWS_AS(table.set(Swizzle::bytes128, changed, "key"), InputError);
  CHECK(table(Swizzle::bytes128, 0x10) == 0x10);
}

}  // namespace arch_swizzle_test
