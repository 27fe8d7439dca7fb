// What a workload puts into its GPU before the run, and what is read out of it afterwards: programs and memory regions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/kernel_object.h"
#include "gpu/gpu_params.h"
#include "workload/workload.h"

namespace heddle::gpu {
class Gpu;
}

namespace heddle::replay {

// Where the memory of a workload lies: regions of translated subcontexts in frames of their own, with the page tables
// that say so (MEM-04).
struct MemoryMap {
  std::vector<std::uint64_t> regions;  // physical address of each of Workload::memory
  struct Root {
    std::uint8_t subcontext = 0;
    std::uint64_t address = 0;  // of its page tables
  };
  std::vector<Root> roots;  // of the translated subcontexts
  struct Local {
    std::uint8_t subcontext = 0;
    arch::LocalMemory memory;
  };
  std::vector<Local> locals;                                     // of the subcontexts that have local memory
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries;  // of the tables: address, value
  std::uint64_t end = 0;                                         // first byte behind all of it
};

// Local memory and frames lie above the regions of physical memory, tables above the frames. A translated subcontext
// has its local memory at kLocalWindow of its space: as much for each thread as its entry says, or else its kernels
// need. Queues, the records of device-side launches and the CGA linear memory of a subcontext keep their addresses in
// its space. Throws InputError with the place of the entry if the machine does not translate, if two regions of a page
// do not agree on who may write, if something of the machine's own lies at the address of a region, or if there is no
// room.
MemoryMap map_memory(const workload::Workload& workload, const std::string& instance, const gpu::GpuParams& params);

// The programs and demands of the workload's kernels, as codes of the GPU: by operation, arch::kNoCode for those with
// neither.
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
