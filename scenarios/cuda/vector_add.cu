// c = a + b, element by element: one thread per element.
// Launch: any block of one dimension, and as many CTAs as cover n elements.
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
