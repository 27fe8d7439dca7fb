// Constant expressions of PTX (PTX ISA, "Constant Expressions"): what an assembler works out.
#pragma once

#include <cstdint>
#include <string_view>

#include "ptx/lexer.h"

namespace heddle::ptx {

// Integers have 64 bits and are signed or unsigned; floating point is double, apart from single-precision constants
// that are written as their bits, which stand alone.
struct Constant {
  enum class Kind : std::uint8_t { signed_integer, unsigned_integer, real, single };
  Kind kind = Kind::signed_integer;
  std::uint64_t bits = 0;

  bool is_integer() const { return kind == Kind::signed_integer || kind == Kind::unsigned_integer; }
  double as_double() const;
};

class ConstantReader {
 public:
  explicit ConstantReader(TokenReader& tokens) : tokens_(tokens) {}

  // Whether a constant expression can begin with what is next: a number, a sign, ~, !, ( or WARP_SZ.
  bool at_constant() const;
  // The longest expression from here on. Throws InputError, also for divisions by zero and more than 100 levels of
  // parentheses.
  Constant read();
  // Without additions and what binds weaker: a term of base + 4 * 8 - 2.
  Constant read_term();
  // As read(), of integers only: `what` says what it is for.
  std::uint64_t read_integer(std::string_view what);
  // An integer from 0 on that is at most `limit`.
  std::uint64_t read_count(std::string_view what, std::uint64_t limit);

 private:
  Constant read_choice();
  Constant read_binary(int weakest);
  Constant read_unary();
  Constant read_primary();
  Constant combine(const Token& op, const Constant& a, const Constant& b) const;
  Constant combine_reals(const Token& op, const Constant& a, const Constant& b) const;
  Constant combine_integers(const Token& op, const Constant& a, const Constant& b) const;
  void need_integer(const Token& op, const Constant& value) const;

  TokenReader& tokens_;
  int depth_ = 0;
};

}  // namespace heddle::ptx
