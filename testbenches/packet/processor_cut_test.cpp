// Condensed packets that are wrong, or are cut short (PKT-06, PKT-07, PKT-09).
#include "packet/packet_bench.h"

namespace packet_processor_cut_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::arch::HsaStatus;
using heddle::arch::Reason;
using heddle::packet::CondensedOrder;
using heddle::packet::PacketParams;
using heddle::packet::QueueOrder;
using heddle::packet::TableOwner;
using heddle::packet::TablePlace;
using heddle::protocol::DoneStatus;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

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

TEST_CASE("the error of a condensed packet names the first kernel that is wrong", "[packet][PKT-06][PKT-09]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    struct Wrong {
      const char* name;
      HsaStatus status;
      std::uint32_t kernel;
      std::function<arch::PacketBytes(PacketBench&)> packet;
    };
    const bool in_memory = place == TablePlace::memory;
    const auto spoil = [](arch::PacketBytes bytes, std::size_t half_word, std::uint16_t value) {
      bytes[2 + 2 * half_word] = static_cast<std::uint8_t>(value & 0xFF);
      bytes[3 + 2 * half_word] = static_cast<std::uint8_t>(value >> 8);
      return bytes;
    };
    std::vector<Wrong> all{
        {"scopes of more than 8 bits", HsaStatus::invalid_packet_format, 2,
         [&](PacketBench&) {
           return spoil(condensed_packet({diff_of(0), diff_of(1), diff_of(0, {{kScopes, 0}}), diff_of(1)}), 3, 0x100);
         }},
        {"a diff past the end", HsaStatus::invalid_packet_format, 3,
         [&](PacketBench&) {
           const std::vector<std::pair<std::uint32_t, std::uint64_t>> wide{{8, 1}, {9, 1}, {10, 1}, {11, 1}};
           arch::PacketBytes bytes = condensed_packet({diff_of(0, wide), diff_of(0, wide)});
           bytes[1] = 4;
           return spoil(bytes, 27, 0xFFF8);  // the third has no diff, the fourth all of them
         }},
        {"half-words behind the last", HsaStatus::invalid_packet_format, 1,
         [&](PacketBench&) {
           return spoil(condensed_packet({diff_of(0), diff_of(1)}), 30, 1);
         }},
        {"an empty entry", HsaStatus::invalid_argument, 3,
         [](PacketBench&) {
           return condensed_packet({diff_of(1), diff_of(0), diff_of(1), diff_of(6), diff_of(5)});
         }},
        {"the last of 31", HsaStatus::invalid_argument, 30,
         [](PacketBench&) {
           std::vector<arch::Diff> diffs(31, diff_of(0));
           diffs.back() = diff_of(7);
           return condensed_packet(diffs);
         }},
        {"scopes that do not exist", HsaStatus::invalid_packet_format, 1,
         [](PacketBench&) {
           return condensed_packet({diff_of(0), diff_of(1, {{kScopes, 6}}), diff_of(0)});
         }},
        {"a kernel object that is none", HsaStatus::invalid_code_object, 2,
         [](PacketBench&) {
           return condensed_packet(
               {diff_of(0), diff_of(1), diff_of(0, {{kObject, 0x7000}}), diff_of(0, {{kObject, 0x7080}})});
         }},
    };
    if (in_memory) {
      all.push_back({"entries that were overwritten", HsaStatus::invalid_argument, 1, [](PacketBench& bench) {
                       bench.memory.put(bench.kTable + 2 * 256 + 64, 77);
                       bench.memory.put(bench.kTable + 3 * 256, 0);
                       return condensed_packet({diff_of(0), diff_of(3), diff_of(2), diff_of(0)});
                     }});
      all.push_back({"an entry that cannot be read", HsaStatus::error, 2, [](PacketBench& bench) {
                       bench.memory.broken.push_back({bench.kTable + 256 + 128, bench.kTable + 512});
                       return condensed_packet({diff_of(0), diff_of(2), diff_of(1)});
                     }});
    }
    for (const Wrong& wrong : all) {
      CAPTURE(wrong.name, in_memory);
      PacketBench bench(with(place, TableOwner::queue));
      Producer queue(bench, 0);
      for (std::uint16_t entry = 0; entry < 4; ++entry) {
        queue.submit(reference_packet(entry, fields_of(bench.object("a"))));
      }
      REQUIRE(bench.settle());
      queue.submit(wrong.packet(bench));
      REQUIRE(bench.settle());
      const auto event = bench.events(QueueEvent::state).back();
      CHECK(event.state == QueueState::error);
      CHECK(arch::status_text(event.status) == std::string(arch::status_text(wrong.status)));
      CHECK(event.index == 4);
      CHECK(event.kernel == wrong.kernel);
      CHECK(bench.log.of(0, 4, wrong.kernel) != nullptr);
      CHECK(bench.log.dispatched.size() == 4);
    }
  }
}

// A packet is judged by its format, then its entries, then scopes, then other fields, then kernel objects: the kernel
// is the first that is wrong in the first of these in which one is.
TEST_CASE("of several kernels that are wrong in different ways entries count first, then scopes, fields, objects",
          "[packet][PKT-06][PKT-09]") {
  struct Case {
    std::vector<arch::Diff> diffs;
    Reason reason;
    std::uint32_t kernel;
  };
  const arch::Diff bad_scopes = diff_of(0, {{kScopes, 6}});
  const arch::Diff small_grid = diff_of(0, {{kGridX, 1}});
  const arch::Diff no_object = diff_of(0, {{kObject, 0x7000}});
  const arch::Diff good = diff_of(0);
  const arch::Diff empty = diff_of(6);
  const std::vector<Case> cases{
      {{no_object, small_grid, good, empty, empty}, Reason::empty_entry, 3},
      {{no_object, small_grid, bad_scopes, small_grid}, Reason::fence_scope, 2},
      {{no_object, good, small_grid, small_grid}, Reason::small_grid, 2},
      {{good, no_object, no_object}, Reason::object_magic, 1},
  };
  for (const Case& one : cases) {
    PacketBench bench;
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, fields_of(bench.object("a"))));
    REQUIRE(bench.settle());
    queue.submit(condensed_packet(one.diffs));
    REQUIRE(bench.settle());
    const auto event = bench.events(QueueEvent::state).back();
    CAPTURE(arch::reason_text(event.reason), arch::reason_text(one.reason));
    CHECK(event.reason == one.reason);
    CHECK(event.kernel == one.kernel);
  }
}

TEST_CASE("an error of another packet cuts a condensed packet short", "[packet][PKT-07][PKT-09]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    for (const bool limited : {false, true}) {
      for (const bool closed : {false, true}) {
        CAPTURE(static_cast<int>(order), limited, closed);
        PacketParams params = with(TablePlace::scratch, TableOwner::queue, order);
        if (limited) params.in_flight = 2;
        PacketBench bench(params);
        const std::uint64_t signal = bench.signal(0, 10);
        const std::uint64_t before = bench.signal(1, 10);
        Producer queue(bench, 0);
        Producer other(bench, 1);
        queue.submit(reference_packet(0, fields_of(bench.object("a"), before)));
        REQUIRE(bench.settle());
        bench.tasks.held = true;
        bench.tasks.status = [](const FakeTasks::Kernel& kernel) {
          return (kernel.packet.operation & 0xFF) == 1 ? DoneStatus::faulted : DoneStatus::ok;
        };
        const bool waits_in_turn = order == CondensedOrder::overlap && limited;
        queue.submit(kernel_packet(bench.object("b", 1)));
        std::vector<std::pair<std::uint32_t, std::uint64_t>> last{{kSignal, signal}};
        if (!waits_in_turn) last.emplace_back(kScopes, 1);
        queue.submit(condensed_packet({diff_of(0), diff_of(0, last)}));
        queue.submit(kernel_packet(bench.object("b", 1)));
        bench.run(10'000);
        REQUIRE(bench.tasks.kernels.size() == 3);  // a, b, and the first of the condensed packet
        if (limited) {
          other.submit(kernel_packet(bench.object("c", 2)));
          bench.run(10'000);
          REQUIRE(bench.tasks.kernels.size() == 3);
        }
        bench.tasks.release(1);
        bench.run(10'000);
        CHECK(bench.events(QueueEvent::state, 0).back().status == HsaStatus::exception);
        CHECK(bench.events(QueueEvent::state, 0).back().index == 1);
        REQUIRE(bench.tasks.kernels.size() == (limited ? 4 : 3));  // other queues go on
        CHECK(bench.value(signal) == 10);
        if (closed) queue.close();
        bench.run(100);
        bench.tasks.release(2);
        if (limited) bench.tasks.release(3);
        REQUIRE(bench.settle());
        CHECK(bench.tasks.kernels.size() == (limited ? 4 : 3));
        CHECK(bench.value(signal) == -0x1016);
        CHECK(bench.value(before) == 9);
        REQUIRE(bench.log.of(0, 2, 0) != nullptr);
        CHECK(bench.log.of(0, 2, 0)->status == HsaStatus::success);
        CHECK(bench.log.of(0, 2, 1) == nullptr);
        CHECK(bench.processor.open() == 0);
        CHECK(bench.events(QueueEvent::state, 0).back().state == (closed ? QueueState::closed : QueueState::error));
      }
    }
  }
}

TEST_CASE("a condensed packet that waits for a place ends when its queue stops", "[packet][PKT-07][PKT-09]") {
  PacketParams params = with(TablePlace::scratch, TableOwner::queue, CondensedOrder::overlap);
  params.in_flight = 3;
  params.order = QueueOrder::priority;
  PacketBench bench(params);
  const std::uint64_t signal = bench.signal(0, 10);
  Producer queue(bench, 0);
  Producer urgent(bench, 1, 16, 0, 1);
  queue.submit(reference_packet(0, fields_of(bench.object("a"))));
  REQUIRE(bench.settle());
  bench.tasks.held = true;
  bench.tasks.status = [](const FakeTasks::Kernel& kernel) {
    return (kernel.packet.operation & 0xFF) == 1 ? DoneStatus::faulted : DoneStatus::ok;
  };
  queue.submit(kernel_packet(bench.object("b", 1)));
  bench.run(3000);
  for (std::uint32_t i = 0; i < 3; ++i) {
    urgent.submit(kernel_packet(bench.object("c", 2)));
    bench.run(3000);
    if (i == 0) queue.submit(condensed_packet({diff_of(0), diff_of(0, {{kSignal, signal}})}));
    bench.run(3000);
  }
  REQUIRE(bench.names() == std::vector<std::string>{"a", "b", "c", "a"});
  bench.tasks.release(3);
  bench.run(3000);
  REQUIRE(bench.names().back() == "c");
  CHECK(bench.value(signal) == 10);
  // All places are the other queue's from now on.
  bench.tasks.release(1);
  bench.run(3000);
  REQUIRE(bench.tasks.kernels.size() == 6);
  CHECK(bench.value(signal) == -0x1016);
  for (const std::size_t number : {2U, 4U, 5U}) bench.tasks.release(number);
  REQUIRE(bench.settle());
  CHECK(bench.tasks.kernels.size() == 6);
  CHECK(bench.processor.open() == 0);
}

TEST_CASE("a kernel that fails tells by its own signal, and by that of its packet", "[packet][PKT-07][PKT-09]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    for (const DoneStatus status : {DoneStatus::faulted, DoneStatus::rejected}) {
      CAPTURE(static_cast<int>(order), static_cast<int>(status));
      PacketBench bench(with(TablePlace::scratch, TableOwner::queue, order));
      const std::uint64_t bad = bench.signal(0, 10);
      const std::uint64_t good = bench.signal(1, 10);
      const std::uint64_t last = bench.signal(2, 10);
      Producer queue(bench, 0);
      queue.submit(reference_packet(0, fields_of(bench.object("a"), last)));
      REQUIRE(bench.settle());
      REQUIRE(bench.value(last) == 9);
      bench.tasks.status = [&](const FakeTasks::Kernel& kernel) {
        return (kernel.packet.operation & 0xFF) == 1 ? status : DoneStatus::ok;
      };
      queue.submit(condensed_packet({diff_of(0, {{kSignal, bad}}), diff_of(0, {{kSignal, good}}), diff_of(0)}));
      REQUIRE(bench.settle());
      const bool alone = order == CondensedOrder::in_order;
      CHECK(bench.tasks.kernels.size() == (alone ? 2 : 4));
      const std::int64_t code = status == DoneStatus::faulted ? 0x1016 : 0x1008;
      CHECK(bench.value(bad) == -code);
      CHECK(bench.value(good) == (alone ? 10 : 9));
      CHECK(bench.value(last) == -code);
      CHECK(bench.log.of(0, 1, 0)->status == static_cast<HsaStatus>(code));
    }
  }
}

TEST_CASE("a fault and a close cut a condensed packet short", "[packet][PKT-07][PKT-09]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    for (const bool fault : {true, false}) {
      CAPTURE(fault, static_cast<int>(order));
      PacketBench bench(with(TablePlace::scratch, TableOwner::queue, order));
      const std::uint64_t signal = bench.signal(0, 10);
      Producer queue(bench, 0);
      queue.submit(reference_packet(0, fields_of(bench.object("a"), signal)));
      REQUIRE(bench.settle());
      bench.tasks.status = [&](const FakeTasks::Kernel&) { return fault ? DoneStatus::faulted : DoneStatus::ok; };
      bench.tasks.held = true;
      queue.submit(condensed_packet({diff_of(0), diff_of(0, {{kScopes, 1}}), diff_of(0)}));
      bench.run(10'000);
      REQUIRE(bench.tasks.kernels.size() == 2);
      if (!fault) queue.close();
      bench.tasks.release(1);
      REQUIRE(bench.settle());
      CHECK(bench.tasks.kernels.size() == 2);
      CHECK(bench.value(signal) == (fault ? -0x1016 : 9));
      const auto event = bench.events(QueueEvent::state).back();
      CHECK(event.state == (fault ? QueueState::error : QueueState::closed));
      CHECK(bench.log.done.size() == 2);
      CHECK(bench.events(QueueEvent::fault).size() == (fault ? 1 : 0));
    }
  }
}

}  // namespace packet_processor_cut_test
