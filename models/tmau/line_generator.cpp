#include "tmau/line_generator.h"

#include <algorithm>
#include <limits>

#include "common/error.h"

namespace heddle::tmau {

namespace {

// Bytes from the address to the end of its line.
std::uint32_t room(std::uint64_t address) {
  return arch::kLineBytes - static_cast<std::uint32_t>(address % arch::kLineBytes);
}

using arch::kLineBytes;
using arch::kSectorBytes;
using arch::kSectorsPerLine;

// Sectors of its line in which the piece has bytes of the tensor.
std::uint8_t sectors_of(const arch::TensorPiece& piece) {
  const auto offset = static_cast<std::uint32_t>(piece.address % kLineBytes);
  std::uint32_t result = 0;
  for (std::uint32_t sector = 0; sector < kSectorsPerLine; ++sector) {
    const std::uint32_t begin = sector * kSectorBytes;
    const std::uint32_t end = begin + kSectorBytes;
    if (end <= offset || begin >= offset + piece.bytes) continue;
    const arch::ByteMask part =
        arch::ByteMask::range(std::max(begin, offset) - offset, std::min(end, offset + piece.bytes) - offset);
    if (((part.low & piece.inside.low) | (part.high & piece.inside.high)) != 0) result |= 1U << sector;
  }
  return static_cast<std::uint8_t>(result);
}

}  // namespace

TensorWalk::TensorWalk(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates, std::uint16_t offsets,
                       std::uint32_t shared, bool four_rows)
    : shared_(shared) {
  HEDDLE_CHECK(descriptor.rank >= 1 && descriptor.rank <= arch::kTensorRank, "the walk got a descriptor without check");
  const bool im2col = arch::is_column(descriptor.mode);
  if (arch::is_padded(descriptor.type)) {
    padded_group_ = static_cast<std::uint8_t>(arch::kPaddedGroup * arch::element_bits(descriptor.type) / 8);
  }
  const std::uint32_t elements = im2col ? descriptor.channels : descriptor.box[0];
  const std::int64_t first = coordinates[0];
  rows_.start(descriptor.address, 0);
  rows_left_ = 1;
  if (descriptor.interleave == arch::Interleave::none) {
    set_row(descriptor, first, elements);
  } else {
    add_slices(descriptor, first, elements, im2col ? 1 : descriptor.traversal[0]);
  }
  if (four_rows) {
    add_rows(descriptor, coordinates);
  } else if (arch::is_wide(descriptor.mode)) {
    add_wide_column(descriptor, coordinates, offsets);
  } else if (im2col) {
    add_column(descriptor, coordinates, offsets);
  } else {
    add_tile(descriptor, coordinates);
  }
  HEDDLE_CHECK(row_bytes_ > 0 && rows_left_ > 0, "the walk got a descriptor without check");
}

// Dimension 0 lies side by side: a row is its elements, of which some may be outside.
void TensorWalk::set_row(const arch::TensorDescriptor& descriptor, std::int64_t first, std::uint32_t elements) {
  const std::int64_t bits = arch::element_bits(descriptor.type);
  const auto size = static_cast<std::int64_t>(descriptor.size[0]);
  const auto bytes_of = [bits](std::int64_t count) { return static_cast<std::uint32_t>(count * bits / 8); };
  const std::int64_t from = std::clamp<std::int64_t>(-first, 0, elements);
  const std::int64_t until = std::clamp<std::int64_t>(size - first, 0, elements);
  row_bytes_ = bytes_of(elements);
  inside_from_ = bytes_of(from);
  inside_until_ = bytes_of(until);
  rows_.start(descriptor.address, first * bits / 8);
}

// Dimension 0 is slices with other bytes between them: each is a row (TMA-14).
void TensorWalk::add_slices(const arch::TensorDescriptor& descriptor, std::int64_t first, std::uint32_t elements,
                            std::uint32_t traversal) {
  row_bytes_ = descriptor.step_bytes();
  inside_until_ = row_bytes_;
  const std::uint64_t step = descriptor.step(0);
  rows_.add({first, first, first + elements, descriptor.size[0], step * traversal, step, traversal});
  rows_left_ = (elements + traversal - 1) / traversal;
}

void TensorWalk::add_tile(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates) {
  for (std::uint32_t i = 1; i < descriptor.rank; ++i) {
    const std::int64_t first = coordinates[i];
    const std::uint32_t traversal = descriptor.traversal[i];
    const std::uint64_t step = descriptor.step(i);
    rows_.add({first, first, first + descriptor.box[i], descriptor.size[i], step * traversal, step, traversal});
    rows_left_ *= (descriptor.box[i] + traversal - 1) / traversal;
  }
}

// A row each of the tensor's rows with those numbers (TMA-44).
void TensorWalk::add_rows(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates) {
  const std::int64_t first = coordinates[1];
  const std::uint64_t step = descriptor.step(1);
  rows_.add({first, first, first + 1, descriptor.size[1], step, step, 1});
  std::copy_n(coordinates.begin() + 2, rows_to_come_.size(), rows_to_come_.begin());
  named_rows_ = static_cast<std::uint32_t>(rows_to_come_.size()) + 1;
  rows_left_ = named_rows_;
}

// W from the filter's position on, through the bounding box, which has one row: H and D stay; then the next image of N
// (TMA-44). The position may be left of the box.
void TensorWalk::add_wide_column(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates,
                                 std::uint16_t offsets) {
  const arch::WideOffsets wide = arch::unpack_wide(offsets);
  const std::uint32_t images = descriptor.rank - 1;
  const std::int64_t low = descriptor.base_corner[0];
  const std::int64_t high = static_cast<std::int64_t>(descriptor.size[1]) + descriptor.far_corner[0];
  outside_box_ = coordinates[1] >= high;
  for (std::uint32_t i = 1; i < images; ++i) {
    const std::int64_t base = coordinates[i];
    const std::uint64_t step = descriptor.step(i);
    if (i == 1) {
      const std::uint32_t traversal = descriptor.traversal[1];
      rows_.add({base + wide.offset, low + wide.offset, high + wide.offset, descriptor.size[1], step * traversal, step,
                 traversal});
    } else {
      rows_.add({base, base, base + 1, descriptor.size[i], step, step, 1});
    }
  }
  const std::int64_t image = coordinates[images];
  const std::uint64_t step = descriptor.step(images);
  rows_.add({image, image, std::numeric_limits<std::int64_t>::max(), descriptor.size[images], step, step, 1});
  const std::uint32_t pixels = descriptor.column();
  halo_ = wide.halo;
  group_ = group_left_ = descriptor.mode == arch::TensorMode::im2col_w128 ? arch::kWideGroup : pixels;
  rows_left_ = pixels + pixels / group_ * halo_;
}

void TensorWalk::next_row() {
  if (named_rows_ != 0) return rows_.go_to(rows_to_come_[named_rows_ - 1 - rows_left_]);
  if (halo_ == 0) return rows_.next();
  if (halo_left_ == 0) {
    if (--group_left_ == 0) {
      before_halo_ = rows_;
      rows_.unbind();
      halo_left_ = halo_;
    }
  } else if (--halo_left_ == 0) {
    rows_ = before_halo_;
    group_left_ = group_;
  }
  rows_.next();
}

// W, H and D from the filter's position on, through the bounding box; then the next image of N (TMA-11).
void TensorWalk::add_column(const arch::TensorDescriptor& descriptor, const Coordinates& coordinates,
                            std::uint16_t offsets) {
  const std::uint32_t images = descriptor.rank - 1;
  const std::array<std::uint32_t, 3> shift = arch::unpack_offsets(descriptor.rank, offsets);
  for (std::uint32_t i = 1; i < images; ++i) {
    const std::uint32_t axis = i - 1;
    const std::int64_t base = coordinates[i];
    const std::int64_t low = descriptor.base_corner[axis];
    const std::int64_t high = static_cast<std::int64_t>(descriptor.size[i]) + descriptor.far_corner[axis];
    outside_box_ = outside_box_ || base < low || base >= high;
    const std::uint32_t traversal = descriptor.traversal[i];
    const std::uint64_t step = descriptor.step(i);
    rows_.add({base + shift[axis], low + shift[axis], high + shift[axis], descriptor.size[i], step * traversal, step,
               traversal});
  }
  const std::int64_t image = coordinates[images];
  const std::uint64_t step = descriptor.step(images);
  rows_.add({image, image, std::numeric_limits<std::int64_t>::max(), descriptor.size[images], step, step, 1});
  rows_left_ *= descriptor.pixels;
}

bool TensorWalk::next(arch::TensorPiece& piece) {
  if (rows_left_ == 0) return false;
  piece.address = rows_.address() + row_at_;
  piece.shared = shared_;
  piece.bytes = 0;
  piece.inside = {};
  piece.group = padded_group_;
  std::uint32_t left = room(piece.address);
  bool follows = true;
  do {
    const std::uint32_t bytes = std::min(left, row_bytes_ - row_at_);
    take(piece, bytes);
    left -= bytes;
    if (row_at_ < row_bytes_) break;
    row_at_ = 0;
    if (--rows_left_ == 0) break;
    next_row();
    follows = rows_.address() == piece.address + piece.bytes;
  } while (follows && left > 0);
  shared_ = piece.shared_of(piece.bytes);
  return true;
}

bool TensorWalk::lies_within(std::uint64_t memory) const {
  TensorWalk walk = *this;
  while (walk.rows_left_ > 0) {
    const bool takes = walk.rows_.inside() && walk.row_at_ < inside_until_ && inside_from_ < inside_until_;
    if (takes && walk.rows_.true_address() + inside_until_ > memory) return false;
    walk.row_at_ = 0;
    if (--walk.rows_left_ > 0) walk.next_row();
  }
  return true;
}

void TensorWalk::take(arch::TensorPiece& piece, std::uint32_t bytes) {
  const std::uint32_t until = row_at_ + bytes;
  if (rows_.inside() && row_at_ < inside_until_ && until > inside_from_) {
    const std::uint32_t from = std::max(row_at_, inside_from_) - row_at_;
    const std::uint32_t to = std::min(until, inside_until_) - row_at_;
    piece.inside |= arch::ByteMask::range(piece.bytes + from, piece.bytes + to);
  }
  piece.bytes += bytes;
  row_at_ = until;
}

BlockWalk::BlockWalk(std::uint64_t address, std::uint64_t blocks, std::uint32_t shared, std::uint16_t byte_mask)
    : address_(address),
      other_(address),
      blocks_(blocks),
      shared_(shared),
      mask_(byte_mask * std::uint64_t{0x0001'0001'0001'0001}) {
  HEDDLE_CHECK(address % arch::kBulkBlock == 0, "the walk got a block without check");
}

BlockWalk::BlockWalk(std::uint64_t address, std::uint64_t to, std::uint64_t blocks)
    : address_(address), other_(to), blocks_(blocks) {
  HEDDLE_CHECK(address % arch::kBulkBlock == 0 && to % arch::kBulkBlock == 0, "the walk got a block without check");
}

bool BlockWalk::next(arch::TensorPiece& piece) {
  if (blocks_ == 0) return false;
  const std::uint32_t most = std::min(room(address_), room(other_));
  const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks_, most / arch::kBulkBlock));
  const std::uint32_t bytes = blocks * arch::kBulkBlock;
  const arch::ByteMask all = arch::ByteMask::first(bytes);
  piece = {address_, shared_, bytes, {all.low & mask_, all.high & mask_}};
  address_ += bytes;
  other_ += bytes;
  shared_ += bytes;
  blocks_ -= blocks;
  return true;
}

LineGenerator::LineGenerator(const arch::BulkRequest& request, PrefetchUnit unit) {
  using arch::BulkKind;
  if (request.kind == BulkKind::copy) {
    blocks_ = BlockWalk(request.global, request.to, request.blocks);
  } else {
    const bool send = request.kind == BulkKind::send;
    const std::uint16_t mask = request.kind == BulkKind::store ? request.byte_mask : 0xFFFF;
    blocks_ = BlockWalk(send ? request.destination : request.global, request.blocks, request.shared, mask);
  }
  begin(request, unit);
}

LineGenerator::LineGenerator(const arch::BulkRequest& request, const arch::TensorDescriptor& descriptor,
                             PrefetchUnit unit) {
  if (request.kind == arch::BulkKind::send) {
    blocks_ = BlockWalk(request.destination, descriptor.box_bytes() / arch::kBulkBlock, request.shared);
  } else {
    tensors_ = TensorWalk(descriptor, request.coordinates, request.offsets, request.shared, request.four_rows);
    tensor_ = true;
  }
  if (request.kind == arch::BulkKind::copy) to_ = request.to;
  begin(request, unit);
}

// A piece ends where lines of its destination do, too. `shared` is its place in the box.
bool LineGenerator::next_copied(arch::TensorPiece& piece) {
  if (rest_.bytes == 0 && !tensors_.next(rest_)) return false;
  const std::uint32_t bytes = std::min(rest_.bytes, room(*to_ + rest_.shared));
  const arch::ByteMask first = arch::ByteMask::first(bytes);
  piece = rest_;
  piece.bytes = bytes;
  piece.inside = {rest_.inside.low & first.low, rest_.inside.high & first.high};
  rest_.address += bytes;
  rest_.shared += bytes;
  rest_.bytes -= bytes;
  rest_.inside = bytes < kLineBytes ? rest_.inside.from(bytes) : arch::ByteMask();
  return true;
}

void LineGenerator::begin(const arch::BulkRequest& request, PrefetchUnit unit) {
  prefetch_ = request.kind == arch::BulkKind::prefetch;
  whole_lines_ = unit == PrefetchUnit::line;
  advance();
}

// Pieces that follow each other in one line become one request.
bool LineGenerator::next_prefetch() {
  if (holds_) {
    line_ = held_;
    holds_ = false;
  } else {
    if (!walk(line_.piece)) return false;
    line_.sectors = sectors_of(line_.piece);
    line_.bytes = line_.piece.bytes;
    line_.used = line_.piece.inside.count();
  }
  if (line_.sectors == 0) return true;
  while (walk(held_.piece)) {
    held_.sectors = sectors_of(held_.piece);
    held_.bytes = held_.piece.bytes;
    held_.used = held_.piece.inside.count();
    if (held_.sectors == 0 || arch::line_of(held_.piece.address) != arch::line_of(line_.piece.address)) {
      holds_ = true;
      break;
    }
    line_.sectors |= held_.sectors;
    line_.bytes += held_.bytes;
    line_.used += held_.used;
  }
  if (whole_lines_) line_.sectors = (1U << kSectorsPerLine) - 1;
  return true;
}

}  // namespace heddle::tmau
