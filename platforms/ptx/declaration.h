// Variables, registers and parameters of PTX as they are declared (PTX ISA, "State Spaces, Types, and Variables").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/constant.h"
#include "ptx/lexer.h"
#include "ptx/module.h"
#include "ptx/name_table.h"

namespace heddle::ptx {

// What may stand in front of a declaration.
struct Linkage {
  bool is_visible = false, is_extern = false, is_weak = false, is_common = false;

  bool any() const { return is_visible || is_extern || is_weak || is_common; }
};

// The state space that a directive names (without its dot).
bool is_state_space(std::string_view directive);

// As a range of bytes that no memory of the machine has, and as many registers as no thread has.
constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxRegisters = 1U << 20;
// Assumptions: nobody nests deeper, and nobody gives more initial bytes.
constexpr std::size_t kMaxDimensions = 16;
constexpr std::uint64_t kMaxInitialBytes = std::uint64_t{1} << 28;

class DeclarationReader {
 public:
  DeclarationReader(TokenReader& tokens, NameTable& names) : tokens_(tokens), names_(names), constants_(tokens) {}

  // From the state space to the semicolon; declares the names.
  std::vector<Variable> read(const Linkage& linkage);
  // (.param .b32 a, .reg .f64 b): declares the names if `declares`. Prototypes have none, and "_" instead.
  std::vector<Variable> read_parameters(bool declares);
  // .attribute(.managed, .unified(1, 2)); whether .managed is among them.
  bool read_attributes();
  // Refuses a name that is taken in its block.
  void declare(const std::string& name, const NameEntry& entry);

 private:
  Variable read_space_and_type();
  void read_type(Variable& variable);
  void read_pointer(Variable& variable);
  std::uint32_t read_alignment();
  void read_name(Variable& variable, bool is_parameter);
  void read_extents(Variable& variable);
  void check_size(const Variable& variable) const;
  void check_place(const Variable& variable) const;
  void check_complete(const Variable& variable) const;

  void read_initial(Variable& variable);
  void skip_opaque_initial();
  std::uint64_t read_dimension(Variable& variable, std::size_t dimension, std::uint64_t at);
  void read_element(Variable& variable, std::uint64_t at);
  void read_scalar(Variable& variable, std::uint64_t at);
  void read_address(Initializer::Address& address);
  void check_reach(const Variable& variable, std::uint64_t end, TextPlace place) const;
  void put(Variable& variable, std::uint64_t at, const Constant& value, TextPlace place) const;

  TokenReader& tokens_;
  NameTable& names_;
  ConstantReader constants_;
};

}  // namespace heddle::ptx
