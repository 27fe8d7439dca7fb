// Parameters in which a machine differs from the recorded one, and which cannot change what a replay does there:
// nothing that the replay reads of the machine is different.
#pragma once

#include <string>
#include <vector>

#include "arch/demand.h"
#include "gpu/gpu_params.h"

namespace heddle::replay {

struct IdleParameters {
  std::vector<std::string> paths;  // "gpu.sm.issue.tensor_flops"
  // The same, but that they stand on the way of the front end's own accesses to memory: "gpu.hbm.pin_rate".
  std::vector<std::string> front_end;
};

// Of kernels with durations or with these demands, on the chosen machine. They run no instructions, so that units,
// caches and memory are there for demands alone: each parameter of these is put back to its recorded value, and what
// the fluid model then reads of the machine is compared, for each of the demands. Of other parameters none is told:
// launches, streams and copies read them.
IdleParameters idle_parameters(const gpu::GpuParams& recorded, const gpu::GpuParams& chosen,
                               const std::vector<const arch::Demand*>& demands);

}  // namespace heddle::replay
