// Arbitrary bytes as packets: whatever they are, only what an oracle allows is launched, and the processor comes to
// rest.
#include <cstdlib>

#include "packet/packet_bench.h"
#include "packet/packet_oracle.h"
#include "packet/random_packet.h"
#include "support/random.h"

namespace packet_processor_garbage_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
namespace oracle = heddle::oracle;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::packet::PacketParams;
using heddle::packet::PacketRecord;
using heddle::packet::TablePlace;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

constexpr std::uint32_t kQueues = 16;
constexpr std::uint32_t kPackets = 4;  // in a ring
constexpr std::uint64_t kObjects = 4;
constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::uint64_t kTableEnd = PacketBench::kTable + std::uint64_t{kQueues} * 8 * 256;

struct Expected {
  std::uint64_t index = 0;
  oracle::Image image{};  // a dispatch packet
};

// The first packet of a queue that is wrong, and for what.
struct Bad {
  std::uint64_t index = kNone;
  oracle::Blame blame;
  bool format = false;                 // of a condensed packet: its kernels are not known
  std::vector<oracle::Blame> kernels;  // of a condensed packet
};

class Fuzz {
 public:
  Fuzz(PacketBench& bench, std::uint64_t seed, bool in_memory) : bench_(bench), rng_(seed) {
    bench.memory.delay = [] { return Cycle{2}; };
    bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{20}; };
    bench.copies.duration = [] { return Cycle{20}; };
    for (std::uint32_t i = 0; i < kObjects; ++i) objects_.push_back(bench.object("k", i));
    for (std::uint32_t i = 0; i < kQueues; ++i) {
      queues_.push_back(std::make_unique<Producer>(bench, i, kPackets));
      queues_.back()->close();
    }
    bench.run(10);
    // Signals can lie anywhere; what the test itself relies on is out of their reach. The table is the machine's own.
    bench.memory.may_write = [in_memory](std::uint64_t address, std::uint32_t bytes) {
      if (in_memory && address >= PacketBench::kTable && address < kTableEnd) return true;
      if (arch::in_host_window(address) || address >= PacketBench::kRings) return bytes == 2;
      return address >= PacketBench::kSignals;
    };
  }

  // Packets that the processor has taken: launched, or refused.
  std::uint64_t judged() const { return judged_; }
  std::uint64_t launches() const { return launches_; }
  std::uint64_t errors() const { return errors_; }

  void round() {
    for (auto& queue : queues_) {
      tables_[queue->number()] = {};
      expected_[queue->number()].clear();
      bad_[queue->number()] = {};
      queue->open();
      for (std::uint32_t i = 0; i < kPackets; ++i) queue->write(make(*queue, i));
      queue->ring(kPackets - 1);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
      bench_.run(2000);
      end_agents();
    }
    check();
    rest();
    bench_.log.dispatched.clear();
    bench_.log.done.clear();
    bench_.host.events.clear();
    bench_.tasks.kernels.clear();
    bench_.copies.copies.clear();
    bench_.copies.when.clear();
  }

 private:
  arch::PacketBytes make(const Producer& queue, std::uint64_t index) {
    oracle::Image image{};
    oracle::Table& table = tables_[queue.number()];
    if (rng_.percent(5)) {
      for (std::uint8_t& byte : image) byte = static_cast<std::uint8_t>(rng_.next());
      image[0] = static_cast<std::uint8_t>(rng_.below(9));
    } else {
      image = oracle::random_packet(rng_, table);
      // Most kernels and signals are there.
      if ((image[0] == 2 || image[0] == 6) && rng_.percent(97)) oracle::set_number(image, 32, 8, some_object());
      if (image[0] != 7 && rng_.percent(80)) oracle::set_number(image, 56, 8, some_signal());
      if (image[0] == 7 && rng_.percent(97)) mend(image);
      while (rng_.percent(12)) oracle::damage(rng_, image);
    }
    if (image[0] == 1) image[0] = 2;  // it would wait for ever
    if (bad_[queue.number()].index == kNone) judge(queue.number(), index, image);
    return image;
  }

  std::uint64_t some_object() { return objects_[rng_.below(kObjects)]; }
  std::uint64_t some_signal() { return PacketBench::kSignals + rng_.below(64) * 32 + rng_.below(2); }

  // Diffs that name objects and signals name those that are there.
  void mend(oracle::Image& image) {
    std::size_t at = 2;
    for (std::uint32_t kernel = 0; kernel < image[1]; ++kernel) {
      const std::uint64_t header = oracle::number(image, at, 2);
      at += 2;
      for (std::size_t field = 0; field < 13; ++field) {
        if ((header >> (3 + field) & 1U) == 0) continue;
        if (field == 10) oracle::set_number(image, at, 8, some_object());
        if (field == 12) oracle::set_number(image, at, 8, some_signal());
        at += std::max<std::size_t>(2, oracle::kPlaces[field].bytes);
      }
    }
  }

  // What the packet may launch; the packets behind a bad one launch nothing.
  void judge(std::uint32_t number, std::uint64_t index, const oracle::Image& image) {
    oracle::Table& table = tables_[number];
    std::vector<Expected>& expected = expected_[number];
    Bad bad;
    if (image[0] == 2 || image[0] == 6) {
      bad.blame = oracle::format_of_dispatch(image);
      add(bad.blame, blame_of_launch(image));
      if (bad.blame.none()) expected.push_back({index, image});
      if (bad.blame.none() && image[0] == 6) table.entry[image[10] % 8] = {image, {}, true};
    } else if (image[0] == 7) {
      const oracle::Condensed condensed = oracle::condensed(image, table);
      bad.blame = condensed.format;
      bad.format = !condensed.format.none();
      for (const oracle::Kernel& kernel : condensed.kernels) {
        if (bad.format) break;
        oracle::Blame blame = kernel.blame;
        if (blame.none()) blame = blame_of_launch(kernel.image);
        bad.kernels.push_back(blame);
        add(bad.blame, blame);
      }
      for (const oracle::Kernel& kernel : condensed.kernels) {
        if (bad.blame.none()) expected.push_back({index, kernel.image});
      }
    } else if (image[0] == 3 || image[0] == 5) {
      bad.blame = oracle::format_of_barrier(image);
    } else if (image[0] == 4) {
      bad.blame = oracle::format_of_agent(image);
    } else if (image[0] == 0) {
      bad.blame = oracle::format_of_vendor(image);
    } else {
      bad.blame.add(oracle::kFormat);
    }
    if (bad.blame.none()) return;
    bad.index = index;
    bad_[number] = bad;
  }
  static void add(oracle::Blame& blame, const oracle::Blame& more) {
    for (std::uint32_t code = 0x1000; code < 0x1020; ++code) blame.add(code, more.has(code));
  }
  oracle::Blame blame_of_launch(const oracle::Image& image) const {
    oracle::Blame blame = oracle::fields_of_dispatch(image, bench_.limits);
    const std::uint64_t object = oracle::number(image, 32, 8);
    blame.add(oracle::kObject, std::find(objects_.begin(), objects_.end(), object) == objects_.end());
    return blame;
  }

  void check() {
    std::array<std::size_t, kQueues> launched{};
    for (std::size_t i = 0; i < bench_.log.dispatched.size(); ++i) {
      const PacketRecord& record = bench_.log.dispatched[i];
      const std::vector<Expected>& expected = expected_[record.queue];
      const std::size_t at = launched[record.queue]++;
      REQUIRE(at < expected.size());
      REQUIRE(record.index == expected[at].index);
      REQUIRE(record.index < bad_[record.queue].index);
      const arch::KernelShape& shape = bench_.tasks.kernels.at(i).packet.kernel;
      const oracle::Image& image = expected[at].image;
      const std::array<std::uint32_t, 3> block{shape.block.x, shape.block.y, shape.block.z};
      const std::array<std::uint32_t, 3> grid{shape.grid.x, shape.grid.y, shape.grid.z};
      for (std::size_t k = 0; k < 3; ++k) {
        REQUIRE(block[k] == oracle::number(image, 4 + 2 * k, 2));
        REQUIRE(grid[k] == (oracle::number(image, 12 + 4 * k, 4) + block[k] - 1) / block[k]);
      }
      REQUIRE(shape.local_bytes == oracle::number(image, 24, 4));
      REQUIRE(shape.shared_bytes == oracle::number(image, 28, 4));
      ++launches_;
    }
    std::array<std::uint64_t, kQueues> taken{};
    for (const protocol::QueueEventPacket& event : bench_.events(QueueEvent::read)) taken[event.queue] = event.index;
    for (const protocol::QueueEventPacket& event : bench_.events(QueueEvent::state)) {
      if (event.state == QueueState::error) check_error(event, launched[event.queue], taken[event.queue]);
    }
    for (const std::uint64_t count : taken) judged_ += count;
  }

  void check_error(const protocol::QueueEventPacket& event, std::size_t launched, std::uint64_t& taken) {
    ++errors_;
    const Bad& bad = bad_[event.queue];
    // Packets that are right can name memory that does not exist; nothing behind the first wrong one is looked at.
    REQUIRE(event.index <= bad.index);
    if (event.index < bad.index) {
      const bool of_memory = event.status == arch::HsaStatus::invalid_signal || event.status == arch::HsaStatus::error;
      REQUIRE(of_memory);
      taken = std::max(taken, event.index + 1);
      return;
    }
    const auto status = static_cast<std::uint32_t>(event.status);
    REQUIRE(bad.blame.has(status));
    REQUIRE(launched == expected_[event.queue].size());  // all that were before it
    if (!bad.kernels.empty()) {
      REQUIRE(event.kernel < bad.kernels.size());
      REQUIRE(bad.kernels[event.kernel].has(status));
    }
    taken = bad.index + 1;
  }

  void end_agents() {
    for (const auto& event : bench_.events(QueueEvent::agent)) queues_[event.queue]->agent_done(event.index);
  }

  // Packets can hold their place for up to 1000 s.
  void rest() {
    for (auto& queue : queues_) queue->close();
    Cycle cycles = 100;
    const auto all_closed = [this] {
      std::array<QueueState, kQueues> states{};
      for (const auto& event : bench_.events(QueueEvent::state)) states[event.queue] = event.state;
      return std::all_of(states.begin(), states.end(), [](QueueState state) { return state == QueueState::closed; });
    };
    while (!all_closed()) {
      REQUIRE(cycles < 4'000'000'000'000);
      bench_.run(cycles);
      end_agents();
      cycles *= 4;
    }
    bench_.run(100);
    REQUIRE(bench_.processor.open() == 0);
    REQUIRE(bench_.processor.quiescent());
    REQUIRE(bench_.memory.open() == 0);
    REQUIRE(bench_.domain.idle());
    REQUIRE(bench_.tasks.running == 0);
  }

  PacketBench& bench_;
  oracle::Rng rng_;
  std::vector<std::uint64_t> objects_;
  std::vector<std::unique_ptr<Producer>> queues_;
  std::array<oracle::Table, kQueues> tables_;
  std::array<std::vector<Expected>, kQueues> expected_;
  std::array<Bad, kQueues> bad_{};
  std::uint64_t judged_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t errors_ = 0;
};

// HEDDLE_FUZZ_PACKETS: how many are judged; 1600000 are 10^8 bytes.
std::uint64_t packets_to_judge() {
  const char* text = std::getenv("HEDDLE_FUZZ_PACKETS");
  return text == nullptr ? 100'000 : std::strtoull(text, nullptr, 10);
}

}  // namespace

// Packets behind a bad one do not count: nobody looks at them.
TEST_CASE("a hundred thousand damaged packets launch nothing wrong", "[packet][PKT-09][PKT-06]") {
  const std::uint64_t first = heddle::test::seed();
  INFO("HEDDLE_TEST_SEED=" << first << " repeats this");
  const std::uint64_t packets = packets_to_judge();
  std::uint64_t judged = 0;
  std::uint64_t launches = 0;
  std::uint64_t errors = 0;
  // Simulated time comes to an end: a simulation of its own for each part, the table here and there in turn.
  for (std::uint64_t part = 0; judged < packets; ++part) {
    PacketParams params;
    params.queues = kQueues;
    params.table = part % 2 == 0 ? TablePlace::scratch : TablePlace::memory;
    params.poll = 500;
    PacketBench bench(params, TimingMode::lt);
    Fuzz fuzz(bench, first + part, part % 2 != 0);
    const std::uint64_t share = std::min<std::uint64_t>(25'000, packets - judged);
    while (fuzz.judged() < share) fuzz.round();
    judged += fuzz.judged();
    launches += fuzz.launches();
    errors += fuzz.errors();
  }
  CHECK(judged >= packets);
  CHECK(launches > packets / 20);  // it is not all refused
  CHECK(errors > packets / 50);
  if (std::getenv("HEDDLE_FUZZ_PACKETS") != nullptr) {
    WARN(judged << " packets judged, " << launches << " kernels launched, " << errors << " queues stopped");
  }
}

}  // namespace packet_processor_garbage_test
