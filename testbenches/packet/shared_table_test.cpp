// Tables in memory that several queues reach at once (PKT-05, PKT-11): accesses to one entry are whole, and a table
// that could not be emptied is not used.
#include <set>

#include "packet/packet_bench.h"
#include "packet/reference_buffer.h"

namespace packet_shared_table_test {

namespace arch = heddle::arch;
using heddle::Cycle;
using heddle::arch::HsaStatus;
using heddle::arch::Reason;
using heddle::packet::EntryTurns;
using heddle::packet::PacketParams;
using heddle::packet::TableOwner;
using heddle::packet::TablePlace;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

PacketParams in_memory(TableOwner owner = TableOwner::agent) {
  PacketParams params;
  params.table = TablePlace::memory;
  params.table_owner = owner;
  return params;
}

// Of the kernels of this file: grids tell what an entry's first line was, names its second.
arch::DispatchFields numbered(std::uint64_t object, std::uint32_t number) {
  arch::DispatchFields fields = fields_of(object);
  fields.grid[0] = 32 * (number + 1);
  return fields;
}

std::vector<std::uint32_t> begin_all(EntryTurns& turns) {
  std::vector<std::uint32_t> begun;
  while (const auto number = turns.begin()) begun.push_back(*number);
  return begun;
}

}  // namespace

TEST_CASE("at an entry reads go together, a write goes alone, in the order in which they came", "[packet][PKT-11]") {
  using Numbers = std::vector<std::uint32_t>;
  EntryTurns turns;
  CHECK(begin_all(turns).empty());
  for (const std::uint32_t number : {1U, 2U}) turns.ask({number, false});
  CHECK(begin_all(turns) == Numbers{1, 2});
  turns.ask({3, true});
  turns.ask({4, false});  // not before the write that came first
  CHECK(begin_all(turns).empty());
  turns.end();
  CHECK(begin_all(turns).empty());
  turns.end();
  CHECK(begin_all(turns) == Numbers{3});
  turns.ask({5, false});
  turns.ask({6, true});
  turns.ask({7, true});
  CHECK(begin_all(turns).empty());
  turns.end();
  CHECK(begin_all(turns) == Numbers{4, 5});
  turns.end();
  turns.end();
  CHECK(begin_all(turns) == Numbers{6});
  turns.end();
  CHECK(begin_all(turns) == Numbers{7});
}

TEST_CASE("queues that reach one entry in memory at once find and leave whole kernels", "[packet][PKT-05][PKT-11]") {
  HEDDLE_RANDOM(dice);
  constexpr std::uint32_t kQueues = 4;
  PacketBench bench(in_memory());
  // Lines of an entry go different ways, and overtake each other.
  bench.memory.delay = [&dice] { return Cycle{dice.between(20, 400)}; };
  std::vector<std::uint64_t> objects;
  for (std::uint32_t i = 0; i < kQueues; ++i) objects.push_back(bench.object(std::to_string(i), i));
  std::vector<Producer> queues;
  for (std::uint32_t i = 0; i < kQueues; ++i) queues.emplace_back(bench, i);
  queues[0].submit(reference_packet(0, numbered(objects[0], 0)));
  REQUIRE(bench.settle());
  std::set<std::string> launched;
  std::set<std::uint64_t> left;
  for (int round = 0; round < 150; ++round) {
    bench.log.dispatched.clear();
    bench.tasks.kernels.clear();
    for (std::uint32_t i = 0; i < kQueues; ++i) {
      const bool stores = dice.chance(50);
      queues[i].write(stores ? reference_packet(0, numbered(objects[i], i)) : condensed_packet({diff_of(0)}));
    }
    for (Producer& queue : queues) queue.ring(queue.next() - 1);
    REQUIRE(bench.settle());
    REQUIRE(bench.log.dispatched.size() == kQueues);
    for (std::uint32_t i = 0; i < kQueues; ++i) {
      const std::string& name = bench.log.dispatched[i].name;
      REQUIRE(std::to_string(bench.tasks.kernels[i].packet.kernel.grid.x - 1) == name);
      launched.insert(name);
    }
    // What lies there: address of the object, its name, and the grid.
    const auto owner = static_cast<std::uint32_t>(
        std::find(objects.begin(), objects.end(), bench.memory.get(bench.kTable + 72)) - objects.begin());
    REQUIRE(owner < kQueues);
    REQUIRE(bench.memory.get(bench.kTable + 16, 4) == 32 * (owner + 1));
    const std::uint8_t* contents = bench.memory.at(bench.kTable + 128, 128);
    REQUIRE(std::equal(contents, contents + 128, bench.memory.at(objects[owner], 128)));
    left.insert(owner);
  }
  CHECK(launched.size() == kQueues);
  CHECK(left.size() == kQueues);
}

TEST_CASE("a packet that is dropped while its write waits for an entry leaves it as it was",
          "[packet][PKT-09][PKT-11]") {
  PacketBench bench(in_memory());
  const std::uint64_t a = bench.object("a", 0);
  const std::uint64_t b = bench.object("b", 1);
  Producer first(bench, 0);
  Producer second(bench, 1);
  first.submit(reference_packet(0, fields_of(a)));
  REQUIRE(bench.settle());
  bench.tasks.held = true;
  bench.memory.watch = [&](std::uint64_t address, bool) {
    if (address == a || address == b) bench.memory.delay = [] { return Cycle{20'000}; };  // tables are slow
  };
  first.submit(reference_packet(0, fields_of(a)));
  bench.run(2000);
  bench.memory.delay = [] { return Cycle{50}; };
  bench.memory.watch = nullptr;
  second.submit(reference_packet(0, fields_of(b)));  // waits for the write of the first
  bench.run(1000);
  second.close();
  bench.run(1000);
  CHECK(bench.events(QueueEvent::state, 1).back().state == QueueState::closed);
  bench.run(30'000);
  CHECK(bench.names() == std::vector<std::string>{"a", "a"});
  CHECK(bench.memory.get(bench.kTable + 72) == a);
  bench.tasks.release(1);
  REQUIRE(bench.settle());
  bench.tasks.held = false;
  first.submit(condensed_packet({diff_of(0)}));  // nobody has the entry any more
  REQUIRE(bench.settle());
  CHECK(bench.names().back() == "a");
}

TEST_CASE("a shared table that could not be emptied is used by no queue until one empties it",
          "[packet][PKT-09][PKT-11]") {
  const bool again = GENERATE(false, true);  // another queue is opened while the table is being emptied
  CAPTURE(again);
  PacketBench bench(in_memory());
  const std::uint64_t a = bench.object("a", 0);
  bench.memory.broken.push_back({bench.kTable + 2 * 256, bench.kTable + 3 * 256});
  std::uint32_t requests = 0;
  bench.memory.delay = [&requests] { return Cycle{++requests == 3 ? 100U : 5'000U}; };  // the third is entry 2's
  Producer opener(bench, 0);
  if (!again) {
    Producer other(bench, 1);
    other.submit(kernel_packet(a));
    bench.run(6'000);
    bench.memory.delay = [] { return Cycle{50}; };
    CHECK(bench.events(QueueEvent::state, 0).back().reason == Reason::table_unwritable);
    other.submit(reference_packet(0, fields_of(a)));
    REQUIRE(bench.settle());
    const auto event = bench.events(QueueEvent::state, 1).back();
    CHECK(event.status == HsaStatus::error);
    CHECK(event.reason == Reason::table_unwritable);
    bench.memory.broken.clear();
    Producer third(bench, 2);
    third.submit(reference_packet(0, fields_of(a)));
    REQUIRE(bench.settle());
    CHECK(bench.names() == std::vector<std::string>{"a", "a"});
    return;
  }
  bench.run(1'000);
  CHECK(bench.events(QueueEvent::state, 0).back().reason == Reason::table_unwritable);
  bench.memory.broken.clear();
  Producer other(bench, 1);
  other.submit(reference_packet(2, fields_of(a)));
  other.submit(condensed_packet({diff_of(2)}));
  REQUIRE(bench.settle());
  CHECK(bench.names() == std::vector<std::string>{"a", "a"});
}

TEST_CASE("an entry is read when the whole table has been emptied, whichever entry takes longest",
          "[packet][PKT-05][PKT-11]") {
  for (std::uint32_t slow = 0; slow < 8; ++slow) {
    CAPTURE(slow);
    PacketBench bench(in_memory(TableOwner::queue));
    const std::uint64_t a = bench.object("a", 0);
    Producer queue(bench, 0);
    queue.submit(reference_packet(static_cast<std::uint16_t>(slow), fields_of(a)));
    REQUIRE(bench.settle());
    queue.close();
    bench.run(100);
    std::uint32_t requests = 0;
    bench.memory.delay = [&requests, slow] {
      const std::uint32_t number = requests++;
      if (number >= 8) return Cycle{50};
      return Cycle{number == slow ? 20'000U : 5'000U};
    };
    queue.open();
    queue.submit(condensed_packet({diff_of(static_cast<std::uint8_t>(slow))}));
    bench.run(10'000);
    CHECK(bench.memory.get(bench.kTable + slow * 256, 4) != 0);  // it is still there
    REQUIRE(bench.settle());
    CHECK(bench.events(QueueEvent::state).back().reason == Reason::empty_entry);
    CHECK(bench.names() == std::vector<std::string>{"a"});
  }
}

}  // namespace packet_shared_table_test
