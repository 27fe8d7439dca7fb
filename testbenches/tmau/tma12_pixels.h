// The worked examples of the source text (TMA-12): their tensors, and lists of pixels as they are written.
#pragma once

#include <sstream>

#include <catch2/catch.hpp>

#include "tmau/walk_bench.h"

namespace heddle::test {

// N H W C, packed, two bytes a channel: a pixel is one line.
inline arch::TensorDescriptor images(std::uint64_t height, std::uint64_t width) {
  arch::TensorDescriptor d;
  d.type = arch::TensorType::f16;
  d.rank = 4;
  d.address = 1 << 20;
  d.size = {64, width, height, 64, 1};
  d.stride = {0, 128, 128 * width, 128 * width * height, 0};
  return d;
}

// Of image N rows H, in order, and of each of them columns W, in order.
struct PixelRows {
  int n;
  const char* h;
  const char* w;
};
using Rows = std::vector<PixelRows>;

struct Pixel {
  int n;
  int h;
  int w;
};

inline std::vector<int> numbers_of(const char* text) {
  std::istringstream stream(text);
  std::vector<int> result;
  for (int number = 0; stream >> number;) result.push_back(number);
  return result;
}

inline std::vector<Pixel> pixels_of(const Rows& rows) {
  std::vector<Pixel> result;
  for (const PixelRows& row : rows) {
    for (const int h : numbers_of(row.h)) {
      for (const int w : numbers_of(row.w)) result.push_back({row.n, h, w});
    }
  }
  return result;
}

inline std::uint64_t address_of(const arch::TensorDescriptor& d, const Pixel& pixel, std::int32_t channel) {
  const auto part = [](int coordinate, std::uint64_t stride) {
    return static_cast<std::uint64_t>(coordinate) * stride;
  };
  return d.address + part(pixel.n, d.stride[3]) + part(pixel.h, d.stride[2]) + part(pixel.w, d.stride[1]) +
         part(channel, 2);
}

inline bool inside(const arch::TensorDescriptor& d, const Pixel& pixel) {
  const auto within = [](int coordinate, std::uint64_t size) {
    return coordinate >= 0 && static_cast<std::uint64_t>(coordinate) < size;
  };
  return within(pixel.n, d.size[3]) && within(pixel.h, d.size[2]) && within(pixel.w, d.size[1]);
}

// No pixel goes on in the line of another, so each is a piece.
inline void require_pixels(const arch::TensorDescriptor& d, const Coordinates& at, std::uint16_t offsets,
                           const Rows& rows) {
  REQUIRE(arch::check(d) == arch::TensorRule::none);
  const std::vector<Pixel> wanted = pixels_of(rows);
  const auto pieces = pieces_of(tmau::TensorWalk(d, at, offsets, 1024));
  const auto elements = box_elements(d, at, offsets);
  const std::uint32_t channels = d.mode == arch::TensorMode::im2col ? d.channels : d.box[0];
  REQUIRE(pieces.size() == wanted.size());
  REQUIRE(elements.size() == wanted.size() * channels);
  for (std::uint32_t i = 0; i < wanted.size(); ++i) {
    const Pixel& pixel = wanted[i];
    CAPTURE(i, pixel.n, pixel.h, pixel.w);
    CHECK(pieces[i].address == address_of(d, pixel, at[0]));
    CHECK(pieces[i].shared == 1024 + i * channels * 2);
    CHECK(pieces[i].bytes == channels * 2);
    CHECK(pieces[i].inside == arch::ByteMask::first(inside(d, pixel) ? channels * 2 : 0));
    // The oracle has to know the examples as well.
    CHECK(elements[i * channels].at == std::array<std::int64_t, 5>{at[0], pixel.w, pixel.h, pixel.n, at[4]});
  }
}

}  // namespace heddle::test
