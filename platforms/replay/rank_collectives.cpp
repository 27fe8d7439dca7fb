#include "replay/rank_collectives.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "scenario/collectives.h"
#include "scenario/scenario.h"

namespace heddle::replay {

using workload::Communication;
using workload::Op;
using workload::Workload;

namespace {

constexpr std::uint64_t kVector = 16;  // bytes of which every rank has a multiple
constexpr std::uint32_t kWarp = 32;    // threads, of programs
constexpr std::uint64_t kMostCtas = 1024;
constexpr std::uint64_t kMostThreads = 1024;
constexpr const char* kDiffer = "the ranks differ in what they do";

// Kernels of each process group, in their order.
using RankGroups = std::map<std::string, std::vector<std::size_t>>;

RankGroups rank_groups(const Workload& workload) {
  RankGroups groups;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const std::optional<Communication>& its = workload.ops[i].communication;
    if (its) groups[its->group].push_back(i);
  }
  return groups;
}

// Why kernels of a place within a group cannot run over links; empty: they can.
std::string why_not(const std::vector<const Communication*>& ranks) {
  const Communication& first = *ranks.front();
  const auto agrees = [&first](const Communication* other) {
    return other->kind == first.kind && other->bytes == first.bytes;
  };
  if (!std::all_of(ranks.begin(), ranks.end(), agrees)) return kDiffer;
  if (!first.kind) return "no all-reduce, all-gather, reduce-scatter or broadcast, or not recorded which";
  return first.bytes == 0 ? "size not recorded" : "";
}

// Of those that two ranks have in different orders, each would wait for another that has not begun, without end. What
// is left has one order on all GPUs; as nothing waits for what comes later in its own recording, that can be kept.
void drop_disordered(RankCollectives& collectives, std::size_t gpus) {
  std::vector<std::size_t> next(gpus, 0);  // the first operation behind the last that is left
  std::vector<RankCollective> left;
  for (RankCollective& its : collectives.matched) {
    bool ordered = true;
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) ordered = ordered && its.ops[gpu] >= next[gpu];
    if (!ordered) {
      collectives.kept["the ranks have it in different orders"] += gpus;
      continue;
    }
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) next[gpu] = its.ops[gpu] + 1;
    left.push_back(std::move(its));
  }
  collectives.matched = std::move(left);
}

std::string list_of(const char* name, std::size_t ranks) {
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) all.push_back(fmt::format("{}{}", name, rank));
  return fmt::format("{}", fmt::join(all, ", "));
}

std::uint64_t rounded_up(std::uint64_t bytes, std::size_t ranks) {
  const std::uint64_t part = kVector * ranks;
  return (bytes + part - 1) / part * part;
}

// A scenario of nothing but the collectives: a stream and a buffer on each GPU, as one communicator uses them.
std::string scenario_text(const RankCollectives& collectives, const Workload& first, std::size_t ranks) {
  std::uint64_t most = 0;
  std::string submit;
  for (const RankCollective& its : collectives.matched) {
    const std::uint64_t bytes = rounded_up(its.bytes, ranks);
    most = std::max(most, bytes);
    const arch::KernelRecord& kernel = first.ops[its.ops.front()].kernel;
    const std::uint64_t threads = (kernel.block.count() + kWarp - 1) / kWarp * kWarp;
    submit += fmt::format("  - {{{}: {}, streams: [{}], buffers: [{}], ctas: {}, threads: {}}}\n",
                          scenario::collective_name(its.kind), bytes, list_of("s", ranks), list_of("x", ranks),
                          std::min(kernel.grid.count(), kMostCtas), std::min(threads, kMostThreads));
  }
  std::string memory;
  std::string streams;
  std::string gpus;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    memory += fmt::format("  - {{name: x{0}, bytes: {1}, gpu: {0}, shared: true}}\n", rank, most);
    streams += fmt::format("  - {{name: s{0}, gpu: {0}}}\n", rank);
    gpus += fmt::format("{}{}", rank > 0 ? ", " : "", scenario::kDefaultPreset);
  }
  return fmt::format("heddle: 1\nname: collectives\ngpus: [{}]\nmemory:\n{}streams:\n{}submit:\n{}", gpus, memory,
                     streams, submit);
}

}  // namespace

std::size_t RankCollectives::kept_kernels() const {
  return std::accumulate(kept.begin(), kept.end(), std::size_t{0},
                         [](std::size_t sum, const auto& entry) { return sum + entry.second; });
}

RankCollectives match_collectives(const std::vector<const Workload*>& workloads) {
  RankCollectives result;
  std::vector<RankGroups> groups;
  for (const Workload* workload : workloads) groups.push_back(rank_groups(*workload));
  for (const RankGroups& of_gpu : groups) {
    for (const auto& [name, ops] : of_gpu) {
      const bool everywhere =
          std::all_of(groups.begin(), groups.end(), [&](const RankGroups& g) { return g.count(name) > 0; });
      if (!everywhere) result.kept["not on all GPUs of the run"] += ops.size();
    }
  }
  for (const auto& [name, first] : groups.front()) {
    if (!std::all_of(groups.begin(), groups.end(), [&](const RankGroups& g) { return g.count(name) > 0; })) continue;
    bool together = true;  // so far the ranks have done the same
    std::size_t most = 0;
    for (const RankGroups& of_gpu : groups) most = std::max(most, of_gpu.at(name).size());
    for (std::size_t k = 0; k < most; ++k) {
      RankCollective its;
      std::vector<const Communication*> ranks;
      for (std::size_t gpu = 0; gpu < groups.size(); ++gpu) {
        const std::vector<std::size_t>& ops = groups[gpu].at(name);
        if (k >= ops.size()) continue;
        its.ops.push_back(ops[k]);
        ranks.push_back(&*workloads[gpu]->ops[ops[k]].communication);
      }
      std::string why = ranks.size() < groups.size() ? kDiffer : why_not(ranks);
      together = together && why != kDiffer;
      if (!together) why = kDiffer;
      if (!why.empty()) {
        result.kept[why] += ranks.size();
        continue;
      }
      its.kind = *ranks.front()->kind;
      its.bytes = ranks.front()->bytes;
      result.matched.push_back(std::move(its));
    }
  }
  std::sort(result.matched.begin(), result.matched.end(),
            [](const RankCollective& a, const RankCollective& b) { return a.ops.front() < b.ops.front(); });
  drop_disordered(result, workloads.size());
  return result;
}

void run_over_links(const RankCollectives& collectives, const std::vector<Workload*>& workloads) {
  if (collectives.matched.empty()) return;
  const std::size_t ranks = workloads.size();
  const auto replace = [](Op& op, arch::KernelRecord kernel) {
    kernel.name = op.kernel.name;
    op.kernel = std::move(kernel);
    op.grid_assumed = false;
  };
  if (ranks == 1) {
    for (const RankCollective& its : collectives.matched) {
      arch::KernelRecord kernel;
      kernel.grid = {1, 1, 1};
      kernel.block = {kWarp, 1, 1};
      kernel.duration = {1, 1};
      replace(workloads.front()->ops[its.ops.front()], std::move(kernel));
    }
    return;
  }
  scenario::Scenario scene =
      scenario::parse_scenario(scenario_text(collectives, *workloads.front(), ranks), "collectives of the recording");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Workload& target = *workloads[rank];
    Workload& source = scene.workloads[rank];
    HEDDLE_CHECK(target.memory.empty() && source.ops.size() == collectives.matched.size(),
                 "a recording has no memory of its own, and each of its collectives becomes a kernel on each GPU");
    for (std::size_t k = 0; k < source.ops.size(); ++k) {
      replace(target.ops[collectives.matched[k].ops[rank]], std::move(source.ops[k].kernel));
    }
    target.memory = std::move(source.memory);
    target.collectives = true;
  }
}

std::vector<Workload> copies_of_rank(const Workload& workload, std::size_t ranks) {
  std::vector<Workload> copies(ranks, workload);
  for (std::size_t rank = 1; rank < ranks; ++rank) copies[rank].warnings.clear();
  return copies;
}

}  // namespace heddle::replay
