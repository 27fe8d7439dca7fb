// Parameters of address translation (MEM-04).
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::memory {

// Of the TLB of a GPC.
struct GpcTlbParams {
  std::uint32_t entries = 512;
  std::uint32_t ways = 8;
  std::uint32_t latency = 4;
  std::uint32_t misses = 32;
  std::uint32_t queue = 16;

  static void describe(ParamTable<GpcTlbParams>& t);
};

// Of the TLB at the L2's side.
struct L2TlbParams {
  std::uint32_t entries = 4096;
  std::uint32_t ways = 16;
  std::uint32_t latency = 40;

  static void describe(ParamTable<L2TlbParams>& t);
};

struct MmuParams {
  bool enabled = false;
  GpcTlbParams gpc_tlb;
  L2TlbParams l2_tlb;
  std::uint32_t distance = 100;
  std::uint32_t walkers = 16;

  static void describe(ParamTable<MmuParams>& t);
};

}  // namespace heddle::memory
