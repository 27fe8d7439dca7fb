// What the tensor memory access unit (TMAU) knows of a tensor and of the boxes that are taken from it (TMA-05, TMA-06).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/memory_op.h"

namespace heddle::arch {

// How tiles lie in shared memory, so that rows and columns of them are read without bank conflicts (TMA-20, TMA-21).
enum class Swizzle : std::uint8_t {
  none,
  bytes32,
  bytes64,
  bytes128,
  bytes96,
  bytes128_atom32,        // of 128 bytes: 32 stay together
  bytes128_atom32_flip8,  // the same, and in every other row the halves of each 16 bytes change places
  bytes128_atom64,        // of 128 bytes: 64 stay together
};
constexpr std::size_t kSwizzles = 8;
// Bytes that are exchanged among each other: 16 (none), 32, 64, 96, 128. A row of a tile must not be longer.
std::uint32_t swizzle_span(Swizzle swizzle);
// "none", "32", "64", "128", "96", "128_atom_32", "128_atom_32_flip_8", "128_atom_64"
const char* swizzle_name(Swizzle swizzle);

constexpr std::uint32_t kSwizzleUnit = 16;  // bytes of a place in the tables
// Bytes that stay together in every mode: 8 if halves of units are flipped, else kSwizzleUnit.
constexpr std::uint32_t swizzle_grain(Swizzle swizzle) {
  return swizzle == Swizzle::bytes128_atom32_flip8 ? kSwizzleUnit / 2 : kSwizzleUnit;
}

// Where the bytes of an address within the CTA's shared memory lie: the addresses are offsets in the CTA's window, not
// physical ones. By default 32 and 96: a[4] ^= a[7]; 64: a[5:4] ^= a[8:7]; 128: a[6:4] ^= a[9:7]; 128 in atoms of 32:
// a[6:5] ^= a[8:7], with a flip a[3] ^= a[7] as well; in atoms of 64: a[6] ^= a[7].
class SwizzleTable {
 public:
  // entry [row of 128 bytes, modulo 8][unit of 16 bytes in it]: the unit where it lies.
  using Units = std::array<std::array<std::uint8_t, 8>, 8>;

  SwizzleTable();
  // Another table for the mode 32, 64 or 128, as 64 numbers: eight rows of eight units. Throws InputError, naming
  // `key`, unless every row is a permutation of its units that keeps each span of the mode together.
  void set(Swizzle swizzle, const std::vector<std::uint32_t>& units, const char* key);

  std::uint32_t operator()(Swizzle swizzle, std::uint32_t address) const {
    if (swizzle == Swizzle::none) return address;
    const Units& units = units_[static_cast<std::size_t>(swizzle)];
    const std::uint32_t flip = swizzle == Swizzle::bytes128_atom32_flip8 ? address >> 4 & 8 : 0;
    const std::uint32_t unit = units[address >> 7 & 7][address >> 4 & 7];
    return ((address & ~std::uint32_t{0x70}) | unit << 4) ^ flip;
  }

 private:
  std::array<Units, kSwizzles> units_{};
};

// Cycles that the banks need to read or write 16-byte units at those addresses (multiples of 16) together: 32 banks of
// 4 bytes are eight groups, each of which serves one unit per cycle; the same unit twice is one.
std::uint32_t unit_cycles(const std::uint32_t* addresses, std::uint32_t count);

// TMA-07. `_flush`: loads turn subnormal numbers into zero. tf32: loads round f32 to 10 bits of fraction, to nearest
// even. Elements of 4 and 6 bits lie side by side in device memory. In shared memory u4x16 does so as well; of the
// padded ones, 16 elements (8 or 12 bytes) have 16 bytes, of which the last are left as they are.
enum class TensorType : std::uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  bf16,
  f32,
  f32_flush,
  tf32,
  tf32_flush,
  f64,
  u4x16,
  u4x16_padded,
  u6x16_padded,
};
constexpr std::size_t kTensorTypes = 16;
constexpr bool is_packed(TensorType type) { return type >= TensorType::u4x16; }
constexpr bool is_padded(TensorType type) { return type >= TensorType::u4x16_padded; }
// Bits of an element in device memory.
std::uint32_t element_bits(TensorType type);
// Bytes of an element; 1: of packed types, whose bytes are moved as they are.
std::uint32_t bytes_of(TensorType type);
const char* type_name(TensorType type);
bool is_float(TensorType type);
// As what reductions take it: tf32 as f32.
ValueType value_type(TensorType type);

enum class TensorMode : std::uint8_t {
  tile,
  im2col,
  im2col_w,    // along W alone: the position in H and D stays (TMA-44)
  im2col_w128  // the same, always 128 pixels, and the halo after each 32 of them
};
constexpr std::size_t kTensorModes = 4;
constexpr bool is_column(TensorMode mode) { return mode != TensorMode::tile; }
constexpr bool is_wide(TensorMode mode) { return mode >= TensorMode::im2col_w; }
constexpr std::uint32_t kWidePixels = 128;  // of im2col_w128
constexpr std::uint32_t kWideGroup = 32;    // of them: then comes the halo
// A channel slice of 16 or 32 bytes lies together: N, C / slice, D, H, W, slice (TMA-14).
enum class Interleave : std::uint8_t { none, bytes16, bytes32 };
// What elements outside the tensor read as (TMA-13): zero, or the special NaN of the type.
enum class Fill : std::uint8_t { zero, nan };
// What a read that misses the L2 brings from memory at least (TMA-05).
enum class Promotion : std::uint8_t { none, bytes64, bytes128, bytes256 };
constexpr std::size_t kPromotions = 4;
// "none", "64", "128", "256"
const char* promotion_name(Promotion promotion);

constexpr std::uint32_t kTensorRank = 5;         // at most
constexpr std::uint32_t kDescriptorBytes = 128;  // in memory, aligned to 64

// Dimension 0 is the innermost: C, W, H, D, N. Interleaved, dimension 0 counts channel slices, and everything that is
// an element elsewhere is a slice there (extents, boxes, coordinates, channels per pixel).
struct TensorDescriptor {
  TensorType type = TensorType::f16;
  TensorMode mode = TensorMode::tile;
  std::uint32_t rank = 1;
  Interleave interleave = Interleave::none;
  Swizzle swizzle = Swizzle::none;
  Fill fill = Fill::zero;
  Promotion promotion = Promotion::none;
  std::uint64_t address = 0;
  std::array<std::uint64_t, kTensorRank> size{1, 1, 1, 1, 1};  // elements, 1 to 2^32
  // Bytes from one element to the next. [0] counts only if interleaved; otherwise elements lie side by side.
  std::array<std::uint64_t, kTensorRank> stride{};
  std::array<std::uint32_t, kTensorRank> box{1, 1, 1, 1, 1};        // tile: elements, 1 to 256
  std::array<std::uint32_t, kTensorRank> traversal{1, 1, 1, 1, 1};  // elements, 1 to 8; [0] only if interleaved
  // im2col: corners of the bounding box as offsets from those of the tensor, for W, H, D (TMA-11); wide: of W alone.
  std::array<std::int32_t, 3> base_corner{};
  std::array<std::int32_t, 3> far_corner{};
  std::uint32_t channels = 1;  // per pixel: 1 to 256
  std::uint32_t pixels = 1;    // per column: 1 to 1024

  // Bytes of what counts as one element: of the type, or of a slice. Of packed types 1: see row_bytes().
  std::uint32_t step_bytes() const;
  // Bytes of so many elements along dimension 0, in device memory; whole bytes.
  std::uint64_t row_bytes(std::uint64_t elements) const;
  // Bytes in shared memory of so many bytes of a row.
  std::uint64_t shared_bytes(std::uint64_t bytes) const;
  // Pixels of a column, without its halo.
  std::uint32_t column() const { return mode == TensorMode::im2col_w128 ? kWidePixels : pixels; }
  // From one element of the dimension to the next.
  std::uint64_t step(std::uint32_t dimension) const {
    return dimension == 0 && interleave == Interleave::none ? step_bytes() : stride[dimension];
  }
  // Bytes of a whole box in shared memory: ceil(box / traversal) elements per dimension, or pixels x channels. `halo`:
  // of a wide column.
  std::uint64_t box_bytes(std::uint32_t halo = 0) const;
  // One past the last byte of the tensor, or the greatest number. Only for a descriptor that breaks no rule.
  std::uint64_t end() const;
};
bool operator==(const TensorDescriptor& a, const TensorDescriptor& b);

// What a request can break (TMA-06, TMA-30). A request that breaks one is dropped whole.
enum class TensorRule : std::uint8_t {
  none,
  encoding,            // the 128 bytes are no descriptor
  descriptor_address,  // of the descriptor: not a multiple of 64
  rank,                // not 1 to 5
  rank_layout,         // below 3, interleaved or im2col
  address,             // not a multiple of 16, or of 32 for the interleave of 32 bytes and padded types
  extent,              // not 1 to 2^32
  stride_alignment,    // not a multiple of 16, or of 32 for the interleave of 32 bytes and padded types
  stride_range,        // 2^40 or above
  box,                 // extent not 1 to 256; im2col: channels not 1 to 256, pixels not 1 to 1024
  packed,              // of 4 and 6 bits: extents, boxes, coordinates, layouts or requests that these do not have
  inner_bytes,         // of the inner box: no multiple of 16, not interleaved
  inner_swizzle,       // of the inner box: more than the span of the swizzle
  traversal,           // not 1 to 8
  nan_fill,            // of a type that is no floating-point type
  interleave_swizzle,  // the interleave of 32 bytes without the swizzle of 32 bytes, or any with that of 96
  corner,              // beyond the bits that the rank leaves for it
  wide,                // im2col along W: an interleave or a swizzle that it does not have, or a halo out of range
  // Of the request.
  unmapped,            // the descriptor, the block, or a byte that the box takes is not within device memory
  block_address,       // of a block in device memory: not a multiple of 16
  shared_address,      // of the data in shared memory: not a multiple of 16, or beyond the CTA's shared memory
  shared_alignment,    // of a tensor's box in shared memory: not a multiple of 128
  empty_box,           // im2col: the bounding box has no pixel
  base_outside,        // im2col: the filter base position is not in the bounding box
  inner_address,       // of the first byte of the box in device memory: not a multiple of 16
  flip_store,          // a store or reduction from a layout with flipped halves
  gather,              // four rows of a tensor that is not two-dimensional, or of a box of more than one row
  barrier_address,     // none, not a multiple of 8, or beyond the CTA's shared memory
  barrier_cta,         // the mbarrier is not in the CTA that receives the data
  receivers,           // a CTA that the CGA does not have, that has not been launched, or an id above 15
  receivers_share_sm,  // two receivers on one SM
  address_word,        // an address in shared memory of more than 24 bits, or a CTA of more than 8
  mask_word,           // a mask of receivers of more than 16 bits
  reduction,           // the type does not have it
};
constexpr std::size_t kTensorRules = 34;
// Some of them.
class RuleSet {
 public:
  void add(TensorRule rule) { rules_ |= std::uint64_t{1} << static_cast<std::uint32_t>(rule); }
  bool has(TensorRule rule) const { return (rules_ >> static_cast<std::uint32_t>(rule) & 1) != 0; }
  bool any() const { return rules_ != 0; }

 private:
  std::uint64_t rules_ = 0;
};
// As scenarios and stats.json write it: "stride_range".
const char* rule_key(TensorRule rule);
// "a stride is 2^40 or more"; of receivers_share_sm it names the mode to use.
const char* rule_text(TensorRule rule);

// The first rule that it breaks, of those of a descriptor: up to `wide`. Strides may be 0, may overlap and may come in
// any order, and the tensor may reach beyond memory: what counts is what a request touches.
TensorRule check(const TensorDescriptor& descriptor);
// im2col: no position of the filter base is in the bounding box.
bool has_empty_box(const TensorDescriptor& descriptor);

// To and from memory; the layout is documented at encode() in the source and in docs/tmau.md. What cannot be
// represented (see check()) is cut to its bits. decode() gives TensorRule::encoding for bytes that encode() cannot have
// written, and none otherwise: the rules are check()'s.
std::array<std::uint8_t, kDescriptorBytes> encode(const TensorDescriptor& descriptor);
TensorRule decode(const std::uint8_t* bytes, TensorDescriptor& descriptor);

// Bits of an im2col offset of each dimension: 16, 8, 5 for rank 3, 4, 5 (TMA-11); they are packed from bit 0 on: W, H,
// D.
std::uint32_t offset_bits(std::uint32_t rank);
std::array<std::uint32_t, 3> unpack_offsets(std::uint32_t rank, std::uint16_t offsets);
std::uint16_t pack_offsets(std::uint32_t rank, const std::array<std::uint32_t, 3>& offsets);

// The same word of a column along W alone: its offset in bits [4:0], its halo in pixels in [13:5].
struct WideOffsets {
  std::uint32_t offset = 0;  // 0 to 31
  std::uint32_t halo = 0;    // 0 to 511; im2col_w128: 0 to 31
};
constexpr WideOffsets unpack_wide(std::uint16_t word) { return {word & 0x1FU, word >> 5U & 0x1FFU}; }
std::uint16_t pack_wide(const WideOffsets& offsets);

}  // namespace heddle::arch
