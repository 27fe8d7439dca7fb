#include "host/dma_port.h"

#include <algorithm>

namespace heddle::host {
namespace {

constexpr std::uint32_t kHeaderBytes = 24;  // of PCIe: a header of 16, and framing
constexpr std::uint32_t kStale = 1U << 31;

double bytes_per_cycle(const HubParams& params, Domain& domain) {
  return std::max(0.01, params.link_bandwidth / domain.clock().gigahertz());
}

}  // namespace

DmaPort::Statistics::Statistics(DmaPort& owner)
    : read_bytes(owner.counter("read_bytes", "bytes", "bytes read from the host's bus")),
      written_bytes(owner.counter("written_bytes", "bytes", "bytes written to the host's bus")),
      atomics(owner.counter("atomics", "values", "atomics that the host's memory has carried out as one")),
      split_atomics(owner.counter("split_atomics", "values", "atomics that became a read and a write")),
      held(owner.counter("held", "requests", "requests that waited for an earlier one to the same bytes")),
      errors(owner.counter("errors", "requests", "requests that ended with an error")),
      stray(owner.counter("stray", "calls", "calls of the target that belong to no request of ours: ignored")),
      latency(owner.histogram("latency", "cycles", "from a request's start to its end")) {}

DmaPort::DmaPort(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HubParams& params)
    : Block(name, domain, path),
      socket("socket"),
      params_(params),
      link_latency_(domain.cost(domain.clock().cycles_for_ns(params.link_latency))),
      timed_(domain.mode() == TimingMode::at),
      stats_(*this),
      out_(bytes_per_cycle(params, domain)),
      back_(bytes_per_cycle(params, domain)) {
  socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  if (timed_) return;
  SC_HAS_PROCESS(DmaPort);
  SC_THREAD(run);
}

DmaPort::~DmaPort() = default;

void DmaPort::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kLeave:
      leave_event_ = false;
      pump();
      break;
    case kArrive:
      bus_.push(reinterpret_cast<DmaPayload*>(argument));
      send_bus();
      break;
    case kBus:
      send_bus();
      break;
    case kAnswer:
      enter_answer(*reinterpret_cast<DmaPayload*>(argument));
      break;
    case kSettle:
      settle(*reinterpret_cast<DmaPayload*>(argument));
      break;
    default:
      finish_part(*reinterpret_cast<DmaPayload*>(argument));
      break;
  }
}

// The way out: tags, the link, and at its end the target's request channel.
void DmaPort::pump() {
  while (!leaving_.empty() && tags_ < params_.link_tags) {
    if (timed_ && !out_.free_at(now())) {
      if (!leave_event_) domain_.schedule(out_.earliest(now()), *this, kLeave);
      leave_event_ = true;
      return;
    }
    DmaPayload& payload = *leaving_.pop();
    ++tags_;
    if (timed_) out_.take(now(), kHeaderBytes + (payload.is_write() ? payload.get_data_length() : 0));
    domain_.schedule(now() + link_latency_, *this, kArrive, reinterpret_cast<std::uintptr_t>(&payload));
  }
}

void DmaPort::send_bus() {
  if (!timed_) {
    while (!bus_.empty()) calls_.push({bus_.pop(), now()});
    wake_.notify(sc_core::SC_ZERO_TIME);
    return;
  }
  while (!bus_.empty() && requesting_ == nullptr) {
    if (bus_free_ > now()) return domain_.schedule(bus_free_, *this, kBus);
    send(*bus_.pop());
  }
}

void DmaPort::send(DmaPayload& payload) {
  requesting_ = &payload;
  payload.state = DmaPayload::State::away;
  ++away_;
  sending_ = true;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = domain_.delay_until(now());
  const tlm::tlm_sync_enum status = socket->nb_transport_fw(payload, phase, delay);
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
    socket->nb_transport_fw(payload, phase, delay);
  }
}

// END_REQ, or a response, which implies it: whenever that comes, the request has been accepted.
void DmaPort::free_bus(const DmaPayload& payload, const sc_core::sc_time& delay) {
  if (requesting_ != &payload) return;
  requesting_ = nullptr;
  bus_free_ = arrival_of(delay);
  if (!sending_ && !bus_.empty()) domain_.schedule(bus_free_, *this, kBus);
}

// The domain may be ahead of who calls from outside.
Cycle DmaPort::arrival_of(const sc_core::sc_time& delay) const {
  return std::max(domain_.cycle_after(delay), domain_.now());
}

DmaPayload* DmaPort::own(tlm::tlm_generic_payload& payload) const {
  auto* mine = dynamic_cast<DmaPayload*>(&payload);
  if (mine == nullptr) return nullptr;
  const bool known = mine->state == DmaPayload::State::away || mine->state == DmaPayload::State::stale;
  return known ? mine : nullptr;
}

tlm::tlm_sync_enum DmaPort::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                            sc_core::sc_time& delay) {
  if (phase > tlm::END_RESP) return tlm::TLM_ACCEPTED;  // not of the base protocol: to be ignored
  DmaPayload* mine = own(payload);
  if (mine == nullptr || (phase != tlm::END_REQ && phase != tlm::BEGIN_RESP)) {
    stats_.stray.add();
    return tlm::TLM_ACCEPTED;
  }
  free_bus(*mine, phase == tlm::END_REQ ? delay : sc_core::SC_ZERO_TIME);
  if (phase == tlm::END_REQ) return tlm::TLM_ACCEPTED;
  take_response(*mine, delay);
  return tlm::TLM_COMPLETED;
}

// There is always room for it. False: it was taken before.
bool DmaPort::take_response(DmaPayload& payload, const sc_core::sc_time& delay) {
  if (payload.state == DmaPayload::State::stale) {
    payload.state = DmaPayload::State::inside;
    domain_.schedule(arrival_of(delay), *this, kSettle, reinterpret_cast<std::uintptr_t>(&payload));
    return true;
  }
  if (payload.state != DmaPayload::State::away) {
    stats_.stray.add();
    return false;
  }
  payload.state = DmaPayload::State::inside;
  --away_;
  domain_.schedule(arrival_of(delay), *this, kAnswer, reinterpret_cast<std::uintptr_t>(&payload));
  return true;
}

// The way back.
void DmaPort::enter_answer(DmaPayload& payload) {
  Cycle start = now();
  if (timed_) {
    start = back_.earliest(now());
    back_.take(start, kHeaderBytes + (payload.is_read() ? payload.get_data_length() : 0));
  }
  domain_.schedule(start + link_latency_, *this, kFinish, reinterpret_cast<std::uintptr_t>(&payload));
}

void DmaPort::run() {
  while (true) {
    while (calls_.empty()) sc_core::wait(wake_);
    const Call call = calls_.pop();
    DmaPayload& payload = *call.payload;
    payload.state = DmaPayload::State::away;
    ++away_;
    sc_core::sc_time delay = domain_.delay_until(call.when);
    socket->b_transport(payload, delay);
    take_response(payload, delay);  // the next call need not wait for that time
  }
}

unsigned DmaPort::debug(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint32_t bytes) {
  if (!bound()) return 0;
  tlm::tlm_generic_payload payload;
  payload.set_command(command);
  payload.set_address(address);
  payload.set_data_ptr(data);
  payload.set_data_length(bytes);
  payload.set_streaming_width(bytes);
  return std::min(socket->transport_dbg(payload), bytes);
}

void DmaPort::reset() {
  for (const auto& payload : pool_.all()) {
    if (payload->state == DmaPayload::State::away) payload->state = DmaPayload::State::stale;
    if (payload->state == DmaPayload::State::inside) payload->release();
  }
  order_.clear();
  keep_stale();
  jobs_.clear();
  free_jobs_.clear();
  open_ = tags_ = away_ = 0;
  out_.reset();
  back_.reset();
  leaving_.clear();
  bus_.clear();
  calls_.clear();
  leave_event_ = false;
  ignorant_.clear();
  bus_free_ = 0;
}

// What the target still has may change its memory at any time. Numbers that no job has.
void DmaPort::keep_stale() {
  stale_ = 0;
  for (const auto& payload : pool_.all()) {
    if (payload->state != DmaPayload::State::stale) continue;
    payload->job = kStale | stale_++;
    if (payload->changes) order_.enter(payload->job, payload->place, payload->place_bytes, true);
  }
}

void DmaPort::settle(DmaPayload& payload) {
  --stale_;
  freed_.clear();
  if (payload.changes) order_.leave(payload.job, payload.place, freed_);
  payload.release();
  begin_freed();
  pump();
}

void DmaPort::collect_waits(WaitGraph& graph) const {
  if (requesting_ != nullptr) graph.add(path(), "for a request to be accepted on", "the host's bus");
  if (away_ + stale_ > 0) graph.add(path(), "for responses of", "the host's bus");
}

}  // namespace heddle::host
