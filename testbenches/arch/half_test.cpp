// 16-bit floating point against Eigen's.
#include <cmath>
#include <cstdint>
#include <Eigen/Core>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "support/random.h"

namespace arch_half_test {

using namespace heddle::arch;

namespace {

// Both NaN, or the same bits: -0 is not 0.
bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : bits_of(a) == bits_of(b); }

bool f16_as_eigen(float value) {
  if (std::isnan(value)) return f16_of(value) == kNanHalf;
  return f16_of(value) == Eigen::half(value).x;
}

bool bf16_as_eigen(float value) {
  if (std::isnan(value)) return bf16_of(value) == kNanHalf;
  return bf16_of(value) == Eigen::bfloat16(value).value;
}

// That value and its neighbours.
template <class Judge>
bool around(float value, Judge judge) {
  const std::uint32_t bits = bits_of(value);
  return judge(value) && judge(float_of(bits + 1)) && judge(float_of(bits - 1));
}

}  // namespace

TEST_CASE("every f16 and bf16 has the float that Eigen gives it", "[arch]") {
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (!same(float_of_f16(bits), static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits)))) ++wrong;
    if (!same(float_of_bf16(bits), static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits)))) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("every f16 and bf16 comes back from its float, and every NaN as one and the same", "[arch]") {
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i <= 0xFFFF; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    if (f16_of(float_of_f16(bits)) != ((bits & 0x7FFF) > 0x7C00 ? kNanHalf : bits)) ++wrong;
    if (bf16_of(float_of_bf16(bits)) != ((bits & 0x7FFF) > 0x7F80 ? kNanHalf : bits)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("floats round to nearest even: at every tie and beside it", "[arch]") {
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < 0x7F80; ++i) {  // up to the tie between the largest number and infinity
    for (const std::uint32_t sign : {0U, 0x8000'0000U}) {
      if (!around(float_of(sign | i << 16 | 0x8000U), bf16_as_eigen)) ++wrong;
      if (i >= 0x7C00) continue;
      const float low = float_of_f16(static_cast<std::uint16_t>(i));
      const float high = i + 1 == 0x7C00 ? 65'536.0F : float_of_f16(static_cast<std::uint16_t>(i + 1));
      const float tie = (low + high) / 2;  // exact
      if (!around(float_of(sign | bits_of(tie)), f16_as_eigen)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(f16_of(65'519.996F) == 0x7BFF);
  CHECK(f16_of(65'520.0F) == 0x7C00);
  CHECK(f16_of(0x1p-25F) == 0);
  CHECK(f16_of(-0x1p-24F) == 0x8001);
  CHECK(bf16_of(1.00390625F) == 0x3F80);
  CHECK(bf16_of(1.01171875F) == 0x3F82);
}

TEST_CASE("random floats round as Eigen's do", "[arch]") {
  HEDDLE_RANDOM(dice);
  std::uint32_t wrong = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const float any = float_of(static_cast<std::uint32_t>(dice.next()));
    // f16 has few of the exponents: most of these are among them.
    const float near =
        float_of((dice.between(0, 1) << 31) | (dice.between(100, 144) << 23) | dice.between(0, 0x7F'FFFF));
    if (!f16_as_eigen(any) || !bf16_as_eigen(any) || !f16_as_eigen(near)) ++wrong;
  }
  CHECK(wrong == 0);
}

}  // namespace arch_half_test
