#include "sm/matmul.h"

#include <array>
#include <cmath>
#include <cstring>

#include "arch/half.h"
#include "common/error.h"

namespace heddle::sm {
namespace {

using arch::kMaxTileColumns;
using arch::kTileRows;
using arch::kWarpLanes;
using arch::MatmulTile;

// Elements of A and B are converted in steps of this many k.
constexpr std::uint32_t kStep = 16;

using Row = std::array<float, kMaxTileColumns>;

struct Operands {
  std::array<std::array<float, kStep>, kTileRows> a;  // [row][k]
  std::array<Row, kStep> b;                           // [k][column]
};

struct F16 {
  static float value(std::uint16_t bits) { return arch::float_of_f16(bits); }
};
struct Bf16 {
  static float value(std::uint16_t bits) { return arch::float_of_bf16(bits); }
};

template <class Type>
void convert(const std::uint8_t* bytes, std::uint32_t count, float* to) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + std::size_t{2} * i, 2);
    to[i] = Type::value(bits);
  }
}

template <class Type>
void fetch(const MatmulTile& tile, const std::uint8_t* shared, std::uint32_t k, Operands& operands) {
  for (std::uint32_t row = 0; row < kTileRows; ++row) {
    const std::size_t from = std::size_t{tile.a} + std::size_t{row} * tile.a_pitch + std::size_t{2} * k;
    convert<Type>(shared + from, kStep, operands.a[row].data());
  }
  if (!tile.b_transposed) {
    for (std::uint32_t i = 0; i < kStep; ++i) {
      convert<Type>(shared + tile.b + std::size_t{k + i} * tile.b_pitch, tile.n, operands.b[i].data());
    }
    return;
  }
  for (std::uint32_t column = 0; column < tile.n; ++column) {
    std::array<float, kStep> values;
    convert<Type>(shared + tile.b + std::size_t{column} * tile.b_pitch + std::size_t{2} * k, kStep, values.data());
    for (std::uint32_t i = 0; i < kStep; ++i) operands.b[i][column] = values[i];
  }
}

// sum += a[i] * b[i], one i after the other. Columns are independent of each other.
void multiply(const std::array<float, kStep>& a, const std::array<Row, kStep>& b, std::uint32_t n, float* sum) {
  for (std::uint32_t i = 0; i < kStep; i += 4) {
    const float a0 = a[i];
    const float a1 = a[i + 1];
    const float a2 = a[i + 2];
    const float a3 = a[i + 3];
    const float* b0 = b[i].data();
    const float* b1 = b[i + 1].data();
    const float* b2 = b[i + 2].data();
    const float* b3 = b[i + 3].data();
    for (std::uint32_t j = 0; j < n; ++j) {
      sum[j] = (((sum[j] + a0 * b0[j]) + a1 * b1[j]) + a2 * b2[j]) + a3 * b3[j];
    }
  }
}

// Where register i of a lane lies in D (arch::MatmulTile).
std::uint32_t row_of(std::uint32_t i, std::uint32_t lane) { return lane / 4 + 8 * (i / 2 % 2); }
std::uint32_t column_of(std::uint32_t i, std::uint32_t lane) { return 8 * (i / 4) + 2 * (lane % 4) + i % 2; }

template <class Type>
void run(const MatmulTile& tile, const std::uint8_t* shared, std::uint32_t* accumulators) {
  std::array<Row, kTileRows> sums;
  for (std::uint32_t i = 0; i < tile.n / 2; ++i) {
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      sums[row_of(i, lane)][column_of(i, lane)] = arch::float_of(accumulators[i * kWarpLanes + lane]);
    }
  }
  Operands operands;
  for (std::uint32_t k = 0; k < tile.k; k += kStep) {
    fetch<Type>(tile, shared, k, operands);
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      multiply(operands.a[row], operands.b, tile.n, sums[row].data());
    }
  }
  for (std::uint32_t i = 0; i < tile.n / 2; ++i) {
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const float sum = sums[row_of(i, lane)][column_of(i, lane)];
      accumulators[i * kWarpLanes + lane] = std::isnan(sum) ? arch::kNanF32 : arch::bits_of(sum);
    }
  }
}

}  // namespace

bool tile_exists(const MatmulTile& tile) {
  const bool even = tile.a % 2 == 0 && tile.b % 2 == 0 && tile.a_pitch % 2 == 0 && tile.b_pitch % 2 == 0;
  const bool type = tile.type == arch::ValueType::f16 || tile.type == arch::ValueType::bf16;
  return even && type && tile.n >= 8 && tile.n <= kMaxTileColumns && tile.n % 8 == 0 && tile.k >= kStep &&
         tile.k % kStep == 0;
}

std::uint64_t tile_end(const MatmulTile& tile) {
  const std::uint32_t b_rows = tile.b_transposed ? tile.n : tile.k;
  const std::uint32_t b_columns = tile.b_transposed ? tile.k : tile.n;
  const std::uint64_t a = tile.a + std::uint64_t{tile.a_pitch} * (kTileRows - 1) + std::uint64_t{2} * tile.k;
  const std::uint64_t b = tile.b + std::uint64_t{tile.b_pitch} * (b_rows - 1) + std::uint64_t{2} * b_columns;
  return a > b ? a : b;
}

std::uint64_t tile_bytes(const MatmulTile& tile) {
  return std::uint64_t{2} * tile.k * kTileRows + std::uint64_t{2} * tile.k * tile.n / 4;
}

void matmul(const MatmulTile& tile, const std::uint8_t* shared, std::uint32_t* accumulators) {
  HEDDLE_CHECK(tile_exists(tile), "no such matrix multiply");
  if (tile.type == arch::ValueType::f16) {
    run<F16>(tile, shared, accumulators);
  } else {
    run<Bf16>(tile, shared, accumulators);
  }
}

}  // namespace heddle::sm
