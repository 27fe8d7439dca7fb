// The way of responses inside a GPC: GPC -> CPC -> TPC -> SM. A plain core without SystemC (MEM-03).
//
// Every link here has one feeder and passes packets on in order. So the times at which a packet passes all of them are
// known when it leaves the GPC's link, and no event is spent on them. Back-pressure is by credit: a packet leaves the
// GPC's link only with a place at its SM's end.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "common/link_pace.h"
#include "memory/crossbar_params.h"

namespace heddle::memory {

class FanOut {
 public:
  using Cycle = LinkPace::Cycle;
  static constexpr Cycle kUnknown = ~Cycle{0};

  // places: for the packets on their way to each SM from the GPC's link on, and those that wait there.
  FanOut(const CrossbarParams& params, const arch::Topology& topology, std::uint32_t places);

  // A packet leaves the GPC's link for an SM that has room. Returns when it has passed the links of CPC and TPC.
  Cycle pass(std::uint32_t sm, std::uint32_t bytes, Cycle now);
  // Then it goes over the SM's link, not before `ready`. Returns the cycle of arrival. In order of pass().
  Cycle arrive(std::uint32_t sm, std::uint32_t bytes, Cycle ready);
  // When the SM has room for another: `now`, or the cycle in which the next one arrives, or kUnknown while none of
  // those that passed has gone on.
  Cycle room_at(std::uint32_t sm, Cycle now);

  void reset();

 private:
  struct Sm {
    LinkPace pace;
    std::uint32_t tpc = 0;
    std::uint32_t cpc = 0;
    std::uint32_t first = 0;     // the oldest entry of its ring
    std::uint32_t arrivals = 0;  // entries: packets that go over its link, and may have arrived
    std::uint32_t waiting = 0;   // packets that passed and do not go on yet
  };

  std::uint32_t places_;
  Cycle gpc_to_cpc_;
  Cycle cpc_to_tpc_;
  Cycle tpc_to_sm_;
  std::vector<LinkPace> cpcs_;
  std::vector<LinkPace> tpcs_;
  std::vector<Sm> sms_;
  std::vector<Cycle> ring_;  // cycles of arrival: places_ entries for each SM
};

}  // namespace heddle::memory
