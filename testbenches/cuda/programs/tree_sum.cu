// A sum: within warps by shuffles, within CTAs by dynamic shared memory, and of all by an atomic; its result by a
// symbol.
#include <vector>

#include "check.cuh"

__device__ unsigned long long total = 0;
__constant__ int scale;

__global__ void sum(const int* values, int n) {
  extern __shared__ int parts[];
  int mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += values[i] * scale;
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(0xffffffff, mine, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    int all = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) all += parts[w];
    atomicAdd(&total, static_cast<unsigned long long>(all));
  }
}

int main() {
  const int n = 20'000;
  std::vector<int> values(n);
  unsigned long long expected = 0;
  for (int i = 0; i < n; ++i) {
    values[i] = i % 101;
    expected += 3ULL * values[i];
  }
  int* device;
  CHECK(cudaMalloc(&device, n * 4));
  CHECK(cudaMemcpy(device, values.data(), n * 4, cudaMemcpyHostToDevice));
  const int three = 3;
  CHECK(cudaMemcpyToSymbol(scale, &three, sizeof three));
  sum<<<8, 256, 8 * sizeof(int)>>>(device, n);
  CHECK(cudaGetLastError());
  unsigned long long got = 0;
  CHECK(cudaMemcpyFromSymbol(&got, total, sizeof got));
  REQUIRE(got == expected);
  // Again, from another number on.
  const unsigned long long seven = 7;
  CHECK(cudaMemcpyToSymbol(total, &seven, sizeof seven));
  sum<<<3, 128, 4 * sizeof(int)>>>(device, n);
  CHECK(cudaMemcpyFromSymbol(&got, total, sizeof got));
  REQUIRE(got == expected + 7);
  void* address = nullptr;
  std::size_t bytes = 0;
  CHECK(cudaGetSymbolAddress(&address, total));
  CHECK(cudaGetSymbolSize(&bytes, total));
  REQUIRE(address != nullptr && bytes == 8);
  std::puts("tree_sum: ok");
  return 0;
}
