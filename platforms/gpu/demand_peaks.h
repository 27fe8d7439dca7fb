// The peaks that CTAs with demands share, from the parameters that programs run under.
#pragma once

#include "arch/topology.h"
#include "fluid/fluid_machine.h"
#include "gpu/gpu_params.h"

namespace heddle::gpu {

// `clock`: GHz.
fluid::FluidMachine fluid_machine(const GpuParams& params, const arch::Topology& topology, double clock);

}  // namespace heddle::gpu
