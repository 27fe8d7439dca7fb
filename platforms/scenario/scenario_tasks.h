// What of a scenario concerns tasks and sharing: queues, subcontexts, changes of how the machine is shared.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "scenario/scenario_schema.h"
#include "workload/workload.h"

namespace heddle::workload {

// All of these throw InputError with file and line.

// An entry of `queues:` as a region of memory, without its address.
MemoryRegion read_queue(const MapReader& map, const std::string& file, std::size_t gpus);

// The list `subcontexts:`, which may be null, by GPU.
std::vector<std::vector<Subcontext>> read_subcontexts(const YAML::Node& list, const std::string& file,
                                                      std::size_t gpus);

// An entry of `share:`. Whether the machine has the TPC is not known here.
ShareChange read_share(const MapReader& map);

}  // namespace heddle::workload
