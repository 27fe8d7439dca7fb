#ifndef SC_INCLUDE_DYNAMIC_PROCESSES
#define SC_INCLUDE_DYNAMIC_PROCESSES  // for sc_spawn
#endif
#include "host/dma_bus.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::host {
namespace {

constexpr const char* kMessage = "/heddle/dma";
constexpr std::uint32_t kSerial = 2;  // requests in a row by which a target shows that it takes one at a time

DmaPayload* own(tlm::tlm_generic_payload& payload) {
  auto* mine = dynamic_cast<DmaPayload*>(&payload);
  if (mine == nullptr) return nullptr;
  const bool known = mine->state == DmaPayload::State::away || mine->state == DmaPayload::State::stale ||
                     mine->state == DmaPayload::State::lost;
  return known ? mine : nullptr;
}

// The domain may be ahead of who calls from outside.
Cycle arrival_of(const Domain& domain, const sc_core::sc_time& delay) {
  return std::max(domain.cycle_after(delay), domain.now());
}

}  // namespace

void report_dma(bool& before, sc_core::sc_severity severity, const std::string& text) {
  if (before) return;
  before = true;
  sc_core::sc_report_handler::report(severity, kMessage, text.c_str(), __FILE__, __LINE__);
}

DmaBus::DmaBus(const char* name, Domain& domain, Socket& socket, const HubParams& params,
               const DmaBusCounters& counters, Listener& listener)
    : name_(name),
      domain_(domain),
      socket_(socket),
      params_(params),
      counters_(counters),
      listener_(listener),
      direct_(domain, socket, params, counters.direct),
      callers_(params.dma_calls, [this](DmaPayload& payload, Cycle when) { return call(payload, when); }) {
  socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  sc_core::sc_spawn_options of_timer;
  of_timer.spawn_method();
  of_timer.set_sensitivity(&timer_);
  of_timer.dont_initialize();
  sc_core::sc_spawn([this] { domain_.schedule(domain_.now(), *this, kExpire, 0); }, "answer_limit", &of_timer);
}

void DmaBus::on_event(std::uint32_t kind, std::uint64_t argument) {
  auto* payload = reinterpret_cast<DmaPayload*>(argument);
  switch (kind) {
    case kBus:
      send_waiting();
      break;
    case kAnswer:
      take_answer(*payload);
      break;
    case kSettle:
      if (--stale_ + away_ == 0) timer_.cancel();
      listener_.on_bus_settled(*payload);
      payload->release();
      break;
    default:
      give_up_late_ones();
      break;
  }
}

// A channel that a request of before a reset still has, or one that nobody expects back, is no way for others.
bool DmaBus::blocking() const {
  if (params_.dma_transport == DmaTransport::blocking) return true;
  if (requesting_ != nullptr && requesting_->state != DmaPayload::State::away) return true;
  if (params_.dma_transport == DmaTransport::nonblocking) return false;
  return !heddle::has_costs(domain_.mode()) || (!habit_.accepts && habit_.implied >= kSerial);
}

void DmaBus::send(DmaPayload& payload) {
  if (payload.get_command() != tlm::TLM_IGNORE_COMMAND) {
    const auto took = direct_.copy(payload.get_command(), payload.requester.pasid, payload.place, payload.data.data(),
                                   payload.place_bytes);
    if (took) {
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
      return schedule(domain_.now() + *took, kAnswer, payload);
    }
  }
  waiting_.push(&payload);
  send_waiting();
}

void DmaBus::send_waiting() {
  while (!waiting_.empty() && blocking()) {
    DmaPayload& payload = *waiting_.pop();
    payload.called = true;
    callers_.push(payload, domain_.now());
  }
  while (!waiting_.empty() && requesting_ == nullptr) {
    if (free_at_ > domain_.now()) return domain_.schedule(free_at_, *this, kBus);
    send_request(*waiting_.pop());
  }
}

// The target has it from now on.
void DmaBus::leave(DmaPayload& payload, Cycle when) {
  payload.state = DmaPayload::State::away;
  payload.sent = when;
  ++away_;
  if (params_.dma_answer_limit <= 0) return;
  const sc_core::sc_time delay = domain_.delay_until(when) + sc_core::sc_time(params_.dma_answer_limit, sc_core::SC_NS);
  payload.deadline = sc_core::sc_time_stamp() + delay;
  if (away_ + stale_ == 1) timer_.notify(delay);
}

void DmaBus::send_request(DmaPayload& payload) {
  requesting_ = &payload;
  leave(payload, domain_.now());
  sending_ = true;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  sc_core::sc_time delay = domain_.delay_until(domain_.now());
  const tlm::tlm_sync_enum status = socket_->nb_transport_fw(payload, phase, delay);
  sending_ = false;
  if (status == tlm::TLM_COMPLETED) {
    note_acceptance(payload, false);
    free_channel(payload, sc_core::SC_ZERO_TIME);
    take_response(payload, delay);
  } else if (status == tlm::TLM_UPDATED && phase == tlm::END_REQ) {
    note_acceptance(payload, false);
    free_channel(payload, delay);
  } else if (status == tlm::TLM_UPDATED && phase == tlm::BEGIN_RESP) {
    note_acceptance(payload, false);
    free_channel(payload, sc_core::SC_ZERO_TIME);
    if (!take_response(payload, delay)) return;
    phase = tlm::END_RESP;
    socket_->nb_transport_fw(payload, phase, delay);
  }
}

// A target that accepts a request only with its response takes one at a time by this way, whatever it could do.
void DmaBus::note_acceptance(const DmaPayload& payload, bool by_response) {
  if (requesting_ != &payload) return;
  if (!by_response) habit_.accepts = true;
  if (by_response) ++habit_.implied;
  if (params_.dma_transport != DmaTransport::automatic || habit_.accepts || habit_.implied < kSerial) return;
  report_dma(
      reported_.serial, sc_core::SC_INFO,
      fmt::format("{}: the target accepts a request only with its response, so that non-blocking ones follow each "
                  "other singly; it is called by b_transport from now on (gpu.hub.dma_transport)",
                  name_));
}

// END_REQ, or a response, which implies it: whenever that comes, the request has been accepted.
void DmaBus::free_channel(const DmaPayload& payload, const sc_core::sc_time& delay) {
  if (requesting_ != &payload) return;
  requesting_ = nullptr;
  free_at_ = arrival_of(domain_, delay);
  if (!sending_ && !waiting_.empty()) domain_.schedule(free_at_, *this, kBus);
}

tlm::tlm_sync_enum DmaBus::nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                           sc_core::sc_time& delay) {
  if (phase > tlm::END_RESP) return tlm::TLM_ACCEPTED;  // not of the base protocol: to be ignored
  DmaPayload* mine = own(payload);
  if (mine == nullptr || mine->called || (phase != tlm::END_REQ && phase != tlm::BEGIN_RESP)) {
    counters_.stray.add();
    return tlm::TLM_ACCEPTED;
  }
  note_acceptance(*mine, phase == tlm::BEGIN_RESP);
  free_channel(*mine, phase == tlm::END_REQ ? delay : sc_core::SC_ZERO_TIME);
  if (phase == tlm::END_REQ) return tlm::TLM_ACCEPTED;
  take_response(*mine, delay);
  return tlm::TLM_COMPLETED;
}

// In a thread. Where time counts the call comes in its time, not ahead of it: so it does not matter what the target
// makes of a delay. True: it still counted when it returned.
bool DmaBus::call(DmaPayload& payload, Cycle when) {
  leave(payload, when);
  sc_core::sc_time delay = domain_.delay_until(when);
  if (heddle::has_costs(domain_.mode()) && delay > sc_core::SC_ZERO_TIME) {
    sc_core::wait(delay);
    delay = sc_core::SC_ZERO_TIME;
    if (payload.state != DmaPayload::State::away) {  // nobody wants it any more
      take_response(payload, delay);
      return false;
    }
  }
  const sc_core::sc_time before = sc_core::sc_time_stamp();
  socket_->b_transport(payload, delay);
  if (sc_core::sc_time_stamp() != before) waits_ = true;
  const bool counted = payload.state == DmaPayload::State::away;
  take_response(payload, delay);  // the next call need not wait for that time
  return counted;
}

// There is always room for it. False: it was taken before.
bool DmaBus::take_response(DmaPayload& payload, const sc_core::sc_time& delay) {
  switch (payload.state) {
    case DmaPayload::State::lost:
      payload.state = DmaPayload::State::inside;
      payload.release();
      return true;
    case DmaPayload::State::stale:
      payload.state = DmaPayload::State::inside;
      schedule(arrival_of(domain_, delay), kSettle, payload);
      return true;
    case DmaPayload::State::away:
      break;
    default:
      counters_.stray.add();
      return false;
  }
  payload.state = DmaPayload::State::inside;
  if (--away_ + stale_ == 0) timer_.cancel();
  const Cycle arrival = arrival_of(domain_, delay);
  if (payload.get_command() != tlm::TLM_IGNORE_COMMAND) takes_[payload.is_write()] = arrival - payload.sent;
  schedule(arrival, kAnswer, payload);
  return true;
}

void DmaBus::take_answer(DmaPayload& payload) {
  if (payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE) {
    report_dma(reported_.incomplete, sc_core::SC_WARNING,
               fmt::format("{}: the target has left the response status of address {:#x} untouched, which counts as {} "
                           "(gpu.hub.dma_incomplete)",
                           name_, payload.place, params_.dma_incomplete == IncompleteMeans::ok ? "OK" : "an error"));
    payload.set_response_status(params_.dma_incomplete == IncompleteMeans::ok ? tlm::TLM_OK_RESPONSE
                                                                              : tlm::TLM_GENERIC_ERROR_RESPONSE);
  }
  if (payload.is_dmi_allowed() && payload.is_response_ok()) {
    direct_.ask(payload.get_command(), payload.requester.pasid, payload.place, payload.place_bytes);
  }
  listener_.on_bus_answer(payload);
}

std::optional<Cycle> DmaBus::move(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address,
                                  std::uint8_t* data, std::uint32_t bytes) {
  if (!settled()) return std::nullopt;
  if (const auto took = direct_.copy(command, subcontext, address, data, bytes)) return took;
  const Cycle took = takes_[command == tlm::TLM_WRITE_COMMAND];
  if (waits_ || took == kNever || direct_.debug(command, subcontext, address, data, bytes) != bytes) {
    return std::nullopt;
  }
  return took;
}

// The oldest ones of those that are out are late: they end with an error, or do not count as out any more.
void DmaBus::give_up_late_ones() {
  const sc_core::sc_time now = sc_core::sc_time_stamp();
  sc_core::sc_time next = sc_core::sc_max_time();
  for (std::size_t i = 0; i < pool_.all().size(); ++i) {  // a listener may acquire others
    DmaPayload& payload = *pool_.all()[i];
    const bool away = payload.state == DmaPayload::State::away;
    if (!away && payload.state != DmaPayload::State::stale) continue;
    if (payload.deadline > now) {
      next = std::min(next, payload.deadline);
      continue;
    }
    payload.state = DmaPayload::State::lost;
    counters_.lost.add();
    report_dma(reported_.lost, sc_core::SC_INFO,
               fmt::format("{}: a request to address {:#x} has not been answered for {} ns and is taken for lost "
                           "(gpu.hub.dma_answer_limit)",
                           name_, payload.place, params_.dma_answer_limit));
    if (away) {
      --away_;
      if (payload.called) callers_.give_up_one();
      listener_.on_bus_lost(payload);
    } else {
      --stale_;
      listener_.on_bus_settled(payload);
    }
  }
  if (next != sc_core::sc_max_time()) timer_.notify(next - now);
  send_waiting();  // the channel may have been one of those
}

// The target may have a payload longer than its life here, and the timer goes on for it.
void DmaBus::reset_bus() {
  stale_ = away_ = 0;
  for (const auto& payload : pool_.all()) {
    if (payload->state == DmaPayload::State::away) payload->state = DmaPayload::State::stale;
    if (payload->state == DmaPayload::State::inside) payload->release();
    if (payload->state == DmaPayload::State::stale) ++stale_;
  }
  callers_.reset();
  direct_.reset();
  waiting_.clear();
  free_at_ = 0;
  habit_ = {};
  takes_[0] = takes_[1] = kNever;
  waits_ = false;
}

void DmaBus::collect_waits(WaitGraph& graph, const std::string& path) const {
  if (requesting_ != nullptr) graph.add(path, "for a request to be accepted on", "the host's bus");
  if (away_ + stale_ > 0) graph.add(path, "for responses of", "the host's bus");
}

}  // namespace heddle::host
