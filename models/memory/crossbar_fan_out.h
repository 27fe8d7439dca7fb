// The way of responses inside a GPC: GPC -> CPC -> TPC -> SM. A plain core without SystemC (MEM-03).
//
// Every link here has one feeder and passes packets on in order. So the times at which a packet passes all of them are
// known when it leaves the GPC's link, and no event is spent on them. Back-pressure is by credit: a packet leaves the
// GPC's link only with a place at its SM's end.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "arch/topology.h"
#include "memory/crossbar_params.h"
#include "memory/link_pace.h"

namespace heddle::memory {

class FanOut {
 public:
  using Cycle = LinkPace::Cycle;
  static constexpr Cycle kUnknown = ~Cycle{0};
  struct Packet {
    void* item = nullptr;  // the owner's
    Cycle entered = 0;     // the owner's
    std::uint32_t bytes = 0;
    Cycle ready = 0;  // set by pass(): when it reaches the SM's link
  };

  // places: for the packets on their way to each SM from the GPC's link on, and those that wait there.
  FanOut(const CrossbarParams& params, const arch::Topology& topology, std::uint32_t places);

  // A packet leaves the GPC's link for an SM that has room: through the CPC's and the TPC's link.
  void pass(std::uint32_t sm, Packet& packet, Cycle now);
  // Then over the SM's link, not before `not_before`; returns the cycle of arrival. In order of pass().
  Cycle arrive(std::uint32_t sm, const Packet& packet, Cycle not_before);
  // Packets that passed, and wait because the SM takes none.
  std::deque<Packet>& waiting(std::uint32_t sm) { return sms_[sm].waiting; }
  const std::deque<Packet>& waiting(std::uint32_t sm) const { return sms_[sm].waiting; }
  // When the SM has room for another: `now`, the cycle in which the next one arrives, or kUnknown while all wait.
  Cycle room_at(std::uint32_t sm, Cycle now);

  void reset();

 private:
  struct Sm {
    LinkPace pace;
    std::uint32_t tpc = 0;
    std::uint32_t cpc = 0;
    std::uint32_t first = 0;     // the oldest entry of its ring
    std::uint32_t arrivals = 0;  // entries: packets that have been handed over, and may be on their way
    std::deque<Packet> waiting;
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
