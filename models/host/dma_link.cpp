#include "host/dma_link.h"

#include <algorithm>

#include "arch/memory_op.h"

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
      back_(bytes_per_cycle(params, domain)),
      called_(heddle::has_calls(domain.mode())),
      rate_(bytes_per_cycle(params, domain)),
      out_ahead_(rate_),
      back_ahead_(rate_) {
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
    if (timed_ && !called_ && !out_.free_at(domain_.now())) {
      if (!leave_event_) domain_.schedule(out_.earliest(domain_.now()), *this, kLeave);
      leave_event_ = true;
      return;
    }
    DmaPayload& payload = *leaving_.pop();
    ++tags_;
    Cycle begin = domain_.now();
    const std::uint32_t bytes = kPcieHeaderBytes + (payload.is_write() ? payload.get_data_length() : 0);
    if (timed_ && called_) {
      begin = out_ahead_.take(begin, bytes);
    } else if (timed_) {
      out_.take(begin, bytes);
    }
    schedule(begin + latency_, kArrive, payload);
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
  payload.sent = domain_.now();
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
  if (payload.get_command() != tlm::TLM_IGNORE_COMMAND && payload.sent != kNever) {
    target_takes_[payload.is_write()] = arrival_of(delay) - payload.sent;
  }
  schedule(arrival_of(delay), kAnswer, payload);
  return true;
}

// The way back.
void DmaLink::enter_answer(DmaPayload& payload) {
  Cycle start = domain_.now();
  if (timed_) {
    const std::uint32_t bytes = kPcieHeaderBytes + (payload.is_read() ? payload.get_data_length() : 0);
    if (called_) {
      start = back_ahead_.take(start, bytes);
    } else {
      start = back_.earliest(start);
      back_.take(start, bytes);
    }
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
    payload.sent = call.when;
    const sc_core::sc_time before = sc_core::sc_time_stamp();
    socket_->b_transport(payload, delay);
    if (sc_core::sc_time_stamp() != before) target_waits_ = true;
    take_response(payload, delay);  // the next call need not wait for that time
  }
}

bool DmaLink::takes(const RangeMove& range) const {
  return called_ && settled() && !target_waits_ && target_takes_[range.write] != kNever &&
         range.bytes / arch::kLineBytes <= tag_limit_;
}

void DmaLink::go_out(RangeMove& range, std::uint32_t queue) {
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  range.accepted = range.first;
  if (!timed_) return range.delay(target_takes_[range.write]);
  const Cycle first = range.first;
  const Cycle last = range.last;
  while (range_lines_ + lines > tag_limit_) {
    const Tags freed = range_tags_.pop();
    ++ranges_gone_;
    range_lines_ -= freed.lines;
    range.first = std::max(range.first, freed.first);
    range.last = std::max({range.last, range.first, freed.last});
  }
  if (range.first > first || range.last > last) {
    range.accepted = range.time_of(lines - std::min(lines, queue), lines);
  }
  const std::uint32_t out = kPcieHeaderBytes + (range.write ? arch::kLineBytes : 0);
  range.follow(out_ahead_.take(range.first, lines * out), (lines - 1) * out / rate_);
  range.delay(latency_ + target_takes_[range.write]);
  // As long as nobody knows better.
  range.note = ranges_gone_ + range_tags_.size();
  range_tags_.push({lines, range.first + latency_, range.last + latency_});
  range_lines_ += lines;
}

void DmaLink::come_back(RangeMove& range) {
  if (!timed_) return;
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  const std::uint32_t back = kPcieHeaderBytes + (range.write ? 0 : arch::kLineBytes);
  range.follow(back_ahead_.take(range.first, lines * back), (lines - 1) * back / rate_);
  range.delay(latency_);
  if (range.note < ranges_gone_) return;
  Tags& tags = range_tags_.at(range.note - ranges_gone_);
  tags.first = range.first;
  tags.last = range.last;
}

void DmaLink::reset_link() {
  for (const auto& payload : pool_.all()) {
    if (payload->state == DmaPayload::State::away) payload->state = DmaPayload::State::stale;
    if (payload->state == DmaPayload::State::inside) payload->release();
  }
  tags_ = away_ = stale_ = 0;
  out_.reset();
  back_.reset();
  out_ahead_.reset();
  back_ahead_.reset();
  range_tags_.clear();
  range_lines_ = 0;
  ranges_gone_ = 0;
  target_takes_[0] = target_takes_[1] = kNever;
  target_waits_ = false;
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
