// Matrix instructions of a warp: which lane holds which element, and what comes out. Without memory; what lies in
// shared memory is in ptx/wgmma.h. The maps are those of the PTX ISA manual, 9.7.15 ("Matrix Fragments for mma…").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/warp_program.h"
#include "ptx/module.h"

namespace heddle::ptx {

// A register of every lane: 32 bits. Numbers of 64 bits take two, the low word first.
using LaneWords = arch::PerLane<std::uint32_t>;

enum class BitOperation : std::uint8_t { none, exclusive_or, conjunction };  // .xor.popc, .and.popc

// A(m×k) · B(k×n) + C(m×n) = D(m×n).
struct MmaForm {
  std::string text;  // "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
  std::uint32_t m = 0, n = 0, k = 0;
  Type d = Type::none, a = Type::none, b = Type::none, c = Type::none;
  bool a_by_rows = true;     // .row; only m8n8k4 of f16 has a choice
  bool b_by_columns = true;  // .col
  bool saturate = false;     // .satfinite, of integers
  BitOperation bits = BitOperation::none;

  // Registers of 32 bits of each lane.
  std::uint32_t a_words() const;
  std::uint32_t b_words() const;
  std::uint32_t c_words() const;
  std::uint32_t d_words() const;
};

// Modifiers as of Instruction, behind "mma". Nothing and `why`: there is no such form, or it is not modelled (.sp,
// .kind::…, .block_scale).
std::optional<MmaForm> find_mma_form(const std::vector<std::string>& modifiers, std::string& why);
// All shapes and types of elements, for lists: the accumulators are of the widest type.
std::vector<MmaForm> all_mma_forms();

// Where element `i` of a lane's fragment stands. Elements are counted from the low bits of the first register on.
struct MatrixPlace {
  std::uint32_t row = 0;
  std::uint32_t column = 0;
};
MatrixPlace place_in_a(const MmaForm& form, std::uint32_t lane, std::uint32_t i);
MatrixPlace place_in_b(const MmaForm& form, std::uint32_t lane, std::uint32_t i);
MatrixPlace place_in_c(const MmaForm& form, std::uint32_t lane, std::uint32_t i);  // by the type of C; see place_in_d
MatrixPlace place_in_d(const MmaForm& form, std::uint32_t lane, std::uint32_t i);
// Which of the products of m8n8k4 of f16 a lane has part in: 0 to 3. Of others: 0.
std::uint32_t product_of_lane(const MmaForm& form, std::uint32_t lane);

// Of all 32 lanes. d may be c. PTX leaves the order of additions open. Here: from C on, in the order of k, in single
// precision, each sum to nearest even; products of narrow numbers are exact. Sums of f16 are worked out so, too, and
// rounded once, at the end. f64: fused multiply-add, in the order of k. Of tf32 the low 13 bits do not count. NaNs are
// those of PTX's arithmetic (0x7fffffff, 0x7fff; of f64 an ordinary one). Integers wrap, or are clamped at the end.
void multiply_matrices(const MmaForm& form, LaneWords* d, const LaneWords* a, const LaneWords* b, const LaneWords* c);

// 8 rows of 16 bytes into a register of each lane (ldmatrix.m8n8.b16, one matrix), and back (stmatrix). Row i of matrix
// j is at the address that lane 8j + i gives.
struct MatrixRows {
  std::uint8_t bytes[8][16] = {};
};
LaneWords load_matrix(const MatrixRows& rows, bool transposed);
MatrixRows store_matrix(const LaneWords& words, bool transposed);
// movmatrix.sync.aligned.m8n8.trans.b16
LaneWords transpose_matrix(const LaneWords& words);

// sums[i] += factor · numbers[i] for i below `count`, rounded once each; factors and numbers of elements of the type.
// All of them for one k: that is where the time goes.
void add_products(Type type, float factor, const float* numbers, std::uint32_t count, float* sums);
// The same without the host's fused multiply-add.
void add_products_portably(Type type, float factor, const float* numbers, std::uint32_t count, float* sums);

// An element of a matrix type as a number: of the low bits of `bits`. Not of integers and bits.
float matrix_number(Type type, std::uint32_t bits);
std::uint32_t matrix_bits(Type type);  // of an element: 1 to 64

}  // namespace heddle::ptx
