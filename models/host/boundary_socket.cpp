#include "host/boundary_socket.h"

#include <algorithm>

namespace heddle::host {

BoundarySocket::BoundarySocket(const char* name, Domain& domain, BoundaryOwner& owner, std::uint32_t index)
    : Base(name), domain_(domain), owner_(owner), index_(index) {
  this->bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
}

bool BoundarySocket::knows(const Payload& payload) const {
  const auto is_it = [&payload](const Begun& other) { return other.payload == &payload; };
  return responding_ == &payload || std::any_of(open_.begin(), open_.end(), is_it) ||
         std::any_of(responses_.begin(), responses_.end(), is_it);
}

tlm::tlm_sync_enum BoundarySocket::nb_transport_fw(Payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase == tlm::BEGIN_REQ) return begin(payload, phase, delay);
  if (phase == tlm::END_RESP) return end(payload, delay);
  return tlm::TLM_ACCEPTED;  // not of the base protocol, or not of an initiator: ignored
}

tlm::tlm_sync_enum BoundarySocket::begin(Payload& payload, tlm::tlm_phase& phase, const sc_core::sc_time& delay) {
  if (knows(payload)) return tlm::TLM_ACCEPTED;  // its first BEGIN_REQ counts
  if (withheld_ != nullptr) {                    // the request exclusion rule
    payload.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    return tlm::TLM_COMPLETED;
  }
  if (payload.has_mm()) payload.acquire();
  open_.push_back({&payload, time_of(delay)});
  // The domain may be ahead of a caller from outside: then it is now.
  if (!owner_.on_request(payload, index_, std::max(domain_.cycle_after(delay), domain_.now()))) {
    withheld_ = &payload;
    return tlm::TLM_ACCEPTED;
  }
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

tlm::tlm_sync_enum BoundarySocket::end(Payload& payload, const sc_core::sc_time& delay) {
  if (responding_ != &payload) return tlm::TLM_COMPLETED;  // of a response that was not sent
  channel_free_ = time_of(delay);
  finish(payload);
  if (!sending_ && !responses_.empty()) {
    domain_.schedule(std::max(domain_.cycle_after(delay), domain_.now()), *this, 0);
  }
  return tlm::TLM_COMPLETED;
}

void BoundarySocket::finish(Payload& payload) {
  responding_ = nullptr;
  if (payload.has_mm()) payload.release();
}

void BoundarySocket::respond(Payload& payload) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&payload](const Begun& b) { return b.payload == &payload; });
  HEDDLE_CHECK(found != open_.end(), "a response to nothing on the boundary");
  responses_.push_back(*found);
  open_.erase(found);
  send_responses();
}

void BoundarySocket::on_event(std::uint32_t /*kind*/, std::uint64_t /*argument*/) { send_responses(); }

void BoundarySocket::send_responses() {
  if (sending_) return;
  sending_ = true;
  while (responding_ == nullptr && !responses_.empty()) {
    const Cycle earliest = domain_.clock().cycle_at(std::max(channel_free_, responses_.front().when));
    if (earliest > domain_.now()) {
      domain_.schedule(earliest, *this, 0);
      break;
    }
    Payload& payload = *responses_.front().payload;
    responses_.pop_front();
    if (withheld_ == &payload) withheld_ = nullptr;  // implied
    responding_ = &payload;
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = domain_.delay_until(domain_.now());
    const tlm::tlm_sync_enum status = (*this)->nb_transport_bw(payload, phase, delay);
    const bool ended = status == tlm::TLM_COMPLETED || (status == tlm::TLM_UPDATED && phase == tlm::END_RESP);
    if (ended && responding_ == &payload) {
      channel_free_ = time_of(delay);
      finish(payload);
    }
  }
  sending_ = false;
}

void BoundarySocket::accept() {
  if (withheld_ == nullptr) return;
  Payload& payload = *withheld_;
  withheld_ = nullptr;
  tlm::tlm_phase phase = tlm::END_REQ;
  sc_core::sc_time delay = domain_.delay_until(domain_.now());
  (*this)->nb_transport_bw(payload, phase, delay);
}

void BoundarySocket::fail_open() {
  for (const Begun& begun : open_) {
    begun.payload->set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    responses_.push_back(begun);
  }
  open_.clear();
  if (!responses_.empty()) domain_.schedule(domain_.now(), *this, 0);
}

void BoundarySocket::invalidate(std::uint64_t first, std::uint64_t last) {
  if (this->size() > 0) (*this)->invalidate_direct_mem_ptr(first, last);
}

void BoundarySocket::b_transport(Payload& payload, sc_core::sc_time& delay) {
  owner_.on_blocking(payload, index_, delay);
}
bool BoundarySocket::get_direct_mem_ptr(Payload& payload, tlm::tlm_dmi& dmi) {
  return owner_.on_direct(payload, index_, dmi);
}
unsigned int BoundarySocket::transport_dbg(Payload& payload) { return owner_.on_debug(payload, index_); }

}  // namespace heddle::host
