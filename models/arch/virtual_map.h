// Virtual numbers of the parts of a machine: they count what is usable, and hide what has been switched off or fused
// (CWD-31, CWD-45).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "arch/warp_program.h"

namespace heddle::arch {

// Where an SM is among the usable parts: the map SM -> TPC -> CPC -> GPC -> uGPU. kNoVirtual: its TPC is not usable.
struct VirtualPart {
  std::uint32_t sm = kNoVirtual;    // in the GPU: by virtual GPC, then TPC, then SM
  std::uint32_t tpc = kNoVirtual;   // in its GPC
  std::uint32_t cpc = kNoVirtual;   // in its GPC: those with a usable TPC
  std::uint32_t gpc = kNoVirtual;   // most usable TPCs first; equal ones in their order
  std::uint32_t ugpu = kNoVirtual;  // those with a usable GPC

  bool operator==(const VirtualPart& other) const {
    return sm == other.sm && tpc == other.tpc && cpc == other.cpc && gpc == other.gpc && ugpu == other.ugpu;
  }
};

// By GPC and TPC of it: the place of the TPC's first SM; its others follow. `usable`: the TPC enable table, by TPC,
// those of GPC 0 first.
std::vector<std::vector<VirtualPart>> virtual_parts(const Topology& topology, const std::vector<bool>& usable);

}  // namespace heddle::arch
