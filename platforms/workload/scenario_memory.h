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

// The list `memory:`, with addresses. `gpus`: how many the scenario has. Throws InputError with file and line. Whether
// a GPU has so much memory is not known here.
std::vector<MemoryRegion> read_memory(const YAML::Node& list, const std::string& file, std::size_t gpus);

// An entry {memory: …} of `expect:`.
Expectation read_memory_expectation(const MapReader& map, const std::string& file,
                                    const std::vector<MemoryRegion>& regions);

// "2 %" or a number, into within and within_percent.
void read_within(const MapReader& map, Expectation& expectation);

}  // namespace heddle::workload
