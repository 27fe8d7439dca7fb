// Random descriptors that break no rule (TMA-06), and boxes of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "support/random.h"
#include "tmau/box_oracle.h"

namespace heddle::test {

struct RandomBox {
  arch::TensorDescriptor descriptor;
  Coordinates coordinates{};
  std::uint16_t offsets = 0;
  std::uint32_t shared = 0;  // a multiple of 16, below 4096
};

// What is drawn from.
struct TensorRange {
  std::uint64_t memory = 1 << 17;  // bytes of device memory: the tensor lies within
  std::uint64_t extent = 24;       // elements of a dimension, at most
  std::uint32_t box_bytes = 8192;  // at most
  std::int32_t im2col = -1;        // 0, 1: none, all of them
  bool loads = false;              // it is only loaded
};

class RandomTensor {
 public:
  RandomTensor(Random& random, const TensorRange& range) : random_(random), range_(range) {}

  RandomBox operator()() {
    RandomBox box;
    do {
      d_ = {};
      d_.mode = im2col() ? arch::TensorMode::im2col : arch::TensorMode::tile;
      draw_type();
      draw_access();
      draw_layout();
    } while (d_.box_bytes() > range_.box_bytes || arch::check(d_) != arch::TensorRule::none ||
             d_.end() > range_.memory);
    box.descriptor = d_;
    box.shared = 16 * random_.below(256);
    draw_place(box);
    return box;
  }

 private:
  bool im2col() { return range_.im2col < 0 ? random_.chance(45) : range_.im2col == 1; }
  // Small ones more often.
  std::uint32_t low(std::uint32_t most) { return random_.between(1, random_.between(1, most)); }

  void draw_type() {
    d_.type = static_cast<arch::TensorType>(random_.below(13));  // whole bytes
    if (random_.chance(35)) d_.interleave = random_.chance(50) ? arch::Interleave::bytes16 : arch::Interleave::bytes32;
    const bool deep = d_.interleave != arch::Interleave::none || d_.mode == arch::TensorMode::im2col;
    d_.rank = random_.between(deep ? 3 : 1, 5);
    d_.swizzle = static_cast<arch::Swizzle>(random_.below(arch::kSwizzles));
    // Flipped halves are for loads alone.
    if (d_.swizzle == arch::Swizzle::bytes128_atom32_flip8 && !range_.loads) d_.swizzle = arch::Swizzle::bytes128;
    if (d_.interleave == arch::Interleave::bytes32) d_.swizzle = arch::Swizzle::bytes32;
    if (arch::is_float(d_.type) && random_.chance(50)) d_.fill = arch::Fill::nan;
  }

  void draw_access() {
    const std::uint32_t bytes = element_bytes(d_);
    const std::uint32_t whole = std::max<std::uint32_t>(1, 16 / bytes);  // elements of 16 bytes
    constexpr std::uint32_t kSpans[] = {512, 32, 64, 128, 96, 128, 128, 128};
    const std::uint32_t span = kSpans[static_cast<std::size_t>(d_.swizzle)];
    const std::uint32_t inner = whole * low(std::max<std::uint32_t>(1, std::min(span / bytes, 256U) / whole));
    d_.channels = inner;
    d_.box[0] = inner;
    for (std::uint32_t i = 1; i < d_.rank; ++i) d_.box[i] = low(random_.chance(5) ? 256 : 14);
    d_.pixels = low(random_.chance(10) ? 1024 : 120);
    for (auto& traversal : d_.traversal) traversal = random_.chance(60) ? 1 : low(8);
    if (d_.mode == arch::TensorMode::tile) return;
    const std::int32_t limit = 1 << (d_.rank == 3 ? 15 : d_.rank == 4 ? 7 : 4);
    for (std::uint32_t i = 0; i + 2 < d_.rank; ++i) {
      const std::int32_t near = random_.chance(90) ? 3 : limit;
      d_.base_corner[i] = static_cast<std::int32_t>(random_.below(2 * static_cast<std::uint64_t>(near))) - near;
      d_.far_corner[i] = static_cast<std::int32_t>(random_.below(2 * static_cast<std::uint64_t>(near))) - near;
    }
  }

  // Strides are what lies inside, packed or with padding.
  void draw_layout() {
    const bool sliced = d_.interleave != arch::Interleave::none;
    const std::uint64_t unit = d_.interleave == arch::Interleave::bytes32 ? 32 : 16;
    for (std::uint32_t i = 0; i < d_.rank; ++i) d_.size[i] = extent();
    // Rows that end where the box does, so that pieces go on across them.
    if (!sliced && random_.chance(40)) d_.size[0] = std::max<std::uint64_t>(1, d_.box[0] * random_.between(1, 2));
    std::uint64_t inside = sliced ? element_bytes(d_) : d_.size[0] * element_bytes(d_);
    const auto stride = [&](std::uint32_t i) {
      inside = (inside + unit - 1) / unit * unit;
      if (random_.chance(40)) inside += unit * random_.below(range_.extent > 24 ? 1 << 20 : 9);
      d_.stride[i] = inside;
      inside *= d_.size[i];
    };
    for (std::uint32_t i = 1; i + (sliced ? 1 : 0) < d_.rank; ++i) stride(i);
    if (sliced) {
      stride(0);
      stride(d_.rank - 1);
    }
    const std::uint64_t first = random_.next() % (range_.memory / 2) / unit * unit;
    d_.address = random_.chance(20) ? 0 : first;
  }

  std::uint64_t extent() {
    // Images are not so small that nothing is left of them between the corners.
    const std::uint32_t least_of_images = d_.mode == arch::TensorMode::im2col && random_.chance(80) ? 4 : 0;
    if (range_.extent <= 24) return low(static_cast<std::uint32_t>(range_.extent) - least_of_images) + least_of_images;
    const std::uint64_t least = 1;
    const std::uint64_t most = std::min(range_.extent, least << random_.below(33));
    return 1 + random_.next() % most;
  }

  // One of -far to far around the middle, within 32 bits.
  std::int32_t about(std::int64_t middle, std::int64_t far) {
    const auto span = static_cast<std::uint64_t>(2 * far + 1);
    return clamped(middle - far + static_cast<std::int64_t>(random_.next() % span));
  }
  static std::int32_t clamped(std::int64_t at) {
    constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int32_t>(std::clamp(at, kLeast, kMost));
  }
  // Far out on every side.
  std::int32_t far_out(std::uint32_t i) {
    const auto size = static_cast<std::int64_t>(d_.size[i]);
    switch (random_.below(4)) {
      case 0:
        return clamped(std::int64_t{std::numeric_limits<std::int32_t>::min()} + random_.below(300));
      case 1:
        return clamped(std::int64_t{std::numeric_limits<std::int32_t>::max()} - random_.below(300));
      case 2:
        return about(0, size + 300);
      default:
        return static_cast<std::int32_t>(random_.next());
    }
  }
  // So that the box has something of the tensor in this dimension, more or less.
  std::int32_t nearby(std::uint32_t i) {
    const auto size = static_cast<std::int64_t>(d_.size[i]);
    if (d_.mode == arch::TensorMode::im2col && i > 0) {
      const bool image = i + 1 == d_.rank;
      const std::int64_t low = image ? 0 : std::clamp<std::int64_t>(d_.base_corner[i - 1], -4, size - 1);
      const std::int64_t high = std::max(low, image ? size - 1 : size - 1 + std::min(d_.far_corner[i - 1], 0));
      return clamped(low + static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(high - low + 1)));
    }
    const std::int64_t box = d_.mode == arch::TensorMode::im2col ? d_.channels : d_.box[i];
    switch (random_.below(4)) {
      case 0:
        return clamped(0);
      case 1:  // across the lower end
        return clamped(-static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(box)));
      case 2:  // across the upper end
        return clamped(size - 1 - static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(box)));
      default:
        return clamped(static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(size)));
    }
  }

  void draw_place(RandomBox& box) {
    // Of one in eight, nothing but accident keeps it near the tensor; of one in eight, one dimension is far out.
    const std::uint32_t mood = random_.below(8);
    const std::uint32_t stray = random_.below(d_.rank);
    for (std::uint32_t i = 0; i < arch::kTensorRank; ++i) {
      const bool far = i < d_.rank && ((mood == 0 && random_.chance(50)) || (mood == 1 && i == stray));
      box.coordinates[i] = far ? far_out(i) : nearby(i);
    }
    if (d_.mode == arch::TensorMode::tile) return;
    const std::uint32_t bits = d_.rank == 3 ? 16 : d_.rank == 4 ? 8 : 5;
    const std::uint32_t most = random_.chance(90) ? 3 : (1U << bits) - 1;
    std::uint32_t word = 0;
    for (std::uint32_t i = 0; i + 2 < d_.rank; ++i) word |= random_.between(0, most) << i * bits;
    box.offsets = static_cast<std::uint16_t>(word);
  }

  Random& random_;
  const TensorRange range_;
  arch::TensorDescriptor d_;
};

}  // namespace heddle::test
