#include "arch/memory_op.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "arch/tensor_data.h"
#include "common/error.h"

namespace heddle::arch {
namespace {

template <class To, class From>
To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits of another width");
  To to{};
  std::memcpy(&to, &from, sizeof to);
  return to;
}

bool is_integer(ValueType type) {
  return type == ValueType::u32 || type == ValueType::s32 || type == ValueType::u64 || type == ValueType::s64;
}

template <class T>
T integer_result(AtomicKind kind, T old, T operand, T compare) {
  using Bits = std::make_unsigned_t<T>;  // signed sums would overflow
  switch (kind) {
    case AtomicKind::add:
      return static_cast<T>(static_cast<Bits>(old) + static_cast<Bits>(operand));
    case AtomicKind::min:
      return operand < old ? operand : old;
    case AtomicKind::max:
      return operand > old ? operand : old;
    case AtomicKind::bit_and:
      return static_cast<T>(static_cast<Bits>(old) & static_cast<Bits>(operand));
    case AtomicKind::bit_or:
      return static_cast<T>(static_cast<Bits>(old) | static_cast<Bits>(operand));
    case AtomicKind::bit_xor:
      return static_cast<T>(static_cast<Bits>(old) ^ static_cast<Bits>(operand));
    case AtomicKind::exchange:
      return operand;
    case AtomicKind::compare_exchange:
      return old == compare ? operand : old;
    case AtomicKind::increment:
      return old >= operand ? T{0} : static_cast<T>(old + 1);
    case AtomicKind::decrement:
      return old == 0 || old > operand ? operand : static_cast<T>(old - 1);
  }
  check_failed("kind", __FILE__, __LINE__, "no such atomic");
}

template <class T>
std::uint64_t integer_bits(AtomicKind kind, std::uint64_t old, std::uint64_t operand, std::uint64_t compare) {
  const T result = integer_result<T>(kind, static_cast<T>(old), static_cast<T>(operand), static_cast<T>(compare));
  return static_cast<std::make_unsigned_t<T>>(result);
}

std::uint32_t f32_sum(std::uint32_t a, std::uint32_t b) {
  const float sum = float_of(a) + float_of(b);
  return std::isnan(sum) ? kNanF32 : bits_of(sum);
}

std::uint64_t f64_sum(std::uint64_t a, std::uint64_t b) {
  const double sum = same_bits<double>(a) + same_bits<double>(b);
  return std::isnan(sum) ? kNanF64 : same_bits<std::uint64_t>(sum);
}

// One half of a pair. The sum in f32 and its rounding give what one rounding would: f32 has more than twice the digits.
std::uint16_t half_result(AtomicKind kind, bool bf16, std::uint16_t old, std::uint16_t operand) {
  const float x = bf16 ? float_of_bf16(old) : float_of_f16(old);
  const float y = bf16 ? float_of_bf16(operand) : float_of_f16(operand);
  if (kind == AtomicKind::add) return bf16 ? bf16_of(x + y) : f16_of(x + y);
  // IEEE 754-2019 minimumNumber and maximumNumber: a number wins against a NaN, and -0 is less than +0.
  if (std::isnan(x)) return std::isnan(y) ? kNanHalf : operand;
  if (std::isnan(y)) return old;
  const bool operand_less = x == y ? std::signbit(y) && !std::signbit(x) : y < x;
  return operand_less == (kind == AtomicKind::min) ? operand : old;
}

std::uint64_t pair_result(AtomicKind kind, bool bf16, std::uint64_t old, std::uint64_t operand) {
  const auto half = [=](unsigned shift) -> std::uint64_t {
    return half_result(kind, bf16, static_cast<std::uint16_t>(old >> shift),
                       static_cast<std::uint16_t>(operand >> shift));
  };
  return half(16) << 16 | half(0);
}

}  // namespace

std::uint32_t bytes_of(ValueType type) {
  constexpr std::array<std::uint8_t, 14> kBytes{1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

const char* type_name(ValueType type) {
  constexpr std::array<const char*, 14> kNames{"u8",  "s8",  "u16",   "s16",    "f16", "bf16", "u32",
                                               "s32", "f32", "f16x2", "bf16x2", "u64", "s64",  "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

const char* atomic_name(AtomicKind kind) {
  constexpr std::array<const char*, 10> kNames{
      "add", "min", "max", "and", "or", "xor", "exchange", "compare_exchange", "increment", "decrement"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool atomic_exists(AtomicKind kind, ValueType type) {
  if (kind == AtomicKind::increment || kind == AtomicKind::decrement) return type == ValueType::u32;
  if (is_integer(type)) return true;
  if (type == ValueType::f32 || type == ValueType::f64) {
    return kind == AtomicKind::add || kind == AtomicKind::exchange || kind == AtomicKind::compare_exchange;
  }
  if (type == ValueType::f16x2 || type == ValueType::bf16x2) {
    return kind == AtomicKind::add || kind == AtomicKind::min || kind == AtomicKind::max;
  }
  return false;
}

std::uint64_t atomic_result(AtomicKind kind, ValueType type, std::uint64_t old, std::uint64_t operand,
                            std::uint64_t compare) {
  HEDDLE_CHECK(atomic_exists(kind, type), "no such atomic");
  switch (type) {
    case ValueType::u32:
      return integer_bits<std::uint32_t>(kind, old, operand, compare);
    case ValueType::s32:
      return integer_bits<std::int32_t>(kind, old, operand, compare);
    case ValueType::u64:
      return integer_bits<std::uint64_t>(kind, old, operand, compare);
    case ValueType::s64:
      return integer_bits<std::int64_t>(kind, old, operand, compare);
    case ValueType::f16x2:
      return pair_result(kind, false, old, operand);
    case ValueType::bf16x2:
      return pair_result(kind, true, old, operand);
    case ValueType::f32:  // exchanges are of bits
      if (kind != AtomicKind::add) return integer_bits<std::uint32_t>(kind, old, operand, compare);
      return f32_sum(static_cast<std::uint32_t>(old), static_cast<std::uint32_t>(operand));
    default:  // f64
      return kind == AtomicKind::add ? f64_sum(old, operand) : integer_bits<std::uint64_t>(kind, old, operand, compare);
  }
}

const char* scope_name(Scope scope) {
  constexpr std::array<const char*, 4> kNames{"cta", "cluster", "gpu", "system"};
  return kNames[static_cast<std::size_t>(scope)];
}

const char* order_name(Order order) {
  constexpr std::array<const char*, 5> kNames{"weak", "relaxed", "acquire", "release", "acquire_release"};
  return kNames[static_cast<std::size_t>(order)];
}

}  // namespace heddle::arch
