// The walk of a box against the oracle that goes from element to element.
#include <catch2/catch.hpp>

#include "tmau/line_generator.h"
#include "tmau/walk_bench.h"

namespace tmau_tensor_walk_test {

using namespace heddle;
using namespace heddle::test;

namespace {

arch::TensorDescriptor matrix(std::uint64_t columns, std::uint64_t rows, std::uint64_t stride) {
  arch::TensorDescriptor d;
  d.type = arch::TensorType::f32;
  d.rank = 2;
  d.size = {columns, rows, 1, 1, 1};
  d.stride = {0, stride, 0, 0, 0};
  return d;
}

struct Wanted {
  std::uint64_t address;
  std::uint32_t shared;
  std::uint32_t bytes;
  arch::ByteMask inside;
};

void require_pieces(const arch::TensorDescriptor& d, const Coordinates& at, const std::vector<Wanted>& wanted) {
  const auto pieces = pieces_of(tmau::TensorWalk(d, at, 0, 0));
  REQUIRE(pieces.size() == wanted.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    CAPTURE(i);
    CHECK(pieces[i].address == wanted[i].address);
    CHECK(pieces[i].shared == wanted[i].shared);
    CHECK(pieces[i].bytes == wanted[i].bytes);
    CHECK(pieces[i].inside == wanted[i].inside);
  }
}

constexpr auto kFirst = arch::ByteMask::first;
constexpr auto kRange = arch::ByteMask::range;

// What the SM does with the piece of a load.
void place(const arch::TensorDescriptor& d, const arch::TensorPiece& piece, const arch::SwizzleTable& swizzles,
           const Bytes& device, Bytes& window) {
  std::array<std::uint8_t, arch::kLineBytes> data{};
  for (std::uint32_t i = 0; i < piece.bytes; ++i) {
    if (piece.inside.test(i)) data[i] = device.at(piece.address + i);
  }
  if (arch::converts(d.type)) arch::convert(d.type, piece.bytes, data.data());
  arch::fill_outside(d.type, d.fill, piece.inside, piece.bytes, data.data());
  for (std::uint32_t i = 0; i < piece.bytes; ++i) window.at(swizzles(d.swizzle, piece.shared + i)) = data[i];
}

Bytes random_bytes(Random& random, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i + 8 <= count; i += 8) put_value(&bytes[i], 8, random.next());
  return bytes;
}

constexpr std::uint32_t kWindow = 16384;

}  // namespace

TEST_CASE("a box of whole lines is one piece for each line", "[tmau][TMA-10][TMA-15]") {
  auto d = matrix(64, 8, 256);
  d.address = 4096;
  d.box = {64, 2, 1, 1, 1};
  require_pieces(d, {0, 3, 0, 0, 0},
                 {{4096 + 768, 0, 128, kFirst(128)},
                  {4096 + 896, 128, 128, kFirst(128)},
                  {4096 + 1024, 256, 128, kFirst(128)},
                  {4096 + 1152, 384, 128, kFirst(128)}});
}

TEST_CASE("rows that go on in memory share their lines", "[tmau][TMA-15]") {
  auto d = matrix(12, 8, 48);  // packed
  d.address = 64;
  d.box = {12, 4, 1, 1, 1};
  require_pieces(d, {}, {{64, 0, 64, kFirst(64)}, {128, 64, 128, kFirst(128)}});
  d.stride[1] = 64;  // padded: they do not
  require_pieces(
      d, {},
      {{64, 0, 48, kFirst(48)}, {128, 48, 48, kFirst(48)}, {192, 96, 48, kFirst(48)}, {256, 144, 48, kFirst(48)}});
}

TEST_CASE("elements outside the tensor have their place and no bit", "[tmau][TMA-10][TMA-13]") {
  auto d = matrix(10, 3, 64);
  d.box = {8, 2, 1, 1, 1};
  // Left of and above the tensor: the address goes on by the same sums.
  require_pieces(d, {-3, -1, 0, 0, 0},
                 {{std::uint64_t{0} - 76, 0, 32, {}}, {std::uint64_t{0} - 12, 32, 12, {}}, {0, 44, 20, kFirst(20)}});
  // Right of and below it.
  require_pieces(d, {7, 2, 0, 0, 0}, {{156, 0, 32, kFirst(12)}, {220, 32, 32, {}}});
}

TEST_CASE("the traversal stride of dimension 0 counts only in interleaved layouts", "[tmau][TMA-10][TMA-14]") {
  auto d = matrix(32, 8, 128);
  d.box = {4, 5, 1, 1, 1};
  d.traversal = {3, 2, 1, 1, 1};
  require_pieces(d, {}, {{0, 0, 16, kFirst(16)}, {256, 16, 16, kFirst(16)}, {512, 32, 16, kFirst(16)}});

  arch::TensorDescriptor sliced;  // C / slice, W, N: lies as N, C / slice, W, slice
  sliced.type = arch::TensorType::f16;
  sliced.rank = 3;
  sliced.interleave = arch::Interleave::bytes16;
  sliced.size = {4, 6, 2, 1, 1};
  sliced.stride = {96, 16, 384, 0, 0};
  sliced.box = {4, 1, 1, 1, 1};
  sliced.traversal = {3, 1, 1, 1, 1};
  REQUIRE(arch::check(sliced) == arch::TensorRule::none);
  // The coordinate of C is in slices.
  require_pieces(sliced, {0, 2, 1, 0, 0}, {{384 + 32, 0, 16, kFirst(16)}, {384 + 288 + 32, 16, 16, kFirst(16)}});
  require_pieces(sliced, {1, 2, 1, 0, 0}, {{384 + 96 + 32, 0, 16, kFirst(16)}, {384 + 384 + 32, 16, 16, {}}});
  sliced.box = {1, 3, 1, 1, 1};
  require_pieces(sliced, {3, 4, 0, 0, 0}, {{288 + 64, 0, 32, kFirst(32)}, {384, 32, 16, {}}});
}

TEST_CASE("coordinates at the ends of 32 bits are beyond the tensor, or not", "[tmau][TMA-10]") {
  auto d = matrix(std::uint64_t{1} << 32, 2, std::uint64_t{1} << 34);
  d.box = {64, 1, 1, 1, 1};
  constexpr std::int32_t kMost = 2147483647;
  require_pieces(d, {kMost - 31, 0, 0, 0, 0},
                 {{(std::uint64_t{1} << 33) - 128, 0, 128, kFirst(128)},
                  {std::uint64_t{1} << 33, 128, 128, kFirst(128)}});  // coordinates above 2^31
  d.size[0] = kMost;
  require_pieces(d, {kMost - 31, 0, 0, 0, 0},
                 {{(std::uint64_t{1} << 33) - 128, 0, 128, kFirst(124)}, {std::uint64_t{1} << 33, 128, 128, {}}});
  const std::uint64_t below = std::uint64_t{0} - (std::uint64_t{1} << 33);
  require_pieces(d, {-kMost - 1, 0, 0, 0, 0}, {{below, 0, 128, {}}, {below + 128, 128, 128, {}}});
}

TEST_CASE("a row with both of its ends outside the tensor", "[tmau][TMA-13]") {
  auto d = matrix(6, 2, 64);
  d.box = {20, 1, 1, 1, 1};
  d.address = 128;
  require_pieces(d, {-4, 0, 0, 0, 0}, {{112, 0, 16, {}}, {128, 16, 64, kRange(0, 24)}});
}

TEST_CASE("tiles: pieces of random boxes are those of the oracle, and as few", "[tmau][TMA-10][TMA-14][TMA-15]") {
  for (const std::uint64_t seed : seeds(12'000)) {
    Random random(seed);
    TensorRange range;
    range.im2col = 0;
    const RandomBox box = RandomTensor(random, range)();
    const std::string wrong = compare(box, pieces_of(box));
    if (wrong.empty()) continue;
    CAPTURE(seed, describe(box));
    FAIL(wrong);
  }
}

TEST_CASE("tensors of any extent and stride: pieces are those of the oracle", "[tmau][TMA-10][TMA-11][TMA-15]") {
  for (const std::uint64_t seed : seeds(6'000)) {
    Random random(seed);
    TensorRange range;
    range.memory = std::uint64_t{1} << 63;
    range.extent = std::uint64_t{1} << 32;
    range.box_bytes = 4096;
    const RandomBox box = RandomTensor(random, range)();
    const std::string wrong = compare(box, pieces_of(box));
    if (wrong.empty()) continue;
    CAPTURE(seed, describe(box));
    FAIL(wrong);
  }
}

TEST_CASE("loads of random boxes: every byte of shared memory is the reference's",
          "[tmau][TMA-10][TMA-11][TMA-13][TMA-14][TMA-20]") {
  const arch::SwizzleTable swizzles;
  Random bytes(seed());
  const TensorRange range;
  const Bytes device = random_bytes(bytes, range.memory);
  const Bytes before = random_bytes(bytes, kWindow);
  Bytes window;
  Bytes wanted;
  for (const std::uint64_t seed : seeds(16'000)) {
    Random random(seed);
    const RandomBox box = RandomTensor(random, range)();
    window = before;
    wanted = before;
    for (const arch::TensorPiece& piece : pieces_of(box)) place(box.descriptor, piece, swizzles, device, window);
    reference_load(box.descriptor, box.coordinates, box.offsets, box.shared, device, wanted);
    if (window == wanted) continue;
    CAPTURE(seed, describe(box));
    FAIL("shared memory differs");
  }
}

TEST_CASE("stores and reductions of random boxes: every byte of device memory is the reference's",
          "[tmau][TMA-01][TMA-13][TMA-20]") {
  const arch::SwizzleTable swizzles;
  Random bytes(seed());
  TensorRange range;
  range.memory = 1 << 15;
  range.box_bytes = 4096;
  const Bytes before = random_bytes(bytes, range.memory);
  const Bytes window = random_bytes(bytes, kWindow);
  Bytes device;
  Bytes wanted;
  for (const std::uint64_t seed : seeds(12'000)) {
    Random random(seed);
    const RandomBox box = RandomTensor(random, range)();
    const arch::TensorDescriptor& d = box.descriptor;
    const auto kind = static_cast<arch::AtomicKind>(random.below(10));
    const bool reduces = random.chance(50) && arch::reduction_exists(kind, arch::value_type(d.type), false);
    device = before;
    wanted = before;
    for (const arch::TensorPiece& piece : pieces_of(box)) {
      std::array<std::uint8_t, arch::kLineBytes> data{};
      for (std::uint32_t i = 0; i < piece.bytes; ++i) data[i] = window.at(swizzles(d.swizzle, piece.shared + i));
      if (!piece.inside.any()) continue;
      const std::uint32_t last = piece.inside.highest();
      REQUIRE(piece.address + last < device.size());
      if (reduces) {  // on what the piece has inside, as the L2 does it
        const std::uint32_t first = piece.inside.lowest();
        std::array<std::uint8_t, arch::kLineBytes> line{};
        std::copy_n(&device[piece.address + first], last + 1 - first, &line[first]);
        arch::reduce(kind, arch::value_type(d.type), piece.inside, piece.bytes, data.data(), line.data());
        std::copy_n(&line[first], last + 1 - first, &device[piece.address + first]);
        continue;
      }
      for (std::uint32_t i = 0; i <= last; ++i) {
        if (piece.inside.test(i)) device[piece.address + i] = data[i];
      }
    }
    if (reduces) {
      reference_reduce(kind, d, box.coordinates, box.offsets, box.shared, window, wanted);
    } else {
      reference_store(d, box.coordinates, box.offsets, box.shared, window, wanted);
    }
    if (device == wanted) continue;
    CAPTURE(seed, describe(box), reduces, arch::atomic_name(kind));
    FAIL("device memory differs");
  }
}

}  // namespace tmau_tensor_walk_test
