// What regions of memory hold when a run begins, and what they must hold when it ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scenario/scenario.h"
#include "workload/workload.h"

namespace heddle::scenario {

// Bytes `offset` to `offset + count` of the region when the run begins; they lie in the region, and `offset` is a
// multiple of 8. The same on every host, in whatever portions they are asked for. Throws InputError where a file has
// changed since the scenario was read.
std::vector<std::uint8_t> initial_bytes(const workload::MemoryRegion& region, std::uint64_t offset,
                                        std::uint64_t count);
std::vector<std::uint8_t> initial_bytes(const workload::MemoryRegion& region);

// Element `index` of bytes of that type; they hold it.
double element_of(arch::ValueType type, const std::vector<std::uint8_t>& bytes, std::uint64_t index);

// What is wrong with the bytes of the region, for a reader: "element 17 is 3, expected 4; 12 of 1024 differ". Empty if
// the expectation (of kind memory) holds.
std::string difference(const Expectation& expectation, const std::vector<std::uint8_t>& bytes);

// Throws InputError unless the text is an expression over i.
void check_pattern(const std::string& pattern, const SourcePos& where);

// A file that the scenario names, as it can be opened.
std::string beside_scenario(const std::string& scenario, const std::string& name);

}  // namespace heddle::scenario
