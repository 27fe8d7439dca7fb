// Single and double precision: what IEEE 754 and PTX say exactly. Approximations are in alu_special.cpp.
#include "ptx/alu_forms.h"
#include "ptx/alu_half.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_real.h"
#include "ptx/alu_soft.h"
#include "ptx/alu_types.h"

namespace heddle::ptx {

namespace {

// -- Single precision -------------------------------------------------------------------------------------------------

template <Rounding M, bool Ftz, bool Sat>
HEDDLE_IN_LOOP float add32(float a, float b) {
  return finished<Ftz, Sat>(sum32<M>(flushed<Ftz>(a), flushed<Ftz>(b)));
}
template <Rounding M, bool Ftz, bool Sat>
HEDDLE_IN_LOOP float subtract32(float a, float b) {
  return add32<M, Ftz, Sat>(a, float_of(bits32(b) ^ 0x80000000));
}
template <Rounding M, bool Ftz, bool Sat>
HEDDLE_IN_LOOP float multiply32(float a, float b) {
  return finished<Ftz, Sat>(product32<M>(flushed<Ftz>(a), flushed<Ftz>(b)));
}
template <Rounding M, bool Ftz, bool Sat>
HEDDLE_IN_LOOP float fuse32(float a, float b, float c) {
  return finished<Ftz, Sat>(fused32<M>(flushed<Ftz>(a), flushed<Ftz>(b), flushed<Ftz>(c)));
}

#if defined(__x86_64__) && defined(__GNUC__)
// The same function to the bit, where the host has fused multiply-add.
#define HEDDLE_HOST_FMA __attribute__((target("avx2,fma")))
template <bool Ftz, bool Sat>
HEDDLE_HOST_FMA void fuse32_on_host(AluOperands& operands) {
  if (operands.lanes != kAllLanes || operands.d[0] == nullptr) {
    kLanesOf<fuse32<Rounding::rn, Ftz, Sat>>(operands);
    return;
  }
  std::uint32_t* const d = operands.d[0];
  const std::uint32_t* const a = operands.s[0];
  const std::uint32_t* const b = operands.s[1];
  const std::uint32_t* const c = operands.s[2];
  HEDDLE_INDEPENDENT
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const float value = __builtin_fmaf(flushed<Ftz>(float_of(a[lane])), flushed<Ftz>(float_of(b[lane])),
                                       flushed<Ftz>(float_of(c[lane])));
    d[lane] = bits32(finished<Ftz, Sat>(value));
  }
}
HEDDLE_HOST_FMA void fuse64_on_host(AluOperands& operands) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const std::uint32_t* const s[] = {operands.s[0], operands.s[1], operands.s[2]};
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((operands.lanes >> lane & 1) == 0) continue;
    const auto a = read_lane<double>(s[0], lane);
    const auto b = read_lane<double>(s[1], lane);
    const auto c = read_lane<double>(s[2], lane);
    write_lane(d, lane, first_nan(a, b, c, __builtin_fma(a, b, c)));
  }
}
bool host_has_fma() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
template <bool Ftz, bool Sat>
void fuse32_on_host(AluOperands& operands) {
  kLanesOf<fuse32<Rounding::rn, Ftz, Sat>>(operands);
}
void fuse64_on_host(AluOperands&) {}
bool host_has_fma() { return false; }
#endif

template <Rounding M, bool Ftz>
float divide32(float a, float b) {
  const float x = flushed<Ftz>(a);
  const float y = flushed<Ftz>(b);
  if constexpr (M == Rounding::rn) {
    return finished<Ftz, false>(x / y);
  } else {
    const Real quotient = quotient_of(real_of(x), real_of(y));
    if (quotient.kind == Real::Kind::nan) return float_of(kNan32);
    return flushed<Ftz>(float_of(static_cast<std::uint32_t>(code_of(kFormatF32, quotient, M))));
  }
}
template <Rounding M, bool Ftz>
float reciprocal32(float a) {
  return divide32<M, Ftz>(1.0f, a);
}
template <Rounding M, bool Ftz>
float root32(float a) {
  const float x = flushed<Ftz>(a);
  if constexpr (M == Rounding::rn) {
    return finished<Ftz, false>(std::sqrt(x));
  } else {
    const Real root = root_of(real_of(x));
    if (root.kind == Real::Kind::nan) return float_of(kNan32);
    return float_of(static_cast<std::uint32_t>(code_of(kFormatF32, root, M)));
  }
}

template <bool Ftz>
float absolute32(float a) {
  return finished<Ftz, false>(float_of(bits32(a) & 0x7fffffff));
}
template <bool Ftz>
float negate32(float a) {
  return finished<Ftz, false>(float_of(bits32(a) ^ 0x80000000));
}

// How the smaller and the larger of numbers are found.
enum class Extremes : std::uint8_t { plain, nan, xorsign, nan_xorsign, abs, nan_abs };
constexpr bool keeps_nan(Extremes how) {
  return how == Extremes::nan || how == Extremes::nan_xorsign || how == Extremes::nan_abs;
}
constexpr bool takes_abs(Extremes how) { return how != Extremes::plain && how != Extremes::nan; }
constexpr bool takes_sign(Extremes how) { return how == Extremes::xorsign || how == Extremes::nan_xorsign; }

// Codes of numbers, in their order: -0 is less than +0. In integers all through, for the vectoriser.
HEDDLE_IN_LOOP std::int32_t ordered(std::uint32_t code) {
  return static_cast<std::int32_t>(code ^ static_cast<std::uint32_t>(static_cast<std::int32_t>(code) >> 31) >> 1);
}
HEDDLE_IN_LOOP bool is_nan32(std::uint32_t code) { return static_cast<std::int32_t>(code & 0x7fffffff) > 0x7f800000; }
template <bool Max, Extremes How>
HEDDLE_IN_LOOP float extreme32(float a, float b) {
  std::uint32_t x = bits32(a);
  std::uint32_t y = bits32(b);
  const std::uint32_t sign = (x ^ y) & 0x80000000;
  if constexpr (takes_abs(How)) {
    x &= 0x7fffffff;
    y &= 0x7fffffff;
  }
  const bool first = Max ? ordered(x) > ordered(y) : ordered(x) < ordered(y);
  std::uint32_t d = first ? x : y;
  d = is_nan32(x) ? (keeps_nan(How) ? kNan32 : y) : d;
  d = is_nan32(y) ? (keeps_nan(How) ? kNan32 : x) : d;
  const bool nan = is_nan32(d);
  if constexpr (takes_sign(How)) d = (d & 0x7fffffff) | sign;
  return float_of(nan ? kNan32 : d);
}
template <bool Max, bool Ftz, Extremes How>
HEDDLE_IN_LOOP float extreme_of_two(float a, float b) {
  return extreme32<Max, How>(flushed<Ftz>(a), flushed<Ftz>(b));
}
template <bool Max, bool Ftz, Extremes How>
HEDDLE_IN_LOOP float extreme_of_three(float a, float b, float c) {
  return extreme32<Max, How>(extreme_of_two<Max, Ftz, How>(a, b), flushed<Ftz>(c));
}

// Two numbers of single precision in 64 bits.
template <auto Op>
std::uint64_t both32(std::uint64_t a, std::uint64_t b) {
  const auto low = bits32(Op(float_of(static_cast<std::uint32_t>(a)), float_of(static_cast<std::uint32_t>(b))));
  const auto high =
      bits32(Op(float_of(static_cast<std::uint32_t>(a >> 32)), float_of(static_cast<std::uint32_t>(b >> 32))));
  return low | std::uint64_t{high} << 32;
}
template <auto Op>
std::uint64_t both32(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const auto low = bits32(Op(float_of(static_cast<std::uint32_t>(a)), float_of(static_cast<std::uint32_t>(b)),
                             float_of(static_cast<std::uint32_t>(c))));
  const auto high =
      bits32(Op(float_of(static_cast<std::uint32_t>(a >> 32)), float_of(static_cast<std::uint32_t>(b >> 32)),
                float_of(static_cast<std::uint32_t>(c >> 32))));
  return low | std::uint64_t{high} << 32;
}
using Pair2 = std::uint64_t (*)(std::uint64_t, std::uint64_t);
using Pair3 = std::uint64_t (*)(std::uint64_t, std::uint64_t, std::uint64_t);

// Narrow numbers into sums of single precision.
template <class Narrow, Rounding M, bool Sat>
float add_narrow(Narrow a, float c) {
  return add32<M, false, Sat>(to_float(a), c);
}
template <class Narrow, Rounding M, bool Sat>
float subtract_narrow(Narrow a, float c) {
  return subtract32<M, false, Sat>(to_float(a), c);
}
template <class Narrow, Rounding M, bool Sat>
float fuse_narrow(Narrow a, Narrow b, float c) {
  return fuse32<M, false, Sat>(to_float(a), to_float(b), c);
}

// -- Double precision -------------------------------------------------------------------------------------------------

double double_from(const Real& value, Rounding mode) {
  return double_of(value.kind == Real::Kind::nan ? kNan64 : code_of(kFormatF64, value, mode));
}
template <Rounding M>
double add64(double a, double b) {
  if constexpr (M == Rounding::rn) return first_nan(a, b, a + b);
  return first_nan(a, b, double_from(sum_of(real_of(a), real_of(b), M), M));
}
template <Rounding M>
double subtract64(double a, double b) {
  const double negative = double_of(bits64(b) ^ 0x8000000000000000);
  return first_nan(a, b, add64<M>(a, negative));
}
template <Rounding M>
double multiply64(double a, double b) {
  if constexpr (M == Rounding::rn) return first_nan(a, b, a * b);
  return first_nan(a, b, double_from(product_of(real_of(a), real_of(b)), M));
}
template <Rounding M>
double fuse64(double a, double b, double c) {
  return first_nan(a, b, c, double_from(sum_of(product_of(real_of(a), real_of(b)), real_of(c), M), M));
}
template <Rounding M>
double divide64(double a, double b) {
  if constexpr (M == Rounding::rn) return first_nan(a, b, a / b);
  return first_nan(a, b, double_from(quotient_of(real_of(a), real_of(b)), M));
}
template <Rounding M>
double reciprocal64(double a) {
  return divide64<M>(1.0, a);
}
template <Rounding M>
double root64(double a) {
  if constexpr (M == Rounding::rn) return first_nan(a, a, std::sqrt(a));
  return first_nan(a, a, double_from(root_of(real_of(a)), M));
}
// NaNs pass unchanged.
double absolute64(double a) { return a != a ? a : double_of(bits64(a) & 0x7fffffffffffffff); }
double negate64(double a) { return a != a ? a : double_of(bits64(a) ^ 0x8000000000000000); }
template <bool Max>
double extreme64(double a, double b) {
  if (a != a || b != b) return a == a ? a : b == b ? b : first_nan(a, b, a);
  if (a == b) {  // zeros of two signs
    return double_of(Max ? bits64(a) & bits64(b) : bits64(a) | bits64(b));
  }
  return (a < b) != Max ? a : b;
}

template <class T>
T with_sign(T a, T b) {  // b with the sign of a
  if constexpr (sizeof(T) == 4) {
    return float_of((bits32(b) & 0x7fffffff) | (bits32(a) & 0x80000000));
  } else {
    return double_of((bits64(b) & 0x7fffffffffffffff) | (bits64(a) & 0x8000000000000000));
  }
}

// -- Forms ------------------------------------------------------------------------------------------------------------

constexpr const char* kTwo32 = "f32 = f32 f32";
constexpr const char* kThree32 = "f32 = f32 f32 f32";
constexpr const char* kTwo64 = "f64 = f64 f64";
constexpr const char* kThree64 = "f64 = f64 f64 f64";

template <class Narrow, Rounding M, bool Sat>
void add_narrow_sums(FormList& list, const std::string& mode, const char* type) {
  const std::string end = mode + (Sat ? ".sat" : "") + ".f32." + type;
  const std::string slots = std::string("f32 = ") + type;
  list.add("add" + end, AluClass::fp32, kLanesOf<add_narrow<Narrow, M, Sat>>, slots + " f32");
  list.add("sub" + end, AluClass::fp32, kLanesOf<subtract_narrow<Narrow, M, Sat>>, slots + " f32");
  if (!mode.empty()) {
    list.add("fma" + end, AluClass::fp32, kLanesOf<fuse_narrow<Narrow, M, Sat>>, slots + " " + type + " f32");
  }
}

// mode: ".rn", or nothing, which is .rn.
template <Rounding M, bool Ftz, bool Sat>
void add_sums(FormList& list, const std::string& mode) {
  const std::string end = mode + (Ftz ? ".ftz" : "") + (Sat ? ".sat" : "") + ".f32";
  list.add("add" + end, AluClass::fp32, kLanesOf<add32<M, Ftz, Sat>>, kTwo32);
  list.add("sub" + end, AluClass::fp32, kLanesOf<subtract32<M, Ftz, Sat>>, kTwo32);
  list.add("mul" + end, AluClass::fp32, kLanesOf<multiply32<M, Ftz, Sat>>, kTwo32);
  if (!mode.empty()) {
    const bool host = M == Rounding::rn && host_has_fma();
    const AluFunction fuse = host ? &fuse32_on_host<Ftz, Sat> : kLanesOf<fuse32<M, Ftz, Sat>>;
    list.add("fma" + end, AluClass::fp32, fuse, kThree32);
    list.add("mad" + end, AluClass::fp32, fuse, kThree32);
  }
  if constexpr (!Sat) {
    const std::string x2 = end + "x2";
    list.add("add" + x2, AluClass::fp32, kLanesOf<static_cast<Pair2>(both32<add32<M, Ftz, false>>)>,
             "f32x2 = f32x2 f32x2");
    list.add("sub" + x2, AluClass::fp32, kLanesOf<static_cast<Pair2>(both32<subtract32<M, Ftz, false>>)>,
             "f32x2 = f32x2 f32x2");
    list.add("mul" + x2, AluClass::fp32, kLanesOf<static_cast<Pair2>(both32<multiply32<M, Ftz, false>>)>,
             "f32x2 = f32x2 f32x2");
    if (!mode.empty()) {
      list.add("fma" + x2, AluClass::fp32, kLanesOf<static_cast<Pair3>(both32<fuse32<M, Ftz, false>>)>,
               "f32x2 = f32x2 f32x2 f32x2");
    }
  }
  if constexpr (!Ftz) {
    add_narrow_sums<Half, M, Sat>(list, mode, "f16");
    add_narrow_sums<Brain, M, Sat>(list, mode, "bf16");
  }
}
template <Rounding M>
void add_of_mode(FormList& list, const std::string& mode) {
  add_sums<M, false, false>(list, mode);
  add_sums<M, true, false>(list, mode);
  add_sums<M, false, true>(list, mode);
  add_sums<M, true, true>(list, mode);
  list.add("add" + mode + ".f64", AluClass::fp64, kLanesOf<add64<M>>, kTwo64);
  list.add("sub" + mode + ".f64", AluClass::fp64, kLanesOf<subtract64<M>>, kTwo64);
  list.add("mul" + mode + ".f64", AluClass::fp64, kLanesOf<multiply64<M>>, kTwo64);
  if (mode.empty()) return;
  const AluFunction fuse = M == Rounding::rn && host_has_fma() ? fuse64_on_host : kLanesOf<fuse64<M>>;
  list.add("fma" + mode + ".f64", AluClass::fp64, fuse, kThree64);
  list.add("mad" + mode + ".f64", AluClass::fp64, fuse, kThree64);
  list.add("div" + mode + ".f32", AluClass::special, kLanesOf<divide32<M, false>>, kTwo32);
  list.add("div" + mode + ".ftz.f32", AluClass::special, kLanesOf<divide32<M, true>>, kTwo32);
  list.add("div" + mode + ".f64", AluClass::fp64, kLanesOf<divide64<M>>, kTwo64);
  list.add("rcp" + mode + ".f32", AluClass::special, kLanesOf<reciprocal32<M, false>>, "f32 = f32");
  list.add("rcp" + mode + ".ftz.f32", AluClass::special, kLanesOf<reciprocal32<M, true>>, "f32 = f32");
  list.add("rcp" + mode + ".f64", AluClass::fp64, kLanesOf<reciprocal64<M>>, "f64 = f64");
  list.add("sqrt" + mode + ".f32", AluClass::special, kLanesOf<root32<M, false>>, "f32 = f32");
  list.add("sqrt" + mode + ".ftz.f32", AluClass::special, kLanesOf<root32<M, true>>, "f32 = f32");
  list.add("sqrt" + mode + ".f64", AluClass::fp64, kLanesOf<root64<M>>, "f64 = f64");
}

template <bool Max, bool Ftz>
void add_extremes(FormList& list) {
  const std::string begin = std::string(Max ? "max" : "min") + (Ftz ? ".ftz" : "");
  constexpr const char* kThird = "f32 = f32 f32 f32?";
  list.add(begin + ".f32", AluClass::fp32,
           two_or_three<extreme_of_two<Max, Ftz, Extremes::plain>, extreme_of_three<Max, Ftz, Extremes::plain>>,
           kThird);
  list.add(begin + ".NaN.f32", AluClass::fp32,
           two_or_three<extreme_of_two<Max, Ftz, Extremes::nan>, extreme_of_three<Max, Ftz, Extremes::nan>>, kThird);
  list.add(begin + ".xorsign.abs.f32", AluClass::fp32, kLanesOf<extreme_of_two<Max, Ftz, Extremes::xorsign>>, kTwo32);
  list.add(begin + ".NaN.xorsign.abs.f32", AluClass::fp32, kLanesOf<extreme_of_two<Max, Ftz, Extremes::nan_xorsign>>,
           kTwo32);
  list.add(begin + ".abs.f32", AluClass::fp32, kLanesOf<extreme_of_three<Max, Ftz, Extremes::abs>>, kThree32);
  list.add(begin + ".NaN.abs.f32", AluClass::fp32, kLanesOf<extreme_of_three<Max, Ftz, Extremes::nan_abs>>, kThree32);
}

}  // namespace

void add_float_forms(FormList& list) {
  add_of_mode<Rounding::rn>(list, "");
  add_of_mode<Rounding::rn>(list, ".rn");
  add_of_mode<Rounding::rz>(list, ".rz");
  add_of_mode<Rounding::rm>(list, ".rm");
  add_of_mode<Rounding::rp>(list, ".rp");
  add_extremes<false, false>(list);
  add_extremes<false, true>(list);
  add_extremes<true, false>(list);
  add_extremes<true, true>(list);
  list.add("min.f64", AluClass::fp64, kLanesOf<extreme64<false>>, kTwo64);
  list.add("max.f64", AluClass::fp64, kLanesOf<extreme64<true>>, kTwo64);
  list.add("abs.f32", AluClass::fp32, kLanesOf<absolute32<false>>, "f32 = f32");
  list.add("abs.ftz.f32", AluClass::fp32, kLanesOf<absolute32<true>>, "f32 = f32");
  list.add("abs.f64", AluClass::fp64, kLanesOf<absolute64>, "f64 = f64");
  list.add("neg.f32", AluClass::fp32, kLanesOf<negate32<false>>, "f32 = f32");
  list.add("neg.ftz.f32", AluClass::fp32, kLanesOf<negate32<true>>, "f32 = f32");
  list.add("neg.f64", AluClass::fp64, kLanesOf<negate64>, "f64 = f64");
  list.add("copysign.f32", AluClass::logic, kLanesOf<with_sign<float>>, kTwo32);
  list.add("copysign.f64", AluClass::logic, kLanesOf<with_sign<double>>, kTwo64);
}

}  // namespace heddle::ptx
