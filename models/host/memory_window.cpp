#include "host/memory_window.h"

#include <algorithm>

#include "host/boundary_access.h"

namespace heddle::host {

MemoryWindow::MemoryWindow(Device& device, BoundarySocket& socket, std::uint64_t base, std::uint64_t size,
                           const sc_core::sc_time& latency, const Counters& counters)
    : device_(device), socket_(socket), base_(base), size_(size), latency_(latency), counters_(counters) {
  device.on_invalidate([this](std::uint64_t first, std::uint64_t last) { on_invalidate(first, last); });
}

tlm::tlm_response_status MemoryWindow::access(tlm::tlm_generic_payload& payload) {
  count(payload);
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) return tlm::TLM_OK_RESPONSE;
  const std::uint64_t address = relative_address(payload.get_address(), base_);
  const tlm::tlm_response_status wrong = validate(payload, address, size_);
  if (wrong != tlm::TLM_INCOMPLETE_RESPONSE) return wrong;
  bool well = true;
  bool corrupt = false;
  for_each_run(payload, [&](std::uint32_t offset, std::uint32_t index, std::uint32_t count) {
    std::uint8_t* data = payload.get_data_ptr() + index;
    if (!well) return;
    corrupt = corrupt || (payload.is_read() && device_.corrupt_memory(address + offset, count));
    well = payload.is_read() ? device_.read_memory(address + offset, data, count)
                             : device_.write_memory(address + offset, data, count);
  });
  if (!well) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (corrupt) return tlm::TLM_GENERIC_ERROR_RESPONSE;  // as a non-blocking read
  // A hint only. Whoever was refused may ask again, later.
  payload.set_dmi_allowed(device_.grants_direct() && (!refused_ || sc_core::sc_time_stamp() != refused_at_));
  return tlm::TLM_OK_RESPONSE;
}

unsigned MemoryWindow::debug(tlm::tlm_generic_payload& payload) {
  const std::uint64_t address = relative_address(payload.get_address(), base_);
  if (address >= size_) return 0;
  const auto bytes = static_cast<unsigned>(std::min<std::uint64_t>(payload.get_data_length(), size_ - address));
  bool well = bytes > 0;
  if (well && payload.is_read()) {
    well = device_.read_memory(address, payload.get_data_ptr(), bytes);
  } else if (well && payload.is_write()) {
    well = device_.write_memory(address, payload.get_data_ptr(), bytes);
  } else {
    well = false;
  }
  return well ? bytes : 0;
}

bool MemoryWindow::grant(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi, bool refusing) {
  const std::uint64_t given = payload.get_address();
  dmi.init();
  dmi.allow_none();
  dmi.set_start_address(given);
  dmi.set_end_address(given);
  const std::uint64_t address = relative_address(given, base_);
  if (refusing || address >= size_) return false;
  std::uint8_t* pointer = nullptr;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  refused_ = !device_.direct_memory(address, pointer, first, last);
  if (refused_) {
    refused_at_ = sc_core::sc_time_stamp();
    return false;
  }
  const std::uint64_t base = given - address;
  dmi.set_start_address(first + base);
  dmi.set_end_address(last + base);
  dmi.set_dmi_ptr(pointer);
  dmi.allow_read_write();
  dmi.set_read_latency(latency_);
  dmi.set_write_latency(latency_);
  granted_bases_.insert(base);
  return true;
}

void MemoryWindow::on_invalidate(std::uint64_t first, std::uint64_t last) {
  for (const std::uint64_t base : granted_bases_) {
    socket_.invalidate(first + base, std::max(last, last + base));  // no wrap at the end of all addresses
  }
}

}  // namespace heddle::host
