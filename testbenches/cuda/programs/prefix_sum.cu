// Inclusive prefix sums in three kernels of one stream, one of them launched with a pointer into what another wrote.
#include <vector>

#include "check.cuh"

constexpr int kBlock = 128;

__global__ void scan_blocks(const int* in, int* out, int* sums, int n) {
  __shared__ int parts[2][kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  int from = 0;
  parts[0][threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int step = 1; step < kBlock; step *= 2) {
    const int to = 1 - from;
    const int before = threadIdx.x >= step ? parts[from][threadIdx.x - step] : 0;
    parts[to][threadIdx.x] = parts[from][threadIdx.x] + before;
    from = to;
    __syncthreads();
  }
  if (i < n) out[i] = parts[from][threadIdx.x];
  if (sums != nullptr && threadIdx.x == kBlock - 1) sums[blockIdx.x] = parts[from][threadIdx.x];
}

__global__ void add_before(int* out, const int* sums, int n) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (blockIdx.x > 0 && i < n) out[i] += sums[blockIdx.x - 1];
}

int main() {
  const int n = 10'000;
  const int blocks = (n + kBlock - 1) / kBlock;
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = (i * 7) % 13 - 5;
  int *din, *dout, *sums;
  CHECK(cudaMalloc(&din, n * 4));
  CHECK(cudaMalloc(&dout, n * 4));
  CHECK(cudaMalloc(&sums, 2 * blocks * 4));
  CHECK(cudaMemcpy(din, in.data(), n * 4, cudaMemcpyHostToDevice));
  scan_blocks<<<blocks, kBlock>>>(din, dout, sums, n);
  scan_blocks<<<1, kBlock>>>(sums, sums + blocks, nullptr, blocks);
  add_before<<<blocks, kBlock>>>(dout, sums + blocks, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), dout, n * 4, cudaMemcpyDeviceToHost));
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += in[i];
    REQUIRE(out[i] == sum);
  }
  std::puts("prefix_sum: ok");
  return 0;
}
