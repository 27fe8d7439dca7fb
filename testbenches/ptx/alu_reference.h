// What instructions of registers work out, written from the PTX ISA manual (version 9, chapter 9.7), for one lane: an
// interpreter of mnemonics. Slow, and without a line of the model's.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "ptx/real_reference.h"

namespace heddle::test {

__extension__ using Int128 = __int128;
__extension__ using UInt128 = unsigned __int128;

struct LaneInput {
  std::vector<UInt128> values;  // elements of vectors one behind the other
  std::vector<bool> predicates;
  bool carry = false;
  std::string parts[3];  // of d, a and b: "b0", "h1"; video instructions
};
// accept: where PTX bounds an error only.
struct LaneOutput {
  std::vector<UInt128> values;
  std::vector<bool> predicates;
  bool carry = false;
  std::function<bool(UInt128)> accept;
};

class Mnemonic {
 public:
  explicit Mnemonic(const std::string& text) {
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, '.');) parts_.push_back(part);
  }
  const std::string& opcode() const { return parts_.front(); }
  bool has(const std::string& part) const { return std::find(parts_.begin() + 1, parts_.end(), part) != parts_.end(); }
  const std::string& last(std::size_t from_end = 0) const { return parts_.at(parts_.size() - 1 - from_end); }
  const std::string& at(std::size_t i) const { return parts_.at(i); }
  std::size_t size() const { return parts_.size(); }
  // rn where no rounding is written.
  std::string mode() const {
    for (const char* const mode : {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"}) {
      if (has(mode)) return mode;
    }
    return "rn";
  }

 private:
  std::vector<std::string> parts_;
};

// -- Numbers of a type ------------------------------------------------------------------------------------------------

inline bool is_float_type(const std::string& type) {
  return type == "f16" || type == "bf16" || type == "f32" || type == "f64";
}
inline int width_of(const std::string& type) {
  if (type == "bf16") return 16;
  if (type.find("x2") != std::string::npos) return type == "f32x2" ? 64 : 32;
  return std::stoi(type.substr(1));
}
inline UInt128 low_bits(UInt128 value, int bits) { return bits >= 128 ? value : value & ((UInt128{1} << bits) - 1); }
inline bool is_signed_type(const std::string& type) { return type[0] == 's'; }
inline Int128 integer(UInt128 value, const std::string& type) {
  const int bits = width_of(type);
  const UInt128 low = low_bits(value, bits);
  if (is_signed_type(type) && (low >> (bits - 1) & 1) != 0) return static_cast<Int128>(low) - (Int128{1} << bits);
  return static_cast<Int128>(low);
}
inline Int128 least_of(const std::string& type) {
  return is_signed_type(type) ? -(Int128{1} << (width_of(type) - 1)) : 0;
}
inline Int128 most_of(const std::string& type) {
  return (Int128{1} << (width_of(type) - (is_signed_type(type) ? 1 : 0))) - 1;
}
inline Int128 clamp_to(Int128 value, const std::string& type) {
  return std::min(std::max(value, least_of(type)), most_of(type));
}
inline RealFormat format_named(const std::string& type) {
  if (type == "f64") return kRef64;
  if (type == "f32" || type == "f32x2") return kRef32;
  if (type == "f16" || type == "f16x2") return kRef16;
  if (type == "bf16" || type == "bf16x2") return kRefBrain;
  if (type == "tf32") return kRefTf32;
  if (type.substr(0, 4) == "e4m3") return {4, 3, RealFormat::Special::last};
  if (type.substr(0, 4) == "e5m2") return {5, 2};
  if (type.substr(0, 4) == "e2m3") return {2, 3, RealFormat::Special::none};
  if (type.substr(0, 4) == "e3m2") return {3, 2, RealFormat::Special::none};
  if (type.substr(0, 4) == "e2m1") return {2, 1, RealFormat::Special::none};
  throw std::logic_error("no format " + type);
}
// The NaN that PTX's text and CUDA's name: 0x7fffffff of single, 0x7fff of half precision. Double precision has
// payloads.
inline std::uint64_t canonical_nan(const std::string& type) {
  if (type == "f64") return 0xfff8000000000000;
  if (type == "f32" || type == "f32x2") return 0x7fffffff;
  if (type == "f16" || type == "bf16" || type == "f16x2" || type == "bf16x2") return 0x7fff;
  if (type.substr(0, 2) == "e4" || type.substr(0, 2) == "e5") return 0x7f;
  return format_named(type).largest();
}
inline bool is_nan_code(const std::string& type, std::uint64_t code) {
  return decode(format_named(type), code).kind == Exact::Kind::nan;
}
inline std::uint64_t flush(const std::string& type, std::uint64_t code) {
  const RealFormat format = format_named(type);
  const std::uint64_t magnitude = code & (format.sign() - 1);
  return magnitude >> format.fraction_bits == 0 ? code & format.sign() : code;
}
inline std::uint64_t input_code(const Mnemonic& m, const std::string& type, UInt128 value) {
  const auto code = static_cast<std::uint64_t>(low_bits(value, width_of(type)));
  return m.has("ftz") && type != "f64" ? flush(type, code) : code;
}
// What the modifiers make of an exact result.
inline std::uint64_t output_code(const Mnemonic& m, const std::string& type, const Exact& exact, std::uint64_t nan) {
  const RealFormat format = format_named(type);
  if (exact.kind == Exact::Kind::nan) return m.has("sat") ? 0 : nan;
  std::uint64_t code = encode(format, exact, m.mode(), m.has("satfinite"));
  if (m.has("ftz") && type != "f64") code = flush(type, code);
  const bool negative = (code & format.sign()) != 0;
  if (m.has("sat")) {
    const std::uint64_t one = static_cast<std::uint64_t>(format.bias()) << format.fraction_bits;
    code = negative ? 0 : std::min(code, one);
  }
  if (m.has("relu") && negative) code = 0;
  return code;
}
// Of double precision: the first of the sources that are NaN, quiet; else the canonical one.
inline std::uint64_t nan_of(const std::string& type, const std::vector<std::uint64_t>& sources) {
  if (type == "f64") {
    for (const std::uint64_t source : sources) {
      if (is_nan_code(type, source)) return source | 0x0008000000000000;
    }
  }
  return canonical_nan(type);
}

// -- Real arithmetic --------------------------------------------------------------------------------------------------

// One number of type `type`; sources may be of other types (f32 sums of halves).
inline std::uint64_t real_operation(const Mnemonic& m, const std::string& type, const std::vector<std::string>& types,
                                    const std::vector<UInt128>& sources) {
  std::vector<std::uint64_t> codes;
  std::vector<Exact> x;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    codes.push_back(input_code(m, types.at(i), sources[i]));
    x.push_back(decode(format_named(types.at(i)), codes.back()));
  }
  const std::string& op = m.opcode();
  const std::string mode = m.mode();
  Exact exact;
  if (op == "add")
    exact = plus(x.at(0), x.at(1), mode);
  else if (op == "sub")
    exact = plus(x.at(0), negated(x.at(1)), mode);
  else if (op == "mul")
    exact = times(x.at(0), x.at(1));
  else if (op == "fma" || op == "mad")
    exact = plus(times(x.at(0), x.at(1)), x.at(2), mode);
  else if (op == "div")
    exact = over(x.at(0), x.at(1));
  else if (op == "rcp")
    exact = over(exact_integer(1), x.at(0));
  else if (op == "sqrt")
    exact = root(x.at(0));
  else
    throw std::logic_error("no real " + op);
  if (m.has("oob") && (codes.at(0) == 0x7fff || codes.at(1) == 0x7fff)) return 0;
  return output_code(m, type, exact, nan_of(type, codes));
}
inline std::uint64_t sign_operation(const Mnemonic& m, const std::string& type, UInt128 source) {
  const std::uint64_t code = input_code(m, type, source);
  const std::uint64_t sign = format_named(type).sign();
  if (is_nan_code(type, code)) {
    if (type == "f64") return code;  // passes unchanged
    if (type == "f32") return canonical_nan(type);
  }
  return m.opcode() == "abs" ? code & (sign - 1) : code ^ sign;
}
inline std::uint64_t extreme(const Mnemonic& m, const std::string& type, std::uint64_t a, std::uint64_t b) {
  const RealFormat format = format_named(type);
  const bool sign = ((a ^ b) & format.sign()) != 0;
  const std::uint64_t nan = nan_of(type, {a, b});
  if (m.has("abs")) {
    a &= format.sign() - 1;
    b &= format.sign() - 1;
  }
  const bool a_nan = is_nan_code(type, a);
  const bool b_nan = is_nan_code(type, b);
  if ((a_nan && b_nan) || (m.has("NaN") && (a_nan || b_nan))) return nan;
  std::uint64_t d = 0;
  if (a_nan)
    d = b;
  else if (b_nan)
    d = a;
  else {
    // -0.0 < +0.0
    const auto rank = [&](std::uint64_t code) {
      const auto magnitude = static_cast<Int128>(code & (format.sign() - 1));
      return (code & format.sign()) != 0 ? -magnitude - 1 : magnitude;
    };
    const bool first = m.opcode() == "max" ? rank(a) > rank(b) : rank(a) < rank(b);
    d = first ? a : b;
  }
  if (m.has("xorsign")) d = (d & (format.sign() - 1)) | (sign ? format.sign() : 0);
  return d;
}

// Bound of an approximation: relative, or absolute, or in units of the last place of single precision.
struct Bound {
  long double relative = 0;
  long double absolute = 0;
};
inline bool within(const std::string& type, UInt128 got, long double wanted, Bound bound, bool ftz) {
  const RealFormat format = format_named(type);
  const auto code = static_cast<std::uint64_t>(got);
  const Exact exact = decode(format, code);
  if (std::isnan(wanted)) return code == canonical_nan(type);
  const long double largest = approximately(size_of(format, format.largest()));
  const long double smallest_normal = std::ldexp(1.0L, 1 - format.bias());
  const long double smallest = std::ldexp(1.0L, 1 - format.bias() - format.fraction_bits);
  if (std::isinf(wanted)) return exact.kind == Exact::Kind::infinite && exact.negative == std::signbit(wanted);
  if (exact.kind == Exact::Kind::nan) return false;
  if (exact.negative != std::signbit(wanted) && !exact.zero()) return false;
  if (exact.kind == Exact::Kind::infinite) return std::fabs(wanted) >= largest * (1 - bound.relative);
  if (wanted == 0) return exact.zero() && exact.negative == std::signbit(wanted);
  if (ftz && exact.zero()) return std::fabs(wanted) <= smallest_normal * (1 + bound.relative);
  const long double error = std::fabs(approximately(exact) - wanted);
  return error <= std::max({bound.relative * std::fabs(wanted), bound.absolute, smallest});
}
inline std::function<bool(UInt128)> approximation(const Mnemonic& m, const std::string& type,
                                                  const std::vector<UInt128>& sources) {
  std::vector<long double> x;
  for (const UInt128 source : sources) {
    const Exact exact = decode(format_named(type), input_code(m, type, source));
    long double value = approximately(exact);
    if (exact.kind == Exact::Kind::nan) value = std::numeric_limits<long double>::quiet_NaN();
    if (exact.kind == Exact::Kind::infinite)
      value = std::numeric_limits<long double>::infinity() * (exact.negative ? -1 : 1);
    x.push_back(exact.zero() && exact.negative ? -0.0L : value);
  }
  const std::string& op = m.opcode();
  long double wanted = 0;
  Bound bound;
  if (op == "sin" || op == "cos") {
    wanted = std::isinf(x[0]) ? std::numeric_limits<long double>::quiet_NaN()
             : op == "sin"    ? std::sin(x[0])
                              : std::cos(x[0]);
    const long double size = std::fabs(x[0]);
    constexpr long double kPi = 3.14159265358979323846L;
    bound.absolute = size <= 2 * kPi ? std::exp2(-20.5L) : size <= 100 * kPi ? std::exp2(-14.7L) : 2;
    if (size > 100 * kPi && !std::isnan(wanted)) {  // of such angles PTX says nothing: a sine, at least
      return [](UInt128 got) {
        const Exact exact = decode(kRef32, static_cast<std::uint64_t>(got));
        return exact.kind == Exact::Kind::finite && std::fabs(approximately(exact)) <= 1;
      };
    }
  } else if (op == "ex2") {
    wanted = std::exp2(x[0]);
    bound.relative = std::exp2(type == "f32" ? -22.0L : type == "f16" ? -9.9L : -7.0L);
  } else if (op == "lg2") {
    wanted = x[0] < 0 ? std::numeric_limits<long double>::quiet_NaN() : std::log2(x[0]);
    if (x[0] > 0.5L && x[0] < 2)
      bound.absolute = std::exp2(-22.0L);
    else
      bound.relative = std::exp2(-22.0L);
  } else if (op == "tanh") {
    wanted = std::tanh(x[0]);
    if (type == "f32")
      bound.relative = std::exp2(-11.0L);
    else
      bound.absolute = std::exp2(type == "f16" ? -10.987L : -8.0L);
  } else if (op == "rcp") {
    wanted = 1 / x[0];
    bound.relative = std::exp2(type == "f32" ? -23.0L : -20.0L);
  } else if (op == "sqrt") {
    wanted = x[0] < 0 ? std::numeric_limits<long double>::quiet_NaN() : std::sqrt(x[0]);
    bound.relative = std::exp2(-23.0L);
  } else if (op == "rsqrt") {
    wanted = x[0] < 0 ? std::numeric_limits<long double>::quiet_NaN() : 1 / std::sqrt(x[0]);
    bound.relative = std::exp2(type == "f32" ? -22.9L : m.has("ftz") ? -19.0L : -50.0L);
  } else if (op == "div") {
    wanted = x[0] / x[1];
    bound.relative = std::exp2(-22.0L);  // 2 units of the last place
    if (m.has("approx") && std::fabs(x[1]) > std::exp2(126.0L) && !std::isinf(x[1])) {
      wanted = std::isinf(x[0]) ? std::numeric_limits<long double>::quiet_NaN()
                                : std::copysign(0.0L, x[0]) * std::copysign(1.0L, x[1]);
      if (std::isnan(x[0])) wanted = x[0];
    }
  } else {
    throw std::logic_error("no approximation " + op);
  }
  if (type == "f64" && m.has("ftz")) {  // upper words
    const bool flushed = static_cast<std::uint64_t>(sources[0]) << 1 >> 53 == 0;
    return [=](UInt128 got) {
      const auto code = static_cast<std::uint64_t>(got);
      if (std::isnan(wanted) && !flushed) return code == 0x7fffffff00000000;
      if (flushed) return code == ((static_cast<std::uint64_t>(sources[0]) >> 63 << 63) | 0x7ff0000000000000);
      if (code == 0x7ff0000000000000) return wanted > 0x1p1023L;
      return (code & 0xffffffff) == 0 && within(type, got, wanted, bound, true);
    };
  }
  const std::uint64_t nan =
      type == "f64" ? nan_of(type, {static_cast<std::uint64_t>(sources[0])}) : canonical_nan(type);
  return [=, ftz = m.has("ftz")](UInt128 got) {
    if (std::isnan(wanted)) return got == nan;
    return within(type, got, wanted, bound, ftz);
  };
}

// -- Comparisons ------------------------------------------------------------------------------------------------------

inline bool relation_holds(const std::string& relation, const std::string& type, bool ftz, UInt128 a, UInt128 b) {
  int order = 0;  // of a beside b; 2: unordered
  if (is_float_type(type)) {
    const RealFormat format = format_named(type);
    const auto code = [&](UInt128 value) {
      const auto bits = static_cast<std::uint64_t>(low_bits(value, width_of(type)));
      return ftz ? flush(type, bits) : bits;
    };
    const Exact x = decode(format, code(a));
    const Exact y = decode(format, code(b));
    if (x.kind == Exact::Kind::nan || y.kind == Exact::Kind::nan) {
      order = 2;
    } else {
      const auto rank = [&](std::uint64_t bits) {
        const auto magnitude = static_cast<Int128>(bits & (format.sign() - 1));
        return (bits & format.sign()) != 0 ? -magnitude : magnitude;  // zeros are equal
      };
      order = rank(code(a)) < rank(code(b)) ? -1 : rank(code(a)) > rank(code(b)) ? 1 : 0;
    }
  } else {
    const Int128 x = integer(a, type);
    const Int128 y = integer(b, type);
    order = x < y ? -1 : x > y ? 1 : 0;
  }
  if (relation == "num") return order != 2;
  if (relation == "nan") return order == 2;
  std::string plain = relation;
  if (plain == "lo") plain = "lt";
  if (plain == "ls") plain = "le";
  if (plain == "hi") plain = "gt";
  if (plain == "hs") plain = "ge";
  if (plain.size() == 3) {  // unordered is true
    if (order == 2) return true;
    plain.pop_back();
  }
  if (order == 2) return false;
  if (plain == "eq") return order == 0;
  if (plain == "ne") return order != 0;
  if (plain == "lt") return order < 0;
  if (plain == "le") return order <= 0;
  if (plain == "gt") return order > 0;
  if (plain == "ge") return order >= 0;
  throw std::logic_error("no relation " + relation);
}
inline bool combine(const Mnemonic& m, bool found, const LaneInput& in) {
  if (m.has("and")) return found && in.predicates.at(0);
  if (m.has("or")) return found || in.predicates.at(0);
  if (m.has("xor")) return found != in.predicates.at(0);
  return found;
}

// -- Conversions ------------------------------------------------------------------------------------------------------

inline std::uint64_t convert_real(const Mnemonic& m, const std::string& to, const std::string& from, UInt128 value) {
  std::uint64_t code = static_cast<std::uint64_t>(low_bits(value, width_of(from)));
  if (m.has("ftz") && from == "f32") code = flush(from, code);
  const RealFormat format = format_named(to);
  Exact exact = decode(format_named(from), code);
  if (exact.kind == Exact::Kind::nan) {
    if (m.has("sat")) return 0;
    if (to != "f64") return canonical_nan(to);
    // The payload keeps its place below the point.
    const RealFormat narrow = format_named(from);
    const std::uint64_t payload = code & ((std::uint64_t{1} << narrow.fraction_bits) - 1);
    return ((code & narrow.sign()) != 0 ? std::uint64_t{1} << 63 : 0) | 0x7ff8000000000000 |
           payload << (52 - narrow.fraction_bits);
  }
  if (m.mode().size() == 3 && m.mode() != "rna" && exact.kind == Exact::Kind::finite) {
    exact.size = whole(exact, m.mode());
    exact.power = 0;
  }
  std::uint64_t result =
      encode(format, exact, m.mode().size() == 3 && m.mode() != "rna" ? "rn" : m.mode(), m.has("satfinite"));
  if (m.has("ftz") && to == "f32") result = flush(to, result);
  const bool negative = (result & format.sign()) != 0;
  if (m.has("sat")) {
    const std::uint64_t one = static_cast<std::uint64_t>(format.bias()) << format.fraction_bits;
    result = negative ? 0 : std::min(result, one);
  }
  if (m.has("relu") && (negative || exact.negative)) result = 0;
  return result;
}
// .rs: the bits below the last place, added to random ones; a carry takes the number up.
inline std::uint64_t convert_by_chance(const Mnemonic& m, const std::string& to, std::uint32_t code,
                                       std::uint32_t random, int random_bits) {
  const RealFormat format = format_named(to);
  const Exact exact = decode(kRef32, code);
  if (exact.kind == Exact::Kind::nan) return canonical_nan(to);
  if (m.has("relu") && exact.negative) return 0;
  const std::uint64_t down = encode(format, exact, "rz", true);
  const std::uint64_t sign = down & format.sign();
  if (exact.kind == Exact::Kind::infinite) return m.has("satfinite") ? down : down + 1;
  const std::uint64_t below = down & (format.sign() - 1);
  const Exact low = size_of(format, below);
  const Exact high = size_of(format, below + 1);
  // (x − low) / (high − low), in units of 2^-random_bits, plus the random bits.
  Exact minus_low = negated(low);
  Exact size = exact;
  size.negative = false;
  const Exact rest = plus(size, minus_low, "rn");
  const Exact step = plus(high, minus_low, "rn");
  Big scaled = (rest.size << random_bits);
  const int shift = rest.power - step.power;
  scaled = shift >= 0 ? Big(scaled << shift) : Big(scaled >> -shift);
  const bool up = scaled / step.size + random >= (Big(1) << random_bits);
  if (!up) return sign | below;
  return sign | (below == format.largest() && m.has("satfinite") ? below : below + 1);
}
inline std::uint64_t convert_to_integer(const Mnemonic& m, const std::string& to, const std::string& from,
                                        UInt128 value) {
  std::uint64_t code = static_cast<std::uint64_t>(low_bits(value, width_of(from)));
  if (m.has("ftz")) code = flush(from, code);
  const Exact exact = decode(format_named(from), code);
  const int bits = width_of(to);
  if (exact.kind == Exact::Kind::nan) {
    return from == "f64" || bits == 64 ? static_cast<std::uint64_t>(UInt128{1} << (bits - 1)) : 0;
  }
  if (exact.kind == Exact::Kind::infinite) {
    return static_cast<std::uint64_t>(
        low_bits(static_cast<UInt128>(exact.negative ? least_of(to) : most_of(to)), bits));
  }
  const Big size = whole(exact, m.mode());
  const Int128 limit = Int128{1} << 70;
  const Int128 near = size > Big(1) << 70 ? limit : static_cast<Int128>(size.convert_to<UInt128>());
  return static_cast<std::uint64_t>(low_bits(static_cast<UInt128>(clamp_to(exact.negative ? -near : near, to)), bits));
}
inline std::uint64_t convert_scale(const Mnemonic& m, std::uint32_t code) {
  // 2^(code − 127); 255 is NaN; without a sign.
  const Exact exact = decode(kRef32, code);
  if (exact.kind == Exact::Kind::nan) return 255;
  const std::uint64_t over_all = m.has("satfinite") ? 254 : 255;
  if (exact.kind == Exact::Kind::infinite) return over_all;
  for (int i = 254; i >= 0; --i) {
    const int order = compare(exact.size, exact.power, Big(1), i - 127);
    if (order == 0) return static_cast<std::uint64_t>(i);
    if (order > 0)
      return m.mode() == "rz" ? static_cast<std::uint64_t>(i) : i == 254 ? over_all : static_cast<std::uint64_t>(i + 1);
  }
  return 0;
}
// Types of pairs and fours: how many bits a place has.
inline int place_of(const std::string& type) { return type.substr(0, 4) == "e2m1" ? 4 : type[0] == 'e' ? 8 : 16; }

inline UInt128 convert(const Mnemonic& m, const LaneInput& in) {
  const std::string& from = m.last();
  const std::string& to = m.last(1);
  const auto& s = in.values;
  if (m.has("pack")) {
    const bool chained = m.last() == "b32";
    const std::string& type = m.at(3);
    const int bits = std::stoi(type.substr(1));
    const auto clamped = [&](UInt128 value) {
      return low_bits(static_cast<UInt128>(clamp_to(integer(value, "s32"), type)), bits);
    };
    return low_bits((chained ? s.at(2) << (2 * bits) : UInt128{0}) | clamped(s.at(0)) << bits | clamped(s.at(1)), 32);
  }
  if (to == "ue8m0x2") {
    const auto single = [&](UInt128 half) { return static_cast<std::uint32_t>(half & 0xffff) << 16; };
    const std::uint32_t a = from == "f32" ? static_cast<std::uint32_t>(s.at(0)) : single(s.at(0) >> 16);
    const std::uint32_t b = from == "f32" ? static_cast<std::uint32_t>(s.at(1)) : single(s.at(0));
    return convert_scale(m, a) << 8 | convert_scale(m, b);
  }
  if (from == "ue8m0x2") {
    const auto scale = [](std::uint32_t code) -> UInt128 {
      if (code == 255) return 0x7fff;
      Exact exact = exact_integer(1);
      exact.power = static_cast<int>(code) - 127;
      return encode(kRefBrain, exact, "rn");
    };
    return scale(static_cast<std::uint32_t>(s.at(0) >> 8) & 255) << 16 |
           scale(static_cast<std::uint32_t>(s.at(0)) & 255);
  }
  if (m.has("rs")) {
    const std::string type = to.substr(0, to.size() - 2);
    const auto random = static_cast<std::uint32_t>(s.back());
    const std::size_t count = s.size() - 1;
    UInt128 d = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t bits = 0;
      int many = 16;
      if (type == "f16") {
        many = 13;
        bits = (i == 0 ? random >> 16 : random) & 0x1fff;
      } else if (type == "bf16") {
        bits = i == 0 ? random >> 16 : random & 0xffff;
      } else if (type == "e2m1") {
        many = 8;  // a, b: upper bytes of the halves; e, f: lower ones
        const std::uint32_t half = i % 2 == 0 ? random >> 16 : random & 0xffff;
        bits = i < 2 ? half >> 8 : half & 0xff;
      } else {
        bits = i < 2 ? random >> 16 : random & 0xffff;
      }
      d = d << place_of(type) | convert_by_chance(m, type, static_cast<std::uint32_t>(s.at(i)), bits, many);
    }
    return d;
  }
  if (to == "tf32")
    return UInt128{is_nan_code("f32", static_cast<std::uint64_t>(s.at(0))) ? 0x7fffffff
                                                                           : convert_real(m, to, from, s.at(0)) << 13};
  if (to.size() > 2 && to.substr(to.size() - 2) == "x2" && from == "f32") {
    const std::string type = to.substr(0, to.size() - 2);
    return UInt128{convert_real(m, type, from, s.at(0))} << place_of(type) | convert_real(m, type, from, s.at(1));
  }
  if (to.size() > 2 && to.substr(to.size() - 2) == "x2") {  // pairs into pairs
    const std::string type = to.substr(0, to.size() - 2);
    const std::string source = from.substr(0, from.size() - 2);
    const int place = place_of(source);
    const int bits = source[0] == 'e' && source != "e2m1" && source[1] < '4' ? 6 : place;
    UInt128 d = 0;
    for (int i = 1; i >= 0; --i) {
      const auto code = static_cast<std::uint64_t>(low_bits(s.at(0) >> (i * place), bits));
      std::uint64_t one = 0;
      const Exact exact = decode(format_named(source), code);
      if (exact.kind == Exact::Kind::nan)
        one = canonical_nan(type);
      else if (m.has("relu") && exact.negative)
        one = 0;
      else
        one = encode(format_named(type), exact, "rn", m.has("satfinite"));
      d = d << place_of(type) | one;
    }
    return d;
  }
  if (is_float_type(from) && is_float_type(to)) return convert_real(m, to, from, s.at(0));
  if (is_float_type(from)) return convert_to_integer(m, to, from, s.at(0));
  const Int128 value = integer(s.at(0), from);
  if (is_float_type(to)) {
    return output_code(
        m, to, exact_integer(value < 0 ? Big(-Big(static_cast<UInt128>(-value))) : Big(static_cast<UInt128>(value))),
        0);
  }
  return low_bits(static_cast<UInt128>(m.has("sat") ? clamp_to(value, to) : value), width_of(to));
}

// -- Integers and bits ------------------------------------------------------------------------------------------------

// Also of results that are wider than the type.
inline UInt128 integer_operation(const Mnemonic& m, const std::string& type, const std::vector<UInt128>& s) {
  const std::string& op = m.opcode();
  const int bits = width_of(type);
  const bool is_signed = is_signed_type(type);
  const auto x = [&](std::size_t i) { return integer(s.at(i), type); };
  const auto word = [&](std::size_t i) { return static_cast<std::uint32_t>(s.at(i)); };
  const auto bit = [&](std::size_t i, int place) { return (s.at(i) >> place & 1) != 0; };
  const auto result = [&](Int128 value) {
    if (m.has("sat")) value = clamp_to(value, type);
    if (m.has("relu") && value < 0) value = 0;
    return low_bits(static_cast<UInt128>(value), bits);
  };
  if (op == "add") return result(x(0) + x(1));
  if (op == "sub") return result(x(0) - x(1));
  if (op == "mul" || op == "mad") {
    // Of 64 bits without a sign the product has all 128.
    const UInt128 product = static_cast<UInt128>(x(0)) * static_cast<UInt128>(x(1));
    if (m.has("wide")) return low_bits(product + (op == "mad" ? s.at(2) : 0), 2 * bits);
    UInt128 half = product;
    if (m.has("hi")) half = is_signed ? static_cast<UInt128>(static_cast<Int128>(product) >> bits) : product >> bits;
    if (op == "mul") return low_bits(half, bits);
    if (m.has("sat")) return result(integer(half, type) + x(2));
    return low_bits(half + s.at(2), bits);
  }
  if (op == "mul24" || op == "mad24") {
    const std::string narrow = is_signed ? "s24" : "u24";
    const Int128 product = integer(s.at(0), narrow) * integer(s.at(1), narrow);
    const Int128 half = m.has("hi") ? product >> 16 : product;
    const Int128 kept = integer(static_cast<UInt128>(half), type);
    return result(op == "mad24" ? kept + x(2) : kept);
  }
  if (op == "sad") return result(x(2) + (x(0) < x(1) ? x(1) - x(0) : x(0) - x(1)));
  if (op == "div") return x(1) == 0 ? low_bits(~UInt128{0}, bits) : result(x(0) / x(1));
  if (op == "rem") return x(1) == 0 ? low_bits(s.at(0), bits) : result(x(0) % x(1));
  if (op == "abs") return result(x(0) < 0 ? -x(0) : x(0));
  if (op == "neg") return result(-x(0));
  if (op == "min") return result(std::min(x(0), x(1)));
  if (op == "max") return result(std::max(x(0), x(1)));
  if (op == "and") return s.at(0) & s.at(1);
  if (op == "or") return s.at(0) | s.at(1);
  if (op == "xor") return s.at(0) ^ s.at(1);
  if (op == "not") return low_bits(~s.at(0), bits);
  if (op == "cnot") return s.at(0) == 0 ? 1 : 0;
  if (op == "popc" || op == "clz" || op == "brev") {
    UInt128 d = 0;
    if (op == "popc") {
      for (int i = 0; i < bits; ++i) d += bit(0, i) ? 1 : 0;
    } else if (op == "clz") {
      for (int i = bits - 1; i >= 0 && !bit(0, i); --i) ++d;
    } else {
      for (int i = 0; i < bits; ++i) d |= bit(0, i) ? UInt128{1} << (bits - 1 - i) : 0;
    }
    return d;
  }
  if (op == "bfind") {
    const bool sign = is_signed && bit(0, bits - 1);
    for (int i = bits - 1; i >= 0; --i) {
      if (bit(0, i) != sign) return static_cast<UInt128>(m.has("shiftamt") ? bits - 1 - i : i);
    }
    return 0xffffffff;
  }
  if (op == "fns") {
    const std::uint32_t mask = word(0);
    const std::uint32_t base = word(1);
    const auto offset = static_cast<std::int32_t>(word(2));
    if (base > 31) return 0xffffffff;  // PTX has no such base
    if (offset == 0) return (mask >> base & 1) != 0 ? base : 0xffffffff;
    std::int64_t left = offset > 0 ? offset : -std::int64_t{offset};
    for (std::int64_t place = base; place >= 0 && place<32; place += offset> 0 ? 1 : -1) {
      if ((mask >> place & 1) != 0 && --left == 0) return static_cast<UInt128>(place);
    }
    return 0xffffffff;
  }
  if (op == "shl") return word(1) >= static_cast<std::uint32_t>(bits) ? 0 : low_bits(s.at(0) << word(1), bits);
  if (op == "shr") return low_bits(static_cast<UInt128>(x(0) >> std::min(word(1), 100u)), bits);
  if (op == "bfe") {
    const int position = static_cast<int>(word(1) & 0xff);
    const int length = static_cast<int>(word(2) & 0xff);
    const bool sign = is_signed && length != 0 && bit(0, std::min(position + length - 1, bits - 1));
    UInt128 d = 0;
    for (int i = 0; i < bits; ++i) {
      const bool one = i < length && position + i < bits ? bit(0, position + i) : sign;
      d |= one ? UInt128{1} << i : 0;
    }
    return d;
  }
  if (op == "bfi") {
    const int position = static_cast<int>(word(2) & 0xff);
    const int length = static_cast<int>(word(3) & 0xff);
    UInt128 d = s.at(1);
    for (int i = 0; i < length && position + i < bits; ++i) {
      const UInt128 place = UInt128{1} << (position + i);
      d = bit(0, i) ? d | place : d & ~place;
    }
    return d;
  }
  if (op == "bmsk") {
    // `width` ones from bit `start` on; those beyond bit 31 are lost.
    const std::uint64_t start = m.has("wrap") ? word(0) & 31 : word(0);
    const std::uint64_t width = m.has("wrap") ? word(1) & 31 : word(1);
    UInt128 d = 0;
    for (std::uint64_t i = start; i < 32 && i - start < width; ++i) d |= UInt128{1} << i;
    return d;
  }
  if (op == "szext") {
    const std::uint32_t width = m.has("wrap") ? word(1) & 31 : word(1);
    if (width >= 32) return s.at(0);
    if (width == 0) return 0;
    const UInt128 low = low_bits(s.at(0), static_cast<int>(width));
    return is_signed && bit(0, static_cast<int>(width) - 1) ? low_bits(low - (UInt128{1} << width), 32) : low;
  }
  if (op == "shf") {
    const UInt128 both = s.at(1) << 32 | s.at(0);
    const std::uint32_t n = m.has("wrap") ? word(2) & 31 : std::min(word(2), 32u);
    return low_bits(m.has("l") ? both << n >> 32 : both >> n, 32);
  }
  throw std::logic_error("no integer " + op);
}

inline UInt128 permutation(const Mnemonic& m, const std::vector<UInt128>& s) {
  const UInt128 bytes = s.at(1) << 32 | s.at(0);
  // From the manual's tables: which byte goes to d.b3, b2, b1, b0.
  static const std::vector<std::pair<std::string, std::vector<std::string>>> tables = {
      {"f4e", {"3210", "4321", "5432", "6543"}}, {"b4e", {"5670", "6701", "7012", "0123"}},
      {"rc8", {"0000", "1111", "2222", "3333"}}, {"ecl", {"3210", "3211", "3222", "3333"}},
      {"ecr", {"0000", "1110", "2210", "3210"}}, {"rc16", {"1010", "3232", "1010", "3232"}}};
  for (const auto& [mode, rows] : tables) {
    if (!m.has(mode)) continue;
    UInt128 d = 0;
    for (const char from : rows.at(static_cast<std::size_t>(s.at(2) & 3)))
      d = d << 8 | (bytes >> (8 * (from - '0')) & 0xff);
    return d;
  }
  UInt128 d = 0;
  for (int i = 3; i >= 0; --i) {
    const auto selector = static_cast<int>(s.at(2) >> (4 * i) & 0xf);
    const UInt128 byte = bytes >> (8 * (selector & 7)) & 0xff;
    d = d << 8 | ((selector & 8) != 0 ? ((byte & 0x80) != 0 ? 0xff : 0) : byte);
  }
  return d;
}
inline UInt128 dot(const Mnemonic& m, const std::vector<UInt128>& s) {
  const std::string a = m.last(1);
  const std::string b = m.last();
  const auto part = [](UInt128 word, int at, int bits, bool is_signed) {
    return integer(word >> at, (is_signed ? "s" : "u") + std::to_string(bits));
  };
  Int128 sum = integer(s.at(2), is_signed_type(a) || is_signed_type(b) ? "s32" : "u32");
  if (m.opcode() == "dp4a") {
    for (int i = 0; i < 4; ++i)
      sum += part(s.at(0), 8 * i, 8, is_signed_type(a)) * part(s.at(1), 8 * i, 8, is_signed_type(b));
  } else {
    const int first = m.has("hi") ? 16 : 0;
    for (int i = 0; i < 2; ++i) {
      sum += part(s.at(0), 16 * i, 16, is_signed_type(a)) * part(s.at(1), first + 8 * i, 8, is_signed_type(b));
    }
  }
  return low_bits(static_cast<UInt128>(sum), 32);
}
// The carry of the whole sum, of which `bits` bits are kept. Of differences it is set if nothing is borrowed: PTX ISA,
// 9.7.2, leaves that open, and nvcc's division of 128 bits needs it (wide_division.cu).
inline LaneOutput carried(const Mnemonic& m, const LaneInput& in) {
  const std::string& type = m.last();
  const int bits = width_of(type);
  const std::string op = m.opcode().back() == 'c' ? m.opcode().substr(0, m.opcode().size() - 1) : m.opcode();
  const bool reads = op != m.opcode();
  const Big modulus = Big(1) << bits;
  const auto unsigned_of = [&](UInt128 value) { return Big(low_bits(value, bits)); };
  Big sum;
  if (op == "mad") {
    const Int128 a = integer(in.values.at(0), type);
    const Int128 b = integer(in.values.at(1), type);
    const UInt128 product = static_cast<UInt128>(a) * static_cast<UInt128>(b);
    const bool arithmetic = is_signed_type(type);
    const UInt128 half = !m.has("hi") ? product
                         : arithmetic ? static_cast<UInt128>(static_cast<Int128>(product) >> bits)
                                      : product >> bits;
    sum = unsigned_of(half) + unsigned_of(in.values.at(2)) + (reads && in.carry ? 1 : 0);
  } else {
    const Big a = unsigned_of(in.values.at(0));
    const Big b = unsigned_of(in.values.at(1));
    sum = op == "add" ? Big(a + b + (reads && in.carry ? 1 : 0)) : Big(a - b - (reads && !in.carry ? 1 : 0));
  }
  LaneOutput out;
  out.carry = !m.has("cc") ? in.carry : op == "sub" ? sum >= 0 : sum >= modulus;
  const Big kept = ((sum % modulus) + modulus) % modulus;
  out.values = {kept.convert_to<UInt128>()};
  return out;
}

// -- Video instructions: 9.7.18
// ----------------------------------------------------------------------------------------

// partSelectSignExtend
inline Int128 selected_part(UInt128 value, const std::string& type, const std::string& part) {
  const std::string sign = type.substr(0, 1);
  if (part.empty()) return integer(value, type);
  const int bits = part[0] == 'b' ? 8 : 16;
  return integer(value >> (bits * (part[1] - '0')), sign + std::to_string(bits));
}
inline Int128 video_value(const std::string& op, const Mnemonic& m, Int128 a, Int128 b) {
  if (op == "vadd") return a + b;
  if (op == "vsub") return a - b;
  if (op == "vabsdiff") return a > b ? a - b : b - a;
  if (op == "vmin") return std::min(a, b);
  if (op == "vmax") return std::max(a, b);
  if (op == "vavrg") {
    const Int128 sum = a + b + (a + b >= 0 ? 1 : 0);
    return sum >= 0 ? sum / 2 : -((-sum + 1) / 2);  // >> 1
  }
  if (op == "vset") {
    const bool found = m.has("eq")   ? a == b
                       : m.has("ne") ? a != b
                       : m.has("lt") ? a < b
                       : m.has("le") ? a <= b
                       : m.has("gt") ? a > b
                                     : a >= b;
    return found ? 1 : 0;
  }
  const int amount = static_cast<int>(m.has("wrap") ? b % 32 : std::min<Int128>(b, 32));
  if (op == "vshl") return a * (Int128{1} << amount);
  if (op == "vshr") return a >> amount;
  throw std::logic_error("no video " + op);
}
inline UInt128 video(const Mnemonic& m, const LaneInput& in) {
  const std::string& opcode = m.opcode();
  const bool two = opcode.back() == '2', four = opcode.back() == '4';
  const std::string op = two || four ? opcode.substr(0, opcode.size() - 1) : opcode;
  const bool set = op == "vset";
  const std::string d = set ? "u32" : m.at(1), a = m.at(set ? 1 : 2), b = m.at(set ? 2 : 3);
  const auto& s = in.values;
  const UInt128 c = s.size() > 2 ? s[2] : 0;
  if (!two && !four) {
    Int128 value = video_value(op, m, selected_part(s.at(0), a, in.parts[1]), selected_part(s.at(1), b, in.parts[2]));
    const std::string& to = in.parts[0];
    const int bits = to.empty() ? 32 : to[0] == 'b' ? 8 : 16;
    if (m.has("sat")) value = clamp_to(value, d.substr(0, 1) + std::to_string(bits));
    if (m.has("add")) value += integer(c, d);
    if (m.has("min")) value = std::min(value, integer(c, d));
    if (m.has("max")) value = std::max(value, integer(c, d));
    if (to.empty()) return low_bits(static_cast<UInt128>(value), 32);
    const int shift = bits * (to[1] - '0');
    const UInt128 place = ((UInt128{1} << bits) - 1) << shift;
    return (low_bits(static_cast<UInt128>(value), bits) << shift) | (low_bits(c, 32) & ~place);
  }
  const int bits = two ? 16 : 8, count = two ? 2 : 4;
  const std::string all = two ? "h10" : "b3210";
  const std::string mask = in.parts[0].empty() ? all : in.parts[0];
  const std::string of_a = in.parts[1].empty() ? all : in.parts[1];
  const std::string of_b = in.parts[2].empty() ? (two ? "h32" : "b7654") : in.parts[2];
  const UInt128 elements = s.at(1) << 32 | s.at(0);
  UInt128 merged = low_bits(c, 32);
  Int128 sum = static_cast<Int128>(c);
  for (int i = 0; i < count; ++i) {
    if (mask.find(static_cast<char>('0' + i)) == std::string::npos) continue;
    const auto element = [&](const std::string& from, const std::string& type) {
      const int which = from[static_cast<std::size_t>(count - i)] - '0';
      return integer(elements >> (bits * which), type.substr(0, 1) + std::to_string(bits));
    };
    Int128 value = video_value(op, m, element(of_a, a), element(of_b, b));
    if (m.has("sat")) value = clamp_to(value, d.substr(0, 1) + std::to_string(bits));
    sum += value;
    merged = (merged & ~(((UInt128{1} << bits) - 1) << (i * bits))) | low_bits(static_cast<UInt128>(value), bits)
                                                                          << (i * bits);
  }
  return m.has("add") ? low_bits(static_cast<UInt128>(sum), 32) : merged;
}

// -- All --------------------------------------------------------------------------------------------------------------

// A pair of 16 or 32 bits each: `one` of every half.
template <class One>
UInt128 of_halves(const std::vector<UInt128>& s, int bits, const One& one) {
  UInt128 d = 0;
  for (int i = 1; i >= 0; --i) {
    std::vector<UInt128> parts;
    for (const UInt128 word : s) parts.push_back(low_bits(word >> (i * bits), bits));
    d = d << bits | low_bits(one(parts), bits);
  }
  return d;
}

// Throws std::logic_error of what it does not know.
inline LaneOutput reference(const std::string& text, const LaneInput& in) {
  const Mnemonic m(text);
  const std::string& op = m.opcode();
  const std::string& type = m.last();
  const auto& s = in.values;
  LaneOutput out;
  const auto value = [&](UInt128 d) {
    out.values = {d};
    return out;
  };
  const bool real = is_float_type(type);
  const bool pair = type == "f16x2" || type == "bf16x2" || type == "f32x2";
  const std::string element = pair ? type.substr(0, type.size() - 2) : type;

  if (type == "pred") {
    const auto& p = in.predicates;
    out.predicates = {op == "mov"   ? p[0]
                      : op == "not" ? !p[0]
                      : op == "and" ? p[0] && p[1]
                      : op == "or"  ? p[0] || p[1]
                                    : p[0] != p[1]};
    return out;
  }
  if (op == "mov") {
    const std::string part = m.last();
    const bool pack = part.substr(0, 4) == "pack";
    if (!pack && part.substr(0, 6) != "unpack") return value(s.at(0));
    const int count = part.back() - '0';
    const int bits = width_of(m.at(1)) / count;
    if (pack) {
      UInt128 d = 0;
      for (int i = count - 1; i >= 0; --i) d = d << (bits % 128) | low_bits(s.at(static_cast<std::size_t>(i)), bits);
      return value(d);
    }
    for (int i = 0; i < count; ++i) out.values.push_back(low_bits(s.at(0) >> (i * bits), bits));
    return out;
  }
  if (op == "selp") return value(in.predicates.at(0) ? s.at(0) : s.at(1));
  if (op == "slct") {
    bool first = integer(s.at(2), "s32") >= 0;
    if (type == "f32") {
      const std::uint64_t c = input_code(m, "f32", s.at(2));
      first = !is_nan_code("f32", c) && ((c & 0x80000000) == 0 || (c & 0x7fffffff) == 0);
    }
    return value(first ? s.at(0) : s.at(1));
  }
  if (op == "setp" || op == "set") {
    const bool ftz = m.has("ftz");
    std::vector<bool> found;
    if (pair) {
      for (int i = 0; i < 2; ++i) {
        found.push_back(relation_holds(m.at(1), element, ftz, low_bits(s.at(0) >> (16 * i), 16),
                                       low_bits(s.at(1) >> (16 * i), 16)));
      }
    } else {
      found.push_back(relation_holds(m.at(1), type, ftz, s.at(0), s.at(1)));
    }
    if (op == "setp") {
      out.predicates = {combine(m, found[0], in), combine(m, pair ? found[1] : !found[0], in)};
      return out;
    }
    const std::string& to = m.last(1);
    const auto number = [&](bool is) -> UInt128 {
      if (!is) return 0;
      if (to == "f32") return 0x3f800000;
      if (to == "f16" || to == "f16x2") return 0x3c00;
      if (to == "bf16" || to == "bf16x2") return 0x3f80;
      return low_bits(~UInt128{0}, width_of(to));
    };
    if (pair) return value(number(combine(m, found[1], in)) << 16 | number(combine(m, found[0], in)));
    return value(number(combine(m, found[0], in)));
  }
  if (op == "testp") {
    const Exact exact = decode(format_named(type), static_cast<std::uint64_t>(s.at(0)));
    const bool finite = exact.kind == Exact::Kind::finite;
    const bool nan = exact.kind == Exact::Kind::nan;
    const RealFormat format = format_named(type);
    const bool small = finite && !exact.zero() && compare(exact.size, exact.power, Big(1), 1 - format.bias()) < 0;
    const std::string& what = m.at(1);
    out.predicates = {what == "finite"       ? finite
                      : what == "infinite"   ? exact.kind == Exact::Kind::infinite
                      : what == "number"     ? !nan
                      : what == "notanumber" ? nan
                      : what == "normal"     ? finite && !exact.zero() && !small
                                             : small};
    return out;
  }
  if (op == "cvt") return value(convert(m, in));
  if (op[0] == 'v') return value(video(m, in));
  if (op == "copysign") {
    const UInt128 sign = UInt128{1} << (width_of(type) - 1);
    return value((s.at(1) & (sign - 1)) | (s.at(0) & sign));
  }
  if (op == "prmt") return value(permutation(m, s));
  if (op == "lop3") {
    UInt128 d = 0;
    for (int i = 0; i < 32; ++i) {
      const auto row = static_cast<int>((s.at(0) >> i & 1) * 4 + (s.at(1) >> i & 1) * 2 + (s.at(2) >> i & 1));
      d |= (s.at(3) >> row & 1) << i;
    }
    if (m.has("and") || m.has("or")) out.predicates = {combine(m, d != 0, in)};
    return value(d);
  }
  if (op == "dp4a" || op == "dp2a") return value(dot(m, s));
  if (m.has("cc") || op == "addc" || op == "subc" || op == "madc") return carried(m, in);

  if (m.has("approx") || m.has("full")) {
    if (!pair) {
      out.accept = approximation(m, type, s);
      out.values = {0};
      return out;
    }
    std::vector<UInt128> low, high;
    for (const UInt128 word : s) {
      low.push_back(word & 0xffff);
      high.push_back(word >> 16 & 0xffff);
    }
    out.accept = [of_low = approximation(m, element, low), of_high = approximation(m, element, high)](UInt128 got) {
      return of_low(got & 0xffff) && of_high(got >> 16 & 0xffff);
    };
    out.values = {0};
    return out;
  }
  if (real || pair) {
    const int bits = width_of(element);
    const auto one = [&](const std::vector<UInt128>& x) -> UInt128 {
      if (op == "abs" || op == "neg") return sign_operation(m, element, x.at(0));
      if (op == "min" || op == "max") {
        std::uint64_t d = extreme(m, element, input_code(m, element, x.at(0)), input_code(m, element, x.at(1)));
        if (x.size() > 2) d = extreme(m, element, d, input_code(m, element, x.at(2)));
        return d;
      }
      return real_operation(m, element, std::vector<std::string>(x.size(), element), x);
    };
    // Sums of single precision of narrow numbers: add.f32.f16 d, a, c.
    if (!pair && m.size() > 2 && m.last(1) == "f32" && type != "f32") {
      std::vector<std::string> types(s.size(), type);
      types.back() = "f32";
      return value(real_operation(m, "f32", types, s));
    }
    return value(pair ? of_halves(s, bits, one) : one(s));
  }
  if (type == "u16x2" || type == "s16x2") {
    return value(
        of_halves(s, 16, [&](const std::vector<UInt128>& x) { return integer_operation(m, type.substr(0, 3), x); }));
  }
  return value(integer_operation(m, m.opcode() == "prmt" ? "b32" : type, s));
}

}  // namespace heddle::test
