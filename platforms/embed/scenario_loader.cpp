#include "embed/scenario_loader.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "common/error.h"
#include "common/yaml_util.h"
#include "gpu/gpu.h"
#include "gpu/machine_state.h"
#include "replay/device_memory.h"
#include "scenario/scenario.h"

namespace heddle::embed {
namespace {

using workload::Workload;

constexpr std::size_t kLongestName = 4096;
constexpr std::uint64_t kMostKernels = std::uint64_t{1} << 20;

// FNV-1a, of 64 bits.
std::uint64_t digest_of(const std::string& text) {
  std::uint64_t digest = 0xCBF2'9CE4'8422'2325U;
  for (const char byte : text) digest = (digest ^ static_cast<std::uint8_t>(byte)) * 0x0000'0100'0000'01B3U;
  return digest;
}

// What the loader leaves to a driver.
void check_is_plain(const scenario::Scenario& scenario) {
  const SourcePos where{scenario.file, 0, 0};
  if (scenario.workloads.size() != 1) {
    throw InputError(where, fmt::format("describes {} GPUs, and is loaded into one", scenario.workloads.size()),
                     "write a file for each");
  }
  const Workload& workload = scenario.workloads.front();
  const std::pair<bool, const char*> others[] = {
      {!workload.subcontexts.empty(), "subcontexts"},
      {!workload.shares.empty(), "share"},
      {!workload.loads.empty(), "load"},
      {!workload.tpc_switches.empty(), "tpcs"},
  };
  for (const auto& [there, key] : others) {
    if (!there) continue;
    throw InputError(where, fmt::format("a platform loads kernels and memory, and the file has `{}`", key),
                     "leave it out: the driver sets that up by registers");
  }
}

// Nothing lies at address 0: scenarios place regions from here on as well.
constexpr std::uint64_t kLowestObject = std::uint64_t{1} << 20;

std::uint64_t first_byte(const Workload& workload) {
  std::uint64_t first = ~std::uint64_t{0};
  for (const workload::MemoryRegion& region : workload.memory) first = std::min(first, region.address);
  return first;
}

std::array<std::uint32_t, 3> numbers(const arch::Dim3& extents) { return {extents.x, extents.y, extents.z}; }

}  // namespace

Contents ScenarioLoader::load(const std::string& file, const std::string& instance) {
  const std::string text = read_text_file(file);
  const scenario::Scenario scenario = scenario::parse_scenario(text, file);
  check_is_plain(scenario);
  const Workload& workload = scenario.workloads.front();
  const replay::MemoryMap map = replay::map_memory(workload, instance, gpu_.params());
  if (!map.locals.empty()) {
    throw InputError({file, 0, 0}, "a kernel has local memory, which a platform's driver sets up",
                     "leave out `local`, or give it a home by the registers SHARE_LOCAL_ADDRESS and SHARE_LOCAL_BYTES");
  }
  if (!cleared_ && end_ > 0 && first_byte(workload) < end_) {
    throw InputError({file, 0, 0},
                     fmt::format("its memory begins at byte {}, and what was loaded before ends at byte {}",
                                 first_byte(workload), end_),
                     fmt::format("say `at: {}` at its first region, or load one file that has everything", end_));
  }
  if (cleared_) begin_anew();
  replay::load_regions(workload, instance, gpu_, map);
  const std::vector<std::uint32_t> codes = replay::load_programs(workload, gpu_);

  Contents contents;
  for (std::size_t i = 0; i < workload.memory.size(); ++i) {
    contents.regions.push_back({workload.memory[i].name, map.regions[i], workload.memory[i].bytes});
  }
  std::uint64_t next = std::max({map.end, end_, kLowestObject});
  next = (next + arch::kKernelObjectBytes - 1) / arch::kKernelObjectBytes * arch::kKernelObjectBytes;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    const auto has_name = [&op](const Kernel& kernel) { return kernel.name == op.kernel.name; };
    if (op.kind != workload::OpKind::kernel ||
        std::any_of(contents.kernels.begin(), contents.kernels.end(), has_name)) {
      continue;
    }
    const arch::KernelObjectBytes bytes = arch::encode(replay::kernel_object_of(op.kernel, codes[i]));
    if (next > gpu_.params().front_end_memory() - bytes.size() ||
        !gpu_.memory().write(next, bytes.data(), bytes.size())) {
      throw InputError({file, 0, 0},
                       fmt::format("the object of kernel {} finds no room behind byte {}", op.kernel.name, next),
                       "make regions smaller, or raise gpu.memory");
    }
    contents.kernels.push_back(
        {op.kernel.name, next, numbers(op.kernel.grid), numbers(op.kernel.block), op.kernel.shared_bytes});
    next += bytes.size();
  }
  end_ = next;
  files_.push_back({file, digest_of(text)});
  kernels_.insert(kernels_.end(), contents.kernels.begin(), contents.kernels.end());
  return contents;
}

void ScenarioLoader::save(StateWriter& to) const {
  to.below(kernels_.size(), kMostKernels, "the number of kernels that were loaded");
  for (const Kernel& kernel : kernels_) {
    to.text(kernel.name, kLongestName, "the length of a kernel's name");
    to.number(kernel.object);
  }
  to.below(files_.size(), kMostKernels, "the number of files that were loaded");
  for (const File& file : files_) to.number(file.digest);
}

void ScenarioLoader::restore(StateReader& from) {
  constexpr const char* kRemedy = "load the same files, in the same order, before it is restored";
  const std::uint64_t count = from.below(kMostKernels, "the number of kernels that were loaded");
  for (std::uint64_t i = 0; i < count && i < kernels_.size(); ++i) {
    const std::string name = from.text(kLongestName, "the length of a kernel's name");
    if (name == kernels_[i].name && from.number() == kernels_[i].object) continue;
    throw InputError(
        fmt::format("the saved device had kernel {} loaded, where this one has {}", name, kernels_[i].name), kRemedy);
  }
  if (count != kernels_.size()) {
    throw InputError(fmt::format("the saved device had {} kernels loaded, and this one has {}", count, kernels_.size()),
                     kRemedy);
  }
  const std::uint64_t files = from.below(kMostKernels, "the number of files that were loaded");
  if (files != files_.size()) {
    throw InputError(fmt::format("the saved device had {} files loaded, and this one has {}", files, files_.size()),
                     kRemedy);
  }
  for (const File& file : files_) {
    if (from.number() == file.digest) continue;
    throw InputError(fmt::format("{} is another file than the saved device had loaded", file.name), kRemedy);
  }
}

void ScenarioLoader::begin_anew() {
  gpu_.state().forget_codes();
  kernels_.clear();
  files_.clear();
  end_ = 0;
  cleared_ = false;
}

}  // namespace heddle::embed
