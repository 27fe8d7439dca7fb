// Appends to queues, and CTAs of queue tasks (TSK-05).
#include <vector>

#include <catch2/catch.hpp>

#include "sm/nested_bench.h"

namespace sm_nested_queue_test {

using namespace heddle;
using namespace heddle::test;
using Kind = protocol::ChildPacket::Kind;

namespace {

constexpr std::uint64_t kQueue = 0x20000;
constexpr std::uint64_t kEntries = 0x21000;

void make_queue(NestedBench& bench, std::uint64_t capacity) {
  bench.l2.put(kQueue + arch::queue::kCapacity, capacity);
  bench.l2.put(kQueue + arch::queue::kEntries, kEntries);
}

arch::QueueAppend entry(std::uint64_t first, std::uint64_t queue = kQueue) {
  arch::QueueAppend append;
  append.queue = queue;
  for (std::uint64_t i = 0; i < append.data.size(); ++i) append.data[i] = first + i;
  return append;
}

std::uint64_t entry_at(std::uint64_t index) { return kEntries + index * arch::kQueueEntryBytes; }

}  // namespace

TEST_CASE("entries that warps append lie in the queue, ready, and are told of", "[sm][TSK-05]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    NestedBench bench(mode);
    make_queue(bench, 4);
    ListProgram program(4);
    program.queue_append([](const Warp& warp, std::uint32_t lane) { return entry(100 * warp.place.warp + 10 * lane); },
                         {}, [](const Warp&) { return arch::LaneMask{3}; });
    program.exit();
    bench.start(bench.add(std::move(program), 64));  // two warps; a TMD is not needed
    run_until_idle();
    CHECK(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == 1);
    CHECK(bench.word(kQueue + arch::queue::kTickets) == 4);
    CHECK(bench.tmu.count(Kind::appended) == 4);
    std::uint64_t tickets = 0;
    std::uint64_t first = 0;
    for (const auto& packet : bench.tmu.packets) {
      CHECK(packet.record == kQueue);
      tickets |= std::uint64_t{1} << packet.ticket;
    }
    CHECK(tickets == 15);
    for (std::uint64_t i = 0; i < 4; ++i) {
      CHECK(bench.word(entry_at(i)) == arch::turn_ready(i, 4));
      const std::uint64_t data = bench.word(entry_at(i) + 8);
      first += data;
      for (std::uint64_t word = 0; word < 7; ++word) CHECK(bench.word(entry_at(i) + 8 + 8 * word) == data + word);
    }
    CHECK(first == 0 + 10 + 100 + 110);
  }
}

TEST_CASE("an append waits for its turn; a closed queue refuses it", "[sm][TSK-05]") {
  NestedBench bench;
  make_queue(bench, 1);
  bench.l2.put(kQueue + arch::queue::kTickets, std::uint64_t{1});  // one entry is there, and used in the end
  bench.l2.put(entry_at(0), arch::turn_ready(0, 1));
  ListProgram program(4);
  program.queue_append([](const Warp&, std::uint32_t) { return entry(7); });
  program.queue_append([](const Warp&, std::uint32_t) { return entry(8); });
  program.exit();
  bench.start(bench.add(std::move(program), 32));
  run_until(sc_core::sc_time(5000, sc_core::SC_NS));
  CHECK(bench.tmu.packets.empty());
  bench.l2.put(entry_at(0), arch::turn_done(0, 1));
  run_until(sc_core::sc_time(10'000, sc_core::SC_NS));
  REQUIRE(bench.tmu.packets.size() == 1);
  CHECK(bench.tmu.packets[0].ticket == 1);
  CHECK(bench.word(entry_at(0) + 8) == 7);
  CHECK(bench.stat("nested.retries") > 0);
  // The task is stopped: whoever holds a ticket gets to know.
  bench.l2.put(kQueue + arch::queue::kTickets, arch::kQueueClosed | 3);
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == arch::FaultKind::queue_closed);
  CHECK(bench.faults[0].address == kQueue);
}

TEST_CASE("appends to what is no queue are faults", "[sm][TSK-05]") {
  struct Wrong {
    std::uint64_t queue;
    arch::FaultKind kind;
  };
  for (const Wrong& wrong : {Wrong{0x30000, arch::FaultKind::queue_closed}, Wrong{0x30004, arch::FaultKind::misaligned},
                             Wrong{std::uint64_t{1} << 40, arch::FaultKind::address}}) {
    NestedBench bench;
    ListProgram program(4);
    program.queue_append([wrong](const Warp&, std::uint32_t) { return entry(1, wrong.queue); }, {},
                         [](const Warp&) { return arch::LaneMask{0x10}; });
    program.exit();
    bench.start(bench.add(std::move(program), 32));
    run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == wrong.kind);
    CHECK(bench.faults[0].lane == 4);
    CHECK(bench.faults[0].operation == arch::OpCode::queue_append);
    CHECK(bench.mpc.exits.size() == 1);
  }
}

TEST_CASE("an append that faults behind its ticket says that the entry will not come", "[sm][TSK-05]") {
  NestedBench bench;
  make_queue(bench, 4);
  bench.l2.put(kQueue + arch::queue::kEntries, std::uint64_t{1} << 40);  // there is no memory
  ListProgram program(4);
  program.queue_append([](const Warp&, std::uint32_t) { return entry(7); });
  program.exit();
  bench.start(bench.add(std::move(program), 32));
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == arch::FaultKind::address);
  CHECK(bench.word(kQueue + arch::queue::kTickets) == 1);
  REQUIRE(bench.tmu.packets.size() == 1);
  CHECK(bench.tmu.packets[0].kind == Kind::lost_entry);
  CHECK(bench.tmu.packets[0].record == kQueue);
  CHECK(bench.tmu.packets[0].ticket == 0);
  CHECK(bench.mpc.exits.size() == 1);
}

TEST_CASE("a CTA of a queue task finds its entry, and gives it back when it ends", "[sm][TSK-05]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    NestedBench bench(mode);
    for (std::uint64_t ticket : {2, 3}) {
      bench.l2.put(entry_at(ticket % 2), arch::turn_ready(ticket, 2));
      bench.l2.put(entry_at(ticket % 2) + 8, 50 + ticket);
    }
    ListProgram program(4);
    program.special(arch::SpecialRegister::queue_position, 1);
    program.load({}, 2, [](const Warp& warp, std::uint32_t) { return warp.place.kernarg; });
    program.store(
        {}, ListProgram::Value([](const Warp& warp, std::uint32_t lane) {
          return 1000 * warp.reg(1, lane) + warp.reg(2, lane);
        }),
        [](const Warp& warp, std::uint32_t lane) { return 0x100 + 4 * (64 * warp.place.cta + warp.thread(lane)); },
        {{1, 1}, {2, 1}});
    program.exit();
    arch::KernelShape shape;
    shape.grid = {2'147'483'647, 1, 1};
    shape.block = {64, 1, 1};
    const std::uint32_t code =
        bench.code.lend(bench.add(std::move(program), 64), shape, arch::QueueGeometry{kEntries, 2});
    for (std::uint32_t slot : {0U, 1U}) {
      protocol::CtaStartPacket start = bench.packet(1, slot, slot + 2);
      start.code = code;
      start.queue = true;
      bench.mpc.start(slot * 3000, start);
    }
    run_until_idle();
    CHECK(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == 2);
    for (std::uint64_t ticket : {2, 3}) {
      CHECK(bench.word(entry_at(ticket % 2)) == arch::turn_done(ticket, 2));
      for (std::uint64_t thread = 0; thread < 64; ++thread) {
        CHECK(bench.l2.get<std::uint32_t>(0x100 + 4 * (64 * ticket + thread)) == 1000 * ticket + 50 + ticket);
      }
    }
  }
}

}  // namespace sm_nested_queue_test
