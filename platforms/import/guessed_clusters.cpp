#include <cstdint>
#include <regex>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "arch/cluster.h"
#include "import/recordings.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr std::uint32_t kMostCtas = 16;

const std::regex& pattern(std::size_t which) {
  static const std::regex kPatterns[] = {
      std::regex(R"(cutlass3x_sm\d+_\w*_\d+x\d+x\d+_(\d+)x(\d+)x(\d+)_)"),
      std::regex(
          R"(MainloopSm\d+\w*<(?:\(int\))?\d+, ?cute::tuple<cute::C<(?:\(int\))?(\d+)>, ?cute::C<(?:\(int\))?(\d+)>, ?cute::C<(?:\(int\))?(\d+)> ?>)"),
      std::regex(R"((?:cga|cluster)_?(?:size|shape)?_?(\d+)x(\d+)x(\d+))"),
      std::regex(R"(nvjet_\w*_\d+x\d+_\d+x\d+_(\d+)x(\d+)_)")};
  return kPatterns[which];
}
constexpr std::size_t kTemplates = 1;
constexpr std::size_t kNvjet = 3;
constexpr std::size_t kPatternCount = 4;
// A word that a name has if the pattern can match: most names have none, and matching costs.
constexpr std::string_view kWords[kPatternCount] = {"cutlass3x_sm", "MainloopSm", "", "nvjet_"};

bool may_match(std::string_view name, std::size_t which) {
  const auto has = [name](std::string_view word) { return name.find(word) != std::string_view::npos; };
  return which == 2 ? has("cga") || has("cluster") : has(kWords[which]);
}

}  // namespace

std::optional<arch::Dim3> cluster_in_name(std::string_view name) {
  // std::regex recurses for each character: names of templates are cut before it, at what is looked for.
  constexpr std::size_t kLongest = 400;
  for (std::size_t which = 0; which < kPatternCount; ++which) {
    if (!may_match(name, which)) continue;
    std::string_view text = name;
    if (which == kTemplates) text.remove_prefix(name.find(kWords[which]));
    const std::string searched(text.substr(0, kLongest));
    std::smatch found;
    if (!std::regex_search(searched, found, pattern(which))) continue;
    const auto extent = [&found](std::size_t i) {
      return static_cast<std::uint32_t>(found[i].length() > 3 ? kMostCtas + 1 : std::stoul(found[i]));
    };
    const arch::Dim3 cluster =
        which == kNvjet ? arch::Dim3{extent(1) * extent(2), 1, 1} : arch::Dim3{extent(1), extent(2), extent(3)};
    return cluster.count() > 1 ? std::optional(cluster) : std::nullopt;
  }
  return std::nullopt;
}

void guess_clusters(Workload& workload) {
  if (workload.format == "nsys" || workload.device.warp_size == 64) return;
  std::unordered_map<std::string, std::optional<arch::Dim3>> known;  // by name; looked up only
  std::size_t guessed = 0;
  for (Op& op : workload.ops) {
    if (op.kind != OpKind::kernel || op.kernel.cluster.any() || op.grid_assumed) continue;
    const auto [at, added] = known.try_emplace(op.kernel.name);
    if (added) at->second = cluster_in_name(op.kernel.name);
    if (!at->second || at->second->count() > kMostCtas) continue;
    arch::ClusterShape cluster;
    cluster.of(arch::CgaLevel::gpc) = *at->second;
    cluster.mode = arch::CgaMode::multicast;
    if (!arch::why_malformed(op.kernel.grid, cluster, kMostCtas).empty()) continue;
    op.kernel.cluster = cluster;
    op.cluster_guessed = true;
    ++guessed;
  }
  if (guessed == 0) return;
  workload.warnings.push_back(fmt::format(
      "{} of {} kernels have clusters that are guessed from their names, as the recording does not tell any; "
      "--guess none leaves them out.",
      guessed, workload.kernels()));
}

}  // namespace heddle::import
