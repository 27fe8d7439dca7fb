// Errors of packets and of what they name (PKT-09): the code, the event, the index; nothing of the packet launches, and
// other queues go on.
#include "packet/packet_bench.h"

namespace packet_processor_error_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::arch::HsaStatus;
using heddle::arch::PacketBytes;
using heddle::arch::PacketType;
using heddle::packet::PacketParams;
using heddle::packet::TablePlace;
using heddle::protocol::DoneStatus;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kNowhere = FakeMemory::kBytes;

struct Case {
  const char* name;
  HsaStatus status;
  std::function<PacketBytes(PacketBench&, std::uint64_t signal)> packet;
  bool tells = true;  // the completion signal can be told
};

using Spoil = std::function<void(arch::DispatchFields&)>;

Case field_case(const char* name, HsaStatus status, const Spoil& spoil, bool tells = true) {
  return {name, status,
          [spoil](PacketBench& bench, std::uint64_t signal) {
            arch::DispatchFields fields = fields_of(bench.object("bad"), signal);
            spoil(fields);
            return arch::encode(arch::KernelDispatch{fields, 0, 0});
          },
          tells};
}

Case object_case(const char* name, HsaStatus status, const std::function<void(arch::KernelObject&)>& spoil) {
  return {name, status, [spoil](PacketBench& bench, std::uint64_t signal) {
            arch::KernelObject object;
            object.name = "bad";
            spoil(object);
            return kernel_packet(bench.object_of(object, 9), signal);
          }};
}

// A packet that has been encoded well, with a byte changed.
Case byte_case(const char* name, HsaStatus status, std::size_t offset, std::uint8_t value, bool tells = true) {
  return {name, status,
          [offset, value](PacketBench& bench, std::uint64_t signal) {
            PacketBytes bytes = kernel_packet(bench.object("bad"), signal);
            bytes[offset] = value;
            return bytes;
          },
          tells};
}

std::vector<Case> all_cases() {
  const auto argument = HsaStatus::invalid_argument;
  const auto format = HsaStatus::invalid_packet_format;
  const auto resources = HsaStatus::out_of_resources;
  const auto code = HsaStatus::invalid_code_object;
  return {
      byte_case("an undefined type", format, 0, 8, false),
      byte_case("another undefined type", format, 0, 0xFF, false),
      byte_case("reserved bits of the header", format, 1, 0x20),
      byte_case("a fence scope that does not exist", format, 1, 0x06),
      byte_case("reserved0", format, 10, 1),
      byte_case("reserved2", format, 48, 1),
      field_case("dimensions 0", argument, [](auto& f) { f.setup = 0; }),
      field_case("reserved bits of setup", format, [](auto& f) { f.setup = 4; }),
      field_case("a workgroup size of 0", argument, [](auto& f) { f.workgroup[0] = 0; }),
      field_case("a workgroup above the limit", argument, [](auto& f) { f.workgroup[0] = 1025, f.grid[0] = 1025; }),
      field_case("an unused dimension", argument, [](auto& f) { f.grid[1] = 2; }),
      field_case("a grid smaller than a workgroup", argument, [](auto& f) { f.grid[0] = 31; }),
      field_case("misaligned kernarg", argument, [](auto& f) { f.kernarg = 8; }),
      field_case("kernarg in the host's memory", argument, [](auto& f) { f.kernarg = arch::kHostWindow; }),
      field_case("too much group segment", resources, [](auto& f) { f.group_segment = 1U << 20; }),
      field_case("no kernel object", code, [](auto& f) { f.kernel_object = 0; }),
      field_case("a misaligned kernel object", code, [](auto& f) { f.kernel_object += 64; }),
      field_case("a kernel object that memory does not have", code, [](auto& f) { f.kernel_object = kNowhere; }),
      field_case("no kernel object at that address", code, [](auto& f) { f.kernel_object = 0x7000; }),
      field_case(
          "a misaligned signal", HsaStatus::invalid_signal, [](auto& f) { f.completion_signal += 8; }, false),
      object_case("too many registers", resources, [](auto& o) { o.registers_per_thread = 256; }),
      object_case("a group segment below the static shared memory", HsaStatus::invalid_allocation,
                  [](auto& o) { o.static_shared = 16; }),
      object_case("a threads limit", HsaStatus::incompatible_arguments, [](auto& o) { o.threads_limit = 16; }),
      object_case("a program that does not exist", code, [](auto& o) { o.program = 77; }),
      {"ref_num beyond the table", argument,
       [](PacketBench& bench, std::uint64_t signal) {
         return reference_packet(8, fields_of(bench.object("bad"), signal));
       }},
      {"an empty table entry", argument, [](PacketBench&, std::uint64_t) { return condensed_packet({diff_of(3)}); },
       false},
      {"no kernels", format, [](PacketBench&, std::uint64_t) { return arch::encode(arch::CondensedPacket{}); }, false},
      {"diff values past the end", format,
       [](PacketBench&, std::uint64_t) {
         arch::CondensedPacket packet;
         packet.kernels = 31;
         packet.diff.fill(0xFFF8);
         return arch::encode(packet);
       },
       false},
      {"a vendor format that does not exist", format,
       [](PacketBench&, std::uint64_t signal) {
         PacketBytes bytes = hold_packet(5, signal);
         bytes[2] = 9;
         return bytes;
       }},
      {"a barrier on a signal that memory does not have", HsaStatus::invalid_signal,
       [](PacketBench&, std::uint64_t signal) { return barrier_packet(PacketType::barrier_and, {kNowhere}, signal); }},
      {"a reserved field of an agent packet", format,
       [](PacketBench&, std::uint64_t signal) {
         PacketBytes bytes = agent_packet(5, signal);
         bytes[48] = 1;
         return bytes;
       }},
  };
}

}  // namespace

TEST_CASE("every bad packet stops its queue and no other", "[packet][PKT-09]") {
  for (const Case& bad : all_cases()) {
    CAPTURE(bad.name);
    PacketBench bench;
    const std::uint64_t good = bench.object("good", 1);
    const std::uint64_t signal = bench.signal(0, 5);
    const std::uint64_t before = bench.signal(1, 5);
    Producer queue(bench, 0);
    Producer other(bench, 1);
    queue.write(kernel_packet(good, before));
    queue.write(bad.packet(bench, signal));
    queue.write(kernel_packet(good, before));
    queue.ring(2);
    for (std::uint32_t i = 0; i < 3; ++i) other.submit(kernel_packet(good));
    REQUIRE(bench.settle());
    const auto event = bench.events(QueueEvent::state, 0).back();
    CHECK(event.state == QueueState::error);
    CHECK(arch::status_text(event.status) == std::string(arch::status_text(bad.status)));
    CHECK(event.index == 1);
    for (const auto& record : bench.log.dispatched) CHECK((record.queue == 1 || record.index == 0));
    CHECK(bench.log.dispatched.size() == 4);
    CHECK(bench.value(before) == 4);
    CHECK(bench.value(signal) == (bad.tells ? -static_cast<std::int64_t>(bad.status) : 5));
    CHECK(queue.read_index() == 1);
    CHECK(bench.memory.get(queue.slot(1), 1) != 1);
    CHECK(bench.events(QueueEvent::agent).empty());
    CHECK(bench.copies.copies.empty());
    REQUIRE(bench.log.of(0, 1, event.kernel) != nullptr);
    CHECK(bench.log.of(0, 1, event.kernel)->status == bad.status);
    CHECK(bench.log.of(0, 1, event.kernel)->times.ready >= bench.log.of(0, 1, event.kernel)->times.fetched);
    CHECK(bench.domain.idle());
    // Doorbells of a stopped queue are not heard; closed and opened, it is as new.
    queue.ring(9);
    bench.run(2000);
    CHECK(bench.log.dispatched.size() == 4);
    queue.close();
    bench.run(100);
    CHECK(bench.events(QueueEvent::state, 0).back().state == QueueState::closed);
    queue.setup.first = 16;
    queue.open();
    queue.submit(kernel_packet(good));
    REQUIRE(bench.settle());
    CHECK(bench.log.dispatched.size() == 5);
  }
}

TEST_CASE("the turn of a packet of an undefined type comes as that of any other", "[packet][PKT-08][PKT-09]") {
  PacketBench bench;
  const std::uint64_t signal = bench.signal(0, 1);
  Producer queue(bench, 0);
  PacketBytes undefined = kernel_packet(bench.object("k"));
  undefined[0] = 9;
  queue.write(barrier_packet(PacketType::barrier_and, {signal}));
  queue.write(undefined);
  queue.ring(1);
  bench.run(5000);
  bench.memory.put(signal, 0);
  REQUIRE(bench.settle());
  REQUIRE(bench.log.of(0, 1) != nullptr);
  CHECK(bench.log.of(0, 1)->times.fetched < 1000);
  CHECK(bench.log.of(0, 1)->times.ready == bench.log.of(0, 0)->times.cleaned);
}

TEST_CASE("a kernel that faults stops its queue", "[packet][PKT-09]") {
  for (const DoneStatus status : {DoneStatus::faulted, DoneStatus::rejected}) {
    PacketBench bench;
    const bool faulted = status == DoneStatus::faulted;
    const HsaStatus code = faulted ? HsaStatus::exception : HsaStatus::out_of_resources;
    bench.tasks.status = [&](const FakeTasks::Kernel& kernel) {
      return (kernel.packet.operation & 0xFF) == 1 ? status : DoneStatus::ok;
    };
    bench.tasks.duration = [](const FakeTasks::Kernel& kernel) {
      return Cycle{(kernel.packet.operation & 0xFF) == 0 ? 9000U : 2000U};
    };
    const std::uint64_t object = bench.object("k");
    const std::uint64_t good = bench.signal(0, 3);
    const std::uint64_t bad = bench.signal(1, 3);
    Producer queue(bench, 0);
    queue.write(kernel_packet(object, good));
    queue.write(kernel_packet(object, bad));
    queue.write(kernel_packet(object, good, true));
    queue.ring(2);
    REQUIRE(bench.settle());
    CHECK(bench.log.dispatched.size() == 2);
    CHECK(bench.value(good) == 2);  // what ran beside it ended as usual
    CHECK(bench.value(bad) == -static_cast<std::int64_t>(code));
    const auto event = bench.events(QueueEvent::state).back();
    CHECK(event.state == QueueState::error);
    CHECK(event.status == code);
    CHECK(event.index == 1);
    CHECK(bench.events(QueueEvent::fault).size() == (faulted ? 1 : 0));
    CHECK(bench.log.of(0, 1)->status == code);
    CHECK(bench.log.of(0, 0)->status == HsaStatus::success);
  }
}

TEST_CASE("errors of memory stop the queue with the code of what was asked", "[packet][PKT-09]") {
  struct Broken {
    const char* name;
    HsaStatus status;
    std::function<std::pair<std::uint64_t, std::uint64_t>(const Producer&)> range;
    std::size_t kernels;
  };
  const std::vector<Broken> cases{
      {"ring", HsaStatus::invalid_queue,
       [](const Producer& queue) { return std::make_pair(queue.slot(1), queue.slot(2)); }, 1},
      {"read index", HsaStatus::invalid_queue,
       [](const Producer& queue) { return std::make_pair(queue.setup.read_index, queue.setup.read_index + 8); }, 1},
      {"signal", HsaStatus::invalid_signal,
       [](const Producer&) { return std::make_pair(PacketBench::kSignals, PacketBench::kSignals + 8); }, 1},
      {"mailbox", HsaStatus::invalid_signal,
       [](const Producer&) { return std::make_pair(std::uint64_t{0x3F000}, std::uint64_t{0x3F004}); }, 1},
  };
  for (const Broken& broken : cases) {
    CAPTURE(broken.name);
    PacketBench bench;
    const std::uint64_t signal = bench.signal(0, 3);
    bench.memory.put(signal + 8, 0x3F000);
    Producer queue(bench, 0);
    queue.write(kernel_packet(bench.object("k"), signal | 1));
    queue.write(kernel_packet(bench.object("k"), 0, true));
    bench.memory.broken.push_back(broken.range(queue));
    queue.ring(1);
    REQUIRE(bench.settle());
    const auto event = bench.events(QueueEvent::state).back();
    CHECK(event.state == QueueState::error);
    CHECK(event.status == broken.status);
    CHECK(event.kernel == 0);
    CHECK(bench.log.dispatched.size() == broken.kernels);
    CHECK(bench.processor.open() == 0);
  }
  SECTION("write-back") {
    PacketBench bench;
    bench.memory.broken_write_back = true;
    arch::DispatchFields fields = fields_of(bench.object("k"), bench.signal(0, 3));
    fields.synch_scopes = 2 << 3;
    Producer queue(bench, 0);
    queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
    REQUIRE(bench.settle());
    CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::error);
    CHECK(bench.value(bench.kSignals) == -0x1000);
  }
  SECTION("table") {
    PacketParams params;
    params.table = TablePlace::memory;
    PacketBench bench(params);
    Producer queue(bench, 0);
    REQUIRE(bench.settle());
    bench.memory.broken.push_back({bench.kTable + 128, bench.kTable + 256});
    queue.submit(reference_packet(0, fields_of(bench.object("k"), bench.signal(0, 3))));
    REQUIRE(bench.settle());
    CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::error);
    CHECK(bench.log.dispatched.empty());
    CHECK(bench.value(bench.kSignals) == -0x1000);
  }
  SECTION("table that cannot be emptied") {
    PacketParams params;
    params.table = TablePlace::memory;
    PacketBench bench(params);
    bench.memory.broken.push_back({bench.kTable + 7 * 256, bench.kTable + 8 * 256});
    Producer queue(bench, 0);
    REQUIRE(bench.settle());
    CHECK(bench.events(QueueEvent::state).back().state == protocol::QueueState::error);
    CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::error);
    // The host closes it and opens it again.
    bench.memory.broken.clear();
    queue.close();
    bench.run(100);
    queue.open();
    queue.submit(reference_packet(7, fields_of(bench.object("k"), bench.signal(0, 3))));
    REQUIRE(bench.settle());
    CHECK(bench.value(bench.kSignals) == 2);
  }
  SECTION("copy") {
    PacketBench bench;
    bench.copies.status = HsaStatus::error;
    arch::VendorPacket copy;
    copy.to = 0x100;
    copy.bytes = 4;
    copy.completion_signal = bench.signal(0, 3);
    Producer queue(bench, 0);
    queue.submit(arch::encode(copy));
    REQUIRE(bench.settle());
    CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::error);
    CHECK(bench.value(bench.kSignals) == -0x1000);
  }
}

TEST_CASE("clusters that nothing can hold are found before anything launches", "[packet][PKT-09][PKT-12]") {
  PacketBench bench;
  arch::ClusterShape cluster;
  cluster.of(arch::CgaLevel::gpc) = {2, 1, 1};
  const std::uint64_t object = bench.object("k", 0, cluster);
  Producer queue(bench, 0);
  for (std::uint32_t i = 0; i < 5; ++i) queue.submit(kernel_packet(object));
  REQUIRE(bench.settle());
  CHECK(bench.tasks.kernels.size() == 5);
  CHECK(bench.tasks.kernels[0].packet.kernel.cluster.of(arch::CgaLevel::gpc).x == 2);
  CHECK(bench.fit.asked == 1);
  bench.fit.why = "too large";
  arch::DispatchFields fields = fields_of(object);
  fields.grid[0] = 128;
  queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
  REQUIRE(bench.settle());
  CHECK(bench.fit.asked == 2);
  CHECK(bench.tasks.kernels.size() == 5);
  CHECK(bench.events(QueueEvent::state).back().status == HsaStatus::out_of_resources);
}

}  // namespace packet_processor_error_test
