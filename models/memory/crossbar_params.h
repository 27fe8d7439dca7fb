// Parameters of the crossbar.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::memory {

// Every link exists twice, for requests and for responses, with the same latency and bandwidth.
struct CrossbarParams {
  std::uint32_t sm_to_tpc = 12;     // cycles
  std::uint32_t tpc_to_cpc = 10;    // cycles
  std::uint32_t cpc_to_gpc = 10;    // cycles
  std::uint32_t gpc_to_slice = 30;  // cycles
  std::uint32_t crossing = 78;      // cycles, on top of gpc_to_slice

  double sm_bandwidth = 64;          // bytes per cycle
  double tpc_bandwidth = 128;        // bytes per cycle
  double cpc_bandwidth = 384;        // bytes per cycle
  double gpc_bandwidth = 768;        // bytes per cycle
  double crossing_bandwidth = 2560;  // bytes per cycle
  double slice_bandwidth = 64;       // bytes per cycle

  std::uint32_t queue = 16;  // packets
  std::uint32_t header_bytes = 32;

  static void describe(ParamTable<CrossbarParams>& t);
};

}  // namespace heddle::memory
