// What names mean where an instruction stands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptx/code_builder.h"
#include "ptx/module.h"

namespace heddle::ptx {

// A parameter of a .func, or what a caller lays beside a call: bytes in registers. Each place is a register of its own
// for as long as it is read as it was written.
struct ParameterBytes {
  struct Piece {
    std::uint32_t bytes = 0;
    PlaneRef reg = kNoPlane;
  };
  std::map<std::uint64_t, Piece> pieces;  // by offset
};

struct Symbol {
  enum class Kind : std::uint8_t {
    value,  // a register: `planes` and its vector's elements
    predicate,
    address,    // a variable in memory
    parameter,  // of the entry: at an offset in its arguments
    bytes,      // of a .func
    label,
    targets,
    prototype,
    function,
  };
  Kind kind = Kind::value;
  Type type = Type::b32;
  std::vector<PlaneRef> elements;  // value: one, or those of a vector
  PredicateRef predicate;
  StateSpace space = StateSpace::reg;  // address
  std::uint64_t offset = 0;            // in its space; of the arguments; label: its id
  bool dynamic = false;                // address: behind all other shared memory
  std::uint64_t size = 0;              // bytes
  std::shared_ptr<ParameterBytes> content;
  std::vector<std::string> names;  // targets
};

class NameScope {
 public:
  NameScope(CodeBuilder& builder, const NameScope* outer) : builder_(builder), outer_(outer) {}

  // Registers: all of them, or a range of names.
  void declare_registers(const Variable& variable);
  void add(const std::string& name, Symbol symbol) { symbols_[name] = std::move(symbol); }
  // nullptr: there is no such name.
  const Symbol* find(const std::string& name) const;

 private:
  Symbol make(Type type, std::uint32_t vector) const;

  CodeBuilder& builder_;
  const NameScope* outer_;
  mutable std::map<std::string, Symbol> symbols_;
  std::map<std::string, Variable> ranges_;
};

// 32-bit planes of a register of the type.
std::uint32_t planes_of(Type type);

}  // namespace heddle::ptx
