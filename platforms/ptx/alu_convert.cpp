// cvt between integers and numbers of f16, bf16, f32 and f64. Packed and narrower formats are in alu_narrow.cpp.
#include <limits>

#include "ptx/alu_forms.h"
#include "ptx/alu_half.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_real.h"
#include "ptx/alu_soft.h"
#include "ptx/alu_types.h"

namespace heddle::ptx {

template <>
inline constexpr const char* kTypeName<Half> = "f16";
template <>
inline constexpr const char* kTypeName<Brain> = "bf16";

namespace {

template <class T>
constexpr bool kIsWide = sizeof(T) == 8;
template <class D, class A>
constexpr AluClass kGroup = kIsWide<D> || kIsWide<A> ? AluClass::convert_wide : AluClass::convert;

void add_named(FormList& list, const char* mode, const char* more, const char* to, const char* from, AluClass group,
               AluFunction function) {
  list.add(std::string("cvt") + mode + more + "." + to + "." + from, group, function, std::string(to) + " = " + from);
}
// Modifiers in two parts: the rounding, and what comes behind.
template <class D, class A>
void add_cvt(FormList& list, const char* mode, const char* more, AluFunction function) {
  add_named(list, mode, more, kTypeName<D>, kTypeName<A>, kGroup<D, A>, function);
}

// -- Integers into integers -------------------------------------------------------------------------------------------

template <class D, class A>
D resized(A a) {
  return static_cast<D>(a);
}
template <class D, class A>
D saturated(A a) {
  constexpr D kLeast = std::numeric_limits<D>::min();
  constexpr D kMost = std::numeric_limits<D>::max();
  if (a < 0) {
    if (std::is_unsigned_v<D>) return 0;
    return static_cast<Int128>(a) < static_cast<Int128>(kLeast) ? kLeast : static_cast<D>(a);
  }
  return static_cast<Uint128>(a) > static_cast<Uint128>(kMost) ? kMost : static_cast<D>(a);
}
// Whether some values of A have no place in D: otherwise PTX has no .sat.
template <class D, class A>
constexpr bool kCanOverflow = (std::is_signed_v<A> && std::is_unsigned_v<D>) || std::numeric_limits<A>::digits
                                                                                    > std::numeric_limits<D>::digits;
template <class D, class A>
void add_resize(FormList& list) {
  add_cvt<D, A>(list, "", "", kLanesOf<resized<D, A>>);
  if constexpr (kCanOverflow<D, A>) add_cvt<D, A>(list, "", ".sat", kLanesOf<saturated<D, A>>);
}

// -- What a number becomes --------------------------------------------------------------------------------------------

template <class T>
constexpr FloatFormat kFormatOf = kFormatF64;
template <>
constexpr FloatFormat kFormatOf<float> = kFormatF32;
template <>
constexpr FloatFormat kFormatOf<Half> = kFormatF16;
template <>
constexpr FloatFormat kFormatOf<Brain> = kFormatBf16;

template <class T>
T from_code(std::uint64_t code) {
  if constexpr (sizeof(T) == 8) {
    return double_of(code);
  } else if constexpr (sizeof(T) == 4) {
    return float_of(static_cast<std::uint32_t>(code));
  } else {
    return T{static_cast<std::uint16_t>(code)};
  }
}
// -- Integers into numbers --------------------------------------------------------------------------------------------

std::uint64_t code_of_integer(const FloatFormat& format, bool negative, std::uint64_t magnitude, Rounding mode) {
  Real real;
  real.kind = magnitude == 0 ? Real::Kind::zero : Real::Kind::finite;
  real.negative = negative;
  real.magnitude = magnitude;
  return code_of(format, real, mode);
}
template <class D, class A, Rounding M, bool Sat>
D number_of(A a) {
  if constexpr (M == Rounding::rn && sizeof(D) >= 4) {
    return finished<false, Sat>(static_cast<D>(a));
  } else if constexpr (M == Rounding::rn && sizeof(A) <= 4) {
    return finished<false, Sat>(to_narrow<D>(odd32(a)));
  } else {
    const bool negative = a < 0;
    const std::uint64_t bits = static_cast<std::uint64_t>(a);
    return finished<false, Sat>(from_code<D>(code_of_integer(kFormatOf<D>, negative, negative ? 0 - bits : bits, M)));
  }
}
template <class D, class A, Rounding M>
void add_number_of_mode(FormList& list, const char* mode) {
  add_cvt<D, A>(list, mode, "", kLanesOf<number_of<D, A, M, false>>);
  if constexpr (sizeof(D) == 4) add_cvt<D, A>(list, mode, ".ftz", kLanesOf<number_of<D, A, M, false>>);
  if constexpr (!std::is_same_v<D, Brain>) {
    add_cvt<D, A>(list, mode, ".sat", kLanesOf<number_of<D, A, M, true>>);
    if constexpr (sizeof(D) == 4) add_cvt<D, A>(list, mode, ".ftz.sat", kLanesOf<number_of<D, A, M, true>>);
  }
}
template <class D, class A>
void add_number(FormList& list) {
  add_number_of_mode<D, A, Rounding::rn>(list, ".rn");
  add_number_of_mode<D, A, Rounding::rz>(list, ".rz");
  add_number_of_mode<D, A, Rounding::rm>(list, ".rm");
  add_number_of_mode<D, A, Rounding::rp>(list, ".rp");
}

// -- Numbers into integers --------------------------------------------------------------------------------------------

inline double value_of(Half value) { return to_float(value); }
inline double value_of(Brain value) { return to_float(value); }
inline double value_of(float value) { return value; }
inline double value_of(double value) { return value; }

template <class T>
bool is_not_a_number(T value) {
  if constexpr (sizeof(T) == 2) {
    return is_nan(value);
  } else {
    return value != value;
  }
}

// Not of NaN; |value| < 2^62.
template <Rounding M>
std::int64_t integer_near(double value) {
  auto whole = static_cast<std::int64_t>(value);
  const double rest = value - static_cast<double>(whole);  // has the sign of the value
  const double size = std::fabs(rest);
  switch (M) {
    case Rounding::rz:
      break;
    case Rounding::rm:
      whole -= rest < 0 ? 1 : 0;
      break;
    case Rounding::rp:
      whole += rest > 0 ? 1 : 0;
      break;
    default:
      if (size > 0.5 || (size == 0.5 && (whole & 1) != 0)) whole += rest < 0 ? -1 : 1;
  }
  return whole;
}
template <class D, Rounding M>
[[gnu::noinline]] D integer_of_double(double value) {
  constexpr D kLeast = std::numeric_limits<D>::min();
  constexpr D kMost = std::numeric_limits<D>::max();
  if (value < 0x1p62 && value > -0x1p62) return saturated<D>(integer_near<M>(value));
  if (value < 0) {
    if constexpr (std::is_same_v<D, std::int64_t>) return value > -0x1p63 ? static_cast<D>(value) : kLeast;
    return kLeast;
  }
  if constexpr (sizeof(D) == 8) {
    constexpr double kEnd = std::is_signed_v<D> ? 0x1p63 : 0x1p64;
    return value < kEnd ? static_cast<D>(value) : kMost;
  }
  return kMost;
}
// What becomes of NaN depends on the types.
template <class D, class A>
constexpr D kIntegerOfNan = std::is_same_v<A, double> || sizeof(D) == 8
                                ? static_cast<D>(std::make_unsigned_t<D>{1} << (8 * sizeof(D) - 1))
                                : D{0};
template <class D, class A, Rounding M, bool Ftz>
D integer_of(A a) {
  if (is_not_a_number(a)) return kIntegerOfNan<D, A>;
  if constexpr (Ftz) {
    return integer_of_double<D, M>(flushed<true>(a));
  } else {
    return integer_of_double<D, M>(value_of(a));
  }
}
// The most frequent one, for the vectoriser.
std::int32_t integer_of_single(float a) {
  const float above = a > -0x1p31f ? a : -0x1p31f;
  const float inside = above < 0x1.fffffep30f ? above : 0x1.fffffep30f;
  const std::int32_t whole = static_cast<std::int32_t>(inside);
  const std::int32_t limited = a >= 0x1p31f ? std::numeric_limits<std::int32_t>::max() : whole;
  return a == a ? limited : 0;
}
template <class D, class A, Rounding M>
void add_integer_of_mode(FormList& list, const char* mode) {
  constexpr bool kPlain = std::is_same_v<D, std::int32_t> && std::is_same_v<A, float> && M == Rounding::rz;
  const AluFunction function = kPlain ? kLanesOf<integer_of_single> : kLanesOf<integer_of<D, A, M, false>>;
  add_cvt<D, A>(list, mode, "", function);
  add_cvt<D, A>(list, mode, ".sat", function);
  if constexpr (std::is_same_v<A, float>) {
    add_cvt<D, A>(list, mode, ".ftz", kLanesOf<integer_of<D, A, M, true>>);
    add_cvt<D, A>(list, mode, ".ftz.sat", kLanesOf<integer_of<D, A, M, true>>);
  }
}
template <class D, class A>
void add_integer(FormList& list) {
  add_integer_of_mode<D, A, Rounding::rn>(list, ".rni");
  add_integer_of_mode<D, A, Rounding::rz>(list, ".rzi");
  add_integer_of_mode<D, A, Rounding::rm>(list, ".rmi");
  add_integer_of_mode<D, A, Rounding::rp>(list, ".rpi");
}

// -- Numbers into numbers ---------------------------------------------------------------------------------------------

// The whole number near a value, as a number; of the same sign.
template <Rounding M, class T>
T whole_near(T value) {
  constexpr T kUnits = sizeof(T) == 4 ? T(0x1p23) : T(0x1p52);  // from here on every number is whole
  const T size = std::fabs(value);
  T whole = (size + kUnits) - kUnits;  // to nearest even
  const bool negative = std::signbit(value);
  const bool down = M == Rounding::rz || (M == Rounding::rm && !negative) || (M == Rounding::rp && negative);
  const bool up = (M == Rounding::rm && negative) || (M == Rounding::rp && !negative);
  whole = down && whole > size ? whole - 1 : whole;
  whole = up && whole < size ? whole + 1 : whole;
  return std::copysign(size < kUnits ? whole : size, value);
}

template <class D, Rounding M>
D rounded_to(double value) {
  if constexpr (std::is_same_v<D, double>) {
    return value;
  } else if constexpr (std::is_same_v<D, float>) {
    return rounded32<M>(value);
  } else if constexpr (M == Rounding::rn) {
    return to_narrow<D>(odd32(value));
  } else {
    if (value != value) return D{kNan16};
    return from_code<D>(code_of(kFormatOf<D>, real_of(value), M));
  }
}
// Numbers of half precision pass through single precision, which is exact.
template <class D, class A, Rounding M, bool Ftz, bool Sat>
D converted(A a) {
  double value = 0;
  if constexpr (std::is_same_v<A, float>) {
    value = flushed<Ftz>(a);
  } else {
    value = value_of(a);
  }
  if constexpr (std::is_same_v<D, double>) {
    if (value != value) value = double_of(bits64(value) | kQuiet64);
    return finished<false, Sat>(value);
  } else {
    return finished < Ftz && sizeof(D) == 4, Sat > (rounded_to<D, M>(value));
  }
}
template <class T, Rounding M, bool Ftz, bool Sat>
T whole(T a) {
  if constexpr (sizeof(T) == 2) {
    return finished<Ftz, Sat>(to_narrow<T>(whole_near<M>(to_float(a))));
  } else if constexpr (sizeof(T) == 4) {
    return finished<Ftz, Sat>(whole_near<M>(flushed<Ftz>(a)));
  } else {
    return finished<Ftz, Sat>(a == a ? whole_near<M>(a) : double_of(bits64(a) | kQuiet64));
  }
}

template <class D, class A, Rounding M>
void add_conversion_of_mode(FormList& list, const char* mode) {
  constexpr bool kHasFtz = sizeof(D) == 4 || sizeof(A) == 4;
  constexpr bool kHasSat = !std::is_same_v<D, Brain>;
  add_cvt<D, A>(list, mode, "", kLanesOf<converted<D, A, M, false, false>>);
  if constexpr (kHasFtz) add_cvt<D, A>(list, mode, ".ftz", kLanesOf<converted<D, A, M, true, false>>);
  if constexpr (kHasSat) add_cvt<D, A>(list, mode, ".sat", kLanesOf<converted<D, A, M, false, true>>);
  if constexpr (kHasFtz && kHasSat) {
    add_cvt<D, A>(list, mode, ".ftz.sat", kLanesOf<converted<D, A, M, true, true>>);
  }
}
template <class D, class A>
void add_rounded_conversion(FormList& list) {
  add_conversion_of_mode<D, A, Rounding::rn>(list, ".rn");
  add_conversion_of_mode<D, A, Rounding::rz>(list, ".rz");
  add_conversion_of_mode<D, A, Rounding::rm>(list, ".rm");
  add_conversion_of_mode<D, A, Rounding::rp>(list, ".rp");
}
template <class T, Rounding M>
void add_whole_of_mode(FormList& list, const char* mode) {
  add_cvt<T, T>(list, mode, "", kLanesOf<whole<T, M, false, false>>);
  if constexpr (sizeof(T) == 4) add_cvt<T, T>(list, mode, ".ftz", kLanesOf<whole<T, M, true, false>>);
  if constexpr (!std::is_same_v<T, Brain>) add_cvt<T, T>(list, mode, ".sat", kLanesOf<whole<T, M, false, true>>);
  if constexpr (sizeof(T) == 4) add_cvt<T, T>(list, mode, ".ftz.sat", kLanesOf<whole<T, M, true, true>>);
}
// The same type on both sides.
template <class T>
void add_same(FormList& list) {
  add_conversion_of_mode<T, T, Rounding::rn>(list, "");
  add_whole_of_mode<T, Rounding::rn>(list, ".rni");
  add_whole_of_mode<T, Rounding::rz>(list, ".rzi");
  add_whole_of_mode<T, Rounding::rm>(list, ".rmi");
  add_whole_of_mode<T, Rounding::rp>(list, ".rpi");
}

// -- Forms ------------------------------------------------------------------------------------------------------------

template <class D>
void add_into_integer(FormList& list) {
  add_resize<D, std::uint8_t>(list);
  add_resize<D, std::int8_t>(list);
  add_resize<D, std::uint16_t>(list);
  add_resize<D, std::int16_t>(list);
  add_resize<D, std::uint32_t>(list);
  add_resize<D, std::int32_t>(list);
  add_resize<D, std::uint64_t>(list);
  add_resize<D, std::int64_t>(list);
  add_integer<D, Half>(list);
  add_integer<D, Brain>(list);
  add_integer<D, float>(list);
  add_integer<D, double>(list);
}
template <class D>
void add_from_integers(FormList& list) {
  add_number<D, std::uint8_t>(list);
  add_number<D, std::int8_t>(list);
  add_number<D, std::uint16_t>(list);
  add_number<D, std::int16_t>(list);
  add_number<D, std::uint32_t>(list);
  add_number<D, std::int32_t>(list);
  add_number<D, std::uint64_t>(list);
  add_number<D, std::int64_t>(list);
}

}  // namespace

void add_convert_forms(FormList& list) {
  add_into_integer<std::uint8_t>(list);
  add_into_integer<std::int8_t>(list);
  add_into_integer<std::uint16_t>(list);
  add_into_integer<std::int16_t>(list);
  add_into_integer<std::uint32_t>(list);
  add_into_integer<std::int32_t>(list);
  add_into_integer<std::uint64_t>(list);
  add_into_integer<std::int64_t>(list);
  add_from_integers<Half>(list);
  add_from_integers<Brain>(list);
  add_from_integers<float>(list);
  add_from_integers<double>(list);
  add_same<Half>(list);
  add_same<Brain>(list);
  add_same<float>(list);
  add_same<double>(list);
  add_conversion_of_mode<float, Half, Rounding::rn>(list, "");
  add_conversion_of_mode<float, Brain, Rounding::rn>(list, "");
  add_conversion_of_mode<double, Half, Rounding::rn>(list, "");
  add_conversion_of_mode<double, Brain, Rounding::rn>(list, "");
  add_conversion_of_mode<double, float, Rounding::rn>(list, "");
  add_rounded_conversion<float, double>(list);
  add_rounded_conversion<Half, float>(list);
  add_rounded_conversion<Half, double>(list);
  add_rounded_conversion<Half, Brain>(list);
  add_rounded_conversion<Brain, float>(list);
  add_rounded_conversion<Brain, double>(list);
  add_rounded_conversion<Brain, Half>(list);
}

}  // namespace heddle::ptx
