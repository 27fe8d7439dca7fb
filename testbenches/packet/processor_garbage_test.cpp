// Arbitrary bytes as packets: whatever they are, only what an oracle allows is launched, and the processor comes to
// rest.
#include "packet/packet_bench.h"
#include "packet/packet_oracle.h"
#include "packet/random_packet.h"
#include "support/random.h"

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
constexpr std::uint32_t kPackets = 8;  // in a ring
constexpr std::uint64_t kObjects = 4;

struct Expected {
  std::uint64_t index = 0;
  oracle::Image image{};  // a dispatch packet
};

class Fuzz {
 public:
  Fuzz(PacketBench& bench, std::uint64_t seed) : bench_(bench), rng_(seed) {
    bench.memory.delay = [] { return Cycle{2}; };
    bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{20}; };
    bench.copies.duration = [] { return Cycle{20}; };
    for (std::uint32_t i = 0; i < kObjects; ++i) objects_.push_back(bench.object("k", i));
    for (std::uint32_t i = 0; i < kQueues; ++i) {
      queues_.push_back(std::make_unique<Producer>(bench, i, kPackets));
      queues_.back()->close();
    }
    bench.run(10);
    // Signals can lie anywhere; what the test itself relies on is out of their reach.
    bench.memory.may_write = [](std::uint64_t address, std::uint32_t bytes) {
      if (arch::in_host_window(address) || address >= PacketBench::kRings) return bytes == 2;
      return address >= PacketBench::kTable && address < PacketBench::kIndices ? true
                                                                               : address >= PacketBench::kIndices;
    };
  }

  std::uint64_t packets() const { return packets_; }
  std::uint64_t launches() const { return launches_; }
  std::uint64_t errors() const { return errors_; }

  void round() {
    for (auto& queue : queues_) {
      tables_[queue->number()] = {};
      expected_[queue->number()].clear();
      bad_[queue->number()] = ~std::uint64_t{0};
      queue->open();
      for (std::uint32_t i = 0; i < kPackets; ++i) queue->write(make(*queue, i));
      queue->ring(kPackets - 1);
    }
    for (std::uint32_t i = 0; i < 4; ++i) {
      bench_.run(2000);
      for (auto& queue : queues_) queue->agent_done();
    }
    check();
    rest();
    bench_.log.dispatched.clear();
    bench_.log.done.clear();
    bench_.host.events.clear();
    bench_.tasks.kernels.clear();
  }

 private:
  arch::PacketBytes make(const Producer& queue, std::uint64_t index) {
    oracle::Image image{};
    oracle::Table& table = tables_[queue.number()];
    if (rng_.percent(10)) {
      for (std::uint8_t& byte : image) byte = static_cast<std::uint8_t>(rng_.next());
      image[0] = static_cast<std::uint8_t>(rng_.below(9));
    } else {
      image = oracle::random_packet(rng_, table);
      // Most kernels are there.
      if ((image[0] == 2 || image[0] == 6) && rng_.percent(95)) {
        oracle::set_number(image, 32, 8, objects_[rng_.below(kObjects)]);
      }
      while (rng_.percent(15)) oracle::damage(rng_, image);
    }
    if (image[0] == 1) image[0] = 2;  // it would wait for ever
    ++packets_;
    if (bad_[queue.number()] == ~std::uint64_t{0}) judge(queue.number(), index, image);
    return image;
  }

  // What the packet may launch; the packets behind a bad one launch nothing.
  void judge(std::uint32_t number, std::uint64_t index, const oracle::Image& image) {
    oracle::Table& table = tables_[number];
    std::vector<Expected>& expected = expected_[number];
    bool good = true;
    if (image[0] == 2 || image[0] == 6) {
      good = oracle::format_of_dispatch(image).none() && launchable(image);
      if (good) expected.push_back({index, image});
      if (good && image[0] == 6) {
        table.entry[image[10] % 8] = image;
        table.full[image[10] % 8] = true;
      }
    } else if (image[0] == 7) {
      const oracle::Condensed condensed = oracle::condensed(image, table);
      good = condensed.format.none();
      for (const oracle::Kernel& kernel : condensed.kernels) {
        good = good && kernel.blame.none() && launchable(kernel.image);
      }
      if (good) {
        for (const oracle::Kernel& kernel : condensed.kernels) expected.push_back({index, kernel.image});
      }
    } else if (image[0] == 3 || image[0] == 5) {
      good = oracle::format_of_barrier(image).none();
    } else if (image[0] == 4) {
      good = oracle::format_of_agent(image).none();
    } else {
      good = image[0] == 0 && oracle::format_of_vendor(image).none();
    }
    if (!good) bad_[number] = index;
  }
  bool launchable(const oracle::Image& image) const {
    const std::uint64_t object = oracle::number(image, 32, 8);
    return oracle::fields_of_dispatch(image, bench_.limits).none() &&
           std::find(objects_.begin(), objects_.end(), object) != objects_.end();
  }

  void check() {
    std::array<std::size_t, kQueues> launched{};
    for (std::size_t i = 0; i < bench_.log.dispatched.size(); ++i) {
      const PacketRecord& record = bench_.log.dispatched[i];
      const std::vector<Expected>& expected = expected_[record.queue];
      const std::size_t at = launched[record.queue]++;
      REQUIRE(at < expected.size());
      REQUIRE(record.index == expected[at].index);
      REQUIRE(record.index < bad_[record.queue]);
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
    for (const protocol::QueueEventPacket& event : bench_.events(QueueEvent::state)) {
      if (event.state != QueueState::error) continue;
      ++errors_;
      // Packets that are right can name memory that does not exist; nothing behind the first wrong one is looked at.
      REQUIRE(event.index <= bad_[event.queue]);
      if (event.index == bad_[event.queue]) continue;
      const bool of_memory = event.status == arch::HsaStatus::invalid_signal || event.status == arch::HsaStatus::error;
      REQUIRE(of_memory);
    }
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
      for (auto& queue : queues_) queue->agent_done();
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
  std::array<std::uint64_t, kQueues> bad_{};
  std::uint64_t packets_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t errors_ = 0;
};

}  // namespace

TEST_CASE("a hundred thousand damaged packets launch nothing wrong", "[packet][PKT-09][PKT-06]") {
  const std::uint64_t first = heddle::test::seed();
  INFO("HEDDLE_TEST_SEED=" << first << " repeats this");
  std::uint64_t packets = 0;
  std::uint64_t launches = 0;
  std::uint64_t errors = 0;
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    PacketParams params;
    params.queues = kQueues;
    params.table = place;
    params.poll = 500;
    PacketBench bench(params, TimingMode::lt);
    Fuzz fuzz(bench, first + static_cast<std::uint64_t>(place));
    while (fuzz.packets() < 50'000) fuzz.round();
    packets += fuzz.packets();
    launches += fuzz.launches();
    errors += fuzz.errors();
  }
  CHECK(packets >= 100'000);
  CHECK(launches > 5000);  // it is not all refused
  CHECK(errors > 1000);
}
