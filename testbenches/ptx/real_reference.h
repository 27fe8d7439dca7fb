// Real numbers as IEEE 754 and PTX define them: a code stands for a number, and a rounding is the code on one side of
// the exact number or on the other. Numbers are integers of any length times powers of two.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include <boost/multiprecision/cpp_int.hpp>

namespace heddle::test {

using Big = boost::multiprecision::cpp_int;

// nan: of what a code beyond the finite ones is. ieee: infinity behind the largest, then NaNs; last: the last code is a
// NaN; none: all codes are finite.
struct RealFormat {
  enum class Special { ieee, last, none };
  int exponent_bits;
  int fraction_bits;
  Special special = Special::ieee;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint64_t sign() const { return std::uint64_t{1} << (exponent_bits + fraction_bits); }
  std::uint64_t largest() const {
    const std::uint64_t all = sign() - 1;
    if (special == Special::none) return all;
    if (special == Special::last) return all - 1;
    return ((std::uint64_t{1} << exponent_bits) - 1 << fraction_bits) - 1;
  }
};
inline constexpr RealFormat kRef64{11, 52};
inline constexpr RealFormat kRef32{8, 23};
inline constexpr RealFormat kRefTf32{8, 10};
inline constexpr RealFormat kRef16{5, 10};
inline constexpr RealFormat kRefBrain{8, 7};

struct Exact {
  enum class Kind { finite, infinite, nan };
  Kind kind = Kind::finite;
  bool negative = false;
  Big size = 0;  // |number| = size · 2^power
  int power = 0;

  bool zero() const { return kind == Kind::finite && size == 0; }
};

inline int compare(const Big& a, int a_power, const Big& b, int b_power) {
  const int least = std::min(a_power, b_power);
  const Big x = a << (a_power - least);
  const Big y = b << (b_power - least);
  return x < y ? -1 : x > y ? 1 : 0;
}

// Of a code without sign, as if there were no infinity.
inline Exact size_of(const RealFormat& format, std::uint64_t code) {
  const auto field = static_cast<int>(code >> format.fraction_bits);
  const std::uint64_t fraction = code & ((std::uint64_t{1} << format.fraction_bits) - 1);
  Exact exact;
  exact.size = field == 0 ? Big(fraction) : Big((std::uint64_t{1} << format.fraction_bits) + fraction);
  exact.power = (field == 0 ? 1 : field) - format.bias() - format.fraction_bits;
  return exact;
}
inline Exact decode(const RealFormat& format, std::uint64_t bits) {
  const std::uint64_t code = bits & (format.sign() - 1);
  Exact exact = size_of(format, code);
  exact.negative = (bits & format.sign()) != 0;
  if (code > format.largest()) {
    const bool infinite = format.special == RealFormat::Special::ieee && code == format.largest() + 1;
    exact.kind = infinite ? Exact::Kind::infinite : Exact::Kind::nan;
  }
  return exact;
}

// mode: rn, rz, rm, rp, rna. Not of NaN. Beyond the largest number: infinity or the largest, as IEEE 754 (4.3) says;
// finite: the largest.
inline std::uint64_t encode(const RealFormat& format, const Exact& exact, const std::string& mode,
                            bool finite = false) {
  const std::uint64_t sign = exact.negative ? format.sign() : 0;
  const std::uint64_t most = format.largest();
  const bool has_infinity = format.special == RealFormat::Special::ieee;
  if (exact.kind == Exact::Kind::infinite) return sign | (finite || !has_infinity ? most : most + 1);
  if (exact.size == 0) return sign;
  // A code not above the number …
  const int leading = static_cast<int>(msb(exact.size)) + exact.power;
  const int place = std::max(leading, 1 - format.bias()) - format.fraction_bits;
  const Big units =
      place >= exact.power ? Big(exact.size >> (place - exact.power)) : Big(exact.size << (exact.power - place));
  std::uint64_t below = most;
  if (leading - 1 + format.bias() < (1 << format.exponent_bits)) {
    const int field = place + format.fraction_bits + format.bias() - 1;
    below = (static_cast<std::uint64_t>(field) << format.fraction_bits) + static_cast<std::uint64_t>(units);
  }
  below = std::min(below, most);
  // … and the next one is. What the codes stand for says whether that is so.
  const Exact low = size_of(format, below);
  const Exact high = size_of(format, below + 1);
  if (compare(low.size, low.power, exact.size, exact.power) > 0) throw std::logic_error("reference: not below");
  const bool beyond = compare(high.size, high.power, exact.size, exact.power) <= 0;
  if (beyond && below != most) throw std::logic_error("reference: not above");
  if (compare(low.size, low.power, exact.size, exact.power) == 0) return sign | below;
  const int least = std::min(low.power, high.power);
  const Big twice_middle = (low.size << (low.power - least)) + (high.size << (high.power - least));
  const int side = compare(exact.size, exact.power + 1, twice_middle, least);
  bool up = false;
  if (mode == "rn") {
    up = side > 0 || (side == 0 && (below & 1) != 0);
  } else if (mode == "rna") {
    up = side >= 0;
  } else if (mode == "rp") {
    up = !exact.negative;
  } else if (mode == "rm") {
    up = exact.negative;
  } else if (mode != "rz") {
    throw std::logic_error("reference: mode " + mode);
  }
  if (!up) return sign | below;
  return sign | (below == most && (finite || !has_infinity) ? most : below + 1);
}

inline Exact not_a_number() {
  Exact exact;
  exact.kind = Exact::Kind::nan;
  return exact;
}
inline Exact negated(Exact a) {
  a.negative = !a.negative;
  return a;
}
// IEEE 754, 6.3: the sign of an exact zero.
inline Exact plus(const Exact& a, const Exact& b, const std::string& mode) {
  using Kind = Exact::Kind;
  if (a.kind == Kind::nan || b.kind == Kind::nan) return not_a_number();
  if (a.kind == Kind::infinite && b.kind == Kind::infinite) return a.negative == b.negative ? a : not_a_number();
  if (a.kind == Kind::infinite) return a;
  if (b.kind == Kind::infinite) return b;
  Exact sum;
  sum.power = std::min(a.power, b.power);
  const Big x = a.size << (a.power - sum.power);
  const Big y = b.size << (b.power - sum.power);
  const Big total = (a.negative ? Big(-x) : x) + (b.negative ? Big(-y) : y);
  sum.negative = total == 0 ? (a.negative == b.negative ? a.negative : mode == "rm") : total < 0;
  sum.size = abs(total);
  return sum;
}
inline Exact times(const Exact& a, const Exact& b) {
  using Kind = Exact::Kind;
  Exact product;
  product.negative = a.negative != b.negative;
  if (a.kind == Kind::nan || b.kind == Kind::nan) return not_a_number();
  if (a.kind == Kind::infinite || b.kind == Kind::infinite) {
    if (a.zero() || b.zero()) return not_a_number();
    product.kind = Kind::infinite;
    return product;
  }
  product.size = a.size * b.size;
  product.power = a.power + b.power;
  return product;
}
// To so many bits that what is left out cannot matter; it is the last bit.
inline Exact over(const Exact& a, const Exact& b) {
  using Kind = Exact::Kind;
  constexpr int kMore = 300;
  Exact quotient;
  quotient.negative = a.negative != b.negative;
  if (a.kind == Kind::nan || b.kind == Kind::nan) return not_a_number();
  if (a.kind == Kind::infinite) {
    if (b.kind == Kind::infinite) return not_a_number();
    quotient.kind = Kind::infinite;
    return quotient;
  }
  if (b.kind == Kind::infinite) return quotient;
  if (b.zero()) {
    if (a.zero()) return not_a_number();
    quotient.kind = Kind::infinite;
    return quotient;
  }
  const Big dividend = a.size << kMore;
  quotient.size = dividend / b.size * 2 + (dividend % b.size != 0 ? 1 : 0);
  quotient.power = a.power - b.power - kMore - 1;
  return quotient;
}
inline Exact root(const Exact& a) {
  if (a.kind == Exact::Kind::nan || a.zero()) return a;
  if (a.negative) return not_a_number();
  if (a.kind == Exact::Kind::infinite) return a;
  const int more = 200 + (a.power & 1);  // an even power of two
  Big rest;
  Exact result;
  const Big size = a.size << more;
  result.size = sqrt(size, rest) * 2 + (rest != 0 ? 1 : 0);
  result.power = (a.power - more) / 2 - 1;
  return result;
}
// To a whole number. mode: rni, rzi, rmi, rpi.
inline Big whole(const Exact& a, const std::string& mode) {
  if (a.power >= 0) return a.size << a.power;
  const Big unit = Big(1) << -a.power;
  const Big below = a.size / unit;
  const Big rest = a.size % unit;
  bool up = false;
  if (mode == "rni") up = 2 * rest > unit || (2 * rest == unit && below % 2 == 1);
  if (mode == "rmi") up = a.negative && rest != 0;
  if (mode == "rpi") up = !a.negative && rest != 0;
  return up ? below + 1 : below;
}
inline Exact exact_integer(const Big& value) {
  Exact exact;
  exact.negative = value < 0;
  exact.size = abs(value);
  return exact;
}
inline long double approximately(const Exact& a) {
  long double size = a.size.convert_to<long double>();
  size = std::ldexp(size, a.power);
  return a.negative ? -size : size;
}

}  // namespace heddle::test
