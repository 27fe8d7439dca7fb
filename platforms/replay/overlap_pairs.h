// Which kernels ran at the same time: recorded beside modelled, pair by pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/host_driver.h"
#include "workload/workload.h"

namespace heddle::replay {

// Pairs of kernels of different streams. Two kernels overlap if they run at the same time for longer than the
// recorder's resolution (and than the 2 ns by which recorders round); less than that a recording cannot tell.
struct OverlapPairs {
  std::size_t recorded = 0;
  std::size_t modelled = 0;
  std::size_t both = 0;    // overlap in the recording, and at all in the model
  double recorded_ns = 0;  // sum over the recorded pairs of the time that they share
  double both_ns = 0;      // of it, what the model's pairs share at the least: per pair the smaller of the two
};

// Kernels with a recording. Takes time and memory of the kernels plus the pairs.
OverlapPairs overlap_pairs(const workload::Workload& workload, const std::vector<OpResult>& results);

}  // namespace heddle::replay
