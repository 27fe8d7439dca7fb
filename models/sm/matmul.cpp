#include "sm/matmul.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "arch/half.h"
#include "common/error.h"

namespace heddle::sm {
namespace {

using arch::kMaxTileColumns;
using arch::kSwizzleUnit;
using arch::kTileRows;
using arch::kWarpLanes;
using arch::MatmulTile;
using arch::Swizzle;
using arch::SwizzleTable;

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

// `count` elements from that offset on, which lie side by side but for the swizzle. Swizzled, offsets are multiples of
// 16 bytes.
template <class Type>
void take(const SwizzleTable& swizzles, Swizzle swizzle, const std::uint8_t* shared, std::uint32_t at,
          std::uint32_t count, float* to) {
  if (swizzle == Swizzle::none) return convert<Type>(shared + at, count, to);
  constexpr std::uint32_t kElements = kSwizzleUnit / 2;
  for (std::uint32_t i = 0; i < count; i += kElements) {
    convert<Type>(shared + swizzles(swizzle, at + 2 * i), kElements, to + i);
  }
}

template <class Type>
void fetch(const MatmulTile& tile, const SwizzleTable& swizzles, const std::uint8_t* shared, std::uint32_t k,
           Operands& operands) {
  for (std::uint32_t row = 0; row < kTileRows; ++row) {
    take<Type>(swizzles, tile.a_swizzle, shared, tile.a + row * tile.a_pitch + 2 * k, kStep, operands.a[row].data());
  }
  if (!tile.b_transposed) {
    for (std::uint32_t i = 0; i < kStep; ++i) {
      take<Type>(swizzles, tile.b_swizzle, shared, tile.b + (k + i) * tile.b_pitch, tile.n, operands.b[i].data());
    }
    return;
  }
  for (std::uint32_t column = 0; column < tile.n; ++column) {
    std::array<float, kStep> values;
    take<Type>(swizzles, tile.b_swizzle, shared, tile.b + column * tile.b_pitch + 2 * k, kStep, values.data());
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
void run(const MatmulTile& tile, const SwizzleTable& swizzles, const std::uint8_t* shared,
         std::uint32_t* accumulators) {
  std::array<Row, kTileRows> sums;
  for (std::uint32_t i = 0; i < tile.n / 2; ++i) {
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      sums[row_of(i, lane)][column_of(i, lane)] = arch::float_of(accumulators[i * kWarpLanes + lane]);
    }
  }
  Operands operands;
  for (std::uint32_t k = 0; k < tile.k; k += kStep) {
    fetch<Type>(tile, swizzles, shared, k, operands);
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

// Cycles of the core matrices of one operand: `rows` and `bytes` of each are multiples of 8 and 16.
std::uint64_t core_cycles(const SwizzleTable& swizzles, Swizzle swizzle, std::uint32_t first, std::uint32_t rows,
                          std::uint32_t pitch, std::uint32_t bytes) {
  constexpr std::uint32_t kRows = 8;
  std::array<std::uint32_t, std::size_t{2} * kRows> units{};
  std::uint64_t cycles = 0;
  for (std::uint32_t row = 0; row < rows; row += kRows) {
    for (std::uint32_t byte = 0; byte < bytes; byte += kSwizzleUnit) {
      std::uint32_t count = 0;
      for (std::uint32_t i = 0; i < kRows; ++i) {
        const std::uint32_t at = first + (row + i) * pitch + byte;
        const std::uint32_t within = at % kSwizzleUnit;
        units[count++] = swizzles(swizzle, at - within);
        if (within != 0) units[count++] = at - within + kSwizzleUnit;  // not aligned: it lies in two
      }
      cycles += arch::unit_cycles(units.data(), count);
    }
  }
  return cycles;
}

// One past the last byte of rows that each reach from a multiple of 16 to another one. Units stay in their row of 128
// bytes, so that the end lies in the last of these.
std::uint64_t rows_end(const SwizzleTable& swizzles, Swizzle swizzle, std::uint64_t first, std::uint32_t rows,
                       std::uint32_t pitch, std::uint32_t bytes) {
  const std::uint64_t last = first + std::uint64_t{pitch} * (rows - 1);
  const std::uint64_t end = last + bytes;
  if (swizzle == Swizzle::none || end > ~std::uint32_t{0}) return end;
  const auto line = static_cast<std::uint32_t>(arch::line_of(end - 1));
  std::uint32_t highest = 0;
  for (std::uint64_t row = last; row + bytes > line; row -= pitch) {
    for (std::uint32_t at = std::max(line, static_cast<std::uint32_t>(row)); at < row + bytes; at += kSwizzleUnit) {
      highest = std::max(highest, swizzles(swizzle, at) + kSwizzleUnit);
    }
    if (row == first || pitch == 0) break;
  }
  return highest;
}

}  // namespace

bool tile_exists(const MatmulTile& tile) {
  const auto lies = [](Swizzle swizzle, std::uint32_t offset, std::uint32_t pitch) {
    const std::uint32_t unit = swizzle == Swizzle::none ? 2 : kSwizzleUnit;
    return offset % unit == 0 && pitch % unit == 0;
  };
  const bool type = tile.type == arch::ValueType::f16 || tile.type == arch::ValueType::bf16;
  return lies(tile.a_swizzle, tile.a, tile.a_pitch) && lies(tile.b_swizzle, tile.b, tile.b_pitch) && type &&
         tile.n >= 8 && tile.n <= kMaxTileColumns && tile.n % 8 == 0 && tile.k >= kStep && tile.k % kStep == 0;
}

std::uint64_t tile_end(const MatmulTile& tile, const SwizzleTable& swizzles) {
  const std::uint32_t b_rows = tile.b_transposed ? tile.n : tile.k;
  const std::uint32_t b_columns = tile.b_transposed ? tile.k : tile.n;
  return std::max(rows_end(swizzles, tile.a_swizzle, tile.a, kTileRows, tile.a_pitch, 2 * tile.k),
                  rows_end(swizzles, tile.b_swizzle, tile.b, b_rows, tile.b_pitch, 2 * b_columns));
}

std::uint64_t tile_bytes(const MatmulTile& tile) {
  return std::uint64_t{2} * tile.k * kTileRows + std::uint64_t{2} * tile.k * tile.n / 4;
}

std::uint64_t TileCosts::cycles(const MatmulTile& tile) {
  constexpr std::uint32_t kPeriod = 1024;
  Key key;
  key.a = tile.a % kPeriod;
  key.b = tile.b % kPeriod;
  key.a_pitch = tile.a_pitch;
  key.b_pitch = tile.b_pitch;
  key.n = tile.n;
  key.k = tile.k;
  key.layout = static_cast<std::uint32_t>(tile.a_swizzle) << 8 | static_cast<std::uint32_t>(tile.b_swizzle) << 1 |
               static_cast<std::uint32_t>(tile.b_transposed);
  // Mostly tiles differ by where they begin.
  Known& known = known_[(key.a / kSwizzleUnit * 7 + key.b / kSwizzleUnit) % kKnown];
  if (known.key == key) return known.cycles;
  const std::uint64_t a = core_cycles(swizzles_, tile.a_swizzle, tile.a, kTileRows, tile.a_pitch, 2 * tile.k);
  const std::uint64_t b = core_cycles(swizzles_, tile.b_swizzle, tile.b, tile.b_transposed ? tile.n : tile.k,
                                      tile.b_pitch, 2 * (tile.b_transposed ? tile.k : tile.n));
  known = {key, a + (b + 3) / 4};
  return known.cycles;
}

void matmul(const MatmulTile& tile, const SwizzleTable& swizzles, const std::uint8_t* shared,
            std::uint32_t* accumulators) {
  HEDDLE_CHECK(tile_exists(tile), "no such matrix multiply");
  if (tile.type == arch::ValueType::f16) {
    run<F16>(tile, swizzles, shared, accumulators);
  } else {
    run<Bf16>(tile, swizzles, shared, accumulators);
  }
}

}  // namespace heddle::sm
