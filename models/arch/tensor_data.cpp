#include "arch/tensor_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kSignF32 = 0x8000'0000;
constexpr std::uint32_t kInfinityF32 = 0x7F80'0000;
constexpr std::uint32_t kLeastNormalF32 = 0x0080'0000;
constexpr std::uint32_t kTf32Dropped = 13;  // bits of the fraction of f32

std::uint32_t flushed(std::uint32_t bits) { return (bits & ~kSignF32) < kLeastNormalF32 ? bits & kSignF32 : bits; }

// A carry goes into the exponent, up to infinity. A NaN stays as it is.
std::uint32_t tf32_of(std::uint32_t bits) {
  if ((bits & ~kSignF32) > kInfinityF32) return bits;
  const std::uint32_t half = 1U << (kTf32Dropped - 1);
  return (bits + (half - 1) + (bits >> kTf32Dropped & 1)) & ~((1U << kTf32Dropped) - 1);
}

std::uint32_t converted(TensorType type, std::uint32_t bits) {
  if (type == TensorType::f32_flush) return flushed(bits);
  return tf32_of(type == TensorType::tf32_flush ? flushed(bits) : bits);
}

bool is_half(ValueType type) { return type == ValueType::f16 || type == ValueType::bf16; }

// The elements that take part.
struct Elements {
  const ByteMask& mask;
  std::uint32_t bytes;
  const std::uint8_t* from;
  std::uint8_t* to;

  // to[i] = operation(to[i], from[i])
  template <class T, class Operation>
  void each(Operation operation) const {
    const ByteMask whole = ByteMask::first(bytes);
    const bool all = (whole.low & ~mask.low) == 0 && (whole.high & ~mask.high) == 0;
    for (std::uint32_t i = 0; i < bytes; i += sizeof(T)) {
      if (!all && !mask.test(i)) continue;
      T old{};
      T operand{};
      std::memcpy(&old, to + i, sizeof(T));
      std::memcpy(&operand, from + i, sizeof(T));
      const T result = operation(old, operand);
      std::memcpy(to + i, &result, sizeof(T));
    }
  }
};

// As atomic_result() has them: a call for each element would cost more than all else that is done to a line.
template <class T>
void reduce_integers(AtomicKind kind, const Elements& elements) {
  using Bits = std::make_unsigned_t<T>;  // signed sums would overflow
  switch (kind) {
    case AtomicKind::add:
      return elements.each<Bits>([](Bits d, Bits s) { return static_cast<Bits>(d + s); });
    case AtomicKind::min:
      return elements.each<T>([](T d, T s) { return std::min(d, s); });
    case AtomicKind::max:
      return elements.each<T>([](T d, T s) { return std::max(d, s); });
    case AtomicKind::increment:
      return elements.each<T>([](T d, T s) { return d >= s ? T{0} : static_cast<T>(d + 1); });
    case AtomicKind::decrement:
      return elements.each<T>([](T d, T s) { return d == 0 || d > s ? s : static_cast<T>(d - 1); });
    case AtomicKind::bit_and:
      return elements.each<Bits>([](Bits d, Bits s) { return static_cast<Bits>(d & s); });
    case AtomicKind::bit_or:
      return elements.each<Bits>([](Bits d, Bits s) { return static_cast<Bits>(d | s); });
    default:
      return elements.each<Bits>([](Bits d, Bits s) { return static_cast<Bits>(d ^ s); });
  }
}

std::uint16_t f16_sum(std::uint16_t d, std::uint16_t s) { return f16_of(float_of_f16(d) + float_of_f16(s)); }
std::uint16_t bf16_sum(std::uint16_t d, std::uint16_t s) { return bf16_of(float_of_bf16(d) + float_of_bf16(s)); }

void reduce_halves(AtomicKind kind, ValueType type, const Elements& elements) {
  if (kind == AtomicKind::add) {
    return type == ValueType::f16 ? elements.each<std::uint16_t>(f16_sum) : elements.each<std::uint16_t>(bf16_sum);
  }
  const ValueType pair = type == ValueType::f16 ? ValueType::f16x2 : ValueType::bf16x2;
  elements.each<std::uint16_t>(
      [=](std::uint16_t d, std::uint16_t s) { return static_cast<std::uint16_t>(atomic_result(kind, pair, d, s, 0)); });
}

// Their only reduction. As PTX has it for cp.reduce.async.bulk: subnormal numbers are flushed, operands and sums
// (TMA-07).
void add_floats(const Elements& elements) {
  elements.each<std::uint32_t>([](std::uint32_t d, std::uint32_t s) {
    const float sum = float_of(flushed(d)) + float_of(flushed(s));
    return std::isnan(sum) ? kNanF32 : flushed(bits_of(sum));
  });
}

void add_doubles(const Elements& elements) {
  elements.each<double>([](double d, double s) {
    double sum = d + s;
    if (std::isnan(sum)) std::memcpy(&sum, &kNanF64, sizeof sum);
    return sum;
  });
}

using Pattern = std::array<std::uint8_t, kLineBytes>;

Pattern repeated(std::uint64_t value, std::uint32_t width) {
  Pattern pattern{};
  for (std::uint32_t i = 0; i < kLineBytes; ++i) pattern[i] = static_cast<std::uint8_t>(value >> (8 * (i % width)));
  return pattern;
}

// A line of the fill.
const Pattern& pattern_of(TensorType type, Fill fill) {
  static const Pattern kZeros{};
  static const Pattern kHalves = repeated(kNanHalf, 2);
  static const Pattern kWords = repeated(kNanF32, 4);
  static const Pattern kDoubles = repeated(kNanF64, 8);
  if (fill_bits(type, fill) == 0) return kZeros;
  const std::uint32_t width = bytes_of(type);
  return width == 2 ? kHalves : width == 4 ? kWords : kDoubles;
}

// The runs of ones of 64 bits.
void copy_runs(std::uint64_t ones, const std::uint8_t* from, std::uint8_t* to) {
  while (ones != 0) {
    const std::uint32_t first = bits::lowest(ones);
    const std::uint64_t zeros = ~ones >> first;
    const std::uint32_t run = zeros == 0 ? 64 - first : bits::lowest(zeros);
    std::memcpy(to + first, from + first, run);
    if (first + run == 64) return;
    ones &= ~std::uint64_t{0} << (first + run);
  }
}

// `value` without its `bits` lowest bits, rounded to nearest even. 1 <= bits <= 31.
std::uint32_t shift_round(std::uint32_t value, std::uint32_t bits) {
  const std::uint32_t half = 1U << (bits - 1);
  return (value + (half - 1) + (value >> bits & 1)) >> bits;
}

}  // namespace

std::uint64_t fill_bits(TensorType type, Fill fill) {
  if (fill == Fill::zero) return 0;
  HEDDLE_CHECK(is_float(type), "only floating-point types have a NaN");
  switch (bytes_of(type)) {
    case 2:
      return kNanHalf;
    case 4:
      return kNanF32;
    default:
      return kNanF64;
  }
}

void fill_outside(TensorType type, Fill fill, const ByteMask& inside, std::uint32_t bytes, std::uint8_t* data) {
  const Pattern& pattern = pattern_of(type, fill);
  const ByteMask whole = ByteMask::first(bytes);
  copy_runs(whole.low & ~inside.low, pattern.data(), data);
  copy_runs(whole.high & ~inside.high, pattern.data() + 64, data + 64);
}

bool converts(TensorType type) {
  return type == TensorType::f32_flush || type == TensorType::tf32 || type == TensorType::tf32_flush;
}

void convert(TensorType type, std::uint32_t bytes, std::uint8_t* data) {
  if (!converts(type)) return;
  HEDDLE_CHECK(bytes % 4 == 0, "only whole elements can be converted");
  for (std::uint32_t i = 0; i < bytes; i += 4) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, data + i, sizeof bits);
    bits = converted(type, bits);
    std::memcpy(data + i, &bits, sizeof bits);
  }
}

bool reduction_exists(AtomicKind kind, ValueType type, bool in_shared) {
  const bool is_32 = type == ValueType::u32 || type == ValueType::s32;
  const bool is_64 = type == ValueType::u64 || type == ValueType::s64;
  switch (kind) {
    case AtomicKind::add:
      if (is_32 || type == ValueType::u64) return true;
      return !in_shared && (is_half(type) || type == ValueType::f32 || type == ValueType::f64);
    case AtomicKind::min:
    case AtomicKind::max:
      return is_32 || (!in_shared && (is_64 || is_half(type)));
    case AtomicKind::increment:
    case AtomicKind::decrement:
      return type == ValueType::u32;
    case AtomicKind::bit_and:
    case AtomicKind::bit_or:
    case AtomicKind::bit_xor:
      return is_32 || (!in_shared && is_64);
    default:  // these need an answer
      return false;
  }
}

void reduce(AtomicKind kind, ValueType type, const ByteMask& mask, std::uint32_t bytes, const std::uint8_t* from,
            std::uint8_t* to) {
  HEDDLE_CHECK(reduction_exists(kind, type, false), "no such reduction");
  HEDDLE_CHECK(bytes % bytes_of(type) == 0, "only whole elements can be reduced");
  const Elements elements{mask, bytes, from, to};
  switch (type) {
    case ValueType::u32:
      return reduce_integers<std::uint32_t>(kind, elements);
    case ValueType::s32:
      return reduce_integers<std::int32_t>(kind, elements);
    case ValueType::u64:
      return reduce_integers<std::uint64_t>(kind, elements);
    case ValueType::s64:
      return reduce_integers<std::int64_t>(kind, elements);
    case ValueType::f32:
      return add_floats(elements);
    case ValueType::f64:
      return add_doubles(elements);
    default:
      return reduce_halves(kind, type, elements);
  }
}

std::uint16_t f16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFF'FFFFU;
  if (magnitude > kInfinityF32) return kNanHalf;
  const std::uint32_t exponent = magnitude >> 23;
  std::uint32_t result = 0;
  if (exponent >= 127 + 16) {
    result = 0x7C00;
  } else if (exponent > 127 - 15) {
    result = shift_round(magnitude - ((127U - 15U) << 23), 13);  // a carry goes into the exponent, up to infinity
  } else if (exponent >= 127 - 25) {
    result = shift_round((magnitude & 0x007F'FFFFU) | 0x0080'0000U, 13 + (127 - 14) - exponent);
  }
  return static_cast<std::uint16_t>(sign | result);
}

std::uint16_t bf16_of(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFF'FFFFU) > kInfinityF32) return kNanHalf;
  const std::uint32_t magnitude = shift_round(bits & 0x7FFF'FFFFU, 16);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | magnitude);
}

}  // namespace heddle::arch
