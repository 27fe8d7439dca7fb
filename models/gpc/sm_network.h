// The SM-to-SM network of a GPC: accesses to distributed shared memory and their replies (CGA-06), and what tensor
// memory access units tell each other (TMA-31).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/link_network.h"
#include "common/packet_socket.h"
#include "gpc/gpc_params.h"
#include "gpc/sm_calendars.h"
#include "protocol/memory_request.h"
#include "protocol/sm_sm.h"
#include "protocol/sm_tmau.h"

namespace heddle {
class ClusterMap;
}

namespace heddle::gpc {

// Bytes of a packet beside its data: ids, offset, operation.
constexpr std::uint32_t kDsmemHeaderBytes = 16;

// Bytes that the packet takes of a link: reads carry data back, writes there, atomics both ways (8 or 4 bytes for each
// value, twice for a compare).
inline std::uint32_t dsmem_bytes(const protocol::DsmemPacket& packet, bool reply) {
  const protocol::MemoryRequest& request = *packet.request;
  if (reply && packet.status != arch::DsmemStatus::ok) return kDsmemHeaderBytes;
  const protocol::MemoryExtension& extension = request.extension;
  switch (extension.action) {
    case protocol::MemoryAction::atomic:
    case protocol::MemoryAction::reduce: {
      if (reply && extension.action == protocol::MemoryAction::reduce) return kDsmemHeaderBytes;
      const std::uint32_t values = !reply && extension.atomic == arch::AtomicKind::compare_exchange ? 2 : 1;
      return kDsmemHeaderBytes + extension.lanes * values * arch::bytes_of(extension.type);
    }
    case protocol::MemoryAction::mbarrier_arrive:
    case protocol::MemoryAction::mbarrier_expect:
    case protocol::MemoryAction::mbarrier_complete:
      return kDsmemHeaderBytes;
    default:
      break;
  }
  const bool carries = reply == (request.get_command() == tlm::TLM_READ_COMMAND);
  return kDsmemHeaderBytes + (carries ? request.get_data_length() : 0);
}

// A fill carries the bytes that it stands for; an acknowledgement is a header for each line that it is told at once.
inline std::uint32_t peer_bytes(const protocol::BulkPeerPacket& packet) {
  if (packet.kind == protocol::BulkPeerPacket::Kind::acknowledge) return kDsmemHeaderBytes * packet.count;
  return kDsmemHeaderBytes + packet.data.request->extension.bulk.get().piece.bytes;
}

// From a GPC's SMs and the network's parameters to the links of one plane. A plain core.
//
// Each port into an SM is a link, with a place for each source. What the GPC passes between its TPCs is one more, if it
// has a limit and the network costs anything. Then packets to another TPC enter in front of it: at the middle of their
// way, of which each end has a part. Ports out of SMs have one source each, and are no links.
class SmLinks {
 public:
  // `distance`: by SM, of its part of a way. The network must outlive this, and be empty.
  SmLinks(LinkNetwork& network, const SmNetworkParams& params, const arch::Topology::Gpc& gpc,
          const std::vector<Cycle>& distance);

  // What an SM's port passes per cycle.
  double bandwidth() const { return bandwidth_; }
  // Of a packet: its place at the port into the SM, and the buffer where it enters the network.
  std::uint32_t place_of(std::uint32_t from, std::uint32_t to) const { return to * sms_ + from; }
  std::uint32_t entry_of(std::uint32_t from, std::uint32_t to) const { return entries_[place_of(from, to)]; }
  std::uint32_t exit_of(std::uint32_t to) const { return sms_ * sms_ + to; }

 private:
  std::uint32_t room(std::uint32_t latency) const;
  void add_middle(LinkNetwork& network, double bandwidth, const std::vector<Cycle>& distance) const;

  const std::uint32_t sms_;
  const std::uint32_t queue_;
  const double bandwidth_;
  std::vector<std::uint32_t> entries_;  // by place
};

// Two planes, one for requests and one for replies, which share nothing: a reply never waits behind a request, so that
// SMs that answer before they ask cannot block each other for ever.
//
// In each plane an SM has one port out and one port in, of equal bandwidth. Packets of an SM leave in order; one whose
// target takes no more stops those behind it. Between the two ports lies the latency: the source's part and the
// target's. Where both parts meet, packets from a TPC to another share what the GPC passes, if that has a limit. Where
// packets meet, there and at the port into an SM, sources share by deficit round robin.
//
// Where accesses are calls (`fast`, `lt`), a packet that enters reserves its whole way (SmCalendars), and arrives then:
// ports have the same bandwidths, but sources are served in the order in which they ask, there is always room, and
// nothing stops anything behind it. In `lt` all of it is free. Packets of a pair stay in order.
//
// Packets of tensor memory access units go with the requests. They wait at their SM's port beside those of the SM, in
// turns with them; acknowledgements of a request that wait there for the same unit become one.
class SmNetwork : public Block {
 public:
  SmNetwork(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const SmNetworkParams& params,
            const arch::Topology::Gpc& gpc, std::uint32_t gpc_number, std::uint32_t sms_per_unit = 0);
  ~SmNetwork() override;

  // `sms_per_unit`: SMs that share a tensor memory access unit; 0: there are none of these.
  // By SM: bit of the GPC's masks. Links to and from SMs cost nothing: all latency is the network's. A credit is back
  // when its packet has passed the port out.
  sc_core::sc_vector<PacketIn<protocol::DsmemPacket>> request_in;
  sc_core::sc_vector<PacketIn<protocol::DsmemPacket>> reply_in;
  PacketOut<protocol::DsmemPacket> request_out;  // link = bit
  PacketOut<protocol::DsmemPacket> reply_out;    // link = bit
  // By unit.
  sc_core::sc_vector<PacketIn<protocol::BulkPeerPacket>> peer_in;
  PacketOut<protocol::BulkPeerPacket> peer_out;  // link = unit

  // Cycles of a packet that nothing delays.
  Cycle latency(std::uint32_t from, std::uint32_t to) const { return distance_[from] + distance_[to]; }
  // Packets in the network.
  std::uint64_t packets() const { return requests_->packets() + replies_->packets(); }

  void check_idle() override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // What carries the requests, or the replies.
  class Plane {
   public:
    Plane(SmNetwork& owner, bool replies);
    virtual ~Plane() = default;

    virtual std::uint64_t packets() const = 0;
    virtual void on_peer(const protocol::BulkPeerPacket& packet) = 0;
    virtual void reset() = 0;
    virtual void add_waits(WaitGraph& graph) const = 0;

   protected:
    std::uint32_t sms() const { return static_cast<std::uint32_t>(owner_.sm_ids_.size()); }
    sc_core::sc_vector<PacketIn<protocol::DsmemPacket>>& in() { return replies_ ? owner_.reply_in : owner_.request_in; }
    PacketOut<protocol::DsmemPacket>& out() { return replies_ ? owner_.reply_out : owner_.request_out; }
    std::uint32_t bytes_of(const protocol::DsmemPacket& packet) const { return dsmem_bytes(packet, replies_); }
    // A packet reaches its SM so many cycles later than one that nothing delays.
    void count(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, Cycle delay);

    SmNetwork& owner_;
    const bool replies_;

   private:
    Counter& count_;
    Counter& bytes_;
    Counter& delayed_;
    Counter& delay_;
  };

  // Link by link.
  class QueuedPlane final : public Plane, public LinkNetworkListener, public EventHandler {
   public:
    QueuedPlane(SmNetwork& owner, bool replies, const SmNetworkParams& params, const arch::Topology::Gpc& gpc);

    std::uint64_t packets() const override { return slots_.in_use(); }
    void on_peer(const protocol::BulkPeerPacket& packet) override;
    void reset() override;
    void add_waits(WaitGraph& graph) const override;

   private:
    static constexpr std::uint32_t kPortFree = 16;  // kind of event beside the network's; argument: an SM

    // A packet, from its arrival to its departure.
    struct Slot {
      protocol::DsmemPacket packet;  // of an SM; of a unit: whence and where to
      std::optional<protocol::BulkPeerPacket> of_unit;
      Cycle arrival = 0;
      std::uint32_t bytes = 0;
    };
    // Out of an SM.
    struct Port {
      explicit Port(double bytes_per_cycle) : pace(bytes_per_cycle) {}
      LinkPace pace;
      Ring<std::uint32_t> waiting;                     // slots, of the SM
      Ring<std::uint32_t> of_unit;                     // and of the unit
      bool unit_first = false;                         // whose turn it is
      std::vector<std::optional<std::uint32_t>> acks;  // by target: the latest acknowledgement among those of the unit
      bool awaited = false;                            // kPortFree is under way

      bool idle() const { return waiting.empty() && of_unit.empty(); }
    };

    void on_packet(const protocol::DsmemPacket& packet, std::uint32_t from);
    void start(std::uint32_t slot, std::uint32_t from, Ring<std::uint32_t>& queue);
    bool merge(const protocol::BulkPeerPacket& packet);
    bool send_first(std::uint32_t from, bool unit);
    void send_waiting(std::uint32_t from);
    void inject(std::uint32_t slot, std::uint32_t from);
    void on_credit(std::uint32_t to) { network_.open(links_.exit_of(to), owner_.now()); }

    // LinkNetworkListener, EventHandler.
    void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) override {
      owner_.domain_.schedule(when, *this, kind, argument);
    }
    bool eject(std::uint32_t to, const LinkPacket& packet, Cycle now) override;
    void credit(std::uint32_t owner, Cycle now) override;
    void on_event(std::uint32_t kind, std::uint64_t argument) override;
    const char* handler_name() const override { return owner_.handler_name(); }

    LinkNetwork network_;
    const SmLinks links_;
    std::vector<Port> ports_;  // by SM
    IndexPool<Slot> slots_;
  };

  // In one call. What is under way lies in the sockets of those that it is for.
  class CalledPlane final : public Plane, public EventHandler {
   public:
    CalledPlane(SmNetwork& owner, bool replies, const SmNetworkParams& params, const arch::Topology::Gpc& gpc);

    std::uint64_t packets() const override { return acks_waiting_; }
    void on_peer(const protocol::BulkPeerPacket& packet) override;
    void reset() override;
    void add_waits(WaitGraph&) const override {}

   private:
    // An acknowledgement that waits for its port: others of its request join it until it leaves.
    struct Ack {
      bool waits = false;
      Cycle arrival = 0;
      protocol::BulkPeerPacket packet;
    };

    void on_packet(const protocol::DsmemPacket& packet, std::uint32_t from, Cycle departure);
    void send_peer(const protocol::BulkPeerPacket& packet, Cycle arrival) {
      owner_.peer_out.send_at(arrival, packet, packet.to_sm / owner_.sms_per_unit_);
    }
    // It left its SM's port after it had asked for it.
    Cycle arrive(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, Cycle asked, Cycle left);

    void on_event(std::uint32_t kind, std::uint64_t argument) override;
    const char* handler_name() const override { return owner_.handler_name(); }

    SmCalendars links_;
    std::vector<Ack> acks_;  // by pair; none before the first
    std::uint64_t acks_waiting_ = 0;
  };

  std::unique_ptr<Plane> make_plane(bool replies, const SmNetworkParams& params, const arch::Topology::Gpc& gpc);
  void on_event(std::uint32_t, std::uint64_t) override {}
  void on_peer(const protocol::BulkPeerPacket& packet, std::uint32_t /*unit*/) { requests_->on_peer(packet); }

  const std::uint32_t sms_per_unit_;
  const std::vector<std::uint32_t> sm_ids_;  // by bit
  const std::uint32_t gpc_;
  ClusterMap& clusters_;
  const std::vector<Cycle> distance_;  // by bit; what it costs in this mode
  const std::unique_ptr<Plane> requests_;
  const std::unique_ptr<Plane> replies_;
};

}  // namespace heddle::gpc
