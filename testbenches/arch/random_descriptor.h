// Descriptors for tests: random ones that break no rule, and random ones of any kind.
#pragma once

#include <algorithm>
#include <cstdint>

#include "arch/tensor_descriptor.h"
#include "support/random.h"

namespace heddle::test {

constexpr std::uint64_t kAllMemory = ~std::uint64_t{0};

inline std::uint64_t up_to(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

namespace random_descriptor {

inline void draw_strides(Random& dice, arch::TensorDescriptor& d, std::uint64_t alignment) {
  const bool interleaved = d.interleave != arch::Interleave::none;
  std::uint64_t least = d.step_bytes();  // of the next dimension further out
  const auto place = [&](std::uint32_t i) {
    d.stride[i] = up_to(least, alignment) + (dice.one_in(2) ? 0 : alignment * dice.between64(0, 4));
    least = d.stride[i] * d.size[i];
  };
  if (!interleaved) least *= d.size[0];
  for (std::uint32_t i = 1; i + (interleaved ? 1 : 0) < d.rank; ++i) place(i);
  if (!interleaved) return;
  place(0);
  place(d.rank - 1);
}

// Elements of the inner box: a multiple of 16 bytes, within the span.
inline std::uint32_t draw_inner(Random& dice, const arch::TensorDescriptor& d) {
  const std::uint32_t step = d.step_bytes();
  const std::uint32_t unit = std::max<std::uint32_t>(1, 16 / step);
  std::uint32_t most = 256 / unit;
  if (d.swizzle != arch::Swizzle::none)
    most = std::min(most, std::max(1U, arch::swizzle_span(d.swizzle) / step / unit));
  return unit * dice.between(1, std::min(most, dice.one_in(3) ? most : 8U));
}

}  // namespace random_descriptor

// A descriptor of `bytes` at most, at address 0, that breaks no rule. Extents are small, so that boxes meet all sides.
inline arch::TensorDescriptor draw_tensor(Random& dice, std::uint64_t bytes = std::uint64_t{1} << 24) {
  for (;;) {
    arch::TensorDescriptor d;
    d.type = static_cast<arch::TensorType>(dice.between(0, 12));  // whole bytes
    d.mode = dice.one_in(3) ? arch::TensorMode::im2col : arch::TensorMode::tile;
    d.interleave = dice.one_in(4) ? static_cast<arch::Interleave>(dice.between(1, 2)) : arch::Interleave::none;
    const bool wide = d.mode == arch::TensorMode::im2col || d.interleave != arch::Interleave::none;
    d.rank = dice.between(wide ? 3 : 1, arch::kTensorRank);
    d.swizzle = static_cast<arch::Swizzle>(dice.between(0, arch::kSwizzles - 1));
    if (d.interleave != arch::Interleave::none && d.swizzle == arch::Swizzle::bytes96) d.swizzle = arch::Swizzle::none;
    if (d.interleave == arch::Interleave::bytes32) d.swizzle = arch::Swizzle::bytes32;
    d.fill = arch::is_float(d.type) && dice.one_in(2) ? arch::Fill::nan : arch::Fill::zero;
    d.promotion = static_cast<arch::Promotion>(dice.between(0, 3));
    const std::uint64_t alignment = d.interleave == arch::Interleave::bytes32 ? 32 : 16;
    for (std::uint32_t i = 0; i < d.rank; ++i) {
      d.size[i] = dice.between(1, i == 0 ? 80 : 14);
      d.box[i] = dice.between(1, 12);
      d.traversal[i] = dice.one_in(2) ? 1 : dice.between(1, 8);
    }
    d.box[0] = random_descriptor::draw_inner(dice, d);
    random_descriptor::draw_strides(dice, d, alignment);
    if (d.mode == arch::TensorMode::im2col) {
      const std::int32_t limit = std::min(8, 1 << (arch::offset_bits(d.rank) - 1));
      const auto corner = [&] { return static_cast<std::int32_t>(dice.between(0, 2 * 8 - 1)) - 8; };
      for (std::uint32_t i = 0; i < d.rank - 2; ++i) {
        d.base_corner[i] = std::max(-limit, corner());
        d.far_corner[i] = std::max(-limit, corner());
      }
      d.channels = random_descriptor::draw_inner(dice, d);
      d.pixels = dice.between(1, dice.one_in(8) ? 1024 : 80);
    }
    if (d.end() > bytes) continue;
    d.address = alignment * dice.between64(0, (bytes - d.end()) / alignment);
    return d;
  }
}

// Every field anything that its bits in the encoding can say, often at the edges.
inline arch::TensorDescriptor draw_any_tensor(Random& dice) {
  const auto field = [&dice](std::uint32_t bits) {
    const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    switch (dice.between(0, 3)) {
      case 0:
        return dice.next() & mask;
      case 1:
        return dice.between64(0, 3);
      case 2:
        return mask - dice.between64(0, 3);
      default:
        return (std::uint64_t{1} << dice.between(0, bits - 1)) - dice.between64(0, 1);
    }
  };
  arch::TensorDescriptor d;
  d.type = static_cast<arch::TensorType>(dice.between(0, arch::kTensorTypes - 1));
  d.mode = static_cast<arch::TensorMode>(dice.between(0, arch::kTensorModes - 1));
  d.promotion = static_cast<arch::Promotion>(dice.between(0, arch::kPromotions - 1));
  d.interleave = static_cast<arch::Interleave>(dice.between(0, 2));
  d.swizzle = static_cast<arch::Swizzle>(dice.between(0, arch::kSwizzles - 1));
  d.fill = static_cast<arch::Fill>(dice.between(0, 1));
  d.rank = static_cast<std::uint32_t>(field(8));
  d.address = field(64);
  for (std::uint32_t i = 0; i < arch::kTensorRank; ++i) {
    d.size[i] = field(64);
    d.stride[i] = field(64);
    d.box[i] = static_cast<std::uint32_t>(field(16));
    d.traversal[i] = static_cast<std::uint32_t>(field(8));
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    d.base_corner[i] = static_cast<std::int16_t>(field(16));
    d.far_corner[i] = static_cast<std::int16_t>(field(16));
  }
  d.channels = static_cast<std::uint32_t>(field(16));
  d.pixels = static_cast<std::uint32_t>(field(16));
  return d;
}

}  // namespace heddle::test
