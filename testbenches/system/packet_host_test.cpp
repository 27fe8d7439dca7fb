// What a host sees of queues beside their packets: interrupts, agent packets, resets, direct memory, the end of a
// queue.
#include <utility>

#include "support/packet_programs.h"

namespace system_packet_host_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;

TEST_CASE("a signal that asks for an interrupt raises it, with its event in mailbox and register", "[system][PKT-04]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  REQUIRE(heddle_device_mask(&m.device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
  heddle_queue queue = lab.open_queue(0, 5, 8, false);
  const std::uint64_t mailbox = lab.take_host(64);
  const std::uint64_t handle = lab.take_host(64) | HEDDLE_SIGNAL_INTERRUPT;
  REQUIRE(heddle_signal_init(&m.bus, handle, 1, mailbox, 77) == HEDDLE_OK);
  submit(queue, {kernel(PacketLab::dispatch(lab.timed_object(0, 2000), 32, 32, handle))});
  for (int i = 0; i < 1000 && !m.irq.read(); ++i) m.bus.relax(nullptr);
  REQUIRE(m.irq.read());
  CHECK(m.read<std::int64_t>(handle & ~HEDDLE_SIGNAL_INTERRUPT) == 0);
  CHECK(m.read<std::uint32_t>(mailbox) == 77);
  std::uint32_t event = 0;
  REQUIRE(heddle_device_event(&m.device, &event) == HEDDLE_OK);
  CHECK(event == 77);
  CHECK(heddle_device_event(&m.device, &event) == HEDDLE_EMPTY);
  REQUIRE(heddle_device_acknowledge(&m.device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
  settle(lab);
  CHECK_FALSE(m.irq.read());
}

TEST_CASE("an agent packet goes to the host, and holds what waits for it", "[system][PKT-02]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 8, true);
  const std::uint64_t signal = lab.new_signal(0, true, 1);
  const std::uint64_t word = lab.take_device(128);
  heddle_agent agent{};
  agent.function = 0x1234;
  agent.arguments[2] = 0xFEEDull;
  agent.return_address = word;
  std::vector<heddle_packet> packets(2);
  heddle_packet_agent(&packets[0], &agent);
  heddle_dispatch d = PacketLab::dispatch(lab.program_object(0, step_program(4)), 32, 32, signal);
  d.kernarg = word;
  packets[1] = kernel(d);
  submit(queue, packets);
  std::uint64_t index = 9;
  heddle_agent seen{};
  heddle_status status = HEDDLE_EMPTY;
  for (int i = 0; i < 1000 && status == HEDDLE_EMPTY; ++i) {
    m.bus.relax(nullptr);
    status = heddle_queue_take_agent(&queue, &index, &seen);
  }
  REQUIRE(status == HEDDLE_OK);
  CHECK(index == 0);
  CHECK(seen.function == 0x1234);
  CHECK(seen.arguments[2] == 0xFEED);
  sc_core::sc_start(sc_core::sc_time(50, sc_core::SC_US));
  CHECK(m.read<std::int64_t>(signal) == 1);  // the kernel waits
  m.write<std::uint32_t>(seen.return_address, 10);
  REQUIRE(heddle_queue_agent_done(&queue, index, HEDDLE_HSA_SUCCESS) == HEDDLE_OK);
  CHECK(wait_below(m, signal) == 0);
  CHECK(m.read<std::uint32_t>(word) == 34);
  settle(lab);
}

TEST_CASE("a reset in mid-flight, by register or by pin, leaves a machine like new", "[system][HST-01]") {
  const bool by_pin = GENERATE(true, false);
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  const std::uint64_t object = lab.program_object(0, step_program(2));
  const std::uint64_t timed = lab.timed_object(0, 500);
  for (std::uint32_t round = 0; round < 6; ++round) {
    const std::uint64_t word = lab.take_device(128);
    m.write<std::uint32_t>(word, 1);
    heddle_queue queue = lab.open_queue(0, 0, 16, true);
    heddle_queue copies = lab.open_queue(0, 1, 16, false);
    const std::uint64_t ignored = lab.new_signal(0, true, 100);
    std::vector<heddle_packet> packets;
    for (int i = 0; i < 8; ++i) packets.push_back(kernel(PacketLab::dispatch(timed, 640, 64, ignored, i % 2 == 0)));
    submit(queue, packets);
    heddle_packet copy{};
    heddle_packet_copy(&copy, 0, lab.take_host(1 << 14), lab.take_device(1 << 14), 1 << 14, ignored);
    submit(copies, {copy, copy});
    sc_core::sc_start(sc_core::sc_time(200 + 777.0 * round, sc_core::SC_NS));
    if (by_pin) {
      m.rst.write(true);
      sc_core::sc_start(sc_core::sc_time(10, sc_core::SC_NS));
      m.rst.write(false);
      sc_core::sc_start(sc_core::sc_time(10, sc_core::SC_NS));
    } else {
      REQUIRE(heddle_device_reset(&m.device, 0) == HEDDLE_OK);
      sc_core::sc_start(sc_core::sc_time(10, sc_core::SC_NS));
    }
    heddle_queue fresh = lab.open_queue(0, 0, 16, true);
    const std::uint64_t signal = lab.new_signal(0, true, 2);
    heddle_dispatch d = PacketLab::dispatch(object, 32, 32, signal);
    d.kernarg = word;
    submit(fresh, {kernel(d), kernel(d)});
    CHECK(wait_below(m, signal) == 0);
    CHECK(m.read<std::uint32_t>(word) == (1 * 3 + 2) * 3 + 2);
    REQUIRE(heddle_queue_destroy(&fresh, 10'000) == HEDDLE_OK);
  }
  settle(lab);
}

TEST_CASE("direct memory is granted, used and taken back while kernels run", "[system][HST-02]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  const std::uint64_t word = lab.take_device(16384, 16384);
  const std::uint64_t object = lab.program_object(0, step_program(7));
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  std::uint32_t expected = 1;
  bool valid = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> revoked;
  m.bar1.socket.register_invalidate_direct_mem_ptr(&m.bar1, &BusMaster::invalidate);
  m.bar1.on_invalidate = [&](std::uint64_t first, std::uint64_t last) {
    revoked.emplace_back(first, last);
    if (first <= word && word <= last) valid = false;
  };
  std::uint32_t grants = 0;
  std::uint8_t* pointer = nullptr;
  m.write<std::uint32_t>(word, 1);
  for (int round = 0; round < 10; ++round) {
    tlm::tlm_generic_payload payload;
    payload.set_command(tlm::TLM_READ_COMMAND);
    payload.set_address(word);
    tlm::tlm_dmi dmi;
    if (m.bar1.socket->get_direct_mem_ptr(payload, dmi)) {
      REQUIRE(dmi.get_start_address() <= word);
      REQUIRE(dmi.get_end_address() >= word + 3);
      pointer = dmi.get_dmi_ptr() + (word - dmi.get_start_address());
      valid = true;
      ++grants;
      std::uint32_t seen = 0;
      std::memcpy(&seen, pointer, 4);
      CHECK(seen == expected);
      expected = 100 + static_cast<std::uint32_t>(round);
      std::memcpy(pointer, &expected, 4);
    }
    CHECK(m.read<std::uint32_t>(word) == expected);
    const std::uint64_t signal = lab.new_signal(0, true, 1);
    heddle_dispatch d = PacketLab::dispatch(object, 32, 32, signal);
    d.kernarg = word;
    submit(queue, {kernel(d)});
    CHECK(wait_below(m, signal) == 0);
    CHECK_FALSE(valid);  // the kernel has touched it
    expected = expected * 3 + 7;
    CHECK(m.read<std::uint32_t>(word) == expected);
    sc_core::sc_start(sc_core::sc_time(10, sc_core::SC_US));
  }
  CHECK(grants == 10);
  CHECK(revoked.size() >= 10);
  settle(lab);
}

TEST_CASE("a queue that is destroyed with kernels in flight lets them end", "[system][PKT-01]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const std::uint64_t signal = lab.new_signal(0, true, 10);
  const std::uint64_t object = lab.timed_object(0, 20'000);
  std::vector<heddle_packet> packets;
  for (int i = 0; i < 10; ++i) packets.push_back(kernel(PacketLab::dispatch(object, 64, 64, signal)));
  submit(queue, packets);
  sc_core::sc_start(sc_core::sc_time(30, sc_core::SC_US));  // the first has ended, the second runs
  REQUIRE(heddle_queue_destroy(&queue, 100'000) == HEDDLE_OK);
  const std::int64_t left = m.read<std::int64_t>(signal);
  CHECK(left < 10);
  CHECK(left > 5);
  sc_core::sc_start(sc_core::sc_time(500, sc_core::SC_US));
  CHECK(m.read<std::int64_t>(signal) == left);
  CHECK(m.stat("task.kernels") == static_cast<double>(10 - left));
  settle(lab);
}

}  // namespace system_packet_host_test
