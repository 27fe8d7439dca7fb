// What it takes to set a CTA up on an SM, beyond a constant: its warps, their registers and its shared memory.
#pragma once

#include <array>
#include <cstdint>

#include "common/cycle.h"
#include "sm/sm_params.h"

namespace heddle::sm {

// A partition launches one warp after another, those of different CTAs included: who comes later waits for its launch
// unit. Shared memory of a CTA is made ready before its first warp is launched.
class CtaSetup {
 public:
  // `timed`: approximately; loosely timed, a CTA is set up at once.
  CtaSetup(const SetupParams& params, bool timed) : params_(params), timed_(timed) {}

  // When warps of a CTA with so much shared memory can be launched, given that it could begin at `from`.
  Cycle shared_ready(Cycle from, std::uint32_t shared_bytes) const {
    if (!timed_ || params_.shared_rate == 0) return from;
    return from + (Cycle{shared_bytes} + params_.shared_rate - 1) / params_.shared_rate;
  }
  // When a warp with so many registers per lane can issue in that partition, if its launch could begin at `from`.
  Cycle launch(std::uint32_t partition, Cycle from, std::uint32_t registers);
  void reset() { free_.fill(0); }

 private:
  const SetupParams& params_;
  const bool timed_;
  std::array<Cycle, kSubPartitions> free_{};  // when the partition's launch unit can begin with another warp
};

}  // namespace heddle::sm
