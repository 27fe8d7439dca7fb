// What an SM is told of the machine around it: where it is, how its tensor memory access unit is reached, and where
// memory lies.
#pragma once

#include <cstdint>

#include "arch/address_map.h"
#include "arch/task_record.h"

namespace heddle::sm {

struct SmContext {
  std::uint32_t id = 0;      // of the SM in the machine
  std::uint32_t sms = 1;     // SMs of the machine
  std::uint32_t gpc = 0;     // its GPC in the machine
  std::uint32_t in_gpc = 0;  // its bit in the GPC's masks
  std::uint32_t tpcs = 1;    // TPCs of the GPC
  // The link to its tensor memory access unit.
  std::uint32_t bulk_queue = 16;  // requests that wait there
  std::uint32_t bulk_way = 16;    // cycles
  // Two receivers of a multicast on this SM: both get the data; otherwise it is an error (TMA-30).
  bool share_receivers = false;
};

inline const arch::LaunchMemory kNoLaunchMemory{};

// What of memory an SM has to know: where its slices are, and where device-side launches keep what they need.
struct MemoryView {
  const arch::AddressMap& map;
  const arch::LaunchMemory& nested = kNoLaunchMemory;
};

}  // namespace heddle::sm
