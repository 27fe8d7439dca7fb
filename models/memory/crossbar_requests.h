// The request network of the crossbar: from the ports of SMs to L2 slices (MEM-03).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/address_map.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "common/timebase.h"
#include "memory/crossbar_params.h"
#include "memory/crossbar_routes.h"
#include "memory/memory_warming.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// An SM and its tensor memory access unit have an ingress port each, 2 * SM and the one after it, and share the SM's
// link and the buffer at its end. When that is full, the ports take turns: END_REQ of the one or the other comes first.
class CrossbarRequests final : private LinkNetworkListener, private EventHandler {
 public:
  struct Counters {
    Counter& withheld;
    Histogram& cycles;
  };
  // `name`: for messages. All references must outlive it, as must the sockets.
  CrossbarRequests(const char* name, Timebase& timebase, const CrossbarParams& params, const CrossbarRoutes& routes,
                   const arch::AddressMap& map, const Counters& counters);

  void add_ingress(MemoryIn& socket) { ingress_.push_back(&socket); }
  void add_slice(MemoryOut& socket) { egress_.push_back(&socket); }

  // A request of a port. True if the port may send another.
  bool enter(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t port,
             Cycle arrival);
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

  void inject(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm,
              Cycle arrival);
  void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) override {
    timebase_.schedule(when, *this, kind, argument);
  }
  bool eject(std::uint32_t slice, const LinkPacket& packet, Cycle now) override;
  void credit(std::uint32_t sm, Cycle now) override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }

  static constexpr std::uint32_t kSliceReady = 16;  // kind of event beside the network's; argument: a slice

  const char* name_;
  Timebase& timebase_;
  const CrossbarRoutes& routes_;
  const arch::AddressMap& map_;
  const std::uint32_t header_bytes_;
  Counters counters_;
  LinkNetwork network_;
  const CrossbarRoutes::Ports ports_;
  NetworkWarmer warmer_;
  std::vector<Sm> sms_;
  std::vector<Cycle> slice_ready_;  // a slice has ended its last request, but its channel is free only then
  std::vector<MemoryIn*> ingress_;  // by port
  std::vector<MemoryOut*> egress_;  // by slice
};

}  // namespace heddle::memory
