// The guest's memory behind the device's DMA: ranges of files, as QEMU shares them.
#include "vp/guest_memory.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <tlm_utils/simple_initiator_socket.h>

#include "protocol/memory_request.h"
#include "support/sim_fixture.h"
#include "vp/proxy_channel.h"

namespace heddle::test::guest_memory_test {
namespace {

using namespace heddle::vp;

constexpr std::uint64_t kBytes = 1U << 16;

OwnedFile shared_file(std::uint64_t bytes = kBytes) {
  OwnedFile file(::memfd_create("guest", MFD_CLOEXEC));
  REQUIRE(file.get() >= 0);
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  return file;
}

struct Device : sc_core::sc_module {
  explicit Device(const sc_core::sc_module_name& name) : sc_core::sc_module(name), socket("socket") {}
  tlm_utils::simple_initiator_socket<Device> socket;

  static void fill(tlm::tlm_generic_payload& payload, tlm::tlm_command command, std::uint64_t address, void* data,
                   unsigned bytes) {
    payload.set_command(command);
    payload.set_address(address);
    payload.set_data_ptr(static_cast<unsigned char*>(data));
    payload.set_data_length(bytes);
    payload.set_streaming_width(bytes);
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  }
  tlm::tlm_response_status access(tlm::tlm_command command, std::uint64_t address, void* data, unsigned bytes) {
    tlm::tlm_generic_payload payload;
    fill(payload, command, address, data, bytes);
    sc_core::sc_time delay;
    socket->b_transport(payload, delay);
    CHECK(delay == sc_core::sc_time(100, sc_core::SC_NS));
    return payload.get_response_status();
  }
};

struct Bench {
  SimFixture fixture;
  bool allowed = true;
  GuestMemory memory{"memory", [this] { return allowed; }};
  Device device{"device"};
  Bench() {
    device.socket.bind(memory.socket);
    start();
  }
  tlm::tlm_response_status write(std::uint64_t address, std::uint64_t value, unsigned bytes = 8) {
    return device.access(tlm::TLM_WRITE_COMMAND, address, &value, bytes);
  }
  std::uint64_t read(std::uint64_t address, unsigned bytes = 8) {
    std::uint64_t value = 0;
    CHECK(device.access(tlm::TLM_READ_COMMAND, address, &value, bytes) == tlm::TLM_OK_RESPONSE);
    return value;
  }
};

TEST_CASE("ranges lead to their places in their files", "[vp][HST-02]") {
  Bench bench;
  const OwnedFile low = shared_file();
  const OwnedFile high = shared_file();
  bench.memory.map({{0, 0x3000, 0}, {0x1'0000'0000, 0x2000, 0x3000}, {0x2'0000'0000, 0x1000, 0x1800}},
                   {low.get(), low.get(), high.get()});
  CHECK(bench.write(0x2FF8, 0x1111) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.write(0x1'0000'0010, 0x2222) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.write(0x2'0000'0008, 0x3333) == tlm::TLM_OK_RESPONSE);
  std::uint64_t word = 0;
  REQUIRE(::pread(low.get(), &word, 8, 0x2FF8) == 8);
  CHECK(word == 0x1111);
  REQUIRE(::pread(low.get(), &word, 8, 0x3010) == 8);
  CHECK(word == 0x2222);
  REQUIRE(::pread(high.get(), &word, 8, 0x1808) == 8);  // an offset that is no page
  CHECK(word == 0x3333);
  CHECK(bench.read(0x1'0000'0010) == 0x2222);
  CHECK(bench.memory.bytes_moved() == 32);
  CHECK(bench.write(0x2FFC, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);  // half of it outside
  CHECK(bench.write(0x3000, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.write(0x1'0000'2000, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.write(~std::uint64_t{0} - 3, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.memory.refused() == 4);
  // A map takes the place of the one before.
  bench.memory.map({{0x5000, 0x1000, 0x2000}}, {low.get()});
  CHECK(bench.read(0x5FF8) == 0x1111);
  CHECK(bench.write(0x2FF8, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
}

TEST_CASE("without bus mastering there is no memory", "[vp][HST-02]") {
  Bench bench;
  const OwnedFile file = shared_file();
  bench.memory.map({{0, kBytes, 0}}, {file.get()});
  CHECK(bench.write(0x100, 7) == tlm::TLM_OK_RESPONSE);
  bench.allowed = false;
  CHECK(bench.write(0x100, 8) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  bench.allowed = true;
  CHECK(bench.read(0x100) == 7);
}

TEST_CASE("a file that is too short is refused, and what was there stays", "[vp][HST-02]") {
  Bench bench;
  const OwnedFile file = shared_file();
  bench.memory.map({{0, kBytes, 0}}, {file.get()});
  CHECK_THROWS_AS(bench.memory.map({{0, kBytes + 1, 0}}, {file.get()}), ProxyError);
  CHECK_THROWS_AS(bench.memory.map({{0, 0x1000, kBytes}}, {file.get()}), ProxyError);
  CHECK_THROWS_AS(bench.memory.map({{0, 0x1000, 0}}, {-1}), ProxyError);
  CHECK(bench.write(0x100, 7) == tlm::TLM_OK_RESPONSE);
}

TEST_CASE("bursts, odd lengths and debug accesses move bytes", "[vp][HST-02]") {
  Bench bench;
  const OwnedFile file = shared_file();
  bench.memory.map({{0, kBytes, 0}}, {file.get()});
  std::vector<std::uint8_t> data(128);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i + 1);
  CHECK(bench.device.access(tlm::TLM_WRITE_COMMAND, 0x101, data.data(), 128) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.read(0x101, 3) == 0x030201);
  tlm::tlm_generic_payload payload;
  std::vector<std::uint8_t> seen(4096);
  Device::fill(payload, tlm::TLM_READ_COMMAND, 0x100, seen.data(), 4096);
  CHECK(bench.device.socket->transport_dbg(payload) == 4096);
  CHECK((seen[0] == 0 && seen[1] == 1 && seen[128] == 128));
  Device::fill(payload, tlm::TLM_READ_COMMAND, kBytes, seen.data(), 4);
  CHECK(bench.device.socket->transport_dbg(payload) == 0);
  payload.set_streaming_width(2);
  payload.set_address(0);
  sc_core::sc_time delay;
  bench.device.socket->b_transport(payload, delay);
  CHECK(payload.get_response_status() == tlm::TLM_BURST_ERROR_RESPONSE);
  Device::fill(payload, tlm::TLM_IGNORE_COMMAND, 0, seen.data(), 4);
  bench.device.socket->b_transport(payload, delay);
  CHECK(payload.get_response_status() == tlm::TLM_COMMAND_ERROR_RESPONSE);
}

TEST_CASE("atomics are carried out as one, and it says so", "[vp][HST-06]") {
  Bench bench;
  const OwnedFile file = shared_file();
  bench.memory.map({{0x1000, kBytes - 0x1000, 0}}, {file.get()});
  CHECK(bench.write(0x1088, 10) == tlm::TLM_OK_RESPONSE);
  tlm::tlm_generic_payload payload;
  protocol::MemoryExtension atomic;
  atomic.action = protocol::MemoryAction::atomic;
  atomic.atomic = arch::AtomicKind::add;
  atomic.type = arch::ValueType::s64;
  atomic.lanes = 1;
  atomic.lane[0].offset = 8;
  atomic.lane[0].operand = ~std::uint64_t{0};
  Device::fill(payload, tlm::TLM_IGNORE_COMMAND, 0x1080, nullptr, 0);
  payload.set_extension(&atomic);
  tlm::tlm_dmi dmi;
  CHECK_FALSE(bench.device.socket->get_direct_mem_ptr(payload, dmi));
  CHECK(atomic.carried_out);
  atomic.carried_out = false;
  sc_core::sc_time delay;
  bench.device.socket->b_transport(payload, delay);
  CHECK(payload.is_response_ok());
  CHECK(atomic.carried_out);
  CHECK(atomic.lane[0].old == 10);
  CHECK(bench.read(0x1088) == 9);
  payload.set_address(0x80);  // no memory there
  bench.device.socket->b_transport(payload, delay);
  CHECK(payload.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  bench.allowed = false;
  payload.set_address(0x1080);
  bench.device.socket->b_transport(payload, delay);
  CHECK(payload.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  bench.allowed = true;
  CHECK(bench.read(0x1088) == 9);
  payload.clear_extension(&atomic);
}

}  // namespace
}  // namespace heddle::test::guest_memory_test
