#include "host/memory_hub.h"

#include "host/host_memory.h"
#include "host/hub_bench.h"

namespace heddle::test::host_memory_hub_test {
namespace {

using host::HubParams;

protocol::MemoryRequest& write_back(HubBench& bench) {
  auto& request = bench.plain(tlm::TLM_IGNORE_COMMAND, 0, 1);
  request.extension.action = protocol::MemoryAction::write_back;
  return request;
}

}  // namespace

TEST_CASE("a write-back reaches every slice before it is answered", "[host][MEM-06]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    SimFixture fixture;
    HubBench bench(HubParams(), mode, 2);
    start();
    for (std::uint32_t line = 0; line < 16; ++line) {
      auto& write = bench.plain(tlm::TLM_WRITE_COMMAND, line * 128 + 32, 32);
      write.data.fill(static_cast<std::uint8_t>(line + 1));
      REQUIRE(bench.status_of(write) == tlm::TLM_OK_RESPONSE);
    }
    CHECK(std::count(bench.bytes.begin(), bench.bytes.end(), 16) == 0);  // still in a cache
    std::uint32_t answered = 0;
    for (std::uint32_t client = 0; client < 2; ++client) {
      bench.clients[client]->on_response = [&](protocol::MemoryRequest& request, Cycle) {
        REQUIRE(request.is_response_ok());
        for (std::uint32_t line = 0; line < 16; ++line) REQUIRE(bench.bytes[line * 128 + 63] == line + 1);
        ++answered;
      };
    }
    for (std::uint32_t i = 0; i < 3; ++i) {
      bench.clients[0]->send(write_back(bench), bench.domain.now());
      bench.clients[1]->send(write_back(bench), bench.domain.now());
    }
    run_until_idle();
    CHECK(answered == 6);
    CHECK(bench.hub.idle());
  }
}

TEST_CASE("addresses that are no memory and requests across lines are errors", "[host][MEM-05]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    SimFixture fixture;
    HubBench bench(HubParams(), mode, 1);
    host::HostMemory host("host", 4096, sc_core::SC_ZERO_TIME, 1);
    bench.hub.dma().bind(host.port(0));
    start();
    const auto status = [&](std::uint64_t address, std::uint32_t bytes) {
      auto& request = bench.plain(tlm::TLM_READ_COMMAND, address, 1);
      request.set_data_length(bytes);
      request.set_streaming_width(bytes);
      return bench.status_of(request);
    };
    constexpr std::uint64_t kEnd = HubBench::kBytes;
    CHECK(status(kEnd - 1, 1) == tlm::TLM_OK_RESPONSE);
    CHECK(status(kEnd, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    CHECK(status(arch::kHostWindow - 1, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    CHECK(status(arch::kHostWindow, 1) == tlm::TLM_OK_RESPONSE);
    CHECK(status(arch::kHostWindow + 4095, 1) == tlm::TLM_OK_RESPONSE);
    CHECK(status(arch::kHostWindow + 4096, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    CHECK(status(~std::uint64_t{0}, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    for (const std::uint64_t base : {std::uint64_t{0}, arch::kHostWindow}) {
      CHECK(status(base + 120, 8) == tlm::TLM_OK_RESPONSE);
      CHECK(status(base + 121, 8) == tlm::TLM_BURST_ERROR_RESPONSE);
      CHECK(status(base, 129) == tlm::TLM_BURST_ERROR_RESPONSE);
      CHECK(status(base, 0) == tlm::TLM_BURST_ERROR_RESPONSE);
    }
    CHECK(bench.stat("errors") == 10);
  }
}

TEST_CASE("a slow host does not hold back requests to device memory", "[host][HST-01]") {
  SimFixture fixture;
  HubParams params;
  params.link_tags = 1;
  HubBench bench(params, TimingMode::at, 1);
  host::HostMemory host("host", 4096, sc_core::sc_time(50, sc_core::SC_US), 1);
  bench.hub.dma().bind(host.port(0));
  start();
  std::uint32_t device = 0;
  std::uint32_t hosts = 0;
  bench.clients[0]->on_response = [&](protocol::MemoryRequest& request, Cycle) {
    ++(arch::in_host_window(request.get_address()) ? hosts : device);
  };
  for (std::uint32_t i = 0; i < 6; ++i) {
    bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow + i * 128, 8), 0);
    bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, i * 128, 8), 0);
  }
  run_until(sc_core::sc_time(20, sc_core::SC_US));
  CHECK(device == 6);
  CHECK(hosts == 0);
  WaitGraph waits;
  bench.domain.collect_waits(waits);
  CHECK_FALSE(waits.empty());
  run_until_idle();
  CHECK(hosts == 6);
}

TEST_CASE("a client's queue fills, and empties", "[host][HST-01]") {
  SimFixture fixture;
  HubParams params;
  params.queue = 3;
  params.link_tags = 2;
  HubBench bench(params, TimingMode::at, 2);
  host::HostMemory host("host", 4096, sc_core::sc_time(10, sc_core::SC_US), 1);
  bench.hub.dma().bind(host.port(0));
  start();
  for (std::uint32_t i = 0; i < 20; ++i) {
    bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow + i * 128, 8), 0);
  }
  run_until(sc_core::sc_time(1, sc_core::SC_US));
  CHECK(bench.clients[0]->waiting() == 15);  // two are on the bus, three wait
  auto& other = bench.plain(tlm::TLM_READ_COMMAND, 0, 8);
  bool done = false;
  bench.clients[1]->on_response = [&](protocol::MemoryRequest&, Cycle) { done = true; };
  bench.clients[1]->send(other, bench.domain.now());
  run_until(sc_core::sc_time(3, sc_core::SC_US));
  CHECK(done);
  run_until_idle();
  CHECK(bench.clients[0]->waiting() == 0);
  CHECK(bench.hub.idle());
}

TEST_CASE("clients share the way to the slices evenly", "[host][HST-01]") {
  SimFixture fixture;
  HubParams params;
  params.bandwidth = 2;
  HubBench bench(params, TimingMode::at, 3);
  start();
  std::array<std::uint32_t, 3> done{};
  for (std::uint32_t client = 0; client < 3; ++client) {
    bench.clients[client]->on_response = [&done, client](protocol::MemoryRequest&, Cycle) { ++done[client]; };
    for (std::uint32_t i = 0; i < 200; ++i) {
      bench.clients[client]->send(bench.plain(tlm::TLM_WRITE_COMMAND, client * 4096 + i % 8 * 128, 128), 0);
    }
  }
  run_until(sc_core::sc_time(22, sc_core::SC_US));
  const std::uint32_t sum = done[0] + done[1] + done[2];
  CHECK(sum > 250);  // 144 bytes each
  CHECK(sum < 310);
  for (const std::uint32_t count : done) CHECK(count + 2 >= sum / 3);
}

TEST_CASE("a request costs the hub's latency both ways in `at`, and nothing in `lt`", "[host][HST-01]") {
  const auto time_of = [](TimingMode mode, std::uint32_t latency) {
    SimFixture fixture;
    HubParams params;
    params.latency = latency;
    HubBench bench(params, mode, 1);
    start();
    Cycle when = 0;
    bench.clients[0]->on_response = [&](protocol::MemoryRequest&, Cycle arrival) { when = arrival; };
    bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, 256, 32), 5);
    run_until_idle();
    return when;
  };
  CHECK(time_of(TimingMode::at, 170) - time_of(TimingMode::at, 20) == 300);
  CHECK(time_of(TimingMode::lt, 170) == time_of(TimingMode::lt, 20));
  CHECK(time_of(TimingMode::lt, 20) > 5);  // the slice's and the memory's time
}

TEST_CASE("blocking and debug accesses through the hub", "[host][HST-02]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    SimFixture fixture;
    HubBench bench(HubParams(), mode, 1);
    host::HostMemory host("host", 4096, sc_core::SC_ZERO_TIME, 1);
    bench.hub.dma().bind(host.port(0));
    start();
    MemoryOut& out = bench.clients[0]->out;
    auto& write = bench.plain(tlm::TLM_WRITE_COMMAND, 1000, 16);
    write.data.fill(0x3C);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    out.blocking(write, delay);
    CHECK(write.is_response_ok());
    CHECK(delay > sc_core::SC_ZERO_TIME);
    auto& beyond = bench.plain(tlm::TLM_READ_COMMAND, arch::kHostWindow, 16);
    out.blocking(beyond, delay);
    CHECK(beyond.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    auto& flush = write_back(bench);
    out.blocking(flush, delay);
    CHECK(flush.is_response_ok());
    CHECK(bench.bytes[1015] == 0x3C);
    // Debug: any length, across lines and to the end of memory.
    std::vector<std::uint8_t> buffer(5000);
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<std::uint8_t>(i * 7);
    tlm::tlm_generic_payload debug;
    debug.set_data_ptr(buffer.data());
    debug.set_command(tlm::TLM_WRITE_COMMAND);
    debug.set_address(777);
    debug.set_data_length(5000);
    CHECK(out.debug(debug) == 5000);
    std::vector<std::uint8_t> back(5000);
    debug.set_command(tlm::TLM_READ_COMMAND);
    debug.set_data_ptr(back.data());
    CHECK(out.debug(debug) == 5000);
    CHECK(back == buffer);
    debug.set_address(HubBench::kBytes - 100);
    CHECK(out.debug(debug) == 100);
    debug.set_address(arch::kHostWindow + 4000);
    debug.set_data_length(96);
    debug.set_command(tlm::TLM_WRITE_COMMAND);
    CHECK(out.debug(debug) == 96);
    std::vector<std::uint8_t> there(96);
    REQUIRE(host.read(4000, there.data(), 96));
    CHECK(std::equal(there.begin(), there.end(), back.begin()));
  }
}

TEST_CASE("SMs and the hub see each other's writes at the slices", "[host][MEM-06]") {
  SimFixture fixture;
  HubBench bench(HubParams(), TimingMode::at, 1);
  start();
  const std::uint32_t slice = bench.map.slice_of(384);
  auto& write = bench.plain(tlm::TLM_WRITE_COMMAND, 384, 64);
  write.data.fill(0x66);
  bench.sms[slice]->send(write, 0);
  run_until_idle();
  std::uint8_t seen = 0;
  bench.clients[0]->on_response = [&](protocol::MemoryRequest& request, Cycle) { seen = request.data[0]; };
  bench.clients[0]->send(bench.plain(tlm::TLM_READ_COMMAND, 400, 8), bench.domain.now());
  run_until_idle();
  CHECK(seen == 0x66);
  std::uint64_t before = ~std::uint64_t{0};
  bench.clients[0]->on_response = [&](protocol::MemoryRequest& request, Cycle) {
    before = request.extension.lane[0].old;
  };
  bench.clients[0]->send(bench.add(384, 1), bench.domain.now());
  run_until_idle();
  CHECK(before == 0x6666'6666'6666'6666U);
  bench.sms[slice]->on_response = [&](protocol::MemoryRequest& request, Cycle) { seen = request.data[0]; };
  bench.sms[slice]->send(bench.plain(tlm::TLM_READ_COMMAND, 384, 8), bench.domain.now());
  run_until_idle();
  CHECK(seen == 0x67);
}

}  // namespace heddle::test::host_memory_hub_test
