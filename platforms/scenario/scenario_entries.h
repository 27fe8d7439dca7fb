// Entries of a scenario's lists: kernels, what SMs hold, TPCs that are switched, queues, subcontexts and how they share
// the machine, tensors, expectations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/tensor_descriptor.h"
#include "program/program_compiler.h"
#include "scenario/scenario.h"
#include "scenario/scenario_schema.h"
#include "workload/workload.h"

namespace heddle::scenario {

// Bounds that no real scenario meets. They keep times within 64-bit picoseconds, and thread counts within 64 bits.
constexpr std::uint64_t kMaxScenarioCycles = 1'000'000'000'000'000;
constexpr workload::Nanoseconds kMaxScenarioTime = 1'000'000'000'000'000;
constexpr std::uint64_t kMaxScenarioBytes = std::uint64_t{1} << 50;

// "kernel gemm" from {name: gemm}, or "kernel" while the name is not readable.
std::string entry_name(const char* what, const YAML::Node& node, const char* key);

// All of these throw InputError with file and line. Whether the machine can hold a CGA, and has the SMs, GPCs and TPCs,
// is not known here.
// What a program can name, and what it does name.
struct ProgramScope {
  const std::vector<workload::MemoryRegion>& regions;
  const program::LaunchTargets& targets;
  std::set<std::string> used;      // of the regions
  std::set<std::string> launched;  // of the kernels
};
arch::KernelRecord read_kernel(const MapReader& map, const std::string& file, ProgramScope& scope);
// The key `grid` of a kernel.
arch::Dim3 read_grid(const MapReader& map);
// Without its kernel, which only the list of kernels knows.
workload::SmLoad read_load(const MapReader& map);
workload::TpcSwitch read_tpc_switch(const MapReader& map);

// An entry of `queues:` as a region of memory, without its address.
workload::MemoryRegion read_queue(const MapReader& map, const std::string& file, std::size_t gpus);

// The list `subcontexts:`, which may be null, by GPU.
std::vector<std::vector<workload::Subcontext>> read_subcontexts(const YAML::Node& list, const std::string& file,
                                                                std::size_t gpus);

// An entry of `share:`. Whether the machine has the TPC is not known here.
workload::ShareChange read_share(const MapReader& map);

// The tensors of a scenario are regions of memory that hold a descriptor each (TMA-05). A multiple of what one needs:
// it never lies in two lines.
constexpr std::uint64_t kTensorAlignment = arch::kDescriptorBytes;

// Both throw InputError with file and line. Tensors lie in the first `count` of the regions.
// The region of an entry of `tensors:`, without its address and without its contents.
workload::MemoryRegion tensor_region(const MapReader& map, const std::vector<workload::MemoryRegion>& regions,
                                     std::size_t count);
// What it holds, once the regions have their addresses. It breaks no rule, unless the entry says so.
arch::TensorDescriptor read_tensor(const MapReader& map, const std::string& file,
                                   const std::vector<workload::MemoryRegion>& regions, std::size_t count);

// An entry of `expect:`. `kernels`: the names of those that the scenario describes. Throws InputError with file and
// line. Whether a statistic exists is not known here.
Expectation read_expectation(const YAML::Node& node, const std::string& file,
                             const std::vector<workload::MemoryRegion>& regions,
                             const std::vector<std::string>& kernels);

}  // namespace heddle::scenario
