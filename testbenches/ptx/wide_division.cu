// Quotients and remainders of 128 bits, which nvcc divides in 32-bit words with carries: wide_division.ptx is what
// `nvcc -ptx -arch=sm_90a` makes of this file.
extern "C" __global__ void wide_division(unsigned long long* words) {
  const unsigned __int128* operands = reinterpret_cast<const unsigned __int128*>(words) + 4 * threadIdx.x;
  unsigned __int128* results = reinterpret_cast<unsigned __int128*>(words) + 4 * threadIdx.x + 2;
  results[0] = operands[0] / operands[1];
  results[1] = operands[0] % operands[1];
}
