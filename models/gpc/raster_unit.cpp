#include "gpc/raster_unit.h"

#include <algorithm>

namespace heddle::gpc {

RasterUnit::RasterUnit(std::uint32_t delta_bits, Cycle divide, Cycle deliver)
    : full_(std::uint64_t{1} << delta_bits), divide_(divide), deliver_(deliver) {}

arch::Coord& RasterUnit::at(std::uint32_t slot) {
  if (slot >= states_.size()) states_.resize(slot + 1);
  return states_[slot];
}

Cycle RasterUnit::take(Cycle arrival) { return free_ = std::max(free_, arrival); }

std::uint32_t RasterUnit::follow(std::uint32_t slot, const arch::RasterShape& shape, const protocol::RasterStep& step) {
  arch::Coord& state = at(slot);
  if (step.fresh) state = {};
  if (step.told) state = *step.told;
  const std::uint64_t delta = step.delta & (full_ - 1);
  const std::uint64_t units = step.overflows * full_ + delta;
  if (units > 0) state = arch::advanced(state, units, arch::raster_extents(shape));
  const std::uint32_t divisions = step.overflows + (delta > 0 ? 1U : 0U);
  free_ += divisions * divide_;
  busy_ += divisions * divide_;
  return divisions;
}

std::uint32_t RasterUnit::go_on(std::uint32_t slot, const arch::RasterShape& shape) {
  protocol::RasterStep step;
  step.delta = 1;
  return follow(slot, shape, step);
}

Cycle RasterUnit::deliver() {
  const Cycle ready = free_;
  free_ += deliver_;
  busy_ += deliver_;
  return ready;
}

void RasterUnit::reset() {
  states_.clear();
  free_ = busy_ = 0;
}

}  // namespace heddle::gpc
