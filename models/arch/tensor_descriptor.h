// What the tensor memory access unit (TMAU) knows of a tensor and of the boxes that are taken from it (TMA-05, TMA-06).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/memory_op.h"

namespace heddle::arch {

// How tiles lie in shared memory, so that rows and columns of them are read without bank conflicts (TMA-20, TMA-21).
enum class Swizzle : std::uint8_t { none, bytes32, bytes64, bytes128 };
// Bytes that are exchanged among each other: 16 (none), 32, 64, 128. A row of a tile must not be longer.
std::uint32_t swizzle_span(Swizzle swizzle);
// "none", "32", "64", "128"
const char* swizzle_name(Swizzle swizzle);

constexpr std::uint32_t kSwizzleUnit = 16;  // bytes that stay together

// Where the bytes of an address within the CTA's shared memory lie: the addresses are offsets in the CTA's window, not
// physical ones. By default 32: a[4] ^= a[7]; 64: a[5:4] ^= a[8:7]; 128: a[6:4] ^= a[9:7].
class SwizzleTable {
 public:
  // entry [row of 128 bytes, modulo 8][unit of 16 bytes in it]: the unit where it lies.
  using Units = std::array<std::array<std::uint8_t, 8>, 8>;

  SwizzleTable();
  // Another table for one mode, as 64 numbers: eight rows of eight units. Throws InputError, naming `key`, unless every
  // row is a permutation of its units that keeps each span of the mode together.
  void set(Swizzle swizzle, const std::vector<std::uint32_t>& units, const char* key);

  std::uint32_t operator()(Swizzle swizzle, std::uint32_t address) const {
    if (swizzle == Swizzle::none) return address;
    const Units& units = units_[static_cast<std::size_t>(swizzle)];
    return (address & ~std::uint32_t{0x70}) | static_cast<std::uint32_t>(units[address >> 7 & 7][address >> 4 & 7])
                                                  << 4;
  }

 private:
  std::array<Units, 4> units_{};
};

// Cycles that the banks need to read or write 16-byte units at those addresses (multiples of 16) together: 32 banks of
// 4 bytes are eight groups, each of which serves one unit per cycle; the same unit twice is one.
std::uint32_t unit_cycles(const std::uint32_t* addresses, std::uint32_t count);

// TMA-07. `_flush`: loads turn subnormal numbers into zero. tf32: loads round f32 to 10 bits of fraction, to nearest
// even.
enum class TensorType : std::uint8_t { u8, u16, u32, s32, u64, s64, f16, bf16, f32, f32_flush, tf32, tf32_flush, f64 };
constexpr std::size_t kTensorTypes = 13;
std::uint32_t bytes_of(TensorType type);
const char* type_name(TensorType type);
bool is_float(TensorType type);
// As what reductions take it: tf32 as f32.
ValueType value_type(TensorType type);

enum class TensorMode : std::uint8_t { tile, im2col };
// A channel slice of 16 or 32 bytes lies together: N, C / slice, D, H, W, slice (TMA-14).
enum class Interleave : std::uint8_t { none, bytes16, bytes32 };
// What elements outside the tensor read as (TMA-13): zero, or the special NaN of the type.
enum class Fill : std::uint8_t { zero, nan };

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
  std::uint64_t address = 0;
  std::array<std::uint64_t, kTensorRank> size{1, 1, 1, 1, 1};  // elements, 1 to 2^32
  // Bytes from one element to the next. [0] counts only if interleaved; otherwise elements lie side by side.
  std::array<std::uint64_t, kTensorRank> stride{};
  std::array<std::uint32_t, kTensorRank> box{1, 1, 1, 1, 1};        // tile: elements, 1 to 256
  std::array<std::uint32_t, kTensorRank> traversal{1, 1, 1, 1, 1};  // elements, 1 to 8; [0] only if interleaved
  // im2col: corners of the bounding box as offsets from those of the tensor, for W, H, D (TMA-11).
  std::array<std::int32_t, 3> base_corner{};
  std::array<std::int32_t, 3> far_corner{};
  std::uint32_t channels = 1;  // per pixel: 1 to 256
  std::uint32_t pixels = 1;    // per column: 1 to 1024

  // Bytes of what counts as one element: of the type, or of a slice.
  std::uint32_t step_bytes() const;
  // From one element of the dimension to the next.
  std::uint64_t step(std::uint32_t dimension) const {
    return dimension == 0 && interleave == Interleave::none ? step_bytes() : stride[dimension];
  }
  // Bytes of a whole box: ceil(box / traversal) elements per dimension, or pixels x channels.
  std::uint64_t box_bytes() const;
  // One past the last byte of the tensor. Only for a descriptor that breaks no rule.
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
  address,             // not a multiple of 16, or of 32 for the interleave of 32 bytes
  extent,              // not 1 to 2^32
  stride_alignment,    // not a multiple of 16, or of 32 for the interleave of 32 bytes
  stride_range,        // 2^40 or above
  stride_order,        // smaller than the dimension inside
  box,                 // extent not 1 to 256; im2col: channels not 1 to 256, pixels not 1 to 1024
  inner_bytes,         // of the inner box: no multiple of 16, not interleaved
  inner_swizzle,       // of the inner box: more than the span of the swizzle
  traversal,           // not 1 to 8
  nan_fill,            // of a type that is no floating-point type
  interleave_swizzle,  // the interleave of 32 bytes without the swizzle of 32 bytes
  corner,              // beyond the bits that the rank leaves for it
  unmapped,            // the descriptor, the tensor or the block is not within device memory
  // Of the instruction.
  block_address,       // of a block in device memory: not a multiple of 16
  shared_address,      // of the data in shared memory: not a multiple of 16, or beyond the CTA's shared memory
  barrier_address,     // none, not a multiple of 8, or beyond the CTA's shared memory
  barrier_cta,         // the mbarrier is not in the CTA that receives the data
  receivers,           // a CTA that the CGA does not have, that has not been launched, or an id above 15
  receivers_share_sm,  // two receivers on one SM
  reduction,           // the type does not have it
};
constexpr std::size_t kTensorRules = 25;
// As scenarios and stats.json write it: "stride_order".
const char* rule_key(TensorRule rule);
// "a stride is smaller than the dimension inside it"; of receivers_share_sm it names the mode to use.
const char* rule_text(TensorRule rule);

// The first rule that it breaks, of those up to `unmapped`; `memory`: bytes of device memory.
TensorRule check(const TensorDescriptor& descriptor, std::uint64_t memory);

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

}  // namespace heddle::arch
