// A graph that two streams are captured into, and one that is built by hand; each is launched several times.
#include <vector>

#include "check.cuh"

__global__ void add_number(int* values, int number, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] += number;
}

__global__ void join(const int* a, const int* b, int* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = 10 * a[i] + b[i];
}

int main() {
  const int n = 1000;
  const int grid = (n + 127) / 128;
  int *a, *b, *c;
  CHECK(cudaMalloc(&a, n * 4));
  CHECK(cudaMalloc(&b, n * 4));
  CHECK(cudaMalloc(&c, n * 4));
  std::vector<int> got(n);

  cudaStream_t first, second;
  CHECK(cudaStreamCreate(&first));
  CHECK(cudaStreamCreate(&second));
  cudaEvent_t fork, joined;
  CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CHECK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  CHECK(cudaMemset(a, 0, n * 4));
  CHECK(cudaMemset(b, 0, n * 4));
  CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(fork, first));
  CHECK(cudaStreamWaitEvent(second, fork, 0));
  add_number<<<grid, 128, 0, first>>>(a, 3, n);
  add_number<<<grid, 128, 0, second>>>(b, 4, n);
  CHECK(cudaEventRecord(joined, second));
  CHECK(cudaStreamWaitEvent(first, joined, 0));
  join<<<grid, 128, 0, first>>>(a, b, c, n);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(first, &graph));
  std::size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  REQUIRE(nodes == 3);
  cudaGraphExec_t runs;
  CHECK(cudaGraphInstantiate(&runs, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(runs, first));
  CHECK(cudaStreamSynchronize(first));
  CHECK(cudaMemcpy(got.data(), c, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) REQUIRE(got[i] == 10 * 9 + 12);

  cudaGraph_t made;
  CHECK(cudaGraphCreate(&made, 0));
  cudaMemsetParams clear{};
  clear.dst = a;
  clear.value = 5;
  clear.elementSize = 4;
  clear.width = n;
  clear.height = 1;
  cudaGraphNode_t fill, empty, kernel, copy;
  CHECK(cudaGraphAddMemsetNode(&fill, made, nullptr, 0, &clear));
  CHECK(cudaGraphAddEmptyNode(&empty, made, &fill, 1));
  int number = 6;
  int count = n;
  void* arguments[] = {&a, &number, &count};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(add_number);
  params.gridDim = dim3(grid);
  params.blockDim = dim3(128);
  params.kernelParams = arguments;
  CHECK(cudaGraphAddKernelNode(&kernel, made, &empty, 1, &params));
  CHECK(cudaGraphAddMemcpyNode1D(&copy, made, &kernel, 1, got.data(), a, n * 4, cudaMemcpyDeviceToHost));
  number = 1000;  // the node has its own
  cudaGraphExec_t made_runs;
  CHECK(cudaGraphInstantiate(&made_runs, made, 0));
  for (int i = 0; i < 2; ++i) {
    got.assign(n, 0);
    CHECK(cudaGraphLaunch(made_runs, first));
    CHECK(cudaStreamSynchronize(first));
    for (int k = 0; k < n; ++k) REQUIRE(got[k] == 11);
  }
  CHECK(cudaGraphExecDestroy(runs));
  CHECK(cudaGraphExecDestroy(made_runs));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(made));
  std::puts("task_graphs: ok");
  return 0;
}
