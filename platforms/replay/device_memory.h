// What a workload puts into its GPU before the run, and what is read out of it afterwards: programs and memory regions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/kernel_object.h"
#include "gpu/gpu.h"
#include "replay/memory_map.h"
#include "workload/workload.h"

namespace heddle::replay {

// The programs of the workload's kernels, as codes of the GPU: by operation, arch::kNoCode for those without one.
std::vector<std::uint32_t> load_programs(const workload::Workload& workload, gpu::Gpu& gpu);

// The object of a kernel whose program has the number `code`. Throws InputError where a record has no room for it.
arch::KernelObject kernel_object_of(const arch::KernelRecord& kernel, std::uint32_t code);

// Fills the regions, writes page tables and the objects of kernels that programs launch, whose programs become codes of
// the GPU. Throws InputError with the place of the region if it does not lie in the GPU's memory, lies where the
// linear memories of its CGAs or the records of device-side launches do, or its file cannot be read.
void load_regions(const workload::Workload& workload, const std::string& instance, gpu::Gpu& gpu, const MemoryMap& map);

// The bytes of the regions now, by region; empty for those that `wanted` leaves out.
std::vector<std::vector<std::uint8_t>> read_regions(const workload::Workload& workload, gpu::Gpu& gpu,
                                                    const MemoryMap& map, const std::vector<std::string>& wanted);

}  // namespace heddle::replay
