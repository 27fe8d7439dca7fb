// CWD -> GPM: CTAs start on SMs of one GPC. GPM -> CWD: CTAs have completed.
#pragma once

#include <cstdint>

#include "arch/kernel_record.h"
#include "arch/sm_limits.h"

namespace heddle::protocol {

// CWD-31. One packet starts one CTA on every SM of its mask. CTA ids are not sent: an SM follows the raster position
// from the packets of all GPCs. `raster` is that position in the one ordered record of the launches, so that a follower
// catches up only at a launch of its own (CWD-35): it holds nothing that a follower of the broadcast would not know.
struct LaunchPacket {
  std::uint32_t slot = 0;  // task id: slot of the task table
  std::uint32_t operation = 0;
  std::uint32_t virtual_gpc = 0;  // GPCs numbered by their usable TPCs
  std::uint64_t sm_mask = 0;      // bit = SM of the GPC; the least significant one gets the first CTA
  std::uint32_t num_ctas = 0;     // = population count of the mask
  std::uint64_t sequence = 0;     // session number
  bool last = false;              // last mask of its session
  std::uint64_t raster = 0;       // CTAs of the task in launch packets before this one
  arch::Dim3 grid;
  arch::ResourceVector need;
  arch::CtaDuration duration;
};

// All CTAs of one task that completed on a GPC in one cycle, one bit per SM.
struct CompletePacket {
  std::uint32_t slot = 0;
  std::uint64_t sm_mask = 0;
};

}  // namespace heddle::protocol
