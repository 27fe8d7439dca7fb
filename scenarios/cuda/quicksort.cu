// Sorts n integers in place. One CTA splits its range around a pivot, and launches a kernel for either half; short
// ranges, and those that are nested deeply, are sorted where they are.
// Launch: one CTA of 64 threads with depth 0. Compiled with -rdc=true: kernels are launched on the device.
constexpr int kThreads = 64;
constexpr int kShort = 64;     // elements
constexpr int kMaxDepth = 16;  // of launches

// Odd-even transposition: in each round, neighbours are exchanged where they are out of order.
__device__ void sort_short(int* values, int n) {
  for (int round = 0; round < n; ++round) {
    for (int i = 2 * threadIdx.x + round % 2; i + 1 < n; i += 2 * kThreads) {
      const int a = values[i];
      const int b = values[i + 1];
      values[i] = min(a, b);
      values[i + 1] = max(a, b);
    }
    __syncthreads();
  }
}

// Elements below the middle one of three come to the front. Where the others begin; not 0 and not n.
__device__ int split(int* values, int n) {
  const int first = values[0];
  const int middle = values[n / 2];
  const int last = values[n - 1];
  const int pivot = max(min(first, middle), min(max(first, middle), last));
  int i = -1;
  int j = n;
  while (true) {
    do ++i;
    while (values[i] < pivot);
    do --j;
    while (values[j] > pivot);
    if (i >= j) return j + 1;
    const int value = values[i];
    values[i] = values[j];
    values[j] = value;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) quicksort(int* values, int n, int depth) {
  if (n <= kShort || depth == kMaxDepth) {
    sort_short(values, n);
    return;
  }
  if (threadIdx.x != 0) return;
  const int at = split(values, n);
  quicksort<<<1, kThreads, 0, cudaStreamFireAndForget>>>(values, at, depth + 1);
  quicksort<<<1, kThreads, 0, cudaStreamFireAndForget>>>(values + at, n - at, depth + 1);
}
