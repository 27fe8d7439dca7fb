// From the steps of a scenario's `program:` to a program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/kernel_record.h"
#include "program/scenario_program.h"
#include "workload/workload.h"

namespace heddle::program {

// A kernel that a program can launch: the address of its object (arch/kernel_object.h), and its own grid.
struct LaunchTarget {
  std::uint64_t address = 0;
  arch::Dim3 grid;
};
using LaunchTargets = std::map<std::string, LaunchTarget>;  // by name

struct CompiledProgram {
  std::shared_ptr<const ScenarioProgram> program;
  std::set<std::string> regions;   // of memory, that it names
  std::set<std::string> launched;  // kernels
};

// Throws InputError with file and line for whatever is wrong with the steps. Grid, block and registers of `kernel`
// must be known; 0 registers: as many as the program needs.
CompiledProgram compile_program(const YAML::Node& steps, const std::string& file, const arch::KernelRecord& kernel,
                                const std::vector<workload::MemoryRegion>& regions, const LaunchTargets& targets = {});

// Registers per thread that a kernel takes whose program needs fewer.
constexpr std::uint32_t kLeastRegisters = 16;

}  // namespace heddle::program
