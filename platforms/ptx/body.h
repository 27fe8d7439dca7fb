// The statements of a PTX function, with their blocks.
#pragma once

#include <string>
#include <vector>

#include "ptx/declaration.h"
#include "ptx/lexer.h"
#include "ptx/module.h"
#include "ptx/name_table.h"
#include "ptx/operand.h"

namespace heddle::ptx {

// Assumption: nobody nests blocks deeper.
constexpr std::size_t kMaxBlockDepth = 200;

// .pragma "…", "…"; — hints to an assembler, which none is here.
void skip_pragma(TokenReader& tokens);
// .section .debug_info { … }
void skip_section(TokenReader& tokens);
// .file 1 "kernel.cu", time, size
SourceFile read_file(TokenReader& tokens);

class BodyReader {
 public:
  BodyReader(TokenReader& tokens, NameTable& names)
      : tokens_(tokens), names_(names), declarations_(tokens, names), operands_(tokens, names), constants_(tokens) {}

  // From { to }. Throws InputError for labels that are nowhere.
  Block read_body();

 private:
  Block read_block();
  void read_statements(Block& block);
  void read_statement(Block& block);
  void read_directive(Block& block);
  void read_label(Block& block);
  void read_targets(Block& block, const Token& name);
  void read_prototype(Block& block, const Token& name);
  Instruction read_instruction();
  void read_location();
  void settle(std::size_t from);

  TokenReader& tokens_;
  NameTable& names_;
  DeclarationReader declarations_;
  OperandReader operands_;
  ConstantReader constants_;
  SourcePlace location_;              // of the .loc before
  std::vector<PendingName> pending_;  // of this block and those around it
  std::vector<std::string> settled_;  // labels seen, for messages
};

}  // namespace heddle::ptx
