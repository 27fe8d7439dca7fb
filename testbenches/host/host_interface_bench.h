// A host interface between fakes: a bus of the host, and packet processor, copy engines, memory hub and device.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "host/host_interface.h"
#include "host/register_table.h"
#include "protocol/memory_request.h"
#include "support/protocol_checker.h"
#include "support/sim_fixture.h"

namespace heddle::test {

using host::RegisterId;
using protocol::QueueCommandPacket;
using protocol::QueueEventPacket;
using sc_core::sc_time;

inline sc_time ns(double count) { return sc_time(count, sc_core::SC_NS); }

constexpr std::uint64_t kMemoryBytes = 65'536;

struct FakeDevice final : host::Device {
  explicit FakeDevice(Domain& domain_) : domain(domain_), bytes(kMemoryBytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8));
  }
  bool read_memory(std::uint64_t address, void* to, std::uint64_t count) override {
    if (address + count > bytes.size()) return false;
    std::memcpy(to, bytes.data() + address, count);
    return true;
  }
  bool write_memory(std::uint64_t address, const void* from, std::uint64_t count) override {
    if (address + count > bytes.size()) return false;
    std::memcpy(bytes.data() + address, from, count);
    return true;
  }
  bool direct_memory(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first,
                     std::uint64_t& last) override {
    ++direct_asked;
    if (!direct) return false;
    first = address & ~std::uint64_t{0xFFF};
    last = first + 0xFFF;
    pointer = bytes.data() + first;
    return true;
  }
  bool grants_direct() const override { return grants; }
  bool corrupt_memory(std::uint64_t address, std::uint64_t count) const override {
    return address <= corrupt && corrupt < address + count;
  }
  void on_invalidate(std::function<void(std::uint64_t, std::uint64_t)> call) override { invalidate = std::move(call); }
  void reset_device() override {
    ++resets;
    reset_at = sc_core::sc_time_stamp();
    domain.reset();
  }
  bool settled() const override { return over; }

  Domain& domain;
  std::vector<std::uint8_t> bytes;
  std::function<void(std::uint64_t, std::uint64_t)> invalidate;
  bool direct = true;
  bool grants = true;
  bool over = true;
  std::uint64_t corrupt = ~std::uint64_t{0};  // address of a byte
  unsigned direct_asked = 0;
  unsigned resets = 0;
  sc_time reset_at;
};

// Packet processor and copy engines, as far as the host interface sees them.
struct FakeFrontEnd : sc_core::sc_module {
  FakeFrontEnd(const sc_core::sc_module_name& name, Domain& domain_)
      : sc_core::sc_module(name),
        command_in("command_in", domain_, 0),
        event_out("event_out", domain_, 0, kUnlimitedCredits),
        copy_in("copy_in", domain_, 0),
        copy_done_out("copy_done_out", domain_, 0, kUnlimitedCredits),
        domain(domain_) {
    command_in.on_packet<FakeFrontEnd, &FakeFrontEnd::on_command>(*this);
    copy_in.on_packet<FakeFrontEnd, &FakeFrontEnd::on_copy>(*this);
  }
  void on_command(const QueueCommandPacket& packet, std::uint32_t) { commands.emplace_back(domain.now(), packet); }
  void on_copy(const protocol::CopyRequestPacket& packet, std::uint32_t) { copies.emplace_back(domain.now(), packet); }

  PacketIn<QueueCommandPacket> command_in;
  PacketOut<QueueEventPacket> event_out;
  PacketIn<protocol::CopyRequestPacket> copy_in;
  PacketOut<protocol::CopyDonePacket> copy_done_out;
  Domain& domain;
  std::vector<std::pair<Cycle, QueueCommandPacket>> commands;
  std::vector<std::pair<Cycle, protocol::CopyRequestPacket>> copies;
};

// Serves lines of the device's memory `latency` cycles after their arrival.
struct FakeHub : sc_core::sc_module, EventHandler, Resettable {
  FakeHub(const sc_core::sc_module_name& name, Domain& domain_, FakeDevice& device_)
      : sc_core::sc_module(name), in("in", domain_), domain(domain_), device(device_) {
    in.connect<FakeHub, &FakeHub::request, &FakeHub::room, &FakeHub::blocking, &FakeHub::debug>(*this);
    domain_.add_resettable(*this);
  }
  bool request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    requests.push_back({payload.get_address(), payload.get_data_length()});
    CHECK(payload.get_address() / 128 == (payload.get_address() + payload.get_data_length() - 1) / 128);
    held.push_back(&payload);
    if (!silent) domain.schedule(arrival + latency, *this, 0);
    return held.size() < places;
  }
  void on_event(std::uint32_t, std::uint64_t) override {
    tlm::tlm_generic_payload& payload = *held.front();
    held.erase(held.begin());
    payload.set_response_status(serve(payload));
    in.respond(payload, domain.now());
    if (in.withholding()) in.accept(domain.now());
  }
  tlm::tlm_response_status serve(tlm::tlm_generic_payload& payload) {
    if (payload.get_address() == bad_address) return tlm::TLM_GENERIC_ERROR_RESPONSE;
    if (payload.get_address() == worse_address) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    if (payload.get_address() == poisoned_address) protocol::extension_of(payload)->poisoned = true;
    std::uint8_t* at = device.bytes.data() + payload.get_address();
    protocol::MemoryExtension* extension = protocol::extension_of(payload);
    if (extension != nullptr && extension->action == protocol::MemoryAction::atomic) {
      CHECK(payload.get_command() == tlm::TLM_IGNORE_COMMAND);
      CHECK(extension->lanes == 1);
      protocol::AtomicLane& lane = extension->lane[0];
      CHECK(lane.offset == payload.get_address() % 128);
      std::memcpy(&lane.old, at, 8);
      const std::uint64_t value =
          arch::atomic_result(extension->atomic, extension->type, lane.old, lane.operand, lane.compare);
      std::memcpy(at, &value, 8);
      return tlm::TLM_OK_RESPONSE;
    }
    for (unsigned i = 0; i < payload.get_data_length(); ++i) {
      if (payload.is_read()) {
        payload.get_data_ptr()[i] = at[i];
      } else if (payload.get_byte_enable_ptr() == nullptr || payload.get_byte_enable_ptr()[i] == 0xFF) {
        at[i] = payload.get_data_ptr()[i];
      }
    }
    return tlm::TLM_OK_RESPONSE;
  }
  void room(std::uint32_t, Cycle) {}
  void blocking(tlm::tlm_generic_payload&, std::uint32_t, sc_time&) { FAIL("the hub is not called with b_transport"); }
  unsigned debug(tlm::tlm_generic_payload&, std::uint32_t) { return 0; }
  void reset() override {
    before_reset.insert(before_reset.end(), held.begin(), held.end());
    held.clear();
  }

  MemoryIn in;
  Domain& domain;
  FakeDevice& device;
  Cycle latency = 50;
  std::size_t places = 4;
  bool silent = false;  // answers nothing by itself
  std::uint64_t bad_address = ~std::uint64_t{0};
  std::uint64_t worse_address = ~std::uint64_t{0};
  std::uint64_t poisoned_address = ~std::uint64_t{0};
  std::vector<std::pair<std::uint64_t, unsigned>> requests;
  std::vector<tlm::tlm_generic_payload*> held;
  std::vector<tlm::tlm_generic_payload*> before_reset;
};

// The host's end of a bar.
struct HostPort : sc_core::sc_module, tlm::tlm_bw_transport_if<> {
  explicit HostPort(const sc_core::sc_module_name& name) : sc_core::sc_module(name), out("out") { out.bind(*this); }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_time& delay) override {
    const sc_time when = sc_core::sc_time_stamp() + delay;
    if (phase == tlm::END_REQ) {
      accepted.emplace_back(&payload, when);
      return tlm::TLM_ACCEPTED;
    }
    CHECK(phase == tlm::BEGIN_RESP);
    responses.push_back({&payload, when, payload.get_response_status()});
    if (on_response) on_response(payload);
    return hold_responses ? tlm::TLM_ACCEPTED : tlm::TLM_COMPLETED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override {
    invalidated.emplace_back(first, last);
  }

  // Returns what nb_transport_fw returns; the phase that it leaves is in `left`.
  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase phase, sc_time delay = {}) {
    const tlm::tlm_sync_enum status = out->nb_transport_fw(payload, phase, delay);
    left = phase;
    return status;
  }
  tlm::tlm_generic_payload& request(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data,
                                    unsigned bytes) {
    tlm::tlm_generic_payload& payload = pool.acquire();
    payload.set_command(command);
    payload.set_address(address);
    payload.set_data_ptr(data);
    payload.set_data_length(bytes);
    payload.set_streaming_width(bytes);
    return payload;
  }

  struct Response {
    tlm::tlm_generic_payload* payload;
    sc_time when;
    tlm::tlm_response_status status;
  };
  tlm::tlm_initiator_socket<> out;
  PayloadPool pool;
  bool hold_responses = false;
  std::function<void(tlm::tlm_generic_payload&)> on_response;
  std::vector<Response> responses;
  std::vector<std::pair<tlm::tlm_generic_payload*, sc_time>> accepted;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> invalidated;
  tlm::tlm_phase left;
};

struct LevelWatch : sc_core::sc_module {
  explicit LevelWatch(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    SC_HAS_PROCESS(LevelWatch);
    SC_METHOD(note);
    sensitive << signal;
    dont_initialize();
  }
  void note() { changes.emplace_back(sc_core::sc_time_stamp(), signal.read()); }
  sc_core::sc_signal<bool> signal{"signal"};
  std::vector<std::pair<sc_time, bool>> changes;
};

// Calls what a case enters, at its time, from a process.
struct Script : sc_core::sc_module {
  explicit Script(const sc_core::sc_module_name& name) : sc_core::sc_module(name) {
    SC_HAS_PROCESS(Script);
    SC_METHOD(run);
    sensitive << event;
  }
  void run() {
    while (!steps.empty() && steps.begin()->first <= sc_core::sc_time_stamp()) {
      const auto step = steps.begin()->second;
      steps.erase(steps.begin());
      step();
    }
    if (!steps.empty()) event.notify(steps.begin()->first - sc_core::sc_time_stamp());
  }
  void at(const sc_time& when, std::function<void()> step) { steps.emplace(when, std::move(step)); }
  sc_core::sc_event event;
  std::multimap<sc_time, std::function<void()>> steps;
};

inline host::DeviceIdentity identity_for_tests() {
  host::DeviceIdentity identity;
  identity.sms = 132;
  identity.gpcs = 8;
  identity.queues = 6;
  identity.packet_format = 0x12'3456;
  identity.copy_engines = 2;
  identity.memory = kMemoryBytes;
  identity.clock_mhz = 1000;
  identity.clock_period = 1000;
  identity.limits.max_threads_per_cta = 1024;
  identity.limits.max_shared_per_cta = 227 * 1024;
  return identity;
}

struct HostBench {
  explicit HostBench(host::HostParams params = {}, TimingMode mode = TimingMode::at, bool pins = true)
      : domain("domain", 1.0, mode, 1000, observation),
        device(domain),
        host("host", domain, "host", params, identity_for_tests(), device),
        front_end("front_end", domain),
        hub("hub", domain, device) {
    host.command_out.bind(front_end.command_in);
    front_end.event_out.bind(host.event_in);
    host.copy_out.bind(front_end.copy_in);
    front_end.copy_done_out.bind(host.copy_done_in);
    registers.out.bind(bar0_checker.in);
    bar0_checker.out.bind(host.bar0());
    memory.out.bind(bar1_checker.in);
    bar1_checker.out.bind(host.bar1());
    host.memory_out.bind(hub_checker.in);
    hub_checker.out.bind(hub.in);
    if (pins) {
      host.irq().bind(irq.signal);
      host.rst().bind(rst);
    }
  }
  ~HostBench() {
    CHECK(bar0_checker.violations == expected_violations);
    CHECK(bar1_checker.violations == expected_violations);
    CHECK(hub_checker.violations.empty());
  }

  tlm::tlm_response_status transport(HostPort& port, tlm::tlm_generic_payload& payload, sc_time& delay) {
    port.out->b_transport(payload, delay);
    return payload.get_response_status();
  }
  tlm::tlm_response_status access(tlm::tlm_command command, std::uint64_t offset, unsigned bytes,
                                  std::uint64_t& value) {
    auto* data = reinterpret_cast<std::uint8_t*>(&value);
    tlm::tlm_generic_payload& payload = registers.request(command, offset, data, bytes);
    sc_time delay;
    const tlm::tlm_response_status status = transport(registers, payload, delay);
    payload.release();
    return status;
  }
  std::uint64_t read(std::uint64_t offset, unsigned bytes) {
    std::uint64_t value = 0;
    CHECK(access(tlm::TLM_READ_COMMAND, offset, bytes, value) == tlm::TLM_OK_RESPONSE);
    return value;
  }
  tlm::tlm_response_status write(std::uint64_t offset, unsigned bytes, std::uint64_t value) {
    return access(tlm::TLM_WRITE_COMMAND, offset, bytes, value);
  }
  std::uint64_t get(RegisterId id, std::uint32_t index = 0, std::uint32_t word = 0) {
    return read(host::offset_of(id, index, word), host::register_of(id).bytes);
  }
  void set(RegisterId id, std::uint64_t value, std::uint32_t index = 0) {
    CHECK(write(host::offset_of(id, index), host::register_of(id).bytes, value) == tlm::TLM_OK_RESPONSE);
  }
  // An event of the packet processor, delivered.
  void tell(const QueueEventPacket& packet) {
    front_end.event_out.send(packet);
    run_until_idle();
  }
  void tell(const protocol::CopyDonePacket& packet) {
    front_end.copy_done_out.send(packet);
    run_until_idle();
  }

  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Domain domain;
  FakeDevice device;
  host::HostInterface host;
  FakeFrontEnd front_end;
  FakeHub hub;
  HostPort registers{"registers"};
  HostPort memory{"memory"};
  ProtocolChecker bar0_checker{"bar0_checker"};
  ProtocolChecker bar1_checker{"bar1_checker"};
  ProtocolChecker hub_checker{"hub_checker"};
  LevelWatch irq{"irq"};
  Script script{"script"};
  sc_core::sc_signal<bool> rst{"rst"};
  std::vector<std::string> expected_violations;
};

}  // namespace heddle::test
