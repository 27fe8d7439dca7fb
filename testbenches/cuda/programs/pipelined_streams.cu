// Copies and kernels of two streams beside each other, events that order and time them, priorities, host functions.
#include <vector>

#include "check.cuh"

__global__ void square(int* values, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= values[i];
}

__global__ void add_of(const int* from, int* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] += from[i];
}

void CUDART_CB told(void* flag) { *static_cast<int*>(flag) = 1; }

int main() {
  const int n = 4096;
  int least = 0;
  int greatest = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  REQUIRE(greatest < least);
  cudaStream_t streams[2];
  CHECK(cudaStreamCreateWithPriority(&streams[0], cudaStreamNonBlocking, greatest));
  CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
  cudaEvent_t begin, middle, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&middle));
  CHECK(cudaEventCreate(&end));
  int* host[2];
  int* device[2];
  for (int s = 0; s < 2; ++s) {
    CHECK(cudaMallocHost(&host[s], n * 4));
    CHECK(cudaMalloc(&device[s], n * 4));
    for (int i = 0; i < n; ++i) host[s][i] = i % 100 + s;
  }
  CHECK(cudaEventRecord(begin, streams[0]));
  for (int s = 0; s < 2; ++s) {
    CHECK(cudaMemcpyAsync(device[s], host[s], n * 4, cudaMemcpyHostToDevice, streams[s]));
    square<<<n / 256, 256, 0, streams[s]>>>(device[s], n);
  }
  CHECK(cudaEventRecord(middle, streams[1]));
  CHECK(cudaStreamWaitEvent(streams[0], middle, 0));
  add_of<<<n / 256, 256, 0, streams[0]>>>(device[1], device[0], n);
  CHECK(cudaMemcpyAsync(host[0], device[0], n * 4, cudaMemcpyDeviceToHost, streams[0]));
  CHECK(cudaEventRecord(end, streams[0]));
  REQUIRE(cudaEventQuery(end) == cudaErrorNotReady);
  int flag = 0;
  CHECK(cudaLaunchHostFunc(streams[0], told, &flag));
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaEventQuery(end));
  CHECK(cudaStreamSynchronize(streams[0]));
  REQUIRE(flag == 1);
  for (int i = 0; i < n; ++i) {
    const int value = i % 100;
    REQUIRE(host[0][i] == value * value + (value + 1) * (value + 1));
  }
  float whole = -1;
  float part = -1;
  CHECK(cudaEventElapsedTime(&whole, begin, end));
  CHECK(cudaEventElapsedTime(&part, begin, middle));
  // 16 KiB each way and kernels of microseconds: less than a millisecond of simulated time.
  REQUIRE(part > 0 && whole > part && whole < 1);
  CHECK(cudaStreamDestroy(streams[0]));
  CHECK(cudaStreamDestroy(streams[1]));
  std::printf("pipelined_streams: ok, %.3f us\n", whole * 1e3);
  return 0;
}
