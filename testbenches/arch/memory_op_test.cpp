// Read-modify-write operations against wider arithmetic, and against Eigen's half-precision types.
#include "arch/memory_op.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <Eigen/Core>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "common/error.h"
#include "support/random.h"

namespace arch_memory_op_test {

using namespace heddle::arch;

namespace {

__extension__ using Wide = __int128;

constexpr std::uint32_t kKinds = 10;
constexpr std::uint32_t kTypes = 14;

std::uint64_t bits(double value) {
  std::uint64_t result = 0;
  std::memcpy(&result, &value, sizeof result);
  return result;
}
std::uint64_t bits(float value) { return bits_of(value); }

struct Integer {
  ValueType type;
  unsigned width;
  bool is_signed;

  Wide value(std::uint64_t pattern) const {
    const Wide modulus = Wide{1} << width;
    const Wide low = static_cast<Wide>(pattern) & (modulus - 1);
    return is_signed && low >= modulus / 2 ? low - modulus : low;
  }
  std::uint64_t pattern(Wide number) const { return static_cast<std::uint64_t>(number & ((Wide{1} << width) - 1)); }
};

constexpr std::array<Integer, 4> kIntegers{
    {{ValueType::u32, 32, false}, {ValueType::s32, 32, true}, {ValueType::u64, 64, false}, {ValueType::s64, 64, true}}};

std::uint64_t expected(const Integer& type, AtomicKind kind, std::uint64_t old, std::uint64_t operand,
                       std::uint64_t compare) {
  const Wide a = type.value(old);
  const Wide b = type.value(operand);
  switch (kind) {
    case AtomicKind::add:
      return type.pattern(a + b);
    case AtomicKind::min:
      return type.pattern(a < b ? a : b);
    case AtomicKind::max:
      return type.pattern(a > b ? a : b);
    case AtomicKind::bit_and:
      return old & operand;
    case AtomicKind::bit_or:
      return old | operand;
    case AtomicKind::bit_xor:
      return old ^ operand;
    case AtomicKind::exchange:
      return operand;
    case AtomicKind::compare_exchange:
      return old == compare ? operand : old;
    case AtomicKind::increment:
      return a >= b ? 0 : type.pattern(a + 1);
    case AtomicKind::decrement:
      return a == 0 || a > b ? operand : type.pattern(a - 1);
  }
  return 0;
}

// Often at the ends of the range, often equal to another one.
std::uint64_t draw(heddle::test::Random& dice, unsigned width, std::uint64_t other) {
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  const std::uint64_t top = std::uint64_t{1} << (width - 1);
  switch (dice.between(0, 4)) {
    case 0:
      return other;
    case 1:
      return dice.between(0, 2);
    case 2:
      return (top + dice.between(0, 2) - 1) & mask;
    case 3:
      return (mask - dice.between(0, 2)) & mask;
    default:
      return dice.next() & mask;
  }
}

std::uint64_t pair(std::uint16_t high, std::uint16_t low) { return std::uint64_t{high} << 16 | low; }

std::uint64_t atomic(AtomicKind kind, ValueType type, std::uint64_t old, std::uint64_t operand) {
  return atomic_result(kind, type, old, operand, 0);
}

std::uint16_t eigen_f16_sum(std::uint16_t a, std::uint16_t b) {
  const Eigen::half sum = Eigen::numext::bit_cast<Eigen::half>(a) + Eigen::numext::bit_cast<Eigen::half>(b);
  return Eigen::numext::isnan(sum) ? kNanHalf : sum.x;
}
std::uint16_t eigen_bf16_sum(std::uint16_t a, std::uint16_t b) {
  const Eigen::bfloat16 sum = Eigen::numext::bit_cast<Eigen::bfloat16>(a) + Eigen::numext::bit_cast<Eigen::bfloat16>(b);
  return Eigen::numext::isnan(sum) ? kNanHalf : sum.value;
}

// No other f16 is nearer to the sum, which is exact in f64, and a tie went to the even one.
bool nearest_f16(std::uint16_t a, std::uint16_t b, std::uint16_t result) {
  const double exact = double{float_of_f16(a)} + double{float_of_f16(b)};
  const auto distance = [exact](std::uint16_t candidate) {
    const double value = (candidate & 0x7FFF) == 0x7C00 ? std::copysign(65'536.0, float_of_f16(candidate))
                                                        : double{float_of_f16(candidate)};
    return std::fabs(value - exact);
  };
  for (const int step : {-1, 1}) {
    const int magnitude = (result & 0x7FFF) + step;
    if (magnitude < 0 || magnitude > 0x7C00) continue;
    const auto other = static_cast<std::uint16_t>((result & 0x8000) | magnitude);
    if (distance(other) < distance(result)) return false;
    if (distance(other) == distance(result) && result % 2 != 0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the atomics that exist are those of the table", "[arch][MEM-01]") {
  const std::string all = "1111111100";
  for (std::uint32_t t = 0; t < kTypes; ++t) {
    const auto type = static_cast<ValueType>(t);
    const std::string name = type_name(type);
    std::string row = "0000000000";
    if (name == "u32") row = "1111111111";
    if (name == "s32" || name == "u64" || name == "s64") row = all;
    if (name == "f32" || name == "f64") row = "1000001100";
    if (name == "f16x2" || name == "bf16x2") row = "1110000000";
    for (std::uint32_t k = 0; k < kKinds; ++k) {
      CAPTURE(name, atomic_name(static_cast<AtomicKind>(k)));
      CHECK(atomic_exists(static_cast<AtomicKind>(k), type) == (row[k] == '1'));
      if (row[k] == '0') CHECK_THROWS_AS(atomic_result(static_cast<AtomicKind>(k), type, 0, 0, 0), heddle::CheckFailed);
    }
  }
}

TEST_CASE("names and sizes of types, kinds, scopes and orders", "[arch]") {
  std::string types;
  std::string sizes;
  for (std::uint32_t t = 0; t < kTypes; ++t) {
    types += type_name(static_cast<ValueType>(t)) + std::string(" ");
    sizes += std::to_string(bytes_of(static_cast<ValueType>(t)));
  }
  CHECK(types == "u8 s8 u16 s16 f16 bf16 u32 s32 f32 f16x2 bf16x2 u64 s64 f64 ");
  CHECK(sizes == "11222244444888");
  CHECK(atomic_name(AtomicKind::compare_exchange) == std::string("compare_exchange"));
  CHECK(atomic_name(AtomicKind::decrement) == std::string("decrement"));
  CHECK(scope_name(Scope::system) == std::string("system"));
  CHECK(order_name(Order::acquire_release) == std::string("acquire_release"));
}

TEST_CASE("integer atomics agree with arithmetic of 128 bits", "[arch][MEM-01]") {
  HEDDLE_RANDOM(dice);
  for (const Integer& type : kIntegers) {
    for (std::uint32_t k = 0; k < kKinds; ++k) {
      const auto kind = static_cast<AtomicKind>(k);
      if (!atomic_exists(kind, type.type)) continue;
      for (int round = 0; round < 2'000; ++round) {
        const std::uint64_t old = draw(dice, type.width, 0);
        const std::uint64_t operand = draw(dice, type.width, old);
        const std::uint64_t compare = draw(dice, type.width, old);
        const std::uint64_t result = atomic_result(kind, type.type, old, operand, compare);
        if (result == expected(type, kind, old, operand, compare)) continue;
        CAPTURE(type_name(type.type), atomic_name(kind), old, operand, compare, result);
        FAIL("wrong");
      }
    }
  }
}

TEST_CASE("float additions are IEEE 754's, with one NaN", "[arch][MEM-01]") {
  const auto f32 = [](float a, float b) { return atomic(AtomicKind::add, ValueType::f32, bits(a), bits(b)); };
  const auto f64 = [](double a, double b) { return atomic(AtomicKind::add, ValueType::f64, bits(a), bits(b)); };
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(f32(1.0F, 0x1p-24F) == bits(1.0F));  // tie to even
  CHECK(f32(1.0F, 0x1.8p-24F) == bits(1.0F + 0x1p-23F));
  CHECK(f32(tiny, tiny) == bits(2 * tiny));
  CHECK(f32(-0.0F, -0.0F) == bits(-0.0F));
  CHECK(f32(1.0F, -1.0F) == bits(0.0F));
  CHECK(f32(3e38F, 3e38F) == bits(infinity));
  CHECK(f32(infinity, -infinity) == kNanF32);
  CHECK(f32(-std::numeric_limits<float>::quiet_NaN(), 1.0F) == kNanF32);
  CHECK(f64(0.1, 0.2) == bits(0.30000000000000004));
  CHECK(f64(std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()) == kNanF64);
  // Exchanges are of bits: -0 is not 0, and a NaN equals itself.
  CHECK(atomic_result(AtomicKind::compare_exchange, ValueType::f32, bits(-0.0F), 7, bits(0.0F)) == bits(-0.0F));
  CHECK(atomic_result(AtomicKind::compare_exchange, ValueType::f32, 0x7FC0'0001, 7, 0x7FC0'0001) == 7);
  CHECK(atomic(AtomicKind::exchange, ValueType::f64, 1, 0x7FF0'0000'0000'0001) == 0x7FF0'0000'0000'0001);
}

TEST_CASE("pairs of halves add as Eigen's do, each half by itself", "[arch][MEM-01]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 200'000; ++round) {
    const auto a = static_cast<std::uint32_t>(dice.next());
    // Often of a like size, so that digits meet.
    const auto b = dice.one_in(2) ? static_cast<std::uint32_t>(dice.next())
                                  : (a ^ 0x8000'8000U) + dice.between(0, 0x0FFF) - 0x0800U;
    const auto half = [](std::uint32_t word, int shift) { return static_cast<std::uint16_t>(word >> shift); };
    const std::uint64_t f16 = atomic(AtomicKind::add, ValueType::f16x2, a, b);
    const std::uint64_t bf16 = atomic(AtomicKind::add, ValueType::bf16x2, a, b);
    CAPTURE(a, b, f16, bf16);
    if (f16 != pair(eigen_f16_sum(half(a, 16), half(b, 16)), eigen_f16_sum(half(a, 0), half(b, 0)))) FAIL("f16x2");
    if (bf16 != pair(eigen_bf16_sum(half(a, 16), half(b, 16)), eigen_bf16_sum(half(a, 0), half(b, 0)))) FAIL("bf16x2");
    const auto low = static_cast<std::uint16_t>(f16);
    const bool finite = (half(a, 0) & 0x7C00) != 0x7C00 && (half(b, 0) & 0x7C00) != 0x7C00;
    if (finite && !nearest_f16(half(a, 0), half(b, 0), low)) FAIL("not the nearest");
  }
}

TEST_CASE("minima and maxima of halves: numbers win against NaNs, -0 is less than 0", "[arch][MEM-01]") {
  constexpr std::uint16_t kNan = 0x7E01;
  const auto min = [](std::uint16_t a, std::uint16_t b) {
    return atomic(AtomicKind::min, ValueType::f16x2, pair(a, b), pair(b, a));
  };
  const auto max = [](std::uint16_t a, std::uint16_t b) {
    return atomic(AtomicKind::max, ValueType::f16x2, pair(a, b), pair(b, a));
  };
  CHECK(min(0x3C00, 0xBC00) == pair(0xBC00, 0xBC00));
  CHECK(max(0x3C00, 0xBC00) == pair(0x3C00, 0x3C00));
  CHECK(min(0x0000, 0x8000) == pair(0x8000, 0x8000));
  CHECK(max(0x0000, 0x8000) == pair(0x0000, 0x0000));
  CHECK(min(kNan, 0x0001) == pair(0x0001, 0x0001));
  CHECK(max(kNan, 0xFC00) == pair(0xFC00, 0xFC00));
  CHECK(max(kNan, kNan) == pair(kNanHalf, kNanHalf));
  // Of numbers, by the order of their values.
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 20'000; ++round) {
    const auto a = static_cast<std::uint16_t>(dice.next());
    const auto b = static_cast<std::uint16_t>(dice.next());
    for (const bool bf16 : {false, true}) {
      const auto value = [bf16](std::uint16_t x) { return bf16 ? float_of_bf16(x) : float_of_f16(x); };
      if (!(value(a) < value(b))) continue;
      const ValueType type = bf16 ? ValueType::bf16x2 : ValueType::f16x2;
      if (atomic(AtomicKind::min, type, pair(a, b), pair(b, a)) != pair(a, a)) FAIL(a << " and " << b);
      if (atomic(AtomicKind::max, type, pair(a, b), pair(b, a)) != pair(b, b)) FAIL(a << " and " << b);
    }
  }
}

}  // namespace arch_memory_op_test
