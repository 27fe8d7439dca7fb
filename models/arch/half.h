// The two 16-bit floating-point formats, as bit patterns: f16 (IEEE binary16) and bf16 (the upper half of an f32).
#pragma once

#include <cstdint>
#include <cstring>

namespace heddle::arch {

// What every NaN becomes that an operation yields, the same on every host: up to 32 bits that of PTX.
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
