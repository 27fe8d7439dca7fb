// C = A B in tiles of shared memory, with a part of a tile at the edges.
#include <vector>

#include "check.cuh"

constexpr int kTile = 16;

__global__ void multiply(const int* a, const int* b, int* c, int n) {
  __shared__ int left[kTile][kTile];
  __shared__ int right[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  int sum = 0;
  for (int tile = 0; tile < n; tile += kTile) {
    left[threadIdx.y][threadIdx.x] = row < n && tile + threadIdx.x < n ? a[row * n + tile + threadIdx.x] : 0;
    right[threadIdx.y][threadIdx.x] = column < n && tile + threadIdx.y < n ? b[(tile + threadIdx.y) * n + column] : 0;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

int main() {
  const int n = 50;
  std::vector<int> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = i % 17 - 8;
    b[i] = i % 23 - 11;
  }
  int *da, *db, *dc;
  CHECK(cudaMalloc(&da, a.size() * 4));
  CHECK(cudaMalloc(&db, b.size() * 4));
  CHECK(cudaMalloc(&dc, c.size() * 4));
  CHECK(cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyDefault));
  CHECK(cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyDefault));
  const int tiles = (n + kTile - 1) / kTile;
  multiply<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(da, db, dc, n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDefault));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      int sum = 0;
      for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
      REQUIRE(c[i * n + j] == sum);
    }
  }
  std::puts("tiled_product: ok");
  return 0;
}
