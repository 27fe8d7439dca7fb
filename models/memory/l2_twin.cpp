#include "memory/l2_twin.h"

#include <iterator>

#include "common/bits.h"

namespace heddle::memory {

L2Twin::L2Twin(const char* name, Domain& domain, const std::string& path, const L2Params& params, const TwinLink& link,
               const arch::AddressMap& map, std::uint32_t slice, L2Core& core, L2Ingress& ingress,
               L2MemoryPort::Listener& owner)
    : in("twin_in", domain),
      way(name, domain, path, params, link, ingress, owner),
      map_(map),
      slice_(slice),
      params_(params),
      core_(core),
      given_(map),
      hits_(domain.observation().stats.counter(path + ".copies.hits", "requests", "reads that a copy has served")),
      taken_away_(domain.observation().stats.counter(path + ".copies.taken_away", "lines",
                                                     "copies that the twin had to give up for a change of the line")),
      passed_(domain.observation().stats.counter(path + ".copies.passed", "requests",
                                                 "requests that went on to the home of their line")) {}

L2Core::Outcome L2Twin::stalls(const char* reason) {
  reason_ = reason;
  return L2Core::Outcome::stalled;
}

L2Core::Outcome L2Twin::serve(const L2Access& access, const PendingRequest& request) {
  reason_ = nullptr;
  if (access.kind == L2Access::Kind::drop_copy) {
    if (!drop(access.line)) late_.insert(access.line);
    return L2Core::Outcome::done;
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

// A walk of the whole slice that comes by another way than an SM's means this one, whatever its address.
bool L2Twin::goes_on(const L2Access& access, std::uint32_t port) const {
  if (!foreign(access.line)) return false;
  if (access.looks()) return access.kind == L2Access::Kind::read && late_.count(access.line) != 0;
  return !access.walks() || port == L2Ingress::kCrossbar;
}

// The copy goes first. One that is on its way here may be older than the change: it goes when it has come, and until
// then reads go to the home behind the change.
L2Core::Outcome L2Twin::pass(const L2Access& access, const PendingRequest& request) {
  if (!way.can_send()) return stalls("for room on the way from");
  if (access.changes() && !drop(access.line)) late_.insert(access.line);
  passed_.add();
  way.pass(request);
  return L2Core::Outcome::waits;
}

bool L2Twin::asks_home(const L2Access& access, const PendingRequest& request) {
  if (access.walks()) return false;
  passed_.add();
  way.pass(request);
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
  const std::size_t fetches = way.fetches() + core_.commands();  // these may be for the twin, too
  if (fetches >= params_.mshrs || mshrs.full()) return "for a miss-status register, held by fetches from";
  if (mshrs.targets() >= 2 * params_.waiters - params_.waiters / 4) return "for room among the requests that wait for";
  const std::uint32_t index = core_.array().find(line);
  const bool takes_one = index == L2Array::kNone || core_.array().state(index).mshr == 0;
  if (takes_one && !core_.array().has_spare(line)) {
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
  if (request.port() == L2Ingress::kTwin) {
    const std::uint32_t sectors = access.kind == L2Access::Kind::read ? bits::count(access.bytes.touched()) : 0;
    return way.answer(when, sectors * arch::kSectorBytes);
  }
  if (foreign(access.line)) return when;
  if (!access.changes() || !given_.has(access.line)) return way.hold(access.line, request, when) ? kNever : when;
  given_.set(access.line, false);
  taken_away_.add();
  way.take_away(access.line, request, when);
  return kNever;
}

void L2Twin::settle() {
  for (auto line = late_.begin(); line != late_.end();) line = drop(*line) ? late_.erase(line) : std::next(line);
}

bool L2Twin::blocking(const L2Access& access, tlm::tlm_generic_payload& payload, std::uint32_t port,
                      sc_core::sc_time& delay) {
  if (!late_.empty()) settle();
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
  if (access.changes() && !drop(access.line)) late_.insert(access.line);
  passed_.add();
  way.pass_blocking(payload, delay);
  return true;
}

bool L2Twin::asks_home_blocking(const L2Access& access, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  if (access.kind != L2Access::Kind::read || !foreign(access.line)) return false;
  passed_.add();
  way.pass_blocking(payload, delay);
  return true;
}

void L2Twin::took_effect(const L2Access& access, std::uint32_t port, sc_core::sc_time& delay) {
  if (port == L2Ingress::kTwin || !access.changes() || foreign(access.line) || !given_.has(access.line)) return;
  given_.set(access.line, false);
  taken_away_.add();
  way.take_away_blocking(access.line, delay);
}

void L2Twin::take_away_now(std::uint64_t line) {
  if (foreign(line) || !given_.has(line)) return;
  given_.set(line, false);
  way.take_away_now(line);
}

unsigned L2Twin::on_debug(tlm::tlm_generic_payload& payload) {
  const std::uint64_t line = payload.get_address() / arch::kLineBytes;
  if (!drop(line)) late_.insert(line);
  return 0;
}

// The twin fetches a copy, or has taken its own away before it passed a change on.
void L2Twin::note(const L2Access& access) {
  if (access.copies() || access.changes()) given_.set(access.line, access.copies());
}

void L2Twin::reset() {
  way.reset();
  given_.reset();
  late_.clear();
  reason_ = nullptr;
}

}  // namespace heddle::memory
