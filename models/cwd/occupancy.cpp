#include "cwd/occupancy.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::cwd {
namespace {

using arch::CgaLevel;
using arch::ClusterShape;

constexpr std::array<CgaLevel, arch::kCgaLevels> kInnermostFirst{CgaLevel::cpc, CgaLevel::gpc, CgaLevel::ugpu,
                                                                 CgaLevel::gpu};

// The same CGAs, without the levels outside `level`: they are outermost.
ClusterShape up_to(const ClusterShape& cluster, CgaLevel level) {
  ClusterShape result = cluster;
  result.fallback.fill(arch::kNoExtents);
  for (const CgaLevel outer : kInnermostFirst) {
    if (outer > level) result.of(outer) = arch::kNoExtents;
  }
  return result;
}

// The domain of a CGA of that level in which the SM lies, by number; CPCs of all GPCs are counted through.
std::uint32_t domain_of(const arch::Topology& topology, CgaLevel level, std::uint32_t sm) {
  const arch::Topology::Sm& place = topology.sm(sm);
  switch (level) {
    case CgaLevel::cpc:
      return place.gpc * arch::kMaxSmsPerGpc + place.cpc;
    case CgaLevel::gpc:
      return place.gpc;
    case CgaLevel::ugpu:
      return topology.ugpu_of(place.gpc);
    case CgaLevel::gpu:
      break;
  }
  return 0;
}

MachineShare share_at_start(const CwdParams& params) {
  MachineShare share;
  if (params.partition == protocol::PartitionMode::dynamic && params.tpc_credits > 0)
    share.credits = params.tpc_credits;
  return share;
}

std::string count_text(std::uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

EmptyMachine::EmptyMachine(const arch::Topology& topology, const CwdParams& params,
                           const arch::ResourceVector& sm_capacity, std::uint32_t cgas_per_gpc)
    : topology_(topology),
      params_(params),
      capacity_(sm_capacity),
      cgas_per_gpc_(cgas_per_gpc),
      share_(share_at_start(params)),
      sm_priority_(params.sm_priority.resolve(topology.sms(), "gpu.cwd.sm_priority")),
      policies_(params, sm_capacity[arch::Resource::ctas]),
      plain_(make_plain_policy(params.plain, {topology, sm_capacity[arch::Resource::ctas], params.level_search,
                                              sm_priority_, params.plain_share})),
      placer_(topology, policies_, sm_priority_, params.gpc_priority.resolve(topology.gpcs(), "gpu.cwd.gpc_priority")),
      domain_wide_(topology, sm_capacity[arch::Resource::ctas], params.level_search, sm_priority_, *policies_.domain) {}

EmptyMachine::Room EmptyMachine::room_for(const arch::ResourceVector& need, bool local_memory,
                                          std::uint32_t first) const {
  Room room;
  room.per_sm = arch::free_slots(capacity_, {}, need);
  room.slots.assign(topology_.sms(), static_cast<std::uint16_t>(room.per_sm));
  for (std::size_t i = 0; i < arch::kResources; ++i) {
    if (need.amount[i] == 0 || capacity_.amount[i] / need.amount[i] != room.per_sm) continue;
    room.why = fmt::format("{} per SM ({}: a CTA takes {} of {})", count_text(room.per_sm, "CTA"),
                           arch::resource_name(static_cast<arch::Resource>(i)), need.amount[i], capacity_.amount[i]);
    break;
  }
  const std::uint32_t warps = need[arch::Resource::warps];
  if (warps > 0 && share_.warps / warps < room.per_sm) {
    room.per_sm = share_.warps / warps;
    room.slots.assign(topology_.sms(), static_cast<std::uint16_t>(room.per_sm));
    room.why = fmt::format("{} per SM (warps: a CTA takes {} of the {} that its subcontext may have)",
                           count_text(room.per_sm, "CTA"), warps, share_.warps);
  }
  close_tpcs(room);
  std::uint32_t tpcs = share_.credits;
  if (local_memory && params_.local_memory_blocks > 0) tpcs = std::min(tpcs, params_.local_memory_blocks);
  limit_tpcs(room, tpcs, first);
  limit_sms(room, first);
  return room;
}

// As SmShares limits a session on an empty machine: to the SMs of one GPC after another, beginning with `first`.
void EmptyMachine::limit_sms(Room& room, std::uint32_t first) const {
  if (share_.sms >= topology_.sms()) return;
  std::vector<std::uint32_t> order;
  for (const std::uint32_t sm : sm_priority_) {
    if (room.slots[sm] > 0) order.push_back(sm);
  }
  if (first != kNoLimit) {
    const auto place = [this, first](std::uint32_t sm) {
      const std::uint32_t gpc = topology_.sm(sm).gpc;
      return gpc >= first ? gpc - first : gpc + topology_.gpcs() - first;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&place](std::uint32_t a, std::uint32_t b) { return place(a) < place(b); });
  }
  for (std::size_t i = share_.sms; i < order.size(); ++i) room.slots[order[i]] = 0;
  room.why += fmt::format(", {} for a subcontext", count_text(share_.sms, "SM"));
}

// What the TPC enable table, or the mask of the subcontext, closes has no slots.
void EmptyMachine::close_tpcs(Room& room) const {
  if (share_.tpcs.empty()) return;
  std::uint32_t first = 0;  // TPC of the GPC
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const arch::Topology::Gpc& gpc = topology_.gpc(g);
    for (std::uint32_t bit = 0; bit < gpc.sms; ++bit) {
      const std::uint32_t id = gpc.sm_ids[bit];
      if (!share_.tpcs[first + topology_.sm(id).tpc]) room.slots[id] = 0;
    }
    first += static_cast<std::uint32_t>(gpc.tpcs.size());
  }
}

// As a session limits itself: to the TPCs with most room, equal ones in the order of their most preferred SM.
void EmptyMachine::limit_tpcs(Room& room, std::uint32_t tpcs, std::uint32_t first_gpc) const {
  std::vector<std::uint32_t> first;  // the most preferred SM of every TPC, in priority order
  for (const std::uint32_t id : sm_priority_) {
    const arch::Topology::Sm& sm = topology_.sm(id);
    const bool known = std::any_of(first.begin(), first.end(), [&](std::uint32_t other) {
      return topology_.sm(other).gpc == sm.gpc && topology_.sm(other).tpc == sm.tpc;
    });
    if (!known) first.push_back(id);
  }
  if (tpcs >= first.size()) return;
  std::stable_sort(first.begin(), first.end(), [this, first_gpc, &room](std::uint32_t a, std::uint32_t b) {
    const auto sms = [this, &room](std::uint32_t id) {
      const arch::Topology::Tpc& tpc = topology_.gpc(topology_.sm(id).gpc).tpcs[topology_.sm(id).tpc];
      return room.slots[id] == 0 ? 0 : tpc.sms;
    };
    const auto place = [this, first_gpc](std::uint32_t id) {
      const std::uint32_t gpc = topology_.sm(id).gpc;
      if (first_gpc == kNoLimit) return std::uint32_t{0};
      return gpc >= first_gpc ? gpc - first_gpc : gpc + topology_.gpcs() - first_gpc;
    };
    if ((sms(a) == 0) != (sms(b) == 0)) return sms(b) == 0;  // a closed one costs no credit
    return place(a) != place(b) ? place(a) < place(b) : sms(a) > sms(b);
  });
  for (std::size_t i = tpcs; i < first.size(); ++i) {
    const arch::Topology::Gpc& gpc = topology_.gpc(topology_.sm(first[i]).gpc);
    const arch::Topology::Tpc& tpc = gpc.tpcs[topology_.sm(first[i]).tpc];
    for (std::uint32_t sm = 0; sm < tpc.sms; ++sm) room.slots[gpc.sm_ids[tpc.first_sm + sm]] = 0;
  }
  room.why += fmt::format(", {} for a subcontext", count_text(tpcs, "TPC"));
}

Occupancy EmptyMachine::fill(const Room& room, const ClusterShape& cluster, std::uint32_t size, std::uint64_t units,
                             std::uint32_t cgas_per_gpc) {
  Occupancy result;
  result.gpc_cgas.assign(topology_.gpcs(), 0);
  std::vector<std::uint16_t> left = room.slots;
  if (!cluster.any()) {
    std::vector<std::uint16_t> used = left;
    if (plain_->withholds()) plain_->withhold(used, room.per_sm);
    result.cgas = std::accumulate(used.begin(), used.end(), std::uint64_t{0});
    result.work = {1, 0, tree_levels(topology_.sms()), 0};  // a sum of what all SMs have free
    std::transform(left.begin(), left.end(), used.begin(), left.begin(),
                   [](std::uint16_t all, std::uint16_t taken) { return static_cast<std::uint16_t>(all - taken); });
  } else if (is_domain_wide(cluster)) {
    result.cgas = domain_wide_.place(left, cluster.size(size).count(), units, cluster.outermost()).size();
    result.work = domain_wide_.work();
    left = domain_wide_.left();
  } else {
    const std::vector<std::uint32_t> limits(topology_.gpcs(), cgas_per_gpc);
    for (const ClusterPlacer::Placed& placed : placer_.place(left, gpc_cga_shape_for(cluster, size), cluster.mode,
                                                             limits, request_for(cluster, size, units))) {
      ++result.gpc_cgas[placed.home.gpc];
    }
    result.cgas = placer_.session().placed();
    result.work = placer_.work();
    left = placer_.left();
  }
  result.ctas.assign(topology_.gpcs(), 0);
  result.unused_sms.assign(topology_.gpcs(), 0);
  for (std::uint32_t id = 0; id < topology_.sms(); ++id) {
    const std::uint32_t gpc = topology_.sm(id).gpc;
    result.ctas[gpc] += static_cast<std::uint32_t>(room.slots[id] - left[id]);
    result.unused_sms[gpc] += room.slots[id] == left[id] ? 1 : 0;
  }
  return result;
}

Occupancy EmptyMachine::occupancy(const arch::ResourceVector& need, const ClusterShape& cluster, std::uint32_t size,
                                  bool local_memory) {
  std::uint64_t units = std::numeric_limits<std::uint64_t>::max();
  if (const std::uint32_t barriers = wide_barriers(cluster, size); barriers > 0) {
    units = std::min<std::uint64_t>(units, params_.gpu_cga_barriers / barriers);
  }
  if (cluster.linear_memory) units = std::min<std::uint64_t>(units, params_.memory_slots);
  Occupancy result = fill(room_for(need, local_memory), cluster, size, units, cgas_per_gpc_);
  for (std::uint32_t g = 0; g < topology_.gpcs() && result.cgas == 0 && cluster.any() && limits_tpcs(local_memory);
       ++g) {
    const SearchWork before = result.work;
    result = fill(room_for(need, local_memory, g), cluster, size, units, cgas_per_gpc_);
    result.work += before;
  }
  return result;
}

// One of a smaller CGA has a place wherever one of a larger has.
std::uint32_t EmptyMachine::largest_gpc_cga(const arch::ResourceVector& need, arch::CgaMode mode, bool local_memory,
                                            SearchWork& work) {
  ClusterShape cluster;
  cluster.mode = mode;
  std::uint32_t fits = 0;
  std::uint32_t fails = params_.max_gpc_cga + 1;
  while (fits + 1 < fails) {
    const std::uint32_t size = fits + (fails - fits) / 2;
    cluster.of(CgaLevel::gpc) = {size, 1, 1};
    const Occupancy found = occupancy(need, cluster, 0, local_memory);
    work += found.work;
    (found.cgas > 0 ? fits : fails) = size;
  }
  return fits;
}

bool EmptyMachine::fits(const Room& room, const ClusterShape& cluster, std::uint32_t size) {
  return fill(room, cluster, size, 1, cgas_per_gpc_).cgas > 0;
}

std::string EmptyMachine::why_never_fits(const arch::ResourceVector& need, const ClusterShape& cluster,
                                         bool local_memory) {
  const Room room = room_for(need, local_memory);
  if (room.per_sm == 0) return fmt::format("a CTA is larger than an SM: {}", room.why);
  if (!cluster.any()) return {};
  const char* name = arch::cga_name(cluster.outermost());
  if (const std::uint32_t barriers = wide_barriers(cluster, cluster.sizes() - 1); barriers > params_.gpu_cga_barriers) {
    return fmt::format("a {} takes {} of the GPU, which has {} (gpu_cga_barriers)", name,
                       count_text(barriers, "barrier"), params_.gpu_cga_barriers);
  }
  if (cluster.linear_memory && params_.memory_slots == 0) {
    return fmt::format("a {} with linear memory takes a CGA memory slot, and there is none (memory_slots)", name);
  }
  // The smaller sizes serve where the full one cannot (CWD-21).
  for (std::uint32_t size = 0; size < cluster.sizes(); ++size) {
    if (fits(room, cluster, size)) return {};
    for (std::uint32_t g = 0; g < topology_.gpcs() && limits_tpcs(local_memory); ++g) {
      if (fits(room_for(need, local_memory, g), cluster, size)) return {};
    }
  }
  std::string why = why_too_large(room, cluster);
  if (cluster.sizes() > 1)
    why += fmt::format("; nor does one of its {}", count_text(cluster.sizes() - 1, "smaller size"));
  return why;
}

std::string EmptyMachine::why_not_at_once(const arch::ResourceVector& need, const ClusterShape& cluster,
                                          const arch::Dim3& grid, bool local_memory) {
  const std::uint64_t each = cluster.any() ? cluster.size(0).count() : 1;
  const std::uint64_t most = occupancy(need, cluster, 0, local_memory).cgas * each;
  if (grid.count() <= most) return {};
  return fmt::format("a cooperative grid of {} CTAs is too large: the machine holds {} of them at once, {}",
                     grid.count(), most, room_for(need, local_memory).why);
}

// Of the full size: the innermost CGA that has no place says most.
std::string EmptyMachine::why_too_large(const Room& room, const ClusterShape& cluster) {
  CgaLevel inner = CgaLevel::cpc;
  bool innermost = true;
  for (const CgaLevel level : kInnermostFirst) {
    if (!cluster.has(level)) continue;
    std::string why = innermost ? why_too_few_sms(room, cluster, level) : why_too_few_cgas(room, cluster, level, inner);
    if (!why.empty()) return why;
    inner = level;
    innermost = false;
  }
  return fmt::format("the placement policies find no place for a {} on an empty machine",
                     arch::cga_name(cluster.outermost()));
}

// A CGA of CTAs.
std::string EmptyMachine::why_too_few_sms(const Room& room, const ClusterShape& cluster, CgaLevel level) const {
  const std::uint64_t ctas = cluster.of(level).count();
  std::vector<std::uint32_t> sms;  // with room, by domain
  for (std::uint32_t id = 0; id < topology_.sms(); ++id) {
    if (room.slots[id] == 0) continue;
    const std::uint32_t domain = domain_of(topology_, level, id);
    if (sms.size() <= domain) sms.resize(domain + 1);
    ++sms[domain];
  }
  const std::uint32_t largest = sms.empty() ? 0 : *std::max_element(sms.begin(), sms.end());
  const bool one_each = level <= CgaLevel::gpc && cluster.mode == arch::CgaMode::multicast;
  const std::uint32_t per_sm = one_each ? 1 : room.per_sm;
  const std::uint64_t needed = (ctas + per_sm - 1) / per_sm;
  const char* domain = arch::domain_name(level);
  const std::string cga = fmt::format("a {} of {}", arch::cga_name(level), count_text(ctas, "CTA"));
  if (needed > largest) {
    const std::string each =
        one_each && room.per_sm > 1 ? std::string("1 CTA of it per SM (multicast mode)") : room.why;
    const std::string where = level == CgaLevel::gpu
                                  ? fmt::format("; the GPU has {}", largest)
                                  : fmt::format(" of one {}; the largest {} has {}", domain, domain, largest);
    return fmt::format("{} with {} needs {}{}", cga, each, count_text(needed, "SM"), where);
  }
  if (level <= CgaLevel::gpc && cgas_per_gpc_ == 0) {
    return fmt::format("{} takes an id and a barrier of its GPC, and a GPC has none", cga);
  }
  return {};
}

// A CGA of CGAs of the level `inner`, each of which has a place by itself.
std::string EmptyMachine::why_too_few_cgas(const Room& room, const ClusterShape& cluster, CgaLevel level,
                                           CgaLevel inner) {
  if (fits(room, up_to(cluster, level), 0)) return {};
  const std::uint64_t wanted = cluster.of(level).count() / cluster.of(inner).count();
  const std::uint64_t most = most_in_one(room, cluster, level, inner, cgas_per_gpc_);
  const bool slots_would_do = most_in_one(room, cluster, level, inner, kNoLimit) >= wanted;
  std::string why = ", with " + room.why;
  if (slots_would_do) {
    why = fmt::format(": a GPC has ids and barriers for {}", count_text(cgas_per_gpc_, "GPC_CGA"));
  } else if (level == CgaLevel::gpc && cluster.mode == arch::CgaMode::multicast && room.per_sm > 1) {
    why = ", with 1 CTA of the GPC_CGA per SM (multicast mode)";
  }
  const std::string holds = level == CgaLevel::gpu
                                ? fmt::format("the empty GPU holds {}", most)
                                : fmt::format("no empty {} holds more than {}", arch::domain_name(level), most);
  return fmt::format("a {} of {} of {}: {}{}", arch::cga_name(level), count_text(wanted, arch::cga_name(inner)),
                     count_text(cluster.of(inner).count(), "CTA"), holds, why);
}

// The most CGAs of the level `inner` that one domain of the level `level` holds.
std::uint64_t EmptyMachine::most_in_one(const Room& room, const ClusterShape& cluster, CgaLevel level, CgaLevel inner,
                                        std::uint32_t cgas_per_gpc) {
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  if (level == CgaLevel::gpc) {  // of CPC_CGAs: as a smaller GPC_CGA
    ClusterShape smaller = up_to(cluster, level);
    const auto cpc_ctas = static_cast<std::uint32_t>(cluster.of(inner).count());
    std::uint32_t most = 0;
    do {
      smaller.of(level) = {(most + 1) * cpc_ctas, 1, 1};
    } while (fill(room, smaller, 0, 1, cgas_per_gpc).cgas > 0 && ++most > 0);
    return most;
  }
  const Occupancy inner_cgas = fill(room, up_to(cluster, inner), 0, kAll, cgas_per_gpc);
  if (level == CgaLevel::gpu) return inner_cgas.cgas;
  std::vector<std::uint64_t> by_ugpu(topology_.ugpus(), 0);
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) by_ugpu[topology_.ugpu_of(g)] += inner_cgas.gpc_cgas[g];
  return *std::max_element(by_ugpu.begin(), by_ugpu.end());
}

Admission::Admission(const arch::Topology& topology, const arch::ResourceVector& capacity, const CwdParams& params,
                     std::uint32_t cgas_per_gpc)
    : machine_(topology, params, capacity, cgas_per_gpc), max_gpc_cga_(params.max_gpc_cga) {}

bool Admission::admit(const protocol::TaskPacket& task) {
  if (task.cluster.any() && !arch::why_malformed(task.grid, task.cluster, max_gpc_cga_).empty()) return false;
  if (!machine_.why_never_fits(task.need, task.cluster, task.local_memory()).empty()) return false;
  return !task.cooperative || task.kind != protocol::TaskKind::grid ||
         machine_.why_not_at_once(task.need, task.cluster, task.grid, task.local_memory()).empty();
}

Occupancy occupancy(const arch::Topology& topology, const CwdParams& params, const arch::SmLimits& limits,
                    const arch::KernelShape& kernel, std::uint32_t cgas_per_gpc) {
  EmptyMachine machine(topology, params, arch::capacity_of(limits), cgas_per_gpc);
  return machine.occupancy(arch::need_of(limits, kernel), kernel.cluster, 0, kernel.local_bytes > 0);
}

std::string why_never_fits(const arch::Topology& topology, const CwdParams& params, const arch::SmLimits& limits,
                           const arch::KernelShape& kernel, std::uint32_t cgas_per_gpc) {
  std::string why = arch::why_malformed(kernel.grid, kernel.cluster, params.max_gpc_cga);
  if (why.empty()) why = arch::why_impossible(limits, kernel);
  if (!why.empty()) return why;
  EmptyMachine machine(topology, params, arch::capacity_of(limits), cgas_per_gpc);
  const arch::ResourceVector need = arch::need_of(limits, kernel);
  why = machine.why_never_fits(need, kernel.cluster, kernel.local_bytes > 0);
  if (!why.empty() || !kernel.cooperative) return why;
  return machine.why_not_at_once(need, kernel.cluster, kernel.grid, kernel.local_bytes > 0);
}

}  // namespace heddle::cwd
