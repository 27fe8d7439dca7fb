// Parameters of the boundary: the host interface and the memory hub.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::host {

struct HostParams {
  double register_latency = 100;       // ns, of a register access as the host sees it
  double aperture_latency = 500;       // ns, of a blocking access to the aperture
  std::uint32_t doorbell = 20;         // cycles from the register to the packet processor
  std::uint32_t doorbell_page = 4096;  // bytes of a page of doorbells: what an operating system maps as one
  std::uint64_t bar0 = 0;  // address of the registers on the host's bus: addresses may be absolute or relative
  std::uint64_t bar1 = 0;  // the same of the aperture
  std::uint32_t aperture_queue = 16;  // non-blocking requests inside
  std::uint32_t event_fifo = 64;      // event ids of signals that wait in the register EVENT

  static void describe(ParamTable<HostParams>& t);
};

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
