// Device and signals of the host library against a device that the test plays.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
#include "arch/reason.h"
#include "driver/fake_device.h"

namespace heddle::test::driver_device_test {
namespace {

TEST_CASE("a device opens if it is one, and of this version", "[driver][HST-01]") {
  FakeDevice fake;
  heddle_bus bus = fake.bus();
  heddle_device device;
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  CHECK((device.sms == 132 && device.gpcs == 8 && device.queues == 32 && device.memory == 80ULL << 30));
  CHECK((device.threads_limit == 1024 && device.shared_limit == 232'448 && device.clock_mhz == 1755));
  fake.registers[HEDDLE_REG_VERSION] = HEDDLE_REGISTER_VERSION + 1;  // minor
  CHECK(heddle_device_open(&device, &bus) == HEDDLE_OK);
  fake.registers[HEDDLE_REG_VERSION] = HEDDLE_REGISTER_VERSION + 0x10000;
  CHECK(heddle_device_open(&device, &bus) == HEDDLE_VERSION);
  fake.registers[HEDDLE_REG_MAGIC] = 0xFFFF'FFFF;
  CHECK(heddle_device_open(&device, &bus) == HEDDLE_NO_DEVICE);
}

TEST_CASE("interrupts, events, errors and reset go to their registers", "[driver][HST-01]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  heddle_device device;
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  auto& registers = fake.registers;
  registers[HEDDLE_REG_INT_STATUS] = HEDDLE_INT_AGENT_MASK;
  std::uint32_t value = 0;
  REQUIRE(heddle_device_interrupts(&device, &value) == HEDDLE_OK);
  CHECK(value == HEDDLE_INT_AGENT_MASK);
  REQUIRE(heddle_device_mask(&device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
  CHECK(registers[HEDDLE_REG_INT_MASK] == HEDDLE_INT_SIGNAL_MASK);
  REQUIRE(heddle_device_acknowledge(&device, HEDDLE_INT_FAULT_MASK) == HEDDLE_OK);
  CHECK(registers[HEDDLE_REG_INT_STATUS] == HEDDLE_INT_FAULT_MASK);
  registers[HEDDLE_REG_EVENT] = HEDDLE_EVENT_VALID_MASK | 0xFFFF'FFF0;
  REQUIRE(heddle_device_event(&device, &value) == HEDDLE_OK);
  CHECK(value == 0xFFFF'FFF0);
  CHECK(heddle_device_event(&device, &value) == HEDDLE_EMPTY);
  registers[HEDDLE_REG_ERROR_COUNT] = 2;
  registers[HEDDLE_REG_ERROR_QUEUE] = 31;
  registers[HEDDLE_REG_ERROR_STATUS] = HEDDLE_HSA_INVALID_ARGUMENT;
  registers[HEDDLE_REG_ERROR_INDEX] = 77;
  heddle_error error{};
  REQUIRE(heddle_device_error(&device, &error) == HEDDLE_OK);
  CHECK((error.count == 2 && error.queue == 31 && error.status == 0x1001 && error.index == 77));
  REQUIRE(heddle_device_reset(&device, 0) == HEDDLE_OK);
  CHECK(registers[HEDDLE_REG_CONTROL] == 1);
}

TEST_CASE("a reset returns when the accesses of before it are over", "[driver][HST-01]") {
  for (const bool relaxes : {true, false}) {
    FakeDevice fake;
    heddle_bus bus = fake.bus();
    if (!relaxes) bus.relax = nullptr;
    heddle_device device;
    REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
    fake.registers[HEDDLE_REG_STATUS] = ~HEDDLE_STATUS_RESET_BUSY_MASK;  // other bits mean nothing here
    fake.looks_in_reset = 5;
    REQUIRE(heddle_device_reset(&device, 0) == HEDDLE_OK);
    CHECK(fake.registers[HEDDLE_REG_CONTROL] == HEDDLE_CONTROL_SOFT_RESET_MASK);
    CHECK(fake.resets_looked_at == 6);
    CHECK(fake.relaxed == (relaxes ? 5 : 0));
  }
  for (int access = 0; access < 4; ++access) {
    FakeDevice fake;
    const heddle_bus bus = fake.bus();
    heddle_device device;
    REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
    fake.looks_in_reset = 1;
    fake.accesses_until_failure = access;  // the write and two looks
    CHECK(heddle_device_reset(&device, 0) == (access < 3 ? HEDDLE_BUS : HEDDLE_OK));
  }
}

TEST_CASE("a reset is waited for as long as the limit says", "[driver][HST-06]") {
  for (const std::uint64_t limit : {1, 5, 6, 7}) {
    FakeDevice fake;
    const heddle_bus bus = fake.bus();
    heddle_device device;
    REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
    fake.looks_in_reset = 5;
    CHECK(heddle_device_reset(&device, limit) == (limit < 6 ? HEDDLE_TIMEOUT : HEDDLE_OK));
    CHECK(fake.resets_looked_at == std::min<std::uint64_t>(limit, 6));
    CHECK(fake.registers[HEDDLE_REG_CONTROL] == HEDDLE_CONTROL_SOFT_RESET_MASK);
  }
}

TEST_CASE("windows of the host's memory go to their registers", "[driver][HST-06]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  heddle_device device;
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  auto& registers = fake.registers;
  const heddle_window good = {HEDDLE_HOST_WINDOW + 0x3000, 0x2000, 7, true, false};
  REQUIRE(heddle_window_open(&device, &good) == HEDDLE_OK);
  CHECK((registers[HEDDLE_REG_WINDOW_ADDRESS] == good.address && registers[HEDDLE_REG_WINDOW_BYTES] == 0x2000));
  CHECK(registers[HEDDLE_REG_WINDOW_RIGHTS] == HEDDLE_WINDOW_RIGHTS_READ_MASK);
  CHECK((registers[HEDDLE_REG_WINDOW_SUBCONTEXT] == 7));
  CHECK(registers[HEDDLE_REG_WINDOW_COMMAND] == HEDDLE_WINDOW_COMMAND_OPEN);
  heddle_window both = good;
  both.writes = true;
  REQUIRE(heddle_window_open(&device, &both) == HEDDLE_OK);
  CHECK(registers[HEDDLE_REG_WINDOW_RIGHTS] == (HEDDLE_WINDOW_RIGHTS_READ_MASK | HEDDLE_WINDOW_RIGHTS_WRITE_MASK));
  REQUIRE(heddle_windows_close(&device, 9) == HEDDLE_OK);
  CHECK(registers[HEDDLE_REG_WINDOW_SUBCONTEXT] == 9);
  CHECK(registers[HEDDLE_REG_WINDOW_COMMAND] == HEDDLE_WINDOW_COMMAND_CLOSE);
  REQUIRE(heddle_windows_isolate(&device, true) == HEDDLE_OK);
  CHECK(registers[HEDDLE_REG_WINDOW_COMMAND] == HEDDLE_WINDOW_COMMAND_ISOLATE);
  REQUIRE(heddle_windows_isolate(&device, false) == HEDDLE_OK);
  CHECK(registers[HEDDLE_REG_WINDOW_COMMAND] == HEDDLE_WINDOW_COMMAND_SHARE);

  // What makes no sense does not go out.
  registers[HEDDLE_REG_WINDOW_COMMAND] = 0;
  const heddle_window bad[] = {
      {HEDDLE_HOST_WINDOW + 0x3000, 0x2000, 64, true, true}, {0x3000, 0x2000, 7, true, true},
      {HEDDLE_HOST_WINDOW + 0x3080, 0x2000, 7, true, true},  {HEDDLE_HOST_WINDOW + 0x3000, 0x2001, 7, true, true},
      {HEDDLE_HOST_WINDOW + 0x3000, 0, 7, true, true},       {HEDDLE_HOST_WINDOW + 0x3000, 0x2000, 7, false, false},
      {~std::uint64_t{0xFFF}, 0x2000, 7, true, true},
  };
  for (const heddle_window& window : bad) CHECK(heddle_window_open(&device, &window) == HEDDLE_INVALID);
  CHECK(heddle_windows_close(&device, 64) == HEDDLE_INVALID);
  CHECK(registers[HEDDLE_REG_WINDOW_COMMAND] == 0);

  // A device that has no room refuses the command: the sixth access of opening a window.
  fake.accesses_until_failure = 5;
  CHECK(heddle_window_open(&device, &good) == HEDDLE_FULL);
  for (const int access : {0, 1, 2, 3, 4, 6}) {
    fake.accesses_until_failure = access;
    CHECK(heddle_window_open(&device, &good) == HEDDLE_BUS);
  }
  fake.accesses_until_failure = -1;
  registers[HEDDLE_REG_WINDOW_FAULT_COUNT] = 3;
  registers[HEDDLE_REG_WINDOW_FAULT_ADDRESS] = HEDDLE_HOST_WINDOW + 5;
  registers[HEDDLE_REG_WINDOW_FAULT_SUBCONTEXT] = 6;
  registers[HEDDLE_REG_WINDOW_FAULT_ACCESS] = HEDDLE_WINDOW_ACCESS_WRITE;
  heddle_window_fault fault{};
  REQUIRE(heddle_windows_fault(&device, &fault) == HEDDLE_OK);
  CHECK((fault.count == 3 && fault.address == HEDDLE_HOST_WINDOW + 5 && fault.subcontext == 6 && fault.access == 1));
}

TEST_CASE("a copy channel is started when it is free, and waited for", "[driver][HST-05]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  heddle_device device;
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  const heddle_copy copy = {HEDDLE_COPY_KIND_FILL, 1, 2, 3, 4, 5};
  CHECK(heddle_copy_start(&device, 4, &copy) == HEDDLE_INVALID);
  auto& registers = fake.registers;
  registers[HEDDLE_REG_COPY_STATE(2)] = HEDDLE_COPY_STATE_BUSY;
  CHECK(heddle_copy_start(&device, 2, &copy) == HEDDLE_BUSY);
  heddle_copy_state state{};
  std::uint32_t hsa = 0;
  CHECK(heddle_copy_wait(&device, 2, 4, &state, &hsa) == HEDDLE_TIMEOUT);
  registers[HEDDLE_REG_COPY_STATE(2)] = HEDDLE_COPY_STATE_ERROR;
  registers[HEDDLE_REG_COPY_STATUS(2)] = HEDDLE_HSA_ERROR;
  REQUIRE(heddle_copy_wait(&device, 2, 4, &state, &hsa) == HEDDLE_OK);
  CHECK((state == HEDDLE_COPY_STATE_ERROR && hsa == HEDDLE_HSA_ERROR));
  REQUIRE(heddle_copy_start(&device, 2, &copy) == HEDDLE_OK);
  CHECK((registers[HEDDLE_REG_COPY_FROM(2)] == 1 && registers[HEDDLE_REG_COPY_TO(2)] == 2));
  CHECK((registers[HEDDLE_REG_COPY_BYTES(2)] == 3 && registers[HEDDLE_REG_COPY_VALUE(2)] == 4));
  CHECK((registers[HEDDLE_REG_COPY_KIND(2)] == 1 && registers[HEDDLE_REG_COPY_SUBCONTEXT(2)] == 5));
  CHECK(registers[HEDDLE_REG_COPY_COMMAND(2)] == HEDDLE_COPY_COMMAND_START);
}

TEST_CASE("reasons have the texts of the model", "[driver][PKT-14]") {
  for (std::uint32_t number = 0; number < 300; ++number) {
    CAPTURE(number);
    CHECK(std::string(heddle_reason_text(number)) == arch::reason_text(static_cast<arch::Reason>(number)));
  }
  CHECK(std::string(heddle_reason_text(HEDDLE_REASON_KERNARG_HOST)) ==
        "kernarg is in the host's memory, which SMs do not reach");
}

TEST_CASE("the device tells its clock, and the time", "[driver][PKT-14]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  heddle_device device{};
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  CHECK(device.clock_period == 570);
  CHECK(device.timestamp_rate == 1'000'000'000);
  CHECK(device.doorbell_page == 0x2000);
  std::uint64_t ticks = 0;
  REQUIRE(heddle_device_timestamp(&device, &ticks) == HEDDLE_OK);
  CHECK(ticks == 0x1'2345'6789);
}

TEST_CASE("the device tells how its condensed packets are written", "[driver][HST-01][PKT-13]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  heddle_device device{};
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  fake.registers[HEDDLE_REG_PACKET_FORMAT] = 0x50'D420;
  heddle_packet_setup setup{};
  REQUIRE(heddle_device_packets(&device, &setup) == HEDDLE_OK);
  CHECK((setup.table_entries == 32 && setup.format.reference_bits == 4 && setup.format.vector_bits == 13));
  CHECK((setup.format.stored && !setup.shared_table && setup.overlap));
  fake.registers[HEDDLE_REG_PACKET_FORMAT] = 0x20'0000;
  REQUIRE(heddle_device_packets(&device, &setup) == HEDDLE_OK);
  CHECK((!setup.format.stored && setup.shared_table && !setup.overlap));
  fake.accesses_until_failure = 0;
  CHECK(heddle_device_packets(&device, &setup) == HEDDLE_BUS);
  device.version &= HEDDLE_VERSION_MAJOR_MASK;  // from before there was such a register
  CHECK(heddle_device_packets(&device, &setup) == HEDDLE_VERSION);
}

TEST_CASE("signals have the layout of the machine, and are waited for", "[driver][PKT-04]") {
  FakeDevice fake;
  const heddle_bus bus = fake.bus();
  const std::uint64_t address = HEDDLE_HOST_WINDOW + 0x240;
  static_assert(HEDDLE_HOST_WINDOW == arch::kHostWindow && HEDDLE_SIGNAL_BYTES == arch::kSignalAlignment &&
                HEDDLE_SIGNAL_INTERRUPT == arch::kSignalInterrupt);
  REQUIRE(heddle_signal_init(&bus, address | HEDDLE_SIGNAL_INTERRUPT, -5, 0x1122'3344'5566'7788, 9) == HEDDLE_OK);
  CHECK(fake.get64(address) == ~std::uint64_t{4});
  CHECK(fake.get64(address + 8) == 0x1122'3344'5566'7788);
  CHECK(fake.get64(address + 16) == 9);
  std::int64_t value = 0;
  REQUIRE(heddle_signal_load(&bus, address, &value) == HEDDLE_OK);
  CHECK(value == -5);
  REQUIRE(heddle_signal_store(&bus, address | HEDDLE_SIGNAL_INTERRUPT, 3) == HEDDLE_OK);
  CHECK(fake.get64(address) == 3);
  CHECK(heddle_signal_wait(&bus, address, HEDDLE_LESS, 1, 4, &value) == HEDDLE_TIMEOUT);
  CHECK((value == 3 && fake.relaxed == 3));
  CHECK(heddle_signal_wait(&bus, address, HEDDLE_EQUAL, 3, 1, nullptr) == HEDDLE_OK);
  CHECK(heddle_signal_wait(&bus, address, HEDDLE_LESS, 4, 1, nullptr) == HEDDLE_OK);
  CHECK(heddle_signal_wait(&bus, address, HEDDLE_AT_LEAST, 3, 1, nullptr) == HEDDLE_OK);
  CHECK(heddle_signal_wait(&bus, address, HEDDLE_AT_LEAST, 4, 1, nullptr) == HEDDLE_TIMEOUT);
  CHECK(heddle_signal_wait(&bus, address, HEDDLE_NOT_EQUAL, 3, 1, nullptr) == HEDDLE_TIMEOUT);
  // With time stamps the record has 64 bytes.
  static_assert(HEDDLE_SIGNAL_TIMESTAMPS == arch::kSignalTimestamps && HEDDLE_STAMPED_SIGNAL_BYTES == 64);
  const std::uint64_t stamped = address | HEDDLE_SIGNAL_TIMESTAMPS;
  REQUIRE(heddle_signal_init(&bus, stamped, 1, 0, 0) == HEDDLE_OK);
  CHECK(fake.get64(address + 56) == 0);
  CHECK(fake.get64(address + 64) == 0xAAAA'AAAA'AAAA'AAAA);
  fake.put64(address + arch::kSignalStampsOffset, 123);
  fake.put64(address + arch::kSignalStampsOffset + 8, 456);
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  REQUIRE(heddle_signal_times(&bus, stamped, &start, &end) == HEDDLE_OK);
  CHECK((start == 123 && end == 456));
  CHECK(heddle_signal_times(&bus, address, &start, &end) == HEDDLE_INVALID);
  CHECK(heddle_signal_init(&bus, stamped + 32, 1, 0, 0) == HEDDLE_INVALID);
  REQUIRE(heddle_signal_init(&bus, address + 32, 1, 0, 0) == HEDDLE_OK);
  CHECK(heddle_signal_init(&bus, 0, 1, 0, 0) == HEDDLE_INVALID);
  CHECK(heddle_signal_load(&bus, address + 8, &value) == HEDDLE_INVALID);
  CHECK(heddle_signal_store(&bus, FakeDevice::kDeviceBytes, 1) == HEDDLE_BUS);
}

}  // namespace
}  // namespace heddle::test::driver_device_test
