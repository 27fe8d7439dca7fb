// The matrix multiply of a warp against a plain triple loop.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "common/error.h"
#include "sm/alu.h"
#include "support/random.h"

namespace sm_matmul_test {

using namespace heddle::sm;
using namespace heddle::arch;
using heddle::CheckFailed;
using heddle::test::Random;

namespace {

const SwizzleTable kUsual;

struct Place {
  std::uint32_t row;
  std::uint32_t column;
};

Place place_of(std::uint32_t reg, std::uint32_t lane) {
  return {lane / 4 + 8 * (reg / 2 % 2), 8 * (reg / 4) + 2 * (lane % 4) + reg % 2};
}

float element(const MatmulTile& tile, const std::vector<std::uint8_t>& shared, std::uint64_t at) {
  const auto bits = static_cast<std::uint16_t>(shared[at] | shared[at + 1] << 8);
  return tile.type == ValueType::f16 ? float_of_f16(bits) : float_of_bf16(bits);
}

float a_of(const MatmulTile& tile, const std::vector<std::uint8_t>& shared, std::uint32_t row, std::uint32_t k) {
  return element(tile, shared, tile.a + row * tile.a_pitch + 2 * k);
}

float b_of(const MatmulTile& tile, const std::vector<std::uint8_t>& shared, std::uint32_t k, std::uint32_t column) {
  return element(tile, shared,
                 tile.b_transposed ? tile.b + column * tile.b_pitch + 2 * k : tile.b + k * tile.b_pitch + 2 * column);
}

std::vector<std::uint32_t> plain(const MatmulTile& tile, const std::vector<std::uint8_t>& shared,
                                 std::vector<std::uint32_t> registers) {
  for (std::uint32_t reg = 0; reg < tile.n / 2; ++reg) {
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const Place at = place_of(reg, lane);
      float sum = float_of(registers[reg * kWarpLanes + lane]);
      for (std::uint32_t k = 0; k < tile.k; ++k) {
        const volatile float product = a_of(tile, shared, at.row, k) * b_of(tile, shared, k, at.column);
        sum = sum + product;
      }
      registers[reg * kWarpLanes + lane] = std::isnan(sum) ? kNanF32 : bits_of(sum);
    }
  }
  return registers;
}

MatmulTile random_tile(Random& random) {
  MatmulTile tile;
  tile.type = random.chance(50) ? ValueType::f16 : ValueType::bf16;
  tile.n = 8 * random.between(1, random.chance(20) ? 32 : 6);
  tile.k = 16 * random.between(1, 4);
  tile.b_transposed = random.chance(50);
  tile.a = 2 * random.below(100);
  tile.a_pitch = 2 * (tile.k + random.below(10));
  tile.b = tile.a + 16 * tile.a_pitch + 2 * random.below(20);
  tile.b_pitch = 2 * ((tile.b_transposed ? tile.k : tile.n) + random.below(10));
  if (random.chance(5)) tile.b_pitch = 0;  // one row for all
  return tile;
}

// Numbers of a like size, any bits, or few values with infinities and NaNs among them.
std::vector<std::uint8_t> random_bytes(Random& random, const MatmulTile& tile) {
  std::vector<std::uint8_t> shared(tile_end(tile, kUsual));
  const std::uint32_t style = random.below(3);
  for (std::size_t i = 0; i + 1 < shared.size(); i += 2) {
    auto bits = static_cast<std::uint16_t>(random.next());
    if (style == 0) {
      const float value = static_cast<float>(random.between(0, 4'000)) / 1'000.0F - 2.0F;
      bits = tile.type == ValueType::f16 ? f16_of(value) : bf16_of(value);
    } else if (style == 1) {
      bits = std::array<std::uint16_t, 6>{0, 0x8000, 0x3C00, 0x0001, 0x7C00, 0xFF81}[random.below(100) / 19];
    }
    std::memcpy(shared.data() + i, &bits, 2);
  }
  return shared;
}

}  // namespace

TEST_CASE("a matrix multiply has the bits of the triple loop, in order of k", "[sm][SM-04]") {
  for (const std::uint64_t seed : heddle::test::seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    const MatmulTile tile = random_tile(random);
    REQUIRE(tile_exists(tile));
    const std::vector<std::uint8_t> shared = random_bytes(random, tile);
    std::vector<std::uint32_t> registers(std::size_t{tile.n} / 2 * kWarpLanes);
    for (std::uint32_t& value : registers) {
      value = random.chance(2) ? static_cast<std::uint32_t>(random.next())
                               : bits_of(static_cast<float>(random.between(0, 200)) - 100.0F);
    }
    const std::vector<std::uint32_t> expected = plain(tile, shared, registers);
    matmul(tile, kUsual, shared.data(), registers.data());
    CHECK(registers == expected);
  }
}

TEST_CASE("accumulators lie as in PTX: registers and lanes of known elements", "[sm][SM-04]") {
  MatmulTile tile;
  tile.n = 16;
  tile.a_pitch = 32;
  tile.b = 512;
  tile.b_pitch = 32;
  // A = 1, B[k][column] = column at k = 0: D[row][column] += column; the accumulators bring 100 * lane.
  std::vector<std::uint8_t> shared(tile_end(tile, kUsual));
  const std::uint16_t one = f16_of(1.0F);
  for (std::uint32_t row = 0; row < 16; ++row) std::memcpy(shared.data() + row * 32, &one, 2);
  for (std::uint32_t column = 0; column < 16; ++column) {
    const std::uint16_t value = f16_of(static_cast<float>(column));
    std::memcpy(shared.data() + 512 + 2 * column, &value, 2);
  }
  std::vector<std::uint32_t> registers(8 * kWarpLanes, bits_of(0.5F));
  matmul(tile, kUsual, shared.data(), registers.data());
  const auto at = [&registers](std::uint32_t reg, std::uint32_t lane) {
    return float_of(registers[reg * kWarpLanes + lane]);
  };
  CHECK(at(0, 0) == 0.5F);   // row 0, column 0
  CHECK(at(1, 0) == 1.5F);   // row 0, column 1
  CHECK(at(0, 3) == 6.5F);   // row 0, column 6
  CHECK(at(1, 31) == 7.5F);  // row 7, column 7
  CHECK(at(3, 1) == 3.5F);   // row 8, column 3
  CHECK(at(4, 0) == 8.5F);
  CHECK(at(7, 31) == 15.5F);  // row 15, column 15
  // Rows: A of row r is r at k = 0, B is 1 in column 0 and 9.
  shared.assign(shared.size(), 0);
  for (std::uint32_t row = 0; row < 16; ++row) {
    const std::uint16_t value = f16_of(static_cast<float>(row));
    std::memcpy(shared.data() + row * 32, &value, 2);
  }
  std::memcpy(shared.data() + 512, &one, 2);
  std::memcpy(shared.data() + 512 + 18, &one, 2);
  registers.assign(registers.size(), 0);
  matmul(tile, kUsual, shared.data(), registers.data());
  CHECK(at(0, 4) == 1.0F);    // row 1, column 0
  CHECK(at(2, 4) == 9.0F);    // row 9, column 0
  CHECK(at(5, 28) == 7.0F);   // row 7, column 9
  CHECK(at(7, 28) == 15.0F);  // row 15, column 9
  CHECK(at(1, 28) == 0.0F);
}

TEST_CASE("infinities and NaNs stay what they are, and stay in their row and column", "[sm][SM-04]") {
  MatmulTile tile;
  tile.a_pitch = 32;
  tile.b = 512;
  tile.b_pitch = 16;
  std::vector<std::uint8_t> shared(tile_end(tile, kUsual));
  const auto put = [&shared](std::uint32_t at, std::uint16_t bits) { std::memcpy(shared.data() + at, &bits, 2); };
  for (std::uint32_t column = 0; column < 8; ++column) put(512 + 2 * column, 0x3C00);  // B: ones at k = 0
  put(0, 0x7C00);                                                                      // row 0: infinity
  put(32, 0x7E00);                                                                     // row 1: NaN
  put(64, 0x7C00);  // row 2: infinity, and its opposite at k = 1
  put(66, 0xFC00);
  put(512 + 16, 0x3C00);  // B: a one at k = 1, column 0
  std::vector<std::uint32_t> registers(4 * kWarpLanes, 0);
  matmul(tile, kUsual, shared.data(), registers.data());
  CHECK(registers[0] == bits_of(std::numeric_limits<float>::infinity()));
  CHECK(registers[4] == kNanF32);
  CHECK(registers[8] == kNanF32);               // infinity - infinity
  CHECK(registers[kWarpLanes + 8] == kNanF32);  // infinity + -infinity * 0
  CHECK(registers[12] == 0);
  CHECK(registers[2 * kWarpLanes] == 0);  // row 8
}

TEST_CASE("tiles that do not exist are told, and so are their ends and traffic", "[sm][MEM-05]") {
  MatmulTile tile;
  tile.n = 256;
  tile.k = 16;
  tile.a = 100;
  tile.a_pitch = 32;
  tile.b = 4'000;
  tile.b_pitch = 512;
  CHECK(tile_exists(tile));
  CHECK(tile_end(tile, kUsual) == 4'000 + 15 * 512 + 512);
  CHECK(tile_bytes(tile) == 16 * 16 * 2 + 16 * 256 * 2 / 4);
  tile.b_transposed = true;
  CHECK(tile_end(tile, kUsual) == 4'000 + 255 * 512 + 32);
  tile.a = 0xFFFF'FFF0;
  CHECK(tile_end(tile, kUsual) == 0xFFFF'FFF0ULL + 15 * 32 + 32);
  const auto exists = [](auto change) {
    MatmulTile each;
    change(each);
    return tile_exists(each);
  };
  CHECK(exists([](MatmulTile&) {}));
  CHECK_FALSE(exists([](MatmulTile& t) { t.n = 12; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.n = 264; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.n = 0; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.k = 8; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.k = 0; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.type = ValueType::f32; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.b_pitch = 3; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.a = 1; }));
  std::vector<std::uint32_t> registers(4 * kWarpLanes);
  MatmulTile wrong;
  wrong.k = 17;
  CHECK_THROWS_AS(matmul(wrong, kUsual, nullptr, registers.data()), CheckFailed);
}

}  // namespace sm_matmul_test
