// Parameters of the HBM.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::memory {

// Which table of timings: see hbm_timing.h.
enum class HbmStandard { hbm2e, hbm3, hbm3e };

enum class HbmRefresh {
  off,
  all_bank,  // the whole pseudo-channel stands still
  per_bank,  // one bank after the other; the others go on
};

struct HbmParams {
  HbmStandard standard = HbmStandard::hbm3;
  std::uint32_t channels = 160;       // pseudo-channels
  double pin_rate = 5.234;            // Gbit/s
  std::uint64_t interleave = 1024;    // bytes
  std::uint32_t access_bytes = 64;    // 32, 64 or 128
  std::uint32_t read_queue = 64;      // lines per channel
  std::uint32_t write_queue = 64;     // lines per channel
  std::uint32_t write_high = 48;      // lines
  std::uint32_t write_low = 16;       // lines
  std::uint32_t row_hit_cap = 32;     // accesses
  std::uint32_t port_requests = 256;  // requests
  double request_latency = 40;        // ns
  double response_latency = 40;       // ns
  HbmRefresh refresh = HbmRefresh::all_bank;
  double refresh_rate = 1;  // factor

  static void describe(ParamTable<HbmParams>& t);

  // Throws InputError if values do not fit each other.
  void check() const;
};

}  // namespace heddle::memory
