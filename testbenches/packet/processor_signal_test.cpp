// Signals, interrupts, barrier packets, agent packets and copies.
#include "packet/packet_bench.h"

namespace packet_processor_signal_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::arch::HsaStatus;
using heddle::arch::PacketType;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

// A signal that asks for an interrupt.
std::uint64_t loud(PacketBench& bench, std::uint32_t number, std::int64_t value, std::uint64_t mailbox,
                   std::uint32_t event_id) {
  const std::uint64_t handle = bench.signal(number, value);
  bench.memory.put(handle + 8, mailbox);
  bench.memory.put(handle + 16, event_id, 4);
  return handle | arch::kSignalInterrupt;
}

bool begun(const PacketBench& bench) { return !bench.tasks.kernels.empty(); }

}  // namespace

TEST_CASE("completion signals are decremented, and interrupt where they ask for it", "[packet][PKT-04]") {
  PacketBench bench;
  const std::uint64_t object = bench.object("k");
  const std::uint64_t mailbox = arch::kHostWindow + 0x100;
  const std::uint64_t quiet = bench.signal(0, 1);
  const std::uint64_t with_mailbox = loud(bench, 1, 7, mailbox, 42);
  const std::uint64_t without = loud(bench, 2, 0, 0, 43);
  Producer queue(bench, 0);
  queue.submit(kernel_packet(object, quiet));
  REQUIRE(bench.settle());
  CHECK(bench.value(quiet) == 0);
  CHECK(bench.events(QueueEvent::signal).empty());
  queue.submit(kernel_packet(object, with_mailbox));
  REQUIRE(bench.settle());
  CHECK(bench.value(with_mailbox) == 6);
  CHECK(bench.memory.get(mailbox, 4) == 42);
  REQUIRE(bench.events(QueueEvent::signal).size() == 1);
  CHECK(bench.events(QueueEvent::signal).back().event_id == 42);
  queue.submit(kernel_packet(object, without));
  REQUIRE(bench.settle());
  CHECK(bench.value(without) == -1);
  REQUIRE(bench.events(QueueEvent::signal).size() == 2);
  CHECK(bench.events(QueueEvent::signal).back().event_id == 43);
  CHECK(bench.memory.get(0) == 0);  // address 0 is no mailbox
}

TEST_CASE("barrier-AND waits for all its signals, barrier-OR for one", "[packet][PKT-02]") {
  for (const bool all : {true, false}) {
    CAPTURE(all);
    PacketBench bench;
    const std::uint64_t a = bench.signal(0, 2);
    const std::uint64_t b = bench.signal(1, 1);
    const std::uint64_t completion = bench.signal(2, 1);
    Producer queue(bench, 0);
    // Null signals count for nothing.
    queue.write(barrier_packet(all ? PacketType::barrier_and : PacketType::barrier_or, {0, a, 0, b}, completion));
    queue.write(kernel_packet(bench.object("k")));
    queue.ring(1);
    bench.run(5000);
    CHECK_FALSE(begun(bench));
    CHECK(queue.read_index() == 0);
    bench.memory.put(b, 0);
    bench.run(5000);
    CHECK(begun(bench) == !all);
    CHECK(bench.value(completion) == (all ? 1 : 0));
    // One that has been seen at 0 may change again.
    bench.memory.put(b, 5);
    bench.memory.put(a, 1);
    bench.run(5000);
    CHECK(begun(bench) == !all);
    bench.memory.put(a, 0);
    bench.run(5000);
    CHECK(begun(bench));
    CHECK(bench.value(completion) == 0);
    CHECK(queue.read_index() == 2);
  }
}

// hsa.h: a null handle is a satisfied dependency of a barrier-AND, and one that is not satisfied of a barrier-OR.
TEST_CASE("a barrier-AND without signals waits for nothing, a barrier-OR could wait for ever",
          "[packet][PKT-02][PKT-14]") {
  PacketBench bench;
  const std::uint64_t completion = bench.signal(2, 1);
  Producer all(bench, 0);
  all.submit(barrier_packet(PacketType::barrier_and, {}, completion));
  REQUIRE(bench.settle());
  CHECK(bench.value(completion) == 0);
  CHECK(bench.log.of(0, 0)->status == HsaStatus::success);
  Producer any(bench, 1);
  const std::uint64_t refused = bench.signal(3, 1);
  any.submit(barrier_packet(PacketType::barrier_or, {}, refused));
  REQUIRE(bench.settle());
  CHECK(bench.value(refused) == -0x1001);
  const auto event = bench.events(QueueEvent::state, 1).back();
  CHECK(event.state == QueueState::error);
  CHECK(event.status == HsaStatus::invalid_argument);
  CHECK(event.reason == arch::Reason::no_dependency);
}

// In device memory nothing is read but for a change; what others do in the host's has to be looked at.
TEST_CASE("dependency signals that the device sees change wake their packet, and are not polled", "[packet][PKT-14]") {
  PacketBench bench;
  const std::uint64_t far = PacketBench::kSignals + 0x800;
  bench.memory.put(far, 2);
  Producer queue(bench, 0);
  queue.write(barrier_packet(PacketType::barrier_and, {far, bench.signal(4, 0)}));
  queue.write(kernel_packet(bench.object("k")));
  queue.ring(1);
  bench.run(3000);
  const std::uint64_t served = bench.memory.served;
  bench.run(50'000);
  CHECK(bench.memory.served == served);
  CHECK(bench.domain.idle());
  bench.memory.put(far, 1);  // not enough
  bench.run(1000);
  CHECK(bench.memory.served == served + 1);
  CHECK_FALSE(begun(bench));
  bench.memory.put(far, 0);
  const Cycle changed = bench.domain.now();
  bench.run(2000);
  REQUIRE(begun(bench));
  CHECK(bench.log.of(0, 0)->times.ready <= changed + 100);
  CHECK(bench.observation.stats.value("gpu0.packet.signal_polls") == 4);  // one of the signals was 0 at once
  CHECK(bench.observation.stats.value("gpu0.packet.signal_wakes") == 2);
}

TEST_CASE("a packet that is woken looks no more often afterwards", "[packet][PKT-14]") {
  PacketBench bench;
  const std::uint64_t far = arch::kHostWindow + 0x9000;
  bench.memory.put(far, 1);
  const std::uint64_t near = bench.signal(0, 9);
  Producer queue(bench, 0);
  queue.submit(barrier_packet(PacketType::barrier_and, {far, near}));
  bench.run(3000);
  const auto looks = [&] {
    const std::uint64_t before = bench.memory.served;
    bench.run(50'000);
    return bench.memory.served - before;
  };
  const std::uint64_t alone = looks();
  CHECK(alone > 10);
  for (std::uint64_t value = 8; value > 4; --value) {
    bench.memory.put(near, value);
    bench.run(200);
  }
  CHECK(bench.observation.stats.value("gpu0.packet.signal_wakes") == 4);
  CHECK(looks() <= alone + 2);
}

TEST_CASE("a signal that changes while it is read is read again", "[packet][PKT-14]") {
  for (Cycle at = 0; at < 1000; at += 10) {
    CAPTURE(at);
    PacketBench bench;
    bench.memory.delay = [] { return Cycle{200}; };
    const std::uint64_t signal = bench.signal(0, 1);
    Producer queue(bench, 0);
    queue.submit(barrier_packet(PacketType::barrier_and, {signal}, bench.signal(9, 1)));
    bench.run(at);
    bench.memory.put(signal, 0);
    REQUIRE(bench.settle());
    CHECK(bench.value(bench.signal(9, 0)) == 0);
    CHECK(bench.log.of(0, 0) != nullptr);
  }
}

TEST_CASE("a completion signal in the host's memory wakes those who wait for it at once", "[packet][PKT-14]") {
  heddle::packet::PacketParams params;
  params.poll = 1'000'000;
  PacketBench bench(params);
  const std::uint64_t done = arch::kHostWindow + 0x9000;
  bench.memory.put(done, 1);
  Producer first(bench, 0);
  Producer second(bench, 1);
  second.write(barrier_packet(PacketType::barrier_or, {done}));
  second.write(kernel_packet(bench.object("k")));
  second.ring(1);
  Producer other(bench, 2);  // waits for another one
  bench.memory.put(done + 0x1000, 1);
  other.submit(barrier_packet(PacketType::barrier_or, {done + 0x1000}));
  bench.run(5000);
  first.submit(kernel_packet(bench.object("k"), done));
  bench.run(10'000);
  REQUIRE(bench.log.of(1, 0) != nullptr);
  CHECK(bench.log.of(1, 0)->times.ready < bench.log.of(0, 0)->times.cleaned + 200);
  // What the host itself writes there is found by a look.
  bench.memory.put(done, 1);
  second.submit(barrier_packet(PacketType::barrier_or, {done}));
  bench.run(5000);
  bench.memory.put(done, 0);
  bench.run(900'000);
  CHECK(bench.log.of(1, 2) == nullptr);
  bench.run(200'000);
  CHECK(bench.log.of(1, 2) != nullptr);
  CHECK(bench.observation.stats.value("gpu0.packet.signal_wakes") == 1);
}

TEST_CASE("nothing behind a barrier packet begins before that is complete", "[packet][PKT-02][PKT-04]") {
  for (const PacketType type : {PacketType::barrier_and, PacketType::barrier_or}) {
    PacketBench bench;
    bench.memory.delay = [] { return Cycle{400}; };
    arch::BarrierPacket barrier;
    barrier.scopes.release = arch::FenceScope::system;
    barrier.completion_signal = bench.signal(0, 1);
    barrier.signals[3] = bench.signal(8, 0);
    Producer queue(bench, 0);
    queue.write(arch::encode(barrier, type));
    queue.write(kernel_packet(bench.object("k")));
    queue.write(kernel_packet(bench.object("k")));
    queue.ring(2);
    bool first = true;
    bench.tasks.duration = [&](const FakeTasks::Kernel&) {
      if (first) CHECK(bench.value(barrier.completion_signal) == 0);
      if (first) CHECK(bench.memory.write_backs == 1);
      first = false;
      return Cycle{10};
    };
    REQUIRE(bench.settle());
    REQUIRE(bench.tasks.kernels.size() == 2);
    CHECK(bench.log.of(0, 1)->times.ready >= bench.log.of(0, 0)->times.cleaned);
    // Another without work of its own: closed and stopped while it is cleaned up.
    queue.submit(arch::encode(barrier, type));
    bench.run(1800);
    queue.close();
    REQUIRE(bench.settle());
    CHECK(bench.events(QueueEvent::state).back().state == QueueState::closed);
    CHECK(bench.processor.open() == 0);
  }
}

TEST_CASE("a negative signal makes a barrier packet fail, and not its queue", "[packet][PKT-02][PKT-09]") {
  for (const PacketType type : {PacketType::barrier_and, PacketType::barrier_or}) {
    PacketBench bench;
    const std::uint64_t good = bench.signal(0, 1);
    const std::uint64_t bad = bench.signal(1, 1);
    const std::uint64_t completion = bench.signal(2, 1);
    Producer queue(bench, 0);
    queue.write(barrier_packet(type, {good, bad}, completion));
    queue.write(kernel_packet(bench.object("k")));
    queue.ring(1);
    bench.run(3000);
    bench.memory.put(bad, static_cast<std::uint64_t>(-0x1016));
    bench.run(10'000);
    CHECK(bench.value(completion) == -0x1016);
    CHECK(begun(bench));
    CHECK(bench.log.of(0, 0)->status == HsaStatus::error);
    CHECK(bench.events(QueueEvent::state).back().state == QueueState::active);
  }
}

TEST_CASE("queues wait for each other by signals", "[packet][PKT-02][PKT-04]") {
  PacketBench bench;
  const std::uint64_t object = bench.object("k");
  const std::uint64_t done = bench.signal(0, 1);
  Producer first(bench, 0);
  Producer second(bench, 1);
  second.write(barrier_packet(PacketType::barrier_and, {done}));
  second.write(kernel_packet(object));
  second.ring(1);
  bench.run(2000);
  first.submit(kernel_packet(object, done));
  REQUIRE(bench.settle());
  REQUIRE(bench.log.dispatched.size() == 2);
  CHECK(bench.log.of(1, 1)->times.dispatched > bench.log.of(0, 0)->times.ended);
}

TEST_CASE("agent packets go to the host in numbers, and are done in any order", "[packet][PKT-02][PKT-14]") {
  heddle::packet::PacketParams params;
  params.agents = 3;
  PacketBench bench(params);
  const std::uint64_t signal = bench.signal(0, 10);
  Producer queue(bench, 0);
  Producer other(bench, 1);
  queue.agent_done(0);  // of nothing
  const auto first = agent_packet(7, signal);
  queue.write(first);
  queue.write(kernel_packet(bench.object("k")));  // passes it
  for (std::uint16_t i = 0; i < 4; ++i) queue.write(agent_packet(8, signal));
  queue.write(kernel_packet(bench.object("k")));  // behind the last
  queue.ring(6);
  bench.run(10'000);
  REQUIRE(bench.events(QueueEvent::agent).size() == 3);
  CHECK(bench.events(QueueEvent::agent)[0].packet == first);
  CHECK(bench.events(QueueEvent::agent)[0].index == 0);
  CHECK(bench.events(QueueEvent::agent)[2].index == 3);
  CHECK(bench.tasks.kernels.size() == 1);
  CHECK(bench.value(signal) == 10);
  other.submit(agent_packet(9));  // another queue's is held at the same time
  bench.run(3000);
  CHECK(bench.events(QueueEvent::agent, 1).size() == 1);
  queue.agent_done(2);
  queue.agent_done(2);  // no longer held
  queue.agent_done(4);  // not yet
  bench.run(10'000);
  CHECK(bench.value(signal) == 9);
  REQUIRE(bench.events(QueueEvent::agent, 0).size() == 4);
  CHECK(bench.events(QueueEvent::agent, 0)[3].index == 4);
  CHECK(bench.log.of(0, 2) != nullptr);
  CHECK(bench.log.of(0, 0) == nullptr);
  CHECK(bench.tasks.kernels.size() == 1);
  queue.agent_done(4);
  queue.agent_done(0);
  bench.run(10'000);
  CHECK(bench.value(signal) == 7);
  CHECK(bench.tasks.kernels.size() == 2);
  queue.agent_done(5);
  queue.agent_done(3, 0x1001);
  bench.run(10'000);
  CHECK(bench.value(signal) == -0x1001);
  CHECK(bench.log.of(0, 3)->status == HsaStatus::invalid_argument);
  CHECK(bench.log.of(0, 3)->reason == arch::Reason::agent_error);
  CHECK(bench.events(QueueEvent::state, 0).back().state == QueueState::active);
}

TEST_CASE("a barrier bit waits for an agent packet", "[packet][PKT-02][PKT-04]") {
  PacketBench bench;
  Producer queue(bench, 0);
  queue.write(agent_packet(7));
  queue.write(kernel_packet(bench.object("k"), 0, true));
  queue.ring(1);
  bench.run(10'000);
  CHECK_FALSE(begun(bench));
  queue.agent_done(0);
  bench.run(10'000);
  CHECK(begun(bench));
}

// The record of a signal: start at 32, end at 40, in nanoseconds. They are there before the value changes.
TEST_CASE("a signal that asks for it gets the times of its packet", "[packet][PKT-14]") {
  PacketBench bench;
  bench.tasks.start_latency = 70;
  const std::uint64_t record = PacketBench::kSignals + 0x400;
  const std::uint64_t stamped = record | arch::kSignalTimestamps;
  const auto expect = [&](Cycle start, Cycle end) {
    CHECK(bench.memory.get(record + 32) == start);
    CHECK(bench.memory.get(record + 40) == end);
  };
  bench.memory.put(record, 9);
  bench.memory.put(record + 48, 0x55);
  bool early = true;
  bench.memory.watch = [&](std::uint64_t address, bool write) {
    if (write && address == record) early = early && bench.memory.get(record + 40) != 0;
  };
  Producer queue(bench, 0);
  queue.submit(kernel_packet(bench.object("k"), stamped));
  REQUIRE(bench.settle());
  CHECK(bench.value(stamped) == 8);
  expect(bench.log.of(0, 0)->times.started, bench.log.of(0, 0)->times.ended);
  CHECK(bench.log.of(0, 0)->times.ended - bench.log.of(0, 0)->times.started == 1000);
  queue.submit(reference_packet(1, fields_of(bench.object("k"))));
  queue.submit(condensed_packet({diff_of(1), diff_of(1), diff_of(1, {{12, stamped}})}));
  REQUIRE(bench.settle());
  CHECK(bench.value(stamped) == 7);
  expect(bench.log.of(0, 2, 0)->times.started, bench.log.of(0, 2, 2)->times.ended);
  queue.submit(condensed_packet({diff_of(1, {{12, stamped}}), diff_of(1)}));
  REQUIRE(bench.settle());
  CHECK(bench.value(stamped) == 6);
  expect(bench.log.of(0, 3, 0)->times.started, bench.log.of(0, 3, 0)->times.ended);
  queue.submit(hold_packet(1234, stamped));
  REQUIRE(bench.settle());
  CHECK(bench.value(stamped) == 5);
  expect(bench.log.of(0, 4)->times.started, bench.log.of(0, 4)->times.started + 1234);
  CHECK(bench.memory.get(record + 48) == 0x55);
  CHECK(early);
  // The longer record has to be aligned to its size, and to lie in memory.
  queue.submit(kernel_packet(bench.object("k"), stamped + 32));
  REQUIRE(bench.settle());
  CHECK(bench.events(QueueEvent::state).back().reason == arch::Reason::signal_alignment);
  Producer next(bench, 1);
  bench.memory.broken.push_back({record + 32, record + 48});
  next.submit(kernel_packet(bench.object("k"), stamped));
  REQUIRE(bench.settle());
  CHECK(bench.events(QueueEvent::state, 1).back().reason == arch::Reason::stamps_unwritable);
  CHECK(bench.events(QueueEvent::state, 1).back().status == HsaStatus::invalid_signal);
}

TEST_CASE("copies and fills go to the copy engines, holds take their time", "[packet][PKT-02][HST-05]") {
  PacketBench bench;
  const std::uint64_t signal = bench.signal(0, 10);
  Producer queue(bench, 0);
  arch::VendorPacket copy;
  copy.from = 0x5000;
  copy.to = arch::kHostWindow + 0x9000;
  copy.bytes = 0x800;
  copy.completion_signal = signal;
  arch::VendorPacket fill;
  fill.format = arch::VendorFormat::fill;
  fill.to = 0x6000;
  fill.bytes = 64;
  fill.value = 0xABCD;
  fill.completion_signal = signal;
  arch::VendorPacket nothing = copy;
  nothing.bytes = 0;
  queue.write(arch::encode(copy));
  queue.write(arch::encode(fill));
  queue.write(arch::encode(nothing));
  queue.write(hold_packet(4000, signal));
  queue.write(kernel_packet(bench.object("k"), 0, true));
  queue.ring(4);
  REQUIRE(bench.settle());
  REQUIRE(bench.copies.copies.size() == 2);
  CHECK(bench.copies.when[1] - bench.copies.when[0] < 300);  // they overlap
  CHECK(bench.copies.copies[0].from == copy.from);
  CHECK(bench.copies.copies[0].to == copy.to);
  CHECK(bench.copies.copies[0].bytes == copy.bytes);
  CHECK(bench.copies.copies[1].kind == protocol::CopyKind::fill);
  CHECK(bench.copies.copies[1].value == 0xABCD);
  CHECK(bench.copies.copies[0].tag != bench.copies.copies[1].tag);
  CHECK(bench.value(signal) == 6);
  const auto& hold = bench.log.of(0, 3)->times;
  CHECK(hold.ended - hold.started == 4000);
  CHECK(bench.log.of(0, 4)->times.ready >= hold.cleaned);
}

}  // namespace packet_processor_signal_test
