#include "arch/half.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kInfinityF32 = 0x7F80'0000;

// `value` without its `bits` lowest bits, rounded to nearest even. 1 <= bits <= 31.
std::uint32_t shift_round(std::uint32_t value, std::uint32_t bits) {
  const std::uint32_t half = 1U << (bits - 1);
  return (value + (half - 1) + (value >> bits & 1)) >> bits;
}

}  // namespace

std::uint16_t f16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFF'FFFFU;
  if (magnitude > kInfinityF32) return kNanHalf;
  const std::uint32_t exponent = magnitude >> 23;
  std::uint32_t result = 0;
  if (exponent >= 127 + 16) {
    result = 0x7C00;
  } else if (exponent > 127 - 15) {
    result = shift_round(magnitude - ((127U - 15U) << 23), 13);  // a carry goes into the exponent, up to infinity
  } else if (exponent >= 127 - 25) {
    result = shift_round((magnitude & 0x007F'FFFFU) | 0x0080'0000U, 13 + (127 - 14) - exponent);
  }
  return static_cast<std::uint16_t>(sign | result);
}

std::uint16_t bf16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFF'FFFFU) > kInfinityF32) return kNanHalf;
  const std::uint32_t magnitude = shift_round(bits & 0x7FFF'FFFFU, 16);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | magnitude);
}

}  // namespace heddle::arch
