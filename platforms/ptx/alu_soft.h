// Real numbers of any binary format, in integers: for what compilers' own operations do not give (other roundings of
// double precision, quotients and roots, narrow formats).
#pragma once

#include <cstdint>

#include "ptx/alu_real.h"
#include "ptx/alu_types.h"

namespace heddle::ptx {

// sign, `exponent` bits, `fraction` bits. largest: code of the largest finite number without its sign; the one behind
// it is infinity, as in IEEE 754, or there is none.
struct FloatFormat {
  std::uint32_t fraction = 0;
  std::uint32_t exponent = 0;
  std::uint64_t largest = 0;
  bool infinity = true;

  int bias() const { return (1 << (exponent - 1)) - 1; }
  std::uint64_t sign() const { return std::uint64_t{1} << (fraction + exponent); }
};
inline constexpr FloatFormat kFormatF64{52, 11, 0x7fefffffffffffff};
inline constexpr FloatFormat kFormatF32{23, 8, 0x7f7fffff};
inline constexpr FloatFormat kFormatTf32{10, 8, 0x3fbff};  // bits 13 to 31 of a register
inline constexpr FloatFormat kFormatF16{10, 5, 0x7bff};
inline constexpr FloatFormat kFormatBf16{7, 8, 0x7f7f};
inline constexpr FloatFormat kFormatE5m2{2, 5, 0x7b};
inline constexpr FloatFormat kFormatE4m3{3, 4, 0x7e, false};
inline constexpr FloatFormat kFormatE3m2{2, 3, 0x1f, false};
inline constexpr FloatFormat kFormatE2m3{3, 2, 0x1f, false};
inline constexpr FloatFormat kFormatE2m1{1, 2, 0x7, false};

// magnitude · 2^exponent. The lowest bit of a magnitude is also set if bits below it are lost; there are always so many
// of them that a rounding comes out as of the exact number.
struct Real {
  enum class Kind : std::uint8_t { zero, finite, infinite, nan };
  Kind kind = Kind::zero;
  bool negative = false;
  int exponent = 0;
  Uint128 magnitude = 0;
};

Real real_of(const FloatFormat& format, std::uint64_t bits);
inline Real real_of(double value) { return real_of(kFormatF64, bits64(value)); }
inline Real real_of(float value) { return real_of(kFormatF32, bits32(value)); }
// The code of the number. Beyond the largest: as the rounding says, or the largest if `saturate`. Not of NaN.
std::uint64_t code_of(const FloatFormat& format, const Real& value, Rounding mode, bool saturate = false);
// Rounding by chance: `noise` is added below the last bit kept, as a fraction of `bits` bits of it.
std::uint64_t code_with_noise(const FloatFormat& format, const Real& value, std::uint32_t noise, std::uint32_t bits,
                              bool saturate);

// mode: of the sign of an exact zero.
Real sum_of(const Real& a, const Real& b, Rounding mode);
Real product_of(const Real& a, const Real& b);
Real quotient_of(const Real& a, const Real& b);
Real root_of(const Real& a);

}  // namespace heddle::ptx
