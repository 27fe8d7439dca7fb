// A cooperative grid, whose CTAs meet: rounds of a relaxation, each of which needs all of the one before.
#include <cooperative_groups.h>
#include <vector>

#include "check.cuh"

namespace cg = cooperative_groups;

__global__ void relax(int* from, int* to, int n, int rounds) {
  cg::grid_group grid = cg::this_grid();
  for (int round = 0; round < rounds; ++round) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) {
      to[i] = from[(i + n - 1) % n] + from[(i + 1) % n] - from[i];
    }
    grid.sync();
    int* other = from;
    from = to;
    to = other;
  }
}

int main() {
  int cooperative = 0;
  CHECK(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, 0));
  REQUIRE(cooperative == 1);
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, relax, 128, 0));
  REQUIRE(blocks >= 1 && blocks <= 32);
  int n = 2000;
  int rounds = 4;
  std::vector<int> values(n), next(n);
  for (int i = 0; i < n; ++i) values[i] = i % 11;
  int *from, *to;
  CHECK(cudaMalloc(&from, n * 4));
  CHECK(cudaMalloc(&to, n * 4));
  CHECK(cudaMemcpy(from, values.data(), n * 4, cudaMemcpyHostToDevice));
  void* arguments[] = {&from, &to, &n, &rounds};
  CHECK(cudaLaunchCooperativeKernel(relax, dim3(6), dim3(128), arguments, 0, nullptr));
  CHECK(cudaDeviceSynchronize());
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < n; ++i) next[i] = values[(i + n - 1) % n] + values[(i + 1) % n] - values[i];
    values.swap(next);
  }
  CHECK(cudaMemcpy(next.data(), from, n * 4, cudaMemcpyDeviceToHost));
  REQUIRE(next == values);
  // More than the machine holds at once.
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceProperties(&prop, 0));
  const int most = blocks * prop.multiProcessorCount;
  REQUIRE(cudaLaunchCooperativeKernel(relax, dim3(most + 1), dim3(128), arguments, 0, nullptr) ==
          cudaErrorCooperativeLaunchTooLarge);
  REQUIRE(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  std::puts("grid_meeting: ok");
  return 0;
}
