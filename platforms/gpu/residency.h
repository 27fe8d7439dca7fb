// What a machine holds of a kernel: from the code that places CTAs and clusters (CWD-24, CWD-25).
#pragma once

#include <algorithm>
#include <string>

#include "cwd/occupancy.h"
#include "gpu/gpu_params.h"

namespace heddle::gpu {

inline arch::Topology topology_of(const GpuParams& params) {
  return arch::Topology(params.machine.shape, params.machine.ugpus);
}

inline std::uint32_t cgas_per_gpc(const GpuParams& params) {
  return std::min(params.gpc.cga_ids, params.gpc.cga_barriers);
}

// Outermost clusters of the kernel that an empty machine holds at once; of a plain grid: CTAs.
inline cwd::Occupancy residency(const GpuParams& params, const arch::KernelShape& kernel) {
  return cwd::occupancy(topology_of(params), params.cwd, params.sm.limits, kernel, cgas_per_gpc(params));
}

// What residency() would be if GPCs had ids and barriers for any number of clusters.
inline cwd::Occupancy residency_without_ids(const GpuParams& params, const arch::KernelShape& kernel) {
  return cwd::occupancy(topology_of(params), params.cwd, params.sm.limits, kernel);
}

// Why the machine can never run the kernel, naming the resource and the domain; empty if it can.
inline std::string why_never_fits(const GpuParams& params, const arch::KernelShape& kernel) {
  std::string why = arch::why_impossible(params.sm.limits, kernel);
  if (!why.empty()) return why + " (of an SM)";
  if (!kernel.cluster.any()) return {};
  return cwd::why_never_fits(topology_of(params), params.cwd, params.sm.limits, kernel, cgas_per_gpc(params));
}

}  // namespace heddle::gpu
