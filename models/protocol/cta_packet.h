// Inside a GPC: GPM <-> MPC <-> SM.
#pragma once

#include <cstdint>

#include "arch/kernel_record.h"
#include "arch/sm_limits.h"

namespace heddle::protocol {

// GPM -> MPC: the part of a launch packet that concerns one TPC.
struct TpcLaunchPacket {
  std::uint32_t slot = 0;
  std::uint32_t operation = 0;
  std::uint64_t sm_mask = 0;  // bit = SM of the TPC
  std::uint64_t raster = 0;   // linear id in the grid of the CTA of the lowest bit
  arch::ResourceVector need;
  arch::CtaDuration duration;
};

// MPC -> SM: a CTA starts.
struct CtaStartPacket {
  std::uint32_t slot = 0;
  std::uint32_t operation = 0;
  std::uint32_t cta_slot = 0;  // of the SM
  std::uint64_t index = 0;     // linear id in the grid
  arch::ResourceVector need;
  arch::CtaDuration duration;
};

// SM -> MPC: its last warp has exited.
struct CtaExitPacket {
  std::uint32_t slot = 0;
  std::uint32_t cta_slot = 0;
};

// MPC -> GPM: cta_complete.
struct CtaCompletePacket {
  std::uint32_t slot = 0;
  std::uint32_t sm_in_tpc = 0;
};

}  // namespace heddle::protocol
