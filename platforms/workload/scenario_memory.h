// The memory of a scenario, and what it expects of memory, read from the file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "workload/scenario.h"
#include "workload/schema.h"

namespace heddle::workload {

constexpr std::uint64_t kFirstRegion = 1U << 20;  // where automatic placement begins
constexpr std::uint64_t kRegionAlignment = 1U << 12;
// Exact in the doubles of expressions, and beyond every machine.
constexpr std::uint64_t kMaxRegionEnd = std::uint64_t{1} << 50;

// The list `memory:`, and behind it the descriptors of the list `tensors:`, with addresses. Either may be null. `gpus`:
// how many the scenario has. Throws InputError with file and line. Whether a GPU has so much memory is not known here.
std::vector<MemoryRegion> read_memory(const YAML::Node& list, const YAML::Node& tensors, const std::string& file,
                                      std::size_t gpus);

// The value of `type`, and the size of the file `path` that `key` names; both throw InputError where there is none.
arch::ValueType element_type(const MapReader& map);
std::uint64_t file_size(const MapReader& map, const char* key, const std::string& path);

}  // namespace heddle::workload
