#include "replay/packet_ports.h"

#include <cmath>

#include <fmt/format.h>

#include "arch/address_map.h"

namespace heddle::replay {

void UnifiedMemory::write(std::uint64_t address, const void* from, std::uint64_t bytes) {
  const bool ok = arch::in_host_window(address) ? host_.write(arch::host_address(address), from, bytes)
                                                : device_.write(address, from, bytes);
  HEDDLE_CHECK(ok, "memory of the host's own cannot be written");
}

std::uint64_t UnifiedMemory::word(std::uint64_t address) {
  std::uint8_t bytes[8] = {};
  const bool ok = arch::in_host_window(address) ? host_.read(arch::host_address(address), bytes, sizeof bytes)
                                                : device_.read(address, bytes, sizeof bytes);
  HEDDLE_CHECK(ok, "memory of the host's own cannot be read");
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 8; ++i) value |= std::uint64_t{bytes[i]} << 8 * i;
  return value;
}

RegisterPort::RegisterPort(Domain& domain) : socket("registers"), domain_(domain) {
  socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
}

std::uint64_t RegisterPort::access(tlm::tlm_command command, std::uint64_t offset, std::uint64_t value,
                                   unsigned bytes) {
  std::uint8_t data[8];
  for (unsigned i = 0; i < 8; ++i) data[i] = static_cast<std::uint8_t>(value >> 8 * i);
  tlm::tlm_generic_payload payload;
  payload.set_command(command);
  payload.set_address(offset);
  payload.set_data_ptr(data);
  payload.set_data_length(bytes);
  payload.set_streaming_width(bytes);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  sc_core::sc_time delay = domain_.delay_until(domain_.now());
  socket->b_transport(payload, delay);
  HEDDLE_CHECK(payload.is_response_ok(), fmt::format("register {:#x} was refused", offset));
  value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{data[i]} << 8 * i;
  return value;
}

namespace {

constexpr std::uint32_t kBusHeaderBytes = 24;  // of PCIe: a header of 16, and framing

}  // namespace

HostBus::HostBus(Domain& domain, const host::HubParams& link, Listener& listener)
    : memory_out("memory_out", domain),
      domain_(domain),
      latency_(static_cast<Cycle>(std::llround(link.link_latency))),
      listener_(listener),
      client_(domain, memory_out, *this, kClient, kSend),
      out_(link.link_bandwidth),  // GB/s: bytes in a nanosecond
      back_(link.link_bandwidth) {}

void HostBus::write(std::uint64_t address, const Line& line, std::uint32_t token) {
  send({{}, address, line, token, 0});
}

void HostBus::step(const arch::MemoryStep& step, std::uint32_t token) { send({step, 0, {}, token, 0}); }

void HostBus::send(const Access& access) {
  const std::uint32_t number = accesses_.take();
  accesses_[number] = access;
  const bool line = access.step.kind == arch::MemoryStep::Kind::none;
  const Cycle leaves = out_.earliest(domain_.now());
  out_.take(leaves, kBusHeaderBytes + (line ? arch::kRecordBytes : 8));
  domain_.schedule(leaves + latency_, *this, kArrive, number);
}

void HostBus::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kArrive:
      arrive(static_cast<std::uint32_t>(argument));
      break;
    case kClient:
      answered(argument);
      break;
    case kSend:
      client_.send();
      break;
    default: {
      const auto number = static_cast<std::uint32_t>(argument);
      const Access access = accesses_[number];
      accesses_.give_back(number);
      if (access.token) listener_.on_bus_answer(*access.token, access.old);
      break;
    }
  }
}

void HostBus::arrive(std::uint32_t number) {
  using Kind = arch::MemoryStep::Kind;
  const Access& access = accesses_[number];
  const arch::MemoryStep& step = access.step;
  switch (step.kind) {
    case Kind::none:
      client_.write(access.address, access.line.data(), arch::kRecordBytes, 0, number);
      return;
    case Kind::add:
      client_.add(step.address, step.value, 0, number);
      return;
    case Kind::exchange:
      client_.exchange(step.address, step.value, 0, number);
      return;
    case Kind::write:
      client_.write_value(step.address, step.value, 8, 0, number);
      return;
    default:
      HEDDLE_CHECK(false, "a step that the host's bus does not carry");
  }
}

void HostBus::answered(std::uint64_t argument) {
  using Kind = arch::MemoryStep::Kind;
  const auto answer = client_.take(argument);
  HEDDLE_CHECK(answer.ok, "the device refused an access of the host to the records of its tasks");
  Access& access = accesses_[answer.tag];
  access.old = answer.old;
  const bool atomic = access.step.kind == Kind::add || access.step.kind == Kind::exchange;
  const Cycle leaves = back_.earliest(domain_.now());
  back_.take(leaves, kBusHeaderBytes + (atomic ? 8 : 0));
  domain_.schedule(leaves + latency_, *this, kAnswered, answer.tag);
}

void HostBus::reset() {
  client_.reset();
  out_.reset();
  back_.reset();
  accesses_.clear();
}

}  // namespace heddle::replay
