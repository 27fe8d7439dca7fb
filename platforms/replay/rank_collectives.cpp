#include "replay/rank_collectives.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
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
using workload::Nanoseconds;
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

bool has_number(const Workload& workload, std::size_t op) {
  return workload.ops[op].communication->sequence.has_value();
}

// Numbers that one GPU has twice tell nothing of any; all others do, in whatever order they come.
std::vector<Place> places_by_number(const std::vector<const Workload*>& workloads,
                                    const std::vector<const std::vector<std::size_t>*>& ops, RankCollectives& result) {
  std::map<std::uint64_t, Place> places;
  std::map<std::uint64_t, bool> doubled;
  for (std::size_t gpu = 0; gpu < ops.size(); ++gpu) {
    for (const std::size_t op : *ops[gpu]) {
      if (!has_number(*workloads[gpu], op)) continue;
      const std::uint64_t number = *workloads[gpu]->ops[op].communication->sequence;
      std::optional<std::size_t>& at = places.emplace(number, Place(ops.size())).first->second[gpu];
      doubled[number] = doubled[number] || at;
      at = op;
    }
  }
  for (std::size_t gpu = 0; gpu < ops.size(); ++gpu) {
    for (const std::size_t op : *ops[gpu]) {
      if (!has_number(*workloads[gpu], op)) {
        ++result.kept["without a number, in a group that has numbers"];
      } else if (doubled.at(*workloads[gpu]->ops[op].communication->sequence)) {
        ++result.kept["of a number that a GPU has twice in one group"];
      }
    }
  }
  std::vector<Place> result_places;
  for (auto& [number, place] : places) {
    if (!doubled.at(number)) result_places.push_back(std::move(place));
  }
  return result_places;
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
  for (std::size_t gpu = 0; gpu < ops.size(); ++gpu) {
    by_number = by_number && std::any_of(ops[gpu]->begin(), ops[gpu]->end(),
                                         [&](std::size_t op) { return has_number(*workloads[gpu], op); });
  }
  bool together = true;  // so far the ranks have done the same
  for (const Place& place : by_number ? places_by_number(workloads, ops, result) : places_by_order(ops)) {
    RankCollective its;
    its.by_number = by_number;
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

// Whether all GPUs have the one before the other.
bool before(const RankCollective& one, const RankCollective& other) {
  return std::equal(one.ops.begin(), one.ops.end(), other.ops.begin(), std::less<>());
}

// Those that end chains of one length, none of which is before another.
struct Front {
  std::vector<std::size_t> ends;
  std::vector<std::size_t> least;  // by GPU: the first operation of any

  std::optional<std::size_t> one_before(const std::vector<RankCollective>& all, std::size_t which) const {
    if (!std::equal(least.begin(), least.end(), all[which].ops.begin(), std::less<>())) return std::nullopt;
    const auto found =
        std::find_if(ends.begin(), ends.end(), [&](std::size_t end) { return before(all[end], all[which]); });
    return found == ends.end() ? std::nullopt : std::optional(*found);
  }
  void add(const RankCollective& its, std::size_t which) {
    ends.push_back(which);
    if (least.empty()) least = its.ops;
    for (std::size_t gpu = 0; gpu < least.size(); ++gpu) least[gpu] = std::min(least[gpu], its.ops[gpu]);
  }
};

// The most of them that all GPUs have in one order, in that order. `all` are in the order of the first GPU.
std::vector<std::size_t> longest_chain(const std::vector<RankCollective>& all) {
  std::vector<Front> fronts;  // by length, less one
  std::vector<std::optional<std::size_t>> previous(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    // Whoever follows the end of a chain follows the ends of shorter ones.
    std::size_t length = 0;
    for (std::size_t too_long = fronts.size(); length < too_long;) {
      const std::size_t middle = length + (too_long - length) / 2;
      if (const std::optional<std::size_t> end = fronts[middle].one_before(all, i)) {
        previous[i] = end;
        length = middle + 1;
      } else {
        too_long = middle;
      }
    }
    if (length == fronts.size()) fronts.emplace_back();
    fronts[length].add(all[i], i);
  }
  std::vector<std::size_t> chain;
  std::optional<std::size_t> at = fronts.empty() ? std::nullopt : std::optional(fronts.back().ends.front());
  for (; at; at = previous[*at]) chain.push_back(*at);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

// Of those that two ranks have in different orders, each would wait for another that has not begun, without end. What
// is left has one order on all GPUs; as nothing waits for what comes later in its own recording, that can be kept.
void drop_disordered(RankCollectives& collectives, std::size_t gpus) {
  std::vector<RankCollective> left;
  for (const std::size_t which : longest_chain(collectives.matched)) {
    left.push_back(std::move(collectives.matched[which]));
  }
  const std::size_t dropped = collectives.matched.size() - left.size();
  if (dropped > 0) collectives.kept["the ranks have it in different orders"] += dropped * gpus;
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
  // `most`: CTAs of a collective.
  Plan(const RankCollectives& collectives, const std::vector<Workload*>& workloads, std::uint64_t most)
      : ranks_(workloads.size()) {
    for (const RankCollective& its : collectives.matched) {
      const arch::KernelRecord& kernel = workloads.front()->ops[its.ops.front()].kernel;
      const std::uint64_t threads = (kernel.block.count() + kWarp - 1) / kWarp * kWarp;
      const Shape shape{lane_of(its, workloads), its.kind, rounded_up(its.bytes, ranks_),
                        std::min(kernel.grid.count(), most), std::min(threads, kMostThreads)};
      lanes_[shape.lane].bytes = std::max(lanes_[shape.lane].bytes, shape.bytes);
      const auto [found, fresh] = numbers_.emplace(shape, shapes_.size());
      if (fresh) shapes_.push_back(shape);
      of_.push_back(found->second);
    }
  }

  // By collective: the number of its program.
  const std::vector<std::size_t>& programs() const { return of_; }

  std::size_t lanes() const { return lanes_.size(); }
  // Of the largest collective of each lane, all together.
  std::uint64_t ctas() const {
    std::vector<std::uint64_t> largest(lanes_.size(), 0);
    for (const Shape& shape : shapes_) largest[shape.lane] = std::max(largest[shape.lane], shape.ctas);
    return std::accumulate(largest.begin(), largest.end(), std::uint64_t{0});
  }

  // A scenario of nothing but a collective of each shape: streams and buffers of each lane on each GPU.
  std::string scenario_text() const {
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
    check_regions();
    return lanes_.size() - 1;
  }
  void check_regions() const {
    constexpr std::size_t kRegions = 3;  // of a lane on a GPU: its buffer, flags, and what has come
    if (lanes_.size() * ranks_ * kRegions <= scenario::kMaxRegions) return;
    const std::size_t most = scenario::kMaxRegions / (lanes_.size() * kRegions);
    throw InputError(
        fmt::format("collectives of {} streams at once, or more, on {} GPUs need more than the {} regions of memory "
                    "that a run has",
                    lanes_.size(), ranks_, scenario::kMaxRegions),
        most < 2 ? std::string("run the recordings unconnected, with links.topology=none")
                 : fmt::format("take at most {} GPUs; recordings of several GPUs can also run unconnected", most));
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

// CTAs of which each GPU holds as many at once, whichever of the scenario's they are and wherever they lie: as many as
// of one that takes the most of everything. While a CTA has no place, every SM has at least its share of these.
std::uint64_t room_for(const scenario::Scenario& scene, const std::vector<RankRoom>& rooms) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t rank = 0; rank < scene.workloads.size(); ++rank) {
    const RankRoom& room = rooms.at(rank);
    arch::ResourceVector largest;
    for (const Op& op : scene.workloads[rank].ops) {
      const arch::ResourceVector need = arch::need_of(room.limits, op.kernel);
      for (std::size_t r = 0; r < arch::kResources; ++r) {
        largest.amount[r] = std::max(largest.amount[r], need.amount[r]);
      }
    }
    least = std::min<std::uint64_t>(
        least, std::uint64_t{room.sms} * arch::free_slots(arch::capacity_of(room.limits), {}, largest));
  }
  return least;
}

// Of a root, a broadcast ends once it has sent; of the others none does before the last rank has come.
bool ends_together(Collective kind) { return kind != Collective::broadcast; }

Nanoseconds median(std::vector<Nanoseconds> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const Nanoseconds below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

// How ends of collectives lie to one another in several files, each on its own axis of time.
struct Ends {
  std::map<std::size_t, std::vector<Nanoseconds>> after;  // by file: by how much it ends after the first GPU's file
  std::vector<Nanoseconds> shortest;                      // recorded durations: from the last rank's coming to its end
};

Ends ends_of(const std::vector<Workload>& workloads, const std::vector<Nanoseconds>& later,
             const RankCollectives& found) {
  Ends ends;
  for (const RankCollective& its : found.matched) {
    if (!ends_together(its.kind)) continue;
    std::map<std::size_t, Nanoseconds> by_file;
    Nanoseconds shortest = std::numeric_limits<Nanoseconds>::max();
    for (std::size_t gpu = 0; gpu < workloads.size(); ++gpu) {
      const workload::Recorded& at = *workloads[gpu].ops[its.ops[gpu]].recorded;
      const Nanoseconds end = later[gpu] + at.start + at.duration;
      const auto entry = by_file.emplace(workloads[gpu].recording, end).first;
      entry->second = std::max(entry->second, end);
      shortest = std::min(shortest, at.duration);
    }
    const Nanoseconds first = by_file.at(workloads.front().recording);
    for (const auto& [file, end] : by_file) ends.after[file].push_back(end - first);
    ends.shortest.push_back(shortest);
  }
  return ends;
}

double us(Nanoseconds ns) { return static_cast<double>(ns) / 1e3; }

// Adds to `later`, by GPU, what puts the files onto one axis. Returns what there is to say of it.
std::vector<std::string> align_files(const std::vector<Workload>& workloads, std::vector<Nanoseconds>& later) {
  constexpr const char* kOwnAxes = "the times of each recording count from its own first operation.";
  std::vector<const Workload*> all;
  for (const Workload& its : workloads) all.push_back(&its);
  const RankCollectives found = match_collectives(all);
  Ends ends = ends_of(workloads, later, found);
  if (ends.after.empty()) {
    return {
        fmt::format("No all-reduce, all-gather or reduce-scatter of all GPUs tells how the recordings lie to one "
                    "another: {}",
                    kOwnAxes)};
  }
  std::map<std::size_t, Nanoseconds> offset;
  Nanoseconds last = 0;
  Nanoseconds spread = 0;
  for (auto& [file, after] : ends.after) {
    const Nanoseconds its = offset[file] = median(after);
    last = std::max(last, its);
    for (Nanoseconds& one : after) one = std::abs(one - its);
    spread = std::max(spread, median(after));
  }
  // No rank ends before the last has come, so that ends lie no further apart than what is left then.
  const Nanoseconds most = median(ends.shortest);
  const std::string counts =
      fmt::format("{} collectives that end together on all ranks, {} of all matched by number and {} by order",
                  ends.shortest.size(), found.by_number(), found.matched.size() - found.by_number());
  if (spread > most) {
    return {
        fmt::format("The recordings are not moved to one another: of {} half end more than {:.1f} "
                    "us away from where their median would put them, and they last {:.1f} us; {}",
                    counts, us(spread), us(most), kOwnAxes)};
  }
  std::vector<std::string> sentences;
  for (std::size_t gpu = 0; gpu < workloads.size(); ++gpu) {
    later[gpu] += last - offset.at(workloads[gpu].recording);
    if (later[gpu] == 0) continue;
    sentences.push_back(
        fmt::format("gpu{}: its recorded times are moved by {:.1f} us, so that collectives end at one "
                    "time in all recordings (the median of {}; half of them within {:.1f} us of it).",
                    gpu, us(later[gpu]), counts, us(spread)));
  }
  return sentences;
}

}  // namespace

std::size_t RankCollectives::kept_kernels() const {
  return std::accumulate(kept.begin(), kept.end(), std::size_t{0},
                         [](std::size_t sum, const auto& entry) { return sum + entry.second; });
}

std::size_t RankCollectives::by_number() const {
  return static_cast<std::size_t>(
      std::count_if(matched.begin(), matched.end(), [](const RankCollective& its) { return its.by_number; }));
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
  std::map<std::size_t, Nanoseconds> origins;  // of files: of their first GPU's times
  for (const Workload& its : workloads) {
    const auto at = origins.emplace(its.recording, its.origin).first;
    at->second = std::min(at->second, its.origin);
  }
  std::vector<Nanoseconds> later;
  for (const Workload& its : workloads) later.push_back(its.origin - origins.at(its.recording));
  std::vector<std::string> sentences;
  if (origins.size() > 1) sentences = align_files(workloads, later);
  for (std::size_t gpu = 0; gpu < workloads.size(); ++gpu) {
    for (Op& op : workloads[gpu].ops) {
      if (op.recorded) op.recorded->start += later[gpu];
      if (op.enqueue) *op.enqueue += later[gpu];
      if (op.not_before) *op.not_before += later[gpu];
    }
  }
  return sentences;
}

std::uint64_t run_over_links(const RankCollectives& collectives, const std::vector<Workload*>& workloads,
                             const std::vector<RankRoom>& rooms) {
  if (collectives.matched.empty()) return 0;
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
    return 0;
  }
  constexpr const char* kFile = "collectives of the recording";
  Plan plan(collectives, workloads, kMostCtas);
  scenario::Scenario scene = scenario::parse_scenario(plan.scenario_text(), kFile);
  std::uint64_t cut = 0;
  const std::uint64_t room = room_for(scene, rooms);
  // Those of one stream start in their order on all GPUs, so that the first of them wait for nobody who has no place.
  if (plan.lanes() > 1 && plan.ctas() > room) {
    cut = room / plan.lanes();
    if (cut == 0) {
      throw InputError(fmt::format("collectives of {} streams at once do not fit on a GPU, whose SMs hold {} CTAs",
                                   plan.lanes(), room),
                       "choose a larger machine with --gpu, or run the recordings unconnected");
    }
    plan = Plan(collectives, workloads, cut);
    scene = scenario::parse_scenario(plan.scenario_text(), kFile);
  }
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
  return cut;
}

std::vector<Workload> copies_of_rank(const Workload& workload, std::size_t ranks) {
  std::vector<Workload> copies(ranks, workload);
  for (std::size_t rank = 1; rank < ranks; ++rank) copies[rank].warnings.clear();
  return copies;
}

}  // namespace heddle::replay
