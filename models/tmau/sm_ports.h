// The network interface of a tensor memory access unit: a port of the crossbar for each SM, which shares the SM's link.
#pragma once

#include <memory>
#include <vector>

#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "tmau/bulk_work.h"
#include "tmau/request_store.h"

namespace heddle::tmau {

// What leaves within so many cycles leaves by one event. What runs ahead takes the SM's link before what the SM itself
// sends meanwhile: so it is not far.
constexpr Cycle kHorizon = 8;

class SmPorts final : private EventHandler {
 public:
  SmPorts(const UnitContext& unit, Domain& domain, RequestStore& store);

  MemoryOut& socket(std::uint32_t sm) { return *ports_[sm].out; }
  bool can_send(std::uint32_t sm) const { return unit_.blocking() || ports_[sm].out->can_send(); }
  // Leaves now, or at a later cycle `when`. The answer may come inside this call.
  void send(std::uint32_t sm, protocol::MemoryRequest& request, Cycle when);
  // Ready at `earliest`: leaves from then on, once the port takes it. Always by an event of its own: whoever has
  // brought about that it is ready has returned by then.
  void push_ready(std::uint32_t sm, protocol::MemoryRequest& request, Cycle earliest);
  void reset();

 private:
  struct Ready {
    protocol::MemoryRequest* request = nullptr;
    Cycle earliest = 0;
  };
  struct Port {
    std::unique_ptr<MemoryOut> out;
    Ring<Ready> ready;        // in order of time
    Cycle last = 0;           // arrival of the last request at the port
    Cycle pump_at = kNotYet;  // event
  };

  void on_event(std::uint32_t kind, std::uint64_t sm) override;
  const char* handler_name() const override { return unit_.module; }
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival);
  void on_room(std::uint32_t sm, Cycle when);
  void arm(std::uint32_t sm);
  void pump(std::uint32_t sm);

  const UnitContext& unit_;
  Domain& domain_;
  RequestStore& store_;
  std::vector<Port> ports_;  // by SM of the unit
};

}  // namespace heddle::tmau
