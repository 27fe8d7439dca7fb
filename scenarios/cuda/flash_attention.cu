// Attention of one head after the other, forward: out = softmax(Q K^T / sqrt(d)) V, with d = 64 halves per row, and
// sums in single precision. Rows of Q, K, V and out are `length` per head, heads one behind the other.
//
// A CTA has 64 rows of Q, each of its four warps 16 of them in registers. It goes along K and V in tiles of 64 rows,
// multiplies by tensor instructions (mma.sync), and keeps, per row, the largest product so far and the sum of the
// exponentials, so that what was summed up before can be scaled when a larger one comes.
//
// Launch: blocks of 128 threads; length / 64 by heads CTAs. length is a multiple of 64. With `causal`, a row sees
// itself and the rows before it.
#include <cstdint>
#include <cuda_fp16.h>

constexpr int kRows = 64;            // of Q in a CTA, and of K and V in a tile
constexpr int kWidth = 64;           // d
constexpr int kPadded = kWidth + 8;  // halves between rows in shared memory: rows begin in different banks
constexpr int kThreads = 128;

using Tile = __half[kRows][kPadded];

// 16 by 16 halves as an operand on the left; `transposed`: 16 by 16 as two operands on the right.
__device__ void load_fragments(std::uint32_t (&fragment)[4], const __half* row, bool transposed) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
  }
}

// d += a b, of 16 by 16 and 16 by 8 elements.
__device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ std::uint32_t two_halves(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

// 64 rows to shared memory, eight halves at a time.
__device__ void copy_tile(Tile& to, const __half* from) {
  for (int i = threadIdx.x; i < kRows * kWidth / 8; i += kThreads) {
    const int row = i / (kWidth / 8);
    const int column = i % (kWidth / 8) * 8;
    *reinterpret_cast<uint4*>(&to[row][column]) = *reinterpret_cast<const uint4*>(from + row * kWidth + column);
  }
}

// Of the four threads that share a row.
__device__ float largest_of_row(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFF, value, 2));
}
__device__ float sum_of_row(float value) {
  value += __shfl_xor_sync(0xFFFFFFFF, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFF, value, 2);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    flash_attention(const __half* q, const __half* k, const __half* v, __half* out, int length, int causal) {
  __shared__ alignas(16) Tile tile_q;
  __shared__ alignas(16) Tile tile_k;
  __shared__ alignas(16) Tile tile_v;
  const long long head = static_cast<long long>(blockIdx.y) * length * kWidth;
  const int first_row = blockIdx.x * kRows;
  const int lane = threadIdx.x % 32;
  const int warp_row = threadIdx.x / 32 * 16;
  // Exponentials are of base 2: e^x = 2^(x log2 e). 0.125 is 1 / sqrt(64).
  constexpr float kScale = 0.125F * 1.4426950408889634F;

  copy_tile(tile_q, q + head + static_cast<long long>(first_row) * kWidth);
  __syncthreads();
  std::uint32_t rows_q[kWidth / 16][4];
  for (int i = 0; i < kWidth / 16; ++i) {
    load_fragments(rows_q[i], &tile_q[warp_row + lane % 16][16 * i + lane / 16 * 8], false);
  }

  float sums[kWidth / 8][4] = {};  // of the two rows of this thread: elements 0 and 1 of one, 2 and 3 of the other
  float largest[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};
  const int tiles = causal != 0 ? blockIdx.x + 1 : length / kRows;
  for (int tile = 0; tile < tiles; ++tile) {
    const long long at = head + static_cast<long long>(tile) * kRows * kWidth;
    copy_tile(tile_k, k + at);
    copy_tile(tile_v, v + at);
    __syncthreads();

    float products[kRows / 8][4] = {};
    for (int column = 0; column < kRows; column += 16) {
      for (int i = 0; i < kWidth / 16; ++i) {
        std::uint32_t part[4];  // rows of K are columns of K^T as they are
        load_fragments(part, &tile_k[column + lane % 8 + lane / 16 * 8][16 * i + lane / 8 % 2 * 8], false);
        multiply(products[column / 8], rows_q[i], part[0], part[1]);
        multiply(products[column / 8 + 1], rows_q[i], part[2], part[3]);
      }
    }

    float tile_largest[2] = {-INFINITY, -INFINITY};
    for (int j = 0; j < kRows / 8; ++j) {
      for (int e = 0; e < 4; ++e) {
        const int row = first_row + warp_row + lane / 4 + e / 2 * 8;
        const int column = tile * kRows + 8 * j + lane % 4 * 2 + e % 2;
        products[j][e] = causal != 0 && column > row ? -INFINITY : products[j][e] * kScale;
        tile_largest[e / 2] = fmaxf(tile_largest[e / 2], products[j][e]);
      }
    }
    for (int half = 0; half < 2; ++half) {
      // Every row sees one element of each tile at least, so this is finite.
      const float now = fmaxf(largest[half], largest_of_row(tile_largest[half]));
      const float scale = exp2f(largest[half] - now);
      largest[half] = now;
      float tile_total = 0;
      for (int j = 0; j < kRows / 8; ++j) {
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          products[j][e] = exp2f(products[j][e] - now);
          tile_total += products[j][e];
        }
      }
      total[half] = total[half] * scale + sum_of_row(tile_total);
      for (int j = 0; j < kWidth / 8; ++j) {
        sums[j][2 * half] *= scale;
        sums[j][2 * half + 1] *= scale;
      }
    }

    for (int i = 0; i < kRows / 16; ++i) {
      // Products lie in registers as an operand on the left does.
      const std::uint32_t weights[4] = {two_halves(products[2 * i][0], products[2 * i][1]),
                                        two_halves(products[2 * i][2], products[2 * i][3]),
                                        two_halves(products[2 * i + 1][0], products[2 * i + 1][1]),
                                        two_halves(products[2 * i + 1][2], products[2 * i + 1][3])};
      for (int column = 0; column < kWidth; column += 16) {
        std::uint32_t part[4];
        load_fragments(part, &tile_v[16 * i + lane % 16][column + lane / 16 * 8], true);
        multiply(sums[column / 8], weights, part[0], part[1]);
        multiply(sums[column / 8 + 1], weights, part[2], part[3]);
      }
    }
    __syncthreads();
  }

  for (int half = 0; half < 2; ++half) {
    const int row = first_row + warp_row + lane / 4 + 8 * half;
    __half* const to = out + head + static_cast<long long>(row) * kWidth + lane % 4 * 2;
    for (int j = 0; j < kWidth / 8; ++j) {
      const __half2 both = __floats2half2_rn(sums[j][2 * half] / total[half], sums[j][2 * half + 1] / total[half]);
      *reinterpret_cast<__half2*>(to + 8 * j) = both;
    }
  }
}
