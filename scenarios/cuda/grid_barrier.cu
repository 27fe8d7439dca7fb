// Smooths n numbers `rounds` times: each becomes the mean of its neighbours, and those at the ends stay. Between rounds
// all CTAs of the grid wait for each other.
// Launch: cooperative, blocks of one dimension, so many CTAs as run at a time. The result is in `a` after an even
// number of rounds, and in `b` after an odd one.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void smooth(float* a, float* b, int n, int rounds) {
  const cg::grid_group grid = cg::this_grid();
  const int threads = gridDim.x * blockDim.x;
  float* from = a;
  float* to = b;
  for (int round = 0; round < rounds; ++round) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
      const bool at_end = i == 0 || i == n - 1;
      to[i] = at_end ? from[i] : 0.5F * (from[i - 1] + from[i + 1]);
    }
    grid.sync();
    float* const other = from;
    from = to;
    to = other;
  }
}
