#include "common/packet_socket.h"

#include <algorithm>
#include <string>

namespace heddle {

PacketOutSocket::PacketOutSocket(const char* name, Domain& domain, PacketKind kind, Cycle latency,
                                 std::uint32_t credits)
    : Socket(name),
      domain_(domain),
      latency_(domain.cost(latency)),
      credits_(credits),
      sent_(domain.observation().packets[kind]) {
  Socket::bind(static_cast<tlm::tlm_bw_transport_if<packet_protocol>&>(*this));
  domain.add_resettable(*this);
}

PacketOutSocket::~PacketOutSocket() = default;

bool PacketOutSocket::has_credit(std::uint32_t link) {
  if (credits_ == kUnlimitedCredits) return true;
  Link& state = link_state(link);
  collect(state);
  if (state.free > 0) return true;
  state.refused = true;
  arm(state, link);
  return false;
}

void PacketOutSocket::transfer_at(Cycle departure, const void* packet, PacketKind kind, std::uint32_t link) {
  Link& state = link_state(link);
  if (credits_ != kUnlimitedCredits) {
    collect(state);
    HEDDLE_CHECK(state.free > 0, std::string("packet sent without a credit on ") + this->name());
    --state.free;
  }
  ++sent_;
  const Cycle arrival = departure + latency_;
  PacketTransfer transfer{packet, kind, link, credits_ != kUnlimitedCredits, generation_, &domain_};
  HintedCall call(domain_, &transfer, arrival);
  PacketPhase phase = PacketPhase::send;
  state.target->nb_transport_fw(transfer, phase, call.delay);
}

std::uint32_t PacketOutSocket::outstanding(std::uint32_t link) {
  Link& state = link_state(link);
  collect(state);
  return credits_ == kUnlimitedCredits ? 0 : credits_ - state.free;
}

void PacketOutSocket::reset() {
  ++generation_;
  for (Link& state : links_) {
    state.free = credits_;
    state.returning.clear();
    state.refused = state.armed = false;
  }
}

// Bindings are known once elaboration is over; the first use looks them up.
PacketOutSocket::Link& PacketOutSocket::find_link(std::uint32_t link) {
  HEDDLE_CHECK(links_.empty() && link < links(), std::string("packet socket has no such link: ") + this->name());
  links_.resize(links());
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    links_[i].target = (*this)[static_cast<int>(i)];
    links_[i].free = credits_;
  }
  return links_[link];
}

void PacketOutSocket::collect(Link& state) {
  while (!state.returning.empty() && state.returning.front() <= domain_.now()) {
    state.returning.pop_front();
    ++state.free;
  }
}

// A refused sender wants to know: only then does a returning credit cost an event.
void PacketOutSocket::arm(Link& state, std::uint32_t link) {
  if (!state.refused || state.armed || state.returning.empty()) return;
  state.armed = true;
  domain_.schedule(std::max(state.returning.front(), domain_.now()), *this, 0, link);
}

void PacketOutSocket::on_event(std::uint32_t /*kind*/, std::uint64_t argument) {
  const auto link = static_cast<std::uint32_t>(argument);
  Link& state = link_state(link);
  state.armed = false;
  collect(state);
  if (state.free > 0 && state.refused) {
    state.refused = false;
    if (callback_ != nullptr) callback_(owner_, link);
  }
  arm(state, link);
}

tlm::tlm_sync_enum PacketOutSocket::nb_transport_bw(PacketTransfer& transfer, PacketPhase& phase,
                                                    sc_core::sc_time& delay) {
  HEDDLE_CHECK(phase == PacketPhase::credit, std::string("unexpected phase on ") + this->name());
  if (credits_ != kUnlimitedCredits && transfer.generation == generation_) {
    Link& state = link_state(transfer.link);
    HEDDLE_CHECK(state.free + state.returning.size() < credits_,
                 std::string("more credits than places on ") + this->name());
    const Domain::CallHint& hint = domain_.call_hint();
    state.returning.push_back(hint.fits(&transfer, delay) ? hint.arrival : domain_.cycle_after(delay));
    arm(state, transfer.link);
  }
  return tlm::TLM_ACCEPTED;
}

PacketInSocket::PacketInSocket(const char* name, Domain& domain, PacketKind kind, Cycle credit_latency,
                               CreditReturn credit_return, PacketSenders senders)
    : Socket(name),
      domain_(domain),
      kind_(kind),
      credit_latency_(domain.cost(credit_latency)),
      credit_return_(credit_return),
      senders_(senders) {
  Socket::bind(static_cast<tlm::tlm_fw_transport_if<packet_protocol>&>(*this));
  domain.add_resettable(*this);
}

PacketInSocket::~PacketInSocket() = default;

void PacketInSocket::end_of_elaboration() {
  Socket::end_of_elaboration();
  HEDDLE_CHECK(senders_ == PacketSenders::many || this->size() <= 1,
               std::string("two senders are bound to a packet socket for one: ") + this->name());
}

void PacketInSocket::return_credit_at(Cycle when) {
  if (!credited_) return;
  if (void_ > 0) {
    --void_;
    return;
  }
  HEDDLE_CHECK(owed_ > 0, std::string("a credit was returned that nobody took on ") + this->name());
  --owed_;
  PacketTransfer transfer;
  transfer.kind = kind_;
  transfer.link = link_;
  transfer.generation = generation_;
  PacketPhase phase = PacketPhase::credit;
  HintedCall call(domain_, &transfer, when + credit_latency_);
  if (sender_ == nullptr) sender_ = this->operator->();
  sender_->nb_transport_bw(transfer, phase, call.delay);
}

void PacketInSocket::reset() {
  while (foreign_ && owed_ > 0) return_credit();
  owed_ = void_ = 0;
  forget();
  in_flight_ = 0;
}

void PacketInSocket::enter(const PacketTransfer& transfer, const sc_core::sc_time& delay) {
  HEDDLE_CHECK(transfer.kind == kind_, std::string("a packet of another type arrived on ") + this->name());
  link_ = transfer.link;
  credited_ = transfer.credited;
  HEDDLE_CHECK(senders_ == PacketSenders::one || !credited_,
               std::string("credits of many senders on one packet socket: ") + this->name());
  foreign_ = transfer.domain != &domain_;
  if (transfer.generation != generation_) {  // the sender was reset: it does not expect what is still owed
    generation_ = transfer.generation;
    void_ += owed_;
    owed_ = 0;
  }
  if (credited_) ++owed_;
  const Domain::CallHint& hint = domain_.call_hint();
  const Cycle arrival = hint.fits(&transfer, delay) ? hint.arrival : domain_.cycle_after(delay);
  if (ahead_) {
    HEDDLE_CHECK(!credited_ || credit_return_ == CreditReturn::by_owner,
                 std::string("who looks ahead on a link with credits must return them: ") + this->name());
    deliver_ahead(transfer.packet, arrival);
    return;
  }
  const std::uint32_t slot = keep(transfer.packet);
  ++in_flight_;
  domain_.schedule(arrival, *this, 0, slot);
}

void PacketInSocket::on_event(std::uint32_t /*kind*/, std::uint64_t argument) {
  deliver(static_cast<std::uint32_t>(argument));
  --in_flight_;
  if (credit_return_ == CreditReturn::on_receipt) return_credit();
}

tlm::tlm_sync_enum PacketInSocket::nb_transport_fw(PacketTransfer& transfer, PacketPhase& phase,
                                                   sc_core::sc_time& delay) {
  HEDDLE_CHECK(phase == PacketPhase::send, std::string("unexpected phase on ") + this->name());
  enter(transfer, delay);
  return tlm::TLM_ACCEPTED;
}

}  // namespace heddle
