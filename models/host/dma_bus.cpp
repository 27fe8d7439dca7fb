#ifndef SC_INCLUDE_DYNAMIC_PROCESSES
#define SC_INCLUDE_DYNAMIC_PROCESSES  // for sc_spawn
#endif
#include "host/dma_bus.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "arch/memory_op.h"

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

void report(bool& before, sc_core::sc_severity severity, const std::string& text) {
  if (before) return;
  before = true;
  sc_core::sc_report_handler::report(severity, kMessage, text.c_str(), __FILE__, __LINE__);
}

// A payload that asks something about an address, and moves nothing.
void aim(tlm::tlm_generic_payload& query, tlm::tlm_command command, std::uint64_t address, std::uint8_t* data,
         std::uint32_t bytes) {
  query.set_command(command);
  query.set_address(address);
  query.set_data_ptr(data);
  query.set_data_length(bytes);
  query.set_streaming_width(bytes);
}

}  // namespace

DmaBus::DmaBus(const char* name, Domain& domain, Socket& socket, const HubParams& params,
               const DmaBusCounters& counters, Listener& listener)
    : name_(name),
      domain_(domain),
      socket_(socket),
      params_(params),
      counters_(counters),
      listener_(listener),
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
  if (copy_direct(payload)) return;
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
  report(reported_.serial, sc_core::SC_INFO,
         fmt::format("{}: the target accepts a request only with its response, so that non-blocking ones follow each "
                     "other singly; it is called by b_transport from now on (gpu.hub.dma_transport)",
                     name_));
}

// END_REQ, or a response, which implies it: whenever that comes, the request has been accepted.
void DmaBus::free_channel(const DmaPayload& payload, const sc_core::sc_time& delay) {
  if (requesting_ != &payload) return;
  requesting_ = nullptr;
  free_at_ = arrival_of(delay);
  if (!sending_ && !waiting_.empty()) domain_.schedule(free_at_, *this, kBus);
}

// The domain may be ahead of who calls from outside.
Cycle DmaBus::arrival_of(const sc_core::sc_time& delay) const {
  return std::max(domain_.cycle_after(delay), domain_.now());
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
      schedule(arrival_of(delay), kSettle, payload);
      return true;
    case DmaPayload::State::away:
      break;
    default:
      counters_.stray.add();
      return false;
  }
  payload.state = DmaPayload::State::inside;
  if (--away_ + stale_ == 0) timer_.cancel();
  const Cycle arrival = arrival_of(delay);
  if (payload.get_command() != tlm::TLM_IGNORE_COMMAND) takes_[payload.is_write()] = arrival - payload.sent;
  schedule(arrival, kAnswer, payload);
  return true;
}

void DmaBus::take_answer(DmaPayload& payload) {
  if (payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE) {
    report(reported_.incomplete, sc_core::SC_WARNING,
           fmt::format("{}: the target has left the response status of address {:#x} untouched, which counts as {} "
                       "(gpu.hub.dma_incomplete)",
                       name_, payload.place, params_.dma_incomplete == IncompleteMeans::ok ? "OK" : "an error"));
    payload.set_response_status(params_.dma_incomplete == IncompleteMeans::ok ? tlm::TLM_OK_RESPONSE
                                                                              : tlm::TLM_GENERIC_ERROR_RESPONSE);
  }
  if (payload.is_dmi_allowed() && payload.is_response_ok()) ask_direct(payload);
  listener_.on_bus_answer(payload);
}

// Where accesses are calls. The target's time is that of the grant.
bool DmaBus::copy_direct(DmaPayload& payload) {
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) return false;
  const bool write = payload.is_write();
  const DirectGrants::Grant* grant =
      grants_.find(payload.requester.pasid, payload.place, payload.get_data_length(), write);
  if (grant == nullptr) return false;
  unsigned char* there = grant->at(payload.place);
  if (write) {
    std::memcpy(there, payload.data.data(), payload.get_data_length());
  } else {
    std::memcpy(payload.data.data(), there, payload.get_data_length());
  }
  counters_.direct.add();
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  schedule(domain_.now() + grant->latency[write], kAnswer, payload);
  return true;
}

void DmaBus::ask_direct(const DmaPayload& payload) {
  const bool write = payload.changes;
  if (!uses_pointers() || grants_.knows(payload.requester.pasid, payload.place, write)) return;
  tlm::tlm_generic_payload query;
  aim(query, write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, payload.place, nullptr, payload.place_bytes);
  direct_pointer(query, payload.requester.pasid);
}

// What the target says of a direct pointer is kept, whatever it was asked for.
void DmaBus::direct_pointer(tlm::tlm_generic_payload& query, std::uint8_t subcontext) {
  DmaRequester requester;
  requester.requester = static_cast<std::uint16_t>(params_.dma_requester);
  requester.pasid = subcontext;
  const LentRequester lent(query, requester);
  const std::uint64_t address = query.get_address();  // who passes the question on may change it
  tlm::tlm_dmi dmi;
  const bool granted = socket_->get_direct_mem_ptr(query, dmi);
  const bool write = query.is_write();
  if (!uses_pointers() || grants_.knows(subcontext, address, write)) return;
  DirectGrants::Grant grant;
  grant.subcontext = subcontext;
  grant.asked[write] = true;
  grant.first = std::min<std::uint64_t>(dmi.get_start_address(), address);
  grant.last = std::max<std::uint64_t>(dmi.get_end_address(), address);
  // A range that does not have the address in it makes no sense: it is taken for a refusal.
  const bool makes_sense = grant.first == dmi.get_start_address() && grant.last == dmi.get_end_address();
  if (granted && makes_sense && dmi.get_dmi_ptr() != nullptr) {
    const auto cycles = [this](const sc_core::sc_time& time) {
      return domain_.clock().cycles_for_ns(time.to_seconds() * 1e9);
    };
    grant.pointer = dmi.get_dmi_ptr();
    grant.allowed[0] = dmi.is_read_allowed();
    grant.allowed[1] = dmi.is_write_allowed();
    grant.latency[0] = cycles(dmi.get_read_latency());
    grant.latency[1] = cycles(dmi.get_write_latency());
  } else if (!makes_sense) {
    grant.first = grant.last = address;
  }
  grants_.add(grant);
}

std::optional<Cycle> DmaBus::move(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address,
                                  std::uint8_t* data, std::uint32_t bytes) {
  const bool write = command == tlm::TLM_WRITE_COMMAND;
  if (!settled()) return std::nullopt;
  if (const DirectGrants::Grant* grant = grants_.find(subcontext, address, bytes, write); grant != nullptr) {
    unsigned char* there = grant->at(address);
    std::memcpy(write ? there : data, write ? data : there, bytes);
    counters_.direct.add(bytes / arch::kLineBytes);
    return grant->latency[write];
  }
  if (waits_ || takes_[write] == kNever || debug(command, subcontext, address, data, bytes) != bytes) {
    return std::nullopt;
  }
  return takes_[write];
}

bool DmaBus::carries_out(const protocol::MemoryExtension& atomic, std::uint64_t address) {
  protocol::MemoryExtension asked;
  asked.action = protocol::MemoryAction::atomic;
  asked.atomic = atomic.atomic;
  asked.type = atomic.type;
  asked.lanes = 1;
  asked.lane[0].offset = static_cast<std::uint8_t>(address % arch::kLineBytes);
  tlm::tlm_generic_payload query;
  std::array<std::uint8_t, 8> nothing{};
  aim(query, tlm::TLM_WRITE_COMMAND, address, nothing.data(), arch::bytes_of(atomic.type));
  query.set_extension(&asked);
  direct_pointer(query, atomic.subcontext);
  query.clear_extension(&asked);
  return asked.carried_out;
}

unsigned DmaBus::debug(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address, std::uint8_t* data,
                       std::uint32_t bytes) {
  DmaRequester requester;
  requester.requester = static_cast<std::uint16_t>(params_.dma_requester);
  requester.pasid = subcontext;
  tlm::tlm_generic_payload payload;
  const LentRequester lent(payload, requester);
  aim(payload, command, address, data, bytes);
  return std::min(socket_->transport_dbg(payload), bytes);
}

void DmaBus::report_split(std::uint64_t address) {
  report(reported_.split, sc_core::SC_INFO,
         fmt::format("{}: an atomic at {:#x} is a read and a write, as nobody there says that it carries atomics out: "
                     "other masters can come between the two (gpu.hub.dma_atomics)",
                     name_, address));
}

// The oldest ones of those that are out are late: they end with an error, or do not count as out any more.
void DmaBus::give_up_late_ones() {
  const sc_core::sc_time now = sc_core::sc_time_stamp() + domain_.delay_until(domain_.now());
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
    report(reported_.lost, sc_core::SC_INFO,
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
  if (away_ + stale_ > 0 && next != sc_core::sc_max_time()) timer_.notify(next - sc_core::sc_time_stamp());
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
  grants_.clear();
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
