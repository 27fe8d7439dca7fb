// Parameters of the L2 cache and its slices.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::memory {

struct L2Params {
  std::uint64_t bytes = 50ULL << 20;  // of all slices together
  std::uint32_t ways = 16;
  std::uint32_t slices = 80;
  std::uint32_t partitions = 2;
  std::uint32_t tag_latency = 34;     // cycles
  std::uint32_t data_latency = 68;    // cycles
  std::uint32_t memory_latency = 10;  // cycles
  std::uint32_t bandwidth = 64;       // bytes per cycle and slice
  std::uint32_t memory_bandwidth = 64;
  std::uint32_t atomic_rate = 8;  // lane operations per cycle and slice
  std::uint32_t queue = 256;      // requests per slice
  std::uint32_t responses = 16;   // per slice
  std::uint32_t mshrs = 160;      // per slice
  std::uint32_t waiters = 192;    // requests per slice
  std::uint32_t write_buffer = 16;

  // Lines that one slice holds.
  std::uint32_t lines_per_slice() const;

  static void describe(ParamTable<L2Params>& t);
};

}  // namespace heddle::memory
