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
#include "memory/crossbar_fan_out.h"
#include "memory/crossbar_params.h"
#include "memory/crossbar_routes.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// Requests: SM -> TPC -> CPC -> GPC -> (crossing between partitions) -> slice. Responses come back the same way. GPC g
// belongs to partition g * partitions / gpcs. Within a GPC every SM gets the same share of a full link; at a crossing
// and at a slice every GPC does, and where responses meet every slice. Requests of one SM to one slice stay in order,
// and so do the responses of one slice to one SM.
class Crossbar : public Block {
 public:
  // `topology` and `map` must outlive the crossbar.
  Crossbar(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CrossbarParams& params,
           const arch::Topology& topology, const arch::AddressMap& map);

  MemoryIn& sm_in(std::uint32_t sm_id) { return *sm_in_[sm_id]; }
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
        crossbar.sm_in_[owner]->accept(now);
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

  // A response that an SM does not take yet.
  struct Waiting {
    LinkPacket packet;
    Cycle ready = 0;
  };
  struct Sm {
    explicit Sm(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;  // of requests
    std::deque<Waiting> waiting;
    bool closed = false;   // no room for responses
    bool awaited = false;  // and an event will look again
  };
  struct Slice {
    explicit Slice(double bytes_per_cycle) : pace(bytes_per_cycle) {}
    LinkPace pace;           // of responses
    Cycle takes_at = 0;      // it has ended its last request, but the channel is free only then
    std::uint32_t held = 0;  // the place that the response waits for which the slice holds, if it does
    tlm::tlm_generic_payload* response = nullptr;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  // Sockets.
  bool request(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival);
  bool response(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival);
  void request_room(std::uint32_t slice, Cycle when);
  void response_room(std::uint32_t sm, Cycle when);
  void blocking(tlm::tlm_generic_payload& payload, std::uint32_t sm, sc_core::sc_time& delay);
  unsigned debug(tlm::tlm_generic_payload& payload, std::uint32_t sm);
  // Networks.
  bool hand_to_slice(std::uint32_t slice, const LinkPacket& packet, Cycle now);
  bool hand_to_sm(std::uint32_t sm, const LinkPacket& packet, Cycle now);
  void enter_held(std::uint32_t slice, Cycle now);
  void enter_response(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                      std::uint32_t slice, std::uint32_t place, Cycle when);
  void deliver(std::uint32_t sm, const LinkPacket& packet, Cycle ready);
  bool takes_responses(std::uint32_t sm, Cycle now);
  void add_waits(const LinkNetwork& network, bool requests, WaitGraph& graph) const;
  void count_bytes(LinkNetwork& network, const CrossbarRoutes::Ports& ports, const char* what);

  const CrossbarParams params_;
  const arch::AddressMap& map_;
  const CrossbarRoutes routes_;
  Side request_side_;
  Side response_side_;
  LinkNetwork requests_;
  LinkNetwork responses_;
  const CrossbarRoutes::Ports request_ports_;
  const CrossbarRoutes::Ports response_ports_;
  FanOut fan_out_;
  std::vector<Sm> sms_;
  std::vector<Slice> slices_;
  std::vector<std::unique_ptr<MemoryIn>> sm_in_;
  std::vector<std::unique_ptr<MemoryOut>> slice_out_;
  std::uint64_t in_flight_ = 0;

  Counter& withheld_;
  Histogram& request_cycles_;
  Histogram& response_cycles_;
};

}  // namespace heddle::memory
