// The arithmetic units of the sub-partitions: compute operations, and special registers (SM-01, CGA-10).
#pragma once

#include <array>
#include <cstdint>

#include "arch/tensor_descriptor.h"
#include "arch/warp_program.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class WarpScheduler;

class Alu final : private SmUnit, public IssueUnit {
 public:
  Alu(const UnitContext& context, WarpScheduler& scheduler);

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  // A compute operation issues as many of its instructions as may go without a break: never more than a burst, as other
  // warps may come meanwhile.
  IssueResult go_on(std::uint32_t slot);

 private:
  IssueResult elect(std::uint32_t slot, const arch::Operation& operation);
  IssueResult read_special(std::uint32_t slot, const arch::Operation& operation);
  std::uint64_t special(std::uint32_t slot, arch::SpecialRegister which) const;

  WarpScheduler& scheduler_;
  std::array<std::uint32_t, arch::kUnits> interval_{};  // cycles of a warp instruction in its unit
  std::array<std::uint32_t, arch::kUnits> latency_{};
};

// A warp's share of a matrix multiply, on real data (SM-04, TMA-22), and what its operands cost (TMA-21).

// False for shapes and types that do not exist, and for pitches and offsets that are not even; with a swizzle, not
// multiples of 16.
bool tile_exists(const arch::MatmulTile& tile);

// One past the last byte of shared memory that the tile reads. Only of a tile that exists.
std::uint64_t tile_end(const arch::MatmulTile& tile, const arch::SwizzleTable& swizzles);

// Bytes that the tile takes from shared memory for this warp: its A, and a quarter of B, which the four warps of a
// warpgroup fetch once.
std::uint64_t tile_bytes(const arch::MatmulTile& tile);

// visit(offset, bytes) for what the tile reads, in parts of at most 16 bytes or, without a swizzle, whole rows, until
// it says no.
template <class Visit>
void each_part(const arch::MatmulTile& tile, const arch::SwizzleTable& swizzles, Visit&& visit) {
  const auto rows = [&](const arch::TileRows& its, std::uint32_t count, std::uint32_t bytes, arch::Swizzle swizzle) {
    const std::uint32_t part = swizzle == arch::Swizzle::none ? bytes : arch::swizzle_grain(swizzle);
    for (std::uint32_t row = 0; row < count; ++row) {
      for (std::uint32_t byte = 0; byte < bytes; byte += part) {
        const std::uint64_t at = its.at(row) + byte;
        const std::uint64_t there = swizzle == arch::Swizzle::none || at > ~std::uint32_t{0}
                                        ? at
                                        : swizzles(swizzle, static_cast<std::uint32_t>(at));
        if (!visit(there, part)) return false;
      }
    }
    return true;
  };
  if (!rows(arch::rows_of_a(tile), arch::kTileRows, 2 * tile.k, tile.a_swizzle)) return;
  const bool turned = tile.b_transposed;
  rows(arch::rows_of_b(tile), turned ? tile.n : tile.k, 2 * (turned ? tile.k : tile.n), tile.b_swizzle);
}

// Cycles of the port of shared memory for the operands of a tile. They are read as core matrices of 8 rows of 16 bytes,
// each in one cycle if its rows lie in different bank groups; B is shared by the four warps of a warpgroup.
class TileCosts {
 public:
  // `swizzles` must outlive it.
  explicit TileCosts(const arch::SwizzleTable& swizzles) : swizzles_(swizzles) {}

  std::uint64_t cycles(const arch::MatmulTile& tile);

 private:
  // What a cost depends on: of offsets, where they are in the largest pattern of banks and swizzle.
  struct Key {
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t a_pitch = 0;
    std::uint32_t b_pitch = 0;
    std::uint32_t a_group = 0;
    std::uint32_t b_group = 0;
    std::uint32_t n = 0;  // 0: none
    std::uint32_t k = 0;
    std::uint32_t layout = 0;

    friend bool operator==(const Key& x, const Key& y) {
      return x.a == y.a && x.b == y.b && x.a_pitch == y.a_pitch && x.b_pitch == y.b_pitch && x.a_group == y.a_group &&
             x.b_group == y.b_group && x.n == y.n && x.k == y.k && x.layout == y.layout;
    }
  };
  struct Known {
    Key key;
    std::uint64_t cycles = 0;
  };
  static constexpr std::size_t kKnown = 32;

  const arch::SwizzleTable& swizzles_;
  std::array<Known, kKnown> known_{};
};

// `shared` has at least tile_end() bytes; `accumulators` is WarpState::of(first): [register][lane].
//
// Every element is summed in order of k, from the accumulator's value: one rounding per product and one per addition,
// to nearest even, in f32. Subnormals count; infinities and NaNs do what IEEE 754 says. A NaN that results is kNanF32.
void matmul(const arch::MatmulTile& tile, const arch::SwizzleTable& swizzles, const std::uint8_t* shared,
            std::uint32_t* accumulators);

}  // namespace heddle::sm
