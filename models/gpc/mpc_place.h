// Which MPCs a GPC has, and which SMs each of them serves (CGA-03).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "gpc/gpc_params.h"
#include "protocol/ids.h"

namespace heddle::gpc {

struct MpcPlace {
  std::uint32_t sms = 0;
  std::uint32_t cta_slots = 0;  // of an SM
  protocol::TpcInGpc tpc;
  std::uint32_t first_sm = 0;      // bit of its first SM in the GPC's masks
  std::uint32_t first_in_tpc = 0;  // number of that SM in its TPC
};

// In the order of the GPC's SMs.
inline std::vector<MpcPlace> mpc_places(const arch::Topology::Gpc& gpc, MpcPer per, std::uint32_t cta_slots) {
  std::vector<MpcPlace> places;
  for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) {
    const arch::Topology::Tpc& tpc = gpc.tpcs[t];
    const std::uint32_t each = per == MpcPer::sm ? 1 : tpc.sms;
    for (std::uint32_t sm = 0; sm < tpc.sms; sm += each) {
      places.push_back({each, cta_slots, protocol::TpcInGpc(t), tpc.first_sm + sm, sm});
    }
  }
  return places;
}

}  // namespace heddle::gpc
