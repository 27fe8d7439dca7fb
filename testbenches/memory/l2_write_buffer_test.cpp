#include "memory/l2_write_buffer.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/l2_memory_port.h"

namespace heddle::test::memory_l2_write_buffer_test {
namespace {

using memory::kL2Ok;
using memory::L2Array;
using memory::L2Command;
using memory::L2WriteBuffer;
using memory::LineMask;

using Kind = L2Command::Kind;

// A write buffer alone: what it asks of memory, and what it tells the core.
class WriteBufferBench : private L2WriteBuffer::Listener {
 public:
  WriteBufferBench() : counters(stats, "l2"), buffer(2, counters, commands, *this), array(8, 2, 1) {}

  // Bytes of a line that the array holds and memory does not.
  std::uint32_t dirty(std::uint64_t line, std::uint32_t first, std::uint32_t bytes, std::uint8_t value) {
    const std::uint32_t index = array.victim(line);
    array.place(index, line);
    std::fill_n(array.data(index) + first, bytes, value);
    array.state(index).valid = LineMask::range(first, bytes);
    array.set_dirty(index, LineMask::range(first, bytes).touched());
    return index;
  }
  std::vector<L2Command> taken() {
    std::vector<L2Command> result;
    while (!commands.empty()) result.push_back(commands.pop());
    return result;
  }

  Stats stats;
  memory::L2Counters counters;
  memory::L2CommandQueue commands;
  L2WriteBuffer buffer;
  L2Array array;
  std::vector<std::pair<std::uint64_t, bool>> done;    // line, last
  std::vector<std::pair<std::uint64_t, int>> refused;  // order, status

 private:
  void write_back_failed(std::uint64_t order, int status) override { refused.emplace_back(order, status); }
  void write_back_done(std::uint64_t line, bool last) override { done.emplace_back(line, last); }
};

const std::array<std::uint8_t, 128> kOldLine = [] {
  std::array<std::uint8_t, 128> line{};
  line.fill(0xAA);
  return line;
}();

}  // namespace

TEST_CASE("a sector that is held in parts is completed from memory before it is written", "[memory][MEM-01]") {
  WriteBufferBench bench;
  const std::uint32_t index = bench.dirty(5, 40, 8, 7);  // bytes of sector 1
  const std::uint32_t entry = bench.buffer.take(bench.array, index);
  CHECK(bench.array.state(index).dirty == 0);
  bench.buffer.start(entry);
  const std::vector<L2Command> reads = bench.taken();
  REQUIRE(reads.size() == 1);
  CHECK((reads[0].kind == Kind::complete && reads[0].line == 5 && reads[0].mask() == 2U));

  bench.buffer.answer(reads[0], kL2Ok, kOldLine.data());
  const std::vector<L2Command> writes = bench.taken();
  REQUIRE(writes.size() == 1);
  CHECK((writes[0].is_write() && writes[0].mask() == 2U));
  const std::uint8_t* data = bench.buffer.data_of(writes[0]);
  for (std::uint32_t byte = 32; byte < 64; ++byte) CHECK(data[byte] == (byte >= 40 && byte < 48 ? 7 : 0xAA));

  CHECK(bench.done.empty());
  bench.buffer.answer(writes[0], kL2Ok, nullptr);
  CHECK(bench.done == std::vector<std::pair<std::uint64_t, bool>>{{5, true}});
  CHECK(bench.buffer.empty());
}

TEST_CASE("write-backs of a line follow each other, and the youngest bytes are seen", "[memory][MEM-06]") {
  WriteBufferBench bench;
  const auto whole = LineMask::range(0, 32);
  std::array<std::uint8_t, 128> first{};
  std::array<std::uint8_t, 128> second{};
  first.fill(1);
  second.fill(2);
  const std::uint32_t one = bench.buffer.take(9, whole, 1, {}, first.data());
  const std::uint32_t two = bench.buffer.take(9, whole, 1, {}, second.data());
  bench.buffer.start(one);
  bench.buffer.start(two);
  CHECK(bench.buffer.full());
  std::array<std::uint8_t, 128> image = kOldLine;
  CHECK(bench.buffer.overlay(9, image.data()) == whole);
  CHECK((image[0] == 2 && image[32] == 0xAA));

  std::vector<L2Command> commands = bench.taken();
  REQUIRE(commands.size() == 1);
  CHECK(commands[0].owner == one);
  bench.buffer.answer(commands[0], kL2Ok, nullptr);
  CHECK(bench.done == std::vector<std::pair<std::uint64_t, bool>>{{9, false}});
  commands = bench.taken();  // the second goes by itself
  REQUIRE(commands.size() == 1);
  CHECK(commands[0].owner == two);
  CHECK_FALSE(bench.buffer.holds_up_to(1));
  CHECK(bench.buffer.holds_up_to(2));
  bench.buffer.answer(commands[0], -3, nullptr);
  CHECK(bench.refused == std::vector<std::pair<std::uint64_t, int>>{{2, -3}});
  CHECK(bench.counters.write_errors.value() == 1);
  CHECK(bench.buffer.empty());
}

TEST_CASE("a flush takes as many lines at a time as the write buffer has room for", "[memory][MEM-06]") {
  WriteBufferBench bench;
  std::vector<memory::L2Served> served;
  memory::L2Flush flush(bench.array, bench.buffer, served);
  CHECK_FALSE(flush.begin(nullptr));  // nothing is dirty
  for (const std::uint64_t line : {0, 1, 2}) bench.dirty(line, 0, 32, 3);
  int request = 0;
  REQUIRE(flush.begin(&request));
  std::vector<L2Command> commands = bench.taken();
  REQUIRE(commands.size() == 2);
  bench.buffer.answer(commands[0], kL2Ok, nullptr);
  flush.advance();
  const std::vector<L2Command> third = bench.taken();
  REQUIRE(third.size() == 1);
  flush.note_failure(2, -5);
  bench.buffer.answer(commands[1], kL2Ok, nullptr);
  flush.advance();
  CHECK(served.empty());
  bench.buffer.answer(third[0], kL2Ok, nullptr);
  flush.advance();
  REQUIRE(served.size() == 1);
  CHECK((served[0].request == &request && served[0].status == -5));
  CHECK(flush.idle());
}

}  // namespace heddle::test::memory_l2_write_buffer_test
