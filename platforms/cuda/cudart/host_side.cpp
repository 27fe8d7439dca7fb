#include "cuda/cudart/host_side.h"

#include <algorithm>
#include <cstring>

#include "cuda/cudart/device_heap.h"

namespace heddle::cuda {
namespace {

constexpr std::uint32_t kQueue = 1024;  // operations on their way: as gpu.task.submit_queue has it

constexpr std::uint64_t kLowest = 4096;
constexpr std::uint64_t kEnd = std::uint64_t{1} << 47;  // of user space on x86-64

bool perform(tlm::tlm_generic_payload& payload) {
  const std::uint64_t address = payload.get_address();
  const std::uint64_t bytes = payload.get_data_length();
  if (address < kLowest || address >= kEnd || bytes > kEnd - address) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return false;
  }
  if (payload.get_byte_enable_ptr() != nullptr || payload.get_streaming_width() < bytes) {
    payload.set_response_status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
    return false;
  }
  auto* memory = static_cast<unsigned char*>(pointer_to(address));
  if (payload.is_read()) std::memcpy(payload.get_data_ptr(), memory, bytes);
  if (payload.is_write()) std::memcpy(memory, payload.get_data_ptr(), bytes);
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  return true;
}

}  // namespace

HostPort::HostPort(const sc_core::sc_module_name& name, Observation& own)
    : sc_core::sc_module(name),
      domain("domain", 1.0, TimingMode::at, 0, own),
      submit_out("submit_out", domain, 1, kQueue),
      done_in("done_in", domain, 1) {
  submit_out.on_credit<HostPort, &HostPort::on_credit>(*this);
  done_in.on_packet<HostPort, &HostPort::on_done>(*this);
}

void HostPort::send(const protocol::SubmitPacket& packet, Cycle when) {
  waiting_.push_back({packet, when});
  schedule_next();
}

void HostPort::schedule_next() {
  if (waiting_.empty() || scheduled_) return;
  scheduled_ = true;
  domain.schedule(std::max(domain.now(), waiting_.front().when), *this, 0);
}

void HostPort::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  submit();
}

void HostPort::submit() {
  while (!waiting_.empty() && waiting_.front().when <= domain.now()) {
    if (!submit_out.can_send()) return;  // on_credit() comes back
    submit_out.send(waiting_.front().packet);
    waiting_.pop_front();
  }
  schedule_next();
}

void ProcessMemory::carry_out(tlm::tlm_generic_payload& payload) { payload.set_dmi_allowed(perform(payload)); }

bool ProcessMemory::get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi& dmi) {
  dmi.init();
  dmi.set_start_address(kLowest);
  dmi.set_end_address(kEnd - 1);
  dmi.set_dmi_ptr(static_cast<unsigned char*>(pointer_to(kLowest)));
  dmi.allow_read_write();
  dmi.set_read_latency(latency());
  dmi.set_write_latency(latency());
  return true;
}

unsigned int ProcessMemory::transport_dbg(tlm::tlm_generic_payload& payload) {
  return perform(payload) ? payload.get_data_length() : 0;
}

}  // namespace heddle::cuda
