// Parameters of the SM-to-SM network of a GPC.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::gpc {

// Requests and replies have links of their own, of the same latency and bandwidth.
struct SmNetworkParams {
  std::uint32_t near = 37;   // cycles
  std::uint32_t far = 45;    // cycles
  double bandwidth = 18.4;   // bytes per cycle
  std::uint32_t queue = 16;  // packets

  static void describe(ParamTable<SmNetworkParams>& t);
};

}  // namespace heddle::gpc
