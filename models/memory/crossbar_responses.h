// The response network of the crossbar: from L2 slices to the ports of SMs (MEM-03). It ends at the GPCs' links; from
// there on responses fan out.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "common/link_network.h"
#include "common/memory_socket.h"
#include "common/timebase.h"
#include "memory/crossbar_fan_out.h"
#include "memory/crossbar_multicast.h"
#include "memory/crossbar_params.h"
#include "memory/crossbar_routes.h"
#include "memory/memory_warming.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

class CrossbarResponses final : private LinkNetworkListener, private EventHandler, private MulticastAsker {
 public:
  // `name`: for messages. All references must outlive it, as must the sockets.
  CrossbarResponses(const char* name, Timebase& timebase, const CrossbarParams& params, const CrossbarRoutes& routes,
                    const arch::Topology& topology, const MulticastCounters& counters, Histogram& cycles);

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
    std::deque<Waiting> waiting;
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

  // LinkNetworkListener, EventHandler, MulticastAsker.
  void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) override {
    timebase_.schedule(when, *this, kind, argument);
  }
  bool eject(std::uint32_t egress, const LinkPacket& packet, Cycle now) override;
  void credit(std::uint32_t slice, Cycle now) override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }
  bool acknowledge(std::uint32_t sm, const LinkPacket& packet, Cycle arrival) override;
  void open_multicasts(std::uint32_t sm) override {
    network_.open(ports_.first_egress + routes_.sms() + sm, timebase_.now());
  }

  const char* name_;
  Timebase& timebase_;
  const CrossbarRoutes& routes_;
  const std::uint32_t header_bytes_;
  Histogram& cycles_;
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

}  // namespace heddle::memory
