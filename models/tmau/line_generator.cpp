#include "tmau/line_generator.h"

#include <algorithm>

namespace heddle::tmau {
namespace {

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

LineGenerator::LineGenerator(const arch::BulkRequest& request, PrefetchUnit unit) {
  using arch::BulkKind;
  if (request.kind == BulkKind::copy) {
    blocks_ = BlockWalk(request.global, request.to, request.blocks);
  } else {
    const bool send = request.kind == BulkKind::send;
    blocks_ = BlockWalk(send ? request.destination : request.global, request.blocks, request.shared);
  }
  begin(request, unit);
}

LineGenerator::LineGenerator(const arch::BulkRequest& request, const arch::TensorDescriptor& descriptor,
                             PrefetchUnit unit)
    : tensors_(descriptor, request.coordinates, request.offsets, request.shared), tensor_(true) {
  begin(request, unit);
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
  }
  if (line_.sectors == 0) return true;
  while (walk(held_.piece)) {
    held_.sectors = sectors_of(held_.piece);
    held_.bytes = held_.piece.bytes;
    if (held_.sectors == 0 || arch::line_of(held_.piece.address) != arch::line_of(line_.piece.address)) {
      holds_ = true;
      break;
    }
    line_.sectors |= held_.sectors;
    line_.bytes += held_.bytes;
  }
  if (whole_lines_) line_.sectors = (1U << kSectorsPerLine) - 1;
  return true;
}

}  // namespace heddle::tmau
