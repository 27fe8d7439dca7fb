// The im2col examples of the source text (TMA-12), with the pixels that each of them takes written out.
//
// Coordinates are C, W, H, N, as requests have them: (7, 7, 4, 0) begins at channel 7 of the pixel W 7, H 4 of image 0.
#include <set>

#include "tmau/tma12_pixels.h"

namespace tmau_tma12_examples_test {

using namespace heddle;
using namespace heddle::test;

namespace {

arch::TensorDescriptor columns(std::uint64_t height, std::uint64_t width, std::int32_t base, std::int32_t far,
                               std::uint32_t pixels, std::uint32_t channels) {
  arch::TensorDescriptor d = images(height, width);
  d.mode = arch::TensorMode::im2col;
  d.base_corner = {base, base, 0};
  d.far_corner = {far, far, 0};
  d.pixels = pixels;
  d.channels = channels;
  return d;
}

struct Offset {
  std::uint32_t w;
  std::uint32_t h;
};

void require_column(const arch::TensorDescriptor& d, const Coordinates& at, Offset offset, const Rows& rows) {
  CAPTURE(offset.w, offset.h);
  require_pixels(d, at, arch::pack_offsets(4, {offset.w, offset.h, 0}), rows);
}

// Which rows and columns a column without offsets takes anything from.
struct Taken {
  std::set<std::int64_t> rows;
  std::set<std::int64_t> columns;
};

Taken taken(const arch::TensorDescriptor& d, const Coordinates& at) {
  Taken result;
  std::uint64_t shared = 0;
  for (const arch::TensorPiece& piece : pieces_of(tmau::TensorWalk(d, at, 0, 0))) {
    REQUIRE(piece.shared == shared);
    shared += piece.bytes;
    // With a line for each pixel, pixel W -1 of a row is the last one of the row before: told apart by the mask.
    const BoxElement element = box_elements(d, at, 0)[piece.shared / 2];
    REQUIRE(element.address == piece.address);
    result.columns.insert(element.at[1]);
    result.rows.insert(element.at[2]);
  }
  return result;
}

}  // namespace

TEST_CASE("example: 3x3 filter that may leave the tensor, im2col", "[tmau][TMA-11][TMA-12]") {
  const auto d = columns(14, 9, -1, -1, 64, 8);
  require_column(d, {7, 7, 4, 0, 0}, {0, 0},
                 {{0, 4, "7"},
                  {0, 5, "-1 0 1 2 3 4 5 6 7"},
                  {0, 6, "-1 0 1 2 3 4 5 6 7"},
                  {0, 7, "-1 0 1 2 3 4 5 6 7"},
                  {0, 8, "-1 0 1 2 3 4 5 6 7"},
                  {0, 9, "-1 0 1 2 3 4 5 6 7"},
                  {0, 10, "-1 0 1 2 3 4 5 6 7"},
                  {0, 11, "-1 0 1 2 3 4 5 6 7"}});
  require_column(d, {7, 7, 4, 0, 0}, {1, 1},
                 {{0, 5, "8"},
                  {0, 6, "0 1 2 3 4 5 6 7 8"},
                  {0, 7, "0 1 2 3 4 5 6 7 8"},
                  {0, 8, "0 1 2 3 4 5 6 7 8"},
                  {0, 9, "0 1 2 3 4 5 6 7 8"},
                  {0, 10, "0 1 2 3 4 5 6 7 8"},
                  {0, 11, "0 1 2 3 4 5 6 7 8"},
                  {0, 12, "0 1 2 3 4 5 6 7 8"}});
  require_column(d, {7, 7, 4, 0, 0}, {2, 2},
                 {{0, 6, "9"},
                  {0, 7, "1 2 3 4 5 6 7 8 9"},
                  {0, 8, "1 2 3 4 5 6 7 8 9"},
                  {0, 9, "1 2 3 4 5 6 7 8 9"},
                  {0, 10, "1 2 3 4 5 6 7 8 9"},
                  {0, 11, "1 2 3 4 5 6 7 8 9"},
                  {0, 12, "1 2 3 4 5 6 7 8 9"},
                  {0, 13, "1 2 3 4 5 6 7 8 9"}});

  CHECK_FALSE(tmau::TensorWalk(d, {7, 7, 4, 0, 0}, 0, 0).outside_box());
}

TEST_CASE("example: 3x3 filter that stays within the tensor, im2col", "[tmau][TMA-11][TMA-12]") {
  const auto d = columns(14, 9, 0, -2, 64, 8);
  require_column(d, {7, 7, 4, 0, 0}, {0, 0},
                 {{0, 4, "7"},
                  {0, 5, "0 1 2 3 4 5 6"},
                  {0, 6, "0 1 2 3 4 5 6"},
                  {0, 7, "0 1 2 3 4 5 6"},
                  {0, 8, "0 1 2 3 4 5 6"},
                  {0, 9, "0 1 2 3 4 5 6"},
                  {0, 10, "0 1 2 3 4 5 6"},
                  {0, 11, "0 1 2 3 4 5 6"},
                  {1, 0, "0 1 2 3 4 5 6"},
                  {1, 1, "0 1 2 3 4 5 6"}});
  require_column(d, {7, 7, 4, 0, 0}, {1, 1},
                 {{0, 5, "8"},
                  {0, 6, "1 2 3 4 5 6 7"},
                  {0, 7, "1 2 3 4 5 6 7"},
                  {0, 8, "1 2 3 4 5 6 7"},
                  {0, 9, "1 2 3 4 5 6 7"},
                  {0, 10, "1 2 3 4 5 6 7"},
                  {0, 11, "1 2 3 4 5 6 7"},
                  {0, 12, "1 2 3 4 5 6 7"},
                  {1, 1, "1 2 3 4 5 6 7"},
                  {1, 2, "1 2 3 4 5 6 7"}});
  require_column(d, {7, 7, 4, 0, 0}, {2, 2},
                 {{0, 6, "9"},
                  {0, 7, "2 3 4 5 6 7 8"},
                  {0, 8, "2 3 4 5 6 7 8"},
                  {0, 9, "2 3 4 5 6 7 8"},
                  {0, 10, "2 3 4 5 6 7 8"},
                  {0, 11, "2 3 4 5 6 7 8"},
                  {0, 12, "2 3 4 5 6 7 8"},
                  {0, 13, "2 3 4 5 6 7 8"},
                  {1, 2, "2 3 4 5 6 7 8"},
                  {1, 3, "2 3 4 5 6 7 8"}});

  // W 7 is beyond the box, which has columns 0 to 6.
  CHECK(tmau::TensorWalk(d, {7, 7, 4, 0, 0}, 0, 0).outside_box());
}

TEST_CASE("example: traversal stride 2, im2col", "[tmau][TMA-11][TMA-12]") {
  auto d = columns(14, 9, -1, -1, 32, 16);
  d.traversal = {1, 2, 2, 1, 1};
  require_column(d, {7, 7, 5, 0, 0}, {0, 0},
                 {{0, 5, "7"},
                  {0, 7, "-1 1 3 5 7"},
                  {0, 9, "-1 1 3 5 7"},
                  {0, 11, "-1 1 3 5 7"},
                  {1, -1, "-1 1 3 5 7"},
                  {1, 1, "-1 1 3 5 7"},
                  {1, 3, "-1 1 3 5 7"},
                  {1, 5, "-1"}});
  require_column(d, {7, 7, 5, 0, 0}, {1, 1},
                 {{0, 6, "8"},
                  {0, 8, "0 2 4 6 8"},
                  {0, 10, "0 2 4 6 8"},
                  {0, 12, "0 2 4 6 8"},
                  {1, 0, "0 2 4 6 8"},
                  {1, 2, "0 2 4 6 8"},
                  {1, 4, "0 2 4 6 8"},
                  {1, 6, "0"}});
  require_column(d, {7, 7, 5, 0, 0}, {2, 2},
                 {{0, 7, "9"},
                  {0, 9, "1 3 5 7 9"},
                  {0, 11, "1 3 5 7 9"},
                  {0, 13, "1 3 5 7 9"},
                  {1, 1, "1 3 5 7 9"},
                  {1, 3, "1 3 5 7 9"},
                  {1, 5, "1 3 5 7 9"},
                  {1, 7, "1"}});

  // "From the top row of the bounding box, not from the bottom row; from the first and the last column as well."
  const Taken seen = taken(d, {7, 7, 5, 0, 0});
  CHECK(seen.rows.count(-1) == 1);
  CHECK(seen.rows.count(12) == 0);
  CHECK(seen.columns.count(-1) == 1);
  CHECK(seen.columns.count(7) == 1);
  CHECK_FALSE(tmau::TensorWalk(d, {7, 7, 5, 0, 0}, 0, 0).outside_box());
}

TEST_CASE("example: traversal stride 2 on a tensor that is a pixel smaller, im2col", "[tmau][TMA-11][TMA-12]") {
  auto d = columns(13, 8, -1, -1, 32, 16);
  d.traversal = {1, 2, 2, 1, 1};
  require_column(d, {7, 7, 5, 0, 0}, {0, 0},
                 {{0, 5, "7"},
                  {0, 7, "-1 1 3 5"},
                  {0, 9, "-1 1 3 5"},
                  {0, 11, "-1 1 3 5"},
                  {1, -1, "-1 1 3 5"},
                  {1, 1, "-1 1 3 5"},
                  {1, 3, "-1 1 3 5"},
                  {1, 5, "-1 1 3 5"},
                  {1, 7, "-1 1 3"}});
  require_column(d, {7, 7, 5, 0, 0}, {1, 1},
                 {{0, 6, "8"},
                  {0, 8, "0 2 4 6"},
                  {0, 10, "0 2 4 6"},
                  {0, 12, "0 2 4 6"},
                  {1, 0, "0 2 4 6"},
                  {1, 2, "0 2 4 6"},
                  {1, 4, "0 2 4 6"},
                  {1, 6, "0 2 4 6"},
                  {1, 8, "0 2 4"}});
  require_column(d, {7, 7, 5, 0, 0}, {2, 2},
                 {{0, 7, "9"},
                  {0, 9, "1 3 5 7"},
                  {0, 11, "1 3 5 7"},
                  {0, 13, "1 3 5 7"},
                  {1, 1, "1 3 5 7"},
                  {1, 3, "1 3 5 7"},
                  {1, 5, "1 3 5 7"},
                  {1, 7, "1 3 5 7"},
                  {1, 9, "1 3 5"}});

  // "From the top and the bottom row; not from the last column." The box has columns -1 to 6 and rows -1 to 11.
  const Taken seen = taken(d, {7, 7, 5, 0, 0});
  CHECK(seen.rows.count(-1) == 1);
  CHECK(seen.rows.count(11) == 1);
  CHECK(seen.columns.count(-1) == 1);
  CHECK(seen.columns.count(6) == 0);
  // The first pixel, W 7, is beyond the box here, too.
  CHECK(tmau::TensorWalk(d, {7, 7, 5, 0, 0}, 0, 0).outside_box());
}

TEST_CASE("example: dilation 2, im2col", "[tmau][TMA-11][TMA-12]") {
  const auto d = columns(14, 9, -2, -2, 64, 16);
  require_column(d, {7, 6, 3, 0, 0}, {0, 0},
                 {{0, 3, "6"},
                  {0, 4, "-2 -1 0 1 2 3 4 5 6"},
                  {0, 5, "-2 -1 0 1 2 3 4 5 6"},
                  {0, 6, "-2 -1 0 1 2 3 4 5 6"},
                  {0, 7, "-2 -1 0 1 2 3 4 5 6"},
                  {0, 8, "-2 -1 0 1 2 3 4 5 6"},
                  {0, 9, "-2 -1 0 1 2 3 4 5 6"},
                  {0, 10, "-2 -1 0 1 2 3 4 5 6"}});
  require_column(d, {7, 6, 3, 0, 0}, {2, 2},
                 {{0, 5, "8"},
                  {0, 6, "0 1 2 3 4 5 6 7 8"},
                  {0, 7, "0 1 2 3 4 5 6 7 8"},
                  {0, 8, "0 1 2 3 4 5 6 7 8"},
                  {0, 9, "0 1 2 3 4 5 6 7 8"},
                  {0, 10, "0 1 2 3 4 5 6 7 8"},
                  {0, 11, "0 1 2 3 4 5 6 7 8"},
                  {0, 12, "0 1 2 3 4 5 6 7 8"}});
  require_column(d, {7, 6, 3, 0, 0}, {4, 4},
                 {{0, 7, "10"},
                  {0, 8, "2 3 4 5 6 7 8 9 10"},
                  {0, 9, "2 3 4 5 6 7 8 9 10"},
                  {0, 10, "2 3 4 5 6 7 8 9 10"},
                  {0, 11, "2 3 4 5 6 7 8 9 10"},
                  {0, 12, "2 3 4 5 6 7 8 9 10"},
                  {0, 13, "2 3 4 5 6 7 8 9 10"},
                  {0, 14, "2 3 4 5 6 7 8 9 10"}});

  CHECK_FALSE(tmau::TensorWalk(d, {7, 6, 3, 0, 0}, 0, 0).outside_box());
}

TEST_CASE("example: read as N, H, W, C, the coordinates fit the statements as well", "[tmau][TMA-12]") {
  // (7, 7, 5, 0): image 7, row 7, column 5, channel 0. Then no filter base leaves its box.
  auto d = columns(14, 9, -1, -1, 32, 16);
  d.traversal = {1, 2, 2, 1, 1};
  const Taken large = taken(d, {0, 5, 7, 7, 0});
  CHECK(large.rows == std::set<std::int64_t>{-1, 1, 3, 5, 7, 9, 11});
  CHECK(large.columns == std::set<std::int64_t>{-1, 1, 3, 5, 7});
  d.size[1] = 8;
  d.size[2] = 13;
  const Taken small = taken(d, {0, 5, 7, 7, 0});
  CHECK(small.rows == std::set<std::int64_t>{-1, 1, 3, 5, 7, 9, 11});
  CHECK(small.columns == std::set<std::int64_t>{-1, 1, 3, 5});
  CHECK_FALSE(tmau::TensorWalk(d, {0, 5, 7, 7, 0}, 0, 0).outside_box());
  CHECK_FALSE(tmau::TensorWalk(columns(14, 9, 0, -2, 64, 8), {0, 4, 7, 7, 0}, 0, 0).outside_box());
}

}  // namespace tmau_tma12_examples_test
