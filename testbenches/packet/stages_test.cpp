// Stages of the packet processor without SystemC: on a plain time base, with a memory that is a vector.
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "common/state.h"
#include "common/timebase.h"
#include "packet/packet_router.h"

namespace packet_stages_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using namespace heddle::packet;
using heddle::Cycle;
using heddle::EventHandler;
using heddle::GpuObservation;
using heddle::PacketSender;
using heddle::PlainTimebase;
using heddle::TimingMode;

namespace {

using Lines = std::vector<std::string>;

constexpr std::uint64_t kObject = 0x1000;
constexpr std::uint64_t kMailbox = 0x2000;
constexpr std::uint64_t kSignal = 0x3000;
constexpr std::uint64_t kIndex = 0x3800;
constexpr std::uint64_t kRing = 0x4000;

// Answers after 50 cycles, and writes down what it was asked for, with the cycle.
class PlainMemory final : public MemoryPort, public EventHandler {
 public:
  static constexpr Cycle kLatency = 50;

  PlainMemory(PlainTimebase& time, Lines& log) : time_(time), log_(log) {}

  std::function<void(const MemoryAnswer&)> deliver;

  void read(std::uint64_t address, std::uint32_t bytes, std::uint8_t, const MemoryTag& tag) override {
    note(fmt::format("read {:#x}", address));
    enter({tag, address, bytes, {}, [](std::uint64_t before) { return before; }});
  }
  void watch(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, std::uint64_t,
             const MemoryTag& tag) override {
    read(address, bytes, subcontext, tag);
  }
  void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t,
             const MemoryTag& tag) override {
    std::uint64_t value = 0;
    for (std::uint32_t i = bytes; i-- > 0;) value = value << 8 | data[i];
    note(fmt::format("write {:#x}", address));
    enter({tag, address, bytes, value, [value](std::uint64_t) { return value; }});
  }
  void read_own(std::uint64_t address, std::uint32_t bytes, const MemoryTag& tag) override {
    note(fmt::format("own read {:#x}", address));
    enter({tag, address, bytes, {}, [](std::uint64_t before) { return before; }});
  }
  void write_own(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, const MemoryTag& tag) override {
    note(fmt::format("own write {:#x}", address));
    for (std::uint32_t i = 0; i < bytes; ++i) bytes_.at(address + i) = data[i];
    enter({tag, address, 0, {}, {}});
  }
  void decrement(std::uint64_t address, std::uint8_t, const MemoryTag& tag) override {
    note(fmt::format("decrement {:#x}", address));
    enter({tag, address, 8, {}, [](std::uint64_t before) { return before - 1; }});
  }
  void write_back(const MemoryTag& tag) override {
    note("write-back");
    enter({tag, 0, 0, {}, {}});
  }
  void invalidate(const MemoryTag& tag) override {
    note("invalidate");
    enter({tag, 0, 0, {}, {}});
  }
  std::size_t open() const override { return open_; }

  std::uint64_t get(std::uint64_t address, std::uint32_t bytes = 8) const {
    std::uint64_t value = 0;
    for (std::uint32_t i = bytes; i-- > 0;) value = value << 8 | bytes_.at(address + i);
    return value;
  }
  void put(std::uint64_t address, std::uint64_t value, std::uint32_t bytes = 8) {
    for (std::uint32_t i = 0; i < bytes; ++i) bytes_.at(address + i) = static_cast<std::uint8_t>(value >> 8 * i);
  }
  template <class Bytes>
  void put_bytes(std::uint64_t address, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(address));
  }

 private:
  struct Request {
    MemoryTag tag;
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    std::uint64_t value = 0;
    std::function<std::uint64_t(std::uint64_t)> change;
  };
  void note(const std::string& what) { log_.push_back(fmt::format("{}: {}", time_.now(), what)); }
  void enter(Request request) {
    ++open_;
    requests_.push_back(std::move(request));
    time_.schedule_in(kLatency, *this, 0, requests_.size() - 1);
  }
  void on_event(std::uint32_t, std::uint64_t number) override {
    const Request request = requests_[static_cast<std::size_t>(number)];
    --open_;
    MemoryAnswer answer{request.tag, true, {}};
    for (std::uint32_t i = 0; i < request.bytes; ++i) answer.data[i] = bytes_.at(request.address + i);
    if (request.bytes > 0 && request.bytes <= 8) {
      put(request.address, request.change(get(request.address, request.bytes)), request.bytes);
    }
    deliver(answer);
  }

  PlainTimebase& time_;
  Lines& log_;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(1U << 16);
  std::vector<Request> requests_;
  std::size_t open_ = 0;
};

template <class Packet>
class Outlet final : public PacketSender<Packet> {
 public:
  explicit Outlet(std::function<void(const Packet&)> taker) : taker_(std::move(taker)) {}

 private:
  bool do_can_send(std::uint32_t) override { return true; }
  void do_send(const Packet& packet, std::uint32_t) override { taker_(packet); }
  void do_send_at(Cycle, const Packet& packet, std::uint32_t) override { taker_(packet); }

  std::function<void(const Packet&)> taker_;
};

PacketParams costs() {
  PacketParams params;
  params.queues = 2;
  params.poll = 500;
  params.step = 4;
  return params;
}

protocol::QueueSetup ring_of(std::uint32_t packets) {
  protocol::QueueSetup setup;
  setup.base = kRing;
  setup.size = packets;
  setup.read_index = kIndex;
  return setup;
}

arch::PacketBytes kernel_packet(std::uint64_t signal) {
  arch::DispatchFields fields;
  fields.synch_scopes = 2 << 1 | 2 << 3;  // acquire and release of system scope
  fields.setup = 1;
  fields.workgroup = {32, 1, 1};
  fields.grid = {64, 1, 1};
  fields.kernel_object = kObject;
  fields.completion_signal = signal;
  return arch::encode(arch::KernelDispatch{fields, 0, 0});
}

// A stage's neighbours, which only write down what they are told.
struct StageBench : QueueWaits, RingListener, QueueSupervisor, KernelListener, RetireListener, SignalListener {
  void note(const std::string& what) { log.push_back(fmt::format("{}: {}", time.now(), what)); }
  const char* wait_reason(std::uint32_t) const override { return nullptr; }
  void advance(std::uint32_t) override { note("a packet has come"); }
  void fail(std::uint32_t, std::uint64_t, std::uint32_t, const arch::HsaResult& result) override {
    note(arch::reason_text(result.reason));
  }
  void try_close(std::uint32_t) override {}
  void kernel_completed(Packet&, bool) override { note("kernel completed"); }
  void signal_changed(std::uint64_t) override {}
  void retire(Packet& packet) override {
    note("packet retired");
    packets.free(packet);
  }

  GpuObservation observation{"gpu0"};
  PlainTimebase time{TimingMode::at, observation};
  Lines log;
  PlainMemory memory{time, log};
  Outlet<protocol::QueueEventPacket> host{[this](const protocol::QueueEventPacket& event) {
    if (event.event == protocol::QueueEvent::read) note(fmt::format("host: read index {}", event.index));
    if (event.event == protocol::QueueEvent::signal) note(fmt::format("host: event {}", event.event_id));
  }};
  PacketTable packets;
  QueueTable queues{2, host};
  QueueMemory queue_memory{memory, queues};
  PacketReporter reporter{time, "packet", {}, *this, 2};
  PacketCircuit circuit{costs(), 1};
  StageContext context{time, "stage", costs(), {}, packets, queues, queue_memory, reporter, circuit};
};

}  // namespace

TEST_CASE("the ring reader alone: ahead, again after a doorbell, and slots before the index",
          "[packet][PKT-01][PKT-04]") {
  StageBench bench;
  RingReader reader(bench.context, bench, bench);
  bench.memory.deliver = [&](const MemoryAnswer& answer) {
    bench.queue_memory.answered(answer.tag.queue);
    reader.on_answer(answer);
  };
  bench.queues.open(0, ring_of(4));
  reader.open(0, 0);
  bench.memory.put_bytes(kRing, kernel_packet(0));
  bench.memory.put(kRing + arch::kPacketBytes, 1, 2);  // told of, not published
  bench.time.run_until(100);
  reader.doorbell(0, 1);
  bench.time.run_until(300);
  CHECK(bench.log == Lines{"100: read 0x4000", "100: read 0x4040", "150: a packet has come", "150: a packet has come"});
  bench.log.clear();

  const QueueCore::Fetched head = reader.take_head(0);
  CHECK(head.doorbell == 100);
  CHECK(head.fetched == 150);
  CHECK(arch::type_of(head.bytes) == arch::PacketType::kernel_dispatch);
  CHECK(reader.awaits_producer(0) == false);  // there is a head
  reader.release_head(0);
  CHECK(reader.awaits_producer(0));
  bench.memory.put_bytes(kRing + arch::kPacketBytes, kernel_packet(0));
  reader.clear_slot(0, 0);
  bench.time.run_until(1000);
  CHECK(bench.log == Lines{"300: write 0x4000", "350: host: read index 1", "350: write 0x3800"});
  reader.doorbell(0, 1);  // nothing else makes it look again
  bench.time.run();
  CHECK(bench.log == Lines{"300: write 0x4000", "350: host: read index 1", "350: write 0x3800", "1000: read 0x4040",
                           "1050: read 0x4080", "1050: a packet has come", "1100: a packet has come"});
  CHECK(reader.ring(0).front()->doorbell == 100);
  CHECK(bench.memory.get(kRing, 2) == 1);
  CHECK(bench.memory.get(kIndex) == 1);
  CHECK(bench.queue_memory.outstanding(0) == 0);
  CHECK(bench.reporter.stats().fetches.value() == 4);  // and the one behind, which is not there
  CHECK(bench.reporter.stats().unpublished.value() == 2);
}

TEST_CASE("completion alone: fence, signal, mailbox, interrupt, in this order", "[packet][PKT-04]") {
  StageBench bench;
  Completion completion(bench.context, bench, bench, bench, bench);
  bench.memory.deliver = [&](const MemoryAnswer& answer) { completion.on_answer(answer); };
  bench.queues.open(0, ring_of(4));
  bench.memory.put(kSignal, 5);
  bench.memory.put(kSignal + 8, kMailbox);
  bench.memory.put(kSignal + 16, 7, 4);
  Packet& packet = bench.packets.take();
  packet.type = arch::PacketType::kernel_dispatch;
  packet.phase = Phase::finishing;
  packet.kernels.resize(1);
  packet.dispatched = packet.ended = 1;
  packet.kernels.front().release = arch::FenceScope::system;
  packet.kernels.front().signal = kSignal | arch::kSignalInterrupt;
  bench.time.run_until(1000);
  SECTION("a packet that has ended well") {
    completion.finish(packet);
    bench.time.run();
    CHECK(bench.log == Lines{"1000: write-back", "1070: decrement 0x3000", "1120: read 0x3008", "1170: write 0x2000",
                             "1220: host: event 7", "1220: kernel completed", "1220: packet retired"});
    CHECK(bench.memory.get(kSignal) == 4);
    CHECK(bench.memory.get(kMailbox, 4) == 7);
  }
  SECTION("a signal that says what went wrong, and no fence") {
    packet.kernels.front().release = arch::FenceScope::none;
    packet.kernels.front().signal = kSignal;
    packet.signal_value = -4096;
    completion.finish(packet);
    bench.time.run();
    CHECK(bench.log == Lines{"1020: write 0x3000", "1070: kernel completed", "1070: packet retired"});
    CHECK(static_cast<std::int64_t>(bench.memory.get(kSignal)) == -4096);
  }
  SECTION("a mailbox that cannot be written stops the queue, and the packet is complete all the same") {
    bench.memory.put(kSignal + 8, kMailbox + 1);
    completion.finish(packet);
    bench.time.run();
    CHECK(bench.log == Lines{"1000: write-back", "1070: decrement 0x3000", "1120: read 0x3008",
                             "1170: a signal names no mailbox that can be written", "1170: kernel completed",
                             "1170: packet retired"});
  }
}

TEST_CASE("the whole pipeline without SystemC takes the same time, phase by phase", "[packet][PKT-08][PKT-04]") {
  struct Fits final : FitCheck {
    std::string why_never_fits(const arch::KernelShape&) const override { return ""; }
  } fit;
  struct Log final : PacketListener {
    void kernel_dispatched(const PacketRecord&) override {}
    void packet_done(const PacketRecord& record) override { done.push_back(record); }
    std::vector<PacketRecord> done;
  } listener;
  GpuObservation observation("gpu0");
  PlainTimebase time(TimingMode::at, observation);
  Lines log;
  PlainMemory memory(time, log);
  Outlet<protocol::QueueEventPacket> host([](const protocol::QueueEventPacket&) {});
  Outlet<protocol::CopyRequestPacket> copies([](const protocol::CopyRequestPacket&) {});
  std::vector<protocol::DispatchPacket> kernels;
  Outlet<protocol::DispatchPacket> tasks([&](const protocol::DispatchPacket& packet) { kernels.push_back(packet); });
  arch::CodeStore codes;
  arch::BroughtCode brought{codes, nullptr, nullptr};
  const arch::SmLimits limits;
  PacketRouter router("packet", "packet", costs(),
                      PacketRouter::Machine{time, {}, limits, codes, brought, fit, 0, memory, host, tasks, copies});
  memory.deliver = [&](const MemoryAnswer& answer) { router.on_answer(answer); };
  router.listen(listener);

  arch::KernelObject object;
  object.name = "k";
  object.registers_per_thread = 32;
  object.duration = {10, 10};
  memory.put_bytes(kObject, arch::encode(object));
  memory.put(kSignal, 1);
  memory.put_bytes(kRing, kernel_packet(kSignal));
  const auto command = [&](protocol::QueueCommand what, const protocol::QueueSetup& setup) {
    router.queue_control().on_command({what, 0, setup, 0, 0}, 0);
  };
  command(protocol::QueueCommand::open, ring_of(4));
  time.run_until(1000);
  command(protocol::QueueCommand::doorbell, {});
  time.run_until(1000 + 340);
  REQUIRE(kernels.size() == 1);
  CHECK_FALSE(router.quiescent());
  time.run_until(1000 + 855);
  router.dispatcher().on_dispatch_done({kernels.front().operation, protocol::DoneStatus::ok, 1355, 1855}, 0);
  time.run();

  // A read of 50; 22 steps of the decoder, which cover the read of the object, and 23 when it is there; the slices
  // forget, 50; dispatch 15 steps; start 15; run 500; write-back 50, clean-up 5 steps, atomic 50.
  REQUIRE(listener.done.size() == 1);
  const PacketTimes& times = listener.done.front().times;
  CHECK(std::vector<Cycle>{times.doorbell, times.fetched, times.ready, times.decoded, times.dispatched, times.started,
                           times.ended,
                           times.cleaned} == std::vector<Cycle>{1000, 1050, 1050, 1280, 1340, 1355, 1855, 1975});
  CHECK(listener.done.front().status == arch::HsaStatus::success);
  CHECK(memory.get(kSignal) == 0);
  CHECK(memory.get(kIndex) == 1);
  CHECK(router.quiescent());
}

namespace {

// What the buffer tells, with the cycle.
struct BufferBench : StageBench, EntryListener, ScopesListener {
  struct HoldsAll final : FitCheck {
    std::string why_never_fits(const arch::KernelShape&) const override { return {}; }
  };
  void entry_read(Packet& packet, std::uint32_t entry, const arch::HsaResult& result,
                  const StoredKernel& kernel) override {
    note(result.ok() ? fmt::format("packet {}: entry {} of {:#x}", packet.index, entry, kernel.fields.kernarg)
                     : fmt::format("packet {}: entry {}, {}", packet.index, entry, arch::reason_text(result.reason)));
  }
  void entry_written(Packet& packet, bool ok) override { note(fmt::format("packet {}: stored {}", packet.index, ok)); }
  void scopes_read(std::uint32_t queue, std::uint64_t ticket, std::uint8_t scopes) override {
    note(fmt::format("queue {}: ticket {} has {}", queue, ticket, scopes));
  }
  Packet& packet_of(std::uint32_t queue, std::uint64_t index) {
    Packet& packet = packets.take();
    packet.queue = queue;
    packet.index = index;
    return packet;
  }
  static StoredKernel kernel(std::uint64_t kernarg, std::uint8_t scopes = 0) {
    StoredKernel made;
    arch::KernelDispatch dispatch;
    REQUIRE(arch::decode(kernel_packet(0), dispatch).ok());
    made.fields = dispatch.fields;
    made.fields.kernarg = kernarg;
    made.fields.synch_scopes = scopes;
    made.object.duration = {10, 10};
    made.shape = arch::shape_of(made.fields, made.object, 0);
    return made;
  }

  HoldsAll fit;
  arch::CodeStore codes;
  arch::BroughtCode brought{codes, nullptr, nullptr};
  KernelValidator validator{arch::SmLimits(), brought, fit};
};

}  // namespace

TEST_CASE("the buffer on the chip: one port, in order, for all queues", "[packet][PKT-05][PKT-11]") {
  BufferBench bench;  // 1,135 bits by 256: 5 cycles, and 4
  ReferenceBuffer buffer(bench.context, {bench, bench, bench.validator, bench}, 0);
  for (std::uint32_t queue = 0; queue < 2; ++queue) {
    bench.queues.open(queue, ring_of(4));
    buffer.open(queue);
  }
  bench.time.run_until(100);
  Packet& a = bench.packet_of(0, 1);
  Packet& b = bench.packet_of(1, 2);
  Packet& gone = bench.packet_of(0, 3);
  buffer.read(b, 7);
  buffer.write(a, 7, bench.kernel(0x10, 5));
  buffer.write(gone, 6, bench.kernel(0x20));
  buffer.read(a, 7);
  buffer.read_scopes(0, 7, 33);
  buffer.read_scopes(1, 7, 34);
  bench.packets.free(gone);
  buffer.read(a, 6);
  bench.time.run_until(200);
  CHECK(bench.log == Lines{"109: packet 2: entry 7, an entry of the reference state table is empty",
                           "114: packet 1: stored true", "124: packet 1: entry 7 of 0x10",
                           "125: queue 0: ticket 33 has 5", "126: queue 1: ticket 34 has 0",
                           "131: packet 1: entry 6, an entry of the reference state table is empty"});
  CHECK(bench.reporter.stats().table_wait.value() == 5 + 10 + 15 + 20 + 21 + 22);
  bench.log.clear();
  bench.time.run_until(300);
  buffer.open(0);  // again
  buffer.read(a, 7);
  buffer.read(a, 5);
  buffer.reset();
  buffer.read(b, 0);
  bench.time.run_until(400);
  CHECK(bench.log == Lines{"309: packet 2: entry 0, an entry of the reference state table is empty"});
}

TEST_CASE("the buffer in memory: nothing is kept on the chip, and emptying is writing", "[packet][PKT-05][PKT-11]") {
  BufferBench bench;
  PacketParams params = costs();
  params.table = TablePlace::memory;
  params.entries = 2;
  params.table_owner = GENERATE(TableOwner::queue, TableOwner::agent);
  const bool own = params.table_owner == TableOwner::queue;
  const StageContext context{bench.time,         "stage",        params,       {}, bench.packets, bench.queues,
                             bench.queue_memory, bench.reporter, bench.circuit};
  ReferenceBuffer buffer(context, {bench, bench, bench.validator, bench}, 0x8000);
  bench.memory.deliver = [&](const MemoryAnswer& answer) {
    bench.queue_memory.answered(answer.tag.queue);
    buffer.on_answer(answer);
  };
  for (std::uint32_t queue = 0; queue < 2; ++queue) bench.queues.open(queue, ring_of(4));
  // What lies there from before is no entry once the table has been opened; who asks meanwhile waits.
  bench.memory.put_bytes(0x8000, encode_entry(0, bench.kernel(0x70)));
  bench.memory.put_bytes(0x8200, encode_entry(0, bench.kernel(0x80)));
  bench.time.run_until(100);
  Packet& a = bench.packet_of(0, 1);
  Packet& gone = bench.packet_of(0, 3);
  buffer.open(0);
  buffer.read(a, 0);
  buffer.write(gone, 1, bench.kernel(0x60));
  bench.packets.free(gone);
  bench.time.run_until(300);
  CHECK(bench.log == Lines{"100: own write 0x8000", "100: own write 0x8100", "150: own read 0x8000",
                           "150: own read 0x8080",
                           "200: packet 1: entry 0, an entry of the reference state table is empty"});
  CHECK(bench.queue_memory.outstanding(0) == 0);
  bench.log.clear();
  buffer.write(a, 1, bench.kernel(0x10, 1));
  bench.time.run_until(400);
  CHECK(bench.log == Lines{"300: own write 0x8100", "300: own write 0x8180", "350: packet 1: stored true"});
  bench.log.clear();
  // What is read is what lies there.
  bench.memory.put_bytes(0x8100, encode_entry(1, bench.kernel(0x20, 5)));
  buffer.read(a, 1);
  buffer.read_scopes(0, 1, 9);
  bench.time.run_until(500);
  CHECK(bench.log == Lines{"400: own read 0x8100", "400: own read 0x8180", "400: own read 0x8100",
                           "450: packet 1: entry 1 of 0x20", "450: queue 0: ticket 9 has 5"});
  bench.log.clear();
  bench.memory.put(0x8100 + 40, 1, 4);  // no such workgroups follow from the packet
  buffer.read(a, 1);
  bench.time.run_until(600);
  CHECK(bench.log.back() == "550: packet 1: entry 1, what lies in memory is not the table entry");
  bench.log.clear();
  // A table of all queues is emptied before the first use of all, and after a reset.
  Packet& b = bench.packet_of(1, 2);
  buffer.open(1);
  buffer.read(b, 0);
  bench.time.run_until(800);
  const std::string table = own ? "0x8200" : "0x8000";
  CHECK(bench.log.front() == fmt::format("600: own {} {}", own ? "write" : "read", table));
  CHECK(bench.log.back() ==
        fmt::format("{}: packet 2: entry 0, an entry of the reference state table is empty", own ? 700 : 650));
  buffer.reset();
  bench.log.clear();
  buffer.open(1);
  CHECK(bench.log.front() == fmt::format("800: own write {}", table));
}

TEST_CASE("the programs that may lie in a table in memory are known", "[packet][PKT-11][HST-07][HST-08]") {
  BufferBench bench;
  PacketParams params = costs();
  params.table = TablePlace::memory;
  params.entries = 2;
  const StageContext context{bench.time,         "stage",        params,       {}, bench.packets, bench.queues,
                             bench.queue_memory, bench.reporter, bench.circuit};
  ReferenceBuffer buffer(context, {bench, bench, bench.validator, bench}, 0x8000);
  bool fails = false;
  bench.memory.deliver = [&](const MemoryAnswer& answer) {
    bench.queue_memory.answered(answer.tag.queue);
    MemoryAnswer changed = answer;
    changed.ok = !fails || answer.tag.part != 0;  // the first of two lines
    buffer.on_answer(changed);
  };
  using Programs = std::set<std::uint32_t>;
  const auto known = [](const ReferenceBuffer& of) {
    Programs used;
    of.mark_codes(used);
    used.erase(arch::kNoCode);
    return used;
  };
  bench.queues.open(0, ring_of(4));
  Packet& packet = bench.packet_of(0, 1);
  buffer.open(0);
  bench.time.run_until(200);
  CHECK(known(buffer).empty());
  Cycle now = 200;
  const auto write = [&](std::uint32_t program, const Programs& meanwhile, const Programs& then) {
    StoredKernel kernel = bench.kernel(0x10);
    kernel.object.program = program;
    buffer.write(packet, 1, kernel);
    CHECK(known(buffer) == meanwhile);
    bench.time.run_until(now += 100);
    CHECK(known(buffer) == then);
  };
  write(5, {5}, {5});
  fails = true;
  write(6, {5, 6}, {5, 6});  // one of them lies there
  fails = false;
  heddle::StateWriter saved("tables");
  buffer.save(saved);
  ReferenceBuffer restored(context, {bench, bench, bench.validator, bench}, 0x8000);
  heddle::StateReader from("tables", saved.bytes());
  restored.restore(from);
  from.end();
  CHECK(known(restored) == Programs{5, 6});
  fails = true;
  write(8, {5, 6, 8}, {5, 6, 8});
  fails = false;
  write(7, {5, 6, 7, 8}, {7});
  buffer.open(0);
  bench.time.run_until(now += 100);
  CHECK(known(buffer).empty());
}

}  // namespace packet_stages_test
