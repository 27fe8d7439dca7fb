// Between a socket of one BUSWIDTH and one of another, which TLM's sockets refuse to bind. The sockets of the device
// are of the default width, 32; a platform of another one puts an adapter between (HST-02). It passes every call on as
// it is: payloads of the base protocol mean the same whatever the width on a host that is little-endian.
//
//   host::WidthAdapter<32, 64> dma_64("dma_64");   // gpu.dma().bind(dma_64.in);  dma_64.out.bind(bus.in);
//   host::WidthAdapter<64, 32> bar0_32("bar0_32"); // bus.out.bind(bar0_32.in);   bar0_32.out.bind(gpu.bar0());
#pragma once

#include <tlm>

namespace heddle::host {

template <unsigned kIn, unsigned kOut>
class WidthAdapter : public sc_core::sc_module, private tlm::tlm_fw_transport_if<>, private tlm::tlm_bw_transport_if<> {
 public:
  explicit WidthAdapter(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in"), out("out") {
    in.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    out.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  }

  tlm::tlm_target_socket<kIn> in;
  tlm::tlm_initiator_socket<kOut> out;

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    return out->nb_transport_fw(payload, phase, delay);
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override {
    out->b_transport(payload, delay);
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) override {
    return out->get_direct_mem_ptr(payload, dmi);
  }
  unsigned int transport_dbg(tlm::tlm_generic_payload& payload) override { return out->transport_dbg(payload); }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    return in->nb_transport_bw(payload, phase, delay);
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override {
    in->invalidate_direct_mem_ptr(first, last);
  }
};

}  // namespace heddle::host
