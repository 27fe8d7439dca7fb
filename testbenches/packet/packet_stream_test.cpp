// Reference, condensed and plain packets, one after another and on several queues at once, through the whole packet
// processor, against oracles that are written from the text (packet_oracle.h, object_oracle.h): which kernels are
// launched, with what, behind which fences, with which signals, and which packet stops its queue and why. Tables on the
// chip and in memory, one each and one for all, other widths, both kinds of diffs; addresses of the queues' processes
// are translated, those of tables are not. Kernel objects are overwritten all the time.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/timebase.h"
#include "packet/object_oracle.h"
#include "packet/packet_router.h"
#include "packet/random_packet.h"
#include "support/list_program.h"
#include "support/random.h"

namespace packet_stream_test {

namespace arch = heddle::arch;
namespace oracle = heddle::oracle;
namespace protocol = heddle::protocol;
using namespace heddle::packet;
using heddle::Cycle;
using heddle::EventHandler;
using heddle::GpuObservation;
using heddle::PacketSender;
using heddle::PlainTimebase;
using heddle::TimingMode;
using oracle::Blame;
using oracle::Image;
using oracle::ObjectImage;

namespace {

constexpr std::uint32_t kQueues = 3;
constexpr std::uint32_t kObjects = 6;
constexpr std::uint32_t kSignals = 5;
constexpr std::uint32_t kPrograms = 3;
// Of each process: 64 KiB of virtual addresses from 0 on.
constexpr std::uint64_t kProcess = 0x1'0000;
constexpr std::uint64_t kObjectsAt = 0x1000;
constexpr std::uint64_t kSignalsAt = 0x3000;
constexpr std::uint64_t kSignalBytes = 64;  // with time stamps
constexpr std::uint64_t kIndexAt = 0x3800;
constexpr std::uint64_t kRingAt = 0x4000;
constexpr std::uint32_t kRing = 4;
// The machine's own, behind all processes.
constexpr std::uint64_t kTables = kQueues * kProcess;
constexpr Cycle kInvalidate = 3000;

// Virtual addresses of a subcontext have their own frames; the machine's addresses are physical.
class Memory final : public MemoryPort, public EventHandler {
 public:
  Memory(PlainTimebase& time, std::uint64_t tables) : time_(time), bytes_(kTables + tables) {}
  const char* handler_name() const override { return "memory"; }

  std::function<void(const MemoryAnswer&)> deliver;
  std::uint64_t write_backs = 0;
  std::uint64_t invalidates = 0;

  void read(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, const MemoryTag& tag) override {
    enter({tag, Kind::read, place(address, bytes, subcontext), bytes, {}});
  }
  void watch(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, std::uint64_t,
             const MemoryTag& tag) override {
    read(address, bytes, subcontext, tag);
  }
  void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t subcontext,
             const MemoryTag& tag) override {
    enter({tag, Kind::write, place(address, bytes, subcontext), bytes, {data, data + bytes}});
  }
  void read_own(std::uint64_t address, std::uint32_t bytes, const MemoryTag& tag) override {
    REQUIRE((address >= kTables && address + bytes <= bytes_.size()));
    enter({tag, Kind::read, bytes_.data() + address, bytes, {}});
  }
  void write_own(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, const MemoryTag& tag) override {
    REQUIRE((address >= kTables && address + bytes <= bytes_.size()));
    enter({tag, Kind::write, bytes_.data() + address, bytes, {data, data + bytes}});
  }
  void decrement(std::uint64_t address, std::uint8_t subcontext, const MemoryTag& tag) override {
    enter({tag, Kind::decrement, place(address, 8, subcontext), 8, {}});
  }
  void write_back(const MemoryTag& tag) override {
    ++write_backs;
    enter({tag, Kind::none, bytes_.data(), 0, {}});
  }
  void invalidate(const MemoryTag& tag) override {
    ++invalidates;
    enter({tag, Kind::none, bytes_.data(), 0, {}}, kInvalidate);
  }
  std::size_t open() const override { return requests_.in_use(); }

  std::uint8_t* place(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext) {
    return address < kProcess && bytes <= kProcess - address ? bytes_.data() + subcontext * kProcess + address
                                                             : nullptr;
  }
  std::uint64_t get(std::uint8_t subcontext, std::uint64_t address) {
    std::uint64_t value = 0;
    for (std::uint32_t i = 8; i-- > 0;) value = value << 8 | place(address, 8, subcontext)[i];
    return value;
  }
  void put(std::uint8_t subcontext, std::uint64_t address, std::uint64_t value, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i, value >>= 8) {
      place(address, bytes, subcontext)[i] = static_cast<std::uint8_t>(value);
    }
  }
  template <class Bytes>
  void put_bytes(std::uint8_t subcontext, std::uint64_t address, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), place(address, static_cast<std::uint32_t>(bytes.size()), subcontext));
  }

 private:
  enum class Kind { none, read, write, decrement };
  struct Request {
    MemoryTag tag;
    Kind kind = Kind::none;
    std::uint8_t* at = nullptr;  // null: nothing is mapped there
    std::uint32_t bytes = 0;
    std::vector<std::uint8_t> data;
  };
  void enter(Request request, Cycle takes = 3) {
    const std::uint32_t number = requests_.take();
    requests_[number] = std::move(request);
    time_.schedule_in(takes, *this, 0, number);
  }
  void on_event(std::uint32_t, std::uint64_t number) override {
    const auto index = static_cast<std::uint32_t>(number);
    const Request request = std::move(requests_[index]);
    requests_.give_back(index);
    MemoryAnswer answer{request.tag, request.at != nullptr, {}};
    if (answer.ok && request.kind == Kind::read) std::copy_n(request.at, request.bytes, answer.data.begin());
    if (answer.ok && request.kind == Kind::write) std::copy(request.data.begin(), request.data.end(), request.at);
    if (answer.ok && request.kind == Kind::decrement) {
      std::uint64_t value = 0;
      for (std::uint32_t i = 8; i-- > 0;) value = value << 8 | request.at[i];
      --value;
      for (std::uint32_t i = 0; i < 8; ++i) request.at[i] = static_cast<std::uint8_t>(value >> 8 * i);
    }
    deliver(answer);
  }

  PlainTimebase& time_;
  std::vector<std::uint8_t> bytes_;
  heddle::IndexPool<Request> requests_;
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

// Clusters of more than four CTAs have no place.
struct SmallMachine final : FitCheck {
  std::string why_never_fits(const arch::KernelShape& kernel) const override {
    for (const arch::Dim3& extents : kernel.cluster.extents) {
      if (std::uint64_t{extents.x} * extents.y * extents.z > 4) return "too large";
    }
    return {};
  }
};

struct Launched {
  arch::KernelShape shape;
  std::uint64_t kernarg = 0;
  std::uint32_t text = 0;
};

struct Done final : PacketListener {
  void kernel_dispatched(const PacketRecord&) override {}
  void packet_done(const PacketRecord& record) override { records.push_back(record); }
  std::vector<PacketRecord> records;
};

// A kernel as the text has it.
struct Wanted {
  Image image{};
  ObjectImage object{};
  std::uint32_t acquire = 0;
  std::uint32_t release = 0;
  std::uint64_t signal = 0;
};

class Stream {
 public:
  Stream(oracle::Rng& rng, const PacketParams& params)
      : rng_(rng),
        params_(params),
        widths_{params.reference_bits, params.vector_bits, params.entries},
        memory_(time_, table_bytes(params)),
        router_("packet", "packet", params,
                PacketRouter::Machine{
                    time_, {}, limits_, codes_, brought_, fit_, kTables, memory_, host_, tasks_, copies_}) {
    memory_.deliver = [this](const MemoryAnswer& answer) { router_.on_answer(answer); };
    router_.listen(done_);
    for (std::uint32_t i = 0; i < kPrograms; ++i) {
      REQUIRE(codes_.add(std::make_shared<heddle::test::ListProgram>(1), {}) == i + 1);
    }
    for (std::uint32_t queue = 0; queue < kQueues; ++queue) {
      for (std::uint32_t i = 0; i < kObjects; ++i) new_object(queue, i);
      for (std::uint32_t i = 0; i < kSignals; ++i) memory_.put(process(queue), signal_at(i), 1U << 30, 8);
      for (std::uint32_t i = 0; i < kRing; ++i) memory_.put(process(queue), kRingAt + i * 64, 1, 2);
      open(queue);
    }
  }

  // A packet on some queue, or one on several queues at once. What one stores in a table that all share comes alone:
  // nobody knows which of the others find it.
  void round() {
    std::vector<Sent> sent;
    const std::uint64_t most = rng_.percent(40) ? 1 + rng_.below(kQueues) : 1;
    const std::uint64_t first = rng_.below(kQueues);
    for (std::uint64_t i = 0; i < most; ++i) {
      Sent next = prepare(static_cast<std::uint32_t>((first + i) % kQueues));
      const bool alone = params_.table_owner == TableOwner::agent && next.image[0] == 6;
      if (alone && i > 0) break;
      sent.push_back(std::move(next));
      if (alone) break;
    }
    const std::uint64_t write_backs = memory_.write_backs;
    const std::uint64_t invalidates = memory_.invalidates;
    const std::uint64_t acquires = acquired();
    launched_.clear();
    done_.records.clear();
    errors_ = {};
    for (const Sent& one : sent) submit(one.queue, one.image);
    settle();
    std::array<std::uint64_t, 3> acquired_at{};
    std::uint64_t released = 0;
    for (const Sent& one : sent) {
      if (!check(one)) continue;
      for (const Wanted& wanted : one.wanted) {
        ++acquired_at.at(wanted.acquire);
        if (wanted.release == 2) ++released;
      }
    }
    REQUIRE(memory_.write_backs - write_backs == released);
    REQUIRE(memory_.invalidates - invalidates == acquired_at[2]);
    REQUIRE(acquired() - acquires == acquired_at[1] + acquired_at[2]);
    if (sent.size() > 1) ++crowds;
  }

  std::uint64_t packets = 0;
  std::uint64_t refused = 0;
  std::uint64_t kernels = 0;
  std::uint64_t condensed = 0;
  std::uint64_t crowds = 0;  // rounds of several packets

 private:
  struct Sent {
    std::uint32_t queue = 0;
    Image image{};
    Blame blame;
    std::vector<Blame> by_kernel;
    std::vector<Wanted> wanted;
    std::vector<std::uint64_t> signals;  // before
  };

  Sent prepare(std::uint32_t queue) {
    if (rng_.percent(20)) new_object(queue, static_cast<std::uint32_t>(rng_.below(kObjects)));
    Sent sent;
    sent.queue = queue;
    sent.image = some_packet(queue);
    sent.wanted = judge(queue, sent.image, sent.blame, sent.by_kernel);
    sent.signals = signals(queue);
    return sent;
  }

  // What has become of it; whether its kernels were launched.
  bool check(const Sent& sent) {
    const std::uint32_t queue = sent.queue;
    std::string bytes;
    for (const std::uint8_t byte : sent.image) bytes += fmt::format("{:02x}", byte);
    INFO(bytes);
    const auto& error = errors_.at(queue);
    std::vector<Launched> launched;
    std::copy_if(launched_.begin(), launched_.end(), std::back_inserter(launched),
                 [&](const Launched& one) { return one.shape.subcontext == process(queue); });
    ++packets;
    if (!sent.blame.none()) {
      ++refused;
      REQUIRE(error);
      REQUIRE(sent.blame.has(static_cast<std::uint32_t>(error->status)));
      REQUIRE(launched.empty());
      if (!sent.by_kernel.empty()) {
        REQUIRE(error->kernel < sent.by_kernel.size());
        REQUIRE(sent.by_kernel[error->kernel].has(static_cast<std::uint32_t>(error->status)));
      }
      reopen(queue);
      return false;
    }
    INFO((error ? arch::status_text(error->status) : "no error"));
    REQUIRE_FALSE(error);
    REQUIRE(launched.size() == sent.wanted.size());
    std::vector<PacketRecord> records;
    std::copy_if(done_.records.begin(), done_.records.end(), std::back_inserter(records),
                 [queue](const PacketRecord& record) { return record.queue == queue; });
    REQUIRE(records.size() == sent.wanted.size());
    std::sort(records.begin(), records.end(),
              [](const PacketRecord& a, const PacketRecord& b) { return a.kernel < b.kernel; });
    std::vector<std::uint64_t> after = sent.signals;
    for (std::size_t i = 0; i < sent.wanted.size(); ++i) {
      const Wanted& wanted = sent.wanted[i];
      check_kernel(queue, wanted, launched[i]);
      check_acquire(wanted, records[i], i);
      if (wanted.signal != 0) --after.at((wanted.signal - kSignalsAt) / kSignalBytes);
    }
    REQUIRE(signals(queue) == after);
    if (sent.image[0] == 6) table_of(queue).entry[sent.image[10]] = {sent.image, sent.wanted.front().object, true};
    kernels += sent.wanted.size();
    if (sent.image[0] == 7) condensed += sent.wanted.size();
    return true;
  }

  static std::uint8_t process(std::uint32_t queue) { return static_cast<std::uint8_t>(queue); }
  static std::uint64_t object_at(std::uint64_t number) { return kObjectsAt + 128 * number; }
  static std::uint64_t signal_at(std::uint64_t number) { return kSignalsAt + kSignalBytes * number; }
  oracle::Table& table_of(std::uint32_t queue) {
    return expected_[params_.table_owner == TableOwner::queue ? queue : 0];
  }

  // Most objects are good, and small enough to be launched.
  void new_object(std::uint32_t queue, std::uint32_t number) {
    ObjectImage object = oracle::random_object(rng_);
    if (rng_.percent(90)) {
      oracle::set_number(object, 8, 4, rng_.below(kPrograms + 1));
      oracle::set_number(object, 12, 4, 0);
      oracle::set_number(object, 16, 4, 8 * rng_.below(5));
      oracle::set_number(object, 20, 4, 256 * rng_.below(8));
    }
    if (rng_.percent(70)) {
      object[6] = 0;
      for (std::size_t i = 40; i < 88; ++i) object[i] = 0;
    }
    if (rng_.percent(5)) oracle::damage(rng_, object);
    memory_.put_bytes(process(queue), object_at(number), object);
    objects_[queue][number] = object;
  }

  void set_good_addresses(Image& image) {
    if (rng_.percent(97)) oracle::set_number(image, 32, 8, object_at(rng_.below(kObjects)));
    oracle::set_number(image, 40, 8, 16 * rng_.below(1000) + (rng_.percent(1) ? 8 : 0));
    oracle::set_number(image, 56, 8, rng_.percent(50) ? 0 : signal_at(rng_.below(kSignals)));
    if (rng_.percent(80)) oracle::set_number(image, 28, 4, group_segment());
  }

  // Mostly enough for the object's own.
  std::uint64_t group_segment() { return 256 * ((rng_.percent(90) ? 7 : 0) + rng_.below(8)); }

  Image some_packet(std::uint32_t queue) {
    const std::uint64_t kind = rng_.below(10);
    if (kind < 5) {
      Image image = params_.diff == arch::DiffOf::packet ? oracle::random_condensed(rng_, table_of(queue), widths_)
                                                         : stored_condensed(queue);
      if (params_.diff == arch::DiffOf::packet) mend(image);
      if (rng_.percent(8)) oracle::damage(rng_, image);
      image[0] = 7;
      return spare_signals(image, queue);
    }
    Image image = oracle::random_dispatch(rng_, kind < 9 ? 6 : 2);
    set_good_addresses(image);
    if (image[0] == 6) image[10] = static_cast<std::uint8_t>(rng_.below(params_.entries));
    if (rng_.percent(8)) oracle::damage(rng_, image);
    image[0] = kind < 9 ? 6 : 2;
    return spare_signals(image, queue);
  }

  // Damage to a signal that still is one would write anywhere; what happens then is for other tests.
  Image spare_signals(Image image, std::uint32_t queue) {
    Blame blame;
    std::vector<Blame> by_kernel;
    const auto spoiled = [&](const Wanted& kernel) {
      return kernel.signal != 0 &&
             (kernel.signal < kSignalsAt || kernel.signal >= signal_at(kSignals) || kernel.signal % kSignalBytes > 3);
    };
    for (const Wanted& kernel : judge(queue, image, blame, by_kernel)) {
      if (spoiled(kernel)) image[1] = 0xFF;  // scopes, or more kernels, that do not exist
    }
    return image;
  }

  void mend(Image& image) {
    const std::size_t header_bytes = widths_.reference + widths_.vector > 16 ? 4 : 2;
    std::size_t at = 2;
    for (std::uint32_t kernel = 0; kernel < image[1]; ++kernel) {
      const std::uint64_t header = oracle::number(image, at, header_bytes);
      at += header_bytes;
      for (std::size_t field = 0; field < 13; ++field) {
        if ((header >> (widths_.reference + field)) % 2 == 0) continue;
        if (field == 9) oracle::set_number(image, at, 4, group_segment());
        if (field == 10) oracle::set_number(image, at, 8, object_at(rng_.below(kObjects)));
        if (field == 12) oracle::set_number(image, at, 8, rng_.percent(30) ? 0 : signal_at(rng_.below(kSignals)));
        at += std::max<std::size_t>(2, oracle::kPlaces[field].bytes);
      }
    }
  }

  Image stored_condensed(std::uint32_t queue) {
    const std::array<std::uint64_t, 13> limits{0, 1024, 3, 2, 1000, 4, 4, 40, 8192, 64, kPrograms + 1, 0, 0};
    return oracle::random_stored(rng_, table_of(queue), widths_, [&](std::size_t i) {
      std::uint64_t value = limits[i] == 0 ? 0 : rng_.below(limits[i]);
      if (i > 0 && i < 7 && rng_.percent(95)) value += 1;
      if (i == 0) value = oracle::random_scopes(rng_);
      if (i == 11) value = 16 * rng_.below(1000) + (rng_.percent(1) ? 8 : 0);
      if (i == 12) value = rng_.percent(30) ? 0 : signal_at(rng_.below(kSignals));
      return value;
    });
  }

  // What may be launched; none if something is wrong.
  std::vector<Wanted> judge(std::uint32_t queue, const Image& image, Blame& blame, std::vector<Blame>& by_kernel) {
    std::vector<Wanted> wanted;
    if (image[0] != 7) {
      blame = oracle::format_of_dispatch(image, params_.entries);
      Wanted kernel{image, object_of(queue, image), 0, 0, oracle::number(image, 56, 8)};
      if (blame.none()) blame = kernel_blame(kernel, true);
      kernel.acquire = image[1] / 2 % 4;
      kernel.release = image[1] / 8 % 4;
      if (blame.none()) wanted.push_back(kernel);
      return wanted;
    }
    const oracle::Of of = params_.diff == arch::DiffOf::packet ? oracle::Of::packet : oracle::Of::stored;
    const oracle::Condensed packet = oracle::condensed(image, table_of(queue), widths_, of);
    blame = packet.format;
    if (!blame.none()) return wanted;
    for (const oracle::Kernel& kernel : packet.kernels) {
      const bool reads = of == oracle::Of::packet && kernel.differs(10);
      Wanted one{kernel.image, reads ? object_of(queue, kernel.image) : kernel.object, kernel.acquire, kernel.release,
                 kernel.signal};
      Blame its = kernel.blame;
      if (its.none()) its = kernel_blame(one, reads);
      by_kernel.push_back(its);
      for (std::uint32_t code = 0x1000; code < 0x1020; ++code) blame.add(code, its.has(code));
      wanted.push_back(one);
    }
    if (!blame.none()) wanted.clear();
    return wanted;
  }

  ObjectImage object_of(std::uint32_t queue, const Image& image) const {
    const std::uint64_t address = oracle::number(image, 32, 8);
    if (address < kObjectsAt || address >= object_at(kObjects) || address % 128 != 0) return {};
    return objects_[queue][(address - kObjectsAt) / 128];
  }

  Blame kernel_blame(const Wanted& kernel, bool reads) const {
    Blame blame = oracle::fields_of_dispatch(kernel.image, limits_);
    const std::uint64_t address = oracle::number(kernel.image, 32, 8);
    // A kernel object anywhere else is none: its memory holds other things, or nothing.
    blame.add(oracle::kObject, reads && (address < kObjectsAt || address >= object_at(kObjects)));
    if (!blame.none()) return blame;
    oracle::Object object;
    blame = oracle::read(kernel.object, object);
    if (!blame.none()) return blame;
    blame = oracle::together(kernel.image, object, limits_);
    blame.add(oracle::kObject, object.program > kPrograms);
    for (const oracle::Extents& level : object.levels) {
      blame.add(oracle::kResources, level[0] * level[1] * level[2] > 4);
    }
    return blame;
  }

  void check_kernel(std::uint32_t queue, const Wanted& wanted, const Launched& launched) {
    oracle::Object object;
    REQUIRE(oracle::read(wanted.object, object).none());
    bool partial = false;
    const oracle::Extents grid = oracle::ctas(wanted.image, partial);
    const arch::KernelShape& shape = launched.shape;
    const auto wide = [](const arch::Dim3& dim) { return oracle::Extents{dim.x, dim.y, dim.z}; };
    REQUIRE(wide(shape.grid) == grid);
    REQUIRE(wide(shape.block) == oracle::Extents{oracle::number(wanted.image, 4, 2), oracle::number(wanted.image, 6, 2),
                                                 oracle::number(wanted.image, 8, 2)});
    REQUIRE(shape.registers_per_thread == object.registers);
    REQUIRE(shape.shared_bytes == oracle::number(wanted.image, 28, 4));
    REQUIRE(shape.local_bytes == oracle::number(wanted.image, 24, 4));
    REQUIRE(shape.subcontext == process(queue));
    for (std::size_t i = 0; i < 4; ++i) REQUIRE(wide(shape.cluster.extents[i]) == object.levels[i]);
    REQUIRE(launched.text == object.program);
    if (object.program == 0) {
      REQUIRE(shape.duration.min == object.shortest);
      REQUIRE(shape.duration.max == object.longest);
    } else {
      REQUIRE(launched.kernarg == oracle::number(wanted.image, 40, 8));
    }
  }

  void check_acquire(const Wanted& wanted, const PacketRecord& record, std::size_t kernel) const {
    if (kernel == 0) return;  // decoding is in it
    const std::array<Cycle, 3> takes{0, 0, kInvalidate};
    REQUIRE(record.times.decoded - record.times.ready == takes[wanted.acquire]);
  }

  std::uint64_t acquired() const {
    return static_cast<std::uint64_t>(observation_.stats.value("gpu0.packet.acquires"));
  }
  std::vector<std::uint64_t> signals(std::uint32_t queue) {
    std::vector<std::uint64_t> values;
    for (std::uint32_t i = 0; i < kSignals; ++i) values.push_back(memory_.get(process(queue), signal_at(i)));
    return values;
  }

  void command(std::uint32_t queue, protocol::QueueCommand what, std::uint64_t index = 0) {
    protocol::QueueSetup setup;
    setup.base = kRingAt;
    setup.size = kRing;
    setup.read_index = kIndexAt;
    setup.first = next_[queue];
    setup.subcontext = process(queue);
    router_.queue_control().on_command({what, queue, setup, index, 0}, 0);
  }
  void open(std::uint32_t queue) {
    command(queue, protocol::QueueCommand::open);
    time_.run();
  }
  void submit(std::uint32_t queue, const Image& image) {
    memory_.put_bytes(process(queue), kRingAt + next_[queue] % kRing * 64, image);
    command(queue, protocol::QueueCommand::doorbell, next_[queue]++);
  }
  void settle() {
    time_.run();
    REQUIRE(router_.quiescent());
    REQUIRE(codes_.lent() == 0);
  }
  void reopen(std::uint32_t queue) {
    for (std::uint32_t i = 0; i < kRing; ++i) memory_.put(process(queue), kRingAt + i * 64, 1, 2);
    command(queue, protocol::QueueCommand::close);
    time_.run();
    open(queue);
    if (params_.table_owner == TableOwner::queue) table_of(queue) = {};
    // The signal of a refused packet may have been any address of its process.
    for (std::uint32_t i = 0; i < kSignals; ++i) {
      memory_.put(process(queue), signal_at(i), 1U << 30, 8);
      for (std::uint32_t at = 8; at < kSignalBytes; at += 8) memory_.put(process(queue), signal_at(i) + at, 0, 8);
    }
    for (std::uint32_t i = 0; i < kObjects; ++i) memory_.put_bytes(process(queue), object_at(i), objects_[queue][i]);
  }

  oracle::Rng& rng_;
  const PacketParams params_;
  const oracle::Widths widths_;
  GpuObservation observation_{"gpu0"};
  PlainTimebase time_{TimingMode::at, observation_};
  const arch::SmLimits limits_;
  arch::CodeStore codes_;
  arch::BroughtCode brought_{codes_, nullptr, nullptr};
  SmallMachine fit_;
  Memory memory_;
  std::array<std::optional<protocol::QueueEventPacket>, kQueues> errors_;
  std::vector<Launched> launched_;
  Done done_;
  Outlet<protocol::QueueEventPacket> host_{[this](const protocol::QueueEventPacket& event) {
    if (event.event == protocol::QueueEvent::state && event.state == protocol::QueueState::error) {
      errors_.at(event.queue) = event;
    }
  }};
  Outlet<protocol::DispatchPacket> tasks_{[this](const protocol::DispatchPacket& packet) {
    Launched launched{packet.kernel, 0, 0};
    if (packet.kernel.code != arch::kNoCode) {
      launched.kernarg = codes_.at(packet.kernel.code).kernarg;
      launched.text = codes_.at(packet.kernel.code).text + 1;
    }
    launched_.push_back(launched);
    ends_.end(packet.operation);
  }};
  Outlet<protocol::CopyRequestPacket> copies_{[](const protocol::CopyRequestPacket&) {}};
  // Kernels end a little later.
  struct Ends final : EventHandler {
    explicit Ends(Stream& stream) : stream_(stream) {}
    const char* handler_name() const override { return "tasks"; }
    void end(std::uint32_t operation) { stream_.time_.schedule_in(7, *this, 0, operation); }
    void on_event(std::uint32_t, std::uint64_t operation) override {
      const Cycle now = stream_.time_.now();
      stream_.router_.dispatcher().on_dispatch_done(
          {static_cast<std::uint32_t>(operation), protocol::DoneStatus::ok, now, now}, 0);
    }
    Stream& stream_;
  } ends_{*this};
  PacketRouter router_;
  std::array<std::array<ObjectImage, kObjects>, kQueues> objects_{};
  std::array<oracle::Table, kQueues> expected_;
  std::array<std::uint64_t, kQueues> next_{};
};

PacketParams random_params(oracle::Rng& rng) {
  PacketParams params;
  params.queues = kQueues;
  params.table = rng.percent(50) ? TablePlace::scratch : TablePlace::memory;
  params.table_owner = rng.percent(70) ? TableOwner::queue : TableOwner::agent;
  params.condensed = rng.percent(70) ? CondensedOrder::in_order : CondensedOrder::overlap;
  params.circuit = rng.percent(80) ? Circuit::packet : Circuit::general;
  params.diff = rng.percent(60) ? arch::DiffOf::packet : arch::DiffOf::stored;
  params.step = static_cast<double>(rng.below(5));
  params.table_bits = static_cast<std::uint32_t>(32 + rng.below(1000));
  if (rng.percent(50)) {
    params.reference_bits = static_cast<std::uint32_t>(1 + rng.below(8));
    params.vector_bits = static_cast<std::uint32_t>(rng.percent(50) ? 16 - params.reference_bits : 10 + rng.below(15));
    params.entries = static_cast<std::uint32_t>(1 + rng.below(std::min(32U, 1U << params.reference_bits)));
  }
  return params;
}

}  // namespace

// With HEDDLE_LONG_TESTS=1, a million packets.
TEST_CASE("a hundred thousand packets launch what the text says", "[packet][PKT-05][PKT-06][PKT-07][PKT-11][PKT-13]") {
  HEDDLE_RANDOM(dice);
  const std::uint64_t all = heddle::test::long_tests() ? 1'000'000 : 100'000;
  std::uint64_t packets = 0;
  std::uint64_t refused = 0;
  std::uint64_t kernels = 0;
  std::uint64_t condensed = 0;
  std::uint64_t crowds = 0;
  while (packets < all) {
    const std::uint64_t seed = dice.next();
    CAPTURE(seed, packets);
    oracle::Rng rng(seed);
    const PacketParams params = random_params(rng);
    Stream stream(rng, params);
    const std::uint64_t share = std::min<std::uint64_t>(1000, all - packets);
    while (stream.packets < share) stream.round();
    packets += stream.packets;
    refused += stream.refused;
    kernels += stream.kernels;
    condensed += stream.condensed;
    crowds += stream.crowds;
  }
  CHECK(refused > all / 20);
  CHECK(refused < all * 3 / 4);
  CHECK(kernels > all / 2);
  CHECK(condensed > all / 4);
  CHECK(crowds > all / 20);
}

}  // namespace packet_stream_test
