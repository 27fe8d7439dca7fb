// Adds up n integers to *sum, which is zero before: within warps by shuffles, between the warps of a CTA through shared
// memory, and between CTAs by an atomic. Integers, so that the order of the additions does not show.
// Launch: blocks of one dimension, a multiple of 32 threads and at most 1024; any number of CTAs.
__device__ int sum_of_warp(int value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xFFFFFFFF, value, distance);
  return value;
}

extern "C" __global__ void shuffle_reduce(const int* values, int* sum, int n) {
  __shared__ int sums[32];
  int value = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) value += values[i];
  value = sum_of_warp(value);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  if (warp != 0) return;
  value = lane < (blockDim.x + 31) / 32 ? sums[lane] : 0;
  value = sum_of_warp(value);
  if (lane == 0) atomicAdd(sum, value);
}
