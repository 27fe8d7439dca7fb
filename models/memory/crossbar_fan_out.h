// The way of responses inside a GPC: GPC -> CPC -> TPC -> SM. A plain core without SystemC (MEM-03).
//
// Every link here has one feeder and passes packets on in order. So the times at which a packet passes all of them are
// known when it leaves the GPC's link, and no event is spent on them. Back-pressure is by credit: a packet leaves the
// GPC's link only with a place at its SM's end.
//
// A multicast (TMA-30) passes each link on the way to its receivers once, and there is a copy of it for each SM's link.
// Copies share the links with responses, and have places of their own, as many: neither waits for the other's room.
// Their receivers always take them, so a copy's place is free in the cycle in which it arrives, and that is known.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "common/bits.h"
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

  // A packet of `bytes` leaves the GPC's link for SMs that have room for a copy: bits of the GPC's masks. Calls
  // deliver(sm, bit, arrival) for each of them. Returns when `asker` hears that it has passed: with its copy or, if it
  // gets none, by an acknowledgement of `header` bytes, which takes those links alone that the packet does not.
  template <class Deliver>
  Cycle multicast(const arch::Topology::Gpc& gpc, std::uint64_t sms, std::uint32_t bytes, std::uint32_t asker,
                  std::uint32_t header, Cycle now, Deliver&& deliver) {
    Way way;
    Acknowledgement answer;
    bits::for_each(sms, [&](std::uint32_t bit) {
      const std::uint32_t id = gpc.sm_ids[bit];
      advance(way, id, bytes, now);
      const Cycle arrival = arrive_copy(id, bytes, way.at_sm);
      if (way.tpc == sms_[asker].tpc) answer.at_sm = way.at_sm;
      if (way.cpc == sms_[asker].cpc) answer.at_tpc = way.at_tpc;
      if (id == asker) answer.arrival = arrival;
      deliver(id, bit, arrival);
    });
    return answer.arrival != kUnknown ? answer.arrival : acknowledge(answer, asker, header, now);
  }
  // When all of them have room for a copy: `now`, or a later cycle.
  Cycle copies_room_at(const arch::Topology::Gpc& gpc, std::uint64_t sms, Cycle now);

  void reset();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Sm {
    LinkPace pace;
    std::uint32_t tpc = 0;
    std::uint32_t cpc = 0;
    std::uint32_t first = 0;     // the oldest entry of its ring
    std::uint32_t arrivals = 0;  // entries: packets that go over its link, and may have arrived
    std::uint32_t waiting = 0;   // packets that passed and do not go on yet
  };

  // Copies on their way to an SM. A ring, as for responses.
  struct Copies {
    std::uint32_t first = 0;
    std::uint32_t arrivals = 0;
  };

  // Where a multicast is: the SMs of a TPC follow each other, and the TPCs of a CPC.
  struct Way {
    std::uint32_t cpc = kNone;
    std::uint32_t tpc = kNone;
    Cycle at_tpc = 0;
    Cycle at_sm = 0;
  };
  // kUnknown: the packet does not come there.
  struct Acknowledgement {
    Cycle at_tpc = kUnknown;
    Cycle at_sm = kUnknown;
    Cycle arrival = kUnknown;
  };

  static Cycle cross(LinkPace& link, std::uint32_t bytes, Cycle now) {
    const Cycle begin = link.earliest(now);
    link.take(begin, bytes);
    return begin;
  }
  void advance(Way& way, std::uint32_t sm, std::uint32_t bytes, Cycle now) {
    if (sms_[sm].tpc == way.tpc) return;
    if (sms_[sm].cpc != way.cpc) {
      way.cpc = sms_[sm].cpc;
      way.at_tpc = cross(cpcs_[way.cpc], bytes, now) + gpc_to_cpc_;
    }
    way.tpc = sms_[sm].tpc;
    way.at_sm = cross(tpcs_[way.tpc], bytes, way.at_tpc) + cpc_to_tpc_;
  }
  Cycle acknowledge(const Acknowledgement& answer, std::uint32_t sm, std::uint32_t bytes, Cycle now);
  Cycle arrive_copy(std::uint32_t sm, std::uint32_t bytes, Cycle ready);
  Cycle copy_room_at(std::uint32_t sm, Cycle now);

  std::uint32_t places_;
  Cycle gpc_to_cpc_;
  Cycle cpc_to_tpc_;
  Cycle tpc_to_sm_;
  std::vector<LinkPace> cpcs_;
  std::vector<LinkPace> tpcs_;
  std::vector<Sm> sms_;
  std::vector<Cycle> ring_;  // cycles of arrival: places_ entries for each SM
  std::vector<Copies> copies_;
  std::vector<Cycle> copy_ring_;  // the same for copies; there is none before the first multicast
};

}  // namespace heddle::memory
