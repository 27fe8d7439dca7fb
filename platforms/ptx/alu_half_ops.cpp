// Sums, products and extremes of f16 and bf16, alone and in pairs.
#include "ptx/alu_forms.h"
#include "ptx/alu_half.h"
#include "ptx/alu_lanes.h"

namespace heddle::ptx {

namespace {

// What becomes of a result: as it is, into [0, 1], or not negative.
enum class Finish : std::uint8_t { plain, sat, relu };

template <bool Ftz, Finish How, class Narrow>
HEDDLE_IN_LOOP Narrow finish(float value) {
  Narrow narrow = finished<Ftz, How == Finish::sat>(to_narrow<Narrow>(value));
  if constexpr (How == Finish::relu) {
    narrow.bits = static_cast<std::uint16_t>(!is_nan(narrow) && (narrow.bits & 0x8000) != 0 ? 0 : narrow.bits);
  }
  return narrow;
}
// Sums of two numbers of 8 or 11 bits may be rounded to 24 bits on their way.
template <class Narrow, bool Ftz, Finish How>
HEDDLE_IN_LOOP Narrow add_narrow(Narrow a, Narrow b) {
  return finish<Ftz, How, Narrow>(to_float(flushed<Ftz>(a)) + to_float(flushed<Ftz>(b)));
}
template <class Narrow, bool Ftz, Finish How>
HEDDLE_IN_LOOP Narrow subtract_narrow(Narrow a, Narrow b) {
  return finish<Ftz, How, Narrow>(to_float(flushed<Ftz>(a)) - to_float(flushed<Ftz>(b)));
}
template <class Narrow, bool Ftz, Finish How>
HEDDLE_IN_LOOP Narrow multiply_narrow(Narrow a, Narrow b) {
  const double product = double{to_float(flushed<Ftz>(a))} * double{to_float(flushed<Ftz>(b))};
  return finish<Ftz, How, Narrow>(odd32(product));
}
template <class Narrow, bool Ftz, Finish How>
HEDDLE_IN_LOOP Narrow fuse_narrow(Narrow a, Narrow b, Narrow c) {
  const double product = double{to_float(flushed<Ftz>(a))} * double{to_float(flushed<Ftz>(b))};
  const double summand = to_float(flushed<Ftz>(c));
  // Of f16, a sum beyond double precision's 53 bits is one of numbers so far apart that the smaller does not count.
  constexpr bool kFits = std::is_same_v<Narrow, Half>;
  return finish<Ftz, How, Narrow>(odd32(kFits ? product + summand : odd_sum(product, summand)));
}
// The NaN with which boxes are filled outside their tensor makes the product nothing.
template <class Narrow, Finish How>
HEDDLE_IN_LOOP Narrow fuse_inside(Narrow a, Narrow b, Narrow c) {
  if (a.bits == kNan16 || b.bits == kNan16) return {0};
  return fuse_narrow<Narrow, false, How>(a, b, c);
}

template <class Narrow, bool Ftz>
HEDDLE_IN_LOOP Narrow negate_narrow(Narrow a) {
  return flushed<Ftz>(Narrow{static_cast<std::uint16_t>(a.bits ^ 0x8000)});
}
template <class Narrow, bool Ftz>
HEDDLE_IN_LOOP Narrow absolute_narrow(Narrow a) {
  return flushed<Ftz>(Narrow{static_cast<std::uint16_t>(a.bits & 0x7fff)});
}

// Codes of numbers in their order: -0 is less than +0.
inline std::int32_t ordered16(std::uint32_t code) {
  return static_cast<std::int16_t>(code ^ ((code & 0x8000) != 0 ? 0x7fffu : 0u));
}
template <class Narrow, bool Max, bool Nan, bool Xorsign>
HEDDLE_IN_LOOP Narrow extreme_narrow(Narrow x, Narrow y) {
  std::uint32_t a = x.bits;
  std::uint32_t b = y.bits;
  const std::uint32_t sign = (a ^ b) & 0x8000;
  if constexpr (Xorsign) {
    a &= 0x7fff;
    b &= 0x7fff;
  }
  const bool first = Max ? ordered16(a) > ordered16(b) : ordered16(a) < ordered16(b);
  std::uint32_t d = first ? a : b;
  d = is_nan(x) ? (Nan ? kNan16 : b) : d;
  d = is_nan(y) ? (Nan ? kNan16 : a) : d;
  if constexpr (Xorsign) d = (d & 0x7fff) | sign;
  const Narrow result{static_cast<std::uint16_t>(d)};
  return {is_nan(result) ? kNan16 : result.bits};
}
template <class Narrow, bool Max, bool Ftz, bool Nan, bool Xorsign>
HEDDLE_IN_LOOP Narrow extreme_of_two_narrow(Narrow a, Narrow b) {
  return extreme_narrow<Narrow, Max, Nan, Xorsign>(flushed<Ftz>(a), flushed<Ftz>(b));
}

// A form for one number and one for a pair.
template <class Narrow, Narrow (*Op)(Narrow)>
void add_one(FormList& list, const std::string& head, const std::string& type) {
  list.add(head + "." + type, AluClass::half, kLanesOf<Op>, type + " = " + type);
  const std::string x2 = type + "x2";
  list.add(head + "." + x2, AluClass::half, kLanesOf<static_cast<std::uint32_t (*)(std::uint32_t)>(both16<Narrow, Op>)>,
           x2 + " = " + x2);
}
template <class Narrow, Narrow (*Op)(Narrow, Narrow)>
void add_two(FormList& list, const std::string& head, const std::string& type) {
  list.add(head + "." + type, AluClass::half, kLanesOf<Op>, type + " = " + type + " " + type);
  const std::string x2 = type + "x2";
  list.add(head + "." + x2, AluClass::half,
           kLanesOf<static_cast<std::uint32_t (*)(std::uint32_t, std::uint32_t)>(both16<Narrow, Op>)>,
           x2 + " = " + x2 + " " + x2);
}
template <class Narrow, Narrow (*Op)(Narrow, Narrow, Narrow)>
void add_three(FormList& list, const std::string& head, const std::string& type) {
  list.add(head + "." + type, AluClass::half, kLanesOf<Op>, type + " = " + type + " " + type + " " + type);
  const std::string x2 = type + "x2";
  list.add(head + "." + x2, AluClass::half,
           kLanesOf<static_cast<std::uint32_t (*)(std::uint32_t, std::uint32_t, std::uint32_t)>(both16<Narrow, Op>)>,
           x2 + " = " + x2 + " " + x2 + " " + x2);
}
template <class Narrow, bool Max, bool Ftz, bool Nan>
void add_extremes_narrow(FormList& list, const std::string& type) {
  const std::string head = std::string(Max ? "max" : "min") + (Ftz ? ".ftz" : "") + (Nan ? ".NaN" : "");
  add_two<Narrow, extreme_of_two_narrow<Narrow, Max, Ftz, Nan, false>>(list, head, type);
  add_two<Narrow, extreme_of_two_narrow<Narrow, Max, Ftz, Nan, true>>(list, head + ".xorsign.abs", type);
}

template <class Narrow, bool Ftz, Finish How>
void add_sums_narrow(FormList& list, const std::string& type) {
  const std::string tail = std::string(Ftz ? ".ftz" : "") + (How == Finish::sat ? ".sat" : "");
  for (const std::string mode : {"", ".rn"}) {
    add_two<Narrow, add_narrow<Narrow, Ftz, How>>(list, "add" + mode + tail, type);
    add_two<Narrow, subtract_narrow<Narrow, Ftz, How>>(list, "sub" + mode + tail, type);
    add_two<Narrow, multiply_narrow<Narrow, Ftz, How>>(list, "mul" + mode + tail, type);
  }
  add_three<Narrow, fuse_narrow<Narrow, Ftz, How>>(list, "fma.rn" + tail, type);
}
template <class Narrow, bool Ftz>
void add_of_flush(FormList& list, const std::string& type) {
  const std::string ftz = Ftz ? ".ftz" : "";
  add_three<Narrow, fuse_narrow<Narrow, Ftz, Finish::relu>>(list, "fma.rn" + ftz + ".relu", type);
  add_one<Narrow, negate_narrow<Narrow, Ftz>>(list, "neg" + ftz, type);
  add_one<Narrow, absolute_narrow<Narrow, Ftz>>(list, "abs" + ftz, type);
  add_extremes_narrow<Narrow, false, Ftz, false>(list, type);
  add_extremes_narrow<Narrow, false, Ftz, true>(list, type);
  add_extremes_narrow<Narrow, true, Ftz, false>(list, type);
  add_extremes_narrow<Narrow, true, Ftz, true>(list, type);
}
template <class Narrow>
void add_inside(FormList& list, const std::string& type) {
  add_three<Narrow, fuse_inside<Narrow, Finish::plain>>(list, "fma.rn.oob", type);
  add_three<Narrow, fuse_inside<Narrow, Finish::relu>>(list, "fma.rn.oob.relu", type);
}

}  // namespace

void add_half_forms(FormList& list) {
  add_sums_narrow<Half, false, Finish::plain>(list, "f16");
  add_sums_narrow<Half, true, Finish::plain>(list, "f16");
  add_sums_narrow<Half, false, Finish::sat>(list, "f16");
  add_sums_narrow<Half, true, Finish::sat>(list, "f16");
  add_sums_narrow<Brain, false, Finish::plain>(list, "bf16");
  add_of_flush<Half, false>(list, "f16");
  add_of_flush<Half, true>(list, "f16");
  add_of_flush<Brain, false>(list, "bf16");
  add_inside<Half>(list, "f16");
  add_inside<Brain>(list, "bf16");
}

}  // namespace heddle::ptx
