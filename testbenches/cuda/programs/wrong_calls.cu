// What is wrong is told: by the call, by cudaGetLastError once, and for good when a kernel has gone astray.
#include <cstring>

#include "check.cuh"

__global__ void touch(int* word) { *word = 1; }

int main() {
  int* word;
  CHECK(cudaMalloc(&word, 4));
  REQUIRE(cudaMemcpy(word, &word, 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  touch<<<1, 2048>>>(word);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidConfiguration);
  touch<<<1, 1, 100'000>>>(word);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(touch, cudaFuncAttributeMaxDynamicSharedMemorySize, 100'000));
  touch<<<1, 1, 100'000>>>(word);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  REQUIRE(cudaFree(word + 1) == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, std::size_t{1} << 46) == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaSetDevice(1) == cudaErrorInvalidDevice);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice);
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format{32, 0, 0, 0, cudaChannelFormatKindFloat};
  REQUIRE(cudaMallocArray(&array, &format, 16, 16, 0) == cudaErrorNotSupported);
  REQUIRE(cudaGetLastError() == cudaErrorNotSupported);
  REQUIRE(std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
  touch<<<1, 1>>>(reinterpret_cast<int*>(std::size_t{1} << 45));
  CHECK(cudaGetLastError());
  REQUIRE(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
  REQUIRE(cudaMalloc(&word, 4) == cudaErrorIllegalAddress);
  std::puts("wrong_calls: ok");
  return 0;
}
