// What happens to the bytes of boxes on their way: fill, conversion, reduction (TMA-07, TMA-13).
#pragma once

#include <cstdint>
#include <cstring>

#include "arch/memory_op.h"
#include "arch/tensor_descriptor.h"
#include "common/bits.h"

namespace heddle::arch {

// What of a box or block lies in one L2 line, which is the unit in which the TMAU works (TMA-15): a bit for each byte
// of the line, from bit 0 of `low` on.
struct ByteMask {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  bool any() const { return (low | high) != 0; }
  bool test(std::uint32_t byte) const { return ((byte < 64 ? low : high) >> (byte % 64) & 1) != 0; }
  std::uint32_t count() const { return bits::count(low) + bits::count(high); }
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
  // Bytes from `byte` (0 to 127) on, the first of them as byte 0.
  ByteMask from(std::uint32_t byte) const {
    if (byte == 0) return *this;
    if (byte >= 64) return {high >> (byte - 64), 0};
    return {low >> byte | high << (64 - byte), high >> byte};
  }
  ByteMask& operator|=(const ByteMask& other) {
    low |= other.low;
    high |= other.high;
    return *this;
  }
  friend bool operator==(const ByteMask& a, const ByteMask& b) { return a.low == b.low && a.high == b.high; }
  // Only of a mask with any().
  std::uint32_t lowest() const { return low != 0 ? bits::lowest(low) : 64 + bits::lowest(high); }
  std::uint32_t highest() const { return high != 0 ? 64 + bits::highest(high) : bits::highest(low); }
};

constexpr std::uint32_t kPaddedGroup = 16;  // bytes of shared memory for a group of a padded type

// `bytes` bytes that follow each other in device memory, within one line, and in shared memory before the swizzle. Of
// padded types (TMA-07) each group of 8 or 12 bytes there lies at the beginning of 16 bytes.
struct TensorPiece {
  std::uint64_t address = 0;  // of its first byte in device memory. Of bytes outside the tensor: where they would be
  std::uint32_t shared = 0;   // the same in the CTA's shared memory, before the swizzle
  std::uint32_t bytes = 0;    // 1 to 128
  ByteMask inside;            // bit i: byte i belongs to the tensor; the others are filled, or not stored
  std::uint8_t group = 0;     // bytes of a group of a padded type; 0: no padding

  // Where byte i lies in shared memory, before the swizzle; i = bytes: where the next piece begins.
  std::uint32_t shared_of(std::uint32_t i) const {
    if (group == 0) return shared + i;
    const std::uint32_t phase = shared % kPaddedGroup;
    const std::uint32_t at = phase + i;
    return shared - phase + at / group * kPaddedGroup + at % group;
  }
  // Of shared memory, padding included: what an mbarrier counts.
  std::uint32_t shared_bytes() const { return shared_of(bytes) - shared; }
  bool all_inside() const { return inside == ByteMask::first(bytes); }
};

// Of an element outside the tensor: zero, or the type's special NaN (an assumption: f16 0x7FFF, bf16 0x7FFF, f32 and
// tf32 0x7FFFFFFF, f64 all ones but the sign; what hardware writes is not published); little endian in the low bytes.
std::uint64_t fill_bits(TensorType type, Fill fill);
// Writes it to the bytes of `data` whose mask bit is not set. Byte 0 begins an element (or is in phase with one).
void fill_outside(TensorType type, Fill fill, const ByteMask& inside, std::uint32_t bytes, std::uint8_t* data);
// Flush and rounding of types that have it; nothing for others. Whole elements.
bool converts(TensorType type);
void convert(TensorType type, std::uint32_t bytes, std::uint8_t* data);

// Reductions of whole blocks (TMA-07): add u32 s32 u64 f16 bf16 f32 f64; min, max u32 s32 u64 s64 f16 bf16; increment,
// decrement u32; and, or, xor 32 and 64 bits. `in_shared`: shared -> shared has fewer: add u32 s32 u64, min, max u32
// s32, increment, decrement u32, and, or, xor 32 bits.
bool reduction_exists(AtomicKind kind, ValueType type, bool in_shared);
// to[i] = kind(to[i], from[i]) for the elements of `bytes` bytes that `mask` has (an element counts if its first byte
// does). increment: d >= s ? 0 : d + 1; decrement: d == 0 or d > s ? s : d - 1. add of f32: subnormal operands and sums
// become zeros of their sign.
void reduce(AtomicKind kind, ValueType type, const ByteMask& mask, std::uint32_t bytes, const std::uint8_t* from,
            std::uint8_t* to);

// The two 16-bit floating-point formats are bit patterns: f16 (IEEE binary16) and bf16 (the upper half of an f32). What
// every NaN becomes that an operation yields, the same on every host: up to 32 bits that of PTX.
constexpr std::uint16_t kNanHalf = 0x7FFF;  // f16 and bf16
constexpr std::uint32_t kNanF32 = 0x7FFF'FFFF;
constexpr std::uint64_t kNanF64 = 0x7FFF'FFFF'FFFF'FFFF;

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Exact; a NaN keeps its payload.
inline float float_of_bf16(std::uint16_t bits) { return float_of(std::uint32_t{bits} << 16); }
inline float float_of_f16(std::uint16_t bits) {
  constexpr std::uint32_t kExponent = 0x7C00U << 13;
  constexpr std::uint32_t kRebias = (127U - 15U) << 23;
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = (bits & 0x7FFFU) << 13;
  // The smallest exponent has no leading one: give it one, and take it away again.
  const float subnormal = float_of(magnitude + kRebias + (1U << 23)) - float_of(kRebias + (1U << 23));
  const std::uint32_t rebias = magnitude >= kExponent ? 2 * kRebias : kRebias;  // infinity and NaN stay at the top
  const std::uint32_t result = magnitude < (0x0400U << 13) ? bits_of(subnormal) : magnitude + rebias;
  return float_of(sign | result);
}

// To nearest, ties to even. Too large: infinity. NaN: kNanHalf.
std::uint16_t f16_of(float value);
std::uint16_t bf16_of(float value);

}  // namespace heddle::arch
