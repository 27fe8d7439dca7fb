// A quiet packet processor is saved, and another one goes on with what it has read of it (HST-08).
#include "common/error.h"
#include "common/state.h"
#include "packet/packet_bench.h"

namespace packet_processor_save_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::InputError;
using heddle::StateReader;
using heddle::StateWriter;
using heddle::packet::PacketParams;
using heddle::packet::TableOwner;
using heddle::packet::TablePlace;
using heddle::protocol::QueueCommand;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

using Lines = std::vector<std::string>;

constexpr std::uint64_t kFirst = 5;

std::string saved(const PacketBench& bench) {
  StateWriter to;
  bench.processor.save(to);
  return to.bytes();
}

// Entries 0, 6 and 7 of queue 0; queue 1 has stopped, queue 2 is inactive, queue 3 closed, queue 4 was never open.
void begin(PacketBench& bench) {
  Producer works(bench, 0, 16, kFirst, 3);
  Producer bad(bench, 1);
  Producer inactive(bench, 2);
  Producer closed(bench, 3);
  works.submit(reference_packet(0, fields_of(bench.object("a"), bench.signal(0, 10))));
  works.submit(reference_packet(6, fields_of(bench.object("b", 1))));
  works.submit(reference_packet(7, fields_of(bench.object("c", 2), bench.signal(1, 10), true)));
  bad.submit(kernel_packet(bench.object("a")));
  bad.submit(reference_packet(8, fields_of(bench.object("a"))));
  inactive.inactivate();
  closed.close();
  REQUIRE(bench.settle());
}

// What the host sees of what comes afterwards.
Lines go_on(PacketBench& bench) {
  bench.host.events.clear();
  bench.log.dispatched.clear();
  Lines lines = bench.waits();
  const auto command = [&](QueueCommand what, std::uint32_t queue, std::uint64_t index = 0) {
    bench.send({what, queue, {}, index, 0});
    REQUIRE(bench.settle());
  };
  std::uint64_t next = kFirst + 3;
  const auto submit = [&](const arch::PacketBytes& bytes) {
    bench.memory.put_bytes(PacketBench::kRings + next % 16 * arch::kPacketBytes, bytes);
    command(QueueCommand::doorbell, 0, next++);
  };
  submit(condensed_packet({diff_of(0), diff_of(6), diff_of(7)}));
  submit(kernel_packet(bench.object("d", 3)));
  submit(condensed_packet({diff_of(1)}));  // nothing was stored there
  for (const std::uint32_t queue : {1U, 2U, 3U, 4U}) command(QueueCommand::doorbell, queue);
  for (const std::uint32_t queue : {0U, 1U, 2U, 3U, 4U}) command(QueueCommand::close, queue);
  for (const auto& record : bench.log.dispatched) {
    lines.push_back(std::to_string(record.queue) + "." + std::to_string(record.index) + " " + record.name);
  }
  for (const FakeHost::Event& event : bench.host.events) {
    if (event.packet.event != QueueEvent::state) continue;
    lines.push_back("queue " + std::to_string(event.packet.queue) + " " +
                    std::to_string(static_cast<unsigned>(event.packet.state)) + " at " +
                    std::to_string(event.packet.index) + ": " + arch::reason_text(event.packet.reason));
  }
  lines.push_back("read index " + std::to_string(bench.memory.get(PacketBench::kIndices)));
  lines.push_back("signals " + std::to_string(bench.value(PacketBench::kSignals)) + " " +
                  std::to_string(bench.value(PacketBench::kSignals + arch::kSignalAlignment)));
  return lines;
}

bool says(const Lines& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("a quiet processor that is restored goes on as the one that was saved", "[packet][HST-08][PKT-05][PKT-11]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    for (const TableOwner owner : {TableOwner::queue, TableOwner::agent}) {
      CAPTURE(static_cast<int>(place), static_cast<int>(owner));
      PacketParams params;
      params.queues = 5;
      params.table = place;
      params.table_owner = owner;
      std::string state;
      std::vector<std::uint8_t> memory(FakeMemory::kBytes);
      Lines expected;
      {
        PacketBench bench(params);
        begin(bench);
        state = saved(bench);
        std::copy_n(bench.memory.at(0, memory.size()), memory.size(), memory.begin());
        expected = go_on(bench);
      }
      CHECK(says(expected, "0.8 a"));
      CHECK(says(expected, "0.8 b"));
      CHECK(says(expected, "0.8 c"));
      CHECK(says(expected, "0.9 d"));
      CHECK(says(expected, std::string("at 10: ") + arch::reason_text(arch::Reason::empty_entry)));
      CHECK(says(expected, "read index 10"));
      CHECK(says(expected, "signals 9 8"));
      PacketBench bench(params);
      bench.memory.put_bytes(0, memory);
      StateReader from("the packet processor", state);
      bench.processor.restore(from);
      CHECK_NOTHROW(from.end());
      bench.run(10);
      CHECK(go_on(bench) == expected);
    }
  }
}

TEST_CASE("what no processor can have saved is refused", "[packet][HST-08]") {
  PacketParams params;
  params.queues = 2;
  std::string state;
  {
    PacketBench bench(params);
    Producer queue(bench, 0);
    queue.submit(reference_packet(6, fields_of(bench.object("a"))));
    REQUIRE(bench.settle());
    state = saved(bench);
  }
  const auto refused = [&](const PacketParams& machine, const std::string& bytes) {
    PacketBench bench(machine);
    StateReader from("the packet processor", bytes);
    try {
      bench.processor.restore(from);
      from.end();
    } catch (const InputError&) {
      return true;
    }
    return false;
  };
  CHECK_FALSE(refused(params, state));
  PacketParams other = params;
  other.table_owner = TableOwner::agent;
  CHECK(refused(other, state));
  other = params;
  other.entries = 6;  // there is no entry 6
  CHECK(refused(other, state));
  for (std::size_t bytes = 0; bytes < state.size(); bytes += 8) {
    CAPTURE(bytes);
    CHECK(refused(params, state.substr(0, bytes)));
  }
  const std::size_t entry = state.find("HDRE");
  REQUIRE(entry != std::string::npos);
  std::string changed = state;
  changed[entry] = 0;  // an empty entry is not saved
  CHECK(refused(params, changed));
  changed = state;
  changed[entry + 4] = 5;  // the number of another one
  CHECK(refused(params, changed));
  changed = state;
  changed[entry + 8] = 0;  // no dimensions
  CHECK(refused(params, changed));
}

}  // namespace packet_processor_save_test
