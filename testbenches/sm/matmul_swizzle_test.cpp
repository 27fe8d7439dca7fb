// Tiles as the TMAU lays them out: the same products, where they end, and what their operands cost in the banks.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "sm/alu.h"
#include "sm/bulk_oracle.h"
#include "support/random.h"

namespace sm_matmul_swizzle_test {

using namespace heddle::sm;
using namespace heddle::arch;
using heddle::test::Random;
using heddle::test::swizzled;

namespace {

const SwizzleTable kUsual;

// From eight rows to the next eight.
std::uint32_t group_a(const MatmulTile& tile) { return tile.a_group ? *tile.a_group : 8 * tile.a_pitch; }
std::uint32_t group_b(const MatmulTile& tile) { return tile.b_group ? *tile.b_group : 8 * tile.b_pitch; }

// All bytes that a tile reads: an oracle by elements.
std::vector<std::uint64_t> elements_of(const MatmulTile& tile) {
  std::vector<std::uint64_t> result;
  const auto add = [&result](std::uint64_t first, std::uint32_t rows, std::uint32_t pitch, std::uint32_t group,
                             std::uint32_t columns, Swizzle swizzle) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint32_t column = 0; column < columns; ++column) {
        const std::uint64_t at = first + std::uint64_t{row % 8} * pitch + std::uint64_t{row / 8} * group + 2 * column;
        result.push_back(swizzled(swizzle, static_cast<std::uint32_t>(at)));
      }
    }
  };
  add(tile.a, kTileRows, tile.a_pitch, group_a(tile), tile.k, tile.a_swizzle);
  add(tile.b, tile.b_transposed ? tile.n : tile.k, tile.b_pitch, group_b(tile), tile.b_transposed ? tile.k : tile.n,
      tile.b_swizzle);
  return result;
}

// Core matrix by core matrix, byte by byte.
std::uint64_t cost_of(const MatmulTile& tile) {
  const auto cost = [](std::uint32_t first, std::uint32_t rows, std::uint32_t pitch, std::uint32_t group,
                       std::uint32_t bytes, Swizzle swizzle) {
    std::uint64_t cycles = 0;
    for (std::uint32_t row = 0; row < rows; row += 8) {
      for (std::uint32_t byte = 0; byte < bytes; byte += 16) {
        std::vector<std::uint32_t> positions;
        for (std::uint32_t i = 0; i < 8; ++i) {
          for (std::uint32_t j = 0; j < 16; ++j) {
            positions.push_back(swizzled(swizzle, first + i * pitch + row / 8 * group + byte + j));
          }
        }
        cycles += heddle::test::bank_cycles(positions);
      }
    }
    return cycles;
  };
  const std::uint64_t a = cost(tile.a, kTileRows, tile.a_pitch, group_a(tile), 2 * tile.k, tile.a_swizzle);
  const std::uint64_t b = cost(tile.b, tile.b_transposed ? tile.n : tile.k, tile.b_pitch, group_b(tile),
                               2 * (tile.b_transposed ? tile.k : tile.n), tile.b_swizzle);
  return a + (b + 3) / 4;
}

MatmulTile random_tile(Random& random) {
  MatmulTile tile;
  tile.type = random.chance(50) ? ValueType::f16 : ValueType::bf16;
  tile.n = 8 * random.between(1, 8);
  tile.k = 16 * random.between(1, 4);
  tile.b_transposed = random.chance(50);
  const auto lay = [&random](Swizzle& swizzle, std::uint32_t& offset, std::uint32_t& pitch,
                             std::optional<std::uint32_t>& group, std::uint32_t bytes) {
    swizzle = static_cast<Swizzle>(random.below(kSwizzles));
    const std::uint32_t unit = swizzle == Swizzle::none && random.chance(40) ? 2 : 16;
    offset = unit * random.below(2'000 / unit);
    pitch = random.chance(30) ? 128 : unit * ((bytes + unit - 1) / unit + random.below(5));
    if (random.chance(40)) group = unit * random.below(1'600 / unit);
  };
  lay(tile.a_swizzle, tile.a, tile.a_pitch, tile.a_group, 2 * tile.k);
  lay(tile.b_swizzle, tile.b, tile.b_pitch, tile.b_group, 2 * (tile.b_transposed ? tile.k : tile.n));
  tile.b += 8'192;  // behind A
  if (random.chance(5)) tile.b_pitch = 0;
  return tile;
}

// The same bytes as `from` has, without the swizzle.
std::vector<std::uint8_t> straightened(const MatmulTile& tile, const std::vector<std::uint8_t>& from) {
  std::vector<std::uint8_t> result(from.size());
  const auto move = [&](std::uint32_t first, std::uint32_t rows, std::uint32_t pitch, std::uint32_t group,
                        std::uint32_t bytes, Swizzle swizzle) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint32_t byte = 0; byte < bytes; ++byte) {
        const std::uint32_t at = first + row % 8 * pitch + row / 8 * group + byte;
        result[at] = from[swizzled(swizzle, at)];
      }
    }
  };
  move(tile.a, kTileRows, tile.a_pitch, group_a(tile), 2 * tile.k, tile.a_swizzle);
  move(tile.b, tile.b_transposed ? tile.n : tile.k, tile.b_pitch, group_b(tile),
       2 * (tile.b_transposed ? tile.k : tile.n), tile.b_swizzle);
  return result;
}

}  // namespace

TEST_CASE("swizzled tiles have the products of the same matrices unswizzled", "[sm][TMA-22][TMA-20]") {
  std::uint32_t both = 0;
  for (const std::uint64_t seed : heddle::test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    const MatmulTile tile = random_tile(random);
    REQUIRE(tile_exists(tile));
    if (tile.a_swizzle != Swizzle::none && tile.b_swizzle != Swizzle::none) ++both;
    std::vector<std::uint8_t> shared(32'768);
    for (std::size_t i = 0; i < shared.size(); i += 2) {
      const float value = static_cast<float>(random.between(0, 4'000)) / 1'000.0F - 2.0F;
      const std::uint16_t bits = tile.type == ValueType::f16 ? f16_of(value) : bf16_of(value);
      std::memcpy(&shared[i], &bits, 2);
    }
    MatmulTile plain = tile;
    plain.a_swizzle = plain.b_swizzle = Swizzle::none;
    const std::vector<std::uint8_t> straight = straightened(tile, shared);
    std::vector<std::uint32_t> sums(std::size_t{tile.n} / 2 * kWarpLanes, bits_of(0.25F));
    std::vector<std::uint32_t> expected = sums;
    matmul(tile, kUsual, shared.data(), sums.data());
    matmul(plain, kUsual, straight.data(), expected.data());
    CHECK(sums == expected);
  }
  CHECK(both > 50);
}

TEST_CASE("the end of a swizzled tile is one past its last byte, and its parts are what it reads", "[sm][TMA-22]") {
  std::uint32_t beyond = 0;
  for (const std::uint64_t seed : heddle::test::seeds(600)) {
    CAPTURE(seed);
    Random random(seed);
    const MatmulTile tile = random_tile(random);
    std::vector<std::uint64_t> elements = elements_of(tile);
    const std::uint64_t end = *std::max_element(elements.begin(), elements.end()) + 2;
    CHECK(tile_end(tile, kUsual) == end);
    MatmulTile plain = tile;
    plain.a_swizzle = plain.b_swizzle = Swizzle::none;
    if (end > tile_end(plain, kUsual)) ++beyond;
    std::vector<std::uint64_t> parts;
    each_part(tile, kUsual, [&parts](std::uint64_t at, std::uint32_t bytes) {
      for (std::uint32_t i = 0; i < bytes; i += 2) parts.push_back(at + i);
      return true;
    });
    std::sort(elements.begin(), elements.end());
    std::sort(parts.begin(), parts.end());
    REQUIRE(parts == elements);
  }
  CHECK(beyond > 20);
}

TEST_CASE("operands cost the cycles of their core matrices", "[sm][TMA-21]") {
  TileCosts costs(kUsual);
  for (const std::uint64_t seed : heddle::test::seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    const MatmulTile tile = random_tile(random);
    const std::uint64_t expected = cost_of(tile);
    CHECK(costs.cycles(tile) == expected);
    CHECK(costs.cycles(tile) == expected);  // remembered
  }
}

TEST_CASE("a column of an 8x8 tile of 16-byte units takes 8 cycles unswizzled and 1 swizzled", "[sm][TMA-21]") {
  // A row of A has 64 elements: 128 bytes, eight units.
  const auto cycles = [](Swizzle swizzle, std::uint32_t row_bytes, bool turned = true) {
    MatmulTile tile;
    tile.k = row_bytes / 2;
    tile.n = turned ? 64 : row_bytes / 2;
    tile.a_pitch = row_bytes;
    tile.b = 4'096;
    tile.b_pitch = row_bytes;
    tile.b_transposed = turned;
    tile.a_swizzle = tile.b_swizzle = swizzle;
    const std::uint64_t least = (tile_bytes(tile) + 127) / 128;
    TileCosts costs(kUsual);
    const std::uint64_t all = costs.cycles(tile);
    REQUIRE(all % least == 0);
    return all / least;
  };
  CHECK(cycles(Swizzle::none, 128) == 8);
  CHECK(cycles(Swizzle::bytes128, 128) == 1);
  CHECK(cycles(Swizzle::none, 128, false) == 8);
  CHECK(cycles(Swizzle::bytes128, 128, false) == 1);
  // The other modes at their spans: rows of 64 and 32 bytes.
  CHECK(cycles(Swizzle::none, 64) == 4);
  CHECK(cycles(Swizzle::bytes64, 64) == 1);
  CHECK(cycles(Swizzle::none, 32) == 2);
  CHECK(cycles(Swizzle::bytes32, 32) == 1);
  // Too small a swizzle helps in part.
  CHECK(cycles(Swizzle::bytes64, 128) == 2);
  CHECK(cycles(Swizzle::bytes32, 128) == 4);
}

TEST_CASE("padded rows have no conflicts, and one pitch is not taken for another", "[sm][TMA-21]") {
  TileCosts costs(kUsual);
  MatmulTile tile;
  tile.k = 64;
  tile.n = 64;
  tile.a_pitch = 144;
  tile.b = 8'192;
  tile.b_pitch = 144;
  const std::uint64_t least = (tile_bytes(tile) + 127) / 128;
  CHECK(costs.cycles(tile) == least);
  tile.a_pitch = tile.b_pitch = 1'024;
  CHECK(costs.cycles(tile) == 8 * least);
  tile.a_pitch = tile.b_pitch = 0;  // one row for all: it is read once
  CHECK(costs.cycles(tile) == least);
  // Where a tile begins in the pattern of 1,024 bytes counts; whole patterns do not.
  tile.a_pitch = tile.b_pitch = 144;
  tile.a = 3 * 1'024;
  tile.b = 8'192 + 5 * 1'024;
  CHECK(costs.cycles(tile) == least);
  tile.a = 8;  // every row lies in two units
  CHECK(costs.cycles(tile) > least);
}

TEST_CASE("swizzled tiles lie at multiples of 16 bytes", "[sm][TMA-22][MEM-05]") {
  const auto exists = [](auto change) {
    MatmulTile tile;
    tile.a_swizzle = tile.b_swizzle = Swizzle::bytes64;
    tile.a_pitch = tile.b_pitch = 64;
    change(tile);
    return tile_exists(tile);
  };
  CHECK(exists([](MatmulTile&) {}));
  CHECK_FALSE(exists([](MatmulTile& t) { t.a = 8; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.b = 8; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.a_pitch = 72; }));
  CHECK_FALSE(exists([](MatmulTile& t) { t.b_pitch = 72; }));
  CHECK(exists([](MatmulTile& t) {
    t.a_swizzle = Swizzle::none;
    t.a = 8;
    t.a_pitch = 72;
  }));
  // Far beyond any window.
  MatmulTile far;
  far.a_swizzle = Swizzle::bytes128;
  far.a = 0xFFFF'FFF0;
  far.a_pitch = 128;
  CHECK(tile_end(far, kUsual) == 0xFFFF'FFF0ULL + 15 * 128 + 32);
}

}  // namespace sm_matmul_swizzle_test
