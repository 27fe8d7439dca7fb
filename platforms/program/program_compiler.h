// From the steps of a scenario's `program:` to a program.
#pragma once

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/kernel_record.h"
#include "program/program_builder.h"
#include "workload/workload.h"

namespace heddle::workload {

// Throws InputError with file and line for whatever is wrong with the steps. Grid, block and registers of `kernel`
// must be known; 0 registers: as many as the program needs.
CompiledProgram compile_program(const YAML::Node& steps, const std::string& file, const arch::KernelRecord& kernel,
                                const std::vector<MemoryRegion>& regions, const LaunchTargets& targets = {});

// Registers per thread that a kernel takes whose program needs fewer.
constexpr std::uint32_t kLeastRegisters = 16;

}  // namespace heddle::workload
