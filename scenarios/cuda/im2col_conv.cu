// A convolution of images in NHWC order, stride 1, single precision: out[n][p][q][o] is the sum over r, s and c of
// in[n][p + r - pad][q + s - pad][c] times weights[r][s][c][o]; elements outside of an image are zero.
//
// A CTA works out 64 pixels by 32 channels of the output. For each place (r, s) of the filter and each 32 channels of
// the input, one im2col copy brings what the 64 pixels need: the pixels of the output in their order, each with its 32
// channels, whatever rows and images they are in.
//
// Launch: blocks of 64 threads; ceil(images * height * width / 64) by out_channels / 32 CTAs. Channels are multiples of
// 32; the filter is an odd square of 2 pad + 1, so that the output is as large as the input. `map` is an im2col map of
// floats of {channels, width, height, images} with lower corner {-pad, -pad}, upper corner {-pad, -pad}, 32 channels
// per pixel, 64 pixels per column, and no swizzle.
#include "tensor_copies.cuh"

constexpr int kPixels = 64;
constexpr int kChannels = 32;

__device__ void load_column(std::uint32_t to, const CUtensorMap* map, int channel, int x, int y, int image, int s,
                            int r, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], "
      "[%6], {%7, %8};" ::"r"(to),
      "l"(map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(barrier), "h"(static_cast<std::uint16_t>(s)),
      "h"(static_cast<std::uint16_t>(r))
      : "memory");
}

extern "C" __global__ void __launch_bounds__(kPixels)
    im2col_conv(const __grid_constant__ CUtensorMap map, const float* weights, float* out, int images, int height,
                int width, int channels, int out_channels, int pad) {
  __shared__ alignas(128) float pixels[kPixels][kChannels];
  __shared__ alignas(8) std::uint64_t arrived;
  const std::uint32_t barrier = shared_address(&arrived);
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    barrier_init_fence();
  }
  __syncthreads();

  const int first = blockIdx.x * kPixels;  // of the pixels of all images
  const int image = first / (height * width);
  const int y = first / width % height;
  const int x = first % width;
  const int from = blockIdx.y * kChannels;  // channel of the output
  const int filter = 2 * pad + 1;
  float sums[kChannels] = {};
  std::uint32_t parity = 0;
  for (int r = 0; r < filter; ++r) {
    for (int s = 0; s < filter; ++s) {
      for (int channel = 0; channel < channels; channel += kChannels) {
        if (threadIdx.x == 0) {
          barrier_expect(barrier, sizeof pixels);
          load_column(shared_address(pixels), &map, channel, x - pad, y - pad, image, s, r, barrier);
        }
        barrier_wait(barrier, parity);
        parity ^= 1U;
        const float* const of_place =
            weights + (static_cast<long long>(r * filter + s) * channels + channel) * out_channels;
        for (int c = 0; c < kChannels; ++c) {
          const float value = pixels[threadIdx.x][c];
          for (int o = 0; o < kChannels; ++o) sums[o] += value * of_place[c * out_channels + from + o];
        }
        __syncthreads();
      }
    }
  }
  const int pixel = first + threadIdx.x;
  if (pixel >= images * height * width) return;
  for (int o = 0; o < kChannels; ++o) out[static_cast<long long>(pixel) * out_channels + from + o] = sums[o];
}
