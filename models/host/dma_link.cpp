#include "host/dma_link.h"

#include <algorithm>

namespace heddle::host {
namespace {

constexpr std::uint32_t kPcieHeaderBytes = 24;  // of PCIe: a header of 16, and framing

double bytes_per_cycle(const HubParams& params, const Domain& domain) {
  return std::max(0.01, params.link_bandwidth / domain.clock().gigahertz());
}

}  // namespace

DmaLink::DmaLink(const char* name, Domain& domain, Socket& socket, const HubParams& params, Counter& stray,
                 Listener& listener)
    : name_(name),
      domain_(domain),
      socket_(socket),
      tag_limit_(params.link_tags),
      latency_(domain.cost(domain.clock().cycles_for_ns(params.link_latency))),
      timed_(heddle::has_costs(domain.mode())),
      stray_(stray),
      listener_(listener),
      out_(bytes_per_cycle(params, domain)),
      back_(bytes_per_cycle(params, domain)) {
  socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
}

DmaPayload& DmaLink::add() {
  DmaPayload& payload = pool_.acquire();
  leaving_.push(&payload);
  return payload;
}

void DmaLink::on_event(std::uint32_t kind, std::uint64_t argument) {
  auto* payload = reinterpret_cast<DmaPayload*>(argument);
  switch (kind) {
    case kLeave:
      leave_event_ = false;
      pump();
      break;
    case kArrive:
      bus_.push(payload);
      send_bus();
      break;
    case kBus:
      send_bus();
      break;
    case kAnswer:
      enter_answer(*payload);
      break;
    case kSettle:
      --stale_;
      listener_.on_dma_settled(*payload);
      break;
    default:
      --tags_;
      listener_.on_dma_answer(*payload);
      break;
  }
}

// The way out: tags, the link, and at its end the target's request channel.
void DmaLink::pump() {
  while (!leaving_.empty() && tags_ < tag_limit_) {
    if (timed_ && !out_.free_at(domain_.now())) {
      if (!leave_event_) domain_.schedule(out_.earliest(domain_.now()), *this, kLeave);
      leave_event_ = true;
      return;
    }
    DmaPayload& payload = *leaving_.pop();
    ++tags_;
    if (timed_) out_.take(domain_.now(), kPcieHeaderBytes + (payload.is_write() ? payload.get_data_length() : 0));
    schedule(domain_.now() + latency_, kArrive, payload);
  }
}

void DmaLink::send_bus() {
  if (!timed_) {
    while (!bus_.empty()) calls_.push({bus_.pop(), domain_.now()});
    wake_.notify(sc_core::SC_ZERO_TIME);
    return;
  }
  while (!bus_.empty() && requesting_ == nullptr) {
    if (bus_free_ > domain_.now()) return domain_.schedule(bus_free_, *this, kBus);
    send(*bus_.pop());
  }
}

void DmaLink::send(DmaPayload& payload) {
  requesting_ = &payload;
  payload.state = DmaPayload::State::away;
  ++away_;
  sending_ = true;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = domain_.delay_until(domain_.now());
  const tlm::tlm_sync_enum status = socket_->nb_transport_fw(payload, phase, delay);
  sending_ = false;
  if (status == tlm::TLM_COMPLETED) {
    free_bus(payload, sc_core::SC_ZERO_TIME);
    take_response(payload, delay);
  } else if (status == tlm::TLM_UPDATED && phase == tlm::END_REQ) {
    free_bus(payload, delay);
  } else if (status == tlm::TLM_UPDATED && phase == tlm::BEGIN_RESP) {
    free_bus(payload, sc_core::SC_ZERO_TIME);
    if (!take_response(payload, delay)) return;
    phase = tlm::END_RESP;
    socket_->nb_transport_fw(payload, phase, delay);
  }
}

// END_REQ, or a response, which implies it: whenever that comes, the request has been accepted.
void DmaLink::free_bus(const DmaPayload& payload, const sc_core::sc_time& delay) {
  if (requesting_ != &payload) return;
  requesting_ = nullptr;
  bus_free_ = arrival_of(delay);
  if (!sending_ && !bus_.empty()) domain_.schedule(bus_free_, *this, kBus);
}

// The domain may be ahead of who calls from outside.
Cycle DmaLink::arrival_of(const sc_core::sc_time& delay) const {
  return std::max(domain_.cycle_after(delay), domain_.now());
}

DmaPayload* DmaLink::own(tlm::tlm_generic_payload& payload) {
  auto* mine = dynamic_cast<DmaPayload*>(&payload);
  if (mine == nullptr) return nullptr;
  const bool known = mine->state == DmaPayload::State::away || mine->state == DmaPayload::State::stale;
  return known ? mine : nullptr;
}

tlm::tlm_sync_enum DmaLink::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                            sc_core::sc_time& delay) {
  if (phase > tlm::END_RESP) return tlm::TLM_ACCEPTED;  // not of the base protocol: to be ignored
  DmaPayload* mine = own(payload);
  if (mine == nullptr || (phase != tlm::END_REQ && phase != tlm::BEGIN_RESP)) {
    stray_.add();
    return tlm::TLM_ACCEPTED;
  }
  free_bus(*mine, phase == tlm::END_REQ ? delay : sc_core::SC_ZERO_TIME);
  if (phase == tlm::END_REQ) return tlm::TLM_ACCEPTED;
  take_response(*mine, delay);
  return tlm::TLM_COMPLETED;
}

// There is always room for it. False: it was taken before.
bool DmaLink::take_response(DmaPayload& payload, const sc_core::sc_time& delay) {
  if (payload.state == DmaPayload::State::stale) {
    payload.state = DmaPayload::State::inside;
    schedule(arrival_of(delay), kSettle, payload);
    return true;
  }
  if (payload.state != DmaPayload::State::away) {
    stray_.add();
    return false;
  }
  payload.state = DmaPayload::State::inside;
  --away_;
  schedule(arrival_of(delay), kAnswer, payload);
  return true;
}

// The way back.
void DmaLink::enter_answer(DmaPayload& payload) {
  Cycle start = domain_.now();
  if (timed_) {
    start = back_.earliest(domain_.now());
    back_.take(start, kPcieHeaderBytes + (payload.is_read() ? payload.get_data_length() : 0));
  }
  schedule(start + latency_, kFinish, payload);
}

void DmaLink::run() {
  while (true) {
    while (calls_.empty()) sc_core::wait(wake_);
    const Call call = calls_.pop();
    DmaPayload& payload = *call.payload;
    payload.state = DmaPayload::State::away;
    ++away_;
    sc_core::sc_time delay = domain_.delay_until(call.when);
    socket_->b_transport(payload, delay);
    take_response(payload, delay);  // the next call need not wait for that time
  }
}

void DmaLink::reset_link() {
  for (const auto& payload : pool_.all()) {
    if (payload->state == DmaPayload::State::away) payload->state = DmaPayload::State::stale;
    if (payload->state == DmaPayload::State::inside) payload->release();
  }
  tags_ = away_ = stale_ = 0;
  out_.reset();
  back_.reset();
  leaving_.clear();
  bus_.clear();
  calls_.clear();
  leave_event_ = false;
  bus_free_ = 0;
}

void DmaLink::collect_waits(WaitGraph& graph, const std::string& path) const {
  if (requesting_ != nullptr) graph.add(path, "for a request to be accepted on", "the host's bus");
  if (away_ + stale_ > 0) graph.add(path, "for responses of", "the host's bus");
}

}  // namespace heddle::host
