// Which part of the machine was free for a recorded kernel, where others ran beside it.
#pragma once

#include <vector>

#include "gpu/gpu_params.h"
#include "workload/workload.h"

namespace heddle::replay {

constexpr double kLeastFree = 0.05;  // that a kernel which has run is taken to have had

// By operation: the part of its own places on the machine that a kernel could have, on average over its recorded time,
// from kLeastFree to 1. A kernel that started before it keeps what it has: all its CTAs, up to what the machine holds
// of them, for as long as both ran. 1: it had the machine to itself, or is no kernel with a recording.
std::vector<double> free_parts(const workload::Workload& workload, const gpu::GpuParams& machine);

// By operation with a recording: what others use of something, on average over its recorded time, where each uses
// `use` of it for as long as it was recorded to run. 0: it is alone, or its recording has no length.
std::vector<double> used_beside(const workload::Workload& workload, const std::vector<double>& use);

}  // namespace heddle::replay
