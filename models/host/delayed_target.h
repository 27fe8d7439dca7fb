// What memories of the host have in common: requests take effect and are answered after a latency.
#pragma once

#include <deque>

#include <tlm>
#include <tlm_utils/peq_with_get.h>

namespace heddle::host {

// A target of the base protocol. Blocking: the request takes effect at once, and its delay grows by the latency.
// Non-blocking: it is accepted at once, takes effect after the latency, in the order of such times, and is answered
// with BEGIN_RESP then, or when the initiator has taken the response before it. A payload without memory management is
// an error there. Direct pointers and debug are the derived class's.
//
// HostMemory has one for each of its ports, and a process whose memory is the host's has one for its device.
class DelayedTarget : public sc_core::sc_module, protected tlm::tlm_fw_transport_if<> {
 public:
  tlm::tlm_target_socket<> socket;

 protected:
  DelayedTarget(const sc_core::sc_module_name& name, const sc_core::sc_time& latency);

  // Does what the request asks for, and sets its response.
  virtual void carry_out(tlm::tlm_generic_payload& payload) = 0;
  const sc_core::sc_time& latency() const { return latency_; }

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) final;
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) final;
  void serve();
  void answer();

  const sc_core::sc_time latency_;
  tlm_utils::peq_with_get<tlm::tlm_generic_payload> arrivals_;
  std::deque<tlm::tlm_generic_payload*> answers_;
  tlm::tlm_generic_payload* responding_ = nullptr;
};

}  // namespace heddle::host
