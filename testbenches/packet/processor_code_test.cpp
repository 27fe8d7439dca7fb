// Kernel objects whose code software has brought into device memory (HST-07): the decoder of packets reads it with its
// object, line by line, and launches what the machine makes of it.
#include "packet/packet_bench.h"

namespace packet_processor_code_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::arch::HsaStatus;
using heddle::packet::PacketParams;
using heddle::packet::TablePlace;
using heddle::protocol::QueueEvent;
using heddle::protocol::QueueState;
using namespace heddle::test;

namespace {

using Bytes = std::vector<std::uint8_t>;

// All bytes together tell programs apart; a first byte of 0 is none.
class FirstByte final : public arch::CodeDecoder {
 public:
  arch::DecodedCode decode(const Bytes& code) const override {
    if (code[0] == 0) return {nullptr, "a first byte of 0", {}};
    seen.push_back(code);
    return {empty_program(), {}, {}};
  }
  mutable std::vector<Bytes> seen;
};

struct CodeBench {
  explicit CodeBench(const PacketParams& params = {}) : bench(params, heddle::TimingMode::at, decoder) {}

  // Code of so many bytes, which differ from those of another seed; its kernel object.
  std::uint64_t object(std::uint32_t number, std::uint8_t seed, std::uint32_t bytes, std::uint64_t address) {
    bench.memory.put_bytes(address, code(seed, bytes));
    arch::KernelObject object;
    object.name = "k" + std::to_string(number);
    object.code = {address, bytes};
    return bench.object_of(object, number);
  }
  static Bytes code(std::uint8_t seed, std::uint32_t bytes) {
    Bytes code(bytes);
    for (std::uint32_t i = 0; i < bytes; ++i)
      code[i] = static_cast<std::uint8_t>(i == 0 ? seed : seed * 3 + i * 7 + i / 128);
    return code;
  }
  // Number of the program that a launched kernel has, as the decoder has numbered them.
  std::uint32_t program(std::size_t kernel) const {
    return bench.codes.at(bench.tasks.kernels[kernel].packet.kernel.code).text;
  }
  std::uint64_t count(const std::string& name) {
    return static_cast<std::uint64_t>(bench.observation.stats.value("gpu0.packet." + name));
  }

  std::shared_ptr<FirstByte> decoder = std::make_shared<FirstByte>();
  PacketBench bench;
};

constexpr std::uint64_t kCode = 0x60000;
constexpr std::uint32_t kObject = 10;  // field

}  // namespace

TEST_CASE("code is read with its object, line by line, whatever comes first", "[packet][HST-07][PKT-12]") {
  for (const std::uint32_t bytes : {1U, 127U, 128U, 129U, 300U, 1000U}) {
    for (const bool backwards : {false, true}) {
      CAPTURE(bytes, backwards);
      CodeBench lab;
      Cycle late = 1000;
      lab.bench.memory.delay = [&] { return backwards && late > 50 ? late -= 20 : Cycle{50}; };
      std::vector<std::uint64_t> read;
      lab.bench.memory.watch = [&](std::uint64_t address, bool write) {
        if (!write && address >= kCode && address < kCode + 2000) read.push_back(address);
      };
      lab.bench.tasks.held = true;
      Producer queue(lab.bench, 0);
      queue.submit(kernel_packet(lab.object(0, 5, bytes, kCode)));
      lab.bench.run(5000);
      REQUIRE(lab.bench.tasks.kernels.size() == 1);
      REQUIRE(lab.decoder->seen.size() == 1);
      CHECK(lab.decoder->seen[0] == CodeBench::code(5, bytes));
      const std::uint32_t lines = (bytes + 127) / 128;
      CHECK(read.size() == lines);
      if (backwards && lines > 1) CHECK(read.front() > read.back());
      CHECK(lab.count("codes") == 1);
      CHECK(lab.count("code_bytes") == bytes);
      CHECK(lab.count("work.bytes") == 64 + 128 + bytes + 116);
      lab.bench.tasks.release(0);
      REQUIRE(lab.bench.settle());
      // Read again with the next packet, and known by its bytes.
      queue.submit(kernel_packet(PacketBench::kObjects));
      lab.bench.run(5000);
      CHECK(lab.decoder->seen.size() == 1);
      CHECK(lab.count("codes") == 2);
      lab.bench.tasks.release(1);
      REQUIRE(lab.bench.settle());
    }
  }
}

TEST_CASE("kernels of a packet that name one object share its code, others have their own",
          "[packet][HST-07][PKT-06]") {
  for (const Cycle step : {Cycle{0}, Cycle{20}}) {
    PacketParams params;
    params.condensed = heddle::packet::CondensedOrder::overlap;
    CodeBench lab(params);
    const std::uint64_t a = lab.object(0, 5, 300, kCode);
    const std::uint64_t b = lab.object(1, 6, 200, kCode + 0x1000);
    Producer queue(lab.bench, 0);
    queue.submit(reference_packet(0, fields_of(lab.bench.object("plain", 2))));
    REQUIRE(lab.bench.settle());
    // Later answers may come first.
    Cycle late = 500;
    lab.bench.memory.delay = [&] { return step == 0 ? Cycle{50} : late -= step; };
    lab.bench.tasks.held = true;
    queue.submit(condensed_packet({diff_of(0), diff_of(0, {{kObject, a}}), diff_of(0, {{kObject, b}}), diff_of(0),
                                   diff_of(0, {{kObject, a}}), diff_of(0, {{kObject, b}})}));
    lab.bench.run(10'000);
    REQUIRE(lab.bench.tasks.kernels.size() == 7);
    CHECK(lab.bench.tasks.kernels[1].packet.kernel.code == arch::kNoCode);
    CHECK(lab.bench.tasks.kernels[4].packet.kernel.code == arch::kNoCode);
    const std::uint32_t first = lab.program(2);
    const std::uint32_t second = lab.program(3);
    CHECK(first != second);
    CHECK(lab.program(5) == first);
    CHECK(lab.program(6) == second);
    REQUIRE(lab.decoder->seen.size() == 2);
    CHECK(lab.decoder->seen[0].size() + lab.decoder->seen[1].size() == 500);
    CHECK(lab.count("codes") == 2);
    CHECK(lab.count("objects") == 1 + 2);
    CHECK(lab.count("code_bytes") == 500);
    for (std::size_t i = 1; i < 7; ++i) lab.bench.tasks.release(i);
    REQUIRE(lab.bench.settle());
  }
}

TEST_CASE("code that is none, or that memory does not have, stops its queue before anything launches",
          "[packet][HST-07][PKT-09]") {
  for (const bool unreadable : {false, true}) {
    for (const bool condensed : {false, true}) {
      CAPTURE(unreadable, condensed);
      CodeBench lab;
      const std::uint64_t good = lab.object(0, 5, 300, kCode);
      const std::uint64_t bad = lab.object(1, unreadable ? 6 : 0, 300, kCode + 0x1000);
      const std::uint64_t other = lab.object(2, unreadable ? 7 : 0, 100, kCode + 0x2000);
      if (unreadable) lab.bench.memory.broken.push_back({kCode + 0x1080, kCode + 0x1100});
      Producer queue(lab.bench, 0);
      const std::uint64_t signal = lab.bench.signal(0, 5);
      queue.submit(reference_packet(0, fields_of(lab.bench.object("plain", 3), 0)));
      REQUIRE(lab.bench.settle());
      if (condensed) {
        queue.submit(condensed_packet({diff_of(0, {{kObject, good}}), diff_of(0, {{kObject, bad}}),
                                       diff_of(0, {{kObject, other}, {12, signal}})}));
      } else {
        queue.submit(kernel_packet(bad, signal));
      }
      REQUIRE(lab.bench.settle());
      CHECK(lab.bench.tasks.kernels.size() == 1);
      const auto event = lab.bench.events(QueueEvent::state).back();
      CHECK(event.state == QueueState::error);
      CHECK(event.status == HsaStatus::invalid_code_object);
      CHECK(event.reason == (unreadable ? arch::Reason::code_unreadable : arch::Reason::code_bytes));
      CHECK(event.kernel == (condensed ? 1 : 0));
      CHECK(lab.bench.value(signal) == -static_cast<std::int64_t>(HsaStatus::invalid_code_object));
    }
  }
}

TEST_CASE("an entry has the program that the machine made of its code", "[packet][HST-07][PKT-05][PKT-11]") {
  for (const TablePlace place : {TablePlace::scratch, TablePlace::memory}) {
    PacketParams params;
    params.table = place;
    CodeBench lab(params);
    lab.bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{10}; };
    Producer queue(lab.bench, 0);
    queue.submit(reference_packet(2, fields_of(lab.object(0, 5, 300, kCode))));
    queue.submit(kernel_packet(lab.object(1, 6, 200, kCode + 0x1000)));
    REQUIRE(lab.bench.settle());
    // Neither the code nor its object are looked at again.
    lab.bench.memory.put(kCode, 0);
    lab.bench.memory.put_bytes(PacketBench::kObjects, std::array<std::uint8_t, 128>{});
    lab.bench.tasks.held = true;
    queue.submit(condensed_packet({diff_of(2), diff_of(2, {{5, 320}})}));
    lab.bench.run(10'000);
    REQUIRE(lab.bench.tasks.kernels.size() == 3);
    const std::uint32_t text = lab.program(2);
    CHECK(lab.bench.tasks.kernels[2].packet.kernel.grid.x == 2);
    lab.bench.tasks.release(2);
    lab.bench.run(10'000);
    REQUIRE(lab.bench.tasks.kernels.size() == 4);
    CHECK(lab.program(3) == text);
    CHECK(lab.count("codes") == 2);
    lab.bench.tasks.release(3);
    REQUIRE(lab.bench.settle());
    // It is the first one's and not the other's.
    lab.object(0, 5, 300, kCode);
    queue.submit(kernel_packet(PacketBench::kObjects));
    lab.bench.run(10'000);
    REQUIRE(lab.bench.tasks.kernels.size() == 5);
    CHECK(lab.program(4) == text);
    lab.bench.tasks.release(4);
    REQUIRE(lab.bench.settle());
  }
}

TEST_CASE("the program in an entry in memory has to be one of the machine's", "[packet][HST-07][PKT-11]") {
  for (const std::uint32_t number : {1U, 0U, 77U}) {
    CAPTURE(number);
    PacketParams params;
    params.table = TablePlace::memory;
    CodeBench lab(params);
    Producer queue(lab.bench, 0);
    queue.submit(reference_packet(2, fields_of(lab.object(0, 5, 300, kCode))));
    REQUIRE(lab.bench.settle());
    lab.bench.memory.put(lab.bench.kTable + 2 * 256 + 36, number, 4);
    queue.submit(condensed_packet({diff_of(2)}));
    REQUIRE(lab.bench.settle());
    const auto event = lab.bench.events(QueueEvent::state).back();
    CHECK(event.reason == (number == 1 ? arch::Reason::none : arch::Reason::changed_entry));
    CHECK(lab.bench.tasks.kernels.size() == (number == 1 ? 2 : 1));
  }
}

}  // namespace packet_processor_code_test
