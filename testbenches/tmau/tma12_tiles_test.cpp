// The tile examples of the source text (TMA-12), with the pixels that each of them takes written out.
#include "tmau/tma12_pixels.h"

namespace tmau_tma12_tiles_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// Filter position (r, s) takes these pixels of the box, which begin `r` rows and `s` columns into it.
struct SubBox {
  std::uint32_t s;
  std::uint32_t r;
  Rows pixels;
};

// A box of `side` x `side` pixels of 8 channels in shared memory.
void require_sub_boxes(const arch::TensorDescriptor& d, const Coordinates& at, std::uint32_t side,
                       const std::vector<SubBox>& sub_boxes) {
  const auto pieces = pieces_of(tmau::TensorWalk(d, at, 0, 0));
  REQUIRE(pieces.size() == std::size_t{side} * side);
  for (const SubBox& sub_box : sub_boxes) {
    const std::vector<Pixel> wanted = pixels_of(sub_box.pixels);
    const auto width = static_cast<std::uint32_t>(numbers_of(sub_box.pixels.front().w).size());
    for (std::uint32_t i = 0; i < wanted.size(); ++i) {
      const std::uint32_t place = (sub_box.r + i / width) * side + sub_box.s + i % width;
      CAPTURE(sub_box.r, sub_box.s, wanted[i].h, wanted[i].w);
      REQUIRE(place < pieces.size());
      CHECK(pieces[place].shared == 16 * place);
      CHECK(pieces[place].address == address_of(d, wanted[i], 0));
      CHECK(pieces[place].inside.any() == inside(d, wanted[i]));
    }
  }
}

}  // namespace

TEST_CASE("example: 3x3 filter that may leave the tensor, tile", "[tmau][TMA-10][TMA-12]") {
  auto d = images(14, 8);
  d.box = {8, 10, 10, 1, 1};
  require_pixels(d, {0, -1, -1, 0, 0}, 0, {{0, "-1 0 1 2 3 4 5 6 7 8", "-1 0 1 2 3 4 5 6 7 8"}});
  // Each filter position takes 8x8 of them.
  require_sub_boxes(d, {0, -1, -1, 0, 0}, 10,
                    {{0, 0, {{0, "-1 0 1 2 3 4 5 6", "-1 0 1 2 3 4 5 6"}}},
                     {1, 1, {{0, "0 1 2 3 4 5 6 7", "0 1 2 3 4 5 6 7"}}},
                     {2, 2, {{0, "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8"}}}});
}

TEST_CASE("example: 3x3 filter that stays within the tensor, tile", "[tmau][TMA-10][TMA-12]") {
  auto d = images(14, 8);
  d.box = {8, 8, 8, 1, 1};
  require_pixels(d, {}, 0, {{0, "0 1 2 3 4 5 6 7", "0 1 2 3 4 5 6 7"}});
  // Each filter position takes 6x6 of them.
  require_sub_boxes(d, {}, 8,
                    {{0, 0, {{0, "0 1 2 3 4 5", "0 1 2 3 4 5"}}},
                     {1, 1, {{0, "1 2 3 4 5 6", "1 2 3 4 5 6"}}},
                     {2, 2, {{0, "2 3 4 5 6 7", "2 3 4 5 6 7"}}}});
}

// The text gives no box for this one: the one of its first example. A request has the pixels of every other column and
// row, so the nine filter positions need four: each has those of the positions that are even or odd as it is.
TEST_CASE("example: traversal stride 2, tile", "[tmau][TMA-10][TMA-12]") {
  auto d = images(14, 8);
  d.box = {8, 10, 10, 1, 1};
  d.traversal = {1, 2, 2, 1, 1};
  CHECK(d.box_bytes() == 25 * 16);
  require_pixels(d, {0, -1, -1, 0, 0}, 0, {{0, "-1 1 3 5 7", "-1 1 3 5 7"}});
  require_pixels(d, {0, 0, -1, 0, 0}, 0, {{0, "-1 1 3 5 7", "0 2 4 6 8"}});
  // Filter positions (0, 0), (2, 2): 4x4 each, of the first request.
  require_sub_boxes(d, {0, -1, -1, 0, 0}, 5,
                    {{0, 0, {{0, "-1 1 3 5", "-1 1 3 5"}}}, {1, 1, {{0, "1 3 5 7", "1 3 5 7"}}}});
}

TEST_CASE("example: dilation 2, tile", "[tmau][TMA-10][TMA-12]") {
  auto d = images(14, 8);
  d.box = {8, 12, 12, 1, 1};
  require_pixels(d, {0, -2, -2, 0, 0}, 0, {{0, "-2 -1 0 1 2 3 4 5 6 7 8 9", "-2 -1 0 1 2 3 4 5 6 7 8 9"}});
  require_sub_boxes(d, {0, -2, -2, 0, 0}, 12,
                    {{0, 0, {{0, "-2 -1 0 1 2 3 4 5", "-2 -1 0 1 2 3 4 5"}}},
                     {2, 2, {{0, "0 1 2 3 4 5 6 7", "0 1 2 3 4 5 6 7"}}},
                     {4, 4, {{0, "2 3 4 5 6 7 8 9", "2 3 4 5 6 7 8 9"}}}});
}

}  // namespace tmau_tma12_tiles_test
