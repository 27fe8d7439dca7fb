// Queues of the packet processor: rings, doorbells, order, priorities, closing.
#include <nlohmann/json.hpp>

#include "packet/dispatcher.h"
#include "packet/packet_bench.h"

namespace packet_processor_queue_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::HsaStatus;
using heddle::arch::PacketType;
using heddle::packet::PacketParams;
using heddle::packet::QueueOrder;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

using Names = std::vector<std::string>;

std::vector<std::uint64_t> order_of(const PacketBench& bench) {
  std::vector<std::uint64_t> result;
  for (const auto& record : bench.log.dispatched) result.push_back(record.index);
  return result;
}

std::vector<std::uint64_t> counting(std::uint64_t first, std::uint64_t count) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < count; ++i) result.push_back(first + i);
  return result;
}

}  // namespace

TEST_CASE("a ring wraps, a full queue goes on when the read index moves", "[packet][PKT-01][PKT-04]") {
  for (const bool in_host : {false, true}) {
    for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
      PacketBench bench({}, mode);
      bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{10}; };
      const std::uint64_t object = bench.object("k");
      const std::uint64_t signal = bench.signal(0, 100);
      const std::uint64_t first = 13;
      Producer queue(bench, 0, 4, first, 0, in_host);
      // What the producer relies on: a slot behind the read index says `invalid`.
      bool clear = true;
      bench.memory.watch = [&](std::uint64_t address, bool write) {
        if (!write || address != queue.setup.read_index) return;
        const std::uint64_t index = queue.read_index();
        if (index + 4 > queue.next()) clear &= bench.memory.get(queue.slot(index - 1), 2) == 1;
      };
      bool was_full = false;
      for (std::uint32_t i = 0; i < 100; ++i) {
        while (queue.full()) {
          was_full = true;
          bench.run(100);
        }
        queue.submit(kernel_packet(object, signal));
      }
      REQUIRE(bench.settle());
      CHECK(was_full);
      CHECK(clear);
      CHECK(order_of(bench) == counting(first, 100));
      CHECK(bench.value(signal) == 0);
      CHECK(queue.read_index() == first + 100);
      CHECK(bench.events(QueueEvent::read).back().index == first + 100);
      CHECK(bench.log.done.size() == 100);
      CHECK(bench.processor.open() == 0);
    }
  }
}

TEST_CASE("a doorbell before the header is published, and after", "[packet][PKT-01]") {
  PacketBench bench;
  const std::uint64_t object = bench.object("k");
  Producer queue(bench, 0);
  const std::uint64_t index = queue.prepare(kernel_packet(object));
  queue.ring(index);
  bench.run(3000);
  CHECK(bench.tasks.kernels.empty());
  CHECK(bench.processor.quiescent());
  CHECK(bench.domain.idle());
  queue.publish(index);
  queue.ring(index);
  bench.run(3000);
  REQUIRE(bench.tasks.kernels.size() == 1);
  // Without a doorbell nothing is looked at.
  const std::uint64_t second = queue.write(kernel_packet(object));
  bench.run(3000);
  CHECK(bench.tasks.kernels.size() == 1);
  CHECK(bench.domain.idle());
  queue.ring(second);
  bench.run(3000);
  CHECK(bench.tasks.kernels.size() == 2);
}

TEST_CASE("packets that are published out of order are taken in order", "[packet][PKT-01]") {
  PacketParams params;
  params.fetch_ahead = 2;  // less than there are
  PacketBench bench(params);
  Producer queue(bench, 0);
  for (std::uint32_t i = 0; i < 5; ++i) queue.prepare(kernel_packet(bench.object("k")));
  queue.ring(4);
  const auto publish = [&](std::uint64_t index) {
    queue.publish(index);
    queue.ring(index);
    bench.run(4000);
  };
  for (const std::uint64_t index : {3U, 4U, 1U}) publish(index);
  CHECK(bench.tasks.kernels.empty());
  CHECK(bench.domain.idle());
  publish(0);
  CHECK(order_of(bench) == counting(0, 2));
  publish(2);
  CHECK(order_of(bench) == counting(0, 5));
}

// hsa.h: the doorbell of a queue with several producers can be updated with any value.
TEST_CASE("a doorbell finds all that is there, whatever its value", "[packet][PKT-01][PKT-14]") {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{7}, std::uint64_t{20}, std::uint64_t{21}, std::uint64_t{1000},
        (std::uint64_t{1} << 63) - 1, ~std::uint64_t{0}}) {
    CAPTURE(value);
    PacketBench bench;
    Producer queue(bench, 0, 16, 5);
    for (std::uint32_t i = 0; i < 3; ++i) queue.write(kernel_packet(bench.object("k")));
    queue.ring(value);
    REQUIRE(bench.settle());
    CHECK(order_of(bench) == counting(5, 3));
    // And is forgotten: the next ones come with their own.
    queue.write(kernel_packet(bench.object("k")));
    const std::uint64_t served = bench.memory.served;
    bench.run(20'000);
    CHECK(bench.memory.served == served);
    CHECK(bench.domain.idle());
    queue.ring(value);
    REQUIRE(bench.settle());
    CHECK(order_of(bench) == counting(5, 4));
  }
}

TEST_CASE("a ring that was zeroed is empty, until a doorbell says otherwise", "[packet][PKT-01][PKT-14]") {
  PacketBench bench;
  Producer queue(bench, 0, 8);
  for (std::uint64_t i = 0; i < 8; ++i) bench.memory.put_bytes(queue.slot(i), arch::PacketBytes{});
  for (std::uint32_t i = 0; i < 3; ++i) queue.submit(kernel_packet(bench.object("k")));
  REQUIRE(bench.settle());
  CHECK(order_of(bench) == counting(0, 3));
  CHECK(bench.events(QueueEvent::state).back().state == QueueState::active);
  queue.ring(3);
  REQUIRE(bench.settle());
  CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::invalid_packet_format);
  CHECK(bench.events(QueueEvent::state).back().reason == arch::Reason::zeroed_slot);
}

TEST_CASE("a queue of one packet", "[packet][PKT-14]") {
  PacketBench bench;
  bench.tasks.held = true;
  Producer queue(bench, 0, 1, 7);
  for (std::uint32_t i = 0; i < 5; ++i) {
    queue.submit(kernel_packet(bench.object("k")));
    bench.run(3000);
    REQUIRE_FALSE(queue.full());  // the packet has been launched
  }
  CHECK(order_of(bench) == counting(7, 5));
  for (std::size_t i = 0; i < 5; ++i) bench.tasks.release(i);
  REQUIRE(bench.settle());
  CHECK(queue.read_index() == 12);
}

TEST_CASE("numbers of kernels come round", "[packet][PKT-14]") {
  heddle::packet::DispatchIds ids(0x7FFF'FFFE);
  const auto none = [](std::uint32_t) { return false; };
  CHECK(ids.next(none) == 0xFFFF'FFFE);
  CHECK(ids.next(none) == 0xFFFF'FFFF);
  CHECK(ids.next([](std::uint32_t id) { return id < 0x8000'0003; }) == 0x8000'0003);
  CHECK(ids.next(none) == 0x8000'0004);
}

TEST_CASE("kernels of a queue overlap, and a barrier bit waits for all before it", "[packet][PKT-04]") {
  PacketBench bench;
  bench.tasks.held = true;
  const std::uint64_t object = bench.object("k");
  Producer queue(bench, 0);
  for (const bool barrier : {false, false, true, false}) queue.write(kernel_packet(object, 0, barrier));
  queue.ring(3);
  bench.run(10'000);
  REQUIRE(bench.tasks.kernels.size() == 2);  // both at once
  bench.tasks.release(1);
  bench.run(10'000);
  REQUIRE(bench.tasks.kernels.size() == 2);
  CHECK(bench.log.of(0, 1) != nullptr);  // completion is out of order
  CHECK(bench.log.of(0, 0) == nullptr);
  bench.tasks.release(0);
  bench.run(10'000);
  REQUIRE(bench.tasks.kernels.size() == 4);  // the one behind has no barrier bit
  const auto& third = *bench.log.of(0, 0);
  CHECK(bench.tasks.kernels[2].when > third.times.cleaned);
  bench.tasks.release(3);
  bench.tasks.release(2);
  REQUIRE(bench.settle());
  CHECK(bench.log.done.size() == 4);
}

TEST_CASE("a queue that stalls does not hold back another", "[packet][PKT-10]") {
  PacketBench bench;
  bench.tasks.held = true;
  const std::uint64_t object = bench.object("k");
  Producer barrier(bench, 0);
  Producer signals(bench, 1);
  Producer absent(bench, 2);
  Producer agent(bench, 3);
  Producer good(bench, 4);
  barrier.write(kernel_packet(object));
  barrier.write(kernel_packet(object, 0, true));
  barrier.ring(1);
  signals.submit(barrier_packet(PacketType::barrier_and, {bench.signal(9, 1)}));
  absent.prepare(kernel_packet(object));
  absent.ring(0);
  agent.write(agent_packet(1));
  agent.write(agent_packet(2));
  agent.ring(1);
  bench.run(5000);
  REQUIRE(bench.tasks.kernels.size() == 1);
  for (std::uint32_t i = 0; i < 10; ++i) good.submit(kernel_packet(object));
  bench.run(20'000);
  CHECK(bench.tasks.kernels.size() == 11);
  for (const auto& record : bench.log.dispatched) CHECK((record.queue == 0 || record.queue == 4));
}

TEST_CASE("queues are served in turn, or the most urgent first", "[packet][PKT-10][PKT-12]") {
  for (const bool by_priority : {false, true}) {
    CAPTURE(by_priority);
    PacketParams params;
    if (by_priority) params.order = QueueOrder::priority;
    PacketBench bench(params);
    const std::uint64_t object = bench.object("k");
    std::vector<std::unique_ptr<Producer>> queues;
    // The decoder is the bottleneck: packets of a queue overlap the decoding of the others.
    const std::array<std::int32_t, 4> priorities{0, 5, 5, -1};
    for (std::uint32_t i = 0; i < 4; ++i) {
      queues.push_back(std::make_unique<Producer>(bench, i, 16, 0, priorities[i]));
      for (std::uint32_t k = 0; k < 8; ++k) queues[i]->write(kernel_packet(object));
    }
    for (auto& queue : queues) queue->ring(7);
    REQUIRE(bench.settle());
    REQUIRE(bench.log.dispatched.size() == 32);
    std::array<std::uint32_t, 4> served{};
    for (std::uint32_t i = 0; i < 12; ++i) ++served[bench.log.dispatched[i].queue];
    if (by_priority) {
      CHECK(served[0] <= 1);  // one can be decoded before others are there
      CHECK(served[3] == 0);
      CHECK(served[1] + served[2] >= 11);
      CHECK(std::max(served[1], served[2]) - std::min(served[1], served[2]) <= 1);
    } else {
      for (const std::uint32_t count : served) CHECK(count == 3);
    }
    for (const auto& kernel : bench.tasks.kernels) {
      const std::uint32_t queue = bench.log.dispatched[&kernel - bench.tasks.kernels.data()].queue;
      CHECK(kernel.packet.priority == priorities[queue]);
    }
  }
}

TEST_CASE("no more kernels are in flight than the limit", "[packet][PKT-10]") {
  PacketParams params;
  params.in_flight = 3;
  PacketBench bench(params);
  bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{5000}; };
  const std::uint64_t object = bench.object("k");
  Producer a(bench, 0);
  Producer b(bench, 1);
  for (std::uint32_t i = 0; i < 10; ++i) {
    a.submit(kernel_packet(object));
    b.submit(kernel_packet(object));
  }
  REQUIRE(bench.settle());
  CHECK(bench.tasks.kernels.size() == 20);
  CHECK(bench.tasks.most_running == 3);
}

TEST_CASE("a place in flight goes to the most urgent queue, or to who came first", "[packet][PKT-10]") {
  for (const bool by_priority : {false, true}) {
    CAPTURE(by_priority);
    PacketParams params;
    if (by_priority) params.order = QueueOrder::priority;
    params.in_flight = 1;
    PacketBench bench(params);
    bench.tasks.held = true;
    const std::uint64_t object = bench.object("k");
    const std::array<std::int32_t, 5> priorities{0, -3, 5, 7, 5};
    std::vector<std::unique_ptr<Producer>> queues;
    for (std::uint32_t i = 0; i < 5; ++i) {
      queues.push_back(std::make_unique<Producer>(bench, i, 16, 0, priorities[i]));
      queues.back()->submit(kernel_packet(object));
      bench.run(3000);  // they come one after another
    }
    for (std::size_t i = 0; i < 5; ++i) {
      REQUIRE(bench.tasks.kernels.size() == i + 1);
      bench.tasks.release(i);
      bench.run(3000);
    }
    std::vector<std::uint32_t> order;
    for (const auto& record : bench.log.dispatched) order.push_back(record.queue);
    CHECK(order ==
          (by_priority ? std::vector<std::uint32_t>{0, 3, 2, 4, 1} : std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  }
}

TEST_CASE("after a reset in mid-flight nothing counts as open", "[packet][PKT-04]") {
  PacketBench bench;
  bench.tasks.held = true;
  Producer queue(bench, 0);
  for (std::uint32_t i = 0; i < 3; ++i) queue.submit(kernel_packet(bench.object("k")));
  bench.run(5000);
  const auto value = [&](const char* name) {
    return bench.observation.stats.value(std::string("gpu0.packet.") + name);
  };
  CHECK(value("open") == 3);
  CHECK(value("in_flight") == 3);
  bench.domain.reset();
  CHECK(value("open") == 0);
  CHECK(value("in_flight") == 0);
}

TEST_CASE("a close drops what has not begun, and what runs ends as usual", "[packet][PKT-01][PKT-04]") {
  PacketBench bench;
  bench.tasks.held = true;
  const std::uint64_t object = bench.object("k");
  const std::uint64_t signal = bench.signal(0, 10);
  Producer queue(bench, 0);
  queue.write(kernel_packet(object, signal));
  queue.write(kernel_packet(object, signal));
  queue.write(kernel_packet(object, signal, true));
  queue.write(kernel_packet(object, signal));
  queue.ring(3);
  bench.run(5000);
  REQUIRE(bench.tasks.kernels.size() == 2);
  queue.close();
  bench.run(2000);
  CHECK(bench.events(QueueEvent::state).back().state == QueueState::draining);
  queue.ring(4);  // nobody listens
  bench.tasks.release(1);
  bench.run(2000);
  CHECK(bench.events(QueueEvent::state).back().state == QueueState::draining);
  queue.open();  // too early: refused, and nothing changes
  bench.run(100);
  CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::invalid_queue);
  CHECK(bench.events(QueueEvent::state).back().state == QueueState::draining);
  bench.tasks.release(0);
  REQUIRE(bench.settle());
  CHECK(bench.events(QueueEvent::state).back().state == QueueState::closed);
  CHECK(bench.value(signal) == 8);
  CHECK(bench.log.done.size() == 2);
  // Opened again, it begins at `first`.
  bench.tasks.held = false;
  queue.setup.first = 32;
  queue.open();
  queue.submit(kernel_packet(object, signal));
  bench.run(10'000);
  CHECK(bench.value(signal) == 7);
  CHECK(order_of(bench).back() == 32);
}

TEST_CASE("a close in every phase of a packet leaves nothing behind", "[packet][PKT-01][PKT-04]") {
  // One packet in the decoder, at its signals or on its way to memory, whatever the cycle.
  for (Cycle cycle = 0; cycle < 1500; cycle += 25) {
    CAPTURE(cycle);
    PacketBench bench;
    bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{200}; };
    const std::uint64_t signal = bench.signal(0, 5);
    arch::DispatchFields fields = fields_of(bench.object("k"), signal);
    fields.synch_scopes = 2 << 1 | 2 << 3;
    Producer queue(bench, 0);
    queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
    bench.run(cycle);
    queue.close();
    REQUIRE(bench.settle());
    CHECK(bench.events(QueueEvent::state).back().state == QueueState::closed);
    CHECK(bench.value(signal) == 5 - static_cast<std::int64_t>(bench.tasks.kernels.size()));
    CHECK(bench.log.done.size() == bench.tasks.kernels.size());
    CHECK(bench.domain.idle());
    CHECK(bench.processor.open() == 0);
    queue.open();
    queue.submit(kernel_packet(bench.object("k"), signal));
    REQUIRE(bench.settle());
    CHECK(bench.log.dispatched.back().queue == 0);
  }
}

TEST_CASE("a wrong set-up is an error of the queue", "[packet][PKT-09]") {
  PacketBench bench;
  std::uint32_t number = 0;
  const auto refused = [&](const std::function<void(protocol::QueueSetup&)>& spoil) {
    CAPTURE(number);
    Producer queue(bench, number);
    queue.close();
    bench.run(10);
    spoil(queue.setup);
    queue.open();
    bench.run(10);
    const auto event = bench.events(QueueEvent::state, number).back();
    CHECK(event.state == QueueState::error);
    CHECK(event.status == HsaStatus::invalid_queue);
    CHECK(event.reason >= arch::Reason::queue_size);
    CHECK(event.reason <= arch::Reason::queue_subcontext);
    CHECK(event.kernel == 0);
    queue.close();
    bench.run(10);
    CHECK(bench.events(QueueEvent::state, number).back().state == QueueState::closed);
    ++number;
  };
  refused([](auto& setup) { setup.size = 3; });
  refused([](auto& setup) { setup.size = 0; });
  refused([](auto& setup) { setup.size = 1U << 21; });
  refused([](auto& setup) { setup.base += 32; });
  refused([](auto& setup) { setup.base = ~std::uint64_t{63}; });
  refused([](auto& setup) { setup.base = arch::kHostWindow - 64; });
  refused([](auto& setup) { setup.read_index += 4; });
  refused([](auto& setup) { setup.subcontext = 64; });
  refused([](auto& setup) { setup.first = (std::uint64_t{1} << 63) + 1; });
  refused([](auto& setup) { setup.first = ~std::uint64_t{0}; });
  CHECK(bench.memory.served == 0);
  // The last index that a queue can begin with.
  Producer last(bench, number, 16, std::uint64_t{1} << 63);
  for (std::uint32_t i = 0; i < 20; ++i) {
    last.submit(kernel_packet(bench.object("k")));
    bench.run(2000);
  }
  REQUIRE(bench.settle());
  CHECK(last.read_index() == (std::uint64_t{1} << 63) + 20);
  // Queues that do not exist.
  for (const std::uint32_t beyond : {PacketParams().queues, PacketParams().queues + 67}) {
    bench.host.events.clear();
    bench.send({protocol::QueueCommand::doorbell, beyond, {}, 0, 0});
    bench.run(10);
    REQUIRE(bench.host.events.size() == 1);
    CHECK(bench.host.events[0].packet.queue == beyond);
    CHECK(bench.host.events[0].packet.status == HsaStatus::invalid_queue);
    CHECK(bench.host.events[0].packet.reason == arch::Reason::queue_number);
  }
}

}  // namespace packet_processor_queue_test
