#include "arch/tensor_descriptor.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kRows = 8;
constexpr std::uint32_t kRowUnits = 8;  // of a row; as many groups of banks

// TMA-20: the lowest bits of the unit, as many as a span has, ^= those of the row.
SwizzleTable::Units default_units(Swizzle swizzle) {
  const std::uint32_t bits = swizzle_span(swizzle) / kSwizzleUnit - 1;
  SwizzleTable::Units units{};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t unit = 0; unit < kRowUnits; ++unit)
      units[row][unit] = static_cast<std::uint8_t>(unit ^ (row & bits));
  }
  return units;
}

bool seen_before(const std::uint32_t* addresses, std::uint32_t index) {
  return std::find(addresses, addresses + index, addresses[index]) != addresses + index;
}

__extension__ using Wide = unsigned __int128;  // a size times a stride may have 72 bits

constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;
constexpr std::uint64_t kStrideLimit = std::uint64_t{1} << 40;
constexpr std::uint32_t kMostBox = 256;
constexpr std::uint32_t kMostPixels = 1024;
constexpr std::uint32_t kMostTraversal = 8;

bool within(std::uint64_t value, std::uint64_t most) { return value >= 1 && value <= most; }

std::uint32_t slice_bytes(Interleave interleave) { return interleave == Interleave::bytes32 ? 32 : 16; }

// The first dimension that has a stride and a traversal stride of its own.
std::uint32_t first_strided(const TensorDescriptor& d) { return d.interleave == Interleave::none ? 1 : 0; }

// Every dimension that counts.
template <class Predicate>
bool all_dimensions(const TensorDescriptor& d, std::uint32_t first, Predicate holds) {
  for (std::uint32_t i = first; i < d.rank; ++i) {
    if (!holds(i)) return false;
  }
  return true;
}

// Dimensions from the one whose elements lie closest to each other outwards: C, W, H, D, N, or, interleaved, W, H, D,
// C / slice, N (TMA-14).
std::array<std::uint32_t, kTensorRank> memory_order(const TensorDescriptor& d) {
  std::array<std::uint32_t, kTensorRank> order{0, 1, 2, 3, 4};
  if (d.interleave != Interleave::none) {
    std::rotate(order.begin(), order.begin() + 1, order.begin() + (d.rank - 1));
  }
  return order;
}

bool strides_ordered(const TensorDescriptor& d) {
  const auto order = memory_order(d);
  // Interleaved, the slice lies inside all of them.
  if (d.interleave != Interleave::none && d.stride[order[0]] < d.step_bytes()) return false;
  for (std::uint32_t i = 1; i < d.rank; ++i) {
    const std::uint32_t inner = order[i - 1];
    if (d.stride[order[i]] < Wide{d.size[inner]} * d.step(inner)) return false;
  }
  return true;
}

bool box_in_range(const TensorDescriptor& d) {
  if (d.mode == TensorMode::im2col) return within(d.channels, kMostBox) && within(d.pixels, kMostPixels);
  return all_dimensions(d, 0, [&](std::uint32_t i) { return within(d.box[i], kMostBox); });
}

std::uint32_t inner_bytes(const TensorDescriptor& d) {
  return (d.mode == TensorMode::im2col ? d.channels : d.box[0]) * d.step_bytes();
}

bool corners_in_range(const TensorDescriptor& d) {
  if (d.mode == TensorMode::tile) return true;
  const std::int32_t limit = 1 << (offset_bits(d.rank) - 1);
  const auto fits = [limit](std::int32_t corner) { return corner >= -limit && corner < limit; };
  for (std::uint32_t i = 0; i + 2 < d.rank; ++i) {
    if (!fits(d.base_corner[i]) || !fits(d.far_corner[i])) return false;
  }
  return true;
}

Wide wide_end(const TensorDescriptor& d) {
  Wide end = Wide{d.address} + d.step_bytes();
  for (std::uint32_t i = 0; i < d.rank; ++i) end += Wide{d.size[i] - 1} * d.step(i);
  return end;
}

TensorRule check_layout(const TensorDescriptor& d) {
  const std::uint64_t alignment = d.interleave == Interleave::bytes32 ? 32 : 16;
  const std::uint32_t first = first_strided(d);
  if (!within(d.rank, kTensorRank)) return TensorRule::rank;
  if (d.rank < 3 && (d.interleave != Interleave::none || d.mode == TensorMode::im2col)) return TensorRule::rank_layout;
  if (d.address % alignment != 0) return TensorRule::address;
  if (!all_dimensions(d, 0, [&](std::uint32_t i) { return within(d.size[i], kMostElements); })) {
    return TensorRule::extent;
  }
  if (!all_dimensions(d, first, [&](std::uint32_t i) { return d.stride[i] % alignment == 0; })) {
    return TensorRule::stride_alignment;
  }
  if (!all_dimensions(d, first, [&](std::uint32_t i) { return d.stride[i] < kStrideLimit; })) {
    return TensorRule::stride_range;
  }
  return strides_ordered(d) ? TensorRule::none : TensorRule::stride_order;
}

TensorRule check_access(const TensorDescriptor& d) {
  if (!box_in_range(d)) return TensorRule::box;
  if (d.interleave == Interleave::none && inner_bytes(d) % 16 != 0) return TensorRule::inner_bytes;
  if (d.swizzle != Swizzle::none && inner_bytes(d) > swizzle_span(d.swizzle)) return TensorRule::inner_swizzle;
  if (!all_dimensions(d, first_strided(d), [&](std::uint32_t i) { return within(d.traversal[i], kMostTraversal); })) {
    return TensorRule::traversal;
  }
  if (d.fill == Fill::nan && !is_float(d.type)) return TensorRule::nan_fill;
  if (d.interleave == Interleave::bytes32 && d.swizzle != Swizzle::bytes32) return TensorRule::interleave_swizzle;
  return corners_in_range(d) ? TensorRule::none : TensorRule::corner;
}

// The 128 bytes, little endian (TMA-05):
//     0  'T', 'M', version         1 each
//     3  type                      1     TensorType
//     4  rank                      1
//     5  bit 0 mode, bit 1 fill    1     the others are 0
//     6  interleave                1
//     7  swizzle                   1
//     8  address                   8
//    16  size[0 … 4]               8 each
//    56  stride[0 … 4]             8 each
//    96  box[0 … 4]                2 each
//   106  channels                  2
//   108  pixels                    2
//   110  traversal[0 … 4]          1 each
//   115  0                         1
//   116  base_corner W, H, D       2 each, signed
//   122  far_corner W, H, D        2 each, signed
// One order for both directions: each field goes through `field(value, bytes)`.
constexpr std::uint32_t kDescriptorMagic = 0x4D54;
constexpr std::uint32_t kDescriptorVersion = 1;
constexpr std::size_t kReservedBytes = 115;

struct Writer {
  std::uint8_t* at;
  void operator()(std::uint64_t value, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i) *at++ = static_cast<std::uint8_t>(value >> (8 * i));
  }
};

struct Reader {
  const std::uint8_t* at;
  std::uint64_t operator()(std::uint32_t bytes) {
    std::uint64_t value = 0;
    for (std::uint32_t i = 0; i < bytes; ++i) value |= std::uint64_t{*at++} << (8 * i);
    return value;
  }
  std::uint32_t word(std::uint32_t bytes) { return static_cast<std::uint32_t>((*this)(bytes)); }
  std::int32_t signed16() { return static_cast<std::int16_t>((*this)(2)); }
};

struct Head {
  std::uint32_t type;
  std::uint32_t flags;
  std::uint32_t interleave;
  std::uint32_t swizzle;
  bool valid() const { return type < kTensorTypes && flags < 4 && interleave < 3 && swizzle < 4; }
};

}  // namespace

std::uint32_t swizzle_span(Swizzle swizzle) { return kSwizzleUnit << static_cast<unsigned>(swizzle); }

const char* swizzle_name(Swizzle swizzle) {
  constexpr std::array<const char*, 4> kNames{"none", "32", "64", "128"};
  return kNames[static_cast<std::size_t>(swizzle)];
}

SwizzleTable::SwizzleTable() {
  for (std::size_t mode = 0; mode < units_.size(); ++mode) units_[mode] = default_units(static_cast<Swizzle>(mode));
}

void SwizzleTable::set(Swizzle swizzle, const std::vector<std::uint32_t>& units, const char* key) {
  if (units.size() != std::size_t{kRows} * kRowUnits) {
    throw InputError(fmt::format("{}: {} numbers are no swizzle table", key, units.size()),
                     "give 64: for each of 8 rows of 128 bytes where its 8 units of 16 bytes lie");
  }
  const std::uint32_t span = swizzle_span(swizzle) / kSwizzleUnit;
  Units table{};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    std::uint32_t taken = 0;
    for (std::uint32_t unit = 0; unit < kRowUnits; ++unit) {
      const std::uint32_t to = units[row * kRowUnits + unit];
      // A unit that left its span could leave the tile as well, which may end within a row.
      if (to >= kRowUnits || to / span != unit / span || (taken >> to & 1) != 0) {
        throw InputError(
            fmt::format("{}: unit {} of row {} cannot lie at {}", key, unit, row, to),
            fmt::format("give every row {} numbers, each group of {} in an order of its own", kRowUnits, span));
      }
      taken |= 1U << to;
      table[row][unit] = static_cast<std::uint8_t>(to);
    }
  }
  units_[static_cast<std::size_t>(swizzle)] = table;
}

std::uint32_t unit_cycles(const std::uint32_t* addresses, std::uint32_t count) {
  std::array<std::uint32_t, kRowUnits> units{};  // different ones of each group of banks
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t& of_group = units[addresses[i] / kSwizzleUnit % kRowUnits];
    if (of_group != 0 && seen_before(addresses, i)) continue;
    most = std::max(most, ++of_group);
  }
  return most;
}

std::uint32_t bytes_of(TensorType type) {
  constexpr std::array<std::uint8_t, kTensorTypes> kBytes{1, 2, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

const char* type_name(TensorType type) {
  constexpr std::array<const char*, kTensorTypes> kNames{"u8",   "u16", "u32",       "s32",  "u64",        "s64", "f16",
                                                         "bf16", "f32", "f32_flush", "tf32", "tf32_flush", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

bool is_float(TensorType type) { return type >= TensorType::f16; }

ValueType value_type(TensorType type) {
  constexpr std::array<ValueType, kTensorTypes> kTypes{
      ValueType::u8,   ValueType::u16, ValueType::u32, ValueType::s32, ValueType::u64, ValueType::s64, ValueType::f16,
      ValueType::bf16, ValueType::f32, ValueType::f32, ValueType::f32, ValueType::f32, ValueType::f64};
  return kTypes[static_cast<std::size_t>(type)];
}

std::uint32_t TensorDescriptor::step_bytes() const {
  return interleave == Interleave::none ? bytes_of(type) : slice_bytes(interleave);
}

std::uint64_t TensorDescriptor::box_bytes() const {
  std::uint64_t bytes = step_bytes();
  if (mode == TensorMode::im2col) return bytes * pixels * channels;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const std::uint32_t stride_in_box = i < first_strided(*this) ? 1 : traversal[i];
    bytes *= (box[i] + stride_in_box - 1) / stride_in_box;
  }
  return bytes;
}

std::uint64_t TensorDescriptor::end() const { return static_cast<std::uint64_t>(wide_end(*this)); }

bool operator==(const TensorDescriptor& a, const TensorDescriptor& b) {
  return a.type == b.type && a.mode == b.mode && a.rank == b.rank && a.interleave == b.interleave &&
         a.swizzle == b.swizzle && a.fill == b.fill && a.address == b.address && a.size == b.size &&
         a.stride == b.stride && a.box == b.box && a.traversal == b.traversal && a.base_corner == b.base_corner &&
         a.far_corner == b.far_corner && a.channels == b.channels && a.pixels == b.pixels;
}

const char* rule_key(TensorRule rule) {
  constexpr std::array<const char*, kTensorRules> kKeys{"none",
                                                        "encoding",
                                                        "descriptor_address",
                                                        "rank",
                                                        "rank_layout",
                                                        "address",
                                                        "extent",
                                                        "stride_alignment",
                                                        "stride_range",
                                                        "stride_order",
                                                        "box",
                                                        "inner_bytes",
                                                        "inner_swizzle",
                                                        "traversal",
                                                        "nan_fill",
                                                        "interleave_swizzle",
                                                        "corner",
                                                        "unmapped",
                                                        "block_address",
                                                        "shared_address",
                                                        "barrier_address",
                                                        "barrier_cta",
                                                        "receivers",
                                                        "receivers_share_sm",
                                                        "reduction"};
  return kKeys[static_cast<std::size_t>(rule)];
}

const char* rule_text(TensorRule rule) {
  constexpr std::array<const char*, kTensorRules> kTexts{
      "no rule is broken",
      "the 128 bytes are no tensor descriptor",
      "the descriptor's address is not a multiple of 64",
      "the rank is not 1 to 5",
      "interleaved tensors and im2col need a rank of 3 to 5",
      "the tensor's address is not a multiple of 16, or of 32 for the interleave of 32 bytes",
      "an extent is not 1 to 2^32",
      "a stride is not a multiple of 16, or of 32 for the interleave of 32 bytes",
      "a stride is 2^40 or more",
      "a stride is smaller than the dimension inside it",
      "an extent of the box is not 1 to 256; im2col: channels not 1 to 256, or pixels not 1 to 1024",
      "the bytes of the inner box are not a multiple of 16",
      "the inner box is longer than the span of the swizzle",
      "a traversal stride is not 1 to 8",
      "only floating-point types can be filled with NaN",
      "the interleave of 32 bytes needs the swizzle of 32 bytes",
      "a corner of the bounding box has more bits than the rank leaves for it",
      "the descriptor, the tensor or the block is not within device memory",
      "the block's address in device memory is not a multiple of 16",
      "the address in shared memory is not a multiple of 16, or the data go beyond the CTA's shared memory",
      "there is no mbarrier, its address is not a multiple of 8, or it is beyond the CTA's shared memory",
      "the mbarrier is not in the CTA that receives the data",
      "a receiver is no CTA of the CGA, has not been launched, or has an id above 15",
      "two receivers are on one SM: launch the CGA in the mode multicast, which gives every CTA an SM of its own",
      "the type does not have the reduction"};
  return kTexts[static_cast<std::size_t>(rule)];
}

TensorRule check(const TensorDescriptor& descriptor, std::uint64_t memory) {
  const TensorRule layout = check_layout(descriptor);
  if (layout != TensorRule::none) return layout;
  const TensorRule access = check_access(descriptor);
  if (access != TensorRule::none) return access;
  return wide_end(descriptor) > memory ? TensorRule::unmapped : TensorRule::none;
}

std::array<std::uint8_t, kDescriptorBytes> encode(const TensorDescriptor& d) {
  std::array<std::uint8_t, kDescriptorBytes> bytes{};
  Writer put{bytes.data()};
  put(kDescriptorMagic, 2);
  put(kDescriptorVersion, 1);
  put(static_cast<std::uint64_t>(d.type), 1);
  put(d.rank, 1);
  put(static_cast<std::uint64_t>(d.mode) | static_cast<std::uint64_t>(d.fill) << 1, 1);
  put(static_cast<std::uint64_t>(d.interleave), 1);
  put(static_cast<std::uint64_t>(d.swizzle), 1);
  put(d.address, 8);
  for (const std::uint64_t size : d.size) put(size, 8);
  for (const std::uint64_t stride : d.stride) put(stride, 8);
  for (const std::uint32_t box : d.box) put(box, 2);
  put(d.channels, 2);
  put(d.pixels, 2);
  for (const std::uint32_t traversal : d.traversal) put(traversal, 1);
  put(0, 1);
  for (const std::int32_t corner : d.base_corner) put(static_cast<std::uint64_t>(corner), 2);
  for (const std::int32_t corner : d.far_corner) put(static_cast<std::uint64_t>(corner), 2);
  return bytes;
}

TensorRule decode(const std::uint8_t* bytes, TensorDescriptor& d) {
  Reader get{bytes};
  if (get(2) != kDescriptorMagic || get(1) != kDescriptorVersion) return TensorRule::encoding;
  Head head{};
  head.type = get.word(1);
  d.rank = get.word(1);
  head.flags = get.word(1);
  head.interleave = get.word(1);
  head.swizzle = get.word(1);
  if (!head.valid() || bytes[kReservedBytes] != 0) return TensorRule::encoding;
  d.type = static_cast<TensorType>(head.type);
  d.mode = static_cast<TensorMode>(head.flags & 1);
  d.fill = static_cast<Fill>(head.flags >> 1);
  d.interleave = static_cast<Interleave>(head.interleave);
  d.swizzle = static_cast<Swizzle>(head.swizzle);
  d.address = get(8);
  for (std::uint64_t& size : d.size) size = get(8);
  for (std::uint64_t& stride : d.stride) stride = get(8);
  for (std::uint32_t& box : d.box) box = get.word(2);
  d.channels = get.word(2);
  d.pixels = get.word(2);
  for (std::uint32_t& traversal : d.traversal) traversal = get.word(1);
  get(1);
  for (std::int32_t& corner : d.base_corner) corner = get.signed16();
  for (std::int32_t& corner : d.far_corner) corner = get.signed16();
  return TensorRule::none;
}

std::uint32_t offset_bits(std::uint32_t rank) { return rank <= 3 ? 16 : rank == 4 ? 8 : 5; }

std::array<std::uint32_t, 3> unpack_offsets(std::uint32_t rank, std::uint16_t offsets) {
  HEDDLE_CHECK(rank <= kTensorRank, "no tensor has such a rank");
  std::array<std::uint32_t, 3> result{};
  const std::uint32_t bits = offset_bits(rank);
  for (std::uint32_t i = 0; i + 2 < rank; ++i) result[i] = offsets >> (bits * i) & ((1U << bits) - 1);
  return result;
}

std::uint16_t pack_offsets(std::uint32_t rank, const std::array<std::uint32_t, 3>& offsets) {
  HEDDLE_CHECK(rank <= kTensorRank, "no tensor has such a rank");
  std::uint32_t word = 0;
  const std::uint32_t bits = offset_bits(rank);
  for (std::uint32_t i = 0; i + 2 < rank; ++i) word |= (offsets[i] & ((1U << bits) - 1)) << (bits * i);
  return static_cast<std::uint16_t>(word);
}

}  // namespace heddle::arch
