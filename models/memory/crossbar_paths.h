// The request network of the crossbar: from the ports of SMs to L2 slices (MEM-03).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tlm>

#include "arch/address_map.h"
#include "arch/memory_op.h"
#include "common/fifo.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "common/timebase.h"
#include "memory/crossbar_multicast.h"
#include "memory/crossbar_places.h"
#include "memory/crossbar_routes.h"
#include "memory/memory_params.h"
#include "memory/memory_warming.h"
#include "memory/owner_accounts.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// An SM and its tensor memory access unit have an ingress port each, 2 * SM and the one after it, and share the SM's
// link and the buffer at its end. When that is full, the ports take turns: END_REQ of the one or the other comes first.
// While bandwidth is shared, a request enters only with a place at its slice (CrossbarPlaces); until then its port
// waits.
class CrossbarRequests final : private LinkNetworkListener, private EventHandler {
 public:
  struct Counters {
    Counter& withheld;
    Histogram& cycles;
    Counter& bulk;           // bytes of requests of tensor memory access units
    OwnerAccounts* owners;   // null: nobody asks whose the bytes are
    KernelAccount* kernels;  // null: nobody asks for which kernels they are
  };
  // Hears of writes that the L2 has taken over (TMA-45): now or at a later cycle.
  class Poster {
   public:
    virtual void accepted(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle when) = 0;

   protected:
    ~Poster() = default;
  };
  // `name`: for messages. All references must outlive it, as must the sockets.
  CrossbarRequests(const char* name, Timebase& timebase, const CrossbarParams& params, const CrossbarRoutes& routes,
                   const Counters& counters, Poster& poster, const PlaceRules& rules);

  void add_ingress(MemoryIn& socket) { ingress_.push_back(&socket); }
  void add_slice(MemoryOut& socket) { egress_.push_back(&socket); }

  // A request of a port. True if the port may send another.
  bool enter(tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension, std::uint32_t port,
             Cycle arrival);
  // A slice has answered a request: its place, if it had one, is free.
  void answered(protocol::MemoryExtension& extension, std::uint32_t slice) {
    if (extension.placed) give_place_back(extension, slice);
  }
  // Calls visit(SM, slice) for each port that waits for a place.
  template <class Visit>
  void for_each_held(Visit&& visit) const {
    for (std::uint32_t slice = 0; sharing_ != nullptr && slice < routes_.slices(); ++slice) {
      sharing_->places.for_each_waiting(slice, [&](std::uint32_t port) { visit(port / 2, slice); });
    }
  }
  // A slice has room again from `when` on.
  void on_slice_room(std::uint32_t slice, Cycle when);

  LinkNetwork& network() { return network_; }
  const LinkNetwork& network() const { return network_; }
  const CrossbarRoutes::Ports& ports() const { return ports_; }
  void reset();

 private:
  // Shared by the two ports of an SM.
  struct alignas(64) Sm {
    explicit Sm(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;
    bool full = false;                           // the buffer at the end of its link has no room
    bool unit_first = false;                     // whose END_REQ comes first: the unit's
    tlm::tlm_generic_payload* parked = nullptr;  // a request that came while the other port's had taken the last place
    Cycle parked_at = 0;                         // its arrival, now or later
  };

  // While bandwidth is shared.
  struct Held {
    tlm::tlm_generic_payload* payload = nullptr;  // a request without a place
    Cycle arrival = 0;
  };
  struct Sharing {
    CrossbarPlaces places;   // for which ports wait
    std::vector<Held> held;  // by port
  };

  bool has_place(tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension, std::uint32_t port,
                 Cycle arrival);
  void give_place_back(protocol::MemoryExtension& extension, std::uint32_t slice);
  void release(std::uint32_t port);
  void pass_on(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm,
               Cycle arrival);
  bool holds(std::uint32_t port) const { return sharing_ != nullptr && sharing_->held[port].payload != nullptr; }
  void inject(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm,
              Cycle arrival);
  void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) override {
    timebase_.schedule(when, *this, kind, argument);
  }
  bool eject(std::uint32_t slice, const LinkPacket& packet, Cycle now) override;
  void credit(std::uint32_t sm, Cycle now) override;
  void passed(const LinkPacket& packet, Cycle now) override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }

  static constexpr std::uint32_t kSliceReady = 16;  // kind of event beside the network's; argument: a slice

  const char* name_;
  Timebase& timebase_;
  const CrossbarRoutes& routes_;
  const std::uint32_t header_bytes_;
  Counters counters_;
  Poster& poster_;
  LinkNetwork network_;
  const CrossbarRoutes::Ports ports_;
  NetworkWarmer warmer_;
  std::vector<Sm> sms_;
  std::vector<Cycle> slice_ready_;  // a slice has ended its last request, but its channel is free only then
  std::vector<MemoryIn*> ingress_;  // by port
  std::vector<MemoryOut*> egress_;  // by slice
  const PlaceRules rules_;
  std::unique_ptr<Sharing> sharing_;  // null: bandwidth is not shared
};

// The response network of the crossbar: from L2 slices to the ports of SMs (MEM-03). It ends at the GPCs' links; from
// there on responses fan out.
class CrossbarResponses final : private LinkNetworkListener, private EventHandler, private MulticastRequester {
 public:
  struct Counters {
    Histogram& cycles;
    Counter& bulk;  // bytes of responses to tensor memory access units, before they are copied
    MulticastCounters multicasts;
    OwnerAccounts* owners;
    KernelAccount* kernels;
  };
  // `name`: for messages. All references must outlive it, as must the sockets.
  CrossbarResponses(const char* name, Timebase& timebase, const CrossbarParams& params, const CrossbarRoutes& routes,
                    const arch::Topology& topology, const Counters& counters);

  void add_slice(MemoryOut& socket) { ingress_.push_back(&socket); }
  void add_egress(MemoryIn& socket) { egress_.push_back(&socket); }
  CrossbarMulticast& multicast() { return multicast_; }

  // From a slice. False: there is no room; the response waits in the slice, and those behind it with it.
  bool enter(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t slice,
             Cycle arrival);
  // A port takes responses again.
  void on_port_room(std::uint32_t port, Cycle when);
  // Responses that have been handed over to their ports.
  std::uint64_t delivered() const { return delivered_; }

  LinkNetwork& network() { return network_; }
  const LinkNetwork& network() const { return network_; }
  const CrossbarRoutes::Ports& ports() const { return ports_; }
  void reset();

 private:
  static constexpr std::uint32_t kRoomAtSm = 16;  // kind of event beside the network's; argument: an SM

  // A response that a port does not take yet.
  struct Waiting {
    LinkPacket packet;
    Cycle ready = 0;
    bool acknowledgement = false;  // of a multicast: it has passed the SM's link
  };
  struct Sm {
    Fifo<Waiting> waiting;
    bool closed = false;   // no room for responses
    bool awaited = false;  // and an event will look again
  };
  struct alignas(64) Slice {
    explicit Slice(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;
    std::uint32_t buffer = 0;  // that the response waits for which the slice holds, if it does
    tlm::tlm_generic_payload* held = nullptr;
  };

  // LinkPacket::entered: the cycle, and in the lowest bit whose port the response goes to.
  static std::uint32_t stamp(Cycle when, std::uint32_t port) {
    return static_cast<std::uint32_t>(when) << 1 | (port & 1U);
  }
  static std::uint32_t age(const LinkPacket& response, Cycle now) {
    return ((static_cast<std::uint32_t>(now) << 1) - (response.entered & ~1U)) >> 1;
  }
  MemoryIn& port_of(std::uint32_t sm, const LinkPacket& response) { return *egress_[2 * sm + (response.entered & 1U)]; }

  void inject(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t slice,
              std::uint32_t buffer, Cycle when);
  bool has_room(std::uint32_t sm, Cycle now);
  void deliver(std::uint32_t sm, const LinkPacket& packet, Cycle ready);
  void respond(std::uint32_t sm, const LinkPacket& packet, Cycle arrival);

  // LinkNetworkListener, EventHandler, MulticastRequester.
  void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) override {
    timebase_.schedule(when, *this, kind, argument);
  }
  bool eject(std::uint32_t egress, const LinkPacket& packet, Cycle now) override;
  void credit(std::uint32_t slice, Cycle now) override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }
  void acknowledge(std::uint32_t sm, const LinkPacket& packet, Cycle arrival) override;
  void open_multicasts(std::uint32_t sm) override {
    network_.open(ports_.first_egress + routes_.sms() + sm, timebase_.now());
  }

  const char* name_;
  Timebase& timebase_;
  const CrossbarRoutes& routes_;
  const std::uint32_t header_bytes_;
  Counters counters_;
  LinkNetwork network_;
  const CrossbarRoutes::Ports ports_;
  NetworkWarmer warmer_;
  FanOut fan_out_;
  CrossbarMulticast multicast_;
  std::vector<Sm> sms_;
  std::vector<Slice> slices_;
  std::vector<MemoryOut*> ingress_;  // by slice
  std::vector<MemoryIn*> egress_;    // by port
  std::uint64_t delivered_ = 0;
};

// How many bytes of a link a request and its response take.
constexpr std::uint32_t kLaneBytes = 8;  // of an atomic: its operand, or its old value

inline std::uint32_t sector_bytes(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension) {
  if (extension.sectors != 0) {
    constexpr std::uint64_t kBits = 0x4332'3221'3221'2110U;  // how many are set in each value of four bits
    return static_cast<std::uint32_t>(kBits >> (extension.sectors % 16 * 4) & 0xF) * arch::kSectorBytes;
  }
  const std::uint64_t length = payload.get_data_length();
  if (length == 0) return 0;
  const std::uint64_t first = payload.get_address() / arch::kSectorBytes;
  const std::uint64_t last = (payload.get_address() + length - 1) / arch::kSectorBytes;
  return static_cast<std::uint32_t>(last - first + 1) * arch::kSectorBytes;
}

// A header, and the data that go along.
inline std::uint32_t request_bytes(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                   std::uint32_t header) {
  switch (extension.action) {
    case protocol::MemoryAction::plain:
      return header + extension.carried + (payload.is_write() ? sector_bytes(payload, extension) : 0);
    case protocol::MemoryAction::reduce_block:
      return header + extension.carried + sector_bytes(payload, extension);
    case protocol::MemoryAction::atomic:
    case protocol::MemoryAction::reduce:
      return header + kLaneBytes * extension.lanes;
    default:
      return header + extension.carried;
  }
}

// Data, whose header travels beside them; or an acknowledgement as large as a header. A TMAU's carry more (TMA-15).
inline std::uint32_t response_bytes(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                    std::uint32_t header) {
  if (payload.get_response_status() != tlm::TLM_OK_RESPONSE) return header + extension.carried;
  std::uint32_t data = 0;
  if (extension.action == protocol::MemoryAction::plain && payload.is_read()) data = sector_bytes(payload, extension);
  if (extension.action == protocol::MemoryAction::atomic) data = kLaneBytes * extension.lanes;
  return (data > header ? data : header) + extension.carried;
}

}  // namespace heddle::memory
