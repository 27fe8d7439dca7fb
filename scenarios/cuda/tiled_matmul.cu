// C = A B of single-precision matrices in rows: A has m rows and k columns, B has k rows and n columns. A CTA works out
// a tile of 16 by 16 elements of C, and brings the tiles of A and B that it needs to shared memory one after the other.
// Launch: blocks of 16 by 16 threads; ceil(n / 16) by ceil(m / 16) CTAs.
constexpr int kTile = 16;

extern "C" __global__ void __launch_bounds__(kTile* kTile)
    tiled_matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int from = 0; from < k; from += kTile) {
    const int column_a = from + threadIdx.x;
    const int row_b = from + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < m && column_a < k ? a[row * k + column_a] : 0;
    tile_b[threadIdx.y][threadIdx.x] = row_b < k && column < n ? b[row_b * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
