#include "sm/bulk_place.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "arch/mbarrier.h"
#include "arch/tensor_data.h"
#include "sm/dsmem_access.h"

namespace heddle::sm {
namespace {

using arch::ByteMask;
using arch::DsmemStatus;
using arch::kLineBytes;
using arch::kSwizzleUnit;
using arch::Swizzle;
using arch::SwizzleTable;
using protocol::BulkTarget;

// Bytes [from, to) of a piece, and where they begin in the window before the swizzle.
struct Span {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t shared = 0;

  std::uint32_t bytes() const { return to - from; }
};

Span whole(const arch::TensorPiece& piece) { return {0, piece.bytes, piece.shared}; }
Span inside_of(const arch::TensorPiece& piece) {
  const std::uint32_t first = piece.inside.lowest();
  return {first, piece.inside.highest() + 1, piece.shared + first};
}

bool touches(const ByteMask& mask, std::uint32_t from, std::uint32_t to) {
  const ByteMask range = ByteMask::range(from, to);
  return (mask.low & range.low) != 0 || (mask.high & range.high) != 0;
}

// visit(offset in the window, first byte of the piece, bytes) for what of each unit belongs to the span, in order,
// until it says no.
template <class Visit>
void each_unit(const SwizzleTable& swizzles, Swizzle swizzle, const Span& span, Visit&& visit) {
  std::uint32_t at = span.shared;
  std::uint32_t byte = span.from;
  while (byte < span.to) {
    const std::uint32_t bytes = std::min(kSwizzleUnit - at % kSwizzleUnit, span.to - byte);
    if (!visit(swizzles(swizzle, at), byte, bytes)) return;
    at += bytes;
    byte += bytes;
  }
}

// The swizzle moves units within rows of 128 bytes, so that mostly the end of the last row decides. `needed`: bytes
// that count.
bool fits(std::uint32_t size, const SwizzleTable& swizzles, const BulkTarget& target, const Span& span,
          const ByteMask& needed, BulkPlaced& result) {
  const std::uint64_t end =
      (std::uint64_t{span.shared} + span.bytes() + kLineBytes - 1) & ~std::uint64_t{kLineBytes - 1};
  if (end <= size) return true;
  if (std::uint64_t{span.shared} + span.bytes() > ~std::uint32_t{0}) {
    result.status = DsmemStatus::out_of_range;
    result.offset = span.shared;
    return false;
  }
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (at + i < size || !needed.test(byte + i)) continue;
      result.status = DsmemStatus::out_of_range;
      result.offset = at + i;
      return false;
    }
    return true;
  });
  return result.status == DsmemStatus::ok;
}

// A row of 128 bytes has each of the bank groups once, in whatever order.
std::uint32_t cycles_of(const SwizzleTable& swizzles, Swizzle swizzle, const Span& span) {
  if (span.shared / kLineBytes == (span.shared + span.bytes() - 1) / kLineBytes) return 1;
  std::array<std::uint32_t, kLineBytes / kSwizzleUnit + 1> units{};
  std::uint32_t count = 0;
  each_unit(swizzles, swizzle, span, [&](std::uint32_t at, std::uint32_t, std::uint32_t) {
    units[count++] = at & ~(kSwizzleUnit - 1);
    return true;
  });
  return arch::unit_cycles(units.data(), count);
}

void scatter(std::uint8_t* window, const SwizzleTable& swizzles, Swizzle swizzle, const Span& span,
             const std::uint8_t* from) {
  if (swizzle == Swizzle::none) {
    std::memcpy(window + span.shared, from, span.bytes());
    return;
  }
  if (span.shared % kSwizzleUnit == 0 && span.bytes() % kSwizzleUnit == 0) {
    for (std::uint32_t i = 0; i < span.bytes(); i += kSwizzleUnit) {
      std::memcpy(window + swizzles(swizzle, span.shared + i), from + i, kSwizzleUnit);
    }
    return;
  }
  each_unit(swizzles, swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    std::memcpy(window + at, from + (byte - span.from), bytes);
    return true;
  });
}

// Granules of poison are larger than units, so rows are looked at as a whole.
void mark(SharedMemory& memory, std::uint32_t window, const SwizzleTable& swizzles, const BulkTarget& target,
          bool poisoned) {
  const Span span = whole(target.piece);
  if (memory.any_poison()) {
    std::array<std::uint8_t, std::size_t{2} * kLineBytes> written{};
    const std::uint32_t first = span.shared / kLineBytes * kLineBytes;
    each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t, std::uint32_t bytes) {
      std::memset(written.data() + (at - first), 0xFF, bytes);
      return true;
    });
    memory.covered(window, first, written.size(), written.data());
  }
  if (!poisoned) return;
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    if (touches(target.piece.inside, byte, byte + bytes)) memory.poison(window, at, bytes);
    return true;
  });
}

}  // namespace

BulkPlaced write_piece(SharedMemory& memory, std::uint32_t window, const SwizzleTable& swizzles,
                       const BulkTarget& target, const std::uint8_t* data, bool poisoned) {
  BulkPlaced result;
  const arch::TensorPiece& piece = target.piece;
  const Span span = whole(piece);
  if (window == kNoWindow || !memory.is_open(window)) {
    result.status = DsmemStatus::cta_not_present;
    result.offset = piece.shared;
    return result;
  }
  if (!fits(memory.size(window), swizzles, target, span, ByteMask::first(piece.bytes), result)) return result;
  result.cycles = cycles_of(swizzles, target.swizzle, span);
  const bool full = piece.all_inside();
  if (full && !arch::converts(target.type)) {
    scatter(memory.data(window), swizzles, target.swizzle, span, data);
  } else {
    alignas(16) std::array<std::uint8_t, kLineBytes> bytes;  // NOLINT(*-init-variables): all that counts is written
    if (piece.inside.any()) {
      const Span inside = inside_of(piece);
      std::memcpy(bytes.data() + inside.from, data, inside.bytes());
      arch::convert(target.type, inside.bytes(), bytes.data() + inside.from);
    }
    if (!full) arch::fill_outside(target.type, target.fill, piece.inside, piece.bytes, bytes.data());
    scatter(memory.data(window), swizzles, target.swizzle, span, bytes.data());
  }
  if (poisoned || memory.any_poison()) mark(memory, window, swizzles, target, poisoned);
  return result;
}

BulkPlaced read_piece(const SharedMemory& memory, std::uint32_t window, const SwizzleTable& swizzles,
                      const BulkTarget& target, std::uint8_t* data) {
  BulkPlaced result;
  const arch::TensorPiece& piece = target.piece;
  result.offset = piece.shared;
  if (window == kNoWindow || !memory.is_open(window)) {
    result.status = DsmemStatus::cta_not_present;
    return result;
  }
  if (!piece.inside.any()) return result;
  const Span span = inside_of(piece);
  if (!fits(memory.size(window), swizzles, target, span, piece.inside, result)) return result;
  result.cycles = cycles_of(swizzles, target.swizzle, span);
  const std::uint8_t* from = memory.data(window);
  const std::uint32_t size = memory.size(window);
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    if (memory.any_poison() && touches(piece.inside, byte, byte + bytes) &&
        memory.poisoned(window, at, std::min(bytes, size - at))) {
      result.status = DsmemStatus::poison;
      result.offset = at;
      return false;
    }
    // Bytes that do not count may lie beyond the window.
    const std::uint32_t there = at < size ? std::min(bytes, size - at) : 0;
    std::memcpy(data + (byte - span.from), from + at, there);
    return true;
  });
  if (result.status != DsmemStatus::ok || piece.inside == ByteMask::range(span.from, span.to)) return result;
  for (std::uint32_t byte = span.from; byte < span.to; ++byte) {
    if (!piece.inside.test(byte)) data[byte - span.from] = 0;
  }
  return result;
}

BulkPlaced complete_bulk(SharedMemory& memory, std::uint32_t window, std::uint32_t barrier, std::uint32_t bytes) {
  BulkPlaced result;
  result.offset = barrier;
  if (!memory.contains(window, barrier, arch::kMbarrierBytes)) {
    result.status = DsmemStatus::out_of_range;
    return result;
  }
  if (memory.poisoned(window, barrier, arch::kMbarrierBytes)) {
    result.status = DsmemStatus::poison;
    return result;
  }
  std::uint64_t object = memory.word(window, barrier);
  const arch::MbarrierResult done = arch::mbarrier_complete(object, bytes);
  if (done == arch::MbarrierResult::wrong) {
    result.status = DsmemStatus::mbarrier;
    return result;
  }
  memory.set_word(window, barrier, object);
  result.completes = done == arch::MbarrierResult::completes;
  return result;
}

}  // namespace heddle::sm
