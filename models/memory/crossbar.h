// The crossbar between SMs and L2 slices: two networks, one for requests and one for responses (MEM-03).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "common/block.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "memory/crossbar_fan_out.h"
#include "memory/crossbar_params.h"
#include "memory/crossbar_routes.h"
#include "protocol/memory_request.h"
#include "protocol/sm_tmau.h"

namespace heddle::memory {

// Requests: SM -> TPC -> CPC -> GPC -> (crossing between partitions) -> slice. Responses come back the same way. GPC g
// belongs to partition g * partitions / gpcs. Within a GPC every SM gets the same share of a full link; at a crossing
// and at a slice every GPC does, and where responses meet every slice. Requests of one SM to one slice stay in order,
// and so do the responses of one slice to one SM.
//
// An SM and its tensor memory access unit have a port each, and share the SM's links and the places at their ends.
//
// A multicast (TMA-30) leaves the GPC's link when every receiver, and the SM that has asked, has room for a copy. Until
// then it waits there, one for each asking SM; that SM's next one stays where it is, and so do the packets behind that
// at its slice's place. Those that wait go in the order of their age, except that one passes others with which it has
// no SM in common.
class Crossbar : public Block {
 public:
  // `topology` and `map` must outlive the crossbar.
  Crossbar(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CrossbarParams& params,
           const arch::Topology& topology, const arch::AddressMap& map);
  ~Crossbar() override;

  MemoryIn& sm_in(std::uint32_t sm_id) { return *ports_[2 * sm_id]; }
  // The port of the SM's tensor memory access unit (TMA-03).
  MemoryIn& bulk_in(std::uint32_t sm_id) { return *ports_[2 * sm_id + 1]; }
  // Data of multicast reads for that SM, to its TMAU: noted when they are sent, they arrive then. A reference goes
  // along with each. The asking port's response is an acknowledgement: it arrives with the copy for its own SM or, if
  // that is no receiver, by itself over its SM's link. Memory's error is answered to the asking port alone.
  PacketOut<protocol::BulkDataPacket>& multicast_out(std::uint32_t sm_id) { return *multicast_out_[sm_id]; }
  MemoryOut& slice_out(std::uint32_t slice) { return *slice_out_[slice]; }

  // Cycles that a request, and also its response, takes through an empty crossbar.
  Cycle latency(std::uint32_t sm_id, std::uint32_t slice) const { return routes_.latency(sm_id, slice); }
  // Requests that have come in and whose responses have not been handed over.
  std::uint64_t in_flight() const { return in_flight_; }

  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events.
  static constexpr std::uint32_t kSliceTakes = 0;  // argument: a slice, that has room again
  static constexpr std::uint32_t kSmTakes = 1;     // argument: an SM that may have room again
  static constexpr std::uint32_t kCopiesGo = 2;    // argument: a GPC in which a multicast that waits may go on

  // One of the two networks' host.
  struct Side final : LinkNetworkHost, EventHandler {
    Side(Crossbar& owner, bool requests) : crossbar(owner), is_request(requests) {}
    void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) override {
      crossbar.domain_.schedule(when, *this, kind, argument);
    }
    bool leave(std::uint32_t exit, const LinkPacket& packet, Cycle now) override {
      return is_request ? crossbar.hand_to_slice(exit, packet, now) : crossbar.hand_to_sm(exit, packet, now);
    }
    void room(std::uint32_t owner, Cycle now) override {
      if (is_request) {
        crossbar.requests_go_on(owner, now);
      } else {
        crossbar.enter_held(owner, now);
      }
    }
    void on_event(std::uint32_t kind, std::uint64_t argument) override {
      LinkNetwork& network = is_request ? crossbar.requests_ : crossbar.responses_;
      network.on_event(kind, argument, crossbar.domain_.now());
    }
    // The packet, then what it carries, then what its receiver will touch.
    void prefetch(std::uint32_t kind, std::uint64_t argument, Ahead ahead) const override {
      const LinkNetwork& network = is_request ? crossbar.requests_ : crossbar.responses_;
      if (ahead == Ahead::far) return network.prefetch(kind, argument);
      if (is_request) return;
      const LinkPacket* packet = network.arriving(kind, argument);
      if (packet == nullptr) return;
      const auto& payload = *static_cast<const tlm::tlm_generic_payload*>(packet->item);
      if (ahead == Ahead::near) protocol::prefetch(payload);
      if (ahead == Ahead::next) protocol::prefetch_owner(payload);
    }
    const char* handler_name() const override { return crossbar.handler_name(); }

    Crossbar& crossbar;
    bool is_request;
  };

  // A response that a port does not take yet.
  struct Waiting {
    LinkPacket packet;
    Cycle ready = 0;
    bool acknowledgement = false;  // of a multicast: it has passed the SM's link
  };
  struct alignas(64) Sm {
    explicit Sm(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;  // of requests
    std::deque<Waiting> waiting;
    bool closed = false;                         // no room for responses
    bool awaited = false;                        // and an event will look again
    bool full = false;                           // no room for requests
    bool unit_first = false;                     // whose END_REQ comes first
    tlm::tlm_generic_payload* parked = nullptr;  // a request that came while the other port's had taken the last place
    Cycle parked_at = 0;                         // its arrival, now or later
  };
  // A multicast that waits at the GPC's link.
  struct Staged {
    LinkPacket packet;
    std::uint32_t sm = 0;    // that has asked
    std::uint64_t ends = 0;  // bits of the SMs that need room
  };
  struct Gpc {
    std::vector<Staged> staged;  // by age
    std::uint64_t wanted = 0;    // their ends
    Cycle awaited = kNever;      // when an event looks again
  };
  struct Slice {
    explicit Slice(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;           // of responses
    Cycle takes_at = 0;      // it has ended its last request, but the channel is free only then
    std::uint32_t held = 0;  // the place that the response waits for which the slice holds, if it does
    tlm::tlm_generic_payload* response = nullptr;
  };

  static constexpr Cycle kNever = ~Cycle{0};

  // A port of an SM: 2 * SM, and 1 for its TMAU's.
  static std::uint32_t sm_of(std::uint32_t port) { return port / 2; }
  // LinkPacket::entered of a response: the cycle, and in the lowest bit whose port it goes to.
  static std::uint32_t stamp(Cycle when, std::uint32_t port) {
    return static_cast<std::uint32_t>(when) << 1 | (port & 1U);
  }
  static std::uint32_t age(const LinkPacket& response, Cycle now) {
    return ((static_cast<std::uint32_t>(now) << 1) - (response.entered & ~1U)) >> 1;
  }
  MemoryIn& port_of(std::uint32_t sm, const LinkPacket& response) { return *ports_[2 * sm + (response.entered & 1U)]; }

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  // Sockets.
  bool request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival);
  bool response(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival);
  void request_room(std::uint32_t slice, Cycle when);
  void response_room(std::uint32_t port, Cycle when);
  void blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  unsigned debug(tlm::tlm_generic_payload& payload, std::uint32_t port);
  // Networks.
  void enter_request(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm,
                     Cycle arrival);
  void requests_go_on(std::uint32_t sm, Cycle now);
  bool hand_to_slice(std::uint32_t slice, const LinkPacket& packet, Cycle now);
  bool hand_to_sm(std::uint32_t exit, const LinkPacket& packet, Cycle now);
  void enter_held(std::uint32_t slice, Cycle now);
  void enter_response(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                      std::uint32_t slice, std::uint32_t place, Cycle when);
  void deliver(std::uint32_t sm, const LinkPacket& packet, Cycle ready);
  void respond(std::uint32_t sm, const LinkPacket& packet, Cycle arrival) {
    response_cycles_.add(age(packet, arrival));
    --in_flight_;
    port_of(sm, packet).respond(*static_cast<tlm::tlm_generic_payload*>(packet.item), arrival);
  }
  bool takes_responses(std::uint32_t sm, Cycle now);
  // Multicasts.
  bool is_multicast(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm);
  bool hand_to_receivers(std::uint32_t sm, const LinkPacket& packet, Cycle now);
  bool send_copies(std::uint32_t sm, const LinkPacket& packet, Cycle now);
  void send_copy(tlm::tlm_generic_payload& payload, std::uint32_t sm, std::uint32_t bit, Cycle arrival);
  void expect_copies(std::uint32_t gpc, Cycle when);
  void go_on_with_copies(std::uint32_t gpc);
  void open_multicasts(std::uint32_t sm);
  void add_waits(const LinkNetwork& network, bool requests, WaitGraph& graph) const;
  void count_bytes(LinkNetwork& network, const CrossbarRoutes::Ports& ports, const char* what);

  const CrossbarParams params_;
  const arch::Topology& topology_;
  const arch::AddressMap& map_;
  const CrossbarRoutes routes_;
  const std::uint32_t sm_count_;
  Side request_side_;
  Side response_side_;
  LinkNetwork requests_;
  LinkNetwork responses_;
  const CrossbarRoutes::Ports request_ports_;
  const CrossbarRoutes::Ports response_ports_;
  FanOut fan_out_;
  std::vector<Sm> sms_;
  std::vector<Gpc> gpcs_;
  std::vector<Slice> slices_;
  std::vector<std::unique_ptr<MemoryIn>> ports_;
  std::vector<std::unique_ptr<PacketOut<protocol::BulkDataPacket>>> multicast_out_;
  std::vector<std::unique_ptr<MemoryOut>> slice_out_;
  std::uint64_t in_flight_ = 0;

  Counter& withheld_;
  Counter& multicasts_;
  Counter& copies_;
  Histogram& request_cycles_;
  Histogram& response_cycles_;
};

}  // namespace heddle::memory
