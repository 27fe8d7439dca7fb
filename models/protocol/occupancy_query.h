// Host interface (by task management) or SM -> CWD, and back: how many CGAs of a kernel can be resident at once
// (CWD-24).
#pragma once

#include <cstdint>

#include "arch/cluster.h"
#include "arch/sm_limits.h"

namespace heddle::protocol {

struct OccupancyQueryPacket {
  std::uint32_t tag = 0;      // comes back with the answer: of an SM, the warp slot that asks
  arch::ResourceVector need;  // of one CTA
  arch::ClusterShape cluster;
  bool local_memory = false;  // its CTAs take a local-memory block of their TPC
  bool largest = false;       // the largest GPC_CGA is asked for as well
  std::uint8_t subcontext = 0;
};

struct OccupancyAnswerPacket {
  std::uint32_t tag = 0;
  bool well_formed = true;    // false: there are no CGAs of that shape, and the numbers are 0
  std::uint64_t active = 0;   // outermost CGAs at once; of a plain grid: CTAs
  std::uint32_t largest = 0;  // CTAs of the largest GPC_CGA of which one has a place; 0: none has, or not asked for
};

}  // namespace heddle::protocol
