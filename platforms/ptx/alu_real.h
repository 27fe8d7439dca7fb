// Real numbers of PTX: how NaNs, subnormal numbers and roundings are dealt with, in a way that compilers can vectorise.
// Nothing here touches the host's rounding mode.
#pragma once

#include <cmath>
#include <cstdint>

#include "ptx/alu_lanes.h"

namespace heddle::ptx {

// To nearest even, towards zero, minus infinity, plus infinity; to nearest, ties away from zero.
enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna };

constexpr std::uint32_t kNan32 = 0x7fffffff;            // what single precision gives for every NaN
constexpr std::uint64_t kNan64 = 0xfff8000000000000;    // of an invalid operation of double precision
constexpr std::uint64_t kQuiet64 = 0x0008000000000000;  // the bit of quiet NaNs
constexpr std::uint16_t kNan16 = 0x7fff;                // f16 and bf16

HEDDLE_IN_LOOP std::uint32_t bits32(float value) { return bit_cast<std::uint32_t>(value); }
HEDDLE_IN_LOOP float float_of(std::uint32_t bits) { return bit_cast<float>(bits); }
HEDDLE_IN_LOOP std::uint64_t bits64(double value) { return bit_cast<std::uint64_t>(value); }
HEDDLE_IN_LOOP double double_of(std::uint64_t bits) { return bit_cast<double>(bits); }

// .ftz: subnormal numbers become zeros of the same sign.
template <bool Ftz>
HEDDLE_IN_LOOP float flushed(float value) {
  if constexpr (!Ftz) return value;
  const std::uint32_t bits = bits32(value);
  return float_of((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
}

// .sat: into [0, 1], NaN to +0; else every NaN is the same.
template <bool Ftz, bool Sat>
HEDDLE_IN_LOOP float finished(float value) {
  if constexpr (Sat) {
    const float below = value < 1.0f ? value : 1.0f;   // NaN: 1
    return flushed<Ftz>(value > 0.0f ? below : 0.0f);  // NaN: 0
  } else {
    const float flat = flushed<Ftz>(value);
    return float_of(flat != flat ? kNan32 : bits32(flat));
  }
}

template <bool Ftz, bool Sat>
HEDDLE_IN_LOOP double finished(double value) {
  if constexpr (Sat) return value > 0 ? (value < 1 ? value : 1.0) : 0.0;
  return value;
}

// a + b, the last bit odd if that is not exact: whoever rounds the result to a number of at most 51 bits gets what he
// would of the exact sum.
HEDDLE_IN_LOOP double odd_sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  const double error = (a - (sum - of_b)) + (b - of_b);  // exact; NaN beside infinities
  const std::uint64_t bits = bits64(sum);
  const bool inexact = error < 0 || error > 0;
  const bool outward = (error > 0) == (sum > 0);
  const std::uint64_t step = outward ? std::uint64_t{1} : ~std::uint64_t{0};
  return double_of(inexact && (bits & 1) == 0 ? bits + step : bits);
}

// `value` as single precision. Zeros keep their sign.
template <Rounding Mode>
HEDDLE_IN_LOOP float rounded32(double value) {
  const auto nearest = static_cast<float>(value);
  if constexpr (Mode == Rounding::rn) return nearest;
  const double back = nearest;
  const std::uint32_t bits = bits32(nearest);
  if constexpr (Mode == Rounding::rz) {
    return float_of(std::fabs(back) > std::fabs(value) ? bits - 1 : bits);
  } else if constexpr (Mode == Rounding::rm) {
    const std::uint32_t step = (bits >> 31) != 0 ? 1u : ~0u;
    return float_of(back > value ? bits + step : bits);
  } else {
    const std::uint32_t step = (bits >> 31) != 0 ? ~0u : 1u;
    return float_of(back < value ? bits + step : bits);
  }
}

// Other roundings than to nearest are rare: they are calls.
template <Rounding Mode>
[[gnu::noinline]] float directed_sum32(double a, double b) {
  const double sum = odd_sum(a, b);
  // An exact zero of numbers that are not both negative is positive, but towards minus infinity it is negative.
  if (Mode == Rounding::rm && sum == 0) return std::signbit(a) || std::signbit(b) ? -0.0f : 0.0f;
  return rounded32<Mode>(sum);
}
template <Rounding Mode>
[[gnu::noinline]] float directed32(double value) {
  return rounded32<Mode>(value);
}

// a + b of single precision.
template <Rounding Mode>
HEDDLE_IN_LOOP float sum32(float a, float b) {
  if constexpr (Mode == Rounding::rn) {
    return a + b;
  } else {
    return directed_sum32<Mode>(a, b);
  }
}
template <Rounding Mode>
HEDDLE_IN_LOOP float product32(float a, float b) {
  if constexpr (Mode == Rounding::rn) {
    return a * b;
  } else {
    return directed32<Mode>(double{a} * double{b});  // exact
  }
}
// a · b + c, rounded once.
template <Rounding Mode>
HEDDLE_IN_LOOP float fused32(float a, float b, float c) {
  const double product = double{a} * double{b};  // exact
  if constexpr (Mode == Rounding::rn) {
    return static_cast<float>(odd_sum(product, c));
  } else {
    return directed_sum32<Mode>(product, c);
  }
}

// Double precision keeps the payload of the first NaN among its sources.
HEDDLE_IN_LOOP double first_nan(double a, double b, double result) {
  const std::uint64_t nan = a != a ? bits64(a) | kQuiet64 : b != b ? bits64(b) | kQuiet64 : kNan64;
  return double_of(result != result ? nan : bits64(result));
}
HEDDLE_IN_LOOP double first_nan(double a, double b, double c, double result) {
  const std::uint64_t nan = a != a   ? bits64(a) | kQuiet64
                            : b != b ? bits64(b) | kQuiet64
                            : c != c ? bits64(c) | kQuiet64
                                     : kNan64;
  return double_of(result != result ? nan : bits64(result));
}

}  // namespace heddle::ptx
