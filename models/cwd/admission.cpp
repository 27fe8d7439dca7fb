#include "cwd/admission.h"

namespace heddle::cwd {

using arch::CgaLevel;
using arch::ClusterShape;

Admission::Admission(const arch::Topology& topology, const arch::ResourceVector& capacity, const CwdParams& params,
                     std::uint32_t cgas_per_gpc)
    : machine_(topology, params, capacity, cgas_per_gpc), gpcs_(topology.gpcs()), max_gpc_cga_(params.max_gpc_cga) {}

bool Admission::admit(const protocol::TaskPacket& task, std::vector<std::uint32_t>& room) {
  room.clear();
  if (!task.cluster.any()) return machine_.why_never_fits(task.need, task.cluster, task.local_memory).empty();
  if (!arch::why_malformed(task.grid, task.cluster, max_gpc_cga_).empty()) return false;
  if (!machine_.why_never_fits(task.need, task.cluster, task.local_memory).empty()) return false;
  if (!task.cluster.has(CgaLevel::gpc)) return true;
  // GPC_CGAs alone, whatever they are part of.
  ClusterShape inner;
  inner.of(CgaLevel::gpc) = task.cluster.of(CgaLevel::gpc);
  inner.of(CgaLevel::cpc) = task.cluster.of(CgaLevel::cpc);
  inner.mode = task.cluster.mode;
  const bool sized = task.cluster.outermost() == CgaLevel::gpc;
  if (sized) inner.fallback = task.cluster.fallback;
  for (std::uint32_t size = 0; size < inner.sizes(); ++size) {
    const Occupancy full = machine_.occupancy(task.need, inner, size);
    room.insert(room.end(), full.gpc_cgas.begin(), full.gpc_cgas.end());
  }
  return true;
}

}  // namespace heddle::cwd
