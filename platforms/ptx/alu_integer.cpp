// Integers: sums, products, quotients, bit fields of PTX's chapter on integer arithmetic.
#include <algorithm>
#include <limits>

#include "ptx/alu_forms.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_types.h"

namespace heddle::ptx {

namespace {

template <class T>
T add(T a, T b) {
  return static_cast<T>(bits_of(a) + bits_of(b));
}
template <class T>
T subtract(T a, T b) {
  return static_cast<T>(bits_of(a) - bits_of(b));
}
std::int32_t clamp_s32(std::int64_t value) {
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(std::max<std::int64_t>(value, std::numeric_limits<std::int32_t>::min()),
                             std::numeric_limits<std::int32_t>::max()));
}
std::int32_t add_saturated(std::int32_t a, std::int32_t b) { return clamp_s32(std::int64_t{a} + b); }
std::int32_t subtract_saturated(std::int32_t a, std::int32_t b) { return clamp_s32(std::int64_t{a} - b); }

template <class T>
T multiply_low(T a, T b) {
  return low_product(a, b);
}
template <class T>
T multiply_high(T a, T b) {
  return high_product(a, b);
}
template <class T>
Double<T> multiply_wide(T a, T b) {
  return static_cast<Double<T>>(static_cast<Double<T>>(a) * static_cast<Double<T>>(b));
}
template <class T>
T multiply_add_low(T a, T b, T c) {
  return add(low_product(a, b), c);
}
template <class T>
T multiply_add_high(T a, T b, T c) {
  return add(high_product(a, b), c);
}
template <class T>
Double<T> multiply_add_wide(T a, T b, Double<T> c) {
  return add(multiply_wide(a, b), c);
}
std::int32_t multiply_add_high_saturated(std::int32_t a, std::int32_t b, std::int32_t c) {
  return clamp_s32(std::int64_t{high_product(a, b)} + c);
}

// The product of 24 bits, of which 48 are kept: bits 0 to 31, or 16 to 47.
std::int64_t product24(std::int32_t a, std::int32_t b) {
  const auto low = [](std::int32_t value) {
    return std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(value) << 8) >> 8};
  };
  return low(a) * low(b);
}
std::uint64_t product24(std::uint32_t a, std::uint32_t b) {
  return std::uint64_t{a & 0xffffffu} * std::uint64_t{b & 0xffffffu};
}
template <class T>
T multiply24_low(T a, T b) {
  return static_cast<T>(product24(a, b));
}
template <class T>
T multiply24_high(T a, T b) {
  return static_cast<T>(product24(a, b) >> 16);
}
template <class T>
T multiply24_add_low(T a, T b, T c) {
  return add(multiply24_low(a, b), c);
}
template <class T>
T multiply24_add_high(T a, T b, T c) {
  return add(multiply24_high(a, b), c);
}
std::int32_t multiply24_add_high_saturated(std::int32_t a, std::int32_t b, std::int32_t c) {
  return clamp_s32(std::int64_t{multiply24_high(a, b)} + c);
}

template <class T>
T difference_sum(T a, T b, T c) {
  return add(c, a < b ? subtract(b, a) : subtract(a, b));
}

// PTX leaves the quotient by zero open. All ones, and the dividend as remainder, are what RISC-V says; and as there,
// the quotient that has no place is the dividend.
template <class T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return subtract(T{0}, a);
  }
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

template <class T>
T absolute(T a) {
  return a < 0 ? subtract(T{0}, a) : a;
}
template <class T>
T negate(T a) {
  return subtract(T{0}, a);
}
template <class T>
T least(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T greatest(T a, T b) {
  return a < b ? b : a;
}
template <std::int32_t (*Op)(std::int32_t, std::int32_t)>
std::int32_t not_negative(std::int32_t a, std::int32_t b) {
  const std::int32_t value = Op(a, b);
  return value < 0 ? 0 : value;
}
std::int16_t least_relu(std::int16_t a, std::int16_t b) { return std::max<std::int16_t>(least(a, b), 0); }
std::int16_t greatest_relu(std::int16_t a, std::int16_t b) { return std::max<std::int16_t>(greatest(a, b), 0); }

// Two numbers of 16 bits in a register.
template <class T, T (*Op)(T, T)>
std::uint32_t pair(std::uint32_t a, std::uint32_t b) {
  const auto low = static_cast<std::uint16_t>(Op(static_cast<T>(a), static_cast<T>(b)));
  const auto high = static_cast<std::uint16_t>(Op(static_cast<T>(a >> 16), static_cast<T>(b >> 16)));
  return low | std::uint32_t{high} << 16;
}

template <class T>
std::uint32_t population(T a) {
  return static_cast<std::uint32_t>(__builtin_popcountll(a));
}
template <class T>
std::uint32_t leading_zeros(T a) {
  constexpr std::uint32_t kBits = 8 * sizeof(T);
  return a == 0 ? kBits : static_cast<std::uint32_t>(__builtin_clzll(a)) - (64 - kBits);
}
// The place of the most significant bit that is not the sign's.
template <class T>
std::uint32_t find_bit(T a) {
  auto bits = bits_of(a);
  if (std::is_signed_v<T> && a < 0) bits = static_cast<decltype(bits)>(~bits);
  return 8 * sizeof(T) - 1 - leading_zeros(bits);  // all ones, as none is found
}
template <class T>
std::uint32_t find_bit_shift(T a) {
  const std::uint32_t place = find_bit(a);
  return place == ~0u ? place : 8 * static_cast<std::uint32_t>(sizeof(T)) - 1 - place;
}
std::uint32_t find_nth_set(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  constexpr std::uint32_t kNone = ~0u;
  if (offset == 0) return base < 32 && (mask >> base & 1) != 0 ? base : kNone;
  std::uint32_t count = offset > 0 ? static_cast<std::uint32_t>(offset) : 0u - static_cast<std::uint32_t>(offset);
  for (std::uint32_t place = base; place<32; offset> 0 ? ++place : --place) {
    if ((mask >> place & 1) != 0 && --count == 0) return place;
  }
  return kNone;
}
template <class T>
T reverse_bits(T a) {
  std::uint64_t bits = a;
  bits = (bits >> 1 & 0x5555555555555555u) | (bits & 0x5555555555555555u) << 1;
  bits = (bits >> 2 & 0x3333333333333333u) | (bits & 0x3333333333333333u) << 2;
  bits = (bits >> 4 & 0x0f0f0f0f0f0f0f0fu) | (bits & 0x0f0f0f0f0f0f0f0fu) << 4;
  return static_cast<T>(__builtin_bswap64(bits) >> (64 - 8 * sizeof(T)));
}

template <class T>
T ones(std::uint32_t count) {
  return count >= 8 * sizeof(T) ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << count) - 1);
}
template <class T>
T extract_field(T a, std::uint32_t b, std::uint32_t c) {
  using U = std::make_unsigned_t<T>;
  constexpr std::uint32_t kTop = 8 * sizeof(T) - 1;
  const std::uint32_t position = b & 0xff;
  const std::uint32_t length = c & 0xff;
  const U bits = position > kTop ? U{0} : static_cast<U>(static_cast<U>(a) >> position);
  const U mask = ones<U>(length);
  const U field = bits & mask;
  if (std::is_unsigned_v<T> || length == 0) return static_cast<T>(field);
  const std::uint32_t sign_at = std::min(position + length - 1, kTop);
  if ((static_cast<U>(a) >> sign_at & 1) == 0) return static_cast<T>(field);
  // Bits beyond the register are the sign's, too.
  const U inside = position > kTop ? U{0} : ones<U>(kTop + 1 - position);
  return static_cast<T>(field | static_cast<U>(~(mask & inside)));
}
template <class T>
T insert_field(T a, T b, std::uint32_t c, std::uint32_t d) {
  const std::uint32_t position = c & 0xff;
  const std::uint32_t length = d & 0xff;
  if (position >= 8 * sizeof(T)) return b;
  const T mask = static_cast<T>(ones<T>(length) << position);
  return static_cast<T>((b & ~mask) | (static_cast<T>(a << position) & mask));
}
template <bool Clamp, class T>
T extend(T a, std::uint32_t b) {
  const std::uint32_t width = b & 31;
  if (Clamp && b >= 32) return a;
  if (width == 0) return 0;
  const std::uint32_t up = 32 - width;
  return static_cast<T>(static_cast<T>(static_cast<std::uint32_t>(a) << up) >> up);
}
template <bool Clamp>
std::uint32_t bit_mask(std::uint32_t a, std::uint32_t b) {
  if (Clamp && a >= 32) return 0;
  const std::uint32_t start = a & 31;
  const std::uint32_t width = Clamp ? std::min(b, 32u) : b & 31;
  return ones<std::uint32_t>(width) << start;
}

// Byte `i` of a word, as a number of the kind of T.
template <class T>
std::int32_t byte_of(T word, std::uint32_t i) {
  const auto byte = static_cast<std::uint8_t>(static_cast<std::uint32_t>(word) >> (8 * i));
  return std::is_signed_v<T> ? std::int32_t{static_cast<std::int8_t>(byte)} : std::int32_t{byte};
}
template <class T>
std::int32_t half_of(T word, std::uint32_t i) {
  const auto half = static_cast<std::uint16_t>(static_cast<std::uint32_t>(word) >> (16 * i));
  return std::is_signed_v<T> ? std::int32_t{static_cast<std::int16_t>(half)} : std::int32_t{half};
}
template <class A, class B>
std::uint32_t dot4(A a, B b, std::uint32_t c) {
  for (std::uint32_t i = 0; i < 4; ++i) c += static_cast<std::uint32_t>(byte_of(a, i) * byte_of(b, i));
  return c;
}
template <class A, class B, std::uint32_t First>
std::uint32_t dot2(A a, B b, std::uint32_t c) {
  for (std::uint32_t i = 0; i < 2; ++i)
    c += static_cast<std::uint32_t>(half_of(a, i)) * static_cast<std::uint32_t>(byte_of(b, First + i));
  return c;
}

template <class T>
void add_of_type(FormList& list) {
  const std::string type = kTypeName<T>;
  const std::string one = type + " = " + type;
  const std::string two = one + " " + type;
  const std::string three = two + " " + type;
  list.add("add." + type, AluClass::integer, kLanesOf<add<T>>, two);
  list.add("sub." + type, AluClass::integer, kLanesOf<subtract<T>>, two);
  list.add("mul.lo." + type, AluClass::multiply, kLanesOf<multiply_low<T>>, two);
  list.add("mul.hi." + type, AluClass::multiply, kLanesOf<multiply_high<T>>, two);
  list.add("mad.lo." + type, AluClass::multiply, kLanesOf<multiply_add_low<T>>, three);
  list.add("mad.hi." + type, AluClass::multiply, kLanesOf<multiply_add_high<T>>, three);
  if constexpr (sizeof(T) < 8) {
    const std::string wide = kTypeName<Double<T>>;
    list.add("mul.wide." + type, AluClass::multiply, kLanesOf<multiply_wide<T>>, wide + " = " + type + " " + type);
    list.add("mad.wide." + type, AluClass::multiply, kLanesOf<multiply_add_wide<T>>,
             wide + " = " + type + " " + type + " " + wide);
  }
  list.add("sad." + type, AluClass::integer, kLanesOf<difference_sum<T>>, three);
  list.add("div." + type, AluClass::special, kLanesOf<divide<T>>, two);
  list.add("rem." + type, AluClass::special, kLanesOf<remainder<T>>, two);
  list.add("min." + type, AluClass::integer, kLanesOf<least<T>>, two);
  list.add("max." + type, AluClass::integer, kLanesOf<greatest<T>>, two);
  if constexpr (std::is_signed_v<T>) {
    list.add("abs." + type, AluClass::integer, kLanesOf<absolute<T>>, one);
    list.add("neg." + type, AluClass::integer, kLanesOf<negate<T>>, one);
  }
  if constexpr (sizeof(T) >= 4) {
    list.add("bfind." + type, AluClass::integer, kLanesOf<find_bit<T>>, "u32 = " + type);
    list.add("bfind.shiftamt." + type, AluClass::integer, kLanesOf<find_bit_shift<T>>, "u32 = " + type);
    list.add("bfe." + type, AluClass::shift, kLanesOf<extract_field<T>>, one + " u32 u32");
  }
  if constexpr (sizeof(T) == 4) {
    list.add("mul24.lo." + type, AluClass::multiply, kLanesOf<multiply24_low<T>>, two);
    list.add("mul24.hi." + type, AluClass::multiply, kLanesOf<multiply24_high<T>>, two);
    list.add("mad24.lo." + type, AluClass::multiply, kLanesOf<multiply24_add_low<T>>, three);
    list.add("mad24.hi." + type, AluClass::multiply, kLanesOf<multiply24_add_high<T>>, three);
    list.add("szext.clamp." + type, AluClass::shift, kLanesOf<extend<true, T>>, one + " u32");
    list.add("szext.wrap." + type, AluClass::shift, kLanesOf<extend<false, T>>, one + " u32");
  }
}

template <class T>
void add_of_bits(FormList& list) {
  const std::string type = "b" + std::to_string(8 * sizeof(T));
  list.add("popc." + type, AluClass::integer, kLanesOf<population<T>>, "u32 = " + type);
  list.add("clz." + type, AluClass::integer, kLanesOf<leading_zeros<T>>, "u32 = " + type);
  list.add("brev." + type, AluClass::integer, kLanesOf<reverse_bits<T>>, type + " = " + type);
  list.add("bfi." + type, AluClass::shift, kLanesOf<insert_field<T>>, type + " = " + type + " " + type + " u32 u32");
}

template <class A, class B>
void add_dots(FormList& list) {
  const std::string types = std::string(kTypeName<A>) + "." + kTypeName<B>;
  const std::string sum = std::is_signed_v<A> || std::is_signed_v<B> ? "s32" : "u32";
  const std::string slots = sum + " = " + kTypeName<A> + " " + kTypeName<B> + " " + sum;
  list.add("dp4a." + types, AluClass::dot, kLanesOf<dot4<A, B>>, slots);
  list.add("dp2a.lo." + types, AluClass::dot, kLanesOf<dot2<A, B, 0>>, slots);
  list.add("dp2a.hi." + types, AluClass::dot, kLanesOf<dot2<A, B, 2>>, slots);
}

}  // namespace

void add_integer_forms(FormList& list) {
  add_of_type<std::uint16_t>(list);
  add_of_type<std::int16_t>(list);
  add_of_type<std::uint32_t>(list);
  add_of_type<std::int32_t>(list);
  add_of_type<std::uint64_t>(list);
  add_of_type<std::int64_t>(list);
  add_of_bits<std::uint32_t>(list);
  add_of_bits<std::uint64_t>(list);
  add_dots<std::uint32_t, std::uint32_t>(list);
  add_dots<std::uint32_t, std::int32_t>(list);
  add_dots<std::int32_t, std::uint32_t>(list);
  add_dots<std::int32_t, std::int32_t>(list);

  list.add("add.sat.s32", AluClass::integer, kLanesOf<add_saturated>, "s32 = s32 s32");
  list.add("sub.sat.s32", AluClass::integer, kLanesOf<subtract_saturated>, "s32 = s32 s32");
  list.add("mad.hi.sat.s32", AluClass::multiply, kLanesOf<multiply_add_high_saturated>, "s32 = s32 s32 s32");
  list.add("mad24.hi.sat.s32", AluClass::multiply, kLanesOf<multiply24_add_high_saturated>, "s32 = s32 s32 s32");
  list.add("min.relu.s32", AluClass::integer, kLanesOf<not_negative<least<std::int32_t>>>, "s32 = s32 s32");
  list.add("max.relu.s32", AluClass::integer, kLanesOf<not_negative<greatest<std::int32_t>>>, "s32 = s32 s32");
  using U = std::uint16_t;
  using S = std::int16_t;
  list.add("add.u16x2", AluClass::integer, kLanesOf<pair<U, add<U>>>, "u16x2 = u16x2 u16x2");
  list.add("add.s16x2", AluClass::integer, kLanesOf<pair<S, add<S>>>, "s16x2 = s16x2 s16x2");
  list.add("min.u16x2", AluClass::integer, kLanesOf<pair<U, least<U>>>, "u16x2 = u16x2 u16x2");
  list.add("max.u16x2", AluClass::integer, kLanesOf<pair<U, greatest<U>>>, "u16x2 = u16x2 u16x2");
  list.add("min.s16x2", AluClass::integer, kLanesOf<pair<S, least<S>>>, "s16x2 = s16x2 s16x2");
  list.add("max.s16x2", AluClass::integer, kLanesOf<pair<S, greatest<S>>>, "s16x2 = s16x2 s16x2");
  list.add("min.relu.s16x2", AluClass::integer, kLanesOf<pair<S, least_relu>>, "s16x2 = s16x2 s16x2");
  list.add("max.relu.s16x2", AluClass::integer, kLanesOf<pair<S, greatest_relu>>, "s16x2 = s16x2 s16x2");
  list.add("fns.b32", AluClass::integer, kLanesOf<find_nth_set>, "b32 = b32 b32 s32");
  list.add("bmsk.clamp.b32", AluClass::shift, kLanesOf<bit_mask<true>>, "b32 = u32 u32");
  list.add("bmsk.wrap.b32", AluClass::shift, kLanesOf<bit_mask<false>>, "b32 = u32 u32");
}

}  // namespace heddle::ptx
