// Modules of PTX for tests of the parser, and what is said of those that are refused.
#pragma once

#include <string>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "ptx/module.h"

namespace heddle::test {

// Line 1; what follows begins in line 2.
inline std::string with_head(const std::string& text) {
  return ".version 9.0 .target sm_90a .address_size 64\n" + text;
}

inline ptx::Module module_of(const std::string& text) { return ptx::parse_module(with_head(text), "m.ptx"); }

// A kernel of that body, which begins in line 3.
inline std::string kernel_text(const std::string& body) { return ".visible .entry kernel() {\n" + body + "\n}"; }

inline ptx::Block body_of(const std::string& body) {
  return *module_of(kernel_text(body)).find_function("kernel")->body;
}

// What is said of a text; "" if nothing is.
inline std::string refusal_of_text(const std::string& text) {
  try {
    (void)ptx::parse_module(text, "m.ptx");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}
inline std::string refusal(const std::string& text) { return refusal_of_text(with_head(text)); }
inline std::string body_refusal(const std::string& body) { return refusal(kernel_text(body)); }

// The instructions of a block itself, in order.
inline std::vector<ptx::Instruction> instructions_of(const ptx::Block& block) {
  std::vector<ptx::Instruction> found;
  for (const auto& statement : block.statements) {
    if (const auto* instruction = std::get_if<ptx::Instruction>(&statement)) found.push_back(*instruction);
  }
  return found;
}

// The statements of one kind.
template <typename Statement>
std::vector<Statement> statements_of(const ptx::Block& block) {
  std::vector<Statement> found;
  for (const auto& statement : block.statements) {
    if (const auto* one = std::get_if<Statement>(&statement)) found.push_back(*one);
  }
  return found;
}

}  // namespace heddle::test
