// What a workload puts into its GPU before the run, and what is read out of it afterwards: programs and memory regions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/gpu.h"
#include "workload/workload.h"

namespace heddle::replay {

// The programs of the workload's kernels, as codes of the GPU: by operation, arch::kNoCode for those without one.
std::vector<std::uint32_t> load_programs(const workload::Workload& workload, gpu::Gpu& gpu);

// Fills the regions. Throws InputError with the place of the region if it does not lie in the GPU's memory, lies where
// the linear memories of its CGAs do, or its file cannot be read.
void load_regions(const workload::Workload& workload, const std::string& instance, gpu::Gpu& gpu);

// The bytes of the regions now, by region; empty for those that `wanted` leaves out.
std::vector<std::vector<std::uint8_t>> read_regions(const workload::Workload& workload, gpu::Gpu& gpu,
                                                    const std::vector<std::string>& wanted);

}  // namespace heddle::replay
