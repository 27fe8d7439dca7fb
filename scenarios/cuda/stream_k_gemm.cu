// C = A B^T, of half-precision matrices A (m rows of k) and B (n rows of k) and a single-precision one C (m rows of n).
//
// A cluster of two CTAs works on tiles of 128 by 64 elements of C, each CTA on 64 rows of them. Both need the same tile
// of B: each loads half of it, for both (multicast). The work is divided as in Stream-K: all steps of all tiles, of 64
// elements of k each, are one long row, of which every cluster takes an equal piece. Where a piece has all of a tile,
// the result is stored; where it has a part of it, it is added by atomics. Warps 0 to 3 multiply (wgmma), a thread of
// warp 4 loads (TMA); kStages tiles are on their way at a time.
//
// Launch: blocks of 160 threads; an even number of CTAs; 66560 bytes of dynamic shared memory (four times two tiles of
// 8192, and room to begin at a multiple of 1024). m is a multiple of 128; n and k are multiples of 64. C is zero
// before. Tensor maps of halves with a swizzle of 128 bytes: `map_a` of {k, m} with boxes of {64, 64}, `map_b` of {k,
// n} with boxes of {64, 32}.
#include <cooperative_groups.h>

#include "tensor_copies.cuh"

namespace cg = cooperative_groups;

constexpr int kTile = 64;  // rows of A in a CTA, columns of C, elements of k
constexpr int kStages = 4;
constexpr std::uint32_t kTileBytes = kTile * kTile * 2;      // of A, and of B
constexpr int kMultipliers = 128;                            // threads
constexpr int kAccumulators = kTile * kTile / kMultipliers;  // of a thread

// How wgmma finds a tile in shared memory: rows of 128 bytes, swizzled, 8 rows in 1024 bytes.
__device__ std::uint64_t tile_descriptor(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = 1ULL << 62;
  constexpr std::uint64_t kStride = (1024ULL >> 4) << 32;
  return kSwizzle128 | kStride | 1ULL << 16 | (address & 0x3FFFFU) >> 4;
}

// d += a b^T of 64 by 16 and 64 by 16 elements.
__device__ void multiply(float (&d)[kAccumulators], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n"
      "  .reg .pred add;\n"
      "  setp.ne.b32 add, %34, 0;\n"
      "  wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n"
      "}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(1));
}

// The piece of the long row of steps that a cluster has, and what a step is.
struct Piece {
  int first, last, steps_per_tile, tiles_across;

  __device__ int tile_of(int step) const { return step / steps_per_tile; }
  __device__ int k_of(int step) const { return step % steps_per_tile * kTile; }
  __device__ int row_of(int step) const { return tile_of(step) / tiles_across * 2 * kTile; }
  __device__ int column_of(int step) const { return tile_of(step) % tiles_across * kTile; }
};

__device__ Piece piece_of(int cluster, int clusters, int m, int n, int k) {
  Piece piece;
  piece.steps_per_tile = k / kTile;
  piece.tiles_across = n / kTile;
  const long long steps = static_cast<long long>(m / (2 * kTile)) * piece.tiles_across * piece.steps_per_tile;
  piece.first = static_cast<int>(steps * cluster / clusters);
  piece.last = static_cast<int>(steps * (cluster + 1) / clusters);
  return piece;
}

// A thread of warp w has rows 16 w + lane / 4 and eight further; of every eight columns, two beside each other.
__device__ void write_tile(const float (&d)[kAccumulators], float* c, int row, int column, int n, bool whole) {
  const int lane = threadIdx.x % 32;
  row += threadIdx.x / 32 * 16 + lane / 4;
  column += lane % 4 * 2;
  for (int i = 0; i < kAccumulators; ++i) {
    float* const to = c + static_cast<long long>(row + i / 2 % 2 * 8) * n + column + i / 4 * 8 + i % 2;
    if (whole) {
      *to = d[i];
    } else {
      atomicAdd(to, d[i]);
    }
  }
}

__device__ void load(const Piece& piece, const CUtensorMap* map_a, const CUtensorMap* map_b, std::uint32_t tiles,
                     std::uint32_t full, std::uint32_t empty, int rank) {
  for (int step = piece.first; step < piece.last; ++step) {
    const int turn = (step - piece.first) / kStages;
    const int stage = (step - piece.first) % kStages;
    const std::uint32_t tile_a = tiles + stage * 2 * kTileBytes;
    const std::uint32_t half_b = tile_a + kTileBytes + rank * (kTileBytes / 2);
    // The stage is free when both CTAs have read it: each has half of its B from here.
    if (turn > 0) barrier_wait(empty + 8 * stage, (turn - 1) % 2);
    barrier_expect(full + 8 * stage, 2 * kTileBytes);
    load_tile(tile_a, map_a, piece.k_of(step), piece.row_of(step) + rank * kTile, full + 8 * stage);
    load_tile_to(0b11, half_b, map_b, piece.k_of(step), piece.column_of(step) + rank * (kTile / 2), full + 8 * stage);
  }
}

__device__ void multiply_all(const Piece& piece, std::uint32_t tiles, std::uint32_t full, std::uint32_t empty, int rank,
                             float* c, int n) {
  float sums[kAccumulators] = {};
  int first_of_tile = piece.first;
  for (int step = piece.first; step < piece.last; ++step) {
    const int turn = (step - piece.first) / kStages;
    const int stage = (step - piece.first) % kStages;
    barrier_wait(full + 8 * stage, turn % 2);
    const std::uint64_t a = tile_descriptor(tiles + stage * 2 * kTileBytes);
    const std::uint64_t b = tile_descriptor(tiles + stage * 2 * kTileBytes + kTileBytes);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int part = 0; part < 4; ++part)
      multiply(sums, a + 2 * part, b + 2 * part);  // 16 halves are two times 16 bytes
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (threadIdx.x % 32 < 2) barrier_arrive_at(empty + 8 * stage, threadIdx.x % 32);
    const bool ends_tile = step + 1 == piece.last || piece.tile_of(step + 1) != piece.tile_of(step);
    if (!ends_tile) continue;
    const bool whole = step + 1 - first_of_tile == piece.steps_per_tile;
    write_tile(sums, c, piece.row_of(step) + rank * kTile, piece.column_of(step), n, whole);
    for (float& sum : sums) sum = 0;
    first_of_tile = step + 1;
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kMultipliers + 32)
    stream_k_gemm(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* c, int m,
                  int n, int k) {
  extern __shared__ unsigned char memory[];
  __shared__ alignas(8) std::uint64_t barriers[2 * kStages];
  const cg::cluster_group cluster = cg::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const std::uint32_t tiles = (shared_address(memory) + 1023U) & ~1023U;
  const std::uint32_t full = shared_address(barriers);
  const std::uint32_t empty = full + 8 * kStages;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(full + 8 * stage, 1);
      barrier_init(empty + 8 * stage, 2 * kMultipliers / 32);  // each warp of both CTAs
    }
    barrier_init_fence();
  }
  cluster.sync();

  const Piece piece = piece_of(blockIdx.x / 2, gridDim.x / 2, m, n, k);
  if (threadIdx.x < kMultipliers) {
    multiply_all(piece, tiles, full, empty, rank, c, n);
  } else if (threadIdx.x == kMultipliers) {
    load(piece, &map_a, &map_b, tiles, full, empty, rank);
  }
  // Nobody goes while the other one may still write to its shared memory.
  cluster.sync();
}
