// A tensor descriptor is refused, or its boxes come in pieces that lie within lines and within the tensor.
//
// Input: descriptor (128 bytes), coordinates (5 x 4), offsets (2), shared address (4); what is missing is 0.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tmau/line_generator.h"

namespace {

using heddle::arch::kDescriptorBytes;
using heddle::arch::TensorDescriptor;
using heddle::arch::TensorPiece;
using heddle::arch::TensorRule;

constexpr std::uint64_t kMemory = std::uint64_t{1} << 63;
constexpr std::uint32_t kPieces = 20'000;  // looked at, of each box

struct Input {
  std::array<std::uint8_t, kDescriptorBytes> descriptor;
  std::array<std::int32_t, heddle::arch::kTensorRank> coordinates;
  std::uint16_t offsets;
  std::uint32_t shared;
};

void require(bool holds) {
  if (!holds) std::abort();
}

// Random bytes break the rules of alignment and range nearly always: what they mean is brought closer to them.
TensorDescriptor mended(TensorDescriptor d) {
  const auto near = [](std::uint32_t value, std::uint32_t most) { return 1 + value % most; };
  d.rank = near(d.rank - 1, 5);
  d.address = d.address % (kMemory / 2) & ~std::uint64_t{31};
  std::uint64_t inside = d.interleave == heddle::arch::Interleave::none ? d.size[0] % 65536 * d.step_bytes() : 32;
  for (std::uint32_t i = 0; i < d.rank; ++i) {
    d.size[i] = 1 + (d.size[i] - 1) % 65536;
    d.box[i] = near(d.box[i] - 1, 256);
    d.traversal[i] = near(d.traversal[i] - 1, 8);
    d.stride[i] = ((d.stride[i] % 4096 + inside) & ~std::uint64_t{31}) + 32;
    if (i > 0 || d.interleave != heddle::arch::Interleave::none) inside = d.stride[i] * d.size[i];
  }
  d.channels = near(d.channels - 1, 256);
  d.pixels = near(d.pixels - 1, 1024);
  return d;
}

void walk(const TensorDescriptor& d, const Input& input) {
  if (heddle::arch::check(d) != TensorRule::none) return;
  heddle::tmau::TensorWalk walk(d, input.coordinates, input.offsets, input.shared);
  // Only what of the tensor is asked for has to be in memory.
  constexpr std::uint64_t kMostBox = 1 << 20;
  if (d.end() > kMemory && (d.box_bytes(0) > kMostBox || !walk.lies_within(kMemory))) return;
  TensorPiece piece;
  std::uint64_t bytes = 0;
  std::uint32_t pieces = 0;
  bool more = true;
  while (pieces < kPieces && (more = walk.next(piece))) {
    ++pieces;
    require(piece.bytes >= 1 && piece.address % 128 + piece.bytes <= 128);
    require(piece.shared == static_cast<std::uint32_t>(input.shared + bytes));
    bytes += piece.shared_bytes();
    if (!piece.inside.any()) continue;
    require(piece.inside.highest() < piece.bytes);
    require(piece.address + piece.inside.lowest() >= d.address);
    require(piece.address + piece.inside.highest() < std::min(d.end(), kMemory));
  }
  const std::uint32_t halo = heddle::arch::is_wide(d.mode) ? heddle::arch::unpack_wide(input.offsets).halo : 0;
  require(more ? bytes <= d.box_bytes(halo) : bytes == d.box_bytes(halo));
  (void)walk.outside_box();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{};
  const auto take = [&](void* to, std::size_t count) {
    const std::size_t there = std::min(count, size);
    if (there > 0) std::memcpy(to, data, there);
    data += there;
    size -= there;
  };
  take(input.descriptor.data(), input.descriptor.size());
  take(input.coordinates.data(), sizeof input.coordinates);
  take(&input.offsets, sizeof input.offsets);
  take(&input.shared, sizeof input.shared);
  TensorDescriptor d;
  if (heddle::arch::decode(input.descriptor.data(), d) != TensorRule::none) return 0;
  require(heddle::arch::encode(d) == input.descriptor);
  walk(d, input);
  walk(mended(d), input);
  return 0;
}
