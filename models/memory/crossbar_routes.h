// From the machine's tree and the crossbar's parameters to two networks of links. Plain C++.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "common/link_network.h"
#include "memory/crossbar_params.h"

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
  std::uint32_t partition_of_gpc(std::uint32_t gpc) const {
    return static_cast<std::uint32_t>(std::uint64_t{gpc} * partitions_ / gpcs_);
  }
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

}  // namespace heddle::memory
