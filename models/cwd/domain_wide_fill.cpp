#include "cwd/domain_wide_fill.h"

#include <algorithm>
#include <numeric>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::cwd {

DomainWideFill::DomainWideFill(const arch::Topology& topology, std::uint32_t max_slots, LevelSearch method,
                               const std::vector<std::uint32_t>& sm_priority, const DomainPolicy& policy,
                               bool one_at_a_time)
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
                                                        std::uint64_t units, arch::CgaLevel level) {
  HEDDLE_CHECK(ctas > 0, "a CGA without CTAs");
  HEDDLE_CHECK(level == arch::CgaLevel::gpu || level == arch::CgaLevel::ugpu,
               "a domain-wide CGA is of a GPU or a uGPU");
  std::vector<Arena>& arenas = level == arch::CgaLevel::gpu ? whole_ : ugpus_;
  left_ = slots;
  units_.clear();
  steps_ = 0;
  priority_.resize(arenas.size());
  std::iota(priority_.begin(), priority_.end(), 0U);
  answers_.assign(arenas.size(), DomainAnswer{});
  for (Arena& arena : arenas) arena.known = false;
  while (units_.size() < units) {
    std::uint32_t steps = 0;
    for (std::size_t d = 0; d < arenas.size(); ++d) steps = std::max(steps, search(arenas[d], answers_[d], ctas));
    steps_ += steps;
    const std::uint64_t wanted = units - units_.size();
    chosen_.clear();
    policy_.choose(answers_, priority_, wanted, chosen_);
    if (chosen_.empty()) break;
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

// Returns the steps that the answer took.
std::uint32_t DomainWideFill::search(Arena& arena, DomainAnswer& answer, std::uint64_t ctas) {
  if (arena.known) return 0;
  arena.known = true;
  answer = {};
  std::uint64_t free = 0;
  for (const std::uint32_t id : arena.sm_ids) free += left_[id];
  if (free < ctas) return 1;  // the sum over all SMs
  arena.placement = arena.lake.place(left_, ctas);
  HEDDLE_CHECK(arena.placement.ctas == ctas, "a CGA of CTAs was placed in part");
  answer = {true, arena.placement.levels.back().level - 1};
  return arena.placement.steps;
}

void DomainWideFill::take(const Placement& placement) {
  for (const LevelMask& level : placement.levels) {
    for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
      bits::for_each(level.mask[g], [&](std::uint32_t bit) { --left_[topology_.gpc(g).sm_ids[bit]]; });
    }
  }
}

}  // namespace heddle::cwd
