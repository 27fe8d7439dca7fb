// Lists of kernels for the tests of the planner.
#pragma once

#include <vector>

#include "driver/plan_support.h"

namespace heddle::test {

// Kernel `which` of a program: the same every time.
inline heddle_dispatch kernel_number(std::uint64_t which) {
  Random random(which + 1000);
  heddle_dispatch d{};
  d.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_AGENT);
  d.setup = 1;
  d.workgroup[0] = static_cast<std::uint16_t>(32 * random.between(1, 8));
  d.workgroup[1] = d.workgroup[2] = 1;
  d.grid[0] = d.workgroup[0] * random.between(1, 500);
  d.grid[1] = d.grid[2] = 1;
  d.group_segment = 256 * random.below(4);
  d.kernel_object = 0x10'0000 + 128 * which;
  d.kernarg = 0x20'0000 + 0x100 * which;
  return d;
}

// Anything: fences, barrier bits, signals and flags at random, fields that change now and then.
struct Wildness {
  std::uint32_t kinds = 6;
  std::uint32_t changes = 20;   // per cent of kernels with a field that is not the usual one
  std::uint32_t signals = 10;   // per cent with a signal
  std::uint32_t scopes = 20;    // per cent with scopes at random
  std::uint32_t unordered = 0;  // per cent without the barrier bit
  std::uint32_t keeps = 10;     // per cent with flags
  bool periodic = false;
};

inline Kernels random_list(Random& random, std::uint32_t count, const Wildness& wild) {
  Kernels kernels;
  for (std::uint32_t i = 0; i < count; ++i) {
    heddle_kernel kernel{};
    heddle_dispatch& d = kernel.dispatch;
    d = kernel_number(wild.periodic ? i % wild.kinds : random.below(wild.kinds));
    while (random.chance(wild.changes)) {
      switch (random.below(6)) {
        case 0:
          d.kernarg = 0x30'0000 + 16 * random.below(1000);
          break;
        case 1:
          d.grid[random.below(2)] = random.between(1, 1 << 20);
          break;
        case 2:
          d.workgroup[0] = static_cast<std::uint16_t>(random.between(1, 1024));
          break;
        case 3:
          d.setup = static_cast<std::uint16_t>(random.between(1, 3));
          break;
        case 4:
          d.private_segment = random.below(1000);
          break;
        default:
          d.kernel_object = 0x10'0000 + 128 * std::uint64_t{random.below(100)};
      }
    }
    if (random.chance(wild.scopes)) d.scopes = random_scopes(random) | 1;
    if (random.chance(wild.unordered)) d.scopes &= 0xFE;
    if (random.chance(wild.signals)) d.completion_signal = 0x4000 + 32 * random.below(3);
    if (random.chance(wild.keeps)) kernel.keep = random.below(4);
    kernels.push_back(kernel);
  }
  return kernels;
}

// LTimes, Scattering, Source, LPlusTimes, Sweep, Population; a signal at the end of each iteration.
inline Kernels task_graph(std::uint32_t iterations, bool own_signals) {
  Kernels kernels;
  for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
    for (std::uint32_t kernel = 0; kernel < 6; ++kernel) {
      kernels.push_back({kernel_number(kernel), HEDDLE_KEEP_NOTHING, nullptr});
    }
    heddle_dispatch& last = kernels.back().dispatch;
    last.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM);
    last.completion_signal = 0x4000 + (own_signals ? 32 * iteration : 0);
  }
  return kernels;
}

}  // namespace heddle::test
