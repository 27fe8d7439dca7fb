// What a piece of a bulk request does to a window, byte by byte.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "protocol/sm_tmau.h"
#include "support/random.h"

namespace heddle::test {

// TMA-20, as it is written there.
inline std::uint32_t swizzled(arch::Swizzle swizzle, std::uint32_t a) {
  switch (swizzle) {
    case arch::Swizzle::bytes32:
      return a ^ (a >> 7 & 1) << 4;
    case arch::Swizzle::bytes64:
      return a ^ (a >> 7 & 3) << 4;
    case arch::Swizzle::bytes128:
      return a ^ (a >> 7 & 7) << 4;
    case arch::Swizzle::bytes96:
      return a ^ (a >> 7 & 1) << 4;
    case arch::Swizzle::bytes128_atom32:
      return a ^ (a >> 7 & 3) << 5;
    case arch::Swizzle::bytes128_atom32_flip8:
      return a ^ (a >> 7 & 3) << 5 ^ (a >> 7 & 1) << 3;
    case arch::Swizzle::bytes128_atom64:
      return a ^ (a >> 7 & 1) << 6;
    default:
      return a;
  }
}

inline bool is_tf32(arch::TensorType type) {
  return type == arch::TensorType::tf32 || type == arch::TensorType::tf32_flush;
}

// What becomes of an f32 on its way into shared memory (TMA-07).
inline std::uint32_t loaded_f32(arch::TensorType type, std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, 4);
  const bool flushes = type == arch::TensorType::f32_flush || type == arch::TensorType::tf32_flush;
  if (flushes && std::fpclassify(value) == FP_SUBNORMAL) value = std::copysign(0.0F, value);
  if (is_tf32(type)) {
    if (std::isnan(value)) return bits;
    if (std::isfinite(value) && value != 0) {
      const double quantum = std::ldexp(1.0, std::max(std::ilogb(value), -126) - 10);
      const double rounded = std::nearbyint(value / quantum) * quantum;
      const bool beyond = std::abs(rounded) > std::numeric_limits<float>::max();
      value = std::copysign(beyond ? std::numeric_limits<float>::infinity() : static_cast<float>(rounded), value);
    }
  }
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline bool is_float_type(arch::TensorType type) { return type >= arch::TensorType::f16; }

inline std::uint32_t type_bytes(arch::TensorType type) {
  constexpr std::uint32_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

inline std::uint8_t fill_byte(arch::TensorType type, arch::Fill fill, std::uint32_t byte) {
  if (fill == arch::Fill::zero) return 0;
  return byte % type_bytes(type) == type_bytes(type) - 1 ? 0x7F : 0xFF;
}

// The bytes that the piece brings; `data`: its inside bytes from the lowest on, and anything between them.
inline std::vector<std::uint8_t> brought(const protocol::BulkTarget& target, const std::uint8_t* data) {
  const arch::TensorPiece& piece = target.piece;
  std::vector<std::uint8_t> bytes(piece.bytes);
  std::uint32_t lowest = 0;
  while (lowest < piece.bytes && !piece.inside.test(lowest)) ++lowest;
  const std::uint32_t width = type_bytes(target.type);
  for (std::uint32_t i = 0; i < piece.bytes; ++i) {
    bytes[i] = piece.inside.test(i) ? data[i - lowest] : fill_byte(target.type, target.fill, i);
  }
  const bool changes = is_tf32(target.type) || target.type == arch::TensorType::f32_flush;
  if (!changes) return bytes;
  for (std::uint32_t i = 0; i < piece.bytes; i += width) {
    if (!piece.inside.test(i)) continue;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i], 4);
    bits = loaded_f32(target.type, bits);
    std::memcpy(&bytes[i], &bits, 4);
  }
  return bytes;
}

// Cycles for those bytes: 16-byte units, one per cycle and group of banks.
inline std::uint32_t bank_cycles(const std::vector<std::uint32_t>& positions) {
  std::vector<std::uint32_t> units;
  for (const std::uint32_t position : positions) {
    if (std::find(units.begin(), units.end(), position / 16) == units.end()) units.push_back(position / 16);
  }
  std::uint32_t most = 0;
  for (std::uint32_t group = 0; group < 8; ++group) {
    const auto count = std::count_if(units.begin(), units.end(), [group](std::uint32_t u) { return u % 8 == group; });
    most = std::max(most, static_cast<std::uint32_t>(count));
  }
  return most;
}

// A piece of whole elements, somewhere near [0, room).
inline protocol::BulkTarget random_target(Random& random, std::uint32_t room) {
  protocol::BulkTarget target;
  target.tensor = random.chance(80);
  target.type = target.tensor ? static_cast<arch::TensorType>(random.below(13)) : arch::TensorType::u8;
  target.fill = is_float_type(target.type) && random.chance(50) ? arch::Fill::nan : arch::Fill::zero;
  target.swizzle = target.tensor ? static_cast<arch::Swizzle>(random.below(arch::kSwizzles)) : arch::Swizzle::none;
  const std::uint32_t width = type_bytes(target.type);
  const std::uint32_t step = random.chance(50) ? 16 : width;
  arch::TensorPiece& piece = target.piece;
  piece.bytes = random.chance(40) ? 128 : step * random.between(1, 128 / step);
  piece.shared = step * random.below(room / step + 1);
  if (random.chance(30)) piece.shared &= ~std::uint32_t{127};
  if (random.chance(50)) {
    piece.inside = arch::ByteMask::first(piece.bytes);
  } else {
    // Runs of elements.
    const std::uint32_t elements = piece.bytes / width;
    for (std::uint32_t runs = random.below(4); runs > 0; --runs) {
      const std::uint32_t from = random.below(elements);
      const std::uint32_t to = random.between(from + 1, elements);
      piece.inside |= arch::ByteMask::range(from * width, to * width);
    }
  }
  return target;
}

}  // namespace heddle::test
