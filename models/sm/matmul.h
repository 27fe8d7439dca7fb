// A warp's share of a matrix multiply, on real data (SM-04).
#pragma once

#include <cstdint>

#include "arch/warp_program.h"

namespace heddle::sm {

// False for shapes and types that do not exist, and for pitches and offsets that are not even.
bool tile_exists(const arch::MatmulTile& tile);

// One past the last byte of shared memory that the tile reads.
std::uint64_t tile_end(const arch::MatmulTile& tile);

// Bytes that the tile takes from shared memory for this warp: its A, and a quarter of B, which the four warps of a
// warpgroup fetch once.
std::uint64_t tile_bytes(const arch::MatmulTile& tile);

// `shared` has at least tile_end() bytes; `accumulators` is WarpState::of(first): [register][lane].
//
// Every element is summed in order of k, from the accumulator's value: one rounding per product and one per addition,
// to nearest even, in f32. Subnormals count; infinities and NaNs do what IEEE 754 says. A NaN that results is kNanF32.
void matmul(const arch::MatmulTile& tile, const std::uint8_t* shared, std::uint32_t* accumulators);

}  // namespace heddle::sm
