// Managed memory: a list whose pointers host and device follow, a managed variable, and memory of the host that the
// device reaches.
#include "check.cuh"

struct Node {
  int value;
  Node* next;
};

__managed__ int visits = 5;

__global__ void walk(Node* head, int* sum) {
  int all = 0;
  for (Node* node = head; node != nullptr; node = node->next) {
    all += node->value;
    node->value = -node->value;
    ++visits;
  }
  *sum = all;
}

int main() {
  const int n = 40;
  Node* nodes;
  int* sum;
  CHECK(cudaMallocManaged(&nodes, n * sizeof(Node)));
  CHECK(cudaMallocManaged(&sum, sizeof(int)));
  for (int i = 0; i < n; ++i) {
    nodes[i].value = i;
    nodes[i].next = i + 1 < n ? &nodes[(i + 1)] : nullptr;
  }
  *sum = 99;
  visits += 1;
  walk<<<1, 1>>>(nodes, sum);
  CHECK(cudaDeviceSynchronize());
  REQUIRE(*sum == n * (n - 1) / 2);
  REQUIRE(visits == 6 + n);
  for (int i = 0; i < n; ++i) REQUIRE(nodes[i].value == -i);
  // Again, with what the host has changed since.
  for (int i = 0; i < n; i += 2) nodes[i].value = 1;
  nodes[9].next = nullptr;
  walk<<<1, 1>>>(nodes, sum);
  CHECK(cudaDeviceSynchronize());
  REQUIRE(*sum == 5 - 25);
  REQUIRE(visits == 6 + n + 10);
  // Memory of the host.
  int* mapped;
  CHECK(cudaHostAlloc(&mapped, sizeof(int), cudaHostAllocMapped));
  int* seen;
  CHECK(cudaHostGetDevicePointer(&seen, mapped, 0));
  *mapped = 0;
  nodes[0].value = 17;
  nodes[0].next = nullptr;
  walk<<<1, 1>>>(nodes, seen);
  CHECK(cudaDeviceSynchronize());
  REQUIRE(*mapped == 17);
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, nodes));
  REQUIRE(attributes.type == cudaMemoryTypeManaged);
  CHECK(cudaFree(nodes));
  CHECK(cudaFree(sum));
  CHECK(cudaFreeHost(mapped));
  std::puts("managed_list: ok");
  return 0;
}
