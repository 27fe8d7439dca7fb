#include "sm/cta_setup.h"

#include <algorithm>

namespace heddle::sm {

Cycle CtaSetup::launch(std::uint32_t partition, Cycle from, std::uint32_t registers) {
  if (!timed_) return from;
  const Cycle rows =
      params_.register_rows == 0 ? 0 : (Cycle{registers} + params_.register_rows - 1) / params_.register_rows;
  const Cycle takes = std::max<Cycle>(rows, params_.warp_cycles);
  if (takes == 0) return from;
  const Cycle begin = std::max(from, free_[partition]);
  free_[partition] = begin + takes;
  return begin + rows;  // the interval is the next warp's, registers are its own
}

}  // namespace heddle::sm
