// What of a box or block lies in one L2 line: the unit in which the TMAU works (TMA-15).
#pragma once

#include <cstdint>

#include "arch/memory_op.h"

namespace heddle::arch {

// A bit for each byte of a line, from bit 0 of `low` on.
struct ByteMask {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  bool any() const { return (low | high) != 0; }
  bool test(std::uint32_t byte) const { return ((byte < 64 ? low : high) >> (byte % 64) & 1) != 0; }
  // The first `bytes` (0 to 128).
  static ByteMask first(std::uint32_t bytes) {
    const auto ones = [](std::uint32_t count) {
      return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    };
    return {ones(bytes), bytes > 64 ? ones(bytes - 64) : 0};
  }
  // Bytes [from, to).
  static ByteMask range(std::uint32_t from, std::uint32_t to) {
    const ByteMask below = first(from);
    const ByteMask all = first(to);
    return {all.low & ~below.low, all.high & ~below.high};
  }
  ByteMask& operator|=(const ByteMask& other) {
    low |= other.low;
    high |= other.high;
    return *this;
  }
  friend bool operator==(const ByteMask& a, const ByteMask& b) { return a.low == b.low && a.high == b.high; }
  // Only of a mask with any().
  std::uint32_t lowest() const {
    return static_cast<std::uint32_t>(low != 0 ? __builtin_ctzll(low) : 64 + __builtin_ctzll(high));
  }
  std::uint32_t highest() const {
    return static_cast<std::uint32_t>(high != 0 ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll(low));
  }
};

// `bytes` bytes that follow each other in device memory, within one line, and in shared memory before the swizzle.
struct TensorPiece {
  std::uint64_t address = 0;  // of its first byte in device memory. Of bytes outside the tensor: where they would be
  std::uint32_t shared = 0;   // the same in the CTA's shared memory, before the swizzle
  std::uint32_t bytes = 0;    // 1 to 128
  ByteMask inside;            // bit i: byte i belongs to the tensor; the others are filled, or not stored

  bool all_inside() const { return inside == ByteMask::first(bytes); }
};

}  // namespace heddle::arch
