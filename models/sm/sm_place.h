// Where an SM is in its machine.
#pragma once

#include <cstdint>

namespace heddle::sm {

struct SmPlace {
  std::uint32_t id = 0;      // of the machine
  std::uint32_t sms = 1;     // of the machine
  std::uint32_t gpc = 0;     // of the machine
  std::uint32_t in_gpc = 0;  // bit of the GPC's masks
  std::uint32_t tpcs = 1;    // of the GPC
  // To its tensor memory access unit.
  std::uint32_t bulk_queue = 16;  // requests that wait there
  std::uint32_t bulk_way = 16;    // cycles
  // Two receivers of a multicast on this SM: both get the data; otherwise it is an error (TMA-30).
  bool share_receivers = false;
};

}  // namespace heddle::sm
