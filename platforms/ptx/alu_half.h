// f16 and bf16: to single precision, which is exact, and back, to nearest even. Without branches, for the vectoriser.
#pragma once

#include "ptx/alu_real.h"

namespace heddle::ptx {

HEDDLE_IN_LOOP float to_float(Half value) {
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  // 2^112 is the difference of the biases; subnormal numbers become normal in the product.
  const float scaled = float_of(magnitude << 13) * 0x1p112f;
  const std::uint32_t special = 0x7f800000 | magnitude << 13;  // infinities and NaNs
  return float_of((magnitude >= 0x7c00 ? special : bits32(scaled)) | sign);
}
HEDDLE_IN_LOOP float to_float(Brain value) { return float_of(std::uint32_t{value.bits} << 16); }

template <class Narrow>
inline Narrow to_narrow(float value);
template <>
HEDDLE_IN_LOOP Half to_narrow<Half>(float value) {
  const std::uint32_t bits = bits32(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1)) - (112u << 23);
  // The last place of one half is that of f16's subnormal numbers.
  const std::uint32_t small = bits32(float_of(magnitude) + 0.5f) - 0x3f000000;
  std::uint32_t code = magnitude < 0x38800000 ? small : normal >> 13;
  code = magnitude >= 0x47800000 ? 0x7c00 : code;
  return {static_cast<std::uint16_t>(magnitude > 0x7f800000 ? std::uint32_t{kNan16} : code | sign)};
}
template <>
HEDDLE_IN_LOOP Brain to_narrow<Brain>(float value) {
  const std::uint32_t bits = bits32(value);
  const std::uint32_t code = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return {static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? std::uint32_t{kNan16} : code)};
}

// `value` as single precision with an odd last bit if that is not exact: can be rounded to f16 and bf16 as if it were.
HEDDLE_IN_LOOP float odd32(double value) {
  const float inward = rounded32<Rounding::rz>(value);
  return float_of(double{inward} != value && value == value ? bits32(inward) | 1 : bits32(inward));
}

// Both halves of a register.
template <class Narrow>
HEDDLE_IN_LOOP Narrow low_of(std::uint32_t pair) {
  return {static_cast<std::uint16_t>(pair)};
}
template <class Narrow>
HEDDLE_IN_LOOP Narrow high_of(std::uint32_t pair) {
  return {static_cast<std::uint16_t>(pair >> 16)};
}
template <class Narrow>
HEDDLE_IN_LOOP std::uint32_t pair_of(Narrow low, Narrow high) {
  return low.bits | std::uint32_t{high.bits} << 16;
}
template <class Narrow, Narrow (*Op)(Narrow)>
HEDDLE_IN_LOOP std::uint32_t both16(std::uint32_t a) {
  return pair_of(Op(low_of<Narrow>(a)), Op(high_of<Narrow>(a)));
}
template <class Narrow, Narrow (*Op)(Narrow, Narrow)>
HEDDLE_IN_LOOP std::uint32_t both16(std::uint32_t a, std::uint32_t b) {
  return pair_of(Op(low_of<Narrow>(a), low_of<Narrow>(b)), Op(high_of<Narrow>(a), high_of<Narrow>(b)));
}
template <class Narrow, Narrow (*Op)(Narrow, Narrow, Narrow)>
HEDDLE_IN_LOOP std::uint32_t both16(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return pair_of(Op(low_of<Narrow>(a), low_of<Narrow>(b), low_of<Narrow>(c)),
                 Op(high_of<Narrow>(a), high_of<Narrow>(b), high_of<Narrow>(c)));
}

// .ftz, for f16 only.
template <bool Ftz>
HEDDLE_IN_LOOP Half flushed(Half value) {
  return {static_cast<std::uint16_t>(Ftz && (value.bits & 0x7c00) == 0 ? value.bits & 0x8000 : value.bits)};
}
template <bool Ftz>
HEDDLE_IN_LOOP Brain flushed(Brain value) {
  return {static_cast<std::uint16_t>(Ftz && (value.bits & 0x7f80) == 0 ? value.bits & 0x8000 : value.bits)};
}
HEDDLE_IN_LOOP bool is_nan(Half value) { return (value.bits & 0x7fff) > 0x7c00; }
HEDDLE_IN_LOOP bool is_nan(Brain value) { return (value.bits & 0x7fff) > 0x7f80; }

// .ftz and .sat, which bf16 does not have; every NaN is the same.
template <bool Ftz, bool Sat>
HEDDLE_IN_LOOP Half finished(Half value) {
  const Half flat = flushed<Ftz>(value);
  if constexpr (Sat) {
    const std::uint32_t below = flat.bits > 0x3c00 ? 0x3c00u : flat.bits;
    return {static_cast<std::uint16_t>(is_nan(flat) || (flat.bits & 0x8000) != 0 ? 0u : below)};
  } else {
    return {is_nan(flat) ? kNan16 : flat.bits};
  }
}
template <bool Ftz, bool Sat>
HEDDLE_IN_LOOP Brain finished(Brain value) {
  return {is_nan(value) ? kNan16 : value.bits};
}

}  // namespace heddle::ptx
