// The kernels of a scenario: what their programs name and launch.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "program/scenario_program.h"
#include "scenario/scenario_schema.h"
#include "workload/workload.h"

namespace heddle::scenario {

// True if a program of the list launches kernels: their objects need room in memory.
bool programs_launch(const YAML::Node& kernels);

class PtxKernels;

class KernelTable {
 public:
  struct Sources {
    std::uint64_t objects = 0;        // where the objects of kernels lie that programs launch, in the order of the list
    const PtxKernels* ptx = nullptr;  // may be none if no kernel is of a PTX module
  };
  // All of these throw InputError with file and line. `list` may be null.
  void read(const YAML::Node& list, const std::string& file, const std::vector<workload::MemoryRegion>& regions,
            const Sources& sources);

  // The one that the key `kernel` names; it is in use from now on.
  const arch::KernelRecord& find(const MapReader& map);
  // That the GPU is where everything lies that the kernel uses, and what it launches: an address means something else
  // on another GPU.
  void check_regions(const MapReader& map, const std::string& kernel, std::size_t gpu) const;

  // That its subcontext is listed, if any is, and that what it uses is in the address space of that.
  void check_spaces(const MapReader& map, const std::string& kernel, const workload::Workload& workload) const;

  // What kernels of the workload launch, directly or not.
  std::vector<workload::LaunchedKernel> launched_by(const workload::Workload& workload) const;
  // Enters at queues which subcontexts use them.
  void note_queue_users(workload::Workload& workload) const;
  std::vector<std::string> names() const;
  // Sentences about kernels that nobody submits or launches.
  std::vector<std::string> unused(const std::string& file) const;

 private:
  struct Entry {
    arch::KernelRecord record;
    std::set<std::string> launches;                         // directly
    std::set<std::pair<std::size_t, std::string>> regions;  // GPU, name: of its own program
    bool used = false;
  };
  // With what they launch, directly or not.
  std::set<std::string> closure(const std::set<std::string>& names) const;

  std::map<std::string, Entry> kernels_;
  program::LaunchTargets targets_;
};

}  // namespace heddle::scenario
