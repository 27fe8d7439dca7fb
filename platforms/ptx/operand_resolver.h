// Operands of an instruction as planes and predicates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/code_builder.h"
#include "ptx/name_scope.h"

namespace heddle::ptx {

// The modifiers of an instruction; each is taken by what understands it, and what is left over is refused.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string>& words) : words_(words), taken_(words.size(), 0) {}

  // True if it is there.
  bool take(const std::string& word);
  // The first of these that is there; -1: none.
  int take_of(const std::vector<std::string>& words);
  // The first type that is there and not taken.
  std::optional<Type> take_type();
  // One that begins so, whole; empty: none.
  std::string take_prefix(const std::string& prefix);
  // The first that nobody has taken; empty: all have been.
  std::string left() const;
  bool has(const std::string& word) const;

 private:
  std::vector<std::string> words_;
  std::vector<std::uint8_t> taken_;
};

// [base + offset]
struct AddressValue {
  PlaneRef base = kNoPlane;
  bool wide = true;
  std::int64_t offset = 0;
  const Symbol* symbol = nullptr;  // of a variable or a parameter
};

// Reads the operands of one instruction; throws InputError with file, line and remedy.
class OperandResolver {
 public:
  OperandResolver(CodeBuilder& code, const NameScope& names, const Instruction& written)
      : builder(code), scope(names), instruction(written) {}

  std::size_t count() const { return instruction.operands.size(); }
  const Operand& operand(std::size_t index) const;
  bool has(std::size_t index) const { return index < count(); }

  // A source of that type: a register, a constant, or an address of a variable as a number.
  PlaneRef source(const Operand& operand, Type type);
  PlaneRef source(std::size_t index, Type type) { return source(operand(index), type); }
  // The same; a register may be wider than the type, or narrower if it is stored as it is.
  PlaneRef any_source(const Operand& operand, Type type);
  // A predicate, negated or not; of constants: nothing, and `constant` says which.
  PredicateRef predicate(const Operand& operand, bool* constant = nullptr);
  // A register; kNoPlane: nobody wants it.
  PlaneRef destination(const Operand& operand, Type type);
  PredicateRef predicate_destination(const Operand& operand);
  // d, or d|p.
  void pair(const Operand& operand, const Operand*& first, const Operand*& second) const;
  // {a, b, …}, or one alone.
  std::vector<const Operand*> elements(const Operand& operand) const;
  AddressValue address(const Operand& operand);
  // A whole number that is known here.
  std::optional<std::uint64_t> constant(const Operand& operand) const;
  // The planes of a register, and its type; nullptr: it is no register.
  const Symbol* symbol(const Operand& operand) const;
  const std::string* name(const Operand& operand) const;

  // Copies between registers, free.
  void copy(PlaneRef to, PlaneRef from, std::uint32_t planes);
  [[noreturn]] void fail(const std::string& message, const std::string& remedy) const;
  [[noreturn]] void fail(const Operand& operand, const std::string& message, const std::string& remedy) const;
  // "ld.global.f32"
  std::string text() const;

  // Whether operands may be parts of registers (%r1.b0), as those of video instructions.
  void allow_parts() { parts_ = true; }

  CodeBuilder& builder;
  const NameScope& scope;
  const Instruction& instruction;

 private:
  PlaneRef register_of(const Operand& operand, const Symbol& symbol, const std::string& selector) const;
  PlaneRef symbol_address(const Symbol& symbol, std::int64_t offset, std::uint32_t planes);

  bool parts_ = false;
};

// The bits of a constant as a value of the type: "0f3F800000", 1.5, -1. False: it has no such value.
bool constant_bits(const Operand& operand, Type type, std::uint64_t& bits);

// How instructions of each family become what runs. Each function takes the instructions that it knows, and says
// whether this one was; throws InputError with file, line and remedy for one that it knows and that is wrong.

// mov, cvta, isspacep, mapa, getctarank, and those of registers alone.
bool resolve_registers(OperandResolver& in);
// ld, st, atom, red, prefetch, cp.async without .bulk.
bool resolve_accesses(OperandResolver& in);
// shfl, vote, match, redux, elect, activemask, bar.warp.sync.
bool resolve_warp(OperandResolver& in);
// bar, barrier, fence, membar, mbarrier, griddepcontrol, nanosleep, trap …
bool resolve_synchronisation(OperandResolver& in);
// mma, ldmatrix, stmatrix, movmatrix, wgmma.
bool resolve_matrices(OperandResolver& in);
// cp.async.bulk, cp.reduce.async.bulk, and what belongs to them.
bool resolve_bulk(OperandResolver& in);

// %tid, %clock64 and the others. If the second operand of a mov is one: true. Throws InputError for one that the model
// does not have.
bool resolve_special_register(OperandResolver& in, Type type);

// Modifiers that accesses to memory have in common: how they are ordered, which memory, and hints to caches.
struct MemoryWords {
  arch::Order order = arch::Order::weak;
  arch::Scope scope = arch::Scope::gpu;
  bool has_scope = false;
  std::optional<Window> window;  // none: generic
};
// Takes them; hints are accepted and have no effect.
MemoryWords take_memory_words(Modifiers& words);
// The memory that an access goes to: that of the instruction, or of the variable that it names.
Window window_of(const MemoryWords& words, const AddressValue& address);

}  // namespace heddle::ptx
