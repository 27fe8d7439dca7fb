// Parameters of the memory hub.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::host {

struct HubParams {
  std::uint32_t latency = 100;    // cycles, hub to slice, and the same back
  double bandwidth = 64;          // bytes per cycle between hub and slices, each direction
  double link_latency = 250;      // ns to the host's bus, and the same back
  double link_bandwidth = 55;     // GB/s, each direction
  std::uint32_t link_tags = 256;  // requests under way on the host's bus
  std::uint32_t queue = 16;       // requests of each client that wait in the hub

  static void describe(ParamTable<HubParams>& t);
};

}  // namespace heddle::host
