// Fill and conversion of boxes, byte by byte and number by number.
#include "arch/tensor_data.h"

#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "arch/line_bytes.h"
#include "common/error.h"

namespace arch_tensor_data_test {

using namespace heddle::arch;
using heddle::test::Bytes;
using heddle::test::double_of;
using heddle::test::draw_mask;
using heddle::test::Random;
using heddle::test::set_word;
using heddle::test::word_at;

namespace {

bool is_nan_f32(std::uint32_t bits) { return (bits & 0x7FFF'FFFF) > 0x7F80'0000; }

// The numbers of 10 bits of fraction on either side, and the nearer one of them; by arithmetic.
std::uint32_t tf32_oracle(std::uint32_t bits) {
  if (is_nan_f32(bits)) return bits;
  const std::uint32_t below = bits & 0xFFFF'E000;  // in magnitude
  const std::uint32_t above = below + 0x2000;
  const auto number = [](std::uint32_t b) {
    // Beyond the largest number its step goes on: infinity stands for 2^128.
    if ((b & 0x7FFF'FFFF) == 0x7F80'0000) return std::copysign(0x1p128, static_cast<double>(float_of(b)));
    return static_cast<double>(float_of(b));
  };
  if ((bits & 0x7FFF'FFFF) == 0x7F80'0000) return bits;
  const double down = std::abs(number(bits) - number(below));
  const double up = std::abs(number(above) - number(bits));
  if (down != up) return down < up ? below : above;
  return (below >> 13 & 1) == 0 ? below : above;
}

std::uint32_t conversion_oracle(TensorType type, std::uint32_t bits) {
  const bool subnormal = std::fpclassify(float_of(bits)) == FP_SUBNORMAL;
  const bool flush = type == TensorType::f32_flush || type == TensorType::tf32_flush;
  if (flush && subnormal) bits &= 0x8000'0000;
  return type == TensorType::f32_flush ? bits : tf32_oracle(bits);
}

std::uint32_t converted(TensorType type, std::uint32_t bits) {
  Bytes data(4);
  set_word(data, 0, 4, bits);
  convert(type, 4, data.data());
  return static_cast<std::uint32_t>(word_at(data, 0, 4));
}

std::uint32_t draw_f32(Random& dice) {
  auto bits = static_cast<std::uint32_t>(dice.next());
  if (dice.one_in(4)) bits &= 0x807F'FFFF;                                                    // subnormal
  if (dice.one_in(8)) bits |= 0x7F80'0000;                                                    // NaN
  if (dice.one_in(8)) bits = (bits & 0x8000'0000) | (0x7F7F'0000 + dice.between(0, 0xFFFF));  // largest
  if (dice.one_in(3)) bits = (bits & 0xFFFF'E000) | (0x0FFF + dice.between(0, 2));            // around ties
  return bits;
}

}  // namespace

TEST_CASE("outside elements are zero, or the NaN of their type", "[arch][TMA-13]") {
  for (std::size_t t = 0; t < kTensorTypes; ++t) {
    const auto type = static_cast<TensorType>(t);
    CHECK(fill_bits(type, Fill::zero) == 0);
    if (!is_float(type)) {
      CHECK_THROWS_AS(fill_bits(type, Fill::nan), heddle::CheckFailed);
      continue;
    }
    // All ones but the sign.
    CHECK(fill_bits(type, Fill::nan) == (std::uint64_t{1} << (8 * bytes_of(type) - 1)) - 1);
  }
  CHECK(fill_bits(TensorType::bf16, Fill::nan) == 0x7FFF);
  CHECK(fill_bits(TensorType::tf32, Fill::nan) == 0x7FFF'FFFF);
  CHECK(std::isnan(float_of_f16(0x7FFF)));
  CHECK(std::isnan(double_of(fill_bits(TensorType::f64, Fill::nan))));
}

TEST_CASE("the fill writes outside bytes alone", "[arch][TMA-13]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 20'000; ++round) {
    const auto type = static_cast<TensorType>(dice.between(0, kTensorTypes - 1));
    const Fill fill = is_float(type) && dice.one_in(2) ? Fill::nan : Fill::zero;
    const std::uint32_t width = bytes_of(type);
    const std::uint32_t bytes = width * dice.between(0, 128 / width);
    const ByteMask inside = draw_mask(dice);
    Bytes data(130);
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(dice.next());
    Bytes expected = data;
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (!inside.test(i)) {
        expected[i] = fill == Fill::zero       ? std::uint8_t{0}
                      : i % width == width - 1 ? std::uint8_t{0x7F}
                                               : std::uint8_t{0xFF};
      }
    }
    fill_outside(type, fill, inside, bytes, data.data());
    if (data != expected) FAIL(type_name(type) << ", " << bytes << " bytes, round " << round);
  }
}

TEST_CASE("flush and rounding: numbers at the edges", "[arch][TMA-07]") {
  CHECK(converted(TensorType::f32_flush, 0x007F'FFFF) == 0);
  CHECK(converted(TensorType::f32_flush, 0x8000'0001) == 0x8000'0000);  // the sign stays
  CHECK(converted(TensorType::f32_flush, 0x0080'0000) == 0x0080'0000);
  CHECK(converted(TensorType::f32_flush, 0x7FC0'1234) == 0x7FC0'1234);  // no arithmetic: a NaN stays as it is
  CHECK(converted(TensorType::tf32, 0x3F80'0FFF) == 0x3F80'0000);
  CHECK(converted(TensorType::tf32, 0x3F80'1000) == 0x3F80'0000);  // tie: to even
  CHECK(converted(TensorType::tf32, 0x3F80'1001) == 0x3F80'2000);
  CHECK(converted(TensorType::tf32, 0x3F80'3000) == 0x3F80'4000);  // tie: to even
  CHECK(converted(TensorType::tf32, 0xBFFF'FFFF) == 0xC000'0000);
  CHECK(converted(TensorType::tf32, 0x7F7F'FFFF) == 0x7F80'0000);  // infinity
  CHECK(converted(TensorType::tf32, 0xFF80'0000) == 0xFF80'0000);
  CHECK(converted(TensorType::tf32, 0x7F80'0001) == 0x7F80'0001);  // a NaN stays as it is
  CHECK(converted(TensorType::tf32, 0xFFFF'FFFF) == 0xFFFF'FFFF);
  CHECK(converted(TensorType::tf32, 0x0000'1001) == 0x0000'2000);  // subnormal numbers are rounded in their place
  CHECK(converted(TensorType::tf32, 0x007F'FFFF) == 0x0080'0000);
  CHECK(converted(TensorType::tf32_flush, 0x007F'FFFF) == 0);  // flushed first
  CHECK(converted(TensorType::tf32_flush, 0x0080'0000) == 0x0080'0000);
  CHECK(converted(TensorType::tf32_flush, 0x8000'1001) == 0x8000'0000);
}

TEST_CASE("conversions agree with arithmetic, and doing them twice changes nothing", "[arch][TMA-07]") {
  HEDDLE_RANDOM(dice);
  for (const TensorType type : {TensorType::f32_flush, TensorType::tf32, TensorType::tf32_flush}) {
    for (int round = 0; round < 4'000; ++round) {
      Bytes data(128);
      for (std::size_t i = 0; i < 128; i += 4) set_word(data, i, 4, draw_f32(dice));
      const std::uint32_t bytes = 4 * dice.between(0, 32);
      Bytes expected = data;
      for (std::size_t i = 0; i < bytes; i += 4) {
        set_word(expected, i, 4, conversion_oracle(type, static_cast<std::uint32_t>(word_at(data, i, 4))));
      }
      const Bytes before = data;
      convert(type, bytes, data.data());
      for (std::size_t i = 0; i < 128; i += 4) {
        if (word_at(data, i, 4) == word_at(expected, i, 4)) continue;
        CAPTURE(type_name(type), word_at(before, i, 4), word_at(data, i, 4), word_at(expected, i, 4));
        FAIL("wrong");
      }
      const Bytes once = data;
      convert(type, bytes, data.data());
      if (data != once) FAIL("not the same again");
    }
  }
}

TEST_CASE("types that do not convert keep their bytes, and only whole elements convert", "[arch][TMA-07]") {
  std::string converting;
  for (std::size_t t = 0; t < kTensorTypes; ++t) {
    const auto type = static_cast<TensorType>(t);
    Bytes data(8);
    set_word(data, 0, 8, 0x0000'1801'7F80'1801);
    const Bytes before = data;
    convert(type, 8, data.data());
    CHECK((data != before) == converts(type));
    if (converts(type)) converting += type_name(type) + std::string(" ");
  }
  CHECK(converting == "f32_flush tf32 tf32_flush ");
  Bytes data(8);
  CHECK_THROWS_AS(convert(TensorType::tf32, 6, data.data()), heddle::CheckFailed);
}

}  // namespace arch_tensor_data_test
