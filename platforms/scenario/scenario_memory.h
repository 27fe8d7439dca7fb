// The memory of a scenario, and what it expects of memory, read from the file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "scenario/scenario.h"
#include "scenario/scenario_schema.h"

namespace heddle::scenario {

class PtxKernels;

constexpr std::uint64_t kFirstRegion = 1U << 20;  // where automatic placement begins
constexpr std::uint64_t kRegionAlignment = 1U << 12;
constexpr std::size_t kMaxRegions = 1000;  // and tensors, of all GPUs
// Exact in the doubles of expressions, and beyond every machine.
constexpr std::uint64_t kMaxRegionEnd = std::uint64_t{1} << 50;

// Pages of translated subcontexts: their regions begin at one unless the scenario says otherwise.
constexpr std::uint64_t kTranslatedPage = std::uint64_t{64} << 10;
// What no scenario can call a region: where the objects of kernels lie that programs launch.
constexpr const char* kKernelObjects = "kernel objects";

// What of a scenario takes memory. Lists may be null.
struct MemoryLists {
  YAML::Node memory;
  YAML::Node tensors;
  YAML::Node queues;
  std::size_t kernels = 0;                                     // whose objects lie in memory
  PtxKernels* ptx = nullptr;                                   // which have arguments and variables there
  std::vector<std::vector<workload::Subcontext>> subcontexts;  // by GPU: as many as the scenario has
  std::vector<arch::Instances> instances;                      // by GPU
};

// The list `memory:`, behind it the descriptors of the list `tensors:`, the queues of the list `queues:`, and on every
// GPU at the same address the kernel objects, with addresses. Queues and kernel objects have the same address in all
// address spaces. Throws InputError with file and line. Whether a GPU has so much memory is not known here.
std::vector<workload::MemoryRegion> read_memory(const MemoryLists& lists, const std::string& file);

// The region that the key `memory` names; throws InputError where there is none.
const workload::MemoryRegion& named_region(const MapReader& map, const std::vector<workload::MemoryRegion>& regions);

// The value of `type`, and the size of the file `path` that `key` names; both throw InputError where there is none.
arch::ValueType element_type(const MapReader& map);
std::uint64_t file_size(const MapReader& map, const char* key, const std::string& path);

}  // namespace heddle::scenario
