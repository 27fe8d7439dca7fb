#include "scenario/scenario_kernels.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "common/suggest.h"
#include "scenario/scenario_entries.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

bool has_key(const YAML::Node& node, const char* key) {
  if (node.IsSequence()) {
    return std::any_of(node.begin(), node.end(), [&](const YAML::Node& item) { return has_key(item, key); });
  }
  if (!node.IsMap()) return false;
  return std::any_of(node.begin(), node.end(), [&](const auto& entry) {
    return (entry.first.IsScalar() && entry.first.Scalar() == key) || has_key(entry.second, key);
  });
}

}  // namespace

bool programs_launch(const YAML::Node& kernels) {
  if (!kernels.IsSequence()) return false;
  return std::any_of(kernels.begin(), kernels.end(), [](const YAML::Node& kernel) {
    return kernel.IsMap() && kernel["program"].IsDefined() && has_key(kernel["program"], "launch");
  });
}

void KernelTable::read(const YAML::Node& list, const std::string& file, const std::vector<MemoryRegion>& regions,
                       std::uint64_t objects) {
  // A program may launch a kernel that stands behind it.
  for (const auto& node : list) {
    const MapReader map(node, kernel_spec(), entry_name("kernel", node, "name"), file);
    const std::string name = map.name("name");
    const std::uint64_t address = objects + targets_.size() * arch::kKernelObjectBytes;
    if (!targets_.emplace(name, LaunchTarget{address, read_grid(map)}).second) {
      map.fail("name", fmt::format("there are two kernels {}", name));
    }
  }
  for (const auto& node : list) {
    const MapReader map(node, kernel_spec(), entry_name("kernel", node, "name"), file);
    ProgramScope scope{regions, targets_, {}, {}};
    Entry entry;
    entry.record = read_kernel(map, file, scope);
    entry.launches = std::move(scope.launched);
    for (const MemoryRegion& region : regions) {
      if (scope.used.count(region.name) != 0) entry.regions.emplace(region.gpu, region.name);
    }
    const std::string name = entry.record.name;
    kernels_.emplace(name, std::move(entry));
  }
}

const arch::KernelRecord& KernelTable::find(const MapReader& map) {
  const std::string name = map.name("kernel");
  const auto kernel = kernels_.find(name);
  if (kernel == kernels_.end()) {
    const std::vector<std::string> known = names();
    throw InputError(map.where("kernel"), fmt::format("{}: there is no kernel {}", map.thing(), name),
                     known.empty() ? "describe it in the list `kernels`" : suggestion(name, known));
  }
  kernel->second.used = true;
  return kernel->second.record;
}

std::set<std::string> KernelTable::closure(const std::set<std::string>& names) const {
  std::set<std::string> all = names;
  std::vector<std::string> open(names.begin(), names.end());
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    for (const std::string& child : kernels_.at(name).launches) {
      if (all.insert(child).second) open.push_back(child);
    }
  }
  return all;
}

void KernelTable::check_regions(const MapReader& map, const std::string& kernel, std::size_t gpu) const {
  for (const std::string& name : closure({kernel})) {
    for (const auto& [owner, region] : kernels_.at(name).regions) {
      if (owner == gpu) continue;
      const std::string whose =
          name == kernel ? std::string("its program") : fmt::format("the program of {}, which it launches,", name);
      throw InputError(
          map.where("kernel"),
          fmt::format("{}: it runs on gpu{}, and {} uses memory {} of gpu{}", map.thing(), gpu, whose, region, owner),
          "describe a kernel for each GPU, with memory of that GPU");
    }
  }
}

std::vector<LaunchedKernel> KernelTable::launched_by(const Workload& workload) const {
  std::set<std::string> first;
  std::set<std::string> seen;
  for (const Op& op : workload.ops) {
    if (op.kind != OpKind::kernel || !seen.insert(op.kernel.name).second) continue;
    const std::set<std::string>& launches = kernels_.at(op.kernel.name).launches;
    first.insert(launches.begin(), launches.end());
  }
  std::vector<LaunchedKernel> result;
  for (const std::string& name : closure(first)) {
    result.push_back({kernels_.at(name).record, targets_.at(name).address});
  }
  return result;
}

void KernelTable::note_queue_users(Workload& workload) const {
  std::set<std::pair<std::string, std::uint8_t>> seen;
  for (const Op& op : workload.ops) {
    if (op.kind != OpKind::kernel) continue;
    const std::uint8_t subcontext = op.kernel.subcontext;
    for (MemoryRegion& region : workload.memory) {
      if (op.queue && region.address == op.queue->address) region.users.insert(subcontext);
    }
    if (!seen.emplace(op.kernel.name, subcontext).second) continue;
    for (const std::string& name : closure({op.kernel.name})) {
      const auto& used = kernels_.at(name).regions;
      for (MemoryRegion& region : workload.memory) {
        const bool queue = region.contents.kind == RegionContents::Kind::queue;
        if (queue && used.count({region.gpu, region.name}) != 0) region.users.insert(subcontext);
      }
    }
  }
}

std::vector<std::string> KernelTable::names() const {
  std::vector<std::string> names;
  for (const auto& entry : kernels_) names.push_back(entry.first);
  return names;
}

std::vector<std::string> KernelTable::unused(const std::string& file) const {
  std::set<std::string> used;
  for (const auto& [name, entry] : kernels_) {
    if (entry.used) used.insert(name);
  }
  used = closure(used);
  std::vector<std::string> sentences;
  for (const auto& entry : kernels_) {
    if (used.count(entry.first) == 0) {
      sentences.push_back(fmt::format("{}: kernel {} is never submitted", file, entry.first));
    }
  }
  return sentences;
}

}  // namespace heddle::scenario
