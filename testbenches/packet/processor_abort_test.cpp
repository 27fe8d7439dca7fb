// Queues that are inactivated: what waits is not begun, what runs is killed, and nothing of it is left (PKT-14).
#include "packet/packet_bench.h"
#include "support/random.h"

namespace packet_processor_abort_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::arch::HsaStatus;
using heddle::arch::PacketType;
using heddle::packet::CondensedOrder;
using heddle::packet::PacketParams;
using heddle::packet::PacketRecord;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

std::vector<QueueState> states_of(const PacketBench& bench, std::uint32_t queue) {
  std::vector<QueueState> result;
  for (const auto& event : bench.events(QueueEvent::state, queue)) result.push_back(event.state);
  return result;
}

void expect_nothing_left(PacketBench& bench) {
  CHECK(bench.processor.open() == 0);
  CHECK(bench.processor.quiescent());
  CHECK(bench.codes.lent() == 0);
  CHECK(bench.tasks.running == 0);
  CHECK(bench.observation.stats.value("gpu0.packet.open") == 0);
  CHECK(bench.observation.stats.value("gpu0.packet.in_flight") == 0);
}

}  // namespace

TEST_CASE("an inactivated queue kills its kernels, and other queues go on", "[packet][PKT-14]") {
  PacketBench bench;
  bench.tasks.held = true;  // they would never end
  const std::uint64_t object = bench.object("endless");
  const std::uint64_t killed = bench.signal(0, 10);
  const std::uint64_t spared = bench.signal(1, 10);
  Producer queue(bench, 0);
  Producer other(bench, 1);
  for (const bool barrier : {false, false, true}) queue.write(kernel_packet(object, killed, barrier));
  queue.write(agent_packet(1, killed));
  queue.ring(3);
  other.submit(kernel_packet(object, spared));
  bench.run(5000);
  REQUIRE(bench.tasks.kernels.size() == 3);
  queue.inactivate();
  bench.run(20);
  CHECK(states_of(bench, 0).back() == QueueState::aborting);
  bench.run(1000);
  CHECK(states_of(bench, 0) == std::vector<QueueState>{QueueState::active, QueueState::aborting, QueueState::inactive});
  CHECK(bench.tasks.kills.size() == 2);
  CHECK(bench.value(killed) == 10);  // nobody is told by signals
  CHECK(bench.events(QueueEvent::agent).empty());
  REQUIRE(bench.log.of(0, 0) != nullptr);
  CHECK(bench.log.of(0, 0)->status == HsaStatus::error);
  CHECK(bench.log.of(0, 0)->reason == arch::Reason::inactivated);
  CHECK(bench.log.of(0, 2) == nullptr);
  // The ring is not looked at any more, and other commands change nothing.
  queue.submit(kernel_packet(object, killed));
  queue.inactivate();
  queue.open();
  bench.run(5000);
  CHECK(states_of(bench, 0).back() == QueueState::inactive);
  CHECK(bench.events(QueueEvent::state, 0).back().status == HsaStatus::invalid_queue);
  CHECK(bench.tasks.kernels.size() == 3);
  CHECK(states_of(bench, 1).back() == QueueState::active);
  // The other one has not noticed.
  for (std::size_t i = 0; i < 3; ++i) {
    if (!bench.tasks.kernels[i].done) bench.tasks.release(i);
  }
  REQUIRE(bench.settle());
  CHECK(bench.value(spared) == 9);
  expect_nothing_left(bench);
  queue.close();
  bench.run(10);
  CHECK(states_of(bench, 0).back() == QueueState::closed);
  queue.setup.first = 4;
  queue.open();
  queue.submit(kernel_packet(object, killed));
  bench.run(5000);
  bench.tasks.release(3);
  REQUIRE(bench.settle());
  CHECK(bench.value(killed) == 9);
}

TEST_CASE("queues that drain, or have stopped, can be inactivated; closed ones cannot", "[packet][PKT-14]") {
  PacketBench bench;
  bench.tasks.held = true;
  const std::uint64_t object = bench.object("k");
  Producer drains(bench, 0);
  drains.submit(kernel_packet(object));
  Producer stopped(bench, 1);
  stopped.submit(kernel_packet(object));
  bench.run(5000);
  arch::PacketBytes bad = kernel_packet(object);
  bad[4] = 0;
  stopped.submit(bad);
  bench.run(3000);
  drains.close();
  bench.run(10'000);
  CHECK(states_of(bench, 0).back() == QueueState::draining);
  CHECK(states_of(bench, 1).back() == QueueState::error);
  drains.inactivate();
  stopped.inactivate();
  bench.run(1000);
  CHECK(states_of(bench, 0).back() == QueueState::inactive);
  CHECK(states_of(bench, 1).back() == QueueState::inactive);
  expect_nothing_left(bench);
  drains.close();
  bench.run(10);
  CHECK(states_of(bench, 0).back() == QueueState::closed);
  const std::size_t events = bench.host.events.size();
  drains.inactivate();
  bench.run(100);
  CHECK(bench.host.events.size() == events);
}

TEST_CASE("of a condensed packet that is killed nothing more is launched or signalled", "[packet][PKT-07][PKT-14]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    PacketParams params;
    params.condensed = order;
    PacketBench bench(params);
    bench.tasks.held = true;
    const std::uint64_t own = bench.signal(0, 5);
    const std::uint64_t last = bench.signal(1, 5);
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, fields_of(bench.object("k"))));
    bench.run(5000);
    bench.tasks.release(0);
    bench.run(3000);
    queue.submit(condensed_packet({diff_of(0, {{12, own}}), diff_of(0, {{12, own}}), diff_of(0, {{12, last}})}));
    bench.run(5000);
    const std::size_t running = order == CondensedOrder::in_order ? 1 : 3;
    REQUIRE(bench.tasks.kernels.size() == 1 + running);
    queue.inactivate();
    bench.run(3000);
    CHECK(states_of(bench, 0).back() == QueueState::inactive);
    CHECK(bench.tasks.kernels.size() == 1 + running);
    CHECK(bench.value(own) == 5);
    CHECK(bench.value(last) == 5);
    CHECK(bench.observation.stats.value("gpu0.packet.aborted") == 1);
    expect_nothing_left(bench);
  }
}

TEST_CASE("of kernels that overlap those that run are waited for, and killed", "[packet][PKT-07][PKT-14]") {
  PacketParams params;
  params.condensed = CondensedOrder::overlap;
  PacketBench bench(params);
  Producer queue(bench, 0);
  queue.submit(reference_packet(0, fields_of(bench.object("k"))));
  REQUIRE(bench.settle());
  bench.tasks.held = true;
  queue.submit(condensed_packet({diff_of(0), diff_of(0), diff_of(0)}));
  bench.run(10'000);
  REQUIRE(bench.tasks.kernels.size() == 4);
  bench.tasks.release(1);
  bench.run(3000);
  CHECK(bench.waits() ==
        std::vector<std::string>{"packet 1 of queue 0 (k and 2 more) waits: for the end of k (queue 0, "
                                 "packet 1)"});
  queue.inactivate();
  bench.run(3000);
  CHECK(bench.tasks.kills ==
        std::vector<std::uint32_t>{bench.tasks.kernels[2].packet.operation, bench.tasks.kernels[3].packet.operation});
  CHECK(states_of(bench, 0).back() == QueueState::inactive);
  expect_nothing_left(bench);
}

TEST_CASE("packets without kernels are killed as well, but for copies", "[packet][PKT-14]") {
  PacketBench bench;
  bench.copies.duration = [] { return Cycle{20'000}; };
  const std::uint64_t signal = bench.signal(0, 10);
  const std::uint64_t copied = bench.signal(1, 10);
  const std::uint64_t never = bench.signal(2, 1);
  arch::VendorPacket copy;
  copy.from = 0x5000;
  copy.to = 0x9000;
  copy.bytes = 64;
  copy.completion_signal = copied;
  Producer queue(bench, 0);
  queue.write(agent_packet(1, signal));
  queue.write(agent_packet(2, signal));
  queue.write(hold_packet(1'000'000'000, signal));
  queue.write(arch::encode(copy));
  queue.write(barrier_packet(PacketType::barrier_and, {never}, signal));
  queue.ring(4);
  bench.run(5000);
  REQUIRE(bench.events(QueueEvent::agent).size() == 2);
  queue.inactivate();
  bench.run(5000);
  CHECK(states_of(bench, 0).back() == QueueState::aborting);  // the copy is under way
  bench.memory.put(never, 0);
  queue.agent_done(0);
  bench.run(30'000);
  CHECK(states_of(bench, 0).back() == QueueState::inactive);
  CHECK(bench.value(copied) == 9);
  CHECK(bench.value(signal) == 10);
  CHECK(bench.domain.now() < 100'000);
  expect_nothing_left(bench);
}

TEST_CASE("a kernel that has ended by itself before it could be killed completes as usual", "[packet][PKT-14]") {
  PacketBench bench;
  bench.tasks.held = true;
  bench.tasks.dies = [](const FakeTasks::Kernel&) { return std::optional<Cycle>(); };
  const std::uint64_t signal = bench.signal(0, 10);
  Producer queue(bench, 0);
  queue.submit(kernel_packet(bench.object("k"), signal));
  bench.run(5000);
  queue.inactivate();
  bench.tasks.release(0);
  bench.run(3000);
  CHECK(states_of(bench, 0).back() == QueueState::inactive);
  CHECK(bench.value(signal) == 9);
  CHECK(bench.log.of(0, 0)->status == HsaStatus::success);
  expect_nothing_left(bench);
}

TEST_CASE("an inactivation in every phase of a packet leaves nothing behind", "[packet][PKT-14]") {
  for (Cycle cycle = 0; cycle < 1800; cycle += 20) {
    for (const std::uint32_t kind : {0U, 1U, 2U}) {
      CAPTURE(cycle, kind);
      PacketBench bench;
      bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{300}; };
      const std::uint64_t signal = bench.signal(0, 5);
      arch::DispatchFields fields = fields_of(bench.object("k"), signal);
      fields.synch_scopes = 2 << 1 | 2 << 3;
      Producer queue(bench, 0);
      if (kind == 0) queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
      if (kind == 1) queue.submit(hold_packet(300, signal));
      if (kind == 2)
        queue.submit(barrier_packet(PacketType::barrier_or, {bench.signal(1, cycle < 900 ? 1 : 0)}, signal));
      bench.run(cycle);
      queue.inactivate();
      REQUIRE(bench.settle());
      bench.run(2000);
      CHECK(states_of(bench, 0).back() == QueueState::inactive);
      // The signal tells exactly if the packet has completed.
      const PacketRecord* record = bench.log.of(0, 0);
      const bool completed = record != nullptr && record->status == HsaStatus::success;
      CHECK(bench.value(signal) == (completed ? 4 : 5));
      expect_nothing_left(bench);
      queue.close();
      queue.open();
      queue.submit(kernel_packet(bench.object("k"), signal));
      REQUIRE(bench.settle());
      CHECK(bench.value(signal) == (completed ? 3 : 4));
    }
  }
}

}  // namespace packet_processor_abort_test
