// Parameters of the host interface.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::host {

struct HostParams {
  double register_latency = 100;  // ns, of a register access as the host sees it
  double aperture_latency = 500;  // ns, of a blocking access to the aperture
  std::uint32_t doorbell = 20;    // cycles from the register to the packet processor
  std::uint64_t bar0 = 0;         // address of the registers on the host's bus: addresses may be absolute or relative
  std::uint64_t bar1 = 0;         // the same of the aperture
  std::uint32_t aperture_queue = 16;  // non-blocking requests inside
  std::uint32_t event_fifo = 64;      // event ids of signals that wait in the register EVENT

  static void describe(ParamTable<HostParams>& t);
};

}  // namespace heddle::host
