// The core of the streams against a reference that looks at everything every time.
#include "task/stream_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random_program.h"

namespace task_stream_table_test {

using heddle::CheckFailed;
using heddle::WaitGraph;
using heddle::protocol::SubmitKind;
using heddle::protocol::SubmitPacket;
using heddle::task::StreamTable;
using heddle::test::hold_packet;
using heddle::test::Program;
using heddle::test::Random;
using heddle::test::random_program;
using heddle::test::wait_packet;

namespace {

// Which operations are ready, from nothing but what was submitted and what has ended.
struct Reference {
  std::map<std::uint32_t, std::vector<SubmitPacket>> streams;
  std::map<std::uint32_t, std::uint64_t> ends;

  struct Ready {
    std::uint32_t operation;
    std::optional<std::uint64_t> released;
  };
  // The head of the stream if nothing before it is open.
  std::optional<Ready> ready(std::uint32_t stream) const {
    std::optional<std::uint64_t> released;
    for (const SubmitPacket& packet : streams.at(stream)) {
      const auto end = ends.find(packet.kind == SubmitKind::wait ? packet.wait_for : packet.operation);
      if (end == ends.end()) {
        if (packet.kind == SubmitKind::wait) return std::nullopt;
        return Ready{packet.operation, released};
      }
      released = std::max(released.value_or(0), end->second);
    }
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("streams release what the reference releases, when it does", "[task]") {
  for (const std::uint64_t seed : heddle::test::seeds(1000)) {
    CAPTURE(seed);
    Random random(seed);
    heddle::test::ProgramLimits limits;
    limits.operations = random.between(1, 60);
    limits.streams = random.between(1, 8);
    const Program program = random_program(random, limits);
    StreamTable table;
    Reference reference;
    std::map<std::uint32_t, std::uint32_t> out;  // stream -> operation that runs
    std::size_t next = 0;
    std::uint64_t now = 0;
    while (reference.ends.size() < limits.operations) {
      now += random.below(4);
      if (next < program.packets.size() && (out.empty() || random.chance(60))) {
        const SubmitPacket& packet = program.packets[next++];
        reference.streams[packet.stream].push_back(packet);
        table.submit(packet, now);
      } else {
        REQUIRE_FALSE(out.empty());  // no circle, all submitted: something must run
        auto which = out.begin();
        std::advance(which, random.below(out.size()));
        const auto [stream, operation] = *which;
        REQUIRE(table.head(stream).packet.operation == operation);
        out.erase(which);
        reference.ends[operation] = now;
        table.complete(stream, now);
        REQUIRE(table.completed(operation));
        REQUIRE(table.last_end(stream) == now);
      }
      for (const StreamTable::Ready& ready : table.take_ready()) {
        const auto wanted = reference.ready(ready.stream);
        REQUIRE(wanted);
        REQUIRE(table.head(ready.stream).packet.operation == wanted->operation);
        REQUIRE(ready.released == wanted->released);
        REQUIRE(out.emplace(ready.stream, wanted->operation).second);
      }
      std::size_t open = 0;
      for (const auto& [stream, packets] : reference.streams) {
        REQUIRE(reference.ready(stream).has_value() == (out.count(stream) != 0));
        for (const SubmitPacket& packet : packets) {
          open += packet.kind != SubmitKind::wait && reference.ends.count(packet.operation) == 0 ? 1 : 0;
        }
      }
      REQUIRE(table.open() == open);
    }
    WaitGraph waits;
    table.collect_waits(waits, [](std::uint32_t operation) { return std::to_string(operation); });
    REQUIRE(waits.empty());
  }
}

TEST_CASE("waits in a circle are told as a circle", "[task]") {
  StreamTable table;
  table.submit(wait_packet(0, 1, 3), 0);
  table.submit(hold_packet(0, 1, 5), 0);
  table.submit(hold_packet(1, 1, 5), 0);
  table.submit(wait_packet(2, 2, 1), 0);
  table.submit(hold_packet(2, 2, 5), 0);
  table.submit(hold_packet(3, 2, 5), 0);
  table.submit(hold_packet(4, 3, 5), 0);  // innocent
  const auto ready = table.take_ready();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].stream == 3);
  WaitGraph waits;
  table.collect_waits(waits, [](std::uint32_t operation) { return "op" + std::to_string(operation); });
  const std::vector<std::string> chain = waits.chain();
  REQUIRE(chain.size() == 5);
  CHECK(chain[0] == "op0 waits: for the end of op3");
  CHECK(chain[1] == "op3 waits: for its turn in the stream, behind op2");
  CHECK(chain[2] == "op2 waits: for the end of op1");
  CHECK(chain[3] == "op1 waits: for its turn in the stream, behind op0");
  CHECK(chain[4] == "and so back to op0: a circle");
}

TEST_CASE("an operation that waits for itself is a circle of one", "[task]") {
  StreamTable table;
  table.submit(wait_packet(0, 1, 0), 0);
  table.submit(hold_packet(0, 1, 5), 0);
  CHECK(table.take_ready().empty());
  WaitGraph waits;
  table.collect_waits(waits, [](std::uint32_t operation) { return "op" + std::to_string(operation); });
  CHECK(waits.chain() == std::vector<std::string>{"op0 waits: for the end of op0", "and so back to op0: a circle"});
}

TEST_CASE("a stream refuses ends that cannot be", "[task]") {
  StreamTable table;
  table.submit(hold_packet(0, 1, 5), 0);
  table.submit(wait_packet(1, 2, 0), 0);
  table.submit(hold_packet(1, 2, 5), 0);
  CHECK_THROWS_AS(table.complete(2, 1), CheckFailed);
  CHECK_THROWS_AS(table.complete(9, 1), CheckFailed);
  table.complete(1, 10);
  table.submit(hold_packet(0, 3, 5), 11);
  CHECK_THROWS_AS(table.complete(3, 12), CheckFailed);  // the id was used before
}

TEST_CASE("a reset table has no memory", "[task]") {
  StreamTable table;
  table.submit(hold_packet(0, 1, 5), 0);
  table.submit(wait_packet(1, 2, 0), 0);
  table.submit(hold_packet(1, 2, 5), 0);
  table.complete(1, 100);
  table.reset();
  CHECK(table.open() == 0);
  CHECK(table.take_ready().empty());
  CHECK_FALSE(table.completed(0));
  table.submit(wait_packet(1, 2, 0), 0);
  table.submit(hold_packet(1, 2, 5), 0);
  CHECK(table.take_ready().empty());
  table.submit(hold_packet(0, 1, 5), 3);
  const auto ready = table.take_ready();
  REQUIRE(ready.size() == 1);
  CHECK_FALSE(ready[0].released);
}

}  // namespace task_stream_table_test
