#include "memory/l2_twin.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::memory {
namespace {

constexpr std::uint32_t kHeader = 32;  // bytes

L2Params twin_params(L2Params params, const TwinLink& link) {
  params.memory_latency = link.latency;
  params.memory_bandwidth = link.bytes_per_cycle;
  return params;
}

}  // namespace

L2Twin::L2Twin(const char* name, Domain& domain, const std::string& path, const L2Params& params, const TwinLink& link,
               const arch::AddressMap& map, std::uint32_t slice, L2Core& core, L2Ingress& ingress,
               L2MemoryPort::Listener& owner)
    : in("twin_in", domain),
      out("twin_out", domain),
      domain_(domain),
      map_(map),
      slice_(slice),
      params_(params),
      link_(link),
      core_(core),
      ingress_(ingress),
      owner_(owner),
      port_(name, domain, out, twin_params(params, link), *this, protocol::MemoryAction::copy),
      hits_(domain.observation().stats.counter(path + ".copies.hits", "requests", "reads that a copy has served")),
      taken_away_(domain.observation().stats.counter(path + ".copies.taken_away", "lines",
                                                     "copies that the twin had to give up for a change of the line")),
      passed_(domain.observation().stats.counter(path + ".copies.passed", "requests",
                                                 "requests that went on to the home of their line")),
      bytes_(domain.observation().stats.counter(path + ".crossing_bytes", "bytes",
                                                "what has gone to the twin and what came back for it")) {}

L2Core::Outcome L2Twin::stalls(const char* reason) {
  reason_ = reason;
  return L2Core::Outcome::stalled;
}

L2Core::Outcome L2Twin::serve(const L2Access& access, const PendingRequest& request) {
  reason_ = nullptr;
  if (access.kind == L2Access::Kind::drop_copy) {
    if (drop(access.line)) return L2Core::Outcome::done;
    drops_.push_back(request);
    return L2Core::Outcome::waits;
  }
  if (goes_on(access, request.port())) return pass(access, request);
  if (foreign(access.line) && access.looks()) {
    const char* why = misses(access) ? why_no_miss(access.line) : nullptr;
    if (why != nullptr) return stalls(why);
    const L2Core::Outcome outcome = core_.serve(access, request.handle());
    if (outcome == L2Core::Outcome::done && access.kind == L2Access::Kind::read) hits_.add();
    return outcome;
  }
  const L2Core::Outcome outcome = core_.serve(access, request.handle());
  // In the order in which the line's requests take effect: who fetches has the copy of what is there then.
  if (outcome != L2Core::Outcome::stalled && request.port() == L2Ingress::kTwin) note(access);
  return outcome;
}

// A write-back of the whole slice that comes by another way than an SM's means this one, whatever its address.
bool L2Twin::goes_on(const L2Access& access, std::uint32_t port) const {
  if (access.looks() || !foreign(access.line)) return false;
  return access.kind != L2Access::Kind::write_back || port == L2Ingress::kCrossbar;
}

// The copy goes first; one that is on its way here may be older than the change.
L2Core::Outcome L2Twin::pass(const L2Access& access, const PendingRequest& request) {
  if (access.kind != L2Access::Kind::write_back && !drop(access.line)) return stalls("for a copy of its line from");
  if (!can_send()) return stalls("for room at");
  open_[&request.payload()] = {request, 0, false};
  passed_.add();
  send(request.payload());
  return L2Core::Outcome::waits;
}

bool L2Twin::ask_twin(const L2Access& access, const PendingRequest& request) {
  if (access.kind == L2Access::Kind::write_back || !foreign(access.line)) return false;
  open_[&request.payload()] = {request, 0, false};
  passed_.add();
  send(request.payload());
  return true;
}

bool L2Twin::misses(const L2Access& access) const {
  const L2Array& array = core_.array();
  const std::uint32_t index = array.find(access.line);
  if (index == L2Array::kNone) return true;
  return array.state(index).mshr != 0 || access.missing(array.state(index).valid) != 0;
}

// Lines of the slice's own have the rest to themselves.
const char* L2Twin::why_no_miss(std::uint64_t line) const {
  const L2Mshrs& mshrs = core_.mshrs();
  if (mshrs.in_use() >= 2 * params_.mshrs - params_.mshrs / 2) return "for a miss-status register, held by fetches from";
  if (mshrs.targets() >= 2 * params_.waiters - params_.waiters / 2) return "for room among the requests that wait for";
  if (core_.array().find(line) == L2Array::kNone && !core_.array().has_spare(line)) {
    return "for a way of its set, all of which are fetched from";
  }
  return nullptr;
}

bool L2Twin::drop(std::uint64_t line) {
  if (core_.busy_with(line)) return false;
  core_.forget(line);
  return true;
}

Cycle L2Twin::departure(const L2Access& access, const PendingRequest& request, Cycle when) {
  if (request.port() == L2Ingress::kTwin) return when + link_.latency;
  if (!access.changes() || foreign(access.line) || !gave(access.line)) return when;
  give(access.line, false);
  tlm::tlm_generic_payload& payload = drop_request(access.line);
  open_[&payload] = {request, when, true};
  taken_away_.add();
  send(payload);
  return kNever;
}

void L2Twin::send(tlm::tlm_generic_payload& payload) {
  unsent_.push_back({&payload, {}});
  send_unsent();
}

// The way may be taken: then what goes to memory must not wait behind it.
void L2Twin::fetch(const L2Command& command) {
  unsent_.push_back({nullptr, command});
  send_unsent();
}

void L2Twin::on_memory_room() {
  send_unsent();
  owner_.on_memory_room();
}

void L2Twin::send_unsent() {
  while (!unsent_.empty() && port_.can_send()) {
    const Unsent next = unsent_.front();
    unsent_.pop_front();
    if (next.payload == nullptr) {
      count(next.fetch.sectors * arch::kSectorBytes);
      port_.send(next.fetch, nullptr);
    } else {
      count(next.payload->get_data_length());
      port_.send_other(*next.payload);
    }
  }
}

void L2Twin::count(std::uint32_t bytes) { bytes_.add(2 * kHeader + std::uint64_t{bytes}); }

void L2Twin::on_other_answer(tlm::tlm_generic_payload& payload) {
  const auto found = open_.find(&payload);
  if (found == open_.end()) return;  // of before a reset
  const Open open = found->second;
  open_.erase(found);
  if (open.drop) payload.release();
  ingress_.respond(open.request, std::max(domain_.now(), open.when), domain_.now());
}

void L2Twin::settle() {
  for (auto line = late_.begin(); line != late_.end();) line = drop(*line) ? late_.erase(line) : std::next(line);
  for (std::size_t i = 0; i < drops_.size();) {
    const PendingRequest request = drops_[i];
    if (!drop(request.payload().get_address() / arch::kLineBytes)) {
      ++i;
      continue;
    }
    drops_.erase(drops_.begin() + static_cast<std::ptrdiff_t>(i));
    request.payload().set_response_status(tlm::TLM_OK_RESPONSE);
    ingress_.respond(request, domain_.now() + link_.latency, domain_.now());
  }
}

bool L2Twin::blocking(const L2Access& access, tlm::tlm_generic_payload& payload, std::uint32_t port,
                      sc_core::sc_time& delay) {
  if (access.kind == L2Access::Kind::drop_copy) {
    if (!drop(access.line)) late_.insert(access.line);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    return true;
  }
  if (!goes_on(access, port)) {
    if (port == L2Ingress::kTwin) note(access);
    if (foreign(access.line) && access.kind == L2Access::Kind::read && !misses(access)) hits_.add();
    return false;
  }
  if (access.kind != L2Access::Kind::write_back && !drop(access.line)) late_.insert(access.line);
  passed_.add();
  call(payload, delay);
  return true;
}

void L2Twin::call(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const sc_core::sc_time way = sc_core::sc_time::from_value(domain_.clock().period().value() * link_.latency);
  count(payload.get_data_length());
  delay += way;
  out.blocking(payload, delay);
  delay += way;
}

int L2Twin::fetch_blocking(std::uint64_t line, const SectorRun& run, std::uint8_t* line_image,
                           sc_core::sc_time& delay) {
  const sc_core::sc_time way = sc_core::sc_time::from_value(domain_.clock().period().value() * link_.latency);
  count(run.count * arch::kSectorBytes);
  delay += way;
  const int status = port_.read_blocking(line, run, line_image, delay);
  delay += way;
  return status;
}

bool L2Twin::ask_blocking(const L2Access& access, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  if (access.kind != L2Access::Kind::read || !foreign(access.line)) return false;
  passed_.add();
  call(payload, delay);
  return true;
}

void L2Twin::blocking_effect(const L2Access& access, std::uint32_t port, sc_core::sc_time& delay) {
  if (port == L2Ingress::kTwin || !access.changes() || foreign(access.line) || !gave(access.line)) return;
  give(access.line, false);
  protocol::MemoryRequest& request = drop_request(access.line);
  taken_away_.add();
  call(request, delay);
  request.release();
}

void L2Twin::drop_now(std::uint64_t line) {
  if (foreign(line) || !gave(line)) return;
  give(line, false);
  protocol::MemoryRequest& request = drop_request(line);
  out.debug(request);
  request.release();
}

unsigned L2Twin::on_debug(tlm::tlm_generic_payload& payload) {
  const std::uint64_t line = payload.get_address() / arch::kLineBytes;
  if (!drop(line)) late_.insert(line);
  return 0;
}

protocol::MemoryRequest& L2Twin::drop_request(std::uint64_t line) {
  protocol::MemoryRequest& request = pool_.acquire();
  request.aim(tlm::TLM_IGNORE_COMMAND, line * arch::kLineBytes, 0);
  request.extension.action = protocol::MemoryAction::drop_copy;
  return request;
}

// The twin fetches a copy, or has taken its own away before it passed a change on.
void L2Twin::note(const L2Access& access) {
  if (access.copies() || access.changes()) give(access.line, access.copies());
}

bool L2Twin::gave(std::uint64_t line) const {
  const std::uint64_t number = number_of(line);
  return number / 64 < given_.size() && (given_[number / 64] >> (number % 64) & 1) != 0;
}

void L2Twin::give(std::uint64_t line, bool given) {
  const std::uint64_t number = number_of(line);
  if (number / 64 >= given_.size()) {
    if (!given) return;
    given_.resize(std::max(number / 64 + 1, given_.size() * 2));
  }
  const std::uint64_t bit = std::uint64_t{1} << (number % 64);
  given_[number / 64] = given ? given_[number / 64] | bit : given_[number / 64] & ~bit;
}

void L2Twin::reset() {
  for (const auto& [payload, open] : open_) {
    if (open.drop) payload->release();
  }
  open_.clear();
  unsent_.clear();
  drops_.clear();
  late_.clear();
  given_.clear();
  port_.reset(true);
  reason_ = nullptr;
}

}  // namespace heddle::memory
