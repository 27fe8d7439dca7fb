// The device memory aperture over the socket.
#include <algorithm>

#include <catch2/catch.hpp>

#include "host/host_interface_bench.h"
#include "support/random.h"

namespace heddle::test::host_interface_aperture_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

// What a generic payload does to plain bytes, one at a time.
struct Plain {
  Bytes bytes;
  tlm::tlm_response_status apply(tlm::tlm_generic_payload& payload, std::uint64_t address, Bytes& data) const {
    return const_cast<Plain*>(this)->apply(payload, address, data);
  }
  tlm::tlm_response_status apply(tlm::tlm_generic_payload& payload, std::uint64_t address, Bytes& data) {
    const unsigned length = payload.get_data_length();
    const unsigned width = std::min(length, payload.get_streaming_width());
    if (address + width > bytes.size()) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    for (unsigned i = 0; i < length; ++i) {
      const std::uint8_t* enables = payload.get_byte_enable_ptr();
      if (enables != nullptr && enables[i % payload.get_byte_enable_length()] == 0) continue;
      std::uint8_t& at = bytes[address + i % width];
      if (payload.is_read()) {
        data[i] = at;
      } else {
        at = data[i];
      }
    }
    return tlm::TLM_OK_RESPONSE;
  }
};

}  // namespace

TEST_CASE("random accesses to the aperture do what they do to plain bytes", "[host][HST-01][HST-02]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  for (const std::uint64_t seed : seeds(12)) {
    CAPTURE(seed);
    Random random(seed);
    host::HostParams params;
    params.bar1 = random.chance(50) ? 0 : 0x40'0000'0000;
    params.aperture_queue = random.between(1, 4);
    HostBench bench(params, mode);
    bench.hub.latency = random.between(0, 30);
    bench.hub.places = random.between(1, 6);
    start();
    Plain plain{bench.device.bytes};
    for (unsigned step = 0; step < 150; ++step) {
      const unsigned length = random.chance(70) ? random.between(1, 40) : random.between(1, 1500);
      const std::uint64_t address =
          random.chance(5) ? kMemoryBytes - random.below(length + 1) : random.below(kMemoryBytes - 2000);
      const bool write = random.chance(50);
      Bytes data(length);
      for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random.next());
      Bytes expected = data;
      Bytes enables(random.between(1, 2 * length));
      for (std::uint8_t& byte : enables) byte = random.chance(60) ? 0xFF : 0;
      const std::uint64_t base = random.chance(50) ? params.bar1 : 0;
      tlm::tlm_generic_payload& payload = bench.memory.request(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND,
                                                               base + address, data.data(), length);
      if (random.chance(40)) {
        payload.set_byte_enable_ptr(enables.data());
        payload.set_byte_enable_length(static_cast<unsigned>(enables.size()));
      }
      if (random.chance(40)) payload.set_streaming_width(random.between(1, 2 * length));
      const bool blocking = random.chance(30);
      CAPTURE(step, address, length, write, blocking, payload.get_streaming_width());
      const tlm::tlm_response_status status = plain.apply(payload, address, expected);
      sc_time delay;
      if (blocking) {
        bench.transport(bench.memory, payload, delay);
        REQUIRE(delay == ns(500));
      } else {
        bench.memory.forward(payload, tlm::BEGIN_REQ, ns(random.below(20)));
        run_until_idle();
      }
      REQUIRE(payload.get_response_status() == status);
      if (!write || status == tlm::TLM_OK_RESPONSE) REQUIRE(data == expected);
      REQUIRE(bench.device.bytes == plain.bytes);
      payload.release();
    }
    CHECK(bench.host.idle());
  }
}

// PCIe's AtomicOps with 64 bits; everything else with this command is ignored, as the standard has it.
TEST_CASE("atomics of the host's bus are carried out at device memory, between its reads and writes",
          "[host][TSK-06]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  for (const std::uint64_t seed : seeds(12)) {
    CAPTURE(seed);
    Random random(seed);
    host::HostParams params;
    params.bar1 = random.chance(50) ? 0 : 0x40'0000'0000;
    params.aperture_queue = random.between(1, 4);
    HostBench bench(params, mode);
    bench.hub.latency = random.between(0, 30);
    start();
    for (unsigned step = 0; step < 80; ++step) {
      const std::uint64_t address = random.chance(5) ? kMemoryBytes : 8 * random.below(64);
      const std::uint64_t base = random.chance(50) ? params.bar1 : 0;
      std::uint64_t before = 0;
      if (address < kMemoryBytes) std::memcpy(&before, bench.device.bytes.data() + address, 8);
      Bytes data(8, 0xAA);
      tlm::tlm_generic_payload& payload = bench.memory.request(tlm::TLM_IGNORE_COMMAND, base + address, data.data(), 8);
      protocol::MemoryExtension extension;
      payload.set_extension(&extension);
      constexpr arch::AtomicKind kKinds[] = {arch::AtomicKind::add, arch::AtomicKind::exchange,
                                             arch::AtomicKind::compare_exchange, arch::AtomicKind::max};
      extension.action = random.chance(90) ? protocol::MemoryAction::atomic : protocol::MemoryAction::plain;
      extension.atomic = kKinds[random.below(4)];
      extension.type = random.chance(90) ? arch::ValueType::u64 : arch::ValueType::u32;
      extension.lanes = random.chance(90) ? 1 : 2;
      extension.lane[0].operand = random.next();
      extension.lane[0].compare = random.chance(50) ? before : random.next();
      const bool odd = random.chance(5);
      if (odd) payload.set_address(base + address + 4);
      const bool known = extension.action == protocol::MemoryAction::atomic &&
                         extension.atomic != arch::AtomicKind::max && extension.type == arch::ValueType::u64 &&
                         extension.lanes == 1;
      bench.memory.forward(payload, tlm::BEGIN_REQ, ns(random.below(20)));
      run_until_idle();
      std::uint64_t after = 0;
      if (address < kMemoryBytes) std::memcpy(&after, bench.device.bytes.data() + address, 8);
      if (known && (odd || address >= kMemoryBytes)) {
        CHECK(payload.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
        CHECK(after == before);
        CHECK_FALSE(extension.carried_out);
      } else {
        CHECK(payload.get_response_status() == tlm::TLM_OK_RESPONSE);
        std::uint64_t expected = before;
        const protocol::AtomicLane& lane = extension.lane[0];
        if (known && extension.atomic == arch::AtomicKind::add) expected = before + lane.operand;
        if (known && extension.atomic == arch::AtomicKind::exchange) expected = lane.operand;
        if (known && extension.atomic == arch::AtomicKind::compare_exchange && lane.compare == before) {
          expected = lane.operand;
        }
        CHECK(after == expected);
        CHECK(extension.carried_out == known);
        if (known) CHECK(lane.old == before);
      }
      payload.clear_extension(&extension);
      payload.release();
    }
    CHECK(bench.host.idle());
  }
}

TEST_CASE("several accesses are inside at a time, and all end", "[host][HST-02]") {
  for (const std::uint64_t seed : seeds(10)) {
    CAPTURE(seed);
    Random random(seed);
    host::HostParams params;
    params.aperture_queue = random.between(1, 5);
    HostBench bench(params);
    bench.hub.places = random.between(1, 8);
    bench.memory.hold_responses = random.chance(50);
    start();
    constexpr unsigned kCount = 40;
    std::vector<Bytes> data(kCount);
    std::vector<tlm::tlm_generic_payload*> payloads(kCount);
    unsigned next = 0;
    unsigned ended = 0;
    bool busy = false;
    unsigned inside = 0;
    unsigned most = 0;
    while (ended < kCount) {
      while (next < kCount && !busy) {
        data[next].assign(random.between(1, 600), 0);
        const std::uint64_t address = random.below(kMemoryBytes - 600);
        payloads[next] = &bench.memory.request(tlm::TLM_READ_COMMAND, address, data[next].data(),
                                               static_cast<unsigned>(data[next].size()));
        const tlm::tlm_sync_enum status = bench.memory.forward(*payloads[next], tlm::BEGIN_REQ);
        busy = status == tlm::TLM_ACCEPTED;
        ++next;
        most = std::max(most, ++inside);
      }
      const std::size_t accepted = bench.memory.accepted.size();
      const std::size_t responses = bench.memory.responses.size();
      run_until_idle();
      REQUIRE(bench.memory.responses.size() > responses);
      for (std::size_t i = responses; i < bench.memory.responses.size(); ++i) {
        const HostPort::Response& response = bench.memory.responses[i];
        REQUIRE(response.status == tlm::TLM_OK_RESPONSE);
        if (response.payload == payloads[next - 1]) busy = false;
        if (bench.memory.hold_responses) bench.memory.forward(*response.payload, tlm::END_RESP, ns(3));
        ++ended;
        --inside;
      }
      if (bench.memory.accepted.size() > accepted) busy = false;
    }
    CHECK(most <= params.aperture_queue + (bench.memory.hold_responses ? kCount : 0));
    for (unsigned i = 0; i < kCount; ++i) {
      REQUIRE(std::equal(data[i].begin(), data[i].end(),
                         bench.device.bytes.begin() + static_cast<std::ptrdiff_t>(payloads[i]->get_address())));
      payloads[i]->release();
    }
    run_until_idle();
    CHECK(bench.host.idle());
    CHECK(bench.memory.pool.in_use() == 0);
  }
}

TEST_CASE("a long access goes to the hub line by line", "[host][HST-01]") {
  HostBench bench;
  start();
  Bytes data(400);
  tlm::tlm_generic_payload& payload = bench.memory.request(tlm::TLM_READ_COMMAND, 100, data.data(), 400);
  bench.memory.forward(payload, tlm::BEGIN_REQ, ns(7));
  run_until_idle();
  CHECK(bench.hub.requests ==
        std::vector<std::pair<std::uint64_t, unsigned>>{{100, 28}, {128, 128}, {256, 128}, {384, 116}});
  REQUIRE(bench.memory.responses.size() == 1);
  CHECK(bench.memory.responses[0].when == ns(57));  // all four wait at the same time
  payload.release();
  // Lines of which no byte is enabled are left out.
  bench.hub.requests.clear();
  Bytes enables(384, 0);
  enables[200] = 0xFF;
  tlm::tlm_generic_payload& sparse = bench.memory.request(tlm::TLM_WRITE_COMMAND, 0, data.data(), 384);
  sparse.set_byte_enable_ptr(enables.data());
  sparse.set_byte_enable_length(384);
  bench.memory.forward(sparse, tlm::BEGIN_REQ);
  run_until_idle();
  CHECK(bench.hub.requests == std::vector<std::pair<std::uint64_t, unsigned>>{{128, 128}});
  sparse.release();
  enables[200] = 0;
  tlm::tlm_generic_payload& nothing = bench.memory.request(tlm::TLM_WRITE_COMMAND, 0, data.data(), 384);
  nothing.set_byte_enable_ptr(enables.data());
  nothing.set_byte_enable_length(384);
  bench.memory.forward(nothing, tlm::BEGIN_REQ);
  run_until_idle();
  CHECK(bench.hub.requests.size() == 1);
  CHECK(nothing.is_response_ok());
  nothing.release();
}

TEST_CASE("errors of memory come back, the first one", "[host][HST-01][MEM-05]") {
  HostBench bench;
  start();
  Bytes data(512, 0xAA);
  const auto read = [&](std::uint64_t address, unsigned bytes) {
    tlm::tlm_generic_payload& payload = bench.memory.request(tlm::TLM_READ_COMMAND, address, data.data(), bytes);
    bench.memory.forward(payload, tlm::BEGIN_REQ);
    run_until_idle();
    const tlm::tlm_response_status status = payload.get_response_status();
    payload.release();
    return status;
  };
  bench.hub.bad_address = 128;
  bench.hub.worse_address = 256;
  CHECK(read(0, 512) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(data == Bytes(512, 0xAA));  // nothing of a failed read
  bench.hub.bad_address = 384;
  CHECK(read(0, 512) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  bench.hub.bad_address = bench.hub.worse_address = ~std::uint64_t{0};
  bench.hub.poisoned_address = 128;
  CHECK(read(0, 512) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(read(256, 128) == tlm::TLM_OK_RESPONSE);
  CHECK(read(kMemoryBytes - 4, 8) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(read(kMemoryBytes, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(read(~std::uint64_t{0}, 8) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  tlm::tlm_generic_payload& ignore = bench.memory.request(tlm::TLM_IGNORE_COMMAND, 0, nullptr, 0);
  bench.memory.forward(ignore, tlm::BEGIN_REQ);
  run_until_idle();
  CHECK(ignore.is_response_ok());
  ignore.release();
}

TEST_CASE("debug accesses to the aperture stop at the end of memory", "[host][HST-02]") {
  HostBench bench;
  start();
  Bytes data(64, 0x55);
  tlm::tlm_generic_payload& payload = bench.memory.request(tlm::TLM_WRITE_COMMAND, kMemoryBytes - 16, data.data(), 64);
  CHECK(bench.memory.out->transport_dbg(payload) == 16);
  CHECK(std::count(bench.device.bytes.end() - 16, bench.device.bytes.end(), 0x55) == 16);
  payload.set_command(tlm::TLM_READ_COMMAND);
  payload.set_address(5);
  CHECK(bench.memory.out->transport_dbg(payload) == 64);
  CHECK(std::equal(data.begin(), data.end(), bench.device.bytes.begin() + 5));
  payload.set_address(kMemoryBytes);
  CHECK(bench.memory.out->transport_dbg(payload) == 0);
  payload.set_address(0);
  payload.set_command(tlm::TLM_IGNORE_COMMAND);
  CHECK(bench.memory.out->transport_dbg(payload) == 0);
  payload.release();
  CHECK(bench.hub.requests.empty());
}

TEST_CASE("a blocking read of corrupt bytes is an error, a write is not", "[host][HST-02][MEM-05]") {
  HostBench bench;
  start();
  bench.device.corrupt = 0x2350;
  Bytes data(16);
  const auto access = [&](tlm::tlm_command command, std::uint64_t address) {
    tlm::tlm_generic_payload& payload = bench.memory.request(command, address, data.data(), 16);
    sc_time delay;
    bench.transport(bench.memory, payload, delay);
    const tlm::tlm_response_status status = payload.get_response_status();
    payload.release();
    return status;
  };
  CHECK(access(tlm::TLM_READ_COMMAND, 0x2345) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(access(tlm::TLM_READ_COMMAND, 0x2340) == tlm::TLM_OK_RESPONSE);
  CHECK(access(tlm::TLM_WRITE_COMMAND, 0x2345) == tlm::TLM_OK_RESPONSE);
}

TEST_CASE("direct access is granted, refused and taken back", "[host][HST-02]") {
  host::HostParams params;
  params.bar1 = 0x1'0000'0000;
  HostBench bench(params);
  start();
  Bytes data(8);
  tlm::tlm_generic_payload& payload = bench.memory.request(tlm::TLM_READ_COMMAND, 0x2345, data.data(), 8);
  tlm::tlm_dmi dmi;
  bench.device.invalidate(0, 100);  // nothing was granted: nobody needs to know
  CHECK(bench.memory.invalidated.empty());
  CHECK(bench.memory.out->get_direct_mem_ptr(payload, dmi));
  CHECK(dmi.get_start_address() == 0x2000);
  CHECK(dmi.get_end_address() == 0x2FFF);
  CHECK(dmi.get_dmi_ptr() == bench.device.bytes.data() + 0x2000);
  CHECK(dmi.is_read_write_allowed());
  CHECK(dmi.get_read_latency() == ns(500));
  CHECK(dmi.get_write_latency() == ns(500));
  bench.device.invalidate(0x2000, 0x2FFF);
  CHECK(bench.memory.invalidated == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0x2000, 0x2FFF}});
  // Granted by an absolute address, it is taken back by both.
  bench.memory.invalidated.clear();
  payload.set_address(0x1'0000'3000);
  CHECK(bench.memory.out->get_direct_mem_ptr(payload, dmi));
  CHECK(dmi.get_start_address() == 0x1'0000'3000);
  CHECK(dmi.get_dmi_ptr() == bench.device.bytes.data() + 0x3000);
  bench.device.invalidate(0x3000, 0x30FF);
  CHECK(bench.memory.invalidated ==
        std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0x3000, 0x30FF}, {0x1'0000'3000, 0x1'0000'30FF}});
  // The hint follows what was last said.
  sc_time delay;
  bench.transport(bench.memory, payload, delay);
  CHECK(payload.is_dmi_allowed());
  bench.device.direct = false;
  CHECK_FALSE(bench.memory.out->get_direct_mem_ptr(payload, dmi));
  CHECK(dmi.is_none_allowed());
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  payload.set_dmi_allowed(false);
  bench.transport(bench.memory, payload, delay);
  CHECK_FALSE(payload.is_dmi_allowed());
  run_until(ns(10));
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  bench.transport(bench.memory, payload, delay);
  CHECK(payload.is_dmi_allowed());
  bench.device.grants = false;  // a memory that cannot: there is nothing to ask for
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  payload.set_dmi_allowed(false);
  bench.transport(bench.memory, payload, delay);
  CHECK_FALSE(payload.is_dmi_allowed());
  payload.set_address(kMemoryBytes);
  const unsigned asked = bench.device.direct_asked;
  CHECK_FALSE(bench.memory.out->get_direct_mem_ptr(payload, dmi));
  CHECK(bench.device.direct_asked == asked);
  payload.release();
}

TEST_CASE("direct access is taken back from inside an event of the device", "[host][HST-02]") {
  HostBench bench;
  start();
  struct Handler final : EventHandler {
    explicit Handler(FakeDevice& d) : device(d) {}
    void on_event(std::uint32_t, std::uint64_t) override { device.invalidate(0, kMemoryBytes - 1); }
    FakeDevice& device;
  } handler(bench.device);
  Bytes data(8);
  tlm::tlm_generic_payload& payload = bench.memory.request(tlm::TLM_READ_COMMAND, 0, data.data(), 8);
  tlm::tlm_dmi dmi;
  CHECK(bench.memory.out->get_direct_mem_ptr(payload, dmi));
  bench.domain.schedule(40, handler, 0);
  run_until_idle();
  CHECK(bench.memory.invalidated == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, kMemoryBytes - 1}});
  payload.release();
}

}  // namespace heddle::test::host_interface_aperture_test
