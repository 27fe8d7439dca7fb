// The crossbar's links as calendars, for accesses that are calls: a whole way is reserved at once (MEM-03, HST-03).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "common/link_network.h"
#include "common/reservation.h"
#include "memory/crossbar_routes.h"
#include "memory/memory_params.h"

namespace heddle::memory {

// The same links as those of the networks, in the same places, with the same rates: those of TPCs, CPCs and crossings
// only where they can be a bottleneck. There are no buffers, and so no back-pressure: what comes first is first.
class CrossbarCalendars {
 public:
  // All references must outlive it. `requests`, `responses`: the networks, which say where partitions have links.
  CrossbarCalendars(const CrossbarParams& params, const arch::Topology& topology, const CrossbarRoutes& routes,
                    const CrossbarRoutes::Ports& requests, const CrossbarRoutes::Ports& responses);

  struct Request {
    Cycle at_gpc = 0;  // when it passes the GPC's link
    Cycle arrival = 0;
  };
  // A request of so many bytes leaves the SM at `when` or later.
  Request request(std::uint32_t sm, std::uint32_t slice, std::uint32_t bytes, Cycle when);
  // A response leaves the slice: the cycle of its arrival. `bulk`: at the TMAU.
  Cycle response(std::uint32_t sm, std::uint32_t slice, std::uint32_t bytes, bool bulk, Cycle when);
  // The part of a multicast's way that all copies share: the cycle at the GPC's link.
  Cycle to_gpc(std::uint32_t gpc, std::uint32_t slice, std::uint32_t bytes, Cycle when);
  // A copy for that SM sets out at the GPC's link behind others: the cycle of its arrival.
  Cycle copy(std::uint32_t sm, std::uint32_t bytes, Cycle when);
  // Cycles from the GPC's link to the SMs and back.
  Cycle round_trip() const { return 2 * (Cycle{params_.cpc_to_gpc} + params_.tpc_to_cpc + params_.sm_to_tpc); }

  void reset();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // Links by number, in the order of the way.
  struct Sm {
    std::uint32_t tpc = 0;
    std::uint32_t cpc = 0;
    std::uint32_t gpc = 0;
  };
  using Links = std::vector<ReservedLink>;
  struct Requests {
    Links sms, tpcs, cpcs, gpcs, crossings, slices;
    std::vector<bool> tpc_limits;  // that the link can be a bottleneck
    std::vector<bool> cpc_limits;
    std::vector<bool> crossing_limits;
  };
  struct Responses {
    Links slices, crossings, gpcs, cpcs, tpcs, sms, l1s, copiers;
    std::vector<bool> crossing_limits;
  };

  Cycle cross(Links& links, const std::vector<bool>& limits, std::uint32_t from, std::uint32_t to, std::uint32_t bytes,
              Cycle when);
  Cycle fan_out(std::uint32_t sm, std::uint32_t bytes, Cycle when);

  const CrossbarParams params_;
  const CrossbarRoutes& routes_;
  std::vector<Sm> ways_;
  Requests up_;
  Responses down_;
};

}  // namespace heddle::memory
