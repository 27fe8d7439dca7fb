// PTX as it is written: what the parser makes of a module's text, before anybody knows what an instruction does.
// Names follow the PTX ISA manual, version 9.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::ptx {

// In the text of the module; from 1 on.
struct TextPlace {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// Where the source of an instruction stands, as .loc says (nvcc -lineinfo); file: index of .file.
struct SourcePlace {
  std::uint32_t file = 0;  // 0: none
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

enum class StateSpace : std::uint8_t { reg, sreg, constant, global, local, param, shared, generic };

// Fundamental types of PTX, and the packed and narrow formats that stand as types of instructions.
enum class Type : std::uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f32x2,
  f64,
  u16x2,
  s16x2,
  u8x4,
  s8x4,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
  e2m1x2,
  e2m3x2,
  e3m2x2,
  ue8m0x2,
  s4,
  u4,
  b1,
};
// "f16x2"; bytes of a value of it in memory (pred: 1; sub-byte: 1).
const char* type_name(Type type);
std::uint32_t bytes_of(Type type);
std::optional<Type> find_type(const std::string& name);  // without the dot

struct Operand;

// A name, with what may stand around it.
struct NameOperand {
  std::string name;         // "%r1", "%tid.x", "buffer", "LBB0_2"; "_": nobody wants it
  bool negated = false;     // !%p1
  std::string selector;     // ".x" of a vector register or of %tid: "x"; empty: none
  std::int64_t offset = 0;  // bytes beside the name of a variable: mov.u64 %rd1, buffer+8; buffer[2] is scaled here
};
struct IntegerOperand {
  std::uint64_t bits = 0;  // two's complement
  bool is_unsigned = false;
};
struct FloatOperand {
  Type type = Type::f64;  // f32: 0f…; f64: 0d…, or a decimal number
  std::uint64_t bits = 0;
};
// {a, b, …}
struct VectorOperand {
  std::vector<Operand> elements;
};
// [base + offset], [immediate]; the coordinates of a tensor: [map, {x, y}]; further parts of the brackets, if any.
struct AddressOperand {
  std::vector<Operand> base;  // none: an absolute address; else one
  std::int64_t offset = 0;
  std::vector<Operand> parts;  // behind commas
};
// a|b: two destinations.
struct PairOperand {
  std::vector<Operand> elements;  // two
};
// (a, b, …): parameters of a call.
struct ListOperand {
  std::vector<Operand> elements;
};

struct Operand {
  TextPlace place;
  std::variant<NameOperand, IntegerOperand, FloatOperand, VectorOperand, AddressOperand, PairOperand, ListOperand> what;
};

// @%p or @!%p
struct Guard {
  std::string name;
  bool negated = false;
};

struct Instruction {
  TextPlace place;
  SourcePlace source;
  std::optional<Guard> guard;
  std::string opcode;                  // "ld"
  std::vector<std::string> modifiers;  // "global", "v4", "f32", "L1::evict_last": without dots
  std::vector<Operand> operands;
};

// Of a variable: numbers, or addresses of names, at byte offsets. Bytes beside them are zero.
struct Initializer {
  std::vector<std::uint8_t> bytes;  // from the variable's start to its last value that is given; zero from there on
  struct Address {
    std::uint64_t at = 0;     // offset, bytes
    std::string name;         // of a variable or a function
    std::int64_t offset = 0;  // beside it
    std::uint32_t bytes = 8;  // of the place
    bool generic = false;     // generic(name)
    std::uint32_t shift = 0;  // mask operators: which byte of the address, for places of one byte
  };
  std::vector<Address> addresses;
};

struct Variable {
  TextPlace place;
  std::string module;  // of those outside of functions: the name of the module whose text `place` is in
  std::string name;
  StateSpace space = StateSpace::reg;
  Type type = Type::none;
  std::uint32_t vector = 1;            // .v2, .v4
  std::vector<std::uint64_t> extents;  // of an array; the first 0: of unknown size
  bool array = false;
  std::uint32_t align = 0;  // bytes; 0: natural
  std::uint32_t count = 1;  // %r<7>: 7 registers %r0 to %r6; `parametrized`
  bool parametrized = false;
  bool is_visible = false, is_extern = false, is_weak = false, is_common = false, managed = false;
  std::string opaque;    // "texref", "samplerref", "surfref"; empty: none
  bool pointer = false;  // a .param with .ptr
  StateSpace pointer_space = StateSpace::generic;
  std::uint32_t pointer_align = 0;
  std::optional<Initializer> initial;

  std::uint64_t bytes() const;      // in memory
  std::uint32_t alignment() const;  // bytes
};

struct Block;

// In the order of the text.
struct Label {
  TextPlace place;
  std::string name;
};
// name: .branchtargets a, b;   name: .calltargets f, g;   name: .callprototype …
struct TargetList {
  TextPlace place;
  std::string name;
  std::vector<std::string> targets;
};
struct Prototype {
  TextPlace place;
  std::string name;
  std::vector<Variable> results;
  std::vector<Variable> parameters;
};
struct Block {
  TextPlace place;
  std::vector<std::variant<Instruction, Label, Variable, TargetList, Prototype, Block>> statements;
};

struct Function {
  TextPlace place;
  std::string module;  // the name of the module whose text `place` and those in the body are in
  std::string name;
  bool entry = false;  // .entry, else .func
  bool is_visible = false, is_extern = false, is_weak = false;
  bool no_return = false;
  std::vector<Variable> results;
  std::vector<Variable> parameters;
  std::optional<Block> body;  // none: a declaration
  std::map<std::string, std::vector<std::uint64_t>>
      directives;  // "maxntid" -> 128, 1, 1; "reqnctapercluster"; "minnctapersm"; "maxnreg"; "explicitcluster"
};

struct SourceFile {
  std::uint32_t index = 0;
  std::string name;
};

struct Module {
  std::string name;  // of its file, for messages
  std::uint32_t major = 0;
  std::uint32_t minor = 0;                  // .version
  std::string target;                       // "sm_90a"
  std::vector<std::string> target_options;  // "debug", "texmode_unified"
  std::uint32_t address_size = 64;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<SourceFile> files;
  std::map<std::string, std::string> aliases;

  const Function* find_function(const std::string& wanted) const;
  const Variable* find_variable(const std::string& wanted) const;
};

// Throws InputError with file, line, column and remedy. `name` stands in messages.
Module parse_module(const std::string& text, const std::string& name);

// One module of several, as a linker of devices makes it (nvcc -rdc=true): .extern names are those that others define;
// of .weak definitions the first stays, unless there is one that is not weak; of .common ones the largest. Names that a
// module has for itself and that occur in another one too are told apart by "@" and the number of their module, from 1
// on. Functions that nobody defines stay as declarations: a system may have them. `files` are numbered anew. Throws
// InputError for two definitions, variables that nobody defines, and declarations that do not go with what is defined.
Module link(std::vector<Module> modules);

}  // namespace heddle::ptx
