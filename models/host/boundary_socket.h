// The target socket of the device's boundary (HST-02): TLM's base protocol with whoever is on the other side.
//
// The other side is not ours, so nothing that it does trips a check: what the protocol forbids is answered with an
// error response where there is a transaction to answer, and ignored elsewhere. The response status of requests does
// not count, as platforms set it or not. A transaction that was begun always gets its response, also across a reset.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <tlm>

#include "common/domain.h"

namespace heddle::host {

class BoundaryOwner {
 public:
  // A non-blocking request that arrives in the cycle `arrival`, called inside the initiator's call. Its answer is
  // BoundarySocket::respond(). False: there is no room for another before accept().
  virtual bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t socket, Cycle arrival) = 0;
  // A whole transaction, done at once; its latency is added to `delay`.
  virtual void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t socket, sc_core::sc_time& delay) = 0;
  virtual unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t socket) = 0;
  virtual bool on_direct(tlm::tlm_generic_payload& payload, std::uint32_t socket, tlm::tlm_dmi& dmi) = 0;

 protected:
  ~BoundaryOwner() = default;
};

class BoundarySocket final
    : public tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>,
      private tlm::tlm_fw_transport_if<>,
      private EventHandler {
  using Base = tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

 public:
  // `index`: what the owner calls this socket.
  BoundarySocket(const char* name, Domain& domain, BoundaryOwner& owner, std::uint32_t index);

  // The response, with its status set, now; later if the response channel is busy. From inside the domain's events
  // only.
  void respond(tlm::tlm_generic_payload& payload);
  // The owner has room again. Without effect if it owes no END_REQ.
  void accept();
  // Forgets the requests that have not been answered: they get an error response. Their owner has forgotten them.
  void fail_open();
  void invalidate(std::uint64_t first, std::uint64_t last);

  std::size_t open() const { return open_.size() + responses_.size() + (responding_ == nullptr ? 0 : 1); }

 private:
  using Payload = tlm::tlm_generic_payload;

  tlm::tlm_sync_enum nb_transport_fw(Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) override;
  void b_transport(Payload& payload, sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(Payload& payload, tlm::tlm_dmi& dmi) override;
  unsigned int transport_dbg(Payload& payload) override;

  tlm::tlm_sync_enum begin(Payload& payload, tlm::tlm_phase& phase, const sc_core::sc_time& delay);
  tlm::tlm_sync_enum end(Payload& payload, const sc_core::sc_time& delay);
  bool knows(const Payload& payload) const;
  static sc_core::sc_time time_of(const sc_core::sc_time& delay) { return sc_core::sc_time_stamp() + delay; }
  void send_responses();
  void finish(Payload& payload);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return this->name(); }

  Domain& domain_;
  BoundaryOwner& owner_;
  std::uint32_t index_;
  // Times, not cycles: these count anew from a reset.
  struct Begun {
    Payload* payload;
    sc_core::sc_time when;  // a response does not come before it
  };
  std::vector<Begun> open_;        // begun, not answered
  std::deque<Begun> responses_;    // to be answered
  Payload* withheld_ = nullptr;    // whose END_REQ is owed
  Payload* responding_ = nullptr;  // whose END_RESP is outstanding
  sc_core::sc_time channel_free_;  // when the last response has ended
  bool sending_ = false;
};

}  // namespace heddle::host
