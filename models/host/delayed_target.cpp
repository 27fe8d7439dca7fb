#include "host/delayed_target.h"

namespace heddle::host {

DelayedTarget::DelayedTarget(const sc_core::sc_module_name& name, const sc_core::sc_time& latency)
    : sc_core::sc_module(name), socket("socket"), latency_(latency), arrivals_("arrivals") {
  socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
  SC_HAS_PROCESS(DelayedTarget);
  SC_METHOD(serve);
  sensitive << arrivals_.get_event();
  dont_initialize();
}

tlm::tlm_sync_enum DelayedTarget::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
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
  if (!payload.has_mm()) {  // the protocol demands it of nb_transport
    payload.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    return tlm::TLM_COMPLETED;
  }
  payload.acquire();
  arrivals_.notify(payload, delay + latency_);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void DelayedTarget::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  carry_out(payload);
  delay += latency_;
}

void DelayedTarget::serve() {
  while (tlm::tlm_generic_payload* payload = arrivals_.get_next_transaction()) {
    carry_out(*payload);
    answers_.push_back(payload);
  }
  answer();
}

void DelayedTarget::answer() {
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

}  // namespace heddle::host
