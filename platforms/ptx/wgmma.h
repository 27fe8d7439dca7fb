// wgmma.mma_async: products of four warps with matrices in shared memory. Where elements lie there follows from 64-bit
// descriptors: PTX ISA manual, 9.7.15.5.1.2 ("Shared Memory Matrix Layout", "Matrix Descriptor Format").
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ptx/mma.h"

namespace heddle::ptx {

enum class MatrixSwizzle : std::uint8_t { none, bytes128, bytes64, bytes32 };  // as bits 62 and 63 say

// Bytes; addresses are those of the shared window, offsets multiples of 16 below 2^18.
struct MatrixDescriptor {
  std::uint32_t start = 0;
  std::uint32_t leading = 0;  // leading dimension byte offset
  std::uint32_t stride = 0;   // stride dimension byte offset
  std::uint32_t base_offset =
      0;  // 0 to 7: lines of 128 bytes by which the pattern begins beside a multiple of its length
  MatrixSwizzle swizzle = MatrixSwizzle::none;
};
MatrixDescriptor decode_descriptor(std::uint64_t bits);

// Of the 16 bytes that hold element (mn, k) of a matrix of elements of `bits` bits (8, 16, 32), and where in them it
// lies. k_major: neighbours along k lie side by side, else neighbours along m or n.
struct ElementAddress {
  std::uint32_t chunk = 0;   // address, a multiple of 16
  std::uint32_t offset = 0;  // bytes in it
};
ElementAddress element_address(const MatrixDescriptor& descriptor, bool k_major, std::uint32_t bits, std::uint32_t mn,
                               std::uint32_t k);

// D(64×n) = A(64×k) · B(k×n) [+ D]
struct WgmmaForm {
  std::string text;
  std::uint32_t n = 0, k = 0;  // k in elements of A and B
  Type d = Type::none, a = Type::none, b = Type::none;
  bool saturate = false;

  std::uint32_t d_words() const;  // registers of a lane
  std::uint32_t a_words() const;  // where A is in registers
  bool has_scales() const;        // imm-scale-a, imm-scale-b
  bool has_transposes() const;    // imm-trans-a, imm-trans-b
};
// Modifiers behind "wgmma": mma_async, sync, aligned, … Nothing and `why`: no such form, or not modelled (.sp).
std::optional<WgmmaForm> find_wgmma_form(const std::vector<std::string>& modifiers, std::string& why);

// What one warp of the four does: rows 16w to 16w + 15 of D.
struct WgmmaOperands {
  bool add = true;        // scale-d: false: D = A · B
  bool negate_a = false;  // imm-scale-a: −1
  bool negate_b = false;
  bool transpose_a = false;      // imm-trans-a: A lies M-major
  bool transpose_b = false;      // B lies N-major
  const LaneWords* a = nullptr;  // in registers; null: by descriptor
  MatrixDescriptor a_place;
  MatrixDescriptor b_place;
};
// 16 bytes of shared memory from an address on, which is a multiple of 16.
using ReadChunk = std::function<void(std::uint32_t address, std::uint8_t* bytes)>;

// Row and column of register element `i` of a lane of warp 0 to 3, in D, and in A where it is in registers.
MatrixPlace place_in_wgmma_d(std::uint32_t warp, std::uint32_t lane, std::uint32_t i);
MatrixPlace place_in_wgmma_a(Type type, std::uint32_t warp, std::uint32_t lane, std::uint32_t i);

// Reads A, B and D; writes D. Sums as of multiply_matrices().
void multiply_warpgroup(const WgmmaForm& form, std::uint32_t warp, const WgmmaOperands& operands, const ReadChunk& read,
                        LaneWords* d);

}  // namespace heddle::ptx
