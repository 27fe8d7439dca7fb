// Operands of PTX instructions as they are written (PTX ISA, "Instruction Operands").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/constant.h"
#include "ptx/lexer.h"
#include "ptx/module.h"
#include "ptx/name_table.h"

namespace heddle::ptx {

// The name of a label that may stand further down.
struct PendingName {
  std::string name;
  TextPlace place;
};

class OperandReader {
 public:
  OperandReader(TokenReader& tokens, const NameTable& names) : tokens_(tokens), names_(names), constants_(tokens) {}

  // Up to the semicolon, which it takes. Names that an instruction of this opcode may use before they are declared, and
  // that nobody has declared, go to `pending`; other such names are refused.
  std::vector<Operand> read_all(std::string_view opcode, std::vector<PendingName>& pending);
  // A register that an instruction waits for: name, after @ or @!.
  std::string read_predicate();

 private:
  Operand read_operand();
  Operand read_single();
  void read_named(Operand& operand);
  void read_constant(Operand& operand);
  void read_vector(Operand& operand);
  void read_brackets(Operand& operand);
  void read_list(Operand& operand);
  std::int64_t read_offset();
  std::int64_t read_index(std::uint64_t element_bytes);
  const NameEntry* use(const Token& name);

  TokenReader& tokens_;
  const NameTable& names_;
  ConstantReader constants_;
  std::string_view opcode_;
  std::vector<PendingName>* pending_ = nullptr;
};

}  // namespace heddle::ptx
