// Reductions of boxes against arithmetic of 128 bits, of double precision and of Eigen.
#include <algorithm>
#include <cmath>
#include <Eigen/Core>
#include <string>

#include <catch2/catch.hpp>

#include "arch/line_bytes.h"
#include "arch/tensor_data.h"
#include "common/error.h"

namespace arch_tensor_reduce_test {

using namespace heddle::arch;
using heddle::test::bits_of_double;
using heddle::test::Bytes;
using heddle::test::double_of;
using heddle::test::draw_mask;
using heddle::test::Random;
using heddle::test::set_word;
using heddle::test::word_at;

namespace {

__extension__ using Wide = __int128;

constexpr std::uint32_t kValueTypes = 14;
constexpr std::uint32_t kAtomicKinds = 10;

struct Integer {
  unsigned width;
  bool is_signed;

  Wide value(std::uint64_t pattern) const {
    const Wide modulus = Wide{1} << width;
    const Wide low = static_cast<Wide>(pattern) & (modulus - 1);
    return is_signed && low >= modulus / 2 ? low - modulus : low;
  }
  std::uint64_t pattern(Wide number) const { return static_cast<std::uint64_t>(number & ((Wide{1} << width) - 1)); }
};

std::uint64_t integer_oracle(AtomicKind kind, const Integer& type, std::uint64_t d, std::uint64_t s) {
  const Wide a = type.value(d);
  const Wide b = type.value(s);
  switch (kind) {
    case AtomicKind::add:
      return type.pattern(a + b);
    case AtomicKind::min:
      return type.pattern(std::min(a, b));
    case AtomicKind::max:
      return type.pattern(std::max(a, b));
    case AtomicKind::increment:
      return a >= b ? 0 : d + 1;
    case AtomicKind::decrement:
      return a == 0 || a > b ? s : d - 1;
    case AtomicKind::bit_and:
      return d & s;
    case AtomicKind::bit_or:
      return d | s;
    default:
      return d ^ s;
  }
}

template <class Half>
std::uint64_t half_oracle(AtomicKind kind, std::uint64_t d, std::uint64_t s) {
  const Half a = Eigen::numext::bit_cast<Half>(static_cast<std::uint16_t>(d));
  const Half b = Eigen::numext::bit_cast<Half>(static_cast<std::uint16_t>(s));
  const bool no_a = (Eigen::numext::isnan)(a);
  const bool no_b = (Eigen::numext::isnan)(b);
  if (kind == AtomicKind::add) {
    const Half sum = a + b;
    return (Eigen::numext::isnan)(sum) ? 0x7FFF : Eigen::numext::bit_cast<std::uint16_t>(sum);
  }
  if (no_a && no_b) return 0x7FFF;
  if (no_a || no_b) return no_a ? s : d;
  const bool zeros = a == Half(0) && b == Half(0);
  if (kind == AtomicKind::min) return zeros ? d | s : b < a ? s : d;
  return zeros ? d & s : b > a ? s : d;
}

double flushed(std::uint64_t bits) {
  const float value = float_of(static_cast<std::uint32_t>(bits));
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0, static_cast<double>(value)) : value;
}

// f32: the sum in double precision, rounded once more, is the sum rounded once; subnormal operands and sums are zeros
// of their sign. f64: by the fused operation.
std::uint64_t float_oracle(ValueType type, std::uint64_t d, std::uint64_t s) {
  if (type == ValueType::f64) {
    const double sum = std::fma(1.0, double_of(d), double_of(s));
    return std::isnan(sum) ? 0x7FFF'FFFF'FFFF'FFFF : bits_of_double(sum);
  }
  const double sum = flushed(d) + flushed(s);
  if (std::isnan(sum)) return 0x7FFF'FFFF;
  const std::uint32_t bits = bits_of(static_cast<float>(sum));
  return std::fpclassify(float_of(bits)) == FP_SUBNORMAL ? bits & 0x8000'0000 : bits;
}

std::uint64_t oracle(AtomicKind kind, ValueType type, std::uint64_t d, std::uint64_t s) {
  switch (type) {
    case ValueType::u32:
      return integer_oracle(kind, {32, false}, d, s);
    case ValueType::s32:
      return integer_oracle(kind, {32, true}, d, s);
    case ValueType::u64:
      return integer_oracle(kind, {64, false}, d, s);
    case ValueType::s64:
      return integer_oracle(kind, {64, true}, d, s);
    case ValueType::f16:
      return half_oracle<Eigen::half>(kind, d, s);
    case ValueType::bf16:
      return half_oracle<Eigen::bfloat16>(kind, d, s);
    default:
      return float_oracle(type, d, s);
  }
}

// TMA-07 as it is written.
bool in_list(AtomicKind kind, const std::string& type, bool in_shared) {
  const auto among = [&type](const std::string& list) {
    return (" " + list + " ").find(" " + type + " ") != std::string::npos;
  };
  switch (kind) {
    case AtomicKind::add:
      return among(in_shared ? "u32 s32 u64" : "u32 s32 u64 f16 bf16 f32 f64");
    case AtomicKind::min:
    case AtomicKind::max:
      return among(in_shared ? "u32 s32" : "u32 s32 u64 s64 f16 bf16");
    case AtomicKind::increment:
    case AtomicKind::decrement:
      return among("u32");
    case AtomicKind::bit_and:
    case AtomicKind::bit_or:
    case AtomicKind::bit_xor:
      return among(in_shared ? "u32 s32" : "u32 s32 u64 s64");
    default:
      return false;
  }
}

// Operands that meet: equal, close, opposite, special.
std::uint64_t draw_like(Random& dice, std::uint64_t other) {
  switch (dice.between(0, 5)) {
    case 0:
      return other;
    case 1:
      return other + dice.between64(0, 2) - 1;
    case 2:
      return other ^ std::uint64_t{1} << dice.between(0, 63);
    case 3:
      return dice.between64(0, 2) - 1;
    case 4:
      return 0x8000'0000'8000'8000U ^ other;
    default:
      return dice.next();
  }
}

void compare_reduction(Random& dice, AtomicKind kind, ValueType type) {
  const std::uint32_t width = bytes_of(type);
  const std::uint32_t bytes = width * dice.between(0, 128 / width);
  const ByteMask mask = draw_mask(dice);
  Bytes from(128);
  Bytes to(128);
  for (std::size_t i = 0; i < 128; i += width) {
    const std::uint64_t d = dice.one_in(4) ? draw_like(dice, 0) : dice.next();
    set_word(to, i, width, d);
    set_word(from, i, width, draw_like(dice, d));
  }
  Bytes expected = to;
  for (std::uint32_t i = 0; i < bytes; i += width) {
    if (!mask.test(i)) continue;
    set_word(expected, i, width, oracle(kind, type, word_at(to, i, width), word_at(from, i, width)));
  }
  Bytes result = to;
  reduce(kind, type, mask, bytes, from.data(), result.data());
  for (std::size_t i = 0; i < 128; i += width) {
    const std::uint64_t was = word_at(to, i, width);
    const std::uint64_t operand = word_at(from, i, width);
    const std::uint64_t is = word_at(result, i, width);
    const std::uint64_t should = word_at(expected, i, width);
    if (is == should) continue;
    CAPTURE(atomic_name(kind), type_name(type), bytes, i, was, operand, is, should);
    FAIL("wrong");
  }
}

}  // namespace

TEST_CASE("the reductions of each type are those of the list", "[arch][TMA-07]") {
  std::uint32_t in_memory = 0;
  std::uint32_t in_shared = 0;
  for (std::uint32_t k = 0; k < kAtomicKinds; ++k) {
    for (std::uint32_t t = 0; t < kValueTypes; ++t) {
      const auto kind = static_cast<AtomicKind>(k);
      const auto type = static_cast<ValueType>(t);
      CAPTURE(atomic_name(kind), type_name(type));
      CHECK(reduction_exists(kind, type, false) == in_list(kind, type_name(type), false));
      CHECK(reduction_exists(kind, type, true) == in_list(kind, type_name(type), true));
      in_memory += reduction_exists(kind, type, false) ? 1 : 0;
      in_shared += reduction_exists(kind, type, true) ? 1 : 0;
    }
  }
  CHECK(in_memory == 7 + 2 * 6 + 2 * 1 + 3 * 4);
  CHECK(in_shared == 3 + 2 * 2 + 2 * 1 + 3 * 2);
}

TEST_CASE("reductions agree with arithmetic element by element, under any mask", "[arch][TMA-07]") {
  HEDDLE_RANDOM(dice);
  std::uint32_t pairs = 0;
  for (std::uint32_t k = 0; k < kAtomicKinds; ++k) {
    for (std::uint32_t t = 0; t < kValueTypes; ++t) {
      if (!reduction_exists(static_cast<AtomicKind>(k), static_cast<ValueType>(t), false)) continue;
      ++pairs;
      for (int round = 0; round < 1'500; ++round) {
        compare_reduction(dice, static_cast<AtomicKind>(k), static_cast<ValueType>(t));
      }
    }
  }
  CHECK(pairs == 33);
}

TEST_CASE("reductions of halves write what their bits say", "[arch][TMA-07]") {
  const auto one = [](AtomicKind kind, ValueType type, std::uint16_t d, std::uint16_t s) {
    Bytes to{static_cast<std::uint8_t>(d), static_cast<std::uint8_t>(d >> 8)};
    const Bytes from{static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(s >> 8)};
    reduce(kind, type, ByteMask::first(2), 2, from.data(), to.data());
    return word_at(to, 0, 2);
  };
  CHECK(one(AtomicKind::add, ValueType::f16, 0x3C00, 0x3C00) == 0x4000);
  CHECK(one(AtomicKind::add, ValueType::f16, 0x7BFF, 0x7BFF) == 0x7C00);  // too large
  CHECK(one(AtomicKind::add, ValueType::f16, 0x0001, 0x0001) == 0x0002);  // subnormal numbers stay
  CHECK(one(AtomicKind::add, ValueType::f16, 0x7C00, 0xFC00) == 0x7FFF);
  CHECK(one(AtomicKind::add, ValueType::bf16, 0x3F80, 0x3F80) == 0x4000);
  CHECK(one(AtomicKind::min, ValueType::f16, 0x7E00, 0x3C00) == 0x3C00);  // a number wins
  CHECK(one(AtomicKind::max, ValueType::bf16, 0x8000, 0x0000) == 0x0000);
  CHECK(one(AtomicKind::min, ValueType::bf16, 0x0000, 0x8000) == 0x8000);
}

TEST_CASE("inc and dec wrap at their operand", "[arch][TMA-07]") {
  const auto one = [](AtomicKind kind, std::uint32_t d, std::uint32_t s) {
    Bytes to(4);
    Bytes from(4);
    set_word(to, 0, 4, d);
    set_word(from, 0, 4, s);
    reduce(kind, ValueType::u32, ByteMask::first(4), 4, from.data(), to.data());
    return word_at(to, 0, 4);
  };
  CHECK(one(AtomicKind::increment, 4, 5) == 5);
  CHECK(one(AtomicKind::increment, 5, 5) == 0);
  CHECK(one(AtomicKind::increment, 6, 5) == 0);
  CHECK(one(AtomicKind::increment, 0, 0) == 0);
  CHECK(one(AtomicKind::increment, 0xFFFF'FFFE, 0xFFFF'FFFF) == 0xFFFF'FFFF);
  CHECK(one(AtomicKind::decrement, 5, 5) == 4);
  CHECK(one(AtomicKind::decrement, 6, 5) == 5);
  CHECK(one(AtomicKind::decrement, 0, 5) == 5);
  CHECK(one(AtomicKind::decrement, 1, 0) == 0);
}

TEST_CASE("an element takes part by its first byte, and others stay as they are", "[arch][TMA-07][TMA-13]") {
  Bytes to(16, 1);
  const Bytes from(16, 1);
  ByteMask mask = ByteMask::range(4, 5);
  mask |= ByteMask::range(9, 12);
  reduce(AtomicKind::add, ValueType::u32, mask, 16, from.data(), to.data());
  CHECK(to == Bytes{1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1});
  // The second half of a pair alone, the first alone, and a last one that has no partner.
  Bytes halves(10, 0);
  const Bytes tiny{1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  mask = ByteMask::range(2, 4);
  mask |= ByteMask::range(4, 6);
  mask |= ByteMask::range(8, 10);
  reduce(AtomicKind::add, ValueType::f16, mask, 10, tiny.data(), halves.data());
  CHECK(halves == Bytes{0, 0, 1, 0, 1, 0, 0, 0, 1, 0});
}

TEST_CASE("reductions that do not exist, and parts of elements, are our own mistakes", "[arch][TMA-07]") {
  Bytes data(16);
  const auto attempt = [&](AtomicKind kind, ValueType type, std::uint32_t bytes) {
    reduce(kind, type, ByteMask::first(16), bytes, data.data(), data.data());
  };
  CHECK_THROWS_AS(attempt(AtomicKind::add, ValueType::s64, 16), heddle::CheckFailed);
  CHECK_THROWS_AS(attempt(AtomicKind::exchange, ValueType::u32, 16), heddle::CheckFailed);
  CHECK_THROWS_AS(attempt(AtomicKind::min, ValueType::f32, 16), heddle::CheckFailed);
  CHECK_THROWS_AS(attempt(AtomicKind::add, ValueType::f16x2, 16), heddle::CheckFailed);
  CHECK_THROWS_AS(attempt(AtomicKind::add, ValueType::u64, 12), heddle::CheckFailed);
  CHECK_NOTHROW(attempt(AtomicKind::add, ValueType::u64, 0));
}

}  // namespace arch_tensor_reduce_test
