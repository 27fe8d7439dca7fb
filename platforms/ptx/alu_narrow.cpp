// cvt into and out of packed and narrow formats: f16x2, bf16x2, tf32, 8, 6 and 4 bits, scales, and integers of few
// bits.
#include <algorithm>

#include "ptx/alu_forms.h"
#include "ptx/alu_half.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_real.h"
#include "ptx/alu_soft.h"

namespace heddle::ptx {

namespace {

// A format beside what PTX says of it: its NaN, its place in a register.
struct PackedFormat {
  const char* name;
  FloatFormat format;
  std::uint32_t nan;   // what a NaN becomes: the largest number, where there is none
  std::uint32_t bits;  // of a place in a register
};
enum class Packed : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1 };
constexpr PackedFormat kPacked[] = {
    {"f16", kFormatF16, kNan16, 16}, {"bf16", kFormatBf16, kNan16, 16}, {"tf32", kFormatTf32, kNan32 >> 13, 32},
    {"e4m3", kFormatE4m3, 0x7f, 8},  {"e5m2", kFormatE5m2, 0x7f, 8},    {"e2m3", kFormatE2m3, 0x1f, 8},
    {"e3m2", kFormatE3m2, 0x1f, 8},  {"e2m1", kFormatE2m1, 0x7, 4},
};
constexpr PackedFormat format_of(Packed which) { return kPacked[static_cast<std::size_t>(which)]; }

// -- Into a format ----------------------------------------------------------------------------------------------------

// .relu and .satfinite.
struct Limits {
  bool relu = false;
  bool finite = false;
};
std::uint32_t narrowed(const PackedFormat& to, float value, Rounding mode, Limits limits) {
  if (value != value) return to.nan;
  if (limits.relu && (bits32(value) >> 31) != 0) return 0;
  return static_cast<std::uint32_t>(code_of(to.format, real_of(value), mode, limits.finite));
}
template <Packed To, Rounding M, bool Relu, bool Finite>
std::uint32_t narrow(float value) {
  if constexpr (M == Rounding::rn && !Finite && (To == Packed::f16 || To == Packed::bf16)) {
    using Narrow = std::conditional_t<To == Packed::f16, Half, Brain>;
    const std::uint32_t code = to_narrow<Narrow>(value).bits;
    return Relu && (code & 0x8000) != 0 ? 0 : code;  // a NaN is positive
  } else {
    return narrowed(format_of(To), value, M, {Relu, Finite});
  }
}
// The first source in the upper place.
template <Packed To, Rounding M, bool Relu, bool Finite>
std::uint32_t narrow_two(float a, float b) {
  return narrow<To, M, Relu, Finite>(a) << format_of(To).bits | narrow<To, M, Relu, Finite>(b);
}
template <class From, Packed To, bool Relu>
std::uint32_t narrow_pair(std::uint32_t a) {
  return narrow_two<To, Rounding::rn, Relu, true>(to_float(high_of<From>(a)), to_float(low_of<From>(a)));
}
template <Packed To, Rounding M, bool Relu, bool Finite>
std::uint16_t narrow_one(float a) {
  return static_cast<std::uint16_t>(narrow<To, M, Relu, Finite>(a));
}
template <Rounding M, bool Relu, bool Finite>
std::uint32_t narrow_tf32(float a) {
  if (a != a) return kNan32;
  return narrow<Packed::tf32, M, Relu, Finite>(a) << 13;
}

// Slots of two: bits of the register that the pair lies in.
constexpr const char* place_of_two(const PackedFormat& of) {
  return of.bits == 16 ? "b32" : of.bits == 8 ? "b16" : "b8";
}
std::string two_of(const PackedFormat& of) { return std::string(of.name) + "x2"; }

// Both orders of the two modifiers are met with.
void add_limited(FormList& list, const std::string& head, Limits limits, const std::string& types, AluFunction function,
                 const std::string& slots) {
  const std::string both[] = {".relu.satfinite", ".satfinite.relu"};
  if (limits.relu && limits.finite) {
    for (const std::string& order : both) list.add(head + order + types, AluClass::convert, function, slots);
  } else {
    const char* const one = limits.relu ? ".relu" : limits.finite ? ".satfinite" : "";
    list.add(head + one + types, AluClass::convert, function, slots);
  }
}

template <Packed To, Rounding M, bool Relu, bool Finite>
void add_halves(FormList& list, const std::string& mode) {
  const std::string name = format_of(To).name;
  add_limited(list, "cvt" + mode, {Relu, Finite}, "." + name + "x2.f32", kLanesOf<narrow_two<To, M, Relu, Finite>>,
              name + "x2 = f32 f32");
  if constexpr (Relu || Finite) {  // the others are among those of all types
    add_limited(list, "cvt" + mode, {Relu, Finite}, "." + name + ".f32", kLanesOf<narrow_one<To, M, Relu, Finite>>,
                name + " = f32");
  }
}
template <Packed To, Rounding M>
void add_halves_of_mode(FormList& list, const std::string& mode) {
  add_halves<To, M, false, false>(list, mode);
  add_halves<To, M, true, false>(list, mode);
  add_halves<To, M, false, true>(list, mode);
  add_halves<To, M, true, true>(list, mode);
}
template <Rounding M, bool Relu>
void add_tf32(FormList& list, const std::string& mode) {
  add_limited(list, "cvt" + mode, {Relu, false}, ".tf32.f32", kLanesOf<narrow_tf32<M, Relu, false>>, "b32 = f32");
  add_limited(list, "cvt" + mode, {Relu, true}, ".tf32.f32", kLanesOf<narrow_tf32<M, Relu, true>>, "b32 = f32");
}

// -- Out of a format --------------------------------------------------------------------------------------------------

template <Packed From, bool Relu>
Half widened(std::uint32_t code) {
  constexpr PackedFormat kFrom = format_of(From);
  const std::uint32_t bits = 1 + kFrom.format.exponent + kFrom.format.fraction;
  const Real value = real_of(kFrom.format, code & ((1u << bits) - 1));
  if (value.kind == Real::Kind::nan) return {kNan16};
  if (Relu && value.negative) return {0};
  return {static_cast<std::uint16_t>(code_of(kFormatF16, value, Rounding::rn))};
}
template <Packed From, bool Relu>
std::uint32_t widen_two(std::uint32_t a) {
  return pair_of(widened<From, Relu>(a), widened<From, Relu>(a >> format_of(From).bits));
}

// -- Rounding by chance -----------------------------------------------------------------------------------------------

template <Packed To, bool Relu, bool Finite>
std::uint32_t narrow_by_chance(float value, std::uint32_t noise, std::uint32_t bits) {
  constexpr PackedFormat kTo = format_of(To);
  if (value != value) return kTo.nan;
  if (Relu && (bits32(value) >> 31) != 0) return 0;
  return static_cast<std::uint32_t>(code_with_noise(kTo.format, real_of(value), noise, bits, Finite));
}
template <Packed To, bool Relu, bool Finite>
std::uint32_t halves_by_chance(float a, float b, std::uint32_t noise) {
  constexpr std::uint32_t kBits = To == Packed::f16 ? 13 : 16;
  constexpr std::uint32_t kMask = (1u << kBits) - 1;
  return narrow_by_chance<To, Relu, Finite>(a, noise >> 16 & kMask, kBits) << 16 |
         narrow_by_chance<To, Relu, Finite>(b, noise & kMask, kBits);
}
// {a, b, e, f}: four planes; a in the highest place. Random bits of a and b are those of the upper half of `noise`: all
// 16 of them for formats of 6 and 8 bits; of 4 bits, a and b have the upper bytes of both halves, e and f the lower
// ones.
template <Packed To, bool Relu>
void four_by_chance(AluOperands& operands) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const std::uint32_t* const s = operands.s[0];
  const std::uint32_t* const random = operands.s[1];
  each_lane(operands.lanes, [=](std::uint32_t lane) {
    constexpr std::uint32_t kPlace = format_of(To).bits;
    constexpr bool kFour = To == Packed::e2m1;
    const std::uint32_t noise = random[lane];
    const std::uint32_t of_source[] = {
        kFour ? noise >> 24 : noise >> 16,
        kFour ? noise >> 8 & 0xff : noise >> 16,
        kFour ? noise >> 16 & 0xff : noise & 0xffff,
        kFour ? noise & 0xff : noise & 0xffff,
    };
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const float value = float_of(s[i * kLanes + lane]);
      word = word << kPlace | narrow_by_chance<To, Relu, true>(value, of_source[i], kFour ? 8 : 16);
    }
    d[lane] = word;
  });
}
template <Packed To, bool Relu>
void add_four(FormList& list) {
  const std::string types = std::string(".") + format_of(To).name + "x4.f32";
  add_limited(list, "cvt.rs", {Relu, true}, types, four_by_chance<To, Relu>,
              std::string(To == Packed::e2m1 ? "b16" : "b32") + " = f32*4 b32");
}
template <Packed To, bool Relu, bool Finite>
void add_halves_by_chance(FormList& list) {
  const std::string name = two_of(format_of(To));
  add_limited(list, "cvt.rs", {Relu, Finite}, "." + name + ".f32", kLanesOf<halves_by_chance<To, Relu, Finite>>,
              name + " = f32 f32 b32");
}
template <Packed To>
void add_chances(FormList& list) {
  add_halves_by_chance<To, false, false>(list);
  add_halves_by_chance<To, true, false>(list);
  add_halves_by_chance<To, false, true>(list);
  add_halves_by_chance<To, true, true>(list);
}

template <Packed F, bool Relu>
void add_small(FormList& list) {
  constexpr PackedFormat kFormat = format_of(F);
  const std::string name = two_of(kFormat);
  const std::string place = place_of_two(kFormat);
  add_limited(list, "cvt.rn", {Relu, true}, "." + name + ".f32", kLanesOf<narrow_two<F, Rounding::rn, Relu, true>>,
              place + " = f32 f32");
  add_limited(list, "cvt.rn", {Relu, true}, "." + name + ".f16x2", kLanesOf<narrow_pair<Half, F, Relu>>,
              place + " = f16x2");
  add_limited(list, "cvt.rn", {Relu, true}, "." + name + ".bf16x2", kLanesOf<narrow_pair<Brain, F, Relu>>,
              place + " = bf16x2");
  add_limited(list, "cvt.rn", {Relu, false}, ".f16x2." + name, kLanesOf<widen_two<F, Relu>>, "f16x2 = " + place);
  add_four<F, Relu>(list);
}

// -- Scales: powers of two from 2^-127 on, of 8 bits, without a sign; 255 is NaN --------------------------------------

template <bool Up, bool Finite>
std::uint32_t scale_of(float value) {
  constexpr std::uint32_t kNan = 0xff;
  constexpr std::uint32_t kMost = 0xfe;
  const std::uint32_t magnitude = bits32(value) & 0x7fffffff;
  if (magnitude > 0x7f800000) return kNan;
  if (magnitude == 0x7f800000) return Finite ? kMost : kNan;
  if (magnitude >> 23 == 0) return Up && magnitude > 0x400000 ? 1 : 0;  // 2^-127 is subnormal in single precision
  const std::uint32_t above = Up && (magnitude & 0x7fffff) != 0 ? 1 : 0;
  const std::uint32_t code = (magnitude >> 23) + above;
  return code > kMost ? (Finite ? kMost : kNan) : code;
}
template <bool Up, bool Finite>
std::uint32_t scales_of(float a, float b) {
  return scale_of<Up, Finite>(a) << 8 | scale_of<Up, Finite>(b);
}
template <bool Up, bool Finite>
std::uint32_t scales_of_pair(std::uint32_t a) {
  return scales_of<Up, Finite>(to_float(high_of<Brain>(a)), to_float(low_of<Brain>(a)));
}
Brain scale(std::uint32_t code) {
  if ((code & 0xff) == 0xff) return {kNan16};
  return {static_cast<std::uint16_t>((code & 0xff) == 0 ? 0x40 : (code & 0xff) << 7)};
}
std::uint32_t two_scales(std::uint32_t a) { return pair_of(scale(a), scale(a >> 8)); }
template <bool Up, bool Finite>
void add_scales(FormList& list) {
  const std::string head = std::string("cvt") + (Up ? ".rp" : ".rz") + (Finite ? ".satfinite" : "") + ".ue8m0x2.";
  list.add(head + "f32", AluClass::convert, kLanesOf<scales_of<Up, Finite>>, "b16 = f32 f32");
  list.add(head + "bf16x2", AluClass::convert, kLanesOf<scales_of_pair<Up, Finite>>, "b16 = bf16x2");
}

// -- cvt.pack ---------------------------------------------------------------------------------------------------------

template <std::uint32_t Bits, bool Signed>
std::uint32_t clamped(std::int32_t value) {
  constexpr std::int32_t kLeast = Signed ? -(1 << (Bits - 1)) : 0;
  constexpr std::int32_t kMost = (1 << (Signed ? Bits - 1 : Bits)) - 1;
  return static_cast<std::uint32_t>(std::min(std::max(value, kLeast), kMost)) & ((1u << Bits) - 1);
}
template <std::uint32_t Bits, bool Signed>
std::uint32_t pack_two(std::int32_t a, std::int32_t b) {
  return clamped<Bits, Signed>(a) << Bits | clamped<Bits, Signed>(b);
}
// In front of what was packed before.
template <std::uint32_t Bits, bool Signed>
std::uint32_t pack_onto(std::int32_t a, std::int32_t b, std::uint32_t c) {
  return c << 2 * Bits | pack_two<Bits, Signed>(a, b);
}
template <bool Signed>
void add_packs(FormList& list) {
  const std::string kind = Signed ? "s" : "u";
  list.add("cvt.pack.sat." + kind + "16.s32", AluClass::convert, kLanesOf<pack_two<16, Signed>>, "b32 = s32 s32");
  list.add("cvt.pack.sat." + kind + "8.s32.b32", AluClass::convert, kLanesOf<pack_onto<8, Signed>>,
           "b32 = s32 s32 b32");
  list.add("cvt.pack.sat." + kind + "4.s32.b32", AluClass::convert, kLanesOf<pack_onto<4, Signed>>,
           "b32 = s32 s32 b32");
  list.add("cvt.pack.sat." + kind + "2.s32.b32", AluClass::convert, kLanesOf<pack_onto<2, Signed>>,
           "b32 = s32 s32 b32");
}

}  // namespace

void add_narrow_forms(FormList& list) {
  add_halves_of_mode<Packed::f16, Rounding::rn>(list, ".rn");
  add_halves_of_mode<Packed::f16, Rounding::rz>(list, ".rz");
  add_halves_of_mode<Packed::bf16, Rounding::rn>(list, ".rn");
  add_halves_of_mode<Packed::bf16, Rounding::rz>(list, ".rz");
  add_tf32<Rounding::rn, false>(list, ".rn");
  add_tf32<Rounding::rn, true>(list, ".rn");
  add_tf32<Rounding::rz, false>(list, ".rz");
  add_tf32<Rounding::rz, true>(list, ".rz");
  add_tf32<Rounding::rna, false>(list, ".rna");
  add_small<Packed::e4m3, false>(list);
  add_small<Packed::e4m3, true>(list);
  add_small<Packed::e5m2, false>(list);
  add_small<Packed::e5m2, true>(list);
  add_small<Packed::e2m3, false>(list);
  add_small<Packed::e2m3, true>(list);
  add_small<Packed::e3m2, false>(list);
  add_small<Packed::e3m2, true>(list);
  add_small<Packed::e2m1, false>(list);
  add_small<Packed::e2m1, true>(list);
  add_chances<Packed::f16>(list);
  add_chances<Packed::bf16>(list);
  add_scales<false, false>(list);
  add_scales<false, true>(list);
  add_scales<true, false>(list);
  add_scales<true, true>(list);
  list.add("cvt.rn.bf16x2.ue8m0x2", AluClass::convert, kLanesOf<two_scales>, "bf16x2 = b16");
  add_packs<false>(list);
  add_packs<true>(list);
}

}  // namespace heddle::ptx
