// The im2col examples of the source text (TMA-12), with the pixels that each of them takes written out.
//
// The text writes coordinates as it writes its tensors, N, H, W, C: (7, 7, 4, 0) begins at channel 0 of the pixel W 4,
// H 7 of image 7, which a request has as {0, 4, 7, 7}. So no filter base leaves its bounding box.
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
  require_column(d, {0, 4, 7, 7, 0}, {0, 0},
                 {{7, "7", "4 5 6 7"},
                  {7, "8 9 10 11 12", "-1 0 1 2 3 4 5 6 7"},
                  {8, "-1", "-1 0 1 2 3 4 5 6 7"},
                  {8, "0", "-1 0 1 2 3 4"}});
  require_column(d, {0, 4, 7, 7, 0}, {1, 1},
                 {{7, "8", "5 6 7 8"},
                  {7, "9 10 11 12 13", "0 1 2 3 4 5 6 7 8"},
                  {8, "0", "0 1 2 3 4 5 6 7 8"},
                  {8, "1", "0 1 2 3 4 5"}});
  require_column(d, {0, 4, 7, 7, 0}, {2, 2},
                 {{7, "9", "6 7 8 9"},
                  {7, "10 11 12 13 14", "1 2 3 4 5 6 7 8 9"},
                  {8, "1", "1 2 3 4 5 6 7 8 9"},
                  {8, "2", "1 2 3 4 5 6"}});
  CHECK_FALSE(tmau::TensorWalk(d, {0, 4, 7, 7, 0}, 0, 0).outside_box());
}

TEST_CASE("example: 3x3 filter that stays within the tensor, im2col", "[tmau][TMA-11][TMA-12]") {
  const auto d = columns(14, 9, 0, -2, 64, 8);
  require_column(
      d, {0, 4, 7, 7, 0}, {0, 0},
      {{7, "7", "4 5 6"}, {7, "8 9 10 11", "0 1 2 3 4 5 6"}, {8, "0 1 2 3", "0 1 2 3 4 5 6"}, {8, "4", "0 1 2 3 4"}});
  require_column(
      d, {0, 4, 7, 7, 0}, {1, 1},
      {{7, "8", "5 6 7"}, {7, "9 10 11 12", "1 2 3 4 5 6 7"}, {8, "1 2 3 4", "1 2 3 4 5 6 7"}, {8, "5", "1 2 3 4 5"}});
  require_column(
      d, {0, 4, 7, 7, 0}, {2, 2},
      {{7, "9", "6 7 8"}, {7, "10 11 12 13", "2 3 4 5 6 7 8"}, {8, "2 3 4 5", "2 3 4 5 6 7 8"}, {8, "6", "2 3 4 5 6"}});
  CHECK_FALSE(tmau::TensorWalk(d, {0, 4, 7, 7, 0}, 0, 0).outside_box());
  // Read as C, W, H, N the same numbers would begin at W 7, beyond the box of columns 0 to 6: such a request is
  // refused.
  CHECK(tmau::TensorWalk(d, {7, 7, 4, 0, 0}, 0, 0).outside_box());
}

TEST_CASE("example: traversal stride 2, im2col", "[tmau][TMA-11][TMA-12]") {
  auto d = columns(14, 9, -1, -1, 32, 16);
  d.traversal = {1, 2, 2, 1, 1};
  require_column(d, {0, 5, 7, 7, 0}, {0, 0},
                 {{7, "7", "5 7"}, {7, "9 11", "-1 1 3 5 7"}, {8, "-1 1 3 5", "-1 1 3 5 7"}});
  require_column(d, {0, 5, 7, 7, 0}, {1, 1}, {{7, "8", "6 8"}, {7, "10 12", "0 2 4 6 8"}, {8, "0 2 4 6", "0 2 4 6 8"}});
  require_column(d, {0, 5, 7, 7, 0}, {2, 2}, {{7, "9", "7 9"}, {7, "11 13", "1 3 5 7 9"}, {8, "1 3 5 7", "1 3 5 7 9"}});
  // "From the top row of the bounding box, not from the bottom row; from the first and the last column as well."
  const Taken seen = taken(d, {0, 5, 7, 7, 0});
  CHECK(seen.rows.count(-1) == 1);
  CHECK(seen.rows.count(12) == 0);
  CHECK(seen.columns.count(-1) == 1);
  CHECK(seen.columns.count(7) == 1);
  CHECK_FALSE(tmau::TensorWalk(d, {0, 5, 7, 7, 0}, 0, 0).outside_box());
}

TEST_CASE("example: traversal stride 2 on a tensor that is a pixel smaller, im2col", "[tmau][TMA-11][TMA-12]") {
  auto d = columns(13, 8, -1, -1, 32, 16);
  d.traversal = {1, 2, 2, 1, 1};
  require_column(d, {0, 5, 7, 7, 0}, {0, 0},
                 {{7, "7", "5"}, {7, "9 11", "-1 1 3 5"}, {8, "-1 1 3 5 7", "-1 1 3 5"}, {8, "9", "-1 1 3"}});
  require_column(d, {0, 5, 7, 7, 0}, {1, 1},
                 {{7, "8", "6"}, {7, "10 12", "0 2 4 6"}, {8, "0 2 4 6 8", "0 2 4 6"}, {8, "10", "0 2 4"}});
  require_column(d, {0, 5, 7, 7, 0}, {2, 2},
                 {{7, "9", "7"}, {7, "11 13", "1 3 5 7"}, {8, "1 3 5 7 9", "1 3 5 7"}, {8, "11", "1 3 5"}});
  // "From the top and the bottom row; not from the last column." The box has columns -1 to 6 and rows -1 to 11.
  const Taken seen = taken(d, {0, 5, 7, 7, 0});
  CHECK(seen.rows.count(-1) == 1);
  CHECK(seen.rows.count(11) == 1);
  CHECK(seen.columns.count(-1) == 1);
  CHECK(seen.columns.count(6) == 0);
  CHECK_FALSE(tmau::TensorWalk(d, {0, 5, 7, 7, 0}, 0, 0).outside_box());
}

TEST_CASE("example: dilation 2, im2col", "[tmau][TMA-11][TMA-12]") {
  const auto d = columns(14, 9, -2, -2, 64, 16);
  require_column(d, {0, 3, 6, 7, 0}, {0, 0},
                 {{7, "6", "3 4 5 6"},
                  {7, "7 8 9 10 11", "-2 -1 0 1 2 3 4 5 6"},
                  {8, "-2", "-2 -1 0 1 2 3 4 5 6"},
                  {8, "-1", "-2 -1 0 1 2 3"}});
  require_column(d, {0, 3, 6, 7, 0}, {2, 2},
                 {{7, "8", "5 6 7 8"},
                  {7, "9 10 11 12 13", "0 1 2 3 4 5 6 7 8"},
                  {8, "0", "0 1 2 3 4 5 6 7 8"},
                  {8, "1", "0 1 2 3 4 5"}});
  require_column(d, {0, 3, 6, 7, 0}, {4, 4},
                 {{7, "10", "7 8 9 10"},
                  {7, "11 12 13 14 15", "2 3 4 5 6 7 8 9 10"},
                  {8, "2", "2 3 4 5 6 7 8 9 10"},
                  {8, "3", "2 3 4 5 6 7"}});
  CHECK_FALSE(tmau::TensorWalk(d, {0, 3, 6, 7, 0}, 0, 0).outside_box());
}

}  // namespace tmau_tma12_examples_test
