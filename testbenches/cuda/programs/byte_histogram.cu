// Counts bytes: atomics in shared memory, then in global memory that cudaMemset has cleared.
#include <vector>

#include "check.cuh"

__global__ void count(const unsigned char* bytes, unsigned* bins, int n) {
  __shared__ unsigned mine[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[bytes[i]], 1U);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (mine[i] != 0) atomicAdd(&bins[i], mine[i]);
  }
}

int main() {
  const int n = 12'345;
  std::vector<unsigned char> bytes(n);
  std::vector<unsigned> expected(256), got(256);
  unsigned random = 1;
  for (int i = 0; i < n; ++i) {
    random = random * 1664525U + 1013904223U;
    bytes[i] = static_cast<unsigned char>(random >> 24);
    ++expected[bytes[i]];
  }
  unsigned char* data;
  unsigned* bins;
  CHECK(cudaMalloc(&data, n));
  CHECK(cudaMalloc(&bins, 1024));
  CHECK(cudaMemset(bins, 0xff, 1024));
  CHECK(cudaMemset(bins, 0, 1024));
  CHECK(cudaMemcpy(data, bytes.data(), n, cudaMemcpyHostToDevice));
  count<<<4, 256>>>(data, bins, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got.data(), bins, 1024, cudaMemcpyDeviceToHost));
  REQUIRE(got == expected);
  // A fill that begins and ends within words.
  std::vector<unsigned char> part(64, 1);
  CHECK(cudaMemset(data, 7, 64));
  CHECK(cudaMemset(data + 5, 9, 18));
  CHECK(cudaMemcpy(part.data(), data, 64, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) REQUIRE(part[i] == (i >= 5 && i < 23 ? 9 : 7));
  std::puts("byte_histogram: ok");
  return 0;
}
