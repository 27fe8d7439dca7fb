// From the machine's tree and the crossbar's parameters to two networks of links. Plain C++.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "common/bits.h"
#include "common/link_network.h"
#include "memory/memory_params.h"

namespace heddle::memory {

// Requests come together: SM -> TPC -> CPC -> GPC -> (crossing) -> slice. Responses come together from slices towards
// each GPC, (crossing) -> GPC, and leave the network there: inside a GPC they fan out (FanOut).
//
// The link of a TPC, a CPC or a crossing is built only where it can be a bottleneck. One that passes on all that its
// upstream links bring has no buffer of its own, and in front of a crossing that carries all that lies behind it none
// lasts: packets wait where the next link's do, and the wires count.
class CrossbarRoutes {
 public:
  // Of one direction.
  struct Ports {
    std::vector<std::uint32_t> entries;    // buffers; requests: by SM; responses: by slice * gpcs + gpc
    std::uint32_t first_egress = 0;        // requests: of slice 0; responses: of SM 0, and of multicasts behind these
    std::vector<std::uint32_t> gpcs;       // links, by GPC
    std::vector<std::uint32_t> crossings;  // links, by source partition * partitions + target; kNone: not built
    std::vector<std::vector<std::uint32_t>> crossing_buffers;  // by the same: what sets out for them crosses
  };

  CrossbarRoutes(const CrossbarParams& params, const arch::Topology& topology, const arch::AddressMap& map);

  Ports build_requests(LinkNetwork& network) const;
  Ports build_responses(LinkNetwork& network) const;

  std::uint32_t gpcs() const { return gpcs_; }
  std::uint32_t sms() const { return static_cast<std::uint32_t>(gpc_of_sm_.size()); }
  std::uint32_t slices() const { return slices_; }
  std::uint32_t partitions() const { return partitions_; }
  std::uint32_t gpc_of_sm(std::uint32_t sm) const { return gpc_of_sm_[sm]; }
  std::uint32_t partition_of_gpc(std::uint32_t gpc) const { return topology_.partition_of(gpc, partitions_); }
  std::uint32_t partition_of_slice(std::uint32_t slice) const { return slice / per_partition_; }
  bool far(std::uint32_t gpc, std::uint32_t slice) const { return partition_of_gpc(gpc) != partition_of_slice(slice); }
  // Cycles from SM to slice, or back, through empty links.
  std::uint64_t latency(std::uint32_t sm, std::uint32_t slice) const {
    return near_latency_ + (far(gpc_of_sm_[sm], slice) ? params_.crossing : 0);
  }
  // Places for responses on the way to each SM and at its end.
  std::uint32_t response_credits() const;

 private:
  // Where packets come from that have not met a built link yet.
  struct Source {
    std::uint32_t link = LinkNetwork::kNone;  // a built link; kNone: an SM
    std::uint32_t sm = 0;
    std::uint32_t sms = 1;      // behind it
    std::uint32_t latency = 0;  // cycles from there on
    double rate = 0;            // bytes per cycle at most
  };

  std::uint32_t capacity(std::uint32_t latency, double rate) const;
  std::vector<Source> gather_gpc(LinkNetwork& network, Ports& ports, std::uint32_t gpc) const;
  std::vector<Source> merge(LinkNetwork& network, Ports& ports, const std::string& name, std::vector<Source> sources,
                            double bandwidth, std::uint32_t latency) const;
  void attach(LinkNetwork& network, Ports& ports, const std::vector<Source>& sources, std::uint32_t link,
              double bandwidth) const;
  std::uint32_t gpcs_in(std::uint32_t partition) const;
  void add_crossings(LinkNetwork& network, Ports& ports) const;
  LinkNetwork::BufferSpec last_buffer(const Ports& ports, std::uint32_t from, std::uint32_t to,
                                      std::uint32_t upstream) const;

  const CrossbarParams params_;
  const arch::Topology& topology_;
  std::uint32_t gpcs_;
  std::uint32_t slices_;
  std::uint32_t partitions_;
  std::uint32_t per_partition_;
  std::uint64_t near_latency_ = 0;
  std::vector<std::uint32_t> gpc_of_sm_;
};

// The way of responses inside a GPC: GPC -> CPC -> TPC -> SM. A plain core without SystemC (MEM-03).
//
// Every link here has one upstream link and passes packets on in order. So the times at which a packet passes all of
// them are known when it leaves the GPC's link, and no event is spent on them. Back-pressure is by credit: a packet
// leaves the GPC's link only with a place at its SM's end.
//
// A multicast (TMA-30) passes each link on the way to its receivers once, and there is a copy of it for each SM's link.
// Copies share the links with responses, and have places of their own, as many: neither waits for the other's room.
// Their receivers always take them, so a copy's place is free in the cycle in which it arrives, and that is known.
class FanOut {
 public:
  using Cycle = LinkPace::Cycle;

  // places: for the packets on their way to each SM from the GPC's link on, and those that wait there.
  FanOut(const CrossbarParams& params, const arch::Topology& topology, std::uint32_t places);

  // A packet leaves the GPC's link for an SM that has room. Returns when it has passed the links of CPC and TPC.
  Cycle pass(std::uint32_t sm, std::uint32_t bytes, Cycle now);
  // Then it goes over the SM's link, not before `ready`. Returns the cycle of arrival. In order of pass().
  Cycle arrive(std::uint32_t sm, std::uint32_t bytes, Cycle ready);
  // When the SM has room for another: `now`, or the cycle in which the next one arrives, or kNever while none of
  // those that passed has gone on.
  Cycle room_at(std::uint32_t sm, Cycle now);

  // A packet of `bytes` leaves the GPC's link for SMs that have room for a copy: bits of the GPC's masks. Calls
  // deliver(sm, bit, arrival) for each of them. Returns when `requester` hears that it has passed: with its copy or, if
  // it gets none, by an acknowledgement of `header` bytes, which takes those links alone that the packet does not.
  template <class Deliver>
  Cycle multicast(const arch::Topology::Gpc& gpc, std::uint64_t sms, std::uint32_t bytes, std::uint32_t requester,
                  std::uint32_t header, Cycle now, Deliver&& deliver) {
    Way way;
    Acknowledgement answer;
    bits::for_each(sms, [&](std::uint32_t bit) {
      const std::uint32_t id = gpc.sm_ids[bit];
      advance(way, id, bytes, now);
      const Cycle arrival = arrive_copy(id, bytes, way.at_sm);
      if (way.tpc == sms_[requester].tpc) answer.at_sm = way.at_sm;
      if (way.cpc == sms_[requester].cpc) answer.at_tpc = way.at_tpc;
      if (id == requester) answer.arrival = arrival;
      deliver(id, bit, arrival);
    });
    return answer.arrival != kNever ? answer.arrival : acknowledge(answer, requester, header, now);
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
  // kNever: the packet does not come there.
  struct Acknowledgement {
    Cycle at_tpc = kNever;
    Cycle at_sm = kNever;
    Cycle arrival = kNever;
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
