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

  // `link_ports`: outputs beside those to slices, which lead to the links (LNK-01); they count as slices behind those.
  CrossbarRoutes(const CrossbarParams& params, const arch::Topology& topology, const arch::AddressMap& map,
                 std::uint32_t link_ports = 0);

  Ports build_requests(LinkNetwork& network) const;
  Ports build_responses(LinkNetwork& network) const;

  std::uint32_t gpcs() const { return gpcs_; }
  std::uint32_t sms() const { return static_cast<std::uint32_t>(gpc_of_sm_.size()); }
  std::uint32_t slices() const { return slices_; }
  std::uint32_t partitions() const { return partitions_; }
  std::uint32_t gpc_of_sm(std::uint32_t sm) const { return gpc_of_sm_[sm]; }
  std::uint32_t in_gpc(std::uint32_t sm) const { return topology_.sm(sm).in_gpc; }
  // Cycles from an SM to the nearest slices and back.
  std::uint64_t near_round_trip() const { return 2 * near_latency_; }
  std::uint32_t partition_of_gpc(std::uint32_t gpc) const { return topology_.partition_of(gpc, partitions_); }
  std::uint32_t partition_of_slice(std::uint32_t slice) const {
    return slice < map_.slices() ? slice / per_partition_ : (slice - map_.slices()) * partitions_ / link_ports_;
  }
  // Where a request of the SM goes.
  std::uint32_t slice_for(std::uint32_t sm, std::uint64_t address) const {
    if (link_ports_ != 0 && arch::in_peer_window(address)) {
      return map_.slices() + static_cast<std::uint32_t>(address / arch::kLineBytes % link_ports_);
    }
    return map_.entry_of(address, partition_of_sm_[sm]);
  }
  bool far(std::uint32_t gpc, std::uint32_t slice) const { return partition_of_gpc(gpc) != partition_of_slice(slice); }
  // Cycles from SM to slice, or back, through empty links.
  std::uint64_t latency(std::uint32_t sm, std::uint32_t slice) const {
    return near_latency_ + (far(gpc_of_sm_[sm], slice) ? params_.crossing : 0);
  }
  // Cycles from a GPC's link to the nearest slices, and from there back to an SM.
  std::uint64_t posted_latency() const { return near_latency_ + params_.gpc_to_slice; }
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
  // What GPCs have of their links' bandwidth, in which their sizes count.
  double gpc_share(std::uint32_t gpc) const { return params_.gpc_share(topology_.gpc(gpc).sms); }
  double shares_in(std::uint32_t partition) const;
  void add_crossings(LinkNetwork& network, Ports& ports, double gpc_bandwidth) const;
  LinkNetwork::BufferSpec last_buffer(const Ports& ports, std::uint32_t from, std::uint32_t to,
                                      std::uint32_t upstream) const;

  const CrossbarParams params_;
  const arch::Topology& topology_;
  const arch::AddressMap& map_;
  std::uint32_t gpcs_;
  std::uint32_t link_ports_;
  std::uint32_t slices_;  // and link ports
  std::uint32_t partitions_;
  std::uint32_t per_partition_;
  std::uint64_t near_latency_ = 0;
  std::vector<std::uint32_t> gpc_of_sm_;
  std::vector<std::uint32_t> partition_of_sm_;
};

// The way of responses inside a GPC: GPC -> CPC -> TPC -> SM. A plain core without SystemC (MEM-03).
//
// Every link here has one upstream link and passes packets on in order. So the times at which a packet passes all of
// them are known when it leaves the GPC's link, and no event is spent on them. Back-pressure is by credit: a packet
// leaves the GPC's link only with a place at its SM's end.
//
// Copies of a multicast (TMA-30) share the links with responses, and have places of their own, as many: neither waits
// for the other's room. A place is reserved before its copy is made. Receivers always take them, so a copy's place is
// free in the cycle in which it arrives, and that is known.
class FanOut {
 public:
  using Cycle = LinkPace::Cycle;

  // places: for the packets on their way to each SM from the GPC's link on, and those that wait there.
  FanOut(const CrossbarParams& params, const arch::Topology& topology, std::uint32_t places);

  // A packet leaves the GPC's link for an SM that has room. Returns when it has passed the links of CPC and TPC.
  Cycle pass(std::uint32_t sm, std::uint32_t bytes, Cycle now);
  // Then it goes over the SM's link, not before `ready`, and into its L1, unless it is for the TMAU. Returns the cycle
  // of arrival. In order of pass().
  Cycle arrive(std::uint32_t sm, std::uint32_t bytes, Cycle ready, bool bulk);
  // When the SM has room for another: `now`, or the cycle in which the next one arrives, or kNever while none of
  // those that passed has gone on.
  Cycle room_at(std::uint32_t sm, Cycle now);

  // A copy of `bytes` sets out for an SM that has a place for it. Returns the cycle of arrival.
  Cycle copy(std::uint32_t sm, std::uint32_t bytes, Cycle now);
  // SMs that have room for a copy, bits of the GPC's masks, keep a place each.
  void reserve(const arch::Topology::Gpc& gpc, std::uint64_t sms) {
    bits::for_each(sms, [&](std::uint32_t bit) { ++copies_[gpc.sm_ids[bit]].reserved; });
  }
  // Cycles to the SMs and back.
  Cycle round_trip() const { return 2 * (gpc_to_cpc_ + cpc_to_tpc_ + tpc_to_sm_); }
  // When all of them have room for a copy: `now`, or a later cycle, or kNever while none is on its way to one of them.
  Cycle copies_room_at(const arch::Topology::Gpc& gpc, std::uint64_t sms, Cycle now);

  void reset();

 private:
  struct Sm {
    LinkPace pace;
    LinkPace l1;
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
    std::uint32_t reserved = 0;  // places of copies that have not set out
  };

  static Cycle cross(LinkPace& link, std::uint32_t bytes, Cycle now) {
    const Cycle begin = link.earliest(now);
    link.take(begin, bytes);
    return begin;
  }
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
