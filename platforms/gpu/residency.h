// What a machine holds of a kernel: from the code that places CTAs and clusters (CWD-24, CWD-25).
#pragma once

#include <string>

#include "cwd/occupancy.h"
#include "gpu/gpu_params.h"

namespace heddle::gpu {

// Outermost clusters of the kernel that an empty machine holds at once; of a plain grid: CTAs.
cwd::Occupancy residency(const GpuParams& params, const arch::KernelShape& kernel);

// The same if GPCs had ids and barriers for any number of clusters.
cwd::Occupancy residency_without_ids(const GpuParams& params, const arch::KernelShape& kernel);

// Why the machine can never run the kernel, naming the resource and the domain; empty if it can.
std::string why_never_fits(const GpuParams& params, const arch::KernelShape& kernel);

}  // namespace heddle::gpu
