// What instructions of PTX that touch registers alone work out: for all lanes of a warp at once, exactly as the PTX ISA
// manual says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/warp_program.h"
#include "ptx/module.h"

namespace heddle::ptx {

// Values lie in planes of 32 lanes, a 32-bit word each. Values of 8 and 16 bits are the low bits of a word whose other
// bits are zero on writing and ignored on reading; of 64 bits: two planes, the low one first; of 128: four. Planes of a
// destination may be those of a source. The elements of a vector lie one behind the other, in planes of their own. A
// constant has its value in every lane. A predicate is a mask of lanes.
struct AluOperands {
  arch::LaneMask lanes = 0;        // that take part; others keep their registers
  std::uint32_t* d[2] = {};        // destinations; null: nobody wants it ("_")
  const std::uint32_t* s[4] = {};  // sources in the order of the text, predicates left out
  arch::LaneMask p_in[2] = {};     // sources that are predicates, in the order of the text
  arch::LaneMask p_out[2] = {};    // destinations that are predicates: of `lanes` only
  arch::LaneMask carry = 0;        // condition code: read and written by add.cc, addc …
  std::uint16_t part[3] = {};      // of video instructions: of d, a and b, as video_part() has them; 0: none written
};
using AluFunction = void (*)(AluOperands&);

enum class OperandKind : std::uint8_t { value, predicate };
struct OperandSlot {
  OperandKind kind = OperandKind::value;
  Type type = Type::b32;       // width of the registers, and how a constant is read
  std::uint32_t elements = 1;  // of a vector {a, b, …}
  bool optional = false;       // may be left out at the end
};

// Which pipe of an SM an instruction goes to; the prices are in ptx/timing.h.
enum class AluClass : std::uint8_t {
  move,  // folded away by an assembler, mostly
  integer,
  logic,
  shift,
  multiply,
  dot,
  fp32,
  fp64,
  half,
  special,
  convert,
  convert_wide,
  compare,
  permute,
};

// An instruction as its mnemonic says.
struct AluForm {
  std::string text;  // "add.rn.ftz.f32"
  AluFunction function = nullptr;
  AluClass group = AluClass::integer;
  std::vector<OperandSlot> destinations;
  std::vector<OperandSlot> sources;  // predicates among them, in the order of the text
  bool reads_carry = false;
  bool writes_carry = false;
};

// nullptr and `why` ("no rounding .rz for f16; PTX has .rn"): there is no such form. Modifiers without dots, as in
// Instruction. Looked up when a module is loaded, never while it runs.
const AluForm* find_alu_form(const std::string& opcode, const std::vector<std::string>& modifiers, std::string& why);
// Whether the opcode is one of registers alone.
bool is_alu_opcode(const std::string& opcode);
// mov between a register and a vector, which have one mnemonic: mov.b64 d, {a, b} (elements 2), mov.b32 {a, b}, d
// (unpack). whole: b16, b32, b64, b128. nullptr and `why`: PTX has none of so many elements.
const AluForm* find_vector_move(Type whole, std::uint32_t elements, bool unpack, std::string& why);
// Which part of a register an operand of a video instruction names, or which elements: "b0", "h1", "b7654" (d.b0, a.h1
// …), without the dot. Nothing: it is no such name.
std::optional<std::uint16_t> video_part(const std::string& selector);
// All forms, those of find_vector_move() too, in an order that does not change between runs.
std::vector<const AluForm*> all_alu_forms();
// By opcode: how many forms, of which types, with which modifiers; a table in Markdown (docs/ptx-arithmetic.md).
std::string alu_table();

}  // namespace heddle::ptx
