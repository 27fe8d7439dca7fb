// What a scenario expects, read from the file.
#pragma once

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "scenario/scenario.h"

namespace heddle::workload {

// An entry of `expect:`. `kernels`: the names of those that the scenario describes. Throws InputError with file and
// line. Whether a statistic exists is not known here.
Expectation read_expectation(const YAML::Node& node, const std::string& file, const std::vector<MemoryRegion>& regions,
                             const std::vector<std::string>& kernels);

}  // namespace heddle::workload
