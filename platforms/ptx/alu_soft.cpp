#include "ptx/alu_soft.h"

#include <utility>

namespace heddle::ptx {

namespace {

constexpr int kTop = 124;  // the highest bit of a normalised magnitude: two are left for carries

int top_of(Uint128 value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  if (high != 0) return 127 - __builtin_clzll(high);
  return 63 - __builtin_clzll(static_cast<std::uint64_t>(value));
}

// Of a magnitude that is not 0.
Real normalised(Real value) {
  const int shift = kTop - top_of(value.magnitude);
  value.magnitude = shift >= 0 ? value.magnitude << shift : value.magnitude >> -shift;
  value.exponent -= shift;
  return value;
}

// Shifted right; what falls off is left in the lowest bit.
Uint128 jammed(Uint128 value, int shift) {
  if (shift <= 0) return value;
  if (shift > 127) return value != 0 ? 1 : 0;
  const Uint128 kept = value >> shift;
  return (kept << shift) != value ? kept | 1 : kept;
}

Real special(Real::Kind kind, bool negative) {
  Real real;
  real.kind = kind;
  real.negative = negative;
  return real;
}

// The lowest place that the format has for the number, as an exponent of 2.
int last_place(const FloatFormat& format, const Real& value) {
  const int leading = top_of(value.magnitude) + value.exponent;
  const int lowest = 1 - format.bias();
  return (leading < lowest ? lowest : leading) - static_cast<int>(format.fraction);
}

// The code of a number of so many units of the last place, not more than 2 to the (fraction + 1).
std::uint64_t code_of_units(const FloatFormat& format, bool negative, std::uint64_t units, int place, bool to_largest) {
  // The leading bit of a normal number adds one to the exponent's field, whether or not a carry made it.
  const int field = place + static_cast<int>(format.fraction) + format.bias() - 1;
  std::uint64_t code = units == 0 ? 0 : (static_cast<std::uint64_t>(field) << format.fraction) + units;
  if (code > format.largest) code = to_largest || !format.infinity ? format.largest : format.largest + 1;
  return code | (negative ? format.sign() : 0);
}

}  // namespace

Real real_of(const FloatFormat& format, std::uint64_t bits) {
  Real real;
  real.negative = (bits & format.sign()) != 0;
  const std::uint64_t magnitude = bits & (format.sign() - 1);
  if (magnitude > format.largest) {
    const bool infinite = format.infinity && magnitude == format.largest + 1;
    real.kind = infinite ? Real::Kind::infinite : Real::Kind::nan;
    return real;
  }
  if (magnitude == 0) return real;
  real.kind = Real::Kind::finite;
  const std::uint64_t leading = std::uint64_t{1} << format.fraction;
  const auto field = static_cast<int>(magnitude >> format.fraction);
  real.magnitude = (magnitude & (leading - 1)) | (field != 0 ? leading : 0);
  real.exponent = (field == 0 ? 1 : field) - format.bias() - static_cast<int>(format.fraction);
  return real;
}

std::uint64_t code_of(const FloatFormat& format, const Real& value, Rounding mode, bool saturate) {
  const std::uint64_t sign = value.negative ? format.sign() : 0;
  if (value.kind == Real::Kind::zero) return sign;
  if (value.kind == Real::Kind::infinite)
    return sign | (saturate || !format.infinity ? format.largest : format.largest + 1);
  const Real real = normalised(value);
  const int place = last_place(format, real);
  const int shift = place - real.exponent;                   // over 60: formats have 53 bits at most
  const Uint128 scaled = jammed(real.magnitude, shift - 2);  // with a half and a rest below the last place
  auto units = static_cast<std::uint64_t>(scaled >> 2);
  const auto rest = static_cast<std::uint32_t>(scaled & 3);
  bool up = false;
  switch (mode) {
    case Rounding::rn:
      up = rest > 2 || (rest == 2 && (units & 1) != 0);
      break;
    case Rounding::rna:
      up = rest >= 2;
      break;
    case Rounding::rz:
      break;
    case Rounding::rm:
      up = rest != 0 && value.negative;
      break;
    case Rounding::rp:
      up = rest != 0 && !value.negative;
      break;
  }
  if (up) ++units;
  const bool inward =
      mode == Rounding::rz || (mode == Rounding::rm && !value.negative) || (mode == Rounding::rp && value.negative);
  return code_of_units(format, value.negative, units, place, saturate || inward);
}

std::uint64_t code_with_noise(const FloatFormat& format, const Real& value, std::uint32_t noise, std::uint32_t bits,
                              bool saturate) {
  if (value.kind != Real::Kind::finite) return code_of(format, value, Rounding::rz, saturate);
  const Real real = normalised(value);
  const int place = last_place(format, real);
  const int shift = place - real.exponent - static_cast<int>(bits);
  const Uint128 scaled = shift > 127 ? 0 : real.magnitude >> shift;
  const auto units = static_cast<std::uint64_t>((scaled + noise) >> bits);
  return code_of_units(format, value.negative, units, place, saturate);
}

Real sum_of(const Real& a, const Real& b, Rounding mode) {
  using Kind = Real::Kind;
  if (a.kind == Kind::nan || b.kind == Kind::nan) return special(Kind::nan, false);
  if (a.kind == Kind::infinite || b.kind == Kind::infinite) {
    if (a.kind == b.kind && a.negative != b.negative) return special(Kind::nan, false);
    return a.kind == Kind::infinite ? a : b;
  }
  const bool zero_sign = a.negative == b.negative ? a.negative : mode == Rounding::rm;
  if (a.kind == Kind::zero && b.kind == Kind::zero) return special(Kind::zero, zero_sign);
  if (a.kind == Kind::zero) return b;
  if (b.kind == Kind::zero) return a;
  Real large = normalised(a);
  Real small = normalised(b);
  if (large.exponent < small.exponent || (large.exponent == small.exponent && large.magnitude < small.magnitude)) {
    std::swap(large, small);
  }
  const Uint128 aligned = jammed(small.magnitude, large.exponent - small.exponent);
  if (large.negative == small.negative) {
    large.magnitude += aligned;
  } else {
    large.magnitude -= aligned;
    if (large.magnitude == 0) return special(Kind::zero, mode == Rounding::rm);
  }
  return large;
}

Real product_of(const Real& a, const Real& b) {
  using Kind = Real::Kind;
  const bool negative = a.negative != b.negative;
  if (a.kind == Kind::nan || b.kind == Kind::nan) return special(Kind::nan, false);
  if (a.kind == Kind::infinite || b.kind == Kind::infinite) {
    return special(a.kind == Kind::zero || b.kind == Kind::zero ? Kind::nan : Kind::infinite, negative);
  }
  if (a.kind == Kind::zero || b.kind == Kind::zero) return special(Kind::zero, negative);
  Real real;  // factors have 53 bits at most
  real.kind = Kind::finite;
  real.negative = negative;
  real.exponent = a.exponent + b.exponent;
  real.magnitude = a.magnitude * b.magnitude;
  return real;
}

Real quotient_of(const Real& a, const Real& b) {
  using Kind = Real::Kind;
  const bool negative = a.negative != b.negative;
  if (a.kind == Kind::nan || b.kind == Kind::nan) return special(Kind::nan, false);
  if (a.kind == Kind::infinite) return special(b.kind == Kind::infinite ? Kind::nan : Kind::infinite, negative);
  if (b.kind == Kind::infinite) return special(Kind::zero, negative);
  if (b.kind == Kind::zero) return special(a.kind == Kind::zero ? Kind::nan : Kind::infinite, negative);
  if (a.kind == Kind::zero) return special(Kind::zero, negative);
  const Real dividend = normalised(a);
  Real real;
  real.kind = Kind::finite;
  real.negative = negative;
  real.magnitude = dividend.magnitude / b.magnitude;  // 71 bits or more
  if (real.magnitude * b.magnitude != dividend.magnitude) real.magnitude |= 1;
  real.exponent = dividend.exponent - b.exponent;
  return real;
}

Real root_of(const Real& a) {
  using Kind = Real::Kind;
  if (a.kind == Kind::nan || a.kind == Kind::zero) return a;
  if (a.negative) return special(Kind::nan, false);
  if (a.kind == Kind::infinite) return a;
  Real real = normalised(a);
  if (real.exponent % 2 != 0) {
    real.magnitude <<= 1;
    --real.exponent;
  }
  Uint128 root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Uint128 tried = root | Uint128{1} << bit;
    if (tried * tried <= real.magnitude) root = tried;
  }
  real.magnitude = root * root == real.magnitude ? root : root | 1;
  real.exponent /= 2;
  return real;
}

}  // namespace heddle::ptx
