#include "gpu/residency.h"

#include <algorithm>

namespace heddle::gpu {
namespace {

arch::Topology topology_of(const GpuParams& params) {
  return arch::Topology(params.machine.shape, params.machine.ugpus);
}

std::uint32_t cgas_per_gpc(const GpuParams& params) { return std::min(params.gpc.cga_ids, params.gpc.cga_barriers); }

}  // namespace

cwd::Occupancy residency(const GpuParams& params, const arch::KernelShape& kernel) {
  return cwd::occupancy(topology_of(params), params.cwd, params.sm.limits, kernel, cgas_per_gpc(params));
}

cwd::Occupancy residency_without_ids(const GpuParams& params, const arch::KernelShape& kernel) {
  return cwd::occupancy(topology_of(params), params.cwd, params.sm.limits, kernel);
}

std::string why_never_fits(const GpuParams& params, const arch::KernelShape& kernel) {
  std::string why = arch::why_impossible(params.sm.limits, kernel);
  if (!why.empty()) return why + " (of an SM)";
  if (!kernel.cluster.any()) return {};
  return cwd::why_never_fits(topology_of(params), params.cwd, params.sm.limits, kernel, cgas_per_gpc(params));
}

}  // namespace heddle::gpu
