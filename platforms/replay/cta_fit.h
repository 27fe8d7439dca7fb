// How long the CTAs of a recorded kernel must run for the recorded machine to reproduce the kernel's duration.
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "gpu/gpu_params.h"

namespace heddle::replay {

// The duration of a kernel that has the machine to itself, in closed form: launches limited by the distributor's port
// or by the slots of the machine, whichever is slower. All times in cycles.
class SoloKernel {
 public:
  // The kernel must be able to run on the machine, and so must its clusters.
  SoloKernel(const gpu::GpuParams& params, const arch::KernelShape& kernel);

  // From the first launch packet to the last completion, for CTAs of `cta_cycles`. Grows with cta_cycles.
  double duration(double cta_cycles) const;
  // The CTA duration, at least 1, with which duration() comes closest to `cycles`.
  std::uint64_t fit(double cycles) const;

 private:
  double ctas_;
  double sms_;
  double slots_;      // CTAs that the whole machine holds: with clusters, those of all that can be resident at once
  double interval_;   // between two CTAs at the launch port
  double packet_;     // CTAs of a large launch packet: one on every SM of a GPC, or all of a GPC_CGA
  double way_there_;  // launch packet to first instruction
  double way_back_;   // last instruction to completion at the distributor: of the CTA, or of its flushed cluster
  double session_;
  bool clustered_;
};

}  // namespace heddle::replay
