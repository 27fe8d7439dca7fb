#include "cwd/cluster_claims.h"

#include <algorithm>

#include "common/bits.h"

namespace heddle::cwd {

RoomLadder::RoomLadder(const arch::ResourceVector& capacity, const arch::ResourceVector& need, const LiveModel& live,
                       const std::vector<InTheWay>& in_the_way, const std::vector<bool>& usable)
    : slots_(in_the_way.size()) {
  for (std::uint32_t sm = 0; sm < slots_.size(); ++sm) {
    if (!usable[sm] || !live.enabled(live.tpc_of(sm))) {
      slots_[sm].push_back(0);
      continue;
    }
    arch::ResourceVector used = live.used(sm);
    slots_[sm].push_back(static_cast<std::uint16_t>(arch::free_slots(capacity, used, need)));
    for (const arch::ResourceVector& gone : in_the_way[sm]) {
      used.subtract(gone);
      slots_[sm].push_back(static_cast<std::uint16_t>(arch::free_slots(capacity, used, need)));
    }
    most_ = std::max(most_, static_cast<std::uint32_t>(in_the_way[sm].size()));
  }
}

std::vector<std::uint16_t> RoomLadder::slots(std::uint32_t gone) const {
  std::vector<std::uint16_t> result;
  for (const std::vector<std::uint16_t>& its : slots_) {
    result.push_back(its[std::min<std::size_t>(gone, its.size() - 1)]);
  }
  return result;
}

std::uint32_t RoomLadder::price(std::uint32_t sm, std::uint32_t slots) const {
  const auto enough =
      std::find_if(slots_[sm].begin(), slots_[sm].end(), [slots](std::uint16_t free) { return free >= slots; });
  return static_cast<std::uint32_t>(enough - slots_[sm].begin());
}

ClaimPlanner::ClaimPlanner(const CwdContext& context, const std::vector<std::uint32_t>& sm_priority,
                           const arch::ResourceVector& sm_capacity, std::uint32_t cgas_per_gpc)
    : topology_(context.topology),
      policies_(context.params, sm_capacity[arch::Resource::ctas]),
      cgas_per_gpc_(context.topology.gpcs(), cgas_per_gpc),
      placer_(context.topology, policies_, sm_priority,
              context.params.gpc_priority.resolve(context.topology.gpcs(), "gpu.cwd.gpc_priority")),
      domain_wide_(context.topology, sm_capacity[arch::Resource::ctas], context.params.level_search, sm_priority,
                   *policies_.domain) {}

// One GPC_CGA has the GPC where fewest CTAs have to go. More of them, and wider CGAs, take as many from every SM.
std::optional<std::vector<std::uint16_t>> ClaimPlanner::plan(const protocol::TaskPacket& task, std::uint32_t size,
                                                             std::uint64_t units, const RoomLadder& ladder) {
  const bool in_gpc = task.cluster.outermost() == arch::CgaLevel::gpc;
  const std::uint32_t searches = in_gpc && units == 1 ? topology_.gpcs() : 1;
  Found best;
  for (std::uint32_t search = 0; search < searches; ++search) {
    Found found;
    for (std::uint32_t gone = 0;; gone = std::max(1U, 2 * gone)) {
      const std::vector<std::uint16_t> slots = ladder.slots(gone);
      found = find(task, size, units, ladder, searches > 1 ? only(slots, search) : slots);
      if (found.units == units || gone >= ladder.most()) break;
    }
    const bool better = found.units > best.units || (found.units == best.units && found.price < best.price);
    if (found.units > 0 && better) best = std::move(found);
  }
  if (best.units == 0) return std::nullopt;
  return std::move(best.ctas);
}

ClaimPlanner::Found ClaimPlanner::find(const protocol::TaskPacket& task, std::uint32_t size, std::uint64_t units,
                                       const RoomLadder& ladder, std::vector<std::uint16_t> slots) {
  Found found;
  found.ctas.assign(slots.size(), 0);
  const auto take = [&](std::uint32_t gpc, std::uint64_t mask) {
    bits::for_each(mask, [&](std::uint32_t bit) { ++found.ctas[topology_.gpc(gpc).sm_ids[bit]]; });
  };
  if (is_domain_wide(task.cluster)) {
    for (const DomainWideCga& cga :
         domain_wide_.place(slots, task.cluster.size(size).count(), units, task.cluster.outermost())) {
      ++found.units;
      for (const LevelMask& level : cga.placement.levels) {
        for (std::uint32_t g = 0; g < level.mask.size(); ++g) take(g, level.mask[g]);
      }
    }
  } else {
    for (const ClusterPlacer::Placed& placed :
         placer_.place(slots, gpc_cga_shape_for(task.cluster, size), task.cluster.mode, cgas_per_gpc_,
                       request_for(task.cluster, size, units))) {
      found.units += placed.home.last ? 1 : 0;
      for (const std::uint64_t mask : placed.masks) take(placed.home.gpc, mask);
    }
  }
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
    if (found.ctas[sm] > 0) found.price += ladder.price(sm, found.ctas[sm]);
  }
  return found;
}

std::vector<std::uint16_t> ClaimPlanner::only(const std::vector<std::uint16_t>& slots, std::uint32_t gpc) const {
  std::vector<std::uint16_t> result(slots.size(), 0);
  for (const std::uint32_t sm : topology_.gpc(gpc).sm_ids) result[sm] = slots[sm];
  return result;
}

bool ClusterClaims::Claim::keeps_off(const TaskEntry& entry) const {
  // Whoever appends to a queue that is full waits for its task.
  const bool awaited = depth && (entry.task.depth > *depth || entry.queue());
  return entry.task.priority < priority && !awaited;
}

void ClusterClaims::add(const std::vector<std::uint16_t>& claim, std::int32_t priority,
                        std::optional<std::uint32_t> depth) {
  if (!any_) std::fill(claims_.begin(), claims_.end(), std::nullopt);
  any_ = true;
  for (std::uint32_t sm = 0; sm < claim.size(); ++sm) {
    if (claim[sm] == 0) continue;
    std::optional<Claim>& its = claims_[sm];
    if (!its) its = Claim{priority, depth};
    its->priority = std::max(its->priority, priority);
    if (depth) its->depth = std::min(its->depth.value_or(*depth), *depth);
  }
}

bool ClusterClaims::restrict(const TaskEntry& entry, std::vector<std::uint16_t>& slots) const {
  if (!any_) return false;
  bool restricted = false;
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
    if (slots[sm] == 0 || !claims_[sm] || !claims_[sm]->keeps_off(entry)) continue;
    slots[sm] = 0;
    restricted = true;
  }
  return restricted;
}

}  // namespace heddle::cwd
