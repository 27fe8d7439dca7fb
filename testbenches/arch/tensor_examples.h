// Tensors for tests of descriptors, and what to say of one that fails.
#pragma once

#include <cstdint>
#include <string>

#include "arch/tensor_descriptor.h"

namespace heddle::test {

using arch::Interleave;
using arch::kTensorRank;
using arch::Swizzle;
using arch::TensorDescriptor;
using arch::TensorMode;
using arch::TensorType;

// NHWC 2 x 14 x 9 x 64, packed, boxes of 4 x 4 pixels with 64 channels.
inline TensorDescriptor image() {
  TensorDescriptor d;
  d.type = TensorType::f16;
  d.rank = 4;
  d.swizzle = Swizzle::bytes128;
  d.address = 4096;
  d.size = {64, 9, 14, 2, 1};
  d.stride = {0, 128, 9 * 128, 14 * 9 * 128, 0};
  d.box = {64, 4, 4, 1, 1};
  return d;
}

inline TensorDescriptor columns() {
  TensorDescriptor d = image();
  d.mode = TensorMode::im2col;
  d.base_corner = {-1, -1, 0};
  d.far_corner = {-1, -1, 0};
  d.channels = 64;
  d.pixels = 64;
  return d;
}

// N 2, 8 slices, H 14, W 9.
inline TensorDescriptor sliced(Interleave interleave) {
  TensorDescriptor d = image();
  d.interleave = interleave;
  d.swizzle = Swizzle::bytes32;
  const std::uint64_t slice = interleave == Interleave::bytes32 ? 32 : 16;
  d.size = {8, 9, 14, 2, 1};
  d.stride = {14 * 9 * slice, slice, 9 * slice, 8 * 14 * 9 * slice, 0};
  d.box = {1, 4, 4, 1, 1};
  return d;
}

inline std::string text_of(const TensorDescriptor& d) {
  std::string text = std::string(type_name(d.type)) + " mode " + std::to_string(static_cast<int>(d.mode)) + " rank " +
                     std::to_string(d.rank) + " interleave " + std::to_string(static_cast<int>(d.interleave)) +
                     " swizzle " + swizzle_name(d.swizzle) + " address " + std::to_string(d.address);
  for (std::uint32_t i = 0; i < kTensorRank; ++i) {
    text += "; " + std::to_string(d.size[i]) + " x " + std::to_string(d.stride[i]) + " box " +
            std::to_string(d.box[i]) + " by " + std::to_string(d.traversal[i]);
  }
  return text;
}

}  // namespace heddle::test
