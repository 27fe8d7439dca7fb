#include "cwd/lake_fill.h"

#include <algorithm>
#include <numeric>

#include "common/bits.h"
#include "common/error.h"
#include "cwd/cost_laws.h"

namespace heddle::cwd {
namespace {

FinalLevel scan(const std::vector<std::uint32_t>& at_least, std::uint64_t ctas) {
  FinalLevel result;
  std::uint64_t placed = 0;
  for (std::size_t level = at_least.size() - 1; level >= 1; --level) {
    if (at_least[level] == 0) continue;  // the scan begins at the highest level that exists
    ++result.steps;
    result.level = static_cast<std::uint32_t>(level);
    result.above = placed;
    placed += at_least[level];
    if (placed >= ctas) break;
  }
  return result;
}

FinalLevel bisect(const std::vector<std::uint32_t>& at_least, std::uint64_t ctas, std::uint32_t levels) {
  // CTAs placed if every level down to and with `level` were filled. The hardware adds over all SMs in one step.
  const auto placed_down_to = [&](std::uint32_t level) {
    std::uint64_t placed = 0;
    for (std::size_t l = level; l < at_least.size(); ++l) placed += at_least[l];
    return placed;
  };
  FinalLevel result;
  std::uint32_t top = 1;
  while (top <= levels) top *= 2;
  // The greatest level at which the CTAs still fit: N/2 first, then N/4 or 3N/4, …
  for (std::uint32_t half = top / 2; half >= 1; half /= 2) {
    ++result.steps;
    if (placed_down_to(result.level + half) >= ctas) result.level += half;
  }
  result.level = std::max(result.level, 1U);
  result.above = placed_down_to(result.level + 1);
  return result;
}

}  // namespace

FinalLevel find_final_level(const std::vector<std::uint32_t>& at_least, std::uint64_t ctas, LevelSearch method,
                            std::uint32_t levels) {
  if (ctas == 0 || at_least.size() < 2 || at_least[1] == 0) return {};
  return method == LevelSearch::scan ? scan(at_least, ctas) : bisect(at_least, ctas, levels);
}

std::uint32_t level_search_steps(LevelSearch method, std::uint32_t highest, std::uint32_t final_level,
                                 std::uint32_t levels) {
  if (method == LevelSearch::scan) return highest - final_level + 1;
  std::uint32_t steps = 0;  // halvings of the levels
  for (std::uint64_t top = 1; top <= levels; top *= 2) ++steps;
  return steps;
}

SmMask select_by_prefix(const SmMask& candidates, std::uint64_t remaining, const std::vector<std::uint32_t>& priority,
                        const arch::Topology& topology) {
  SmMask selected(candidates.size(), 0);
  std::uint64_t before = 0;
  for (const std::uint32_t id : priority) {
    if (before >= remaining) break;
    const arch::Topology::Sm& sm = topology.sm(id);
    const std::uint64_t bit = std::uint64_t{1} << sm.in_gpc;
    if ((candidates[sm.gpc] & bit) == 0) continue;
    selected[sm.gpc] |= bit;
    ++before;
  }
  return selected;
}

LakeFill::LakeFill(const arch::Topology& topology, std::uint32_t max_slots, LevelSearch method,
                   std::vector<std::uint32_t> priority, const LakeOptions& options)
    : topology_(topology),
      max_slots_(max_slots),
      method_(method),
      priority_(std::move(priority)),
      one_at_a_time_(options.one_at_a_time) {
  std::vector<std::uint32_t> sorted = priority_;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = sorted.size() == topology.sms();
  for (std::uint32_t i = 0; permutation && i < sorted.size(); ++i) permutation = sorted[i] == i;
  HEDDLE_CHECK(permutation, "the SM priority order is not a permutation of the machine's SMs");
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    gpc_of_.push_back(topology.sm(id).gpc);
    bit_of_.push_back(std::uint64_t{1} << topology.sm(id).in_gpc);
    const auto& gpcs = options.gpcs;
    if (!gpcs.empty() && std::find(gpcs.begin(), gpcs.end(), topology.sm(id).gpc) == gpcs.end()) outside_.push_back(id);
  }
  prefix_levels_ = 2 * tree_levels(topology.sms() - outside_.size());
}

const Placement& LakeFill::place(const std::vector<std::uint16_t>& slots, std::uint64_t ctas) {
  if (outside_.empty()) return fill(slots, ctas);
  inside_ = slots;
  for (const std::uint32_t id : outside_) inside_[id] = 0;
  return fill(inside_, ctas);
}

const Placement& LakeFill::fill(const std::vector<std::uint16_t>& slots, std::uint64_t ctas) {
  result_.ctas = 0;
  result_.steps = result_.prefix_levels = 0;
  result_.one_by_one = one_at_a_time_;
  result_.levels.clear();
  const std::size_t gpcs = topology_.gpcs();
  std::uint32_t highest = 0;
  for (const std::uint16_t count : slots) highest = std::max<std::uint32_t>(highest, count);
  if (highest == 0 || ctas == 0) return result_;
  HEDDLE_CHECK(highest <= max_slots_, "an SM has more free slots than the machine allows");

  at_least_.assign(highest + 1, 0);
  at_level_.assign((highest + 1) * gpcs, 0);
  for (std::size_t id = 0; id < slots.size(); ++id) {
    ++at_least_[slots[id]];
    at_level_[slots[id] * gpcs + gpc_of_[id]] |= bit_of_[id];
  }
  for (std::uint32_t level = highest; level-- > 0;) at_least_[level] += at_least_[level + 1];

  const FinalLevel final_level = find_final_level(at_least_, ctas, method_, max_slots_);
  result_.steps = one_at_a_time_ ? 0 : final_level.steps;
  SmMask reached(gpcs, 0);  // SMs with at least `level` slots
  for (std::uint32_t level = highest; level >= final_level.level; --level) {
    for (std::size_t g = 0; g < gpcs; ++g) reached[g] |= at_level_[level * gpcs + g];
    const std::uint64_t members = at_least_[level];
    const std::uint64_t left = ctas - result_.ctas;
    if (members == 0) continue;
    if (one_at_a_time_) {
      push_one_at_a_time(level, reached, left);
      continue;
    }
    if (level > final_level.level || members <= left) {
      result_.levels.push_back({level, members, reached});
      result_.ctas += members;
    } else {
      result_.levels.push_back({level, left, select_by_prefix(reached, left, priority_, topology_)});
      result_.ctas += left;
      result_.prefix_levels = prefix_levels_;
    }
  }
  return result_;
}

// The SM with most free slots, again and again, is every SM of a level in priority order, level by level.
void LakeFill::push_one_at_a_time(std::uint32_t level, const SmMask& reached, std::uint64_t ctas) {
  for (const std::uint32_t id : priority_) {
    if (ctas == 0) break;
    if ((reached[gpc_of_[id]] & bit_of_[id]) == 0) continue;
    LevelMask mask{level, 1, SmMask(reached.size(), 0)};
    mask.mask[gpc_of_[id]] = bit_of_[id];
    result_.levels.push_back(std::move(mask));
    ++result_.ctas;
    ++result_.steps;
    --ctas;
  }
}

DomainWideFill::DomainWideFill(const arch::Topology& topology, std::uint32_t max_slots, LevelSearch method,
                               const std::vector<std::uint32_t>& sm_priority, DomainPolicy& policy, bool one_at_a_time)
    : topology_(topology), policy_(policy) {
  const auto arena_of = [&](const std::vector<std::uint32_t>& gpcs) {
    std::vector<std::uint32_t> sm_ids;
    for (const std::uint32_t g : gpcs) {
      sm_ids.insert(sm_ids.end(), topology.gpc(g).sm_ids.begin(), topology.gpc(g).sm_ids.end());
    }
    return Arena{LakeFill(topology, max_slots, method, sm_priority, {one_at_a_time, gpcs}), sm_ids, false, {}};
  };
  std::vector<std::uint32_t> all(topology.gpcs());
  std::iota(all.begin(), all.end(), 0U);
  whole_.push_back(arena_of(all));
  for (std::uint32_t u = 0; u < topology.ugpus(); ++u) {
    std::vector<std::uint32_t> gpcs;
    for (const std::uint32_t g : all) {
      if (topology.ugpu_of(g) == u) gpcs.push_back(g);
    }
    ugpus_.push_back(arena_of(gpcs));
  }
}

const std::vector<DomainWideCga>& DomainWideFill::place(const std::vector<std::uint16_t>& slots, std::uint64_t ctas,
                                                        std::uint64_t units, arch::CgaLevel level,
                                                        const protocol::WaitingWork& waiting,
                                                        const std::optional<protocol::CutTie>& tie) {
  HEDDLE_CHECK(ctas > 0, "a CGA without CTAs");
  HEDDLE_CHECK(level == arch::CgaLevel::gpu || level == arch::CgaLevel::ugpu,
               "a domain-wide CGA is of a GPU or a uGPU");
  std::vector<Arena>& arenas = level == arch::CgaLevel::gpu ? whole_ : ugpus_;
  left_ = slots;
  units_.clear();
  work_ = {};
  priority_.resize(arenas.size());
  std::iota(priority_.begin(), priority_.end(), 0U);
  answers_.assign(arenas.size(), DomainAnswer{});
  for (Arena& arena : arenas) arena.known = false;
  ties_.begin(tie);
  while (units_.size() < units) {
    std::uint32_t steps = 0;
    std::uint32_t levels = 0;
    for (std::size_t d = 0; d < arenas.size(); ++d) {
      if (!search(arenas[d], answers_[d], ctas)) continue;
      steps = std::max(steps, arenas[d].placement.steps);
      levels = std::max(levels, arenas[d].placement.prefix_levels);
    }
    work_ += {steps, 0, levels, tree_levels(arenas.size())};
    const std::uint64_t wanted = units - units_.size();
    chosen_.clear();
    offered_ = answers_;
    if (policy_.serves_ties()) ties_.narrow(offered_, priority_);
    policy_.choose({offered_, priority_, wanted, 1, level, 0, waiting}, chosen_);  // any GPC holds any of its CTAs
    if (chosen_.empty()) break;
    if (policy_.serves_ties() && chosen_.size() == wanted) ties_.note(offered_, chosen_);
    HEDDLE_CHECK(chosen_.size() <= wanted, "a domain policy has chosen more domains than there are CGAs");
    for (const std::uint32_t d : chosen_) {
      HEDDLE_CHECK(d < arenas.size() && answers_[d].valid && arenas[d].known,
                   "a domain policy has chosen a domain without room, or one twice");
      take(arenas[d].placement);
      units_.push_back({d, answers_[d].speed, std::move(arenas[d].placement)});
      arenas[d].known = false;
    }
  }
  return units_;
}

// False if the answer stands. The placement says what it took, also of a refusal: the search finds on the lowest level
// that the lake is too small (CWD-09).
bool DomainWideFill::search(Arena& arena, DomainAnswer& answer, std::uint64_t ctas) {
  if (arena.known) return false;
  arena.known = true;
  answer = {};
  for (const std::uint32_t id : arena.sm_ids) answer.free += left_[id];
  arena.placement = arena.lake.place(left_, ctas);
  arena.placement.steps = std::max(1U, arena.placement.steps);  // a look at a full machine is one, too
  if (arena.placement.ctas == ctas) {
    answer.valid = true;
    answer.speed = arena.placement.levels.back().level - 1;
  }
  return true;
}

void DomainWideFill::take(const Placement& placement) {
  for (const LevelMask& level : placement.levels) {
    for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
      bits::for_each(level.mask[g], [&](std::uint32_t bit) { --left_[topology_.gpc(g).sm_ids[bit]]; });
    }
  }
}

}  // namespace heddle::cwd
