// Tensor maps as the CUDA driver makes them: 10,000 random legal ones are accepted, and what they load, store and
// reduce is right byte for byte; as many that break one rule are refused with its name.
//
// The generator is written from the driver's documented rules of cuTensorMapEncodeTiled, EncodeIm2col and
// EncodeIm2colWide and the PTX ISA's restrictions of tensor copies, the oracle from these and the requirements (TMA-05
// to TMA-14, TMA-20, TMA-44): neither uses anything of the model but the names of its enumerations.
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "protocol/memory_request.h"
#include "sm/bulk_data.h"
#include "support/random.h"
#include "tmau/box_oracle.h"
#include "tmau/descriptor_cache.h"
#include "tmau/line_generator.h"

namespace gpu_cuda_map_test {

using namespace heddle;
using arch::BulkKind;
using arch::Interleave;
using arch::Swizzle;
using arch::TensorDescriptor;
using arch::TensorMode;
using arch::TensorRule;
using arch::TensorType;
using heddle::test::Bytes;
using heddle::test::Random;

namespace {

constexpr std::uint64_t kMemory = 1 << 18;
constexpr std::uint32_t kWindow = 32'768;

// Bits of an element, by CUtensorMapDataType in the order of arch::TensorType.
std::uint32_t bits_of(TensorType type) {
  constexpr std::uint32_t kBits[] = {8, 16, 32, 32, 64, 64, 16, 16, 32, 32, 32, 32, 64, 4, 4, 6};
  return kBits[static_cast<std::size_t>(type)];
}
bool is_align16(TensorType type) { return type == TensorType::u4x16_padded || type == TensorType::u6x16_padded; }
bool is_sub_byte(TensorType type) { return is_align16(type) || type == TensorType::u4x16; }
bool has_nan(TensorType type) {
  static const std::set<TensorType> kFloats{TensorType::f16,       TensorType::bf16, TensorType::f32,
                                            TensorType::f32_flush, TensorType::tf32, TensorType::tf32_flush,
                                            TensorType::f64};
  return kFloats.count(type) == 1;
}
std::uint32_t span_of(Swizzle swizzle) {
  static const std::map<Swizzle, std::uint32_t> kSpans{
      {Swizzle::none, 4096}, {Swizzle::bytes32, 32}, {Swizzle::bytes64, 64}, {Swizzle::bytes96, 96}};
  const auto found = kSpans.find(swizzle);
  return found == kSpans.end() ? 128 : found->second;
}

// A map and a request for a box of it.
struct Case {
  TensorDescriptor map;
  std::array<std::int32_t, arch::kTensorRank> at{};
  std::uint16_t offsets = 0;
  std::uint32_t shared = 0;
  bool four_rows = false;

  bool column() const { return map.mode != TensorMode::tile; }
  bool wide() const { return map.mode == TensorMode::im2col_w || map.mode == TensorMode::im2col_w128; }
  bool sliced() const { return map.interleave != Interleave::none; }
  std::uint32_t slice() const { return map.interleave == Interleave::bytes32 ? 32 : 16; }
  std::uint32_t inner() const { return column() ? map.channels : map.box[0]; }
};

class LegalMaps {
 public:
  explicit LegalMaps(Random& random) : random_(random) {}

  Case operator()() {
    for (;;) {
      c_ = {};
      draw_layout();
      draw_extents();
      draw_box();
      draw_place();
      if (shared_bytes() <= 12'288 && reach() <= kMemory) return c_;
    }
  }

 private:
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + random_.below(static_cast<std::uint32_t>(list.size())));
  }

  void draw_layout() {
    TensorDescriptor& map = c_.map;
    map.type = static_cast<TensorType>(random_.below(16));
    map.mode =
        one_of({TensorMode::tile, TensorMode::tile, TensorMode::im2col, TensorMode::im2col_w, TensorMode::im2col_w128});
    const bool may_slice = !is_align16(map.type) && !c_.wide();
    if (may_slice && random_.chance(25)) map.interleave = one_of({Interleave::bytes16, Interleave::bytes32});
    map.rank = random_.between(c_.column() || c_.sliced() ? 3 : 1, 5);
    if (map.interleave == Interleave::bytes32) {
      map.swizzle = Swizzle::bytes32;
    } else if (c_.wide()) {
      map.swizzle = one_of({Swizzle::bytes64, Swizzle::bytes128, Swizzle::bytes128_atom32});
      if (map.mode == TensorMode::im2col_w && !is_align16(map.type) && random_.chance(25))
        map.swizzle = Swizzle::bytes96;
      // 128 padded elements are 128 bytes.
      if (is_align16(map.type) && map.swizzle == Swizzle::bytes64) map.swizzle = Swizzle::bytes128;
    } else if (is_align16(map.type)) {
      map.swizzle = one_of({Swizzle::none, Swizzle::bytes128, Swizzle::bytes128_atom32, Swizzle::bytes128_atom64});
    } else {
      map.swizzle = static_cast<Swizzle>(random_.below(8));
      if (c_.sliced() && map.swizzle == Swizzle::bytes96) map.swizzle = Swizzle::none;
    }
    if (has_nan(map.type) && random_.chance(50)) map.fill = arch::Fill::nan;
    map.promotion = static_cast<arch::Promotion>(random_.below(4));
  }

  void draw_extents() {
    TensorDescriptor& map = c_.map;
    const std::uint64_t unit = map.interleave == Interleave::bytes32 || is_align16(map.type) ? 32 : 16;
    for (std::uint32_t i = 0; i < map.rank; ++i) map.size[i] = random_.between(1, 9);
    if (!c_.sliced()) map.size[0] = random_.between(1, 300);
    if (is_align16(map.type)) map.size[0] = 128 * random_.between(1, 3);
    if (map.type == TensorType::u4x16 && !c_.sliced()) map.size[0] += map.size[0] % 2;
    // Nothing is said about the order of strides: packed ones, ones with padding, broadcasts, and any others.
    std::uint64_t packed = c_.sliced() ? c_.slice() : map.size[0] * bits_of(map.type) / 8;
    const bool any = random_.chance(35);
    for (std::uint32_t n = 0; n < map.rank; ++n) {
      const std::uint32_t i = c_.sliced() ? (n + 1) % map.rank : n;
      if (i == 0 && !c_.sliced()) continue;
      packed = (packed + unit - 1) / unit * unit + (random_.chance(30) ? unit * random_.below(4) : 0);
      map.stride[i] = any ? unit * random_.below(random_.chance(50) ? 3 : 60) : packed;
      packed = map.stride[i] * map.size[i];
    }
    map.address = unit * random_.below(static_cast<std::uint32_t>(kMemory / 4 / unit));
  }

  void draw_box() {
    TensorDescriptor& map = c_.map;
    std::uint32_t inner = random_.between(1, 4);  // slices
    if (!c_.sliced()) {
      // A multiple of 16 bytes, within the span, at most 256 elements.
      const std::uint32_t whole = std::max(1U, 128 / bits_of(map.type));
      const std::uint32_t most = std::min(256U, span_of(map.swizzle) * 8 / bits_of(map.type)) / whole;
      inner = is_align16(map.type) ? 128 : whole * random_.between(1, std::max(1U, most));
    } else if (map.swizzle != Swizzle::none) {
      inner = random_.between(1, std::max(1U, span_of(map.swizzle) / c_.slice()));
    }
    map.box[0] = map.channels = inner;
    for (std::uint32_t i = 1; i < map.rank; ++i) map.box[i] = random_.between(1, random_.chance(10) ? 40 : 8);
    map.pixels = random_.between(1, random_.chance(20) ? 200 : 40);
    for (auto& stride : map.traversal) stride = random_.chance(60) ? 1 : random_.between(1, 8);
    if (!c_.column()) return;
    for (std::uint32_t i = 0; i < (c_.wide() ? 1 : map.rank - 2); ++i) {
      // An area of at least one pixel.
      const auto size = static_cast<std::int32_t>(map.size[i + 1]);
      map.base_corner[i] = static_cast<std::int32_t>(random_.below(7)) - 3;
      map.far_corner[i] = map.base_corner[i] + 1 + static_cast<std::int32_t>(random_.below(6)) - size;
    }
    if (map.mode == TensorMode::im2col_w128) map.pixels = random_.below(2000);  // ignored
  }

  void draw_place() {
    TensorDescriptor& map = c_.map;
    c_.shared = 128 * random_.below(100);
    for (std::uint32_t i = 0; i < map.rank; ++i) {
      c_.at[i] = static_cast<std::int32_t>(random_.below(static_cast<std::uint32_t>(map.size[i]) + 6)) - 3;
    }
    if (is_align16(map.type)) c_.at[0] = 128 * (static_cast<std::int32_t>(random_.below(4)) - 1);
    if (map.type == TensorType::u4x16) c_.at[0] &= ~1;
    if (c_.column()) {
      const std::uint32_t corners = c_.wide() ? 1 : map.rank - 2;
      for (std::uint32_t i = 0; i < corners; ++i) {
        const auto upper = static_cast<std::int32_t>(map.size[i + 1]) + map.far_corner[i];
        c_.at[i + 1] = map.base_corner[i] +
                       static_cast<std::int32_t>(random_.below(static_cast<std::uint32_t>(upper - map.base_corner[i])));
      }
      if (c_.wide() && random_.chance(20)) c_.at[1] -= 2;  // left of the box is allowed
      if (c_.wide()) {
        const std::uint32_t halo = random_.below(map.mode == TensorMode::im2col_w128 ? 5 : 20);
        c_.offsets = static_cast<std::uint16_t>(random_.below(4) | halo << 5);
      } else {
        const std::uint32_t bits = map.rank == 3 ? 16 : map.rank == 4 ? 8 : 5;
        for (std::uint32_t i = 0; i + 2 < map.rank; ++i) {
          c_.offsets = static_cast<std::uint16_t>(c_.offsets | random_.below(4) << bits * i);
        }
      }
    } else if (map.rank == 2 && !c_.sliced() && random_.chance(50)) {
      c_.four_rows = true;
      map.box[1] = 1;
      for (std::uint32_t i = 1; i < 5; ++i) c_.at[i] = static_cast<std::int32_t>(random_.below(12)) - 2;
    }
    // A tensor that reaches far beyond memory, of which the box takes what is there.
    if (random_.chance(15) && !c_.column() && !c_.sliced() && map.rank > 1 && !c_.four_rows) {
      map.size[map.rank - 1] = std::uint64_t{1} << 32;
      beyond_ = true;
    } else {
      beyond_ = false;
    }
  }

  std::uint64_t shared_bytes() const {
    const TensorDescriptor& map = c_.map;
    std::uint64_t inner = c_.sliced()            ? std::uint64_t{c_.slice()} * c_.inner()
                          : is_align16(map.type) ? 128
                                                 : c_.inner() * bits_of(map.type) / 8;
    if (c_.column()) {
      const std::uint32_t halo = c_.wide() ? c_.offsets >> 5 : 0;
      return inner * (map.mode == TensorMode::im2col_w128 ? 128 + 4 * halo : map.pixels + halo);
    }
    if (c_.four_rows) return 4 * inner;
    for (std::uint32_t i = 1; i < map.rank; ++i) inner *= map.box[i];
    return inner;
  }
  // One past what the tensor, or of a large one the box, can touch.
  std::uint64_t reach() const {
    const TensorDescriptor& map = c_.map;
    std::uint64_t end = map.address + (c_.sliced() ? c_.slice() : map.size[0] * bits_of(map.type) / 8);
    for (std::uint32_t i = c_.sliced() ? 0 : 1; i < map.rank; ++i) {
      const bool last = beyond_ && i == map.rank - 1;
      const std::uint64_t most = last ? static_cast<std::uint64_t>(std::max(c_.at[i], 0)) + map.box[i] : map.size[i];
      end += (most - 1) * map.stride[i];
    }
    return end;
  }

  Random& random_;
  Case c_;
  bool beyond_ = false;
};

// The pixels or rows of a box in their order: coordinates of dimensions 1 and up (0: sliced, of the slice).
using Point = std::array<std::int64_t, arch::kTensorRank>;

std::vector<Point> tile_points(const Case& c) {
  std::vector<Point> points{Point{c.at[0], 0, 0, 0, 0}};
  for (std::uint32_t n = c.map.rank; n-- > (c.sliced() ? 0U : 1U);) {
    std::vector<Point> more;
    for (const Point& point : points) {
      for (std::uint32_t i = 0; i < c.map.box[n]; i += c.map.traversal[n]) {
        more.push_back(point);
        more.back()[n] = std::int64_t{c.at[n]} + i;
      }
    }
    points = more;
  }
  return points;
}

std::vector<Point> row_points(const Case& c) {
  std::vector<Point> points;
  for (std::uint32_t i = 1; i < 5; ++i) points.push_back(Point{c.at[0], c.at[i], 0, 0, 0});
  return points;
}

void add_pixel(const Case& c, Point pixel, std::vector<Point>& points) {
  pixel[0] = c.at[0];
  for (std::uint32_t i = 0; i < (c.sliced() ? c.map.channels : 1); ++i, ++pixel[0]) points.push_back(pixel);
}

std::vector<Point> column_points(const Case& c) {
  const TensorDescriptor& map = c.map;
  const std::uint32_t spatial = map.rank - 2;
  const std::uint32_t bits = map.rank == 3 ? 16 : map.rank == 4 ? 8 : 5;
  Point lower{};
  Point upper{};
  Point pixel{};
  for (std::uint32_t i = 1; i <= spatial; ++i) {
    const std::int64_t offset = c.offsets >> bits * (i - 1) & ((1U << bits) - 1);
    lower[i] = map.base_corner[i - 1] + offset;
    upper[i] = static_cast<std::int64_t>(map.size[i]) + map.far_corner[i - 1] + offset;
    pixel[i] = c.at[i] + offset;
  }
  pixel[spatial + 1] = c.at[spatial + 1];
  std::vector<Point> points;
  for (std::uint32_t n = 0; n < map.pixels; ++n) {
    add_pixel(c, pixel, points);
    std::uint32_t i = 1;
    for (; i <= spatial; ++i) {
      pixel[i] += map.traversal[i];
      if (pixel[i] < upper[i]) break;
      pixel[i] = lower[i];
    }
    if (i > spatial) ++pixel[spatial + 1];
  }
  return points;
}

std::vector<Point> wide_points(const Case& c) {
  const TensorDescriptor& map = c.map;
  const bool all = map.mode == TensorMode::im2col_w128;
  const std::int64_t offset = c.offsets & 31;
  const std::uint32_t halo = c.offsets >> 5;
  const std::int64_t lower = map.base_corner[0] + offset;
  const std::int64_t upper = static_cast<std::int64_t>(map.size[1]) + map.far_corner[0] + offset;
  Point pixel{};
  for (std::uint32_t i = 1; i < map.rank; ++i) pixel[i] = c.at[i];
  pixel[1] += offset;
  std::vector<Point> points;
  const std::uint32_t pixels = all ? 128 : map.pixels;
  for (std::uint32_t n = 1; n <= pixels; ++n) {
    add_pixel(c, pixel, points);
    if (n % (all ? 32 : pixels) == 0) {
      Point next = pixel;
      for (std::uint32_t h = 0; h < halo; ++h) {
        next[1] += map.traversal[1];
        add_pixel(c, next, points);
      }
    }
    pixel[1] += map.traversal[1];
    if (pixel[1] < upper) continue;
    pixel[1] = lower;
    ++pixel[map.rank - 1];
  }
  return points;
}

std::vector<Point> points_of(const Case& c) {
  if (c.four_rows) return row_points(c);
  if (c.wide()) return wide_points(c);
  return c.column() ? column_points(c) : tile_points(c);
}

// visit(bit in device memory, bit in shared memory before the swizzle, bits, inside) for each value, or slice.
template <class Visit>
std::uint64_t each_value(const Case& c, Visit&& visit) {
  const TensorDescriptor& map = c.map;
  const std::uint32_t bits = bits_of(map.type);
  std::uint64_t to = std::uint64_t{c.shared} * 8;
  for (const Point& point : points_of(c)) {
    std::uint64_t from = map.address;
    bool inside = true;
    for (std::uint32_t i = c.sliced() ? 0 : 1; i < map.rank; ++i) {
      from += static_cast<std::uint64_t>(point[i]) * map.stride[i];
      inside = inside && point[i] >= 0 && static_cast<std::uint64_t>(point[i]) < map.size[i];
    }
    const std::uint32_t values = c.sliced() ? 8 * c.slice() / bits : c.inner();
    for (std::uint32_t v = 0; v < values; ++v) {
      const std::int64_t x = c.sliced() ? v : point[0] + v;
      const bool there = inside && (c.sliced() || (x >= 0 && static_cast<std::uint64_t>(x) < map.size[0]));
      const std::uint64_t place = is_align16(map.type) ? v / 16 * 128 + v % 16 * bits : std::uint64_t{v} * bits;
      visit(from * 8 + static_cast<std::uint64_t>(x * bits), to + place, bits, there);
    }
    to += is_align16(map.type) ? values * 8 : values * bits;
  }
  return to / 8 - c.shared;
}

// `count` bits from that one on; `place(byte)` is where a byte lies. Whole bytes are taken together.
template <class Place>
std::uint64_t get_bits(const Bytes& bytes, std::uint64_t bit, std::uint32_t count, Place&& place) {
  std::uint64_t value = 0;
  const std::uint32_t step = bit % 8 == 0 && count % 8 == 0 ? 8 : 1;
  const std::uint32_t mask = (1U << step) - 1;
  for (std::uint32_t i = 0; i < count; i += step) {
    value |= std::uint64_t{bytes.at(place((bit + i) / 8)) >> (bit + i) % 8 & mask} << i;
  }
  return value;
}
template <class Place>
void put_bits(Bytes& bytes, std::uint64_t bit, std::uint32_t count, std::uint64_t value, Place&& place) {
  const std::uint32_t step = bit % 8 == 0 && count % 8 == 0 ? 8 : 1;
  const std::uint32_t mask = (1U << step) - 1;
  for (std::uint32_t i = 0; i < count; i += step) {
    const auto at = static_cast<std::uint32_t>((bit + i) % 8);
    std::uint8_t& byte = bytes.at(place((bit + i) / 8));
    byte = static_cast<std::uint8_t>((byte & ~(mask << at)) | (value >> i & mask) << at);
  }
}
std::uint64_t as_it_is(std::uint64_t byte) { return byte; }

// The model, from the 128 bytes on.
struct Model {
  sm::SharedMemory shared{kWindow, 1};
  arch::SwizzleTable swizzles;

  Model() { shared.open(0, kWindow); }

  static arch::BulkRequest request_of(const Case& c, BulkKind kind) {
    arch::BulkRequest request;
    request.kind = kind;
    request.tensor = true;
    request.coordinates = c.at;
    request.offsets = c.offsets;
    request.shared = c.shared;
    request.four_rows = c.four_rows;
    return request;
  }
  // The first rule that it breaks; `reported`: those that do not stop it.
  static TensorRule judge(const Case& c, const arch::BulkRequest& request, std::uint32_t room,
                          arch::RuleSet& reported) {
    using tmau::RuleAction;
    const tmau::CheckedDescriptor checked = tmau::check_descriptor(arch::encode(c.map).data());
    const TensorRule rule = tmau::check_tensor(request, {room, 0, 0}, checked);
    if (rule != TensorRule::none) return rule;
    const tmau::TensorWalk walk(checked.descriptor, request.coordinates, request.offsets, request.shared,
                                request.four_rows);
    const tmau::TmauParams params;
    const tmau::SoftRules soft{params.shared_alignment, params.empty_box, params.base_outside, params.inner_address};
    const TensorRule refused = check_soft_rules(request, checked.descriptor, walk.outside_box(), soft, reported);
    if (refused != TensorRule::none) return refused;
    return walk.lies_within(kMemory) ? TensorRule::none : TensorRule::unmapped;
  }

  template <class Use>
  std::uint64_t each_piece(const Case& c, Use&& use) {
    tmau::TensorWalk walk(c.map, c.at, c.offsets, c.shared, c.four_rows);
    protocol::BulkTarget target;
    target.tensor = true;
    target.swizzle = c.map.swizzle;
    target.type = c.map.type;
    target.fill = c.map.fill;
    std::uint64_t bytes = 0;
    while (walk.next(target.piece)) {
      use(target);
      bytes += target.piece.shared_bytes();
    }
    return bytes;
  }
  std::uint64_t load(const Case& c, const Bytes& device) {
    return each_piece(c, [&](const protocol::BulkTarget& target) {
      const arch::TensorPiece& piece = target.piece;
      const std::uint8_t* from = piece.inside.any() ? &device.at(piece.address + piece.inside.lowest()) : nullptr;
      const sm::BulkPlaced placed = sm::write_piece(shared, 0, swizzles, target, from, false);
      REQUIRE(placed.status == arch::DsmemStatus::ok);
    });
  }
  void write(const Case& c, Bytes& device, std::optional<arch::AtomicKind> kind) {
    (void)each_piece(c, [&](const protocol::BulkTarget& target) {
      const arch::TensorPiece& piece = target.piece;
      if (!piece.inside.any()) return;
      Bytes data(arch::kLineBytes);
      REQUIRE(sm::read_piece(shared, 0, swizzles, target, data.data()).status == arch::DsmemStatus::ok);
      const std::uint32_t first = piece.inside.lowest();
      const std::uint32_t count = piece.inside.highest() - first + 1;
      if (kind) {
        arch::ByteMask mask;
        for (std::uint32_t i = 0; i < count; ++i) {
          if (piece.inside.test(first + i)) mask |= arch::ByteMask::range(i, i + 1);
        }
        arch::reduce(*kind, arch::value_type(target.type), mask, count, data.data(), &device.at(piece.address + first));
        return;
      }
      for (std::uint32_t i = 0; i < count; ++i) {
        if (piece.inside.test(first + i)) device.at(piece.address + first + i) = data[i];
      }
    });
  }
  Bytes window() const { return {shared.data(0), shared.data(0) + kWindow}; }
  void fill(const Bytes& bytes) { std::copy(bytes.begin(), bytes.end(), shared.data(0)); }
};

std::string describe(const Case& c) {
  const TensorDescriptor& d = c.map;
  std::string text = std::string(arch::type_name(d.type)) + " mode " + std::to_string(static_cast<int>(d.mode)) +
                     " interleave " + std::to_string(static_cast<int>(d.interleave)) + " swizzle " +
                     arch::swizzle_name(d.swizzle) + " at " + std::to_string(d.address) + (c.four_rows ? " rows" : "");
  for (std::uint32_t i = 0; i < d.rank; ++i) {
    text += "\n size " + std::to_string(d.size[i]) + " stride " + std::to_string(d.stride[i]) + " box " +
            std::to_string(d.box[i]) + " traversal " + std::to_string(d.traversal[i]) + " at " +
            std::to_string(c.at[i]);
  }
  return text + "\n channels " + std::to_string(d.channels) + " pixels " + std::to_string(d.pixels) + " offsets " +
         std::to_string(c.offsets) + " shared " + std::to_string(c.shared);
}

Bytes random_bytes(Random& random, std::size_t count) {
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return bytes;
}

bool may_store(const Case& c) {
  return c.map.type != TensorType::u4x16_padded && c.map.swizzle != Swizzle::bytes128_atom32_flip8;
}

}  // namespace

TEST_CASE("10,000 legal CUDA tensor maps load, store and reduce what they say",
          "[gpu][tmau][TMA-05][TMA-06][TMA-07][TMA-10][TMA-11][TMA-13][TMA-14][TMA-20][TMA-44]") {
  HEDDLE_RANDOM(random);
  const Bytes device = random_bytes(random, kMemory);
  const Bytes before = random_bytes(random, kWindow);
  Model model;
  LegalMaps draw(random);
  std::map<std::string, std::uint32_t> seen;
  for (std::uint32_t number = 0; number < 10'000; ++number) {
    const Case c = draw();
    CAPTURE(number, describe(c));
    arch::RuleSet reported;
    const TensorRule rule = Model::judge(c, Model::request_of(c, BulkKind::load), kWindow - c.shared, reported);
    if (rule != TensorRule::none) FAIL(arch::rule_key(rule));
    ++seen[std::string("mode ") + std::to_string(static_cast<int>(c.map.mode))];
    ++seen[arch::type_name(c.map.type)];
    ++seen[std::string("swizzle ") + arch::swizzle_name(c.map.swizzle)];
    if (c.four_rows) ++seen["rows"];
    if (c.map.end() > kMemory) ++seen["beyond"];

    const auto swizzled = [&c](std::uint64_t byte) { return test::swizzled_offset(c.map.swizzle, byte); };
    Bytes wanted = before;
    const std::uint64_t bytes =
        each_value(c, [&](std::uint64_t from, std::uint64_t to, std::uint32_t bits, bool inside) {
          std::uint64_t value =
              inside ? get_bits(device, from, bits, as_it_is) : test::outside_value(c.map.type, c.map.fill);
          if (inside) value = test::loaded_value(c.map.type, value);
          put_bits(wanted, to, bits, value, swizzled);
        });
    model.fill(before);
    const std::uint64_t given = model.load(c, device);
    if (given != bytes) FAIL("an mbarrier would count " << given << " of " << bytes);
    if (model.window() != wanted) FAIL("the load is wrong");

    if (!may_store(c)) continue;
    const auto kind = static_cast<arch::AtomicKind>(random.below(10));
    const bool reduces = random.chance(50) && !is_sub_byte(c.map.type) &&
                         arch::reduction_exists(kind, arch::value_type(c.map.type), false);
    if (c.four_rows && reduces) continue;
    ++seen[reduces ? "reduce" : "store"];
    Bytes stored = device;
    each_value(c, [&](std::uint64_t from, std::uint64_t to, std::uint32_t bits, bool inside) {
      if (!inside) return;
      std::uint64_t value = get_bits(before, to, bits, swizzled);
      if (reduces) value = test::reduced_value(kind, c.map.type, get_bits(stored, from, bits, as_it_is), value);
      put_bits(stored, from, bits, value, as_it_is);
    });
    Bytes written = device;
    model.fill(before);
    model.write(c, written, reduces ? std::optional(kind) : std::nullopt);
    if (written != stored) FAIL((reduces ? "the reduction is wrong" : "the store is wrong"));
  }
  CHECK(seen.size() == 4 + 16 + 8 + 4);
  for (const auto& [what, count] : seen) {
    CAPTURE(what);
    CHECK(count > 100);
  }
}

TEST_CASE("10,000 requests that break one rule of the CUDA interface are refused with its name",
          "[gpu][tmau][TMA-06][TMA-07][TMA-11][TMA-44]") {
  HEDDLE_RANDOM(random);
  LegalMaps draw(random);
  std::map<TensorRule, std::uint32_t> seen;
  std::uint32_t broken = 0;
  while (broken < 10'000) {
    Case c = draw();
    TensorDescriptor& map = c.map;
    arch::BulkRequest request = Model::request_of(c, BulkKind::load);
    std::uint32_t room = kWindow - c.shared;
    TensorRule rule = TensorRule::none;
    const std::uint32_t last = map.rank - 1;
    const bool strided = map.rank > 1 || c.sliced();
    switch (random.below(28)) {
      case 0:
        map.rank = random.chance(50) ? 0 : 6;
        rule = TensorRule::rank;
        break;
      case 1:
        if (!c.column() && !c.sliced()) continue;
        map.rank = 2;
        rule = TensorRule::rank_layout;
        break;
      case 2:
        map.address += map.interleave == Interleave::bytes32 || is_align16(map.type) ? 16 : 8;
        rule = TensorRule::address;
        break;
      case 3:
        map.size[last] = random.chance(50) ? 0 : (std::uint64_t{1} << 32) + 1;
        rule = TensorRule::extent;
        break;
      case 4:
        if (!strided) continue;
        map.stride[last] += 8;
        rule = TensorRule::stride_alignment;
        break;
      case 5:
        if (!strided) continue;
        map.stride[last] = std::uint64_t{1} << 40;
        rule = TensorRule::stride_range;
        break;
      case 6:
        (c.column() ? map.channels : map.box[last]) = random.chance(50) ? 0 : 257;
        rule = TensorRule::box;
        break;
      case 7:
        if (!c.column() || map.mode == TensorMode::im2col_w128) continue;
        map.pixels = random.chance(50) ? 0 : 1025;
        rule = TensorRule::box;
        break;
      case 8:
        if (!is_align16(map.type)) continue;
        if (random.chance(50)) {
          map.size[0] += 64;
        } else {
          map.channels = map.box[0] = 64;
        }
        rule = TensorRule::packed;
        break;
      case 9:
        if (is_sub_byte(map.type) || c.sliced() || bits_of(map.type) >= 128) continue;
        map.channels = map.box[0] = c.inner() == 1 ? 3 : c.inner() - 1;
        if (map.box[0] * bits_of(map.type) % 128 == 0) continue;
        rule = TensorRule::inner_bytes;
        break;
      case 10:
        if (c.sliced() || c.wide() || is_align16(map.type) || c.inner() * bits_of(map.type) / 8 <= 32) continue;
        map.swizzle = Swizzle::bytes32;
        rule = TensorRule::inner_swizzle;
        break;
      case 11:
        if (!strided) continue;
        map.traversal[last] = random.chance(50) ? 0 : 9;
        rule = TensorRule::traversal;
        break;
      case 12:
        if (has_nan(map.type)) continue;
        map.fill = arch::Fill::nan;
        rule = TensorRule::nan_fill;
        break;
      case 13:
        if (map.interleave != Interleave::bytes32) continue;
        map.swizzle = random.chance(50) ? Swizzle::none : Swizzle::bytes128;
        rule = TensorRule::interleave_swizzle;
        break;
      case 14:
        if (map.interleave != Interleave::bytes16) continue;
        map.swizzle = Swizzle::bytes96;
        map.box[0] = map.channels = 1;
        rule = TensorRule::interleave_swizzle;
        break;
      case 15:
        if (!c.column() || c.wide() || map.rank == 3) continue;
        map.far_corner[0] = map.rank == 4 ? 128 : 16;
        rule = TensorRule::corner;
        break;
      case 16:
        if (!c.wide()) continue;
        map.swizzle = map.mode == TensorMode::im2col_w || random.chance(50) ? Swizzle::none : Swizzle::bytes128_atom64;
        rule = TensorRule::wide;
        break;
      case 17:
        if (map.mode != TensorMode::im2col_w128) continue;
        request.offsets = static_cast<std::uint16_t>(32 << 5);
        rule = TensorRule::wide;
        break;
      case 18:
        if (!c.column()) continue;
        map.far_corner[0] = map.base_corner[0] - static_cast<std::int32_t>(map.size[1]);
        rule = TensorRule::empty_box;
        break;
      case 19:
        if (!c.column()) continue;
        request.coordinates[1] = static_cast<std::int32_t>(map.size[1]) + map.far_corner[0];
        rule = TensorRule::base_outside;
        break;
      case 20:
        request.shared += random.chance(50) ? 64 : 16;
        rule = TensorRule::shared_alignment;
        break;
      case 21:
        request.shared += 8;
        rule = TensorRule::shared_address;
        break;
      case 22:
        room = 15;
        rule = TensorRule::shared_address;
        break;
      case 23:
        if (!is_sub_byte(map.type) || c.sliced()) continue;
        request.coordinates[0] += is_align16(map.type) ? 64 : 1;
        rule = TensorRule::packed;
        break;
      case 24:
        request.kind = BulkKind::reduce;
        request.reduction = arch::AtomicKind::increment;
        if (map.type == TensorType::u32 || map.swizzle == Swizzle::bytes128_atom32_flip8 || c.four_rows) continue;
        rule = is_sub_byte(map.type) ? TensorRule::packed : TensorRule::reduction;
        break;
      case 25:
        if (map.swizzle != Swizzle::bytes128_atom32_flip8) continue;
        request.kind = BulkKind::store;
        if (map.type == TensorType::u4x16_padded) continue;
        rule = TensorRule::flip_store;
        break;
      case 26:
        if (c.four_rows) continue;
        if (!c.column() && map.rank == 2 && !c.sliced() && map.box[1] == 1) continue;
        request.four_rows = true;
        rule = TensorRule::gather;
        break;
      default:
        if (c.column() || c.sliced() || c.four_rows || map.rank < 2 || map.stride[1] == 0) continue;
        map.size[1] = std::uint64_t{1} << 32;
        request.coordinates = {0, 1000, 0, 0, 0};
        if (random.chance(30)) {
          // 2^64 bytes further: no address, although the low 64 bits are one.
          map.stride[1] = std::uint64_t{1} << 39;
          request.coordinates[1] =
              static_cast<std::int32_t>(1U << 25) * static_cast<std::int32_t>(1 + random.below(60));
        } else if (random.chance(30)) {
          map.stride[1] = 4096;
          map.address = std::uint64_t{0} - 4096;
          request.coordinates[1] = static_cast<std::int32_t>(random.below(3));
        } else {
          map.address = kMemory - 64;
          map.address -= map.address % 32;
        }
        rule = TensorRule::unmapped;
    }
    CAPTURE(broken, describe(c));
    arch::RuleSet reported;
    const TensorRule found = Model::judge(c, request, room, reported);
    if (found != rule) FAIL(arch::rule_key(found) << " instead of " << arch::rule_key(rule));
    ++broken;
    ++seen[rule];
  }
  for (const auto& [rule, count] : seen) {
    CAPTURE(arch::rule_key(rule));
    CHECK(count > 20);
  }
  CHECK(seen.size() == 23);
}

}  // namespace gpu_cuda_map_test
