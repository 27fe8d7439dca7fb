// Interrupt and reset.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "host/host_interface_bench.h"

namespace heddle::test::host_interface_signals_test {
namespace {

using protocol::QueueEvent;
using protocol::QueueState;
using Changes = std::vector<std::pair<sc_time, bool>>;

QueueEventPacket event_of(QueueEvent event) {
  QueueEventPacket packet;
  packet.event = event;
  return packet;
}

}  // namespace

TEST_CASE("every interrupt bit rises with its cause, under its mask, until it is cleared", "[host][HST-01][PKT-09]") {
  struct Cause {
    std::uint32_t bit;
    std::function<void(HostBench&)> happen;
  };
  const std::vector<Cause> causes{
      {host::kIntSignal, [](HostBench& b) { b.tell(event_of(QueueEvent::signal)); }},
      {host::kIntQueueError,
       [](HostBench& b) {
         QueueEventPacket packet = event_of(QueueEvent::state);
         packet.state = QueueState::error;
         packet.status = arch::HsaStatus::invalid_argument;
         b.tell(packet);
       }},
      {host::kIntAgent, [](HostBench& b) { b.tell(event_of(QueueEvent::agent)); }},
      {host::kIntCopyDone,
       [](HostBench& b) {
         b.set(RegisterId::copy_command, host::kCopyStart, 0);
         b.tell(protocol::CopyDonePacket{});
       }},
      {host::kIntCopyError,
       [](HostBench& b) {
         b.set(RegisterId::copy_command, host::kCopyStart, 0);
         protocol::CopyDonePacket packet;
         packet.status = arch::HsaStatus::error;
         b.tell(packet);
       }},
      {host::kIntFault, [](HostBench& b) { b.tell(event_of(QueueEvent::fault)); }},
      {host::kIntFault, [](HostBench& b) { b.host.note_fault(); }},
      {host::kIntOverflow | host::kIntSignal,
       [](HostBench& b) {
         for (unsigned i = 0; i < 3; ++i) b.tell(event_of(QueueEvent::signal));
       }},
      {host::kIntQueueClosed,
       [](HostBench& b) {
         QueueEventPacket packet = event_of(QueueEvent::state);
         for (const QueueState state : {QueueState::active, QueueState::closed}) {
           packet.state = state;
           b.tell(packet);
         }
       }},
      {host::kIntSoftware, [](HostBench& b) { b.set(RegisterId::int_set, host::kIntSoftware); }},
  };
  for (const Cause& cause : causes) {
    CAPTURE(cause.bit);
    host::HostParams params;
    params.event_fifo = 2;
    HostBench bench(params);
    start();
    std::uint32_t bit = cause.bit;
    while ((bit & (bit - 1)) != 0) bit &= bit - 1;                // an overflow comes with signals
    bench.set(RegisterId::int_mask, host::kIntAll & ~cause.bit);  // all but that one
    cause.happen(bench);
    run_until_idle();
    CHECK(bench.get(RegisterId::int_status) == cause.bit);
    CHECK(bench.get(RegisterId::int_pending) == 0);
    CHECK_FALSE(bench.irq.signal.read());
    bench.set(RegisterId::int_mask, bit);
    run_until_idle();
    CHECK(bench.get(RegisterId::int_pending) == bit);
    CHECK(bench.irq.signal.read());
    bench.set(RegisterId::int_status, host::kIntAll & ~bit);  // others are cleared, this one stays
    run_until_idle();
    CHECK(bench.get(RegisterId::int_status) == bit);
    CHECK(bench.irq.signal.read());
    bench.set(RegisterId::int_status, bit);
    run_until_idle();
    CHECK(bench.get(RegisterId::int_status) == 0);
    CHECK_FALSE(bench.irq.signal.read());
    CHECK(bench.irq.changes.size() == 2);
  }
}

TEST_CASE("faults are counted: of all kernels, and of a queue's", "[host][HST-01]") {
  HostBench bench;
  start();
  bench.host.note_fault();
  bench.host.note_fault();
  QueueEventPacket fault = event_of(QueueEvent::fault);
  fault.queue = 5;
  bench.tell(fault);
  CHECK(bench.get(RegisterId::fault_count) == 2);
  CHECK(bench.get(RegisterId::queue_faults, 5) == 1);
  CHECK(bench.get(RegisterId::queue_faults, 4) == 0);
}

TEST_CASE("the interrupt changes at its time although the domain is ahead", "[host][HST-01][HST-02]") {
  HostBench bench;
  start();
  bench.set(RegisterId::int_mask, host::kIntAll);
  bench.front_end.event_out.send_at(300, event_of(QueueEvent::signal));
  for (const Cycle when : {301U, 600U, 900U}) bench.front_end.event_out.send_at(when, event_of(QueueEvent::read));
  std::uint64_t clear = host::kIntAll;
  tlm::tlm_generic_payload& payload =
      bench.registers.request(tlm::TLM_WRITE_COMMAND, 0x40, reinterpret_cast<std::uint8_t*>(&clear), 4);
  bench.registers.forward(payload, tlm::BEGIN_REQ, ns(500));
  run_until_idle();
  payload.release();
  CHECK(bench.irq.changes == Changes{{ns(300), true}, {ns(600), false}});
  CHECK(bench.observation.stats.to_json()["gpu0.host.interrupts"]["value"] == 1);
}

TEST_CASE("between two runs the registers may be ahead of the interrupt, which keeps its time", "[host][HST-01]") {
  HostBench bench;
  start();
  bench.set(RegisterId::int_mask, host::kIntAll);
  bench.front_end.event_out.send_at(5, event_of(QueueEvent::read));
  bench.front_end.event_out.send_at(300, event_of(QueueEvent::signal));
  run_until(ns(10));
  CHECK(bench.get(RegisterId::int_pending) == host::kIntSignal);  // the domain has run all that there is
  CHECK_FALSE(bench.irq.signal.read());
  run_until(ns(299));
  CHECK_FALSE(bench.irq.signal.read());
  run_until(ns(301));
  CHECK(bench.irq.changes == Changes{{ns(300), true}});
}

TEST_CASE("without anything bound to irq and rst the device works", "[host][HST-01]") {
  HostBench bench({}, TimingMode::at, false);
  start();
  bench.set(RegisterId::int_mask, host::kIntAll);
  bench.set(RegisterId::int_set, 1);
  run_until_idle();
  CHECK(bench.get(RegisterId::int_pending) == 1);
  CHECK(bench.device.resets == 0);
}

TEST_CASE("a soft reset brings every register back, and the interrupt down", "[host][HST-01]") {
  HostBench bench;
  start();
  const bool blocking = GENERATE(true, false);
  CAPTURE(blocking);
  bench.set(RegisterId::int_mask, host::kIntAll);
  bench.set(RegisterId::int_set, host::kIntAll);
  bench.set(RegisterId::scratch, 77);
  bench.set(RegisterId::queue_base, 0x1000, 2);
  bench.set(RegisterId::copy_command, 1, 1);
  bench.tell(event_of(QueueEvent::signal));
  CHECK(bench.irq.signal.read());
  bench.set(RegisterId::doorbell, 5, 0);  // on its way
  const std::size_t commands = bench.front_end.commands.size();
  std::uint64_t value = 1;
  if (blocking) {
    bench.set(RegisterId::control, 1);
    CHECK(bench.device.resets == 1);
    // At once: what follows is for the device after its reset.
    bench.set(RegisterId::doorbell, 9, 3);
    run_until_idle();
    REQUIRE(bench.front_end.commands.size() == commands + 1);
    CHECK(bench.front_end.commands.back().second.queue == 3);
  } else {
    run_until_idle();
    tlm::tlm_generic_payload& payload = bench.registers.request(
        tlm::TLM_WRITE_COMMAND, host::offset_of(RegisterId::control), reinterpret_cast<std::uint8_t*>(&value), 4);
    const sc_time begin = sc_core::sc_time_stamp();
    bench.registers.forward(payload, tlm::BEGIN_REQ);
    run_until_idle();
    CHECK(bench.device.resets == 1);
    CHECK(bench.device.reset_at == begin + ns(100));
    REQUIRE(bench.registers.responses.size() == 1);
    CHECK(bench.registers.responses[0].status == tlm::TLM_OK_RESPONSE);
    payload.release();
  }
  CHECK_FALSE(bench.irq.signal.read());
  for (const host::Register& reg : host::register_table()) {
    CAPTURE(reg.name);
    if (reg.access == host::RegisterAccess::wo || reg.of_machine) continue;
    for (std::uint32_t i = 0; i < std::min(reg.count, 6U); ++i) CHECK(bench.get(reg.id, i) == reg.reset);
  }
  CHECK(bench.get(RegisterId::sms) == 132);
  bench.set(RegisterId::control, 0);  // other bits do nothing
  CHECK(bench.device.resets == 1);
}

TEST_CASE("a soft reset from a process takes effect within its call", "[host][HST-01]") {
  HostBench bench;
  bench.script.at(ns(1000), [&] {
    bench.set(RegisterId::scratch, 5);
    bench.set(RegisterId::control, 1);
    CHECK(bench.get(RegisterId::scratch) == 0);
    bench.set(RegisterId::doorbell, 1, 0);
  });
  start();
  run_until_idle();
  CHECK(bench.device.resets == 1);
  CHECK(bench.device.reset_at == ns(1000));
  REQUIRE(bench.front_end.commands.size() == 1);
  CHECK(bench.front_end.commands[0].first == 120);  // cycles count from the reset
}

TEST_CASE("rst resets at its rise and holds the device while it is high", "[host][HST-01][HST-02]") {
  HostBench bench;
  start();
  bench.set(RegisterId::scratch, 5);
  std::uint64_t value = 0;
  std::uint64_t later = 0;
  auto* data = reinterpret_cast<std::uint8_t*>(&later);
  tlm::tlm_generic_payload& held = bench.registers.request(tlm::TLM_READ_COMMAND, 0, data, 4);
  tlm::tlm_generic_payload& held_memory = bench.memory.request(tlm::TLM_READ_COMMAND, 0, data, 4);
  tlm::tlm_generic_payload& direct = bench.memory.request(tlm::TLM_READ_COMMAND, 0, data, 4);
  bench.script.at(ns(100), [&] { bench.rst.write(true); });
  bench.script.at(ns(200), [&] {
    CHECK(bench.access(tlm::TLM_READ_COMMAND, 0, 4, value) == tlm::TLM_GENERIC_ERROR_RESPONSE);
    bench.registers.forward(held, tlm::BEGIN_REQ, ns(10));
    bench.memory.forward(held_memory, tlm::BEGIN_REQ, ns(10));
    tlm::tlm_generic_payload& blocking = bench.memory.request(tlm::TLM_READ_COMMAND, 0, data, 4);
    sc_time delay;
    CHECK(bench.transport(bench.memory, blocking, delay) == tlm::TLM_GENERIC_ERROR_RESPONSE);
    blocking.release();
    tlm::tlm_dmi dmi;
    CHECK_FALSE(bench.memory.out->get_direct_mem_ptr(direct, dmi));
  });
  bench.script.at(ns(300), [&] { bench.rst.write(false); });
  bench.script.at(ns(400), [&] { CHECK(bench.get(RegisterId::scratch) == 0); });
  bench.script.event.notify(sc_core::SC_ZERO_TIME);
  run_until_idle();
  CHECK(bench.device.resets == 1);
  CHECK(bench.device.reset_at == ns(100));
  REQUIRE(bench.registers.responses.size() == 1);
  CHECK(bench.registers.responses[0].status == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(bench.registers.responses[0].when == ns(210));
  REQUIRE(bench.memory.responses.size() == 1);
  CHECK(bench.memory.responses[0].status == tlm::TLM_GENERIC_ERROR_RESPONSE);
  held.release();
  held_memory.release();
  direct.release();
}

TEST_CASE("rst that is high from the start holds the device until it falls", "[host][HST-01]") {
  HostBench bench;
  bench.rst.write(true);
  start();
  std::uint64_t value = 0;
  CHECK(bench.access(tlm::TLM_READ_COMMAND, 0, 4, value) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  bench.script.at(ns(50), [&] { bench.rst.write(false); });
  bench.script.event.notify(sc_core::SC_ZERO_TIME);
  run_until_idle();
  CHECK(bench.get(RegisterId::magic) == host::kMagic);
}

TEST_CASE("a reset in mid-flight answers the host's open transactions with errors", "[host][HST-01][HST-02]") {
  host::HostParams params;
  params.aperture_queue = 3;
  HostBench bench(params);
  start();
  bench.hub.silent = true;
  std::vector<std::uint8_t> data(1024);
  std::vector<tlm::tlm_generic_payload*> payloads;
  for (unsigned i = 0; i < 3; ++i) {
    payloads.push_back(&bench.memory.request(i == 1 ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, 256 * i,
                                             data.data() + 256 * i, 256));
    bench.memory.forward(*payloads[i], tlm::BEGIN_REQ);
  }
  CHECK(bench.memory.left == tlm::BEGIN_REQ);  // the last one fills the queue: END_REQ is withheld
  std::uint64_t value = 0;
  tlm::tlm_generic_payload& reg =
      bench.registers.request(tlm::TLM_READ_COMMAND, 0, reinterpret_cast<std::uint8_t*>(&value), 4);
  bench.registers.forward(reg, tlm::BEGIN_REQ, ns(500));
  // From a process: the domain does not run ahead of it.
  bench.script.at(ns(200), [&] {
    CHECK(bench.hub.held.size() == 4);
    CHECK_FALSE(bench.host.idle());
    bench.set(RegisterId::control, 1);
  });
  bench.script.event.notify(sc_core::SC_ZERO_TIME);
  run_until_idle();
  REQUIRE(bench.memory.responses.size() == 3);
  for (const HostPort::Response& response : bench.memory.responses) {
    CHECK(response.status == tlm::TLM_GENERIC_ERROR_RESPONSE);
    CHECK(response.when == ns(200));
  }
  REQUIRE(bench.registers.responses.size() == 1);
  CHECK(bench.registers.responses[0].status == tlm::TLM_GENERIC_ERROR_RESPONSE);
  CHECK(bench.registers.responses[0].when == ns(500));  // not before the request
  CHECK(bench.host.idle());
  for (tlm::tlm_generic_payload* payload : payloads) payload->release();
  reg.release();
  CHECK(bench.memory.pool.in_use() == 0);

  // The hub has been reset as well: its lines come back to nobody.
  bench.hub_checker.forget();
  REQUIRE(bench.hub.before_reset.size() == 4);
  CHECK(bench.host.payloads() == 0);
  bench.hub.silent = false;
  tlm::tlm_generic_payload& next = bench.memory.request(tlm::TLM_READ_COMMAND, 4096, data.data(), 512);
  bench.memory.forward(next, tlm::BEGIN_REQ);
  run_until_idle();
  REQUIRE(bench.memory.responses.size() == 4);
  CHECK(bench.memory.responses[3].status == tlm::TLM_OK_RESPONSE);
  CHECK(std::equal(data.begin(), data.begin() + 512, bench.device.bytes.begin() + 4096));
  CHECK(bench.host.payloads() == 0);
  next.release();
}

TEST_CASE("a response that the host has not ended survives a reset", "[host][HST-02]") {
  HostBench bench;
  start();
  bench.registers.hold_responses = true;
  std::uint64_t values[2] = {};
  tlm::tlm_generic_payload* payloads[2];
  for (unsigned i = 0; i < 2; ++i) {
    payloads[i] = &bench.registers.request(tlm::TLM_READ_COMMAND, 0, reinterpret_cast<std::uint8_t*>(&values[i]), 4);
    bench.registers.forward(*payloads[i], tlm::BEGIN_REQ, ns(i));
  }
  run_until_idle();
  CHECK(bench.registers.responses.size() == 1);
  bench.set(RegisterId::control, 1);
  run_until_idle();
  CHECK(bench.registers.responses.size() == 1);
  bench.registers.forward(*payloads[0], tlm::END_RESP);
  run_until_idle();
  REQUIRE(bench.registers.responses.size() == 2);
  CHECK(bench.registers.responses[1].status == tlm::TLM_OK_RESPONSE);  // it had been carried out
  bench.registers.forward(*payloads[1], tlm::END_RESP);
  CHECK(bench.host.idle());
  for (tlm::tlm_generic_payload* payload : payloads) payload->release();
}

}  // namespace heddle::test::host_interface_signals_test
