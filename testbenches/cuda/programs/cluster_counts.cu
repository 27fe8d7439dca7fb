// A histogram whose bins lie in the shared memory of the CTAs of a cluster (distributed shared memory).
#include <cooperative_groups.h>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

constexpr int kBins = 96;

__global__ void count(const int* values, int n, unsigned* bins) {
  extern __shared__ unsigned mine[];
  cg::cluster_group cluster = cg::this_cluster();
  const int per_cta = kBins / cluster.num_blocks();
  for (int i = threadIdx.x; i < per_cta; i += blockDim.x) mine[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned* theirs = cluster.map_shared_rank(mine, values[i] / per_cta);
    atomicAdd(theirs + values[i] % per_cta, 1U);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < per_cta; i += blockDim.x) {
    atomicAdd(&bins[cluster.block_rank() * per_cta + i], mine[i]);
  }
}

int main() {
  int n = 5000;
  std::vector<int> values(n);
  std::vector<unsigned> expected(kBins), got(kBins);
  for (int i = 0; i < n; ++i) {
    values[i] = i * i % kBins;
    ++expected[values[i]];
  }
  int* data;
  unsigned* bins;
  CHECK(cudaMalloc(&data, n * 4));
  CHECK(cudaMalloc(&bins, kBins * 4));
  CHECK(cudaMemcpy(data, values.data(), n * 4, cudaMemcpyHostToDevice));
  for (int size = 2; size <= 4; size *= 2) {
    CHECK(cudaMemset(bins, 0, kBins * 4));
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(8);
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = kBins / size * sizeof(unsigned);
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    CHECK(cudaOccupancyMaxActiveClusters(&clusters, count, &config));
    REQUIRE(clusters > 0);
    CHECK(cudaLaunchKernelEx(&config, count, static_cast<const int*>(data), n, bins));
    CHECK(cudaMemcpy(got.data(), bins, kBins * 4, cudaMemcpyDeviceToHost));
    REQUIRE(got == expected);
  }
  std::puts("cluster_counts: ok");
  return 0;
}
