// Stages of the packet processor without SystemC: on a plain time base, with a memory that is a vector.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/byte_codec.h"
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
  params.decode_plain = 200;
  params.dispatch = 70;
  params.clean_up = 80;
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
  StageContext context{time, "stage", costs(), {}, packets, queues, queue_memory, reporter};
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
  reader.open(0);
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
    CHECK(bench.log == Lines{"1000: write-back", "1130: decrement 0x3000", "1180: read 0x3008", "1230: write 0x2000",
                             "1280: host: event 7", "1280: kernel completed", "1280: packet retired"});
    CHECK(bench.memory.get(kSignal) == 4);
    CHECK(bench.memory.get(kMailbox, 4) == 7);
  }
  SECTION("a signal that says what went wrong, and no fence") {
    packet.kernels.front().release = arch::FenceScope::none;
    packet.kernels.front().signal = kSignal;
    packet.signal_value = -4096;
    completion.finish(packet);
    bench.time.run();
    CHECK(bench.log == Lines{"1080: write 0x3000", "1130: kernel completed", "1130: packet retired"});
    CHECK(static_cast<std::int64_t>(bench.memory.get(kSignal)) == -4096);
  }
  SECTION("a mailbox that cannot be written stops the queue, and the packet is complete all the same") {
    bench.memory.put(kSignal + 8, kMailbox + 1);
    completion.finish(packet);
    bench.time.run();
    CHECK(bench.log == Lines{"1000: write-back", "1130: decrement 0x3000", "1180: read 0x3008",
                             "1230: a signal names no mailbox that can be written", "1230: kernel completed",
                             "1230: packet retired"});
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
  const arch::SmLimits limits;
  PacketRouter router("packet", "packet", costs(),
                      PacketRouter::Machine{time, {}, limits, codes, fit, 0, memory, host, tasks, copies});
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
  time.run_until(1000 + 370);
  REQUIRE(kernels.size() == 1);
  CHECK_FALSE(router.quiescent());
  time.run_until(1000 + 885);
  router.dispatcher().on_dispatch_done({kernels.front().operation, protocol::DoneStatus::ok, 1385, 1885}, 0);
  time.run();

  // A read of 50; the decoder's 200 cover the read of the object; the slices forget, 50; dispatch 70; start 15; run
  // 500; write-back 50, clean-up 80, atomic 50.
  REQUIRE(listener.done.size() == 1);
  const PacketTimes& times = listener.done.front().times;
  CHECK(std::vector<Cycle>{times.doorbell, times.fetched, times.ready, times.decoded, times.dispatched, times.started,
                           times.ended,
                           times.cleaned} == std::vector<Cycle>{1000, 1050, 1050, 1300, 1370, 1385, 1885, 2065});
  CHECK(listener.done.front().status == arch::HsaStatus::success);
  CHECK(memory.get(kSignal) == 0);
  CHECK(memory.get(kIndex) == 1);
  CHECK(router.quiescent());
}

}  // namespace packet_stages_test
