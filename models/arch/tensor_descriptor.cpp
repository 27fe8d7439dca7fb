#include "arch/tensor_descriptor.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kRows = 8;
constexpr std::uint32_t kRowUnits = 8;  // of a row; as many groups of banks

// TMA-20: of the number of the unit, bits `to` and up, `bits` of them, ^= those of the row.
struct UnitExchange {
  std::uint32_t bits;
  std::uint32_t to;
};
UnitExchange exchange_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none:
      return {0, 0};
    case Swizzle::bytes32:
    case Swizzle::bytes96:
      return {1, 0};
    case Swizzle::bytes64:
      return {2, 0};
    case Swizzle::bytes128:
      return {3, 0};
    case Swizzle::bytes128_atom64:
      return {1, 2};
    default:
      return {2, 1};
  }
}

SwizzleTable::Units default_units(Swizzle swizzle) {
  const UnitExchange exchange = exchange_of(swizzle);
  SwizzleTable::Units units{};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    const std::uint32_t moved = (row & ((1U << exchange.bits) - 1)) << exchange.to;
    for (std::uint32_t unit = 0; unit < kRowUnits; ++unit) units[row][unit] = static_cast<std::uint8_t>(unit ^ moved);
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
constexpr std::uint32_t kPaddedElements = 128;

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

bool box_in_range(const TensorDescriptor& d) {
  // The pixels of a column of 128 are ignored (TMA-44).
  if (is_column(d.mode)) return within(d.channels, kMostBox) && within(d.column(), kMostPixels);
  return all_dimensions(d, 0, [&](std::uint32_t i) { return within(d.box[i], kMostBox); });
}

std::uint32_t inner_elements(const TensorDescriptor& d) { return is_column(d.mode) ? d.channels : d.box[0]; }

// In shared memory.
std::uint64_t inner_bytes(const TensorDescriptor& d) { return d.shared_bytes(d.row_bytes(inner_elements(d))); }

bool corners_in_range(const TensorDescriptor& d) {
  if (d.mode == TensorMode::tile) return true;
  // Along W alone there is one corner, and it has all bits.
  const std::uint32_t corners = is_wide(d.mode) ? 1 : d.rank - 2;
  const std::int32_t limit = 1 << (is_wide(d.mode) ? 15 : offset_bits(d.rank) - 1);
  const auto fits = [limit](std::int32_t corner) { return corner >= -limit && corner < limit; };
  for (std::uint32_t i = 0; i < corners; ++i) {
    if (!fits(d.base_corner[i]) || !fits(d.far_corner[i])) return false;
  }
  return true;
}

// TMA-07, as the driver has it: sizes are whole groups, padded types are taken 128 elements at a time.
bool packed_in_range(const TensorDescriptor& d) {
  if (!is_packed(d.type)) return true;
  if (d.type == TensorType::u4x16) {
    return d.interleave != Interleave::none || (d.size[0] % 2 == 0 && inner_elements(d) % 2 == 0);
  }
  if (d.size[0] % kPaddedElements != 0 || inner_elements(d) != kPaddedElements) return false;
  if (d.interleave != Interleave::none) return false;
  return d.swizzle == Swizzle::none || d.swizzle == Swizzle::bytes128 || d.swizzle == Swizzle::bytes128_atom32 ||
         d.swizzle == Swizzle::bytes128_atom64;
}

// TMA-44, as the driver has it.
bool wide_in_range(const TensorDescriptor& d) {
  if (!is_wide(d.mode)) return true;
  if (d.interleave != Interleave::none) return false;
  if (d.swizzle == Swizzle::bytes96) return d.mode == TensorMode::im2col_w;
  return d.swizzle == Swizzle::bytes64 || d.swizzle == Swizzle::bytes128 || d.swizzle == Swizzle::bytes128_atom32;
}

bool interleave_has_swizzle(const TensorDescriptor& d) {
  if (d.interleave == Interleave::bytes32) return d.swizzle == Swizzle::bytes32;
  return d.interleave == Interleave::none || d.swizzle != Swizzle::bytes96;
}

Wide wide_end(const TensorDescriptor& d) {
  const bool slices = d.interleave != Interleave::none;
  Wide end = Wide{d.address} + (slices ? d.step_bytes() : d.row_bytes(d.size[0]));
  for (std::uint32_t i = first_strided(d); i < d.rank; ++i) end += Wide{d.size[i] - 1} * d.stride[i];
  return end;
}

TensorRule check_layout(const TensorDescriptor& d) {
  const std::uint64_t alignment = d.interleave == Interleave::bytes32 || is_padded(d.type) ? 32 : 16;
  const std::uint32_t first = first_strided(d);
  if (!within(d.rank, kTensorRank)) return TensorRule::rank;
  if (d.rank < 3 && (d.interleave != Interleave::none || is_column(d.mode))) return TensorRule::rank_layout;
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
  return TensorRule::none;
}

TensorRule check_access(const TensorDescriptor& d) {
  if (!box_in_range(d)) return TensorRule::box;
  if (!packed_in_range(d)) return TensorRule::packed;
  if (d.interleave == Interleave::none && inner_bytes(d) % 16 != 0) return TensorRule::inner_bytes;
  if (d.swizzle != Swizzle::none && inner_bytes(d) > swizzle_span(d.swizzle)) return TensorRule::inner_swizzle;
  if (!all_dimensions(d, first_strided(d), [&](std::uint32_t i) { return within(d.traversal[i], kMostTraversal); })) {
    return TensorRule::traversal;
  }
  if (d.fill == Fill::nan && !is_float(d.type)) return TensorRule::nan_fill;
  if (!interleave_has_swizzle(d)) return TensorRule::interleave_swizzle;
  if (!corners_in_range(d)) return TensorRule::corner;
  return wide_in_range(d) ? TensorRule::none : TensorRule::wide;
}

// The 128 bytes, little endian (TMA-05):
//     0  'T', 'M', version         1 each
//     3  type                      1     TensorType
//     4  rank                      1
//     5  bits 1:0 mode, 3:2        1     the others are 0
//        promotion
//     6  interleave                1
//     7  swizzle                   1
//     8  address                   8
//    16  size[0 … 4]               8 each
//    56  stride[0 … 4]             8 each
//    96  box[0 … 4]                2 each
//   106  channels                  2
//   108  pixels                    2
//   110  traversal[0 … 4]          1 each
//   115  fill                      1     Fill: a byte of its own, as kernels may replace it
//   116  base_corner W, H, D       2 each, signed
//   122  far_corner W, H, D        2 each, signed
// One order for both directions: each field goes through `field(value, bytes)`.
constexpr std::uint32_t kDescriptorMagic = 0x4D54;
constexpr std::uint32_t kDescriptorVersion = 3;
constexpr std::size_t kFillByte = 115;

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
  bool valid() const { return type < kTensorTypes && flags < 16 && interleave < 3 && swizzle < kSwizzles; }
};

}  // namespace

std::uint32_t swizzle_span(Swizzle swizzle) {
  constexpr std::array<std::uint8_t, kSwizzles> kSpans{16, 32, 64, 128, 96, 128, 128, 128};
  return kSpans[static_cast<std::size_t>(swizzle)];
}

const char* swizzle_name(Swizzle swizzle) {
  constexpr std::array<const char*, kSwizzles> kNames{
      "none", "32", "64", "128", "96", "128_atom_32", "128_atom_32_flip_8", "128_atom_64"};
  return kNames[static_cast<std::size_t>(swizzle)];
}

const char* promotion_name(Promotion promotion) {
  constexpr std::array<const char*, kPromotions> kNames{"none", "64", "128", "256"};
  return kNames[static_cast<std::size_t>(promotion)];
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

std::uint32_t element_bits(TensorType type) {
  constexpr std::array<std::uint8_t, kTensorTypes> kBits{8, 16, 32, 32, 64, 64, 16, 16, 32, 32, 32, 32, 64, 4, 4, 6};
  return kBits[static_cast<std::size_t>(type)];
}

std::uint32_t bytes_of(TensorType type) { return is_packed(type) ? 1 : element_bits(type) / 8; }

const char* type_name(TensorType type) {
  constexpr std::array<const char*, kTensorTypes> kNames{
      "u8",  "u16",       "u32",  "s32",        "u64", "s64",   "f16",          "bf16",
      "f32", "f32_flush", "tf32", "tf32_flush", "f64", "u4x16", "u4x16_padded", "u6x16_padded"};
  return kNames[static_cast<std::size_t>(type)];
}

bool is_float(TensorType type) { return type >= TensorType::f16 && !is_packed(type); }

ValueType value_type(TensorType type) {
  constexpr std::array<ValueType, kTensorTypes> kTypes{ValueType::u8,  ValueType::u16, ValueType::u32, ValueType::s32,
                                                       ValueType::u64, ValueType::s64, ValueType::f16, ValueType::bf16,
                                                       ValueType::f32, ValueType::f32, ValueType::f32, ValueType::f32,
                                                       ValueType::f64, ValueType::u8,  ValueType::u8,  ValueType::u8};
  return kTypes[static_cast<std::size_t>(type)];
}

std::uint32_t TensorDescriptor::step_bytes() const {
  return interleave == Interleave::none ? bytes_of(type) : slice_bytes(interleave);
}

std::uint64_t TensorDescriptor::row_bytes(std::uint64_t elements) const {
  return interleave == Interleave::none ? elements * element_bits(type) / 8 : elements * slice_bytes(interleave);
}

std::uint64_t TensorDescriptor::shared_bytes(std::uint64_t bytes) const {
  return is_padded(type) ? bytes * 8 / element_bits(type) : bytes;
}

std::uint64_t TensorDescriptor::box_bytes(std::uint32_t halo) const {
  if (is_column(mode)) {
    const std::uint64_t halos = mode == TensorMode::im2col_w128 ? kWidePixels / kWideGroup : is_wide(mode) ? 1 : 0;
    return shared_bytes(row_bytes(channels)) * (column() + halos * halo);
  }
  const std::uint32_t first = first_strided(*this);
  std::uint64_t bytes = first == 0 ? step_bytes() : shared_bytes(row_bytes(box[0]));
  for (std::uint32_t i = first; i < rank; ++i) bytes *= (box[i] + traversal[i] - 1) / traversal[i];
  return bytes;
}

std::uint64_t TensorDescriptor::end() const {
  constexpr std::uint64_t kGreatest = ~std::uint64_t{0};
  return static_cast<std::uint64_t>(std::min<Wide>(wide_end(*this), kGreatest));
}

bool operator==(const TensorDescriptor& a, const TensorDescriptor& b) {
  return a.type == b.type && a.mode == b.mode && a.rank == b.rank && a.interleave == b.interleave &&
         a.swizzle == b.swizzle && a.fill == b.fill && a.promotion == b.promotion && a.address == b.address &&
         a.size == b.size && a.stride == b.stride && a.box == b.box && a.traversal == b.traversal &&
         a.base_corner == b.base_corner && a.far_corner == b.far_corner && a.channels == b.channels &&
         a.pixels == b.pixels;
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
                                                        "box",
                                                        "packed",
                                                        "inner_bytes",
                                                        "inner_swizzle",
                                                        "traversal",
                                                        "nan_fill",
                                                        "interleave_swizzle",
                                                        "corner",
                                                        "wide",
                                                        "unmapped",
                                                        "block_address",
                                                        "shared_address",
                                                        "shared_alignment",
                                                        "empty_box",
                                                        "base_outside",
                                                        "inner_address",
                                                        "flip_store",
                                                        "gather",
                                                        "barrier_address",
                                                        "barrier_cta",
                                                        "receivers",
                                                        "receivers_share_sm",
                                                        "address_word",
                                                        "mask_word",
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
      "the tensor's address is not a multiple of 16, or of 32 for the interleave of 32 bytes and padded types",
      "an extent is not 1 to 2^32",
      "a stride is not a multiple of 16, or of 32 for the interleave of 32 bytes and padded types",
      "a stride is 2^40 or more",
      "an extent of the box is not 1 to 256; im2col: channels not 1 to 256, or pixels not 1 to 1024",
      "elements of 4 or 6 bits: sizes, boxes and coordinates are multiples of 2 (u4x16) or 128, the padded ones lie "
      "without interleave, in 128 bytes or without swizzle, and are not reduced; u4x16_padded is not stored",
      "the bytes of the inner box are not a multiple of 16",
      "the inner box is longer than the span of the swizzle",
      "a traversal stride is not 1 to 8",
      "only floating-point types can be filled with NaN",
      "the interleave of 32 bytes needs the swizzle of 32 bytes, and none has that of 96",
      "a corner of the bounding box has more bits than the rank leaves for it",
      "a column along W has no interleave, a swizzle of 64, 96 (not of 128 pixels), 128 or 128_atom_32, and a halo of "
      "at most 511 pixels (of 128 pixels: 31)",
      "the descriptor, the block or a byte of the box is not within device memory",
      "the block's address in device memory is not a multiple of 16",
      "the address in shared memory is not a multiple of 16, or the data go beyond the CTA's shared memory",
      "the address of a tensor's box in shared memory is not a multiple of 128",
      "the bounding box of the im2col tensor has no pixel",
      "the filter base position is not in the bounding box of the im2col tensor",
      "the first byte of the box in device memory is not at a multiple of 16",
      "a layout with flipped halves is for loads alone",
      "four rows at a time are for two-dimensional tiles of one row",
      "there is no mbarrier, its address is not a multiple of 8, or it is beyond the CTA's shared memory",
      "the mbarrier is not in the CTA that receives the data",
      "a receiver is no CTA of the CGA, has not been launched, or has an id above 15",
      "two receivers are on one SM: launch the CGA in the mode multicast, which gives every CTA an SM of its own",
      "the operand word of addresses has 24 bits for an offset in shared memory, and 8 for a CTA",
      "the operand word of the mask has 16 bits for receivers",
      "the type does not have the reduction"};
  return kTexts[static_cast<std::size_t>(rule)];
}

TensorRule check(const TensorDescriptor& descriptor) {
  const TensorRule layout = check_layout(descriptor);
  return layout != TensorRule::none ? layout : check_access(descriptor);
}

bool has_empty_box(const TensorDescriptor& d) {
  if (!is_column(d.mode)) return false;
  const std::uint32_t corners = is_wide(d.mode) ? 1 : d.rank - 2;
  for (std::uint32_t i = 0; i < corners; ++i) {
    const auto upper = static_cast<std::int64_t>(d.size[i + 1]) + d.far_corner[i];
    if (upper <= d.base_corner[i]) return true;
  }
  return false;
}

std::array<std::uint8_t, kDescriptorBytes> encode(const TensorDescriptor& d) {
  std::array<std::uint8_t, kDescriptorBytes> bytes{};
  Writer put{bytes.data()};
  put(kDescriptorMagic, 2);
  put(kDescriptorVersion, 1);
  put(static_cast<std::uint64_t>(d.type), 1);
  put(d.rank, 1);
  put(static_cast<std::uint64_t>(d.mode) | static_cast<std::uint64_t>(d.promotion) << 2, 1);
  put(static_cast<std::uint64_t>(d.interleave), 1);
  put(static_cast<std::uint64_t>(d.swizzle), 1);
  put(d.address, 8);
  for (const std::uint64_t size : d.size) put(size, 8);
  for (const std::uint64_t stride : d.stride) put(stride, 8);
  for (const std::uint32_t box : d.box) put(box, 2);
  put(d.channels, 2);
  put(d.pixels, 2);
  for (const std::uint32_t traversal : d.traversal) put(traversal, 1);
  put(static_cast<std::uint64_t>(d.fill), 1);
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
  if (!head.valid() || bytes[kFillByte] > 1) return TensorRule::encoding;
  d.type = static_cast<TensorType>(head.type);
  d.mode = static_cast<TensorMode>(head.flags & 3);
  d.promotion = static_cast<Promotion>(head.flags >> 2);
  d.interleave = static_cast<Interleave>(head.interleave);
  d.swizzle = static_cast<Swizzle>(head.swizzle);
  d.address = get(8);
  for (std::uint64_t& size : d.size) size = get(8);
  for (std::uint64_t& stride : d.stride) stride = get(8);
  for (std::uint32_t& box : d.box) box = get.word(2);
  d.channels = get.word(2);
  d.pixels = get.word(2);
  for (std::uint32_t& traversal : d.traversal) traversal = get.word(1);
  d.fill = static_cast<Fill>(get(1));
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

std::uint16_t pack_wide(const WideOffsets& offsets) {
  HEDDLE_CHECK(offsets.offset < 32 && offsets.halo < 512, "offset and halo have 5 and 9 bits");
  return static_cast<std::uint16_t>(offsets.offset | offsets.halo << 5);
}

}  // namespace heddle::arch
