// Entries of a scenario's lists that stand for themselves: kernels, what SMs hold, TPCs that are switched.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "program/program_compiler.h"
#include "scenario/scenario_schema.h"
#include "workload/workload.h"

namespace heddle::workload {

// Bounds that no real scenario meets. They keep times within 64-bit picoseconds, and thread counts within 64 bits.
constexpr std::uint64_t kMaxScenarioCycles = 1'000'000'000'000'000;
constexpr Nanoseconds kMaxScenarioTime = 1'000'000'000'000'000;
constexpr std::uint64_t kMaxScenarioBytes = std::uint64_t{1} << 50;

// "kernel gemm" from {name: gemm}, or "kernel" while the name is not readable.
std::string entry_name(const char* what, const YAML::Node& node, const char* key);

// All of these throw InputError with file and line. Whether the machine can hold a CGA, and has the SMs, GPCs and TPCs,
// is not known here.
// What a program can name, and what it does name.
struct ProgramScope {
  const std::vector<MemoryRegion>& regions;
  const LaunchTargets& targets;
  std::set<std::string> used;      // of the regions
  std::set<std::string> launched;  // of the kernels
};
arch::KernelRecord read_kernel(const MapReader& map, const std::string& file, ProgramScope& scope);
// The key `grid` of a kernel.
arch::Dim3 read_grid(const MapReader& map);
// Without its kernel, which only the list of kernels knows.
SmLoad read_load(const MapReader& map);
TpcSwitch read_tpc_switch(const MapReader& map);

}  // namespace heddle::workload
