// How often each value from 0 to bins - 1 occurs among n of them, with the counters spread over the shared memory of a
// cluster's CTAs: a CTA of rank r keeps those from r * part to (r + 1) * part - 1, part = ceil(bins / CTAs of a
// cluster). Values outside of the bins count for nothing. Launch: clusters of any shape of one dimension, blocks of one
// dimension, 4 * part bytes of dynamic shared memory. `counters` are zero before.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void cluster_histogram(const int* values, unsigned int* counters, int n, int bins) {
  extern __shared__ unsigned int own[];
  const cg::cluster_group cluster = cg::this_cluster();
  const int ranks = static_cast<int>(cluster.num_blocks());
  const int rank = static_cast<int>(cluster.block_rank());
  const int part = (bins + ranks - 1) / ranks;

  for (int i = threadIdx.x; i < part; i += blockDim.x) own[i] = 0;
  cluster.sync();

  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const int value = values[i];
    if (value < 0 || value >= bins) continue;
    unsigned int* there = cluster.map_shared_rank(own, value / part);
    atomicAdd(there + value % part, 1U);
  }
  cluster.sync();

  for (int i = threadIdx.x; i < part; i += blockDim.x) {
    const int value = rank * part + i;
    if (value < bins) atomicAdd(counters + value, own[i]);
  }
}
