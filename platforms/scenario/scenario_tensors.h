// The tensors of a scenario: regions of memory that hold a descriptor each (TMA-05).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arch/tensor_descriptor.h"
#include "scenario/scenario_schema.h"
#include "workload/workload.h"

namespace heddle::workload {

// A multiple of what a descriptor needs: it never lies in two lines.
constexpr std::uint64_t kTensorAlignment = arch::kDescriptorBytes;

// Both throw InputError with file and line. Tensors lie in the first `count` of the regions.
// The region of an entry of `tensors:`, without its address and without its contents.
MemoryRegion tensor_region(const MapReader& map, const std::vector<MemoryRegion>& regions, std::size_t count);
// What it holds, once the regions have their addresses. It breaks no rule, unless the entry says so.
arch::TensorDescriptor read_tensor(const MapReader& map, const std::string& file,
                                   const std::vector<MemoryRegion>& regions, std::size_t count);

}  // namespace heddle::workload
