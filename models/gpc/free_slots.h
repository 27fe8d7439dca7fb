// Numbers that are given out and come back: ids and barrier slots of CGAs, CTA slots of SMs.
#pragma once

#include <array>
#include <cstdint>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::gpc {

constexpr std::uint32_t kMaxCgas = 256;

// Which of up to kMaxCgas numbers are free. The lowest goes first.
class FreeVector {
 public:
  explicit FreeVector(std::uint32_t size) : size_(size) {
    HEDDLE_CHECK(size >= 1 && size <= kMaxCgas, "a free vector of that size does not exist");
    reset();
  }

  bool any() const { return used_ < size_; }
  std::uint32_t used() const { return used_; }
  bool taken(std::uint32_t number) const { return number < size_ && (free_[number / 64] >> number % 64 & 1) == 0; }
  std::uint32_t take() {
    for (std::uint32_t word = 0; word < free_.size(); ++word) {
      if (free_[word] == 0) continue;
      const std::uint32_t bit = bits::lowest(free_[word]);
      free_[word] = bits::without_lowest(free_[word]);
      ++used_;
      return word * 64 + bit;
    }
    HEDDLE_CHECK(false, "a number was taken from a free vector that has none");
    return 0;
  }
  void give(std::uint32_t number) {
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    HEDDLE_CHECK(number < size_ && (free_[number / 64] & bit) == 0, "a number was freed that is not in use");
    free_[number / 64] |= bit;
    --used_;
  }
  void reset() {
    used_ = 0;
    free_.fill(0);
    for (std::uint32_t number = 0; number < size_; ++number) free_[number / 64] |= std::uint64_t{1} << number % 64;
  }

 private:
  std::uint32_t size_;
  std::uint32_t used_ = 0;
  std::array<std::uint64_t, kMaxCgas / 64> free_{};
};

// CTA slots of one SM: which are in use (CGA-03).
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
