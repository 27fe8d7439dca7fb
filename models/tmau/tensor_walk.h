// From a box of a tensor, or a block, to pieces within lines of the L2 (TMA-10, TMA-11, TMA-15). Plain C++.
#pragma once

#include <array>
#include <cstdint>

#include "arch/bulk.h"
#include "arch/tensor_descriptor.h"
#include "arch/tensor_piece.h"
#include "tmau/row_walk.h"

namespace heddle::tmau {

// Gives the pieces of a box in the order in which shared memory is filled. Elements that follow each other in device
// memory and in shared memory, and lie in one line, are one piece; so are those outside the tensor, whose addresses go
// on by the same sums. So a box comes to as few pieces as its alignment allows. The work of a piece does not depend on
// the number of its elements.
class TensorWalk {
 public:
  TensorWalk() = default;
  // The descriptor breaks no rule. `shared`: offset of the box in the CTA's shared memory.
  TensorWalk(const arch::TensorDescriptor& descriptor, const std::array<std::int32_t, arch::kTensorRank>& coordinates,
             std::uint16_t offsets, std::uint32_t shared);

  // False: there was no other.
  bool next(arch::TensorPiece& piece);

  // im2col: the filter base position (the coordinates without offsets) is not in the bounding box; the formula is
  // applied as it stands (TMA-11).
  bool outside_box() const { return outside_box_; }

 private:
  using Coordinates = std::array<std::int32_t, arch::kTensorRank>;

  void set_row(const arch::TensorDescriptor& descriptor, std::int64_t first, std::uint32_t elements);
  void add_slices(const arch::TensorDescriptor& descriptor, std::int64_t first, std::uint32_t elements,
                  std::uint32_t traversal);
  void add_tile(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates);
  void add_column(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates, std::uint16_t offsets);
  // Appends the next `bytes` of the row, which the piece has room for.
  void take(arch::TensorPiece& piece, std::uint32_t bytes);

  RowWalk rows_;
  std::uint64_t rows_left_ = 0;
  std::uint32_t row_bytes_ = 0;
  std::uint32_t row_at_ = 0;        // bytes of the current row that have been given
  std::uint32_t inside_from_ = 0;   // bytes of the row whose coordinate along it is inside the tensor
  std::uint32_t inside_until_ = 0;  // exclusive
  std::uint32_t shared_ = 0;
  bool outside_box_ = false;
};

// The same for a block of 16-byte units.
class BlockWalk {
 public:
  BlockWalk() = default;
  // `address` is a multiple of 16.
  BlockWalk(std::uint64_t address, std::uint64_t blocks, std::uint32_t shared);
  // Pieces also end where lines of the destination do; a piece goes to `to` + (its address - `address`), and `shared`
  // means nothing.
  BlockWalk(std::uint64_t address, std::uint64_t to, std::uint64_t blocks);

  bool next(arch::TensorPiece& piece);

 private:
  std::uint64_t address_ = 0;
  std::uint64_t other_ = 0;  // the address whose line ends a piece as well: the destination, or the same address
  std::uint64_t blocks_ = 0;
  std::uint32_t shared_ = 0;
};

}  // namespace heddle::tmau
