#include "replay/rank_collectives.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "scenario/collectives.h"
#include "scenario/scenario.h"
#include "scenario/scenario_memory.h"

namespace heddle::replay {

using workload::Collective;
using workload::Communication;
using workload::Op;
using workload::Workload;

namespace {

constexpr std::uint64_t kVector = 16;  // bytes of which every rank has a multiple
constexpr std::uint32_t kWarp = 32;    // threads, of programs
constexpr std::uint64_t kMostCtas = 1024;
constexpr std::uint64_t kMostThreads = 1024;
constexpr const char* kDiffer = "the ranks differ in what they do";
constexpr const char* kNotEverywhere = "not on all GPUs of the run";

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

// Kernels that belong together, by GPU; none where it has none.
using Place = std::vector<std::optional<std::size_t>>;

// Whether the kernels of a group have sequence numbers, one larger than the other.
bool numbered(const Workload& workload, const std::vector<std::size_t>& ops) {
  std::optional<std::uint64_t> last;
  for (const std::size_t op : ops) {
    const std::optional<std::uint64_t>& number = workload.ops[op].communication->sequence;
    if (!number || (last && *number <= *last)) return false;
    last = number;
  }
  return true;
}

std::vector<Place> places_by_number(const std::vector<const Workload*>& workloads,
                                    const std::vector<const std::vector<std::size_t>*>& ops) {
  std::map<std::uint64_t, Place> places;
  for (std::size_t gpu = 0; gpu < ops.size(); ++gpu) {
    for (const std::size_t op : *ops[gpu]) {
      Place& place = places.emplace(*workloads[gpu]->ops[op].communication->sequence, Place(ops.size())).first->second;
      place[gpu] = op;
    }
  }
  std::vector<Place> result;
  for (auto& [number, place] : places) result.push_back(std::move(place));
  return result;
}

std::vector<Place> places_by_order(const std::vector<const std::vector<std::size_t>*>& ops) {
  std::vector<Place> places;
  for (std::size_t gpu = 0; gpu < ops.size(); ++gpu) {
    for (std::size_t k = 0; k < ops[gpu]->size(); ++k) {
      if (k == places.size()) places.emplace_back(ops.size());
      places[k][gpu] = (*ops[gpu])[k];
    }
  }
  return places;
}

// Why kernels of a place within a group cannot run over links; empty: they can. `whole`: ranks of a group that all are
// in.
std::string why_not(const std::vector<const Communication*>& ranks, std::uint64_t whole) {
  const Communication& first = *ranks.front();
  const auto agrees = [&first](const Communication* other) {
    return other->kind == first.kind && other->bytes == first.bytes;
  };
  const auto same_group = [&first](const Communication* other) {
    return other->members == first.members && other->ranks == first.ranks;
  };
  if (!std::all_of(ranks.begin(), ranks.end(), same_group)) return "their groups of one name have other members";
  if (!std::all_of(ranks.begin(), ranks.end(), agrees)) return kDiffer;
  if (!first.kind) return "no all-reduce, all-gather, reduce-scatter or broadcast, or not recorded which";
  if (first.bytes == 0) return "size not recorded";
  return first.ranks != 0 && first.ranks < whole ? "of a group that some of the ranks are not in" : "";
}

// Puts the kernels of one group, which all GPUs have, to those that are matched or kept.
void match_group(const std::vector<const Workload*>& workloads, const std::vector<const std::vector<std::size_t>*>& ops,
                 std::uint64_t whole, RankCollectives& result) {
  bool by_number = true;
  for (std::size_t gpu = 0; gpu < ops.size(); ++gpu) by_number = by_number && numbered(*workloads[gpu], *ops[gpu]);
  bool together = true;  // so far the ranks have done the same
  for (const Place& place : by_number ? places_by_number(workloads, ops) : places_by_order(ops)) {
    RankCollective its;
    std::vector<const Communication*> ranks;
    for (std::size_t gpu = 0; gpu < place.size(); ++gpu) {
      if (!place[gpu]) continue;
      its.ops.push_back(*place[gpu]);
      ranks.push_back(&*workloads[gpu]->ops[*place[gpu]].communication);
    }
    std::string why = by_number ? kNotEverywhere : kDiffer;
    if (ranks.size() == place.size()) why = why_not(ranks, whole);
    if (!by_number) {
      together = together && why != kDiffer;
      if (!together) why = kDiffer;
    }
    if (!why.empty()) {
      result.kept[why] += ranks.size();
      continue;
    }
    its.kind = *ranks.front()->kind;
    its.bytes = ranks.front()->bytes;
    result.matched.push_back(std::move(its));
  }
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

// The last of the operations of a stream from that one on that is launched with it as a graph.
std::size_t launch_end(const Workload& workload, std::size_t op) {
  std::size_t last = op;
  for (std::size_t i = op; i < workload.ops.size(); ++i) {
    const Op& other = workload.ops[i];
    if (other.stream != workload.ops[op].stream) continue;
    if (!other.graph) break;
    last = i;
    if (other.graph->last) break;
  }
  return last;
}

// Of two operations of one launch of a graph: whether the second one waits for the first, directly or not.
bool waits_within(const Workload& workload, std::size_t first, std::size_t second) {
  std::vector<std::size_t> open{second};
  std::set<std::size_t> seen;
  while (!open.empty()) {
    const std::size_t op = open.back();
    open.pop_back();
    if (op == first) return true;
    for (const std::size_t before : workload.ops[op].graph->after) {
      if (before >= first && seen.insert(before).second) open.push_back(before);
    }
  }
  return false;
}

// Whether the order of its stream, or of a graph, makes the second one wait for the first.
bool follows(const Workload& workload, std::size_t first, std::size_t second) {
  if (workload.ops[first].stream != workload.ops[second].stream) return false;
  if (!workload.ops[first].graph || second > launch_end(workload, first)) return true;
  return waits_within(workload, first, second);
}

// Collectives that follow each other on every GPU share what a communicator has there: buffers, and what comes from the
// other ranks.
struct Lane {
  std::vector<std::size_t> last;  // by GPU: its last operation so far
  std::uint64_t bytes = 0;        // of the largest
};

// What collectives of a lane have in common where one program does for all of them.
struct Shape {
  std::size_t lane = 0;
  Collective kind = Collective::all_reduce;
  std::uint64_t bytes = 0;
  std::uint64_t ctas = 0;
  std::uint64_t threads = 0;

  bool operator<(const Shape& other) const {
    return std::tie(lane, kind, bytes, ctas, threads) <
           std::tie(other.lane, other.kind, other.bytes, other.ctas, other.threads);
  }
};

std::uint64_t rounded_up(std::uint64_t bytes, std::size_t ranks) {
  const std::uint64_t part = kVector * ranks;
  return (bytes + part - 1) / part * part;
}

// Which memory and which program each of the collectives has.
class Plan {
 public:
  Plan(const RankCollectives& collectives, const std::vector<Workload*>& workloads) : ranks_(workloads.size()) {
    for (const RankCollective& its : collectives.matched) {
      const arch::KernelRecord& kernel = workloads.front()->ops[its.ops.front()].kernel;
      const std::uint64_t threads = (kernel.block.count() + kWarp - 1) / kWarp * kWarp;
      const Shape shape{lane_of(its, workloads), its.kind, rounded_up(its.bytes, ranks_),
                        std::min(kernel.grid.count(), kMostCtas), std::min(threads, kMostThreads)};
      lanes_[shape.lane].bytes = std::max(lanes_[shape.lane].bytes, shape.bytes);
      const auto [found, fresh] = numbers_.emplace(shape, shapes_.size());
      if (fresh) shapes_.push_back(shape);
      of_.push_back(found->second);
    }
  }

  // By collective: the number of its program.
  const std::vector<std::size_t>& programs() const { return of_; }

  // A scenario of nothing but a collective of each shape: streams and buffers of each lane on each GPU.
  std::string scenario_text() const {
    constexpr std::size_t kRegions = 3;  // of a lane on a GPU: its buffer, flags, and what has come
    if (lanes_.size() * ranks_ * kRegions > scenario::kMaxRegions) {
      throw InputError(
          fmt::format("collectives of {} streams at once on {} GPUs need {} regions of memory, and a run has {}",
                      lanes_.size(), ranks_, lanes_.size() * ranks_ * kRegions, scenario::kMaxRegions),
          fmt::format("take at most {} GPUs; recordings of several GPUs can also run unconnected",
                      scenario::kMaxRegions / (lanes_.size() * kRegions)));
    }
    std::string memory;
    std::string streams;
    std::string gpus;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
        memory +=
            fmt::format("  - {{name: x{0}_{1}, bytes: {2}, gpu: {1}, shared: true}}\n", lane, rank, lanes_[lane].bytes);
        streams += fmt::format("  - {{name: s{0}_{1}, gpu: {1}}}\n", lane, rank);
      }
      gpus += fmt::format("{}{}", rank > 0 ? ", " : "", scenario::kDefaultPreset);
    }
    std::string submit;
    for (const Shape& shape : shapes_) {
      submit += fmt::format("  - {{{}: {}, streams: [{}], buffers: [{}], ctas: {}, threads: {}}}\n",
                            scenario::collective_name(shape.kind), shape.bytes, list_of("s", shape.lane),
                            list_of("x", shape.lane), shape.ctas, shape.threads);
    }
    return fmt::format("heddle: 1\nname: collectives\ngpus: [{}]\nmemory:\n{}streams:\n{}submit:\n{}", gpus, memory,
                       streams, submit);
  }

 private:
  std::size_t lane_of(const RankCollective& its, const std::vector<Workload*>& workloads) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      std::vector<std::size_t>& last = lanes_[lane].last;
      bool after = true;
      for (std::size_t gpu = 0; gpu < ranks_; ++gpu) {
        after = after && follows(*workloads[gpu], last[gpu], its.ops[gpu]);
      }
      if (!after) continue;
      last = its.ops;
      return lane;
    }
    lanes_.push_back({its.ops, 0});
    return lanes_.size() - 1;
  }
  std::string list_of(const char* name, std::size_t lane) const {
    std::vector<std::string> all;
    for (std::size_t rank = 0; rank < ranks_; ++rank) all.push_back(fmt::format("{}{}_{}", name, lane, rank));
    return fmt::format("{}", fmt::join(all, ", "));
  }

  std::size_t ranks_;
  std::vector<Lane> lanes_;
  std::vector<Shape> shapes_;
  std::map<Shape, std::size_t> numbers_;  // of shapes
  std::vector<std::size_t> of_;           // by collective
};

}  // namespace

std::size_t RankCollectives::kept_kernels() const {
  return std::accumulate(kept.begin(), kept.end(), std::size_t{0},
                         [](std::size_t sum, const auto& entry) { return sum + entry.second; });
}

RankCollectives match_collectives(const std::vector<const Workload*>& workloads, bool copies) {
  RankCollectives result;
  std::vector<RankGroups> groups;
  std::uint64_t whole = copies ? 0 : workloads.size();
  for (const Workload* workload : workloads) {
    groups.push_back(rank_groups(*workload));
    for (const Op& op : workload->ops) {
      if (copies && op.communication) whole = std::max(whole, op.communication->ranks);
    }
  }
  const auto everywhere = [&groups](const std::string& name) {
    return std::all_of(groups.begin(), groups.end(), [&](const RankGroups& g) { return g.count(name) > 0; });
  };
  for (const RankGroups& of_gpu : groups) {
    for (const auto& [name, ops] : of_gpu) {
      if (!everywhere(name)) result.kept[kNotEverywhere] += ops.size();
    }
  }
  for (const auto& [name, first] : groups.front()) {
    if (!everywhere(name)) continue;
    std::vector<const std::vector<std::size_t>*> ops;
    for (const RankGroups& of_gpu : groups) ops.push_back(&of_gpu.at(name));
    match_group(workloads, ops, whole, result);
  }
  std::sort(result.matched.begin(), result.matched.end(),
            [](const RankCollective& a, const RankCollective& b) { return a.ops.front() < b.ops.front(); });
  drop_disordered(result, workloads.size());
  for (const RankCollective& its : result.matched) {
    const Op& op = workloads.front()->ops[its.ops.front()];
    result.recorded_ranks = std::max(result.recorded_ranks, op.communication->ranks);
    if (op.grid_assumed) ++result.assumed;
  }
  return result;
}

std::vector<std::string> align_ranks(std::vector<Workload>& workloads) {
  using workload::Nanoseconds;
  std::map<std::size_t, Nanoseconds> origins;  // of files: of their first GPU's times
  for (const Workload& its : workloads) {
    const auto at = origins.emplace(its.recording, its.origin).first;
    at->second = std::min(at->second, its.origin);
  }
  std::vector<Nanoseconds> later;
  std::vector<const Workload*> all;
  for (const Workload& its : workloads) {
    later.push_back(its.origin - origins.at(its.recording));
    all.push_back(&its);
  }
  std::vector<std::string> sentences;
  if (origins.size() > 1) {
    const RankCollectives found = match_collectives(all);
    std::map<std::size_t, Nanoseconds> ends;  // of files: of the first that belongs together
    Nanoseconds last = std::numeric_limits<Nanoseconds>::min();
    for (std::size_t gpu = 0; gpu < workloads.size() && !found.matched.empty(); ++gpu) {
      const workload::Recorded& first = *workloads[gpu].ops[found.matched.front().ops[gpu]].recorded;
      const Nanoseconds end = later[gpu] + first.start + first.duration;
      const auto at = ends.emplace(workloads[gpu].recording, end).first;
      at->second = std::max(at->second, end);
      last = std::max(last, end);
    }
    for (std::size_t gpu = 0; gpu < workloads.size() && !ends.empty(); ++gpu) {
      later[gpu] += last - ends.at(workloads[gpu].recording);
      if (later[gpu] == 0) continue;
      sentences.push_back(
          fmt::format("gpu{}: its recorded times are moved by {:.1f} us, so that the first collective of "
                      "all GPUs ends at one time in all recordings.",
                      gpu, static_cast<double>(later[gpu]) / 1e3));
    }
    if (ends.empty()) {
      sentences.emplace_back(
          "No collective of all GPUs tells how the times of the recordings lie to one another: each counts from its "
          "own "
          "first operation.");
    }
  }
  for (std::size_t gpu = 0; gpu < workloads.size(); ++gpu) {
    for (Op& op : workloads[gpu].ops) {
      if (op.recorded) op.recorded->start += later[gpu];
      if (op.enqueue) *op.enqueue += later[gpu];
      if (op.not_before) *op.not_before += later[gpu];
    }
  }
  return sentences;
}

void run_over_links(const RankCollectives& collectives, const std::vector<Workload*>& workloads) {
  if (collectives.matched.empty()) return;
  const std::size_t ranks = workloads.size();
  const auto replace = [](Op& op, arch::KernelRecord kernel) {
    kernel.name = op.kernel.name;
    op.kernel = std::move(kernel);
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
  const Plan plan(collectives, workloads);
  scenario::Scenario scene = scenario::parse_scenario(plan.scenario_text(), "collectives of the recording");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Workload& target = *workloads[rank];
    Workload& source = scene.workloads[rank];
    HEDDLE_CHECK(target.memory.empty(), "a recording has no memory of its own");
    for (std::size_t k = 0; k < collectives.matched.size(); ++k) {
      replace(target.ops[collectives.matched[k].ops[rank]], source.ops.at(plan.programs()[k]).kernel);
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
