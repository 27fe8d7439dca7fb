// Kernels of a scenario that are entries of PTX modules: their arguments, their modules' variables, their programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/task_record.h"
#include "ptx/module.h"
#include "ptx/module_image.h"
#include "scenario/scenario_schema.h"
#include "workload/workload.h"

namespace heddle::scenario {

class PtxKernels {
 public:
  // Reads the modules that the list of kernels names; it may be null. Throws InputError, here and below, with file and
  // line of what is wrong, in the scenario or in the module.
  PtxKernels(const YAML::Node& kernels, const std::string& file);

  // What they need of memory beside what the scenario describes: without addresses and contents. `regions`: those of
  // the scenario, whose GPU and address space count. Kernels of one module share its variables there.
  std::vector<workload::MemoryRegion> regions(const std::vector<workload::MemoryRegion>& given);
  // These have their addresses: gives those of ours their contents.
  void fill(std::vector<workload::MemoryRegion>& regions);
  // The kernel that the map describes, whose grid and block are known: its program, and what it takes of an SM. Names
  // of regions that it uses go into `used`.
  void compile(const MapReader& map, arch::KernelRecord& kernel, std::set<std::string>& used) const;

 private:
  struct Argument {
    std::string region;       // its address; empty: a number
    std::uint64_t bits = 0;   //
    bool descriptor = false;  // of a tensor: by value
  };
  struct Kernel {
    std::shared_ptr<const ptx::Module> module;
    std::string path;
    const ptx::Function* entry = nullptr;
    std::vector<ptx::EntryParameter> parameters;
    std::vector<Argument> arguments;
    std::size_t gpu = 0;
    SourcePos where;
    std::string arguments_region;  // empty: it has none
    std::string image_region;
    std::string workspace_region;
    std::uint64_t arguments_at = 0;
    std::uint64_t workspace_at = 0;
    std::uint64_t image_at = 0;
  };
  void read(const MapReader& map, const std::string& file);
  std::vector<Argument> read_arguments(const MapReader& map, const Kernel& kernel) const;

  std::map<std::string, std::shared_ptr<const ptx::Module>> modules_;  // by path
  std::map<std::string, Kernel> kernels_;                              // by name
};

}  // namespace heddle::scenario
