// What one follower of the launches knows of one grid: where in it the CTAs stand that it starts (CWD-41, CWD-42).
#pragma once

#include <cstdint>

#include "arch/raster.h"
#include "common/error.h"

namespace heddle::gpc {

class RasterFollower {
 public:
  // Follows the grid from its start.
  RasterFollower(std::uint32_t operation, const arch::RasterShape& shape, std::uint32_t delta_bits)
      : operation_(operation), unit_(arch::raster_unit(shape)), counter_(arch::raster_extents(shape), delta_bits) {}

  std::uint32_t operation() const { return operation_; }

  // State synchronisation: the outermost CGA in which that position of the launch order lies has that coordinate.
  void join(std::uint64_t position, const arch::Coord& outermost) {
    counter_.sync(outermost);
    next_ = position / unit_;
    in_unit_ = false;
  }

  // The id of the own CTA at that position, not before that of the last call. What others have started in between is
  // in the delta by then: the positions come from the one ordered record of the launches (CWD-35).
  arch::CtaId locate(const arch::RasterShape& shape, std::uint64_t position) {
    const std::uint64_t unit = unit_ == 1 ? position : position / unit_;
    if (!in_unit_ || unit != next_ - 1) {
      HEDDLE_CHECK(unit >= next_, "a launch stands before one that has been followed");
      overflows_ += counter_.advance(unit - next_);
      outermost_ = counter_.take();
      ++updates_;
      next_ = unit + 1;
      in_unit_ = true;
    }
    return arch::resolve(shape, outermost_, position - unit * unit_);
  }

  std::uint64_t updates() const { return updates_; }      // decompositions for own launches
  std::uint64_t overflows() const { return overflows_; }  // of the delta counter

 private:
  std::uint32_t operation_;
  std::uint64_t unit_;           // CTAs of an outermost CGA
  arch::RasterCounter counter_;  // of outermost CGAs
  std::uint64_t next_ = 0;       // the outermost CGA that the counter stands at
  bool in_unit_ = false;         // the one before it is that of the last own CTA, and outermost_ its coordinate
  arch::Coord outermost_;
  std::uint64_t updates_ = 0;
  std::uint64_t overflows_ = 0;
};

}  // namespace heddle::gpc
