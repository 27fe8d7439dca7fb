// Registers over the socket: what they show, what they do, and how accesses are refused.
#include <catch2/catch.hpp>

#include "host/host_interface_bench.h"
#include "support/random.h"

namespace heddle::test::host_interface_registers_test {
namespace {

using host::Register;
using host::RegisterAccess;
using protocol::QueueCommand;
using protocol::QueueEvent;
using protocol::QueueState;

std::uint64_t reset_value(const Register& reg) {
  const host::DeviceIdentity identity = identity_for_tests();
  switch (reg.id) {
    case RegisterId::sms:
      return identity.sms;
    case RegisterId::gpcs:
      return identity.gpcs;
    case RegisterId::queues:
      return identity.queues;
    case RegisterId::copy_engines:
      return identity.copy_engines;
    case RegisterId::memory_bytes:
      return identity.memory;
    case RegisterId::clock_mhz:
      return identity.clock_mhz;
    case RegisterId::clock_period:
      return identity.clock_period;
    case RegisterId::doorbell_page:
      return identity.doorbell_page;
    case RegisterId::packet_format:
      return identity.packet_format;
    case RegisterId::timestamp:
      return 0;  // at the start
    case RegisterId::threads_limit:
      return identity.limits.max_threads_per_cta;
    case RegisterId::shared_limit:
      return identity.limits.max_shared_per_cta;
    default:
      return reg.reset;
  }
}

// Every register of the table that the machine has.
template <class Act>
void for_each_register(Act&& act) {
  for (const Register& reg : host::register_table()) {
    for (std::uint32_t i = 0; i < reg.count; ++i) {
      if (reg.array == host::RegisterArray::queue && i >= identity_for_tests().queues) break;
      for (std::uint32_t w = 0; w < reg.words; ++w) act(reg, host::offset_of(reg.id, i, w));
    }
  }
}

QueueEventPacket state_event(std::uint32_t queue, QueueState state) {
  QueueEventPacket packet;
  packet.queue = queue;
  packet.state = state;
  return packet;
}

}  // namespace

TEST_CASE("every register has its reset value, whole and by halves, absolute and relative", "[host][HST-01][HST-02]") {
  host::HostParams params;
  params.bar0 = 0x8000'0000;
  HostBench bench(params);
  start();
  for_each_register([&](const Register& reg, std::uint64_t offset) {
    if (reg.access == RegisterAccess::wo || reg.id == RegisterId::timestamp) return;
    CAPTURE(reg.name);
    const std::uint64_t expected = reset_value(reg);
    REQUIRE(bench.read(offset, reg.bytes) == expected);
    REQUIRE(bench.read(params.bar0 + offset, reg.bytes) == expected);
    if (reg.bytes == 4) return;
    REQUIRE(bench.read(offset, 4) == (expected & 0xFFFF'FFFF));
    REQUIRE(bench.read(offset + 4, 4) == expected >> 32);
  });
}

TEST_CASE("every register refuses what its kind does not allow", "[host][HST-01][HST-02]") {
  HostBench bench;
  start();
  for_each_register([&](const Register& reg, std::uint64_t offset) {
    CAPTURE(reg.name);
    std::uint64_t value = 0x1234'5678;
    switch (reg.access) {
      case RegisterAccess::ro:
        REQUIRE(bench.write(offset, reg.bytes, value) == tlm::TLM_COMMAND_ERROR_RESPONSE);
        REQUIRE(bench.write(offset, 4, value) == tlm::TLM_COMMAND_ERROR_RESPONSE);
        if (reg.id != RegisterId::timestamp) REQUIRE(bench.read(offset, reg.bytes) == reset_value(reg));
        break;
      case RegisterAccess::wo:
        REQUIRE(bench.access(tlm::TLM_READ_COMMAND, offset, reg.bytes, value) == tlm::TLM_COMMAND_ERROR_RESPONSE);
        REQUIRE(value == 0x1234'5678);
        break;
      case RegisterAccess::rw:
        REQUIRE(bench.write(offset, reg.bytes, ~std::uint64_t{0}) == tlm::TLM_OK_RESPONSE);
        REQUIRE(bench.read(offset, reg.bytes) == host::bits_of(reg));
        REQUIRE(bench.write(offset, reg.bytes, 0) == tlm::TLM_OK_RESPONSE);
        REQUIRE(bench.read(offset, reg.bytes) == 0);
        break;
      case RegisterAccess::w1c:
        REQUIRE(bench.write(offset, reg.bytes, ~std::uint64_t{0}) == tlm::TLM_OK_RESPONSE);
        REQUIRE(bench.read(offset, reg.bytes) == 0);
        break;
    }
  });
  run_until_idle();
  CHECK(bench.front_end.commands.empty());
}

TEST_CASE("accesses that no register understands are answered with the fitting error", "[host][HST-01][HST-02]") {
  HostBench bench;
  start();
  std::uint64_t value = 5;
  const auto read = [&](std::uint64_t offset, unsigned bytes) {
    return bench.access(tlm::TLM_READ_COMMAND, offset, bytes, value);
  };
  CHECK(read(0x1F0, 4) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(read(0x1F4, 4) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(read(host::bar0_bytes(4096), 4) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(read(~std::uint64_t{3}, 4) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(read(host::offset_of(RegisterId::queue_state, 6), 4) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.write(host::offset_of(RegisterId::doorbell, 6), 8, 1) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(read(0x000, 8) == tlm::TLM_BURST_ERROR_RESPONSE);
  CHECK(read(0x000, 2) == tlm::TLM_BURST_ERROR_RESPONSE);
  CHECK(read(0x002, 4) == tlm::TLM_BURST_ERROR_RESPONSE);
  CHECK(read(0x01C, 8) == tlm::TLM_BURST_ERROR_RESPONSE);
  CHECK(value == 5);

  std::vector<std::uint8_t> enables{0xFF, 0xFF, 0, 0xFF};
  tlm::tlm_generic_payload& payload =
      bench.registers.request(tlm::TLM_WRITE_COMMAND, 0x030, reinterpret_cast<std::uint8_t*>(&value), 4);
  sc_time delay;
  payload.set_byte_enable_ptr(enables.data());
  payload.set_byte_enable_length(4);
  CHECK(bench.transport(bench.registers, payload, delay) == tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
  CHECK(bench.get(RegisterId::scratch) == 0);
  payload.set_byte_enable_length(2);  // the first two, over and over
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  CHECK(bench.transport(bench.registers, payload, delay) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.get(RegisterId::scratch) == 5);
  payload.set_byte_enable_ptr(nullptr);
  payload.set_byte_enable_length(0);
  payload.set_streaming_width(2);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  CHECK(bench.transport(bench.registers, payload, delay) == tlm::TLM_BURST_ERROR_RESPONSE);
  payload.set_streaming_width(4);
  payload.set_command(tlm::TLM_IGNORE_COMMAND);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  CHECK(bench.transport(bench.registers, payload, delay) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.get(RegisterId::scratch) == 5);
  payload.release();
  CHECK(delay == ns(400));
}

TEST_CASE("platforms that set the status beforehand, or no streaming width, are served", "[host][HST-02]") {
  HostBench bench;
  start();
  std::uint64_t value = 0;
  tlm::tlm_generic_payload payload;  // without a memory manager
  payload.set_command(tlm::TLM_READ_COMMAND);
  payload.set_address(0);
  payload.set_data_ptr(reinterpret_cast<std::uint8_t*>(&value));
  payload.set_data_length(4);
  payload.set_streaming_width(0);
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  sc_time delay = ns(5);
  bench.host.bar0().get_base_interface().b_transport(payload, delay);
  CHECK(payload.is_response_ok());
  CHECK(value == host::kMagic);
  CHECK(delay == ns(105));
  // And a status of OK does not hide an error.
  payload.set_address(0x1F0);
  bench.host.bar0().get_base_interface().b_transport(payload, delay);
  CHECK(payload.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  payload.set_address(0);
  payload.set_data_ptr(nullptr);
  bench.host.bar0().get_base_interface().b_transport(payload, delay);
  CHECK(payload.get_response_status() == tlm::TLM_GENERIC_ERROR_RESPONSE);
}

TEST_CASE("a queue is opened, rings, and is closed by registers", "[host][HST-01][PKT-01][PKT-12]") {
  HostBench bench;
  start();
  bench.set(RegisterId::queue_base, 0x8000'0000'0001'0040, 3);
  bench.set(RegisterId::queue_read_index_address, 0x40, 3);
  bench.set(RegisterId::queue_first, 0x1'0000'0000, 3);
  bench.set(RegisterId::queue_size, 256, 3);
  bench.set(RegisterId::queue_priority, 0xFFFF'FFFE, 3);
  bench.set(RegisterId::queue_subcontext, 0x17, 3);
  bench.set(RegisterId::queue_command, host::kQueueOpen, 3);
  CHECK(bench.write(host::doorbell_at(3, 0x17, 4096), 8, 0x1'0000'0004) == tlm::TLM_OK_RESPONSE);
  bench.set(RegisterId::queue_command, host::kQueueClose, 3);
  CHECK(bench.write(host::offset_of(RegisterId::queue_command, 3), 4, 4) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  run_until_idle();
  const auto& commands = bench.front_end.commands;
  REQUIRE(commands.size() == 3);
  CHECK(commands[0].second.command == QueueCommand::open);
  CHECK(commands[0].second.queue == 3);
  CHECK(commands[0].second.setup.base == 0x8000'0000'0001'0040);
  CHECK(commands[0].second.setup.read_index == 0x40);
  CHECK(commands[0].second.setup.first == 0x1'0000'0000);
  CHECK(commands[0].second.setup.size == 256);
  CHECK(commands[0].second.setup.priority == -2);
  CHECK(commands[0].second.setup.subcontext == 0x17);
  CHECK(commands[0].first == 120);  // the access, and `doorbell` cycles
  CHECK(commands[1].second.command == QueueCommand::doorbell);
  CHECK(commands[1].second.index == 0x1'0000'0004);
  CHECK(commands[2].second.command == QueueCommand::close);

  // What the packet processor says is what the registers show.
  bench.tell(state_event(3, QueueState::active));
  CHECK(bench.get(RegisterId::queue_state, 3) == 1);
  CHECK(bench.get(RegisterId::queue_read_index, 3) == 0x1'0000'0000);
  QueueEventPacket read;
  read.event = QueueEvent::read;
  read.queue = 3;
  read.index = 0x1'0000'0003;
  bench.tell(read);
  CHECK(bench.get(RegisterId::queue_read_index, 3) == 0x1'0000'0003);
  CHECK(bench.get(RegisterId::int_status) == 0);
  bench.tell(state_event(3, QueueState::draining));
  CHECK(bench.get(RegisterId::queue_state, 3) == 3);
  CHECK(bench.get(RegisterId::int_status) == 0);
  bench.tell(state_event(3, QueueState::closed));
  CHECK(bench.get(RegisterId::queue_state, 3) == 0);
  CHECK(bench.get(RegisterId::int_status) == host::kIntQueueClosed);
}

TEST_CASE("the delay of a call counts for commands, and their order stays", "[host][HST-02]") {
  HostBench bench;
  start();
  const auto ring = [&](std::uint64_t index, double after) {
    tlm::tlm_generic_payload& payload = bench.registers.request(
        tlm::TLM_WRITE_COMMAND, host::offset_of(RegisterId::doorbell), reinterpret_cast<std::uint8_t*>(&index), 8);
    sc_time delay = ns(after);
    CHECK(bench.transport(bench.registers, payload, delay) == tlm::TLM_OK_RESPONSE);
    CHECK(delay == ns(after + 100));
    payload.release();
  };
  ring(1, 1000);
  ring(2, 0);  // by somebody whose time is behind
  run_until_idle();
  REQUIRE(bench.front_end.commands.size() == 2);
  CHECK(bench.front_end.commands[0].first == 1120);
  CHECK(bench.front_end.commands[0].second.index == 1);
  CHECK(bench.front_end.commands[1].first == 1120);
  CHECK(bench.front_end.commands[1].second.index == 2);
}

TEST_CASE("a queue error is in the queue's registers and the device's", "[host][HST-01][PKT-09]") {
  HostBench bench;
  start();
  QueueEventPacket error = state_event(2, QueueState::error);
  error.status = arch::HsaStatus::invalid_packet_format;
  error.index = 0x5'0000'0007;
  error.kernel = 3;
  bench.tell(error);
  CHECK(bench.get(RegisterId::queue_state, 2) == 2);
  CHECK(bench.get(RegisterId::queue_error_status, 2) == 0x1009);
  CHECK(bench.get(RegisterId::queue_error_index, 2) == 0x5'0000'0007);
  CHECK(bench.get(RegisterId::queue_error_kernel, 2) == 3);
  CHECK(bench.get(RegisterId::queue_error_status, 1) == 0);
  CHECK(bench.get(RegisterId::error_queue) == 2);
  CHECK(bench.get(RegisterId::error_status) == 0x1009);
  CHECK(bench.get(RegisterId::error_index) == 0x5'0000'0007);
  CHECK(bench.get(RegisterId::error_kernel) == 3);
  CHECK(bench.get(RegisterId::error_count) == 1);
  CHECK(bench.get(RegisterId::int_status) == host::kIntQueueError);
  // Of another queue: its own registers keep theirs.
  error.queue = 0;
  error.status = arch::HsaStatus::exception;
  bench.tell(error);
  CHECK(bench.get(RegisterId::error_queue) == 0);
  CHECK(bench.get(RegisterId::error_count) == 2);
  CHECK(bench.get(RegisterId::queue_error_status, 2) == 0x1009);
  // A refused opening leaves the state, and is an error.
  bench.tell(state_event(4, QueueState::active));
  QueueEventPacket refused = state_event(4, QueueState::active);
  refused.status = arch::HsaStatus::invalid_queue;
  bench.tell(refused);
  CHECK(bench.get(RegisterId::queue_state, 4) == 1);
  CHECK(bench.get(RegisterId::queue_error_status, 4) == 0x1007);
  CHECK(bench.get(RegisterId::error_count) == 3);
  // Opened again: nothing is wrong with it any more.
  bench.tell(state_event(2, QueueState::closed));
  CHECK(bench.get(RegisterId::queue_error_status, 2) == 0x1009);
  bench.tell(state_event(2, QueueState::active));
  CHECK(bench.get(RegisterId::queue_error_status, 2) == 0);
  CHECK(bench.get(RegisterId::queue_error_index, 2) == 0);
}

TEST_CASE("an agent packet is shown to the host and ended by it", "[host][HST-01][PKT-02]") {
  HostBench bench;
  start();
  const auto refused = [&](RegisterId id) {
    return bench.write(host::offset_of(id, 1), 4, 0) == tlm::TLM_GENERIC_ERROR_RESPONSE;
  };
  CHECK(refused(RegisterId::agent_take));
  CHECK(refused(RegisterId::agent_done));
  QueueEventPacket agent;
  agent.event = QueueEvent::agent;
  agent.queue = 1;
  agent.index = 12;
  for (std::size_t i = 0; i < 64; ++i) agent.packet[i] = static_cast<std::uint8_t>(3 * i + 1);
  bench.tell(agent);
  CHECK(bench.get(RegisterId::int_status) == host::kIntAgent);
  CHECK(bench.get(RegisterId::agent_state, 1) == 1);
  CHECK(bench.get(RegisterId::agent_state, 0) == 0);
  CHECK(bench.get(RegisterId::agent_index, 1) == 12);
  for (std::uint32_t word = 0; word < 8; ++word) {
    std::uint64_t expected = 0;
    for (std::uint32_t i = 0; i < 8; ++i) expected |= std::uint64_t{agent.packet[8 * word + i]} << 8 * i;
    CHECK(bench.get(RegisterId::agent_packet, 1, word) == expected);
  }
  CHECK(refused(RegisterId::agent_done));  // it has to be taken first
  bench.set(RegisterId::agent_take, 1, 1);
  bench.set(RegisterId::agent_done_index, 12, 1);
  bench.set(RegisterId::agent_done, 0x1001, 1);
  run_until_idle();
  REQUIRE(bench.front_end.commands.size() == 1);
  CHECK(bench.front_end.commands[0].second.command == QueueCommand::agent_done);
  CHECK(bench.front_end.commands[0].second.queue == 1);
  CHECK(bench.front_end.commands[0].second.index == 12);
  CHECK(bench.front_end.commands[0].second.status == 0x1001);
  CHECK(bench.get(RegisterId::agent_state, 1) == 0);
  CHECK(refused(RegisterId::agent_done));
}

TEST_CASE("copy channels hand over copies and fills, each one at a time", "[host][HST-01][HST-05]") {
  HostBench bench;
  start();
  for (std::uint32_t channel = 0; channel < 4; ++channel) {
    bench.set(RegisterId::copy_from, 0x1000 + channel, channel);
    bench.set(RegisterId::copy_to, 0x8000'0000'0000'2000 + channel, channel);
    bench.set(RegisterId::copy_bytes, 100 + channel, channel);
    bench.set(RegisterId::copy_value, 0xABCD + channel, channel);
    bench.set(RegisterId::copy_kind, channel % 2, channel);
    bench.set(RegisterId::copy_subcontext, channel, channel);
    bench.set(RegisterId::copy_command, host::kCopyStart, channel);
    CHECK(bench.get(RegisterId::copy_state, channel) == host::kCopyBusy);
    CHECK(bench.write(host::offset_of(RegisterId::copy_command, channel), 4, 1) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  }
  run_until_idle();
  REQUIRE(bench.front_end.copies.size() == 4);
  for (std::uint32_t channel = 0; channel < 4; ++channel) {
    const protocol::CopyRequestPacket& copy = bench.front_end.copies[channel].second;
    CHECK(copy.tag == channel);
    CHECK(copy.from == 0x1000 + channel);
    CHECK(copy.to == 0x8000'0000'0000'2000 + channel);
    CHECK(copy.bytes == 100 + channel);
    CHECK(copy.value == 0xABCD + channel);
    CHECK(static_cast<unsigned>(copy.kind) == channel % 2);
    CHECK(copy.subcontext == channel);
  }
  protocol::CopyDonePacket done;
  done.tag = 2;
  done.start = 40;
  done.end = 100;
  bench.tell(done);
  CHECK(bench.get(RegisterId::copy_state, 2) == host::kCopyDone);
  CHECK(bench.get(RegisterId::copy_cycles, 2) == 60);
  CHECK(bench.get(RegisterId::copy_error_address, 2) == 0);
  CHECK(bench.get(RegisterId::copy_state, 1) == host::kCopyBusy);
  CHECK(bench.get(RegisterId::int_status) == host::kIntCopyDone);
  bench.set(RegisterId::int_status, host::kIntCopyDone);
  done.tag = 0;
  done.status = arch::HsaStatus::error;
  done.address = 0x1080;
  bench.tell(done);
  CHECK(bench.get(RegisterId::copy_state, 0) == host::kCopyError);
  CHECK(bench.get(RegisterId::copy_status, 0) == 0x1000);
  CHECK(bench.get(RegisterId::copy_error_address, 0) == 0x1080);
  CHECK(bench.get(RegisterId::int_status) == host::kIntCopyError);
  // A channel that is done can be used again, for what is defined.
  bench.set(RegisterId::copy_kind, 2, 0);
  CHECK(bench.write(host::offset_of(RegisterId::copy_command, 0), 4, 1) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  bench.set(RegisterId::copy_kind, 0, 0);
  CHECK(bench.write(host::offset_of(RegisterId::copy_command, 0), 4, 2) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  bench.set(RegisterId::copy_command, host::kCopyStart, 0);
  CHECK(bench.get(RegisterId::copy_status, 0) == 0);
  run_until_idle();
  CHECK(bench.front_end.copies.size() == 5);
}

TEST_CASE("debug accesses to registers change nothing", "[host][HST-01][HST-02]") {
  HostBench bench;
  start();
  QueueEventPacket signal;
  signal.event = QueueEvent::signal;
  signal.event_id = 99;
  bench.tell(signal);
  std::vector<std::uint8_t> bytes(host::bar0_bytes(4096) + 100, 0xEE);
  tlm::tlm_generic_payload& payload =
      bench.registers.request(tlm::TLM_READ_COMMAND, 0, bytes.data(), static_cast<unsigned>(bytes.size()));
  CHECK(bench.registers.out->transport_dbg(payload) == host::bar0_bytes(4096));
  CHECK(bytes[0] == 'H');
  CHECK(bytes[0x80] == 99);
  CHECK(bytes[0x84] == 1);
  CHECK(bytes[host::kDoorbellBase] == 0);
  CHECK(bytes[host::bar0_bytes(4096)] == 0xEE);
  payload.set_address(0x1F);  // any place and length
  payload.set_data_length(3);
  CHECK(bench.registers.out->transport_dbg(payload) == 3);
  CHECK(bytes[0] == 0);
  CHECK(bytes[1] == 1000 % 256);
  payload.set_address(host::bar0_bytes(4096));
  CHECK(bench.registers.out->transport_dbg(payload) == 0);
  payload.set_command(tlm::TLM_WRITE_COMMAND);
  payload.set_address(0x30);
  CHECK(bench.registers.out->transport_dbg(payload) == 0);
  payload.release();
  CHECK(bench.get(RegisterId::scratch) == 0);
  CHECK(bench.get(RegisterId::event_count) == 1);
  CHECK(bench.get(RegisterId::event) == (std::uint64_t{1} << 32 | 99));
  CHECK(bench.get(RegisterId::event_count) == 0);
  // No direct access to registers.
  tlm::tlm_dmi dmi;
  tlm::tlm_generic_payload& direct = bench.registers.request(tlm::TLM_READ_COMMAND, 0, bytes.data(), 4);
  CHECK_FALSE(bench.registers.out->get_direct_mem_ptr(direct, dmi));
  CHECK(dmi.is_none_allowed());
  direct.release();
  CHECK(bench.device.direct_asked == 0);
}

TEST_CASE("registers answer non-blocking accesses, pipelined and with a slow initiator", "[host][HST-02]") {
  HostBench bench;
  start();
  const bool hold = GENERATE(false, true);
  CAPTURE(hold);
  bench.registers.hold_responses = hold;
  std::vector<std::uint64_t> values(8, 0);
  std::vector<tlm::tlm_generic_payload*> payloads;
  for (unsigned i = 0; i < 8; ++i) {
    const bool write = i % 2 == 0;
    values[i] = write ? 100 + i : 0;
    payloads.push_back(&bench.registers.request(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, 0x30,
                                                reinterpret_cast<std::uint8_t*>(&values[i]), 4));
    CHECK(bench.registers.forward(*payloads[i], tlm::BEGIN_REQ, ns(10 * i)) == tlm::TLM_UPDATED);
    CHECK(bench.registers.left == tlm::END_REQ);
  }
  auto& responses = bench.registers.responses;
  for (unsigned i = 0; i < 8; ++i) {
    if (hold) {
      run_until_idle();
      REQUIRE(responses.size() == i + 1);  // the next one waits for END_RESP
      CHECK_FALSE(bench.host.idle());
      CHECK(bench.registers.forward(*payloads[i], tlm::END_RESP, ns(30)) == tlm::TLM_COMPLETED);
    }
  }
  run_until_idle();
  REQUIRE(responses.size() == 8);
  for (unsigned i = 0; i < 8; ++i) {
    CHECK(responses[i].payload == payloads[i]);
    CHECK(responses[i].status == tlm::TLM_OK_RESPONSE);
    if (i % 2 == 1) CHECK(values[i] == 100 + i - 1);
    CHECK(responses[i].when >= ns(100 + 10 * i));
    if (!hold) CHECK(responses[i].when == ns(100 + 10 * i));
    payloads[i]->release();
  }
  CHECK(bench.host.idle());
  CHECK(bench.registers.pool.in_use() == 0);
}

TEST_CASE("random register traffic over both kinds of transport finds what was written", "[host][HST-01][HST-02]") {
  for (const std::uint64_t seed : seeds(5)) {
    CAPTURE(seed);
    Random random(seed);
    HostBench bench;
    start();
    std::map<std::uint64_t, std::uint64_t> kept;  // by offset
    const host::RegisterTable table = host::register_table();
    for (unsigned step = 0; step < 400; ++step) {
      const Register& reg = table.registers[random.below(table.count)];
      if (reg.access != RegisterAccess::rw || reg.id == RegisterId::int_mask) continue;
      const std::uint32_t count = std::min(reg.count, reg.array == host::RegisterArray::queue ? 6U : reg.count);
      const std::uint64_t offset = host::offset_of(reg.id, random.below(count));
      const bool write = random.chance(50);
      const bool blocking = random.chance(50);
      std::uint64_t value = write ? random.next() : 0;
      CAPTURE(reg.name, step, write, blocking);
      tlm::tlm_generic_payload& payload =
          bench.registers.request(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, offset,
                                  reinterpret_cast<std::uint8_t*>(&value), reg.bytes);
      sc_time delay;
      if (blocking) {
        bench.transport(bench.registers, payload, delay);
      } else {
        bench.registers.forward(payload, tlm::BEGIN_REQ, ns(random.below(50)));
        run_until_idle();
      }
      REQUIRE(payload.is_response_ok());
      payload.release();
      if (write) {
        kept[offset] = value & host::bits_of(reg);
      } else {
        REQUIRE(value == kept[offset]);
      }
    }
  }
}

}  // namespace heddle::test::host_interface_registers_test
