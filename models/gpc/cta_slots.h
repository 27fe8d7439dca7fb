// CTA slots of one SM: which are in use (CGA-03).
#pragma once

#include <cstdint>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::gpc {

class CtaSlots {
 public:
  // 1 … 64 slots.
  explicit CtaSlots(std::uint32_t slots) : all_(bits::below(slots)), free_(all_) {}

  // The lowest free slot; there must be one.
  std::uint32_t take() {
    HEDDLE_CHECK(free_ != 0, "a CTA was launched on an SM whose CTA slots are all in use");
    const std::uint32_t slot = bits::lowest(free_);
    free_ = bits::without_lowest(free_);
    return slot;
  }
  void give(std::uint32_t slot) {
    const std::uint64_t bit = bits::one(slot);
    HEDDLE_CHECK((all_ & bit) != 0 && (free_ & bit) == 0, "a CTA slot was freed that is not in use");
    free_ |= bit;
  }
  std::uint32_t used() const { return bits::count(all_ & ~free_); }
  void reset() { free_ = all_; }

 private:
  std::uint64_t all_;
  std::uint64_t free_;
};

}  // namespace heddle::gpc
