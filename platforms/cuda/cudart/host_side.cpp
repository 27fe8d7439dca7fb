#include "cuda/cudart/host_side.h"

#include <algorithm>
#include <cstring>

#include "cuda/cudart/device_heap.h"

namespace heddle::cuda {
namespace {

constexpr std::uint32_t kQueue = 1024;  // operations on their way: as gpu.task.submit_queue has it

constexpr std::uint64_t kLowest = 4096;
constexpr std::uint64_t kEnd = std::uint64_t{1} << 47;  // of user space on x86-64

bool carry_out(tlm::tlm_generic_payload& payload) {
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

ProcessMemory::ProcessMemory(const sc_core::sc_module_name& name, const sc_core::sc_time& latency)
    : sc_core::sc_module(name), socket("socket"), latency_(latency), arrivals_("arrivals") {
  socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
  SC_HAS_PROCESS(ProcessMemory);
  SC_METHOD(serve);
  sensitive << arrivals_.get_event();
  dont_initialize();
}

tlm::tlm_sync_enum ProcessMemory::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                                  sc_core::sc_time& delay) {
  if (phase == tlm::END_RESP) {
    if (responding_ == &payload) {
      responding_ = nullptr;
      payload.release();
      answer();
    }
    return tlm::TLM_COMPLETED;
  }
  if (phase != tlm::BEGIN_REQ) return tlm::TLM_ACCEPTED;
  payload.acquire();
  arrivals_.notify(payload, delay + latency_);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void ProcessMemory::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  (void)carry_out(payload);
  delay += latency_;
}

bool ProcessMemory::get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi& dmi) {
  dmi.init();
  dmi.set_start_address(kLowest);
  dmi.set_end_address(kEnd - 1);
  dmi.set_dmi_ptr(static_cast<unsigned char*>(pointer_to(kLowest)));
  dmi.allow_read_write();
  dmi.set_read_latency(latency_);
  dmi.set_write_latency(latency_);
  return true;
}

unsigned int ProcessMemory::transport_dbg(tlm::tlm_generic_payload& payload) {
  return carry_out(payload) ? payload.get_data_length() : 0;
}

void ProcessMemory::serve() {
  while (tlm::tlm_generic_payload* payload = arrivals_.get_next_transaction()) {
    (void)carry_out(*payload);
    payload->set_dmi_allowed(true);
    answers_.push_back(payload);
  }
  answer();
}

void ProcessMemory::answer() {
  while (!answers_.empty() && responding_ == nullptr) {
    tlm::tlm_generic_payload& payload = *answers_.front();
    answers_.pop_front();
    responding_ = &payload;
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    const tlm::tlm_sync_enum status = socket->nb_transport_bw(payload, phase, delay);
    const bool taken = status == tlm::TLM_COMPLETED || (status == tlm::TLM_UPDATED && phase == tlm::END_RESP);
    if (!taken || responding_ != &payload) continue;
    responding_ = nullptr;
    payload.release();
  }
}

}  // namespace heddle::cuda
