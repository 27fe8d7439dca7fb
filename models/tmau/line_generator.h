// From a request to its line requests (TMA-15, TMA-42). Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "arch/mbarrier.h"
#include "arch/tensor_data.h"
#include "arch/tensor_descriptor.h"
#include "tmau/tmau_params.h"

namespace heddle::tmau {

__extension__ using WideAddress = __int128;  // a coordinate times a stride may have 72 bits

// The rows of a box in the order in which shared memory takes them (TMA-10, TMA-11). Plain C++.

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
  void start(std::uint64_t base, std::int64_t offset) {
    base_ = base;
    offset_ = offset;
    address_ = base + static_cast<std::uint64_t>(offset);
  }
  // The next dimension outwards, at its first coordinate. Its address is added to the one of the rows.
  void add(const RowLoop& loop) {
    address_ += static_cast<std::uint64_t>(loop.at) * loop.step;
    if (loop.outside()) outside_ |= 1U << loops_;
    loop_[loops_++] = loop;
  }
  // The same for the only loop, at another coordinate.
  void go_to(std::int64_t at) {
    RowLoop& loop = loop_[0];
    address_ += static_cast<std::uint64_t>(at - loop.at) * loop.step;
    loop.at = at;
    outside_ = static_cast<std::uint32_t>(loop.outside());
  }
  // From here on the innermost loop goes on for ever.
  void unbind() { loop_[0].end = std::numeric_limits<std::int64_t>::max(); }
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
  // The same without wrapping.
  WideAddress true_address() const {
    WideAddress sum = WideAddress{base_} + offset_;
    for (std::uint32_t i = 0; i < loops_; ++i) sum += WideAddress{loop_[i].at} * loop_[i].step;
    return sum;
  }
  // No coordinate but that along the row is outside the tensor.
  bool inside() const { return outside_ == 0; }

 private:
  std::array<RowLoop, arch::kTensorRank> loop_{};
  std::uint32_t loops_ = 0;
  std::uint32_t outside_ = 0;  // a bit for each loop
  std::uint64_t base_ = 0;
  std::int64_t offset_ = 0;
  std::uint64_t address_ = 0;
};

// From a box of a tensor, or a block, to pieces within lines of the L2 (TMA-10, TMA-11, TMA-15). Plain C++.

// Gives the pieces of a box in the order in which shared memory is filled. Elements that follow each other in device
// memory and in shared memory, and lie in one line, are one piece; so are those outside the tensor, whose addresses go
// on by the same sums. So a box comes to as few pieces as its alignment allows. The work of a piece does not depend on
// the number of its elements.
class TensorWalk {
 public:
  TensorWalk() = default;
  // The descriptor breaks no rule. `shared`: offset of the box in the CTA's shared memory. `four_rows`: a row each of
  // the four rows that coordinates 1 to 4 name (TMA-44).
  TensorWalk(const arch::TensorDescriptor& descriptor, const std::array<std::int32_t, arch::kTensorRank>& coordinates,
             std::uint16_t offsets, std::uint32_t shared, bool four_rows = false);

  // False: there was no other.
  bool next(arch::TensorPiece& piece);

  // im2col: the filter base position (the coordinates without offsets) is not in the bounding box; the formula is
  // applied as it stands (TMA-11).
  bool outside_box() const { return outside_box_; }
  // Every byte of the tensor that it is still to take lies below `memory`. Goes through all rows.
  bool lies_within(std::uint64_t memory) const;

 private:
  using Coordinates = std::array<std::int32_t, arch::kTensorRank>;

  void set_row(const arch::TensorDescriptor& descriptor, std::int64_t first, std::uint32_t elements);
  void add_slices(const arch::TensorDescriptor& descriptor, std::int64_t first, std::uint32_t elements,
                  std::uint32_t traversal);
  void add_tile(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates);
  void add_rows(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates);
  void add_column(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates, std::uint16_t offsets);
  void add_wide_column(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates, std::uint16_t offsets);
  void next_row();
  // Appends the next `bytes` of the row, which the piece has room for.
  void take(arch::TensorPiece& piece, std::uint32_t bytes);

  RowWalk rows_;
  std::uint64_t rows_left_ = 0;
  std::uint32_t row_bytes_ = 0;
  std::uint32_t row_at_ = 0;        // bytes of the current row that have been given
  std::uint32_t inside_from_ = 0;   // bytes of the row whose coordinate along it is inside the tensor
  std::uint32_t inside_until_ = 0;  // exclusive
  std::uint32_t shared_ = 0;
  std::uint8_t padded_group_ = 0;  // arch::TensorPiece::group
  bool outside_box_ = false;
  // Four rows: the ones that follow.
  std::array<std::int32_t, 3> rows_to_come_{};
  std::uint32_t named_rows_ = 0;
  // A column along W (TMA-44): after each `group_` pixels come `halo_` further ones, for which W goes on beyond the
  // box; then the walk goes on where it was.
  std::uint32_t group_ = 0;
  std::uint32_t group_left_ = 0;
  std::uint32_t halo_ = 0;
  std::uint32_t halo_left_ = 0;
  RowWalk before_halo_;
};

// The same for a block of 16-byte units.
class BlockWalk {
 public:
  BlockWalk() = default;
  // `address` is a multiple of 16. `byte_mask`: bytes of each 16 that count.
  BlockWalk(std::uint64_t address, std::uint64_t blocks, std::uint32_t shared, std::uint16_t byte_mask = 0xFFFF);
  // Pieces also end where lines of the destination do; a piece goes to `to` + (its address - `address`), and `shared`
  // means nothing.
  BlockWalk(std::uint64_t address, std::uint64_t to, std::uint64_t blocks);

  bool next(arch::TensorPiece& piece);

 private:
  std::uint64_t address_ = 0;
  std::uint64_t other_ = 0;  // the address whose line ends a piece as well: the destination, or the same address
  std::uint64_t blocks_ = 0;
  std::uint32_t shared_ = 0;
  std::uint64_t mask_ = ~std::uint64_t{0};  // four times byte_mask
};

struct Line {
  arch::TensorPiece piece;
  // Prefetch: the sectors of the line that are wanted; 0: none, as all of it is outside the tensor.
  std::uint8_t sectors = 0;
  // Prefetch: of all pieces that it stands for, and those of them that are inside the tensor.
  std::uint32_t bytes = 0;
  std::uint32_t used = 0;
};

// Has the next line in hand, so that the last one is known as the last.
class LineGenerator {
 public:
  // Without lines.
  LineGenerator() = default;
  // A block.
  LineGenerator(const arch::BulkRequest& request, PrefetchUnit unit);
  // A tensor, by a descriptor that breaks no rule.
  LineGenerator(const arch::BulkRequest& request, const arch::TensorDescriptor& descriptor, PrefetchUnit unit);

  bool done() const { return done_; }
  const Line& line() const { return line_; }
  // The piece so many behind the next one, if there is one: of what is no prefetch.
  const arch::TensorPiece* look(std::uint32_t ahead) {
    for (; looked_ <= ahead; ++looked_) {
      if (!walk_on(coming_[(first_ + looked_) % kLook])) return nullptr;
    }
    return &coming_[(first_ + ahead) % kLook];
  }
  void advance() {
    if (prefetch_) {
      done_ = !next_prefetch();
    } else {
      done_ = !walk(line_.piece);
    }
  }

 private:
  void begin(const arch::BulkRequest& request, PrefetchUnit unit);
  bool walk(arch::TensorPiece& piece) {
    if (looked_ == 0) return walk_on(piece);
    piece = coming_[first_ % kLook];
    ++first_;
    --looked_;
    return true;
  }
  bool walk_on(arch::TensorPiece& piece) {
    if (to_) return next_copied(piece);
    return tensor_ ? tensors_.next(piece) : blocks_.next(piece);
  }
  bool next_copied(arch::TensorPiece& piece);
  bool next_prefetch();

  TensorWalk tensors_;
  BlockWalk blocks_;
  std::optional<std::uint64_t> to_;  // a box of a tensor goes to that address
  arch::TensorPiece rest_;           // then: of a piece of the walk
  Line line_;
  Line held_;                                    // prefetch: taken from the walk, and not part of line_
  static constexpr std::uint32_t kLook = 16;     // pieces
  std::array<arch::TensorPiece, kLook> coming_;  // taken from the walk, from first_ on
  std::uint32_t first_ = 0;
  std::uint32_t looked_ = 0;
  bool tensor_ = false;
  bool prefetch_ = false;
  bool whole_lines_ = false;
  bool holds_ = false;
  bool done_ = true;
};

}  // namespace heddle::tmau
