#include "replay/packet_ports.h"

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

}  // namespace heddle::replay
