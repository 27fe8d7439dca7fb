// Links that carry packets: TLM sockets of a protocol type of their own, with credits.
//
// A sender holds a credit counter per link: the places in the receiver's queue. Sending takes a credit; the receiver
// gives it back over the backward path. All packets share one TLM protocol type, so that SystemC's templates are
// compiled once; PacketOut<P> and PacketIn<P> are what blocks have, and bind to nothing but each other: not to a memory
// socket, and not to a socket of another packet.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <tlm>

#include "common/domain.h"
#include "common/fifo.h"
#include "common/packet_port.h"

namespace heddle {

// What crosses a packet link. `link` is the number of the binding at the sender, so that a credit finds its way home.
struct PacketTransfer {
  const void* packet = nullptr;  // of type `kind`, valid inside the call; null for a credit
  PacketKind kind = nullptr;
  std::uint32_t link = 0;
  bool credited = false;           // the sender took a credit for it and wants it back
  std::uint32_t generation = 0;    // of the sender: it goes up at its reset, and credits from before are void
  const Domain* domain = nullptr;  // the sender's
};

// The packet of a transfer, for whoever stands between two ends or brings an end of its own.
template <class Packet>
const Packet& packet_of(const PacketTransfer& transfer) {
  HEDDLE_CHECK(transfer.kind == packet_kind<Packet>(), "a packet link carries a packet of another type");
  return *static_cast<const Packet*>(transfer.packet);
}

enum class PacketPhase {
  send,    // forward: a packet
  credit,  // backward: a place in the receiver's queue has become free
};

struct packet_protocol {  // NOLINT(readability-identifier-naming): named like TLM's own protocol types
  using tlm_payload_type = PacketTransfer;
  using tlm_phase_type = PacketPhase;
};

constexpr std::uint32_t kPacketBusWidth = 32;
constexpr std::uint32_t kUnlimitedCredits = std::numeric_limits<std::uint32_t>::max();

// What PacketOut is made of: one TLM socket, bound to any number of receivers (a broadcast medium; each packet names
// its link).
class PacketOutSocket
    : public tlm::tlm_initiator_socket<kPacketBusWidth, packet_protocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND>,
      private tlm::tlm_bw_transport_if<packet_protocol>,
      private EventHandler,
      private Resettable {
 public:
  using Socket = tlm::tlm_initiator_socket<kPacketBusWidth, packet_protocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND>;

  ~PacketOutSocket() override;

  // The TLM socket as such, for ends that are not ours. What is bound to it is checked packet by packet.
  Socket& socket() { return *this; }

  // Called when a credit arrives on a link on which can_send() has been refused.
  template <class Owner, void (Owner::*Method)(std::uint32_t)>
  void on_credit(Owner& owner) {
    owner_ = &owner;
    callback_ = [](void* object, std::uint32_t link) { (static_cast<Owner*>(object)->*Method)(link); };
  }

  std::uint32_t links() { return static_cast<std::uint32_t>(this->size()); }
  // Credits that are out with packets or on their way back.
  std::uint32_t outstanding(std::uint32_t link = 0);

  void reset() final;

 protected:
  PacketOutSocket(const char* name, Domain& domain, PacketKind kind, Cycle latency, std::uint32_t credits);

  bool has_credit(std::uint32_t link);
  void transfer_at(Cycle departure, const void* packet, PacketKind kind, std::uint32_t link);

  Domain& domain_;

 private:
  struct Link {
    tlm::tlm_fw_transport_if<packet_protocol>* target = nullptr;
    std::uint32_t free = 0;
    Fifo<Cycle> returning;  // when credits on their way back arrive; looked at only when needed
    bool refused = false;
    bool armed = false;
  };

  Link& link_state(std::uint32_t link) { return link < links_.size() ? links_[link] : find_link(link); }
  Link& find_link(std::uint32_t link);
  void collect(Link& state);
  void arm(Link& state, std::uint32_t link);

  const char* handler_name() const override { return this->name(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  tlm::tlm_sync_enum nb_transport_bw(PacketTransfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  Cycle latency_;
  std::uint32_t credits_;
  std::uint64_t& sent_;  // packets of the type, over all links of the device
  std::uint32_t generation_ = 0;
  std::vector<Link> links_;
  void* owner_ = nullptr;
  void (*callback_)(void*, std::uint32_t) = nullptr;
};

// Who gives a receiver's credits back.
enum class CreditReturn {
  on_receipt,  // the socket, once the owner's callback has returned: the owner always takes what arrives
  by_owner,    // the owner, with return_credit(), when the place in its queue is free again
};

// Who sends to a receiver.
enum class PacketSenders {
  one,   // or nobody: then nothing arrives
  many,  // like ones, without credits
};

// What PacketIn is made of: one TLM socket. Packets enter the domain's queue with the annotated delay; the owner's
// callback runs at that time, never inside the sender's call.
class PacketInSocket
    : public tlm::tlm_target_socket<kPacketBusWidth, packet_protocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND>,
      public CreditSink,
      private tlm::tlm_fw_transport_if<packet_protocol>,
      private EventHandler,
      private Resettable {
 public:
  using Socket = tlm::tlm_target_socket<kPacketBusWidth, packet_protocol, 0, sc_core::SC_ZERO_OR_MORE_BOUND>;

  ~PacketInSocket() override;

  // The TLM socket as such, for ends that are not ours. What arrives through it is checked packet by packet.
  Socket& socket() { return *this; }

  void return_credit() final { return_credit_at(domain_.now()); }
  void return_credit_at(Cycle when) final;

  // Packets that have been sent and not yet delivered.
  std::size_t in_flight() const { return in_flight_; }

  // A sender of the own domain is reset as well; one of another domain gets its credits back.
  void reset() final;

 protected:
  PacketInSocket(const char* name, Domain& domain, PacketKind kind, Cycle credit_latency, CreditReturn credit_return,
                 PacketSenders senders);

  void* owner_ = nullptr;
  std::uint32_t index_ = 0;
  bool ahead_ = false;  // the owner is told inside the sender's call

 private:
  // Keeps a packet until it is delivered; gives its slot.
  virtual std::uint32_t keep(const void* packet) = 0;
  virtual void deliver(std::uint32_t slot) = 0;
  virtual void deliver_ahead(const void* packet, Cycle arrival) = 0;
  virtual void forget() = 0;

  void end_of_elaboration() override;
  void enter(const PacketTransfer& transfer, const sc_core::sc_time& delay);
  const char* handler_name() const override { return this->name(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  tlm::tlm_sync_enum nb_transport_fw(PacketTransfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override;
  // Blocking transport is the same: a packet needs no answer, so nothing is waited for.
  void b_transport(PacketTransfer& transfer, sc_core::sc_time& delay) override { enter(transfer, delay); }
  bool get_direct_mem_ptr(PacketTransfer&, tlm::tlm_dmi&) override { return false; }
  unsigned int transport_dbg(PacketTransfer&) override { return 0; }

  Domain& domain_;
  const PacketKind kind_;
  Cycle credit_latency_;
  CreditReturn credit_return_;
  const PacketSenders senders_;
  tlm::tlm_bw_transport_if<packet_protocol>* sender_ = nullptr;
  std::uint32_t link_ = 0;
  bool credited_ = true;          // until a packet says otherwise: a credit that nobody took must come to light
  bool foreign_ = false;          // the sender belongs to another domain
  std::uint32_t generation_ = 0;  // of the sender
  std::uint32_t owed_ = 0;        // credits taken by packets that came in, and not given back
  std::uint32_t void_ = 0;        // of those, from before the sender's reset
  std::size_t in_flight_ = 0;
};

// The receiving end of one link, or of several like ones.
template <class Packet>
class PacketIn final : public PacketInSocket {
 public:
  // `credit_latency`: cycles that a credit takes back to the sender.
  PacketIn(const char* name, Domain& domain, Cycle credit_latency,
           CreditReturn credit_return = CreditReturn::on_receipt, PacketSenders senders = PacketSenders::one)
      : PacketInSocket(name, domain, packet_kind<Packet>(), credit_latency, credit_return, senders) {}

  // The end of a module inside this one.
  void bind(PacketIn<Packet>& inner) { Socket::bind(inner.socket()); }
  void operator()(PacketIn<Packet>& inner) { bind(inner); }

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
  // called inside the sender's call, is told the cycle of arrival, and saves the event in between. On a link with
  // credits the owner returns them, with the cycles in which places become free.
  template <class Owner, void (Owner::*Method)(const Packet&, std::uint32_t, Cycle)>
  void on_packet_ahead(Owner& owner, std::uint32_t index = 0) {
    owner_ = &owner;
    index_ = index;
    this->ahead_ = true;
    ahead_callback_ = [](void* object, const Packet& packet, std::uint32_t socket, Cycle arrival) {
      (static_cast<Owner*>(object)->*Method)(packet, socket, arrival);
    };
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Slot {
    Packet packet;
    std::uint32_t next;
  };

  std::uint32_t keep(const void* packet) override {
    const Packet& its = *static_cast<const Packet*>(packet);
    std::uint32_t slot = free_;
    if (slot == kNone) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back(std::make_unique<Slot>(Slot{its, kNone}));
    } else {
      free_ = slots_[slot]->next;
      slots_[slot]->packet = its;
    }
    return slot;
  }
  void deliver(std::uint32_t slot) override {
    HEDDLE_CHECK(callback_ != nullptr, std::string("nobody listens on ") + this->name());
    Slot& its = *slots_[slot];  // stays where it is while others arrive
    callback_(owner_, its.packet, index_);
    its.next = free_;
    free_ = slot;
  }
  void deliver_ahead(const void* packet, Cycle arrival) override {
    ahead_callback_(owner_, *static_cast<const Packet*>(packet), index_, arrival);
  }
  void forget() override {
    slots_.clear();
    free_ = kNone;
  }

  void (*callback_)(void*, const Packet&, std::uint32_t) = nullptr;
  void (*ahead_callback_)(void*, const Packet&, std::uint32_t, Cycle) = nullptr;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::uint32_t free_ = kNone;
};

// The sending end.
template <class Packet>
class PacketOut final : public PacketOutSocket, public PacketSender<Packet> {
 public:
  // `latency` in cycles of the sender's domain (free in lt mode); `credits` per link, kUnlimitedCredits for links whose
  // traffic is bounded by something else.
  PacketOut(const char* name, Domain& domain, Cycle latency, std::uint32_t credits)
      : PacketOutSocket(name, domain, packet_kind<Packet>(), latency, credits) {}

  void bind(PacketIn<Packet>& receiver) { Socket::bind(receiver.socket()); }
  void operator()(PacketIn<Packet>& receiver) { bind(receiver); }
  // The end of the module around this one.
  void bind(PacketOut<Packet>& outer) { Socket::bind(outer.socket()); }
  void operator()(PacketOut<Packet>& outer) { bind(outer); }

 private:
  bool do_can_send(std::uint32_t link) override { return has_credit(link); }
  void do_send(const Packet& packet, std::uint32_t link) override { do_send_at(domain_.now(), packet, link); }
  void do_send_at(Cycle departure, const Packet& packet, std::uint32_t link) override {
    transfer_at(departure, &packet, packet_kind<Packet>(), link);
  }
};

}  // namespace heddle
