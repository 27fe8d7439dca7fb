// Parameters of the host of a run that submits by packets.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::replay {

struct PacketHostParams {
  double enqueue = 250;                           // ns, writing a packet into its ring
  double doorbell = 50;                           // ns, ringing it
  double poll = 1000;                             // ns between looks at the read index of a full ring
  std::uint32_t ring = 1024;                      // packets: a power of two
  std::uint64_t memory = std::uint64_t{1} << 30;  // bytes, of all GPUs together
  double memory_latency = 90;                     // ns, of an access from a GPU

  static void describe(ParamTable<PacketHostParams>& t);
  // Throws InputError where a value is within its range and still makes no sense.
  void check() const;
};

}  // namespace heddle::replay
