// Links that carry packets: TLM sockets of a protocol type of their own, with credits.
//
// A sender holds a credit counter per link: the places in the receiver's queue. Sending takes a credit; the receiver
// gives it back over the backward path. A packet socket cannot be bound to a memory socket, nor to one of another
// packet.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include <tlm>

#include "common/domain.h"

namespace heddle {

// What crosses a packet link. `link` is the number of the binding at the sender, so that a credit finds its way home.
template <class Packet>
struct PacketTransfer {
  Packet packet{};
  std::uint32_t link = 0;
  bool credited = false;         // the sender took a credit for it and wants it back
  std::uint32_t generation = 0;  // of the sender: it goes up at its reset, and credits from before are void
  // For a receiver of the sender's own domain: the arrival as a cycle, which saves converting the delay back. It counts
  // only if nobody between the two has changed the annotated delay.
  const Domain* domain = nullptr;
  Cycle arrival = 0;
  sc_core::sc_time delay;
};

enum class PacketPhase {
  send,    // forward: a packet
  credit,  // backward: a place in the receiver's queue has become free
};

template <class Packet>
struct packet_protocol {  // NOLINT(readability-identifier-naming): named like TLM's own protocol types
  using tlm_payload_type = PacketTransfer<Packet>;
  using tlm_phase_type = PacketPhase;
};

constexpr std::uint32_t kPacketBusWidth = 32;
constexpr std::uint32_t kUnlimitedCredits = std::numeric_limits<std::uint32_t>::max();

// The sending end: one socket, bound to any number of receivers (a broadcast medium; each packet names its link).
template <class Packet>
class PacketOut
    : public tlm::tlm_initiator_socket<kPacketBusWidth, packet_protocol<Packet>, 0, sc_core::SC_ZERO_OR_MORE_BOUND>,
      private tlm::tlm_bw_transport_if<packet_protocol<Packet>>,
      private EventHandler,
      private Resettable {
  using Transfer = PacketTransfer<Packet>;
  using Base = tlm::tlm_initiator_socket<kPacketBusWidth, packet_protocol<Packet>, 0, sc_core::SC_ZERO_OR_MORE_BOUND>;

 public:
  using CreditCallback = void (*)(void* owner, std::uint32_t link);

  // `latency` in cycles of the sender's domain (free in lt mode); `credits` per link, kUnlimitedCredits for links whose
  // traffic is bounded by something else.
  PacketOut(const char* name, Domain& domain, Cycle latency, std::uint32_t credits)
      : Base(name), domain_(domain), latency_(domain.cost(latency)), credits_(credits) {
    this->bind(static_cast<tlm::tlm_bw_transport_if<packet_protocol<Packet>>&>(*this));
    domain.add_resettable(*this);
  }

  // Called when a credit arrives on a link on which can_send() has been refused.
  template <class Owner, void (Owner::*Method)(std::uint32_t)>
  void on_credit(Owner& owner) {
    owner_ = &owner;
    callback_ = [](void* object, std::uint32_t link) { (static_cast<Owner*>(object)->*Method)(link); };
  }

  std::uint32_t links() { return static_cast<std::uint32_t>(this->size()); }

  // True if a packet can go out on `link` now. After a refusal on_credit() follows.
  bool can_send(std::uint32_t link = 0) {
    if (credits_ == kUnlimitedCredits) return true;
    Link& state = link_state(link);
    collect(state);
    if (state.free > 0) return true;
    state.refused = true;
    arm(state, link);
    return false;
  }

  // Sends now; the packet arrives after the link's latency. Needs a credit.
  void send(const Packet& packet, std::uint32_t link = 0) { send_at(domain_.now(), packet, link); }

  // The same for a packet that leaves in a later cycle, by a sender that knows already.
  void send_at(Cycle departure, const Packet& packet, std::uint32_t link = 0) {
    Link& state = link_state(link);
    if (credits_ != kUnlimitedCredits) {
      collect(state);
      HEDDLE_CHECK(state.free > 0, std::string("packet sent without a credit on ") + this->name());
      --state.free;
    }
    const Cycle arrival = departure + latency_;
    sc_core::sc_time delay = domain_.delay_until(arrival);
    Transfer transfer{packet, link, credits_ != kUnlimitedCredits, generation_, &domain_, arrival, delay};
    PacketPhase phase = PacketPhase::send;
    state.target->nb_transport_fw(transfer, phase, delay);
  }

  // Credits that are out with packets or on their way back.
  std::uint32_t outstanding(std::uint32_t link = 0) {
    Link& state = link_state(link);
    collect(state);
    return credits_ == kUnlimitedCredits ? 0 : credits_ - state.free;
  }

  void reset() override {
    ++generation_;
    for (Link& state : links_) {
      state.free = credits_;
      state.returning.clear();
      state.refused = state.armed = false;
    }
  }

 private:
  struct Link {
    tlm::tlm_fw_transport_if<packet_protocol<Packet>>* target = nullptr;
    std::uint32_t free = 0;
    std::deque<Cycle> returning;  // when credits on their way back arrive; looked at only when needed
    bool refused = false;
    bool armed = false;
  };

  Link& link_state(std::uint32_t link) { return link < links_.size() ? links_[link] : find_link(link); }

  // Bindings are known once elaboration is over; the first use looks them up.
  Link& find_link(std::uint32_t link) {
    HEDDLE_CHECK(links_.empty() && link < links(), std::string("packet socket has no such link: ") + this->name());
    links_.resize(links());
    for (std::uint32_t i = 0; i < links_.size(); ++i) {
      links_[i].target = (*this)[static_cast<int>(i)];
      links_[i].free = credits_;
    }
    return links_[link];
  }

  void collect(Link& state) {
    while (!state.returning.empty() && state.returning.front() <= domain_.now()) {
      state.returning.pop_front();
      ++state.free;
    }
  }

  // A refused sender wants to know: only then does a returning credit cost an event.
  void arm(Link& state, std::uint32_t link) {
    if (!state.refused || state.armed || state.returning.empty()) return;
    state.armed = true;
    domain_.schedule(std::max(state.returning.front(), domain_.now()), *this, 0, link);
  }

  const char* handler_name() const override { return this->name(); }
  void on_event(std::uint32_t /*kind*/, std::uint64_t argument) override {
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

  tlm::tlm_sync_enum nb_transport_bw(Transfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override {
    HEDDLE_CHECK(phase == PacketPhase::credit, std::string("unexpected phase on ") + this->name());
    if (credits_ != kUnlimitedCredits && transfer.generation == generation_) {
      Link& state = link_state(transfer.link);
      HEDDLE_CHECK(state.free + state.returning.size() < credits_,
                   std::string("more credits than places on ") + this->name());
      state.returning.push_back(domain_.cycle_after(delay));
      arm(state, transfer.link);
    }
    return tlm::TLM_ACCEPTED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  Domain& domain_;
  Cycle latency_;
  std::uint32_t credits_;
  std::uint32_t generation_ = 0;
  std::vector<Link> links_;
  void* owner_ = nullptr;
  CreditCallback callback_ = nullptr;
};

// Who gives a receiver's credits back.
enum class CreditReturn {
  on_receipt,  // the socket, once the owner's callback has returned: the owner always takes what arrives
  by_owner,    // the owner, with return_credit(), when the place in its queue is free again
};

// The receiving end of one link. Packets enter the domain's queue with the annotated delay; the owner's callback runs
// at that time, never inside the sender's call.
template <class Packet>
class PacketIn : public tlm::tlm_target_socket<kPacketBusWidth, packet_protocol<Packet>>,
                 private tlm::tlm_fw_transport_if<packet_protocol<Packet>>,
                 private EventHandler,
                 private Resettable {
  using Transfer = PacketTransfer<Packet>;
  using Base = tlm::tlm_target_socket<kPacketBusWidth, packet_protocol<Packet>>;

 public:
  // `credit_latency`: cycles that a credit takes back to the sender.
  PacketIn(const char* name, Domain& domain, Cycle credit_latency,
           CreditReturn credit_return = CreditReturn::on_receipt)
      : Base(name), domain_(domain), credit_latency_(domain.cost(credit_latency)), credit_return_(credit_return) {
    this->bind(static_cast<tlm::tlm_fw_transport_if<packet_protocol<Packet>>&>(*this));
    domain.add_resettable(*this);
  }

  // `index` is handed to the method with every packet: which of several like sockets it came through.
  template <class Owner, void (Owner::*Method)(const Packet&, std::uint32_t)>
  void on_packet(Owner& owner, std::uint32_t index = 0) {
    owner_ = &owner;
    index_ = index;
    callback_ = [](void* object, const Packet& packet, std::uint32_t socket) {
      (static_cast<Owner*>(object)->*Method)(packet, socket);
    };
  }

  // The same for an owner that only notes what arrives and enters events of its own, later than the arrival: it is
  // called inside the sender's call, is told the cycle of arrival, and saves the event in between. For links without
  // credits.
  template <class Owner, void (Owner::*Method)(const Packet&, std::uint32_t, Cycle)>
  void on_packet_ahead(Owner& owner, std::uint32_t index = 0) {
    owner_ = &owner;
    index_ = index;
    ahead_ = [](void* object, const Packet& packet, std::uint32_t socket, Cycle arrival) {
      (static_cast<Owner*>(object)->*Method)(packet, socket, arrival);
    };
  }

  void return_credit() { return_credit_at(domain_.now()); }
  // The same by an owner that knows in which later cycle the place will be free. Such cycles never go back.
  void return_credit_at(Cycle when) {
    if (!credited_) return;
    if (void_ > 0) {
      --void_;
      return;
    }
    HEDDLE_CHECK(owed_ > 0, std::string("a credit was returned that nobody took on ") + this->name());
    --owed_;
    Transfer transfer;
    transfer.link = link_;
    transfer.generation = generation_;
    PacketPhase phase = PacketPhase::credit;
    sc_core::sc_time delay = domain_.delay_until(when + credit_latency_);
    if (sender_ == nullptr) sender_ = this->operator->();
    sender_->nb_transport_bw(transfer, phase, delay);
  }

  // Packets that have been sent and not yet delivered.
  std::size_t in_flight() const { return in_flight_; }

  // A sender of the own domain is reset as well; one of another domain gets its credits back.
  void reset() override {
    while (foreign_ && owed_ > 0) return_credit();
    owed_ = void_ = 0;
    slots_.clear();
    free_ = kNone;
    in_flight_ = 0;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Slot {
    Packet packet;
    std::uint32_t next;
  };

  void enter(const Transfer& transfer, const sc_core::sc_time& delay) {
    link_ = transfer.link;
    credited_ = transfer.credited;
    foreign_ = transfer.domain != &domain_;
    if (transfer.generation != generation_) {  // the sender was reset: it does not expect what is still owed
      generation_ = transfer.generation;
      void_ += owed_;
      owed_ = 0;
    }
    if (credited_) ++owed_;
    const bool untouched = !foreign_ && delay == transfer.delay;
    const Cycle arrival = untouched ? transfer.arrival : domain_.cycle_after(delay);
    if (ahead_ != nullptr) {
      HEDDLE_CHECK(!credited_, std::string("a link with credits cannot be looked ahead on: ") + this->name());
      ahead_(owner_, transfer.packet, index_, arrival);
      return;
    }
    std::uint32_t slot = free_;
    if (slot == kNone) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back({transfer.packet, kNone});
    } else {
      free_ = slots_[slot].next;
      slots_[slot].packet = transfer.packet;
    }
    ++in_flight_;
    domain_.schedule(arrival, *this, 0, slot);
  }

  const char* handler_name() const override { return this->name(); }
  void on_event(std::uint32_t /*kind*/, std::uint64_t argument) override {
    const auto slot = static_cast<std::uint32_t>(argument);
    HEDDLE_CHECK(callback_ != nullptr, std::string("nobody listens on ") + this->name());
    callback_(owner_, slots_[slot].packet, index_);  // a deque: the packet stays where it is while others arrive
    slots_[slot].next = free_;
    free_ = slot;
    --in_flight_;
    if (credit_return_ == CreditReturn::on_receipt) return_credit();
  }

  tlm::tlm_sync_enum nb_transport_fw(Transfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override {
    HEDDLE_CHECK(phase == PacketPhase::send, std::string("unexpected phase on ") + this->name());
    enter(transfer, delay);
    return tlm::TLM_ACCEPTED;
  }
  // Blocking transport is the same: a packet needs no answer, so nothing is waited for.
  void b_transport(Transfer& transfer, sc_core::sc_time& delay) override { enter(transfer, delay); }
  bool get_direct_mem_ptr(Transfer&, tlm::tlm_dmi&) override { return false; }
  unsigned int transport_dbg(Transfer&) override { return 0; }

  Domain& domain_;
  Cycle credit_latency_;
  CreditReturn credit_return_;
  void* owner_ = nullptr;
  std::uint32_t index_ = 0;
  void (*callback_)(void*, const Packet&, std::uint32_t) = nullptr;
  void (*ahead_)(void*, const Packet&, std::uint32_t, Cycle) = nullptr;
  tlm::tlm_bw_transport_if<packet_protocol<Packet>>* sender_ = nullptr;
  std::uint32_t link_ = 0;
  bool credited_ = true;          // until a packet says otherwise: a credit that nobody took must come to light
  bool foreign_ = false;          // the sender belongs to another domain
  std::uint32_t generation_ = 0;  // of the sender
  std::uint32_t owed_ = 0;        // credits taken by packets that came in, and not given back
  std::uint32_t void_ = 0;        // of those, from before the sender's reset
  std::deque<Slot> slots_;
  std::uint32_t free_ = kNone;
  std::size_t in_flight_ = 0;
};

}  // namespace heddle

// A packet's sockets are compiled once, in its own source file, and not in every file that has a block with one:
// HEDDLE_PACKET_LINK(protocol::X) behind the packet, and HEDDLE_PACKET_LINK_HERE(protocol::X) there. A packet without
// these works as well.
#define HEDDLE_PACKET_LINK_AS(KEYWORD, PACKET)                                                                  \
  KEYWORD template class sc_core::sc_port_b<tlm::tlm_fw_transport_if<heddle::packet_protocol<PACKET>>>;         \
  KEYWORD template class sc_core::sc_port<tlm::tlm_fw_transport_if<heddle::packet_protocol<PACKET>>, 0,         \
                                          sc_core::SC_ZERO_OR_MORE_BOUND>;                                      \
  KEYWORD template class sc_core::sc_export<tlm::tlm_bw_transport_if<heddle::packet_protocol<PACKET>>>;         \
  KEYWORD template class tlm::tlm_base_initiator_socket<                                                        \
      heddle::kPacketBusWidth, tlm::tlm_fw_transport_if<heddle::packet_protocol<PACKET>>,                       \
      tlm::tlm_bw_transport_if<heddle::packet_protocol<PACKET>>, 0, sc_core::SC_ZERO_OR_MORE_BOUND>;            \
  KEYWORD template class tlm::tlm_initiator_socket<heddle::kPacketBusWidth, heddle::packet_protocol<PACKET>, 0, \
                                                   sc_core::SC_ZERO_OR_MORE_BOUND>;                             \
  KEYWORD template class sc_core::sc_port_b<tlm::tlm_bw_transport_if<heddle::packet_protocol<PACKET>>>;         \
  KEYWORD template class sc_core::sc_port<tlm::tlm_bw_transport_if<heddle::packet_protocol<PACKET>>, 1,         \
                                          sc_core::SC_ONE_OR_MORE_BOUND>;                                       \
  KEYWORD template class sc_core::sc_export<tlm::tlm_fw_transport_if<heddle::packet_protocol<PACKET>>>;         \
  KEYWORD template class tlm::tlm_base_target_socket<                                                           \
      heddle::kPacketBusWidth, tlm::tlm_fw_transport_if<heddle::packet_protocol<PACKET>>,                       \
      tlm::tlm_bw_transport_if<heddle::packet_protocol<PACKET>>, 1, sc_core::SC_ONE_OR_MORE_BOUND>;             \
  KEYWORD template class tlm::tlm_target_socket<heddle::kPacketBusWidth, heddle::packet_protocol<PACKET>>;      \
  KEYWORD template class heddle::PacketOut<PACKET>;                                                             \
  KEYWORD template class heddle::PacketIn<PACKET>
#define HEDDLE_PACKET_LINK(PACKET) HEDDLE_PACKET_LINK_AS(extern, PACKET)
#define HEDDLE_PACKET_LINK_HERE(PACKET) HEDDLE_PACKET_LINK_AS(, PACKET)
