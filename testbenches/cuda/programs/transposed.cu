// A transposition through shared memory of rows with a pitch, which copies in two dimensions bring and fetch.
#include <vector>

#include "check.cuh"

__global__ void transpose(const float* in, std::size_t in_pitch, float* out, std::size_t out_pitch, int width,
                          int height) {
  __shared__ float tile[32][33];
  const int x = blockIdx.x * 32 + threadIdx.x;
  for (int y = threadIdx.y; y < 32; y += blockDim.y) {
    const int row = blockIdx.y * 32 + y;
    if (x < width && row < height) tile[y][threadIdx.x] = in[row * in_pitch / 4 + x];
  }
  __syncthreads();
  const int column = blockIdx.y * 32 + threadIdx.x;
  for (int y = threadIdx.y; y < 32; y += blockDim.y) {
    const int row = blockIdx.x * 32 + y;
    if (column < height && row < width) out[row * out_pitch / 4 + column] = tile[threadIdx.x][y];
  }
}

int main() {
  const int width = 70;
  const int height = 45;
  std::vector<float> in(width * height), out(width * height);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  float *din, *dout;
  std::size_t in_pitch = 0;
  std::size_t out_pitch = 0;
  CHECK(cudaMallocPitch(&din, &in_pitch, width * 4, height));
  CHECK(cudaMallocPitch(&dout, &out_pitch, height * 4, width));
  REQUIRE(in_pitch >= width * 4 && out_pitch >= height * 4);
  CHECK(cudaMemcpy2D(din, in_pitch, in.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  transpose<<<dim3((width + 31) / 32, (height + 31) / 32), dim3(32, 8)>>>(din, in_pitch, dout, out_pitch, width,
                                                                          height);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy2D(out.data(), height * 4, dout, out_pitch, height * 4, width, cudaMemcpyDeviceToHost));
  for (int x = 0; x < width; ++x) {
    for (int y = 0; y < height; ++y) REQUIRE(out[x * height + y] == in[y * width + x]);
  }
  std::puts("transposed: ok");
  return 0;
}
