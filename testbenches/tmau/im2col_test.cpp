// Columns of images: TMA-11's formula, in cases that can be followed by hand and in random ones.
#include <catch2/catch.hpp>

#include "tmau/walk_bench.h"

namespace tmau_im2col_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// NWC, NHWC or NDHWC, packed, 16 bytes a pixel; all of the channels at once.
arch::TensorDescriptor images(const std::vector<std::uint64_t>& size, std::uint32_t pixels) {
  arch::TensorDescriptor d;
  d.type = arch::TensorType::f16;
  d.mode = arch::TensorMode::im2col;
  d.rank = static_cast<std::uint32_t>(size.size()) + 1;
  d.size[0] = 8;
  d.channels = 8;
  d.pixels = pixels;
  std::uint64_t stride = 16;
  for (std::uint32_t i = 1; i < d.rank; ++i) {
    d.size[i] = size[i - 1];
    d.stride[i] = stride;
    stride *= d.size[i];
  }
  return d;
}

struct Pixel {
  std::uint64_t number;  // in device memory
  bool inside;
  bool operator==(const Pixel& other) const { return number == other.number && inside == other.inside; }
};

// The 16-byte pixels in the order in which shared memory gets them.
std::vector<Pixel> pixels_of(const arch::TensorDescriptor& d, const Coordinates& at, std::uint16_t offsets = 0) {
  std::vector<Pixel> result;
  for (const arch::TensorPiece& piece : pieces_of(tmau::TensorWalk(d, at, offsets, 0))) {
    REQUIRE(piece.address % 16 == 0);
    for (std::uint32_t i = 0; i < piece.bytes; i += 16) {
      result.push_back({(piece.address + i) / 16, piece.inside.test(i)});
    }
  }
  return result;
}

std::vector<std::uint64_t> inside_of(const std::vector<Pixel>& pixels) {
  std::vector<std::uint64_t> result;
  for (const Pixel& pixel : pixels) {
    if (pixel.inside) result.push_back(pixel.number);
  }
  return result;
}

// Opaque to the oracle: bits of W, H, D from bit 0 on.
std::uint16_t word(std::uint32_t w, std::uint32_t h) { return static_cast<std::uint16_t>(w | h << 8); }

}  // namespace

TEST_CASE("im2col goes through W, then H, then into the next image", "[tmau][TMA-11]") {
  const auto d = images({3, 2, 2}, 12);
  CHECK(inside_of(pixels_of(d, {})) == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  // From the middle: what is beyond the last image is fill.
  const auto pixels = pixels_of(d, {0, 1, 1, 0, 0});
  CHECK(pixels.size() == 12);
  CHECK(inside_of(pixels) == std::vector<std::uint64_t>{4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(inside_of(pixels_of(d, {0, 0, 0, -1, 0})) == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5});
  CHECK(inside_of(pixels_of(d, {0, 0, 0, 2, 0})).empty());
}

TEST_CASE("im2col of three and of five dimensions", "[tmau][TMA-11]") {
  auto line = images({4, 2}, 6);  // NWC
  line.far_corner[0] = -1;
  CHECK(inside_of(pixels_of(line, {0, 1, 0, 0, 0})) == std::vector<std::uint64_t>{1, 2, 4, 5, 6});
  CHECK(inside_of(pixels_of(line, {0, 1, 0, 0, 0}, 1)) == std::vector<std::uint64_t>{2, 3, 5, 6, 7});

  auto volume = images({2, 2, 3, 2}, 8);  // NDHWC
  volume.base_corner = {0, 0, 1};
  CHECK(inside_of(pixels_of(volume, {0, 0, 0, 2, 0})) == std::vector<std::uint64_t>{8, 9, 10, 11, 16, 17, 18, 19});
}

TEST_CASE("im2col: corners outside the tensor give fill around it", "[tmau][TMA-11][TMA-13]") {
  auto d = images({2, 2, 1}, 16);
  d.base_corner = {-1, -1, 0};
  d.far_corner = {1, 1, 0};
  REQUIRE(d.box_bytes() == 16 * 16);
  std::string seen;
  for (const Pixel& pixel : pixels_of(d, {0, -1, -1, 0, 0})) {
    seen += pixel.inside ? static_cast<char>('0' + pixel.number) : '.';
  }
  CHECK(seen ==
        "...."
        ".01."
        ".23."
        "....");
}

TEST_CASE("im2col: the number of pixels does not depend on the traversal stride", "[tmau][TMA-11]") {
  auto d = images({5, 4, 3}, 6);
  d.traversal = {1, 2, 3, 1, 1};
  CHECK(d.box_bytes() == 6 * 16);
  const auto pixels = pixels_of(d, {});
  CHECK(pixels.size() == 6);
  CHECK(inside_of(pixels) == std::vector<std::uint64_t>{0, 2, 4, 15, 17, 19});
  // The one of N does not count.
  d.traversal = {1, 4, 4, 2, 1};
  CHECK(inside_of(pixels_of(d, {})) == std::vector<std::uint64_t>{0, 4, 20, 24, 40, 44});
}

TEST_CASE("im2col: offsets move the start and the box", "[tmau][TMA-11]") {
  auto d = images({5, 4, 1}, 6);
  d.far_corner = {-2, -2, 0};
  CHECK(inside_of(pixels_of(d, {})) == std::vector<std::uint64_t>{0, 1, 2, 5, 6, 7});
  CHECK(inside_of(pixels_of(d, {}, word(2, 0))) == std::vector<std::uint64_t>{2, 3, 4, 7, 8, 9});
  CHECK(inside_of(pixels_of(d, {}, word(1, 2))) == std::vector<std::uint64_t>{11, 12, 13, 16, 17, 18});
}

TEST_CASE("im2col: channels beyond the tensor are fill, at every pixel", "[tmau][TMA-11][TMA-13]") {
  auto d = images({2, 2, 1}, 4);
  const auto pieces = pieces_of(tmau::TensorWalk(d, {3, 0, 0, 0, 0}, 0, 0));
  REQUIRE(pieces.size() == 1);  // packed: the channels beyond are where the next pixel's first ones are
  arch::ByteMask wanted;
  // Each pixel's last five channels, then three that are outside: 16 bytes that begin at byte 6 of a pixel.
  for (std::uint32_t i = 0; i < 4; ++i) wanted |= arch::ByteMask::range(16 * i, 16 * i + 10);
  CHECK(pieces[0].address == 6);
  CHECK(pieces[0].bytes == 64);
  CHECK(pieces[0].inside == wanted);
}

TEST_CASE("im2col: a request whose filter base is outside the bounding box is marked", "[tmau][TMA-11]") {
  auto d = images({9, 14, 2}, 1);
  d.base_corner = {-1, -2, 0};
  d.far_corner = {-3, 1, 0};  // W -1 to 5, H -2 to 14
  const auto marked = [&d](std::int32_t w, std::int32_t h, std::uint16_t offsets = 0) {
    return tmau::TensorWalk(d, {0, w, h, 0, 0}, offsets, 0).outside_box();
  };
  CHECK_FALSE(marked(-1, -2));
  CHECK_FALSE(marked(5, 14));
  CHECK(marked(-2, 0));
  CHECK(marked(6, 0));
  CHECK(marked(0, -3));
  CHECK(marked(0, 15));
  CHECK_FALSE(marked(5, 14, word(9, 9)));  // offsets move the box as well
  d.mode = arch::TensorMode::tile;
  CHECK_FALSE(marked(6, 0));
}

TEST_CASE("im2col: an empty bounding box is gone through one pixel a row and image", "[tmau][TMA-11]") {
  auto d = images({4, 4, 8}, 3);
  d.base_corner = {2, 2, 0};
  d.far_corner = {-2, -2, 0};
  CHECK(inside_of(pixels_of(d, {0, 2, 2, 0, 0})) == std::vector<std::uint64_t>{10, 26, 42});
}

TEST_CASE("im2col: pieces of random columns are those of the oracle, and as few", "[tmau][TMA-11][TMA-14][TMA-15]") {
  for (const std::uint64_t seed : seeds(12'000)) {
    Random random(seed);
    TensorRange range;
    range.im2col = 1;
    const RandomBox box = RandomTensor(random, range)();
    const std::string wrong = compare(box, pieces_of(box));
    if (wrong.empty()) continue;
    CAPTURE(seed, describe(box));
    FAIL(wrong);
  }
}

}  // namespace tmau_im2col_test
