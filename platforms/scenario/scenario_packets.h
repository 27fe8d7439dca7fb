// What of a scenario concerns submission by packets: how, and the arguments of kernels.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "scenario/scenario_schema.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::scenario {

// The map {by: aql, operations: [...], ...} behind `submit`; `operations` gets its list. Throws InputError.
workload::PacketOptions read_submission(const YAML::Node& node, const std::string& file, YAML::Node& operations);

// The list `args` of a kernel operation: 64-bit words, expressions over the addresses of memory regions. `used`: gets
// the names of those that it names. Throws InputError.
std::vector<std::uint64_t> read_args(const MapReader& map, const std::string& file,
                                     const std::vector<workload::MemoryRegion>& regions, std::set<std::string>& used);

// The key `direction` of a copy.
workload::CopyDirection read_direction(const MapReader& map);
const char* direction_name(workload::CopyDirection direction);

}  // namespace heddle::scenario
