// Which lines are written along with one that leaves: against a search through all lines of its row.
#include "memory/l2_row_writer.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/l2_core_bench.h"

namespace heddle::test::memory_l2_row_writer_test {
namespace {

using memory::L2Array;
using memory::L2RowWriter;
using memory::L2WriteBuffer;

constexpr std::uint32_t kLines = 32;
constexpr std::uint32_t kWays = 4;

// An array of one slice of several, and a write buffer that nobody empties.
class RowBench : private L2WriteBuffer::Listener {
 public:
  RowBench(std::uint32_t slices, std::uint32_t room, std::uint32_t ways, std::uint32_t rows)
      : map(std::uint64_t{slices} * 400 * arch::kLineBytes, slices, 1),
        array(kLines, kWays, slices),
        buffer(room, counts, commands, *this),
        writer(array, buffer, config(ways, rows), counts.written_along) {}

  memory::L2Config config(std::uint32_t ways, std::uint32_t rows) const {
    memory::L2Config result;
    result.eager_ways = ways;
    result.map = &map;
    result.row_lines = rows;
    return result;
  }

  arch::AddressMap map;
  L2Counts counts;
  memory::L2CommandQueue commands;
  L2Array array;
  L2WriteBuffer buffer;
  L2RowWriter writer;

 private:
  void write_back_failed(std::uint64_t, int) override {}
  void write_back_done(std::uint64_t, bool) override {}
};

}  // namespace

TEST_CASE("dirty lines of the same row that would leave soon go along, in the order of the row", "[memory][MEM-01]") {
  std::uint64_t along = 0;
  for (const std::uint64_t seed : seeds(3000)) {
    CAPTURE(seed);
    Random dice(seed);
    const std::uint32_t slices = dice.between(1, 5);
    const std::uint32_t slice = dice.below(slices);
    const std::uint32_t ways = dice.between(0, kWays);
    const std::uint32_t rows = 1U << dice.between(1, 4);
    const std::uint32_t room = dice.between(1, 6);
    RowBench bench(slices, room, ways, rows);
    std::vector<std::uint64_t> here;
    for (int i = 0; i < 40; ++i) {
      const auto line = bench.map.line_at({slice, dice.below(48)});
      REQUIRE(line);
      if (bench.array.find(*line) != L2Array::kNone) continue;
      const std::uint32_t index = bench.array.victim(*line);
      if (index == L2Array::kNone || bench.array.occupied(index)) continue;
      bench.array.place(index, *line);
      auto& state = bench.array.state(index);
      state.used = dice.below(6);
      state.valid = LineMask::sectors(dice.between(1, 15));
      if (dice.chance(15)) state.valid = state.valid & LineMask{dice.next(), dice.next()};
      if (dice.chance(70)) bench.array.set_dirty(index, state.valid.touched());
      if (dice.chance(10)) state.pinned = 1;
      if (dice.chance(10)) state.mshr = 1;
      here.push_back(*line);
    }
    if (here.empty()) continue;
    const std::uint64_t leaving = here[dice.below(here.size())];
    // The oracle.
    const std::uint64_t number = bench.map.place_of(leaving * arch::kLineBytes).number;
    std::vector<std::uint64_t> expected;
    for (std::uint64_t other = number / rows * rows; other < number / rows * rows + rows; ++other) {
      for (const std::uint64_t line : here) {
        if (line == leaving || bench.map.place_of(line * arch::kLineBytes).number != other) continue;
        const std::uint32_t index = bench.array.find(line);
        const auto& state = bench.array.state(index);
        std::uint32_t older = 0;
        for (const std::uint64_t rival : here) {
          const std::uint32_t at = bench.array.find(rival);
          older += at / kWays == index / kWays && bench.array.state(at).used < state.used;
        }
        const bool whole = !(LineMask::sectors(state.dirty) & ~state.valid).any();
        const bool fits = expected.size() < room;
        if (state.dirty != 0 && state.mshr == 0 && state.pinned == 0 && whole && older < ways && fits) {
          expected.push_back(line);
        }
      }
    }
    bench.writer.write_along(leaving);
    std::vector<std::uint64_t> got;
    while (!bench.commands.empty()) {
      const memory::L2Command command = bench.commands.pop();
      CHECK(command.is_write());
      if (got.empty() || got.back() != command.line) got.push_back(command.line);
    }
    CHECK(got == expected);
    CHECK(bench.counts.written_along.value() == expected.size());
    for (const std::uint64_t line : expected) CHECK(bench.array.state(bench.array.find(line)).dirty == 0);
    along += expected.size();
  }
  CHECK(along > 1000);
}

TEST_CASE("without rows, or ways, nothing goes along", "[memory]") {
  const std::uint32_t rows = GENERATE(1, 8);
  const std::uint32_t ways = GENERATE(0, 4);
  RowBench bench(1, 8, ways, rows);
  for (std::uint64_t line = 0; line < 8; ++line) {
    const std::uint32_t index = bench.array.victim(line);
    bench.array.place(index, line);
    bench.array.state(index).valid = LineMask::sectors(15);
    bench.array.set_dirty(index, 15);
  }
  bench.writer.write_along(0);
  const bool along = rows > 1 && ways > 0;
  CHECK(bench.commands.empty() == !along);
  CHECK(bench.counts.written_along.value() == (along ? 7 : 0));
  CHECK_THROWS(memory::L2RowWriter(bench.array, bench.buffer, bench.config(ways, 3), bench.counts.written_along));
}

}  // namespace heddle::test::memory_l2_row_writer_test
