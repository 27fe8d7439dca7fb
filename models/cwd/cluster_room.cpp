#include "cwd/cluster_room.h"

#include <algorithm>

#include "cwd/cluster_place.h"

namespace heddle::cwd {
namespace {

using arch::CgaLevel;
using arch::ClusterShape;

// The outermost CGA takes a barrier of the GPU.
bool gpu_level(const ClusterShape& cluster) {
  return cluster.any() && static_cast<std::size_t>(cluster.outermost()) >= static_cast<std::size_t>(CgaLevel::ugpu);
}

}  // namespace

WaitReason ClusterRoom::limit(const TaskEntry& entry, std::uint32_t size, std::uint64_t& units) const {
  const ClusterShape& cluster = entry.task.cluster;
  const std::uint64_t full = entry.unit_ctas(0);
  const std::uint64_t ctas = entry.unit_ctas(size);
  std::uint64_t left = entry.left();
  if (entry.split()) {
    left = full - entry.placed % full;
  } else if (size > 0) {
    left = full;  // only as much as the one CGA that is being split
  }
  units = std::min(left / ctas, std::max<std::uint64_t>(1, session_limit_ / ctas));
  if (cluster.linear_memory) {
    units = std::min<std::uint64_t>(units, ledger_.memory_slots(entry.task.subcontext));
    if (units == 0) return WaitReason::memory_slot;
  }
  if (gpu_level(cluster)) {
    units = std::min<std::uint64_t>(units, ledger_.gpu_barriers());
    if (units == 0) return WaitReason::gpu_barrier;
  }
  return WaitReason::none;
}

std::uint32_t ClusterRoom::on_gpc(const TaskEntry& entry, std::uint32_t size, std::uint32_t gpc) const {
  return std::min(ledger_.gpc_cgas(gpc), entry.room.at(size, gpc));
}

ClusterRoom::Free ClusterRoom::free_on(std::uint32_t gpc, const std::vector<std::uint16_t>& slots) const {
  Free free;
  for (const std::uint32_t sm : topology_.gpc(gpc).sm_ids) {
    free.slots += slots[sm];
    free.sms += slots[sm] > 0 ? 1 : 0;
  }
  return free;
}

bool ClusterRoom::could_hold(const TaskEntry& entry, std::uint32_t size,
                             const std::vector<std::uint16_t>& slots) const {
  if (is_domain_wide(entry.task.cluster)) {
    std::uint64_t free = 0;
    for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) free += free_on(g, slots).slots;
    return free >= entry.unit_ctas(size);
  }
  const SessionRequest request = request_for(entry.task.cluster, size, 1);
  const std::uint64_t gpc_ctas = gpc_cga_shape_for(entry.task.cluster, size).ctas;
  const std::uint64_t cgas = std::max<std::uint64_t>(1, request.ugpu_cgas) * request.gpc_cgas;
  std::uint64_t homes = 0;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const Free free = free_on(g, slots);
    if (free.for_one(entry) < gpc_ctas) continue;
    homes += std::min<std::uint64_t>(on_gpc(entry, size, g), free.slots / gpc_ctas);
  }
  return homes >= cgas;
}

WaitReason ClusterRoom::why_no_home(const TaskEntry& entry, std::uint32_t size,
                                    const std::vector<std::uint16_t>& slots) const {
  if (is_domain_wide(entry.task.cluster)) return WaitReason::free_slots;
  const std::uint64_t gpc_ctas = gpc_cga_shape_for(entry.task.cluster, size).ctas;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    if (on_gpc(entry, size, g) > 0 || free_on(g, slots).for_one(entry) < gpc_ctas) continue;
    return ledger_.gpc_cgas(g) == 0 ? WaitReason::cga_ids : WaitReason::flush;
  }
  return WaitReason::free_slots;
}

}  // namespace heddle::cwd
