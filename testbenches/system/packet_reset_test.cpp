// Resets while the device works on memory of the host, which the host uses again at once.
#include <catch2/catch.hpp>

#include "host/register_table.h"
#include "support/packet_lab.h"
#include "support/sim_fixture.h"

namespace heddle::test::system_packet_reset_test {
namespace {

const sc_core::sc_time kNs(1, sc_core::SC_NS);

gpu::GpuParams machine(const std::string& timing) { return preset_params("small", {"gpu.timing=" + timing}); }

void set(PacketLab::Machine& m, std::uint32_t offset, std::uint64_t value, unsigned bytes) {
  REQUIRE(m.bar0.access(tlm::TLM_WRITE_COMMAND, offset, &value, bytes) == tlm::TLM_OK_RESPONSE);
}
std::uint64_t get(PacketLab::Machine& m, std::uint32_t offset, unsigned bytes = 4) {
  std::uint64_t value = 0;
  REQUIRE(m.bar0.access(tlm::TLM_READ_COMMAND, offset, &value, bytes) == tlm::TLM_OK_RESPONSE);
  return value;
}
bool busy(PacketLab::Machine& m) { return (get(m, HEDDLE_REG_STATUS) & HEDDLE_STATUS_RESET_BUSY_MASK) != 0; }

void start_copy(PacketLab::Machine& m, std::uint32_t channel, std::uint64_t from, std::uint64_t to,
                std::uint64_t bytes) {
  heddle_copy copy{};
  copy.kind = HEDDLE_COPY_KIND_COPY;
  copy.from = from;
  copy.to = to;
  copy.bytes = bytes;
  REQUIRE(heddle_copy_start(&m.device, channel, &copy) == HEDDLE_OK);
}

heddle_queue open_again(PacketLab::Machine& m, std::uint64_t ring, std::uint64_t read_index) {
  heddle_queue_setup setup{};
  setup.ring = ring;
  setup.size = 64;
  setup.read_index = read_index;
  setup.write_index = read_index + 8;
  heddle_queue queue{};
  REQUIRE(heddle_queue_create(&queue, &m.device, 0, &setup, 1000) == HEDDLE_OK);
  return queue;
}

void submit_16(heddle_queue& queue, std::uint64_t object, std::uint64_t signal) {
  std::vector<heddle_packet> packets(16);
  for (heddle_packet& packet : packets) {
    const heddle_dispatch d = PacketLab::dispatch(object, 64, 32, signal, false);
    heddle_packet_kernel(&packet, &d);
  }
  REQUIRE(heddle_queue_submit(&queue, packets.data(), 16, 100'000, nullptr) == HEDDLE_OK);
}

}  // namespace

TEST_CASE("a ring in the host's memory can be used again as soon as a reset is over", "[system][HST-01][PKT-01]") {
  for (int step = 0; step < 40; ++step) {
    CAPTURE(step);
    SimFixture fixture;
    PacketLab lab({machine(step % 8 == 7 ? "lt" : "at")});
    lab.begin();
    auto& m = lab[0];
    const std::uint64_t object = lab.timed_object(0, 50);
    const std::uint64_t ring = lab.take_host(std::uint64_t{64} * 64);
    const std::uint64_t read_index = lab.take_host(64);
    const std::uint64_t signal = lab.new_signal(0, true, 1000);
    heddle_queue queue = open_again(m, ring, read_index);
    submit_16(queue, object, signal);
    sc_core::sc_start((2000 + 97 * step) * kNs);
    REQUIRE(heddle_device_reset(&m.device, 0) == HEDDLE_OK);
    CHECK_FALSE(busy(m));
    queue = open_again(m, ring, read_index);
    REQUIRE(heddle_signal_init(&m.bus, signal, 16, 0, 0) == HEDDLE_OK);
    submit_16(queue, object, signal);
    std::int64_t value = 0;
    REQUIRE(heddle_signal_wait(&m.bus, signal, HEDDLE_LESS, 1, 2000, &value) == HEDDLE_OK);
    sc_core::sc_start(20'000 * kNs);
    CHECK(m.read<std::int64_t>(signal) == 0);
    CHECK(m.read<std::uint64_t>(read_index) == 16);
    m.gpu.check_quiescent();
    CHECK(lab.violations() == std::vector<std::string>{});
  }
}

TEST_CASE("after a reset no byte of a copy of before it changes the host's memory", "[system][HST-01][HST-05]") {
  constexpr std::uint64_t kBytes = 1 << 16;
  bool ever_busy = false;
  for (const std::string timing : {"at", "fast", "lt"}) {
    for (int step = 0; step < 8; ++step) {
      CAPTURE(timing, step);
      SimFixture fixture;
      PacketLab lab({machine(timing)});
      lab.begin();
      auto& m = lab[0];
      const std::uint64_t to = lab.take_host(kBytes);
      start_copy(m, 0, 0x100000, to, kBytes);
      sc_core::sc_start((800 + 150 * step) * kNs);
      REQUIRE(get(m, HEDDLE_REG_STATUS) == 0);
      set(m, HEDDLE_REG_CONTROL, HEDDLE_CONTROL_SOFT_RESET_MASK, 4);
      ever_busy = ever_busy || busy(m);
      for (int looks = 0; busy(m); ++looks) {
        REQUIRE(looks < 100);
        sc_core::sc_start(100 * kNs);
      }
      std::vector<std::uint8_t> mark(kBytes, 0xEE);
      REQUIRE(m.move(tlm::TLM_WRITE_COMMAND, to, mark.data(), mark.size()));
      sc_core::sc_start(10'000 * kNs);
      std::vector<std::uint8_t> seen(kBytes);
      REQUIRE(m.move(tlm::TLM_READ_COMMAND, to, seen.data(), seen.size()));
      CHECK(seen == mark);
      CHECK(lab.violations() == std::vector<std::string>{});
    }
  }
  CHECK(ever_busy);
}

TEST_CASE("resets in mid-flight leave no payload behind", "[system][HST-01]") {
  for (const std::string timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    SimFixture fixture;
    PacketLab lab({machine(timing)});
    lab.begin();
    auto& m = lab[0];
    const std::uint64_t object = lab.timed_object(0, 50);
    const std::uint64_t ring = lab.take_host(std::uint64_t{64} * 64);
    const std::uint64_t read_index = lab.take_host(64);
    const std::uint64_t signal = lab.new_signal(0, true, 1'000'000);
    const std::uint64_t buffer = lab.take_host(1 << 20);
    std::size_t working = 0;
    for (int i = 0; i < 100; ++i) {
      CAPTURE(i);
      heddle_queue queue = open_again(m, ring, read_index);
      submit_16(queue, object, signal);
      for (std::uint32_t c = 0; c < 4; ++c) {
        // Such as lie in lines alike are moved without payloads, except in `at`.
        const std::uint64_t from = 0x100000 + c * 0x400000 + (i % 2 == 0 ? 64 : 0);
        start_copy(m, c, from, c < 3 ? 0x2000000 + c * 0x400000 : buffer, 0x100000);
      }
      sc_core::sc_start((1000 + 37 * (i % 40)) * kNs);
      working = std::max(working, m.gpu.payloads());
      set(m, HEDDLE_REG_CONTROL, HEDDLE_CONTROL_SOFT_RESET_MASK, 4);
      // Only what is out on the host's bus.
      if (!busy(m)) REQUIRE(m.gpu.payloads() == 0);
      REQUIRE(m.gpu.payloads() <= m.gpu.params().hub.link_tags);
      if (i % 3 == 0) REQUIRE(heddle_device_reset(&m.device, 0) == HEDDLE_OK);
    }
    CHECK(working > 100);
    sc_core::sc_start(20'000 * kNs);
    CHECK(m.gpu.payloads() == 0);
    m.gpu.check_quiescent();
  }
}

TEST_CASE("where a copy by a packet has failed is seen in registers", "[system][HST-05]") {
  const bool write = GENERATE(false, true);
  CAPTURE(write);
  SimFixture fixture;
  PacketLab lab({machine("at")});
  lab.begin();
  auto& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const std::uint64_t good = lab.take_device(4096);
  const std::uint64_t bad = HEDDLE_HOST_WINDOW + (std::uint64_t{64} << 20) - 256;  // the host's memory ends in it
  heddle_packet packet{};
  heddle_packet_copy(&packet, 0, write ? good : bad, write ? bad : good, 1024, 0);
  REQUIRE(heddle_queue_submit(&queue, &packet, 1, 100'000, nullptr) == HEDDLE_OK);
  sc_core::sc_start(20'000 * kNs);
  CHECK(get(m, HEDDLE_REG_QUEUE_STATE(0)) == HEDDLE_QUEUE_STATE_ERROR);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_COUNT) == 1);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_ADDRESS, 8) == bad + 256);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_ACCESS) == (write ? HEDDLE_COPY_ACCESS_WRITE : HEDDLE_COPY_ACCESS_READ));
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_ENGINE) < 2);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_SENDER) == HEDDLE_COPY_SENDER_PACKET);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_STATUS) == HEDDLE_HSA_ERROR);
  // By registers, and refused: what would be written lies past the end of all addresses.
  start_copy(m, 1, 0, ~std::uint64_t{0} - 63, 128);
  sc_core::sc_start(1000 * kNs);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_COUNT) == 2);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_ENGINE) == 0xFFFF'FFFF);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_SENDER) == HEDDLE_COPY_SENDER_REGISTERS);
  REQUIRE(heddle_device_reset(&m.device, 0) == HEDDLE_OK);
  CHECK(get(m, HEDDLE_REG_COPY_FAULT_COUNT) == 0);
}

TEST_CASE("corrupt bytes are an error for the aperture as well, until they are written", "[system][MEM-05][HST-02]") {
  SimFixture fixture;
  PacketLab lab({machine("at")});
  lab.begin();
  auto& m = lab[0];
  REQUIRE(m.gpu.memory().poison(0x100000, 32));
  std::array<std::uint8_t, 64> bytes{};
  const auto access = [&](tlm::tlm_command command, std::uint64_t address, unsigned count) {
    return m.bar1.access(command, address, bytes.data(), count);
  };
  CHECK(access(tlm::TLM_READ_COMMAND, 0x100000, 4) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(access(tlm::TLM_READ_COMMAND, 0xFFFF0, 32) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(access(tlm::TLM_READ_COMMAND, 0x100020, 32) == tlm::TLM_OK_RESPONSE);
  CHECK(access(tlm::TLM_WRITE_COMMAND, 0x100000, 16) == tlm::TLM_OK_RESPONSE);
  CHECK(access(tlm::TLM_READ_COMMAND, 0x100000, 4) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(access(tlm::TLM_WRITE_COMMAND, 0x100000, 32) == tlm::TLM_OK_RESPONSE);
  CHECK(access(tlm::TLM_READ_COMMAND, 0x100000, 4) == tlm::TLM_OK_RESPONSE);
}

TEST_CASE("a base at which an address could be relative as well is refused", "[system][HST-02]") {
  gpu::GpuParams params = machine("at");
  params.host.bar1 = params.machine.memory - 1;
  CHECK_THROWS_AS(params.check(), InputError);
  params.host.bar1 = params.machine.memory;
  params.check();
  params.host.bar0 = host::bar0_bytes(params.host.doorbell_page) - 1;
  CHECK_THROWS_AS(params.check(), InputError);
  params.host.bar0 = host::bar0_bytes(params.host.doorbell_page);
  params.check();
}

}  // namespace heddle::test::system_packet_reset_test
