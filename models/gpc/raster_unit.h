// The raster unit of an MPC: a raster state for each slot of the task table, and a divider and an adder that they share
// (CWD-41, CWD-42). A state is the coordinate of an outermost CGA, moved on by what a delta counter has gathered: the
// unit knows no position in the grid but that.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "arch/raster.h"
#include "common/cycle.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

class RasterUnit {
 public:
  // `delta_bits`: width of the delta counters, 1 … 63: of more than fits, the divider sees the low bits only. `divide`:
  // cycles that it takes for a delta, `deliver`: for an id.
  RasterUnit(std::uint32_t delta_bits, Cycle divide, Cycle deliver);

  // What has arrived in a cycle is taken as soon as the unit is free. Returns when; the unit is busy from then on.
  Cycle take(Cycle arrival);
  // The state of the slot goes on: each of its deltas is decomposed and added with carries, which takes the divider's
  // time. Returns how often it has divided.
  std::uint32_t follow(std::uint32_t slot, const arch::RasterShape& shape, const protocol::RasterStep& step);
  // Of a plain grid: the CTA after the current one is launched here as well.
  std::uint32_t go_on(std::uint32_t slot, const arch::RasterShape& shape);
  // Coordinate of the outermost CGA or, without CGAs, of the CTA.
  const arch::Coord& current(std::uint32_t slot) { return at(slot); }
  // An id is delivered. Returns when.
  Cycle deliver();
  // Cycles of work since the last call.
  Cycle count_busy() { return std::exchange(busy_, 0); }
  void reset();

 private:
  arch::Coord& at(std::uint32_t slot);

  const std::uint64_t full_;  // a counter stays below
  const Cycle divide_;
  const Cycle deliver_;
  std::vector<arch::Coord> states_;  // by slot of the task table
  Cycle free_ = 0;
  Cycle busy_ = 0;
};

}  // namespace heddle::gpc
