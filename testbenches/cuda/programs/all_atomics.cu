// Every thread changes the same words, in each of the ways that there are.
#include <vector>

#include "check.cuh"

__global__ void change(int* words, unsigned* wrapped) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&words[0], 10);
  atomicSub(&words[1], i);
  atomicMax(&words[2], i);
  atomicMin(&words[3], -i);
  atomicAnd(&words[4], 2 * i + 7);
  atomicOr(&words[5], 1 << (i % 8));
  atomicXor(&words[6], i);
  for (int old = words[7], seen; (seen = atomicCAS(&words[7], old, old + 3)) != old; old = seen) {
  }
  atomicInc(&wrapped[0], 17);
  atomicDec(&wrapped[1], 137);
  atomicExch(&words[8], i);
}

int main() {
  const int threads = 256;
  std::vector<int> words(9, 0);
  words[4] = 0xff;
  words[8] = -1;
  std::vector<unsigned> wrapped(2, 0);
  int* device;
  unsigned* counters;
  CHECK(cudaMalloc(&device, words.size() * 4));
  CHECK(cudaMalloc(&counters, 8));
  CHECK(cudaMemcpy(device, words.data(), words.size() * 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(counters, wrapped.data(), 8, cudaMemcpyHostToDevice));
  change<<<4, threads / 4>>>(device, counters);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(words.data(), device, words.size() * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(wrapped.data(), counters, 8, cudaMemcpyDeviceToHost));
  int expected_and = 0xff;
  int expected_xor = 0;
  unsigned up = 0;
  unsigned down = 0;
  for (int i = 0; i < threads; ++i) {
    expected_and &= 2 * i + 7;
    expected_xor ^= i;
    up = up >= 17 ? 0 : up + 1;
    down = down == 0 || down > 137 ? 137 : down - 1;
  }
  REQUIRE(words[0] == 10 * threads);
  REQUIRE(words[1] == -threads * (threads - 1) / 2);
  REQUIRE(words[2] == threads - 1);
  REQUIRE(words[3] == 1 - threads);
  REQUIRE(words[4] == expected_and);
  REQUIRE(words[5] == 0xff);
  REQUIRE(words[6] == expected_xor);
  REQUIRE(words[7] == 3 * threads);
  REQUIRE(words[8] >= 0 && words[8] < threads);
  REQUIRE(wrapped[0] == up && wrapped[1] == down);
  std::puts("all_atomics: ok");
  return 0;
}
