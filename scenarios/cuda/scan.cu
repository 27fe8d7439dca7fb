// The inclusive sums of n integers, in one pass: sums[i] = values[0] + … + values[i]. Each CTA takes the next part of
// 256 elements, scans it, waits for what the CTAs in front of it add up to, and hands on its own sum. Parts are drawn
// from a counter, so that a CTA waits only for CTAs that run already.
// Launch: blocks of 256 threads, ceil(n / 256) CTAs. `state` has one 64-bit word per CTA and one more, all zero before:
// the first is the counter; of the others the low half is a sum and the high half says whether it is there.
constexpr int kPart = 256;

extern "C" __global__ void __launch_bounds__(kPart)
    inclusive_scan(const int* values, int* sums, unsigned long long* state, int n) {
  __shared__ int part_of_cta;
  __shared__ int warp_sums[kPart / 32];
  __shared__ int sum_before;
  if (threadIdx.x == 0) part_of_cta = static_cast<int>(atomicAdd(state, 1ULL));
  __syncthreads();
  const int part = part_of_cta;
  const int i = part * kPart + threadIdx.x;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;

  int sum = i < n ? values[i] : 0;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFF, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += warp_sums[w];

  if (threadIdx.x == kPart - 1) {
    constexpr unsigned long long kThere = 1ULL << 32;
    volatile unsigned long long* of_parts = state + 1;
    unsigned long long before = 0;
    if (part > 0) {
      do {
        before = of_parts[part - 1];
      } while (before < kThere);
    }
    sum_before = static_cast<int>(static_cast<unsigned int>(before));
    of_parts[part] = kThere | static_cast<unsigned int>(sum_before + sum);
  }
  __syncthreads();
  if (i < n) sums[i] = sum_before + sum;
}
