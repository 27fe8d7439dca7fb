// Approximations: better than PTX asks for, and the same on every host, as they are polynomials and quotients in double
// precision and call no library.
#include "ptx/alu_forms.h"
#include "ptx/alu_half.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_real.h"
#include "ptx/alu_soft.h"

namespace heddle::ptx {

namespace {

constexpr double kLog2E = 0x1.71547652b82fep0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// π/2 in three parts, of which the first two have 33 bits.
constexpr double kHalfPi1 = 0x1.921fb544p+0;
constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;

double power_of_two(int exponent) {  // of normal numbers
  return double_of(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// e to the x, |x| <= ln 2 / 2: the series, to beyond double precision's last bit but for rounding.
double exponential_near_zero(double x) {
  double sum = 1;
  for (int i = 14; i > 0; --i) sum = 1 + sum * x / i;
  return sum;
}
// 2 to the x, for |x| below 1000.
double exponential2(double x) {
  const auto whole = static_cast<int>(x + (x < 0 ? -0.5 : 0.5));
  return exponential_near_zero((x - whole) * kLn2) * power_of_two(whole);
}
// Of a positive normal number.
double logarithm2(double x) {
  const std::uint64_t bits = bits64(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = double_of((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  if (mantissa > 0x1.6a09e667f3bcdp0) {  // around 1
    mantissa /= 2;
    ++exponent;
  }
  const double ratio = (mantissa - 1) / (mantissa + 1);
  const double square = ratio * ratio;
  double sum = 0;
  for (int i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  return exponent + 2 * ratio * sum * kLog2E;
}
// Of an angle: which quarter of the circle, and what is left of it, |rest| <= π/4.
struct Quarter {
  std::uint32_t number = 0;
  double rest = 0;
};
Quarter quarter_of(double angle) {
  // Beyond this the parts of π/2 are not exact any more; PTX says nothing of such angles. The remainder is exact, by a
  // circle that is not quite.
  constexpr double kMost = 0x1p20;
  if (std::fabs(angle) > kMost) angle = std::fmod(angle, 4 * (kHalfPi1 + kHalfPi2));
  const double turns = angle * kTwoOverPi;
  const auto whole = static_cast<std::int64_t>(turns + (turns < 0 ? -0.5 : 0.5));
  const auto quarters = static_cast<double>(whole);
  return {static_cast<std::uint32_t>(whole & 3),
          ((angle - quarters * kHalfPi1) - quarters * kHalfPi2) - quarters * kHalfPi3};
}
double sine_near_zero(double x) {
  const double square = x * x;
  double sum = 1;
  for (int i = 16; i > 0; i -= 2) sum = 1 - sum * square / (i * (i + 1));
  return x * sum;
}
double cosine_near_zero(double x) {
  const double square = x * x;
  double sum = 1;
  for (int i = 16; i > 0; i -= 2) sum = 1 - sum * square / (i * (i - 1));
  return sum;
}
// first: 0 the sine, 1 the cosine.
double circular(double angle, std::uint32_t first) {
  const Quarter quarter = quarter_of(angle);
  const std::uint32_t which = (quarter.number + first) & 3;
  const double size = (which & 1) != 0 ? cosine_near_zero(quarter.rest) : sine_near_zero(quarter.rest);
  return (which & 2) != 0 ? -size : size;
}

// -- Single precision -------------------------------------------------------------------------------------------------

template <bool Ftz>
float answer(double value) {
  return finished<Ftz, false>(static_cast<float>(value));
}
template <bool Ftz>
float sine(float a) {
  const float x = flushed<Ftz>(a);
  if (x == 0) return x;
  return std::isfinite(x) ? answer<Ftz>(circular(x, 0)) : float_of(kNan32);
}
template <bool Ftz>
float cosine(float a) {
  const float x = flushed<Ftz>(a);
  return std::isfinite(x) ? answer<Ftz>(circular(x, 1)) : float_of(kNan32);
}
template <bool Ftz>
float power2(float a) {
  const float x = flushed<Ftz>(a);
  if (x != x) return float_of(kNan32);
  if (x >= 200) return float_of(0x7f800000);
  return x <= -200 ? 0.0f : answer<Ftz>(exponential2(x));
}
template <bool Ftz>
float log2(float a) {
  const float x = flushed<Ftz>(a);
  if (x == 0) return float_of(0xff800000);
  if (!(x > 0)) return float_of(kNan32);
  return std::isinf(x) ? x : answer<Ftz>(logarithm2(x));
}
// Of a real number that is not NaN.
double hyperbolic_tangent(double x) {
  const double size = std::fabs(x);
  double result = 1;
  if (size < 0.125) {  // where the difference below would lose bits: sinh over cosh, as series
    const double square = size * size;
    double sinh = 1;
    double cosh = 1;
    for (int i = 12; i > 0; i -= 2) {
      sinh = 1 + sinh * square / (i * (i + 1));
      cosh = 1 + cosh * square / (i * (i - 1));
    }
    result = size * sinh / cosh;
  } else if (size < 20) {
    result = 1 - 2 / (exponential2(2 * size * kLog2E) + 1);
  }
  return std::copysign(result, x);
}
float tangent(float a) { return a != a ? float_of(kNan32) : answer<false>(hyperbolic_tangent(a)); }

template <bool Ftz>
float reciprocal(float a) {
  return finished<Ftz, false>(1.0f / flushed<Ftz>(a));
}
template <bool Ftz>
float root(float a) {
  return finished<Ftz, false>(std::sqrt(flushed<Ftz>(a)));
}
template <bool Ftz>
float reciprocal_root(float a) {
  const float x = flushed<Ftz>(a);
  if (x == 0) return float_of(0x7f800000 | (bits32(x) & 0x80000000));
  return answer<Ftz>(1 / std::sqrt(double{x}));
}
// a · (1 / b), where 1 / b has no place among normal numbers: zero, and NaN of an infinite a.
template <bool Ftz>
float divide_fast(float a, float b) {
  const float x = flushed<Ftz>(a);
  const float y = flushed<Ftz>(b);
  if (std::isfinite(y) && std::fabs(y) > 0x1p126f) {
    if (std::isinf(x) || x != x) return float_of(kNan32);
    return float_of((bits32(x) ^ bits32(y)) & 0x80000000);
  }
  return finished<Ftz, false>(x / y);
}
template <bool Ftz>
float divide_full(float a, float b) {
  return finished<Ftz, false>(flushed<Ftz>(a) / flushed<Ftz>(b));
}

// -- Double precision: the upper words of a number and of the result --------------------------------------------------

constexpr std::uint64_t kUpper = 0xffffffff00000000;
constexpr std::uint64_t kNanOfUpper = 0x7fffffff00000000;
constexpr std::uint64_t kInfinity64 = 0x7ff0000000000000;

std::uint64_t upper_flushed(std::uint64_t bits) {
  return (bits & kInfinity64) == 0 ? bits & 0x8000000000000000 : bits & kUpper;
}
template <bool Root>
double upper_reciprocal(double a) {
  const std::uint64_t bits = upper_flushed(bits64(a));
  const double x = double_of(bits);
  if (a != a) return double_of(kNanOfUpper);
  if (x == 0) return double_of(kInfinity64 | (bits & 0x8000000000000000));
  if (Root && x < 0) return double_of(kNanOfUpper);
  return double_of(upper_flushed(bits64(1 / (Root ? std::sqrt(x) : x))));
}
// Of all bits; subnormal numbers are not flushed.
double reciprocal_root64(double a) {
  if (a != a) return double_of(bits64(a) | kQuiet64);
  if (a == 0) return double_of(kInfinity64 | (bits64(a) & 0x8000000000000000));
  return a < 0 ? double_of(kNan64) : 1 / std::sqrt(a);
}

// -- Half precision ---------------------------------------------------------------------------------------------------

template <class Narrow>
Narrow power2_narrow(Narrow a) {
  const float x = to_float(a);
  if (x != x) return {kNan16};
  if (x >= 200) return finished<false, false>(to_narrow<Narrow>(float_of(0x7f800000)));
  if (x <= -200) return {0};
  return to_narrow<Narrow>(odd32(exponential2(x)));
}
Brain power2_flushed(Brain a) { return flushed<true>(power2_narrow(flushed<true>(a))); }
template <class Narrow>
Narrow tangent_narrow(Narrow a) {
  if (is_nan(a)) return {kNan16};
  return to_narrow<Narrow>(odd32(hyperbolic_tangent(to_float(a))));
}

template <class Narrow, Narrow (*Op)(Narrow)>
void add_with_pair(FormList& list, const std::string& head, const std::string& type) {
  list.add(head + "." + type, AluClass::special, kLanesOf<Op>, type + " = " + type);
  list.add(head + "." + type + "x2", AluClass::special,
           kLanesOf<static_cast<std::uint32_t (*)(std::uint32_t)>(both16<Narrow, Op>)>, type + "x2 = " + type + "x2");
}
template <bool Ftz>
void add_singles(FormList& list) {
  const std::string tail = std::string(".approx") + (Ftz ? ".ftz" : "") + ".f32";
  constexpr const char* kOne = "f32 = f32";
  list.add("sin" + tail, AluClass::special, kLanesOf<sine<Ftz>>, kOne);
  list.add("cos" + tail, AluClass::special, kLanesOf<cosine<Ftz>>, kOne);
  list.add("ex2" + tail, AluClass::special, kLanesOf<power2<Ftz>>, kOne);
  list.add("lg2" + tail, AluClass::special, kLanesOf<log2<Ftz>>, kOne);
  list.add("rcp" + tail, AluClass::special, kLanesOf<reciprocal<Ftz>>, kOne);
  list.add("sqrt" + tail, AluClass::special, kLanesOf<root<Ftz>>, kOne);
  list.add("rsqrt" + tail, AluClass::special, kLanesOf<reciprocal_root<Ftz>>, kOne);
  list.add("div" + tail, AluClass::special, kLanesOf<divide_fast<Ftz>>, "f32 = f32 f32");
  list.add(std::string("div.full") + (Ftz ? ".ftz" : "") + ".f32", AluClass::special, kLanesOf<divide_full<Ftz>>,
           "f32 = f32 f32");
}

}  // namespace

void add_special_forms(FormList& list) {
  add_singles<false>(list);
  add_singles<true>(list);
  list.add("tanh.approx.f32", AluClass::special, kLanesOf<tangent>, "f32 = f32");
  add_with_pair<Half, tangent_narrow<Half>>(list, "tanh.approx", "f16");
  add_with_pair<Brain, tangent_narrow<Brain>>(list, "tanh.approx", "bf16");
  add_with_pair<Half, power2_narrow<Half>>(list, "ex2.approx", "f16");
  add_with_pair<Brain, power2_flushed>(list, "ex2.approx.ftz", "bf16");
  list.add("rcp.approx.ftz.f64", AluClass::special, kLanesOf<upper_reciprocal<false>>, "f64 = f64");
  list.add("rsqrt.approx.ftz.f64", AluClass::special, kLanesOf<upper_reciprocal<true>>, "f64 = f64");
  list.add("rsqrt.approx.f64", AluClass::special, kLanesOf<reciprocal_root64>, "f64 = f64");
}

}  // namespace heddle::ptx
