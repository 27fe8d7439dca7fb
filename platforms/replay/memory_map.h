// Where the memory of a workload lies: regions of translated subcontexts in frames of their own, with the page tables
// that say so (MEM-04). Plain C++.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_params.h"
#include "workload/workload.h"

namespace heddle::replay {

struct MemoryMap {
  std::vector<std::uint64_t> regions;  // physical address of each of Workload::memory
  struct Root {
    std::uint8_t subcontext = 0;
    std::uint64_t address = 0;  // of its page tables
  };
  std::vector<Root> roots;                                       // of the translated subcontexts
  std::vector<std::pair<std::uint64_t, std::uint64_t>> entries;  // of the tables: address, value
  std::uint64_t end = 0;                                         // first byte behind all of it
};

// Frames lie above the regions of physical memory, tables above the frames. Queues, the records of device-side
// launches and the CGA linear memory of a subcontext keep their addresses in its space. Throws InputError with the
// place of the entry if the machine does not translate, if two regions of a page do not agree on who may write, if
// something of the machine's own lies at the address of a region, or if there is no room.
MemoryMap map_memory(const workload::Workload& workload, const std::string& instance, const gpu::GpuParams& params);

}  // namespace heddle::replay
