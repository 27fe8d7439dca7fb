// Reference and condensed packets in the processor (PKT-05, PKT-06, PKT-07, PKT-11).
#include <utility>

#include "packet/packet_bench.h"

namespace packet_processor_condensed_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::arch::HsaStatus;
using heddle::packet::CondensedOrder;
using heddle::packet::PacketParams;
using heddle::packet::TableOwner;
using heddle::packet::TablePlace;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

using Names = std::vector<std::string>;
constexpr std::uint32_t kScopes = 0;
constexpr std::uint32_t kGridX = 5;
constexpr std::uint32_t kObject = 10;
constexpr std::uint32_t kSignal = 12;

PacketParams with(TablePlace place, TableOwner owner, CondensedOrder order = CondensedOrder::in_order) {
  PacketParams params;
  params.table = place;
  params.table_owner = owner;
  params.condensed = order;
  return params;
}

}  // namespace

TEST_CASE("condensed packets launch differences from the table", "[packet][PKT-05][PKT-06][PKT-11]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    for (const TableOwner owner : {TableOwner::queue, TableOwner::agent}) {
      CAPTURE(static_cast<int>(place), static_cast<int>(owner));
      PacketBench bench(with(place, owner));
      const std::uint64_t a = bench.object("a", 0);
      const std::uint64_t b = bench.object("b", 1);
      const std::uint64_t c = bench.object("c", 2);
      const std::uint64_t signal = bench.signal(0, 10);
      const std::uint32_t number = 3;
      Producer queue(bench, number);
      arch::DispatchFields fields = fields_of(a, signal);
      queue.submit(reference_packet(4, fields));
      queue.submit(reference_packet(6, fields_of(b)));
      // The entry of 4 is not changed by its diff: the third kernel has the grid of the first packet.
      queue.submit(condensed_packet({diff_of(4, {{kGridX, 320}}), diff_of(6, {{kObject, c}}), diff_of(4)}));
      REQUIRE(bench.settle());
      CHECK(bench.names() == Names{"a", "b", "a", "c", "a"});
      CHECK(bench.tasks.kernels[2].packet.kernel.grid.x == 10);
      CHECK(bench.tasks.kernels[4].packet.kernel.grid.x == 2);
      CHECK(bench.value(signal) == 8);  // of the reference packet and, as the last kernel's, of the condensed one
      const std::uint64_t table = bench.kTable + (owner == TableOwner::queue ? number : 0) * 8 * 256;
      for (const std::uint32_t entry : {4U, 6U}) {
        const std::uint64_t at = table + entry * 256;
        CHECK((bench.memory.get(at, 1) == 'H') == (place == TablePlace::memory));
        CHECK((bench.memory.get(at + 4, 2) == entry) == (place == TablePlace::memory));
      }
      CHECK(bench.events(QueueEvent::state).back().state == QueueState::active);
    }
  }
}

TEST_CASE("a table belongs to its queue, or to all", "[packet][PKT-05]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    for (const TableOwner owner : {TableOwner::queue, TableOwner::agent}) {
      PacketBench bench(with(place, owner));
      const bool shared = owner == TableOwner::agent;
      Producer first(bench, 0);
      Producer second(bench, 1);
      first.submit(reference_packet(0, fields_of(bench.object("a"))));
      REQUIRE(bench.settle());
      second.submit(condensed_packet({diff_of(0)}));
      REQUIRE(bench.settle());
      CHECK(bench.names() == (shared ? Names{"a", "a"} : Names{"a"}));
      // Opening a queue empties a table of its own.
      first.close();
      bench.run(100);
      first.setup.first = 16;
      first.open();
      first.submit(condensed_packet({diff_of(0)}));
      REQUIRE(bench.settle());
      CHECK(bench.names().size() == (shared ? 3 : 1));
    }
  }
}

TEST_CASE("a bad reference packet leaves the table as it was", "[packet][PKT-05][PKT-09]") {
  PacketBench bench(with(TablePlace::scratch, TableOwner::agent));
  Producer first(bench, 0);
  Producer second(bench, 1);
  arch::DispatchFields bad = fields_of(bench.object("a"));
  bad.kernel_object = 0x7000;  // nothing there
  first.submit(reference_packet(0, bad));
  REQUIRE(bench.settle());
  second.submit(condensed_packet({diff_of(0)}));
  REQUIRE(bench.settle());
  CHECK(bench.log.dispatched.empty());
  CHECK(bench.events(QueueEvent::state, 1).back().status == HsaStatus::invalid_argument);
}

TEST_CASE("kernels of a condensed packet run one after another, or overlap", "[packet][PKT-07]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    PacketBench bench(with(TablePlace::scratch, TableOwner::queue, order));
    const bool overlap = order == CondensedOrder::overlap;
    const std::uint64_t signal = bench.signal(0, 10);
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, fields_of(bench.object("a"), signal)));
    REQUIRE(bench.settle());
    bench.tasks.held = true;
    // The third kernel has a barrier bit of its own.
    queue.submit(condensed_packet({diff_of(0), diff_of(0), diff_of(0, {{kScopes, 1}}), diff_of(0)}));
    queue.submit(kernel_packet(bench.object("b", 1)));
    bench.run(10'000);
    REQUIRE(bench.tasks.kernels.size() == (overlap ? 3 : 2));
    bench.tasks.release(1);
    if (overlap) {
      bench.run(10'000);
      REQUIRE(bench.tasks.kernels.size() == 3);
      bench.tasks.release(2);
    }
    bench.run(10'000);
    if (overlap) {
      // The fourth does not wait for the third, and behind it is the next packet.
      REQUIRE(bench.tasks.kernels.size() == 6);
      CHECK(bench.names().back() == "b");
      for (const std::size_t number : {5U, 4U, 3U}) {
        CHECK(bench.value(signal) == 9);
        bench.tasks.release(number);
        bench.run(5000);
      }
    } else {
      for (const std::size_t number : {2U, 3U}) {
        REQUIRE(bench.tasks.kernels.size() == number + 1);
        CHECK(bench.tasks.kernels[number].when >= bench.tasks.kernels[number - 1].ended);
        bench.tasks.release(number);
        bench.run(10'000);
      }
      REQUIRE(bench.tasks.kernels.size() == 6);  // the last one, and the next packet
      CHECK(bench.value(signal) == 9);
      bench.tasks.release(4);
      bench.tasks.release(5);
    }
    REQUIRE(bench.settle());
    CHECK(bench.value(signal) == 8);
    CHECK(bench.log.done.size() == 6);
  }
}

TEST_CASE("intermediate fences and signals only where a diff asks", "[packet][PKT-07]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    PacketBench bench(with(TablePlace::scratch, TableOwner::queue, order));
    const std::uint64_t common = bench.signal(0, 10);
    const std::uint64_t own = bench.signal(1, 10);
    Producer queue(bench, 0);
    arch::DispatchFields fields = fields_of(bench.object("a"), common);
    fields.synch_scopes = 2 << 3;  // release of system scope
    queue.submit(reference_packet(0, fields));
    REQUIRE(bench.settle());
    CHECK(bench.memory.write_backs == 1);
    queue.submit(
        condensed_packet({diff_of(0), diff_of(0, {{kSignal, own}}), diff_of(0, {{kScopes, 2 << 3}}), diff_of(0)}));
    REQUIRE(bench.settle());
    CHECK(bench.value(common) == 8);
    CHECK(bench.value(own) == 9);
    CHECK(bench.memory.write_backs == 3);  // of the third kernel and of the last
    CHECK(bench.log.of(0, 1, 0)->times.cleaned == bench.log.of(0, 1, 0)->times.ended);
    CHECK(bench.log.of(0, 1, 1)->times.cleaned > bench.log.of(0, 1, 1)->times.ended);
    CHECK(bench.log.of(0, 1, 2)->times.cleaned > bench.log.of(0, 1, 2)->times.ended);
    if (order == CondensedOrder::in_order) {
      CHECK(bench.log.of(0, 1, 2)->times.decoded == bench.log.of(0, 1, 1)->times.cleaned);
    }
  }
}

TEST_CASE("the barrier bit of a condensed packet is its first kernel's", "[packet][PKT-04][PKT-06]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    for (const bool by_diff : {false, true}) {
      PacketBench bench(with(place, TableOwner::queue));
      Producer queue(bench, 0);
      queue.submit(reference_packet(0, fields_of(bench.object("a"), 0, !by_diff)));
      REQUIRE(bench.settle());
      bench.tasks.held = true;
      queue.submit(kernel_packet(bench.object("b", 1)));
      queue.submit(condensed_packet({by_diff ? diff_of(0, {{kScopes, 1}}) : diff_of(0)}));
      bench.run(20'000);
      REQUIRE(bench.tasks.kernels.size() == 2);
      bench.tasks.release(1);
      bench.run(20'000);
      REQUIRE(bench.tasks.kernels.size() == 3);
      // Its decoding began when the barrier was gone: none of the wait counts as that.
      bench.tasks.release(2);
      REQUIRE(bench.settle());
      CHECK(bench.log.of(0, 2)->times.ready >= bench.log.of(0, 1)->times.cleaned);
    }
  }
}

TEST_CASE("nothing of a condensed packet launches if any kernel is bad", "[packet][PKT-06][PKT-09]") {
  PacketBench bench;
  const std::uint64_t signal = bench.signal(0, 10);
  Producer queue(bench, 0);
  queue.submit(reference_packet(0, fields_of(bench.object("a"))));
  queue.submit(condensed_packet({diff_of(0), diff_of(0, {{kGridX, 1}}), diff_of(0, {{kSignal, signal}})}));
  REQUIRE(bench.settle());
  CHECK(bench.log.dispatched.size() == 1);
  const auto event = bench.events(QueueEvent::state).back();
  CHECK(event.status == HsaStatus::invalid_argument);
  CHECK(event.index == 1);
  CHECK(event.kernel == 1);
  CHECK(bench.value(signal) == -0x1001);
}

TEST_CASE("launches of a program have code of their own", "[packet][PKT-03][PKT-12]") {
  PacketBench bench;
  arch::KernelShape shape;
  const std::uint32_t program = bench.codes.add(empty_program(), shape);
  arch::KernelObject object;
  object.program = program;
  object.name = "p";
  object.static_shared = 1024;
  arch::DispatchFields fields = fields_of(bench.object_of(object));
  fields.kernarg = 0x6000;
  fields.grid = {70, 1, 1};  // a partial workgroup
  fields.group_segment = 1536;
  fields.private_segment = 16;
  Producer queue(bench, 0);
  queue.setup.subcontext = 9;
  queue.close();
  bench.run(10);
  queue.open();
  bench.tasks.held = true;
  queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
  fields.kernarg = 0x6100;
  queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
  bench.run(10'000);
  REQUIRE(bench.tasks.kernels.size() == 2);
  const arch::KernelShape first = bench.tasks.kernels[0].packet.kernel;
  const arch::KernelShape second = bench.tasks.kernels[1].packet.kernel;
  CHECK(first.code != program);
  CHECK(first.code != second.code);
  CHECK(bench.codes.lent() == 2);
  CHECK(bench.codes.at(first.code).kernarg == 0x6000);
  CHECK(bench.codes.at(second.code).kernarg == 0x6100);
  CHECK(bench.codes.at(first.code).items.items.x == 70);
  CHECK(first.grid.x == 3);
  CHECK(first.block.x == 32);
  CHECK(first.shared_bytes == 1536);
  CHECK(first.local_bytes == 16);
  CHECK(first.subcontext == 9);
  CHECK(bench.tasks.kernels[0].label == "p (queue 0, packet 0)");
  bench.tasks.release(0);
  bench.tasks.release(1);
  REQUIRE(bench.settle());
  CHECK(bench.codes.lent() == 0);
  CHECK(bench.observation.labels.of(bench.tasks.kernels[0].packet.operation).find("queue") == std::string::npos);
}

TEST_CASE("a kernel of a condensed packet has the object as its reference packet found it",
          "[packet][PKT-05][PKT-06]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    for (const bool zeroed : {false, true}) {
      CAPTURE(static_cast<int>(place), zeroed);
      PacketBench bench(with(place, TableOwner::queue));
      const std::uint64_t a = bench.object("a", 0);
      Producer queue(bench, 0);
      queue.submit(reference_packet(0, fields_of(a)));
      REQUIRE(bench.settle());
      // The object is overwritten: whoever reads it again finds another kernel, or none.
      if (zeroed) bench.memory.put_bytes(a, std::array<std::uint8_t, 128>{});
      if (!zeroed) (void)bench.object("b", 0);
      queue.submit(condensed_packet({diff_of(0), diff_of(0, {{kGridX, 128}})}));
      REQUIRE(bench.settle());
      CHECK(bench.names() == Names{"a", "a", "a"});
      CHECK(bench.tasks.kernels.back().packet.kernel.grid.x == 4);
      // A diff that sets the object reads it, be it the same address.
      queue.submit(condensed_packet({diff_of(0), diff_of(0, {{kObject, a}})}));
      REQUIRE(bench.settle());
      const auto event = bench.events(QueueEvent::state).back();
      if (zeroed) {
        CHECK(event.status == HsaStatus::invalid_code_object);
        CHECK(event.kernel == 1);
        CHECK(bench.names().size() == 3);
      } else {
        CHECK(event.state == QueueState::active);
        CHECK(bench.names() == Names{"a", "a", "a", "a", "b"});
        // The table has the object of its reference packet still.
        queue.submit(condensed_packet({diff_of(0)}));
        REQUIRE(bench.settle());
        CHECK(bench.names().back() == "a");
      }
    }
  }
}

TEST_CASE("a later kernel's acquire comes before it: its diff's, or the stored one for the agent",
          "[packet][PKT-06][PKT-14]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    PacketParams params = with(TablePlace::scratch, TableOwner::queue, order);
    PacketBench bench(params);
    Producer queue(bench, 0);
    arch::DispatchFields fields = fields_of(bench.object("a"));
    fields.synch_scopes = 1 << 1;  // acquire of agent scope
    queue.submit(reference_packet(0, fields));
    REQUIRE(bench.settle());
    queue.submit(condensed_packet({diff_of(0), diff_of(0), diff_of(0, {{kScopes, 2 << 1}}), diff_of(0),
                                   diff_of(0, {{kScopes, 1 << 1}}), diff_of(0, {{kScopes, 0}})}));
    REQUIRE(bench.settle());
    const auto fence = [&](std::uint32_t kernel) {
      const auto& times = bench.log.of(0, 1, kernel)->times;
      return times.decoded - times.ready;
    };
    // Only one of system scope takes time: what memory takes.
    for (std::uint32_t kernel = 1; kernel < 6; ++kernel) CHECK(fence(kernel) == (kernel == 2 ? 50 : 0));
    CHECK(bench.memory.invalidates == 1);
    CHECK(bench.observation.stats.value("gpu0.packet.acquires") == 1 + 5);  // the last one asks for none
    for (std::uint32_t kernel = 1; kernel < 6; ++kernel) {
      const auto& before = bench.log.of(0, 1, kernel - 1)->times;
      const auto& times = bench.log.of(0, 1, kernel)->times;
      CHECK(times.ready == (order == CondensedOrder::in_order ? before.ended : before.dispatched));
    }
  }
}

TEST_CASE("a queue that stops while a later kernel acquires launches no more", "[packet][PKT-06][PKT-09]") {
  PacketParams params = with(TablePlace::scratch, TableOwner::queue);
  PacketBench bench(params);
  std::uint64_t invalidates = 0;
  bench.memory.delay = [&] {
    const bool slow = std::exchange(invalidates, bench.memory.invalidates_asked) != bench.memory.invalidates_asked;
    return slow ? Cycle{10'000} : Cycle{50};
  };
  Producer queue(bench, 0);
  const std::uint64_t signal = bench.signal(0, 10);
  queue.submit(reference_packet(0, fields_of(bench.object("a"), signal)));
  REQUIRE(bench.settle());
  queue.submit(condensed_packet({diff_of(0), diff_of(0, {{kScopes, 2 << 1}})}));
  bench.run(4000);
  REQUIRE(bench.names().size() == 2);
  queue.close();
  bench.run(20'000);
  CHECK(bench.names().size() == 2);
  CHECK(bench.value(signal) == 9);
  CHECK(bench.events(QueueEvent::state).back().state == QueueState::closed);
  CHECK(bench.processor.quiescent());
}

TEST_CASE("whether a packet waits is read from its entry, once, and only if that decides", "[packet][PKT-06][PKT-11]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    PacketBench bench(with(place, TableOwner::agent));
    const auto looks = [&] { return bench.observation.stats.value("gpu0.packet.table.scopes"); };
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, fields_of(bench.object("a"), 0, true)));
    queue.submit(reference_packet(1, fields_of(bench.object("b", 1))));
    REQUIRE(bench.settle());
    queue.submit(condensed_packet({diff_of(0)}));  // all before it are complete
    REQUIRE(bench.settle());
    CHECK(looks() == 0);
    bench.tasks.held = true;
    queue.submit(kernel_packet(bench.object("c", 2)));
    queue.submit(condensed_packet({diff_of(0, {{kScopes, 0}})}));  // the diff decides
    bench.run(5000);
    CHECK(bench.names().size() == 5);
    CHECK(looks() == 0);
    queue.submit(condensed_packet({diff_of(1)}));  // the entry does: no barrier
    bench.run(5000);
    CHECK(bench.names().size() == 6);
    CHECK(looks() == 1);
    queue.submit(condensed_packet({diff_of(0)}));  // and one that waits
    queue.submit(condensed_packet({diff_of(1)}));
    bench.run(5000);
    CHECK(bench.names().size() == 6);
    CHECK(looks() == 2);
    for (const std::size_t number : {3U, 4U, 5U}) bench.tasks.release(number);
    bench.run(5000);
    CHECK(bench.names().size() == 8);
    for (const std::size_t number : {6U, 7U}) bench.tasks.release(number);
    REQUIRE(bench.settle());
    CHECK(looks() == 3);
  }
}

TEST_CASE("a packet waits for its entry, which says whether it waits, and then for what that says",
          "[packet][PKT-06][PKT-11]") {
  PacketBench bench(with(TablePlace::memory, TableOwner::queue));
  const auto says = [&](const std::string& text) {
    const std::vector<std::string> lines = bench.waits();
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  Producer queue(bench, 0);
  queue.submit(reference_packet(0, fields_of(bench.object("a"), 0, true)));
  REQUIRE(bench.settle());
  bench.tasks.held = true;
  queue.submit(kernel_packet(bench.object("b", 1)));
  bench.run(3'000);
  bench.memory.delay = [] { return Cycle{5'000}; };
  queue.write(condensed_packet({diff_of(0)}));
  queue.submit(kernel_packet(bench.object("b", 1)));  // behind it
  bench.run(7'000);
  const std::string asks =
      "packet 2 of queue 0 waits: its table entry says whether it waits, so for an answer from the reference";
  const std::string waits = "packet 2 of queue 0 waits: its barrier bit is set, so for packet 1 of queue 0";
  CHECK(says(asks));
  CHECK_FALSE(says(waits));
  bench.run(5'000);
  CHECK_FALSE(says(asks));
  CHECK(says(waits));
  bench.memory.delay = [] { return Cycle{50}; };
  bench.tasks.release(1);
  bench.run(5'000);
  REQUIRE(bench.tasks.kernels.size() == 4);
  for (const std::size_t number : {2U, 3U}) bench.tasks.release(number);
  REQUIRE(bench.settle());
}

TEST_CASE("a packet whose entry cannot be read waits for nothing", "[packet][PKT-09][PKT-11]") {
  PacketBench bench(with(TablePlace::memory, TableOwner::queue));
  Producer queue(bench, 0);
  queue.submit(reference_packet(0, fields_of(bench.object("a"))));
  REQUIRE(bench.settle());
  bench.tasks.held = true;
  queue.submit(kernel_packet(bench.object("b", 1)));
  bench.run(3000);
  bench.memory.broken.push_back({bench.kTable, bench.kTable + 256});
  queue.submit(condensed_packet({diff_of(0)}));
  bench.run(3000);
  CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::error);
  bench.tasks.release(1);
  REQUIRE(bench.settle());
}

TEST_CASE("a queue that is opened again does not go by what it knew before", "[packet][PKT-06][PKT-11]") {
  PacketParams params = with(TablePlace::memory, TableOwner::agent);
  PacketBench bench(params);
  Producer queue(bench, 0);
  Producer other(bench, 1);
  other.submit(reference_packet(0, fields_of(bench.object("a"), 0, true)));
  REQUIRE(bench.settle());
  bench.tasks.held = true;
  queue.submit(kernel_packet(bench.object("b", 1)));
  queue.submit(condensed_packet({diff_of(0)}));
  bench.run(5000);
  REQUIRE(bench.names().size() == 2);
  queue.close();
  bench.tasks.release(1);
  bench.run(2000);
  other.submit(reference_packet(0, fields_of(bench.object("a"))));  // now without the barrier bit
  bench.run(3000);
  bench.tasks.release(2);
  bench.run(3000);
  queue.open();
  queue.submit(kernel_packet(bench.object("b", 1)));
  queue.submit(condensed_packet({diff_of(0)}));
  bench.run(5000);
  CHECK(bench.names().size() == 5);
  bench.tasks.release(3);
  bench.tasks.release(4);
  REQUIRE(bench.settle());
}

TEST_CASE("what a queue asked before it was closed is no answer to what it asks afterwards",
          "[packet][PKT-06][PKT-11]") {
  PacketParams params = with(TablePlace::scratch, TableOwner::agent);
  params.table_latency = 20'000;
  PacketBench bench(params);
  const auto says = [&](const std::string& text) {
    const std::vector<std::string> lines = bench.waits();
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  const std::string asks = "packet 1 of queue 0 waits: its table entry says whether it waits";
  const std::string waits = "packet 1 of queue 0 waits: its barrier bit is set";
  Producer queue(bench, 0);
  Producer other(bench, 1);
  other.submit(reference_packet(0, fields_of(bench.object("a"))));
  other.submit(reference_packet(1, fields_of(bench.object("a"), 0, true)));
  REQUIRE(bench.settle());
  bench.tasks.held = true;
  queue.submit(kernel_packet(bench.object("b", 1)));
  queue.submit(condensed_packet({diff_of(0)}));  // no barrier
  queue.submit(kernel_packet(bench.object("b", 1)));
  bench.run(4'000);
  REQUIRE(says(asks));
  queue.close();
  bench.tasks.release(2);
  bench.run(4'000);
  REQUIRE(bench.events(QueueEvent::state, 0).back().state == QueueState::closed);
  queue.open();
  queue.submit(kernel_packet(bench.object("b", 1)));
  queue.submit(condensed_packet({diff_of(1)}));  // a barrier
  queue.submit(kernel_packet(bench.object("b", 1)));
  bench.run(4'000);
  CHECK(says(asks));
  bench.run(10'000);  // the first answer has come
  CHECK(says(asks));
  bench.run(8'000);  // and the second one
  CHECK(says(waits));
  bench.tasks.release(3);
  bench.run(100'000);
  REQUIRE(bench.tasks.kernels.size() == 6);
  for (const std::size_t number : {4U, 5U}) bench.tasks.release(number);
  REQUIRE(bench.settle());
}

}  // namespace packet_processor_condensed_test
