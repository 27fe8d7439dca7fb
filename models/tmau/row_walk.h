// The rows of a box in the order in which shared memory takes them (TMA-10, TMA-11). Plain C++.
#pragma once

#include <array>
#include <cstdint>

#include "arch/tensor_descriptor.h"

namespace heddle::tmau {

// One loop of the walk: a dimension. A tile goes back to where it began; a column of im2col goes back to the side of
// its bounding box, and may have begun elsewhere.
struct RowLoop {
  std::int64_t at = 0;        // coordinate: 64 bits, as start + box may be beyond 2^31
  std::int64_t begin = 0;     // after `end`, on from here
  std::int64_t end = 0;       // exclusive
  std::uint64_t size = 0;     // of the tensor
  std::uint64_t advance = 0;  // bytes for one step
  std::uint64_t step = 0;     // bytes from one element to the next
  std::uint32_t stride = 1;   // elements

  bool outside() const { return static_cast<std::uint64_t>(at) >= size; }  // negative ones wrap far above
};

// An odometer. Sums of addresses wrap: only rows with elements inside the tensor have to have one that exists.
class RowWalk {
 public:
  void start(std::uint64_t address) { address_ = address; }
  // The next dimension outwards, at its first coordinate. Its address is added to the one of the rows.
  void add(const RowLoop& loop) {
    address_ += static_cast<std::uint64_t>(loop.at) * loop.step;
    if (loop.outside()) outside_ |= 1U << loops_;
    loop_[loops_++] = loop;
  }
  // To the next row. The caller knows how many there are: the outermost loop never comes to its end.
  void next() {
    for (std::uint32_t i = 0;; ++i) {
      RowLoop& loop = loop_[i];
      const std::int64_t at = loop.at + loop.stride;
      const bool back = at >= loop.end;
      address_ += back ? static_cast<std::uint64_t>(loop.begin - loop.at) * loop.step : loop.advance;
      loop.at = back ? loop.begin : at;
      outside_ = (outside_ & ~(1U << i)) | static_cast<std::uint32_t>(loop.outside()) << i;
      if (!back) return;
    }
  }

  std::uint64_t address() const { return address_; }
  // No coordinate but that along the row is outside the tensor.
  bool inside() const { return outside_ == 0; }

 private:
  std::array<RowLoop, arch::kTensorRank> loop_{};
  std::uint32_t loops_ = 0;
  std::uint32_t outside_ = 0;  // a bit for each loop
  std::uint64_t address_ = 0;
};

}  // namespace heddle::tmau
