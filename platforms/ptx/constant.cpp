#include "ptx/constant.h"

#include <cstring>
#include <limits>
#include <string>

namespace heddle::ptx {

namespace {

constexpr int kMaxExpressionDepth = 100;  // assumption: nobody writes more
constexpr std::uint64_t kWarpSize = 32;

using Kind = Constant::Kind;

// As in C: the tighter an operator binds, the higher.
int precedence_of(std::string_view op) {
  struct Row {
    const char* op;
    int precedence;
  };
  static constexpr Row kRows[] = {{"||", 1}, {"&&", 2}, {"|", 3}, {"^", 4},  {"&", 5},  {"==", 6},
                                  {"!=", 6}, {"<", 7},  {">", 7}, {"<=", 7}, {">=", 7}, {"<<", 8},
                                  {">>", 8}, {"+", 9},  {"-", 9}, {"*", 10}, {"/", 10}, {"%", 10}};
  for (const Row& row : kRows) {
    if (op == row.op) return row.precedence;
  }
  return 0;
}
constexpr int kWeakest = 1;
constexpr int kTerm = 10;

Constant real_of(double value) {
  Constant result{Kind::real, 0};
  std::memcpy(&result.bits, &value, sizeof value);
  return result;
}

Constant truth(bool value) { return {Kind::signed_integer, value ? 1U : 0U}; }

bool is_true(const Constant& value) { return value.bits != 0; }

// The usual conversion: unsigned if one of them is.
Kind common_kind(const Constant& a, const Constant& b) {
  return a.kind == Kind::unsigned_integer || b.kind == Kind::unsigned_integer ? Kind::unsigned_integer
                                                                              : Kind::signed_integer;
}

bool less_than(const Constant& a, const Constant& b) {
  if (common_kind(a, b) == Kind::unsigned_integer) return a.bits < b.bits;
  return static_cast<std::int64_t>(a.bits) < static_cast<std::int64_t>(b.bits);
}

std::uint64_t quotient(const Constant& a, const Constant& b) {
  if (common_kind(a, b) == Kind::unsigned_integer) return a.bits / b.bits;
  // The one that overflows wraps around.
  if (b.bits == std::numeric_limits<std::uint64_t>::max()) return 0 - a.bits;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(a.bits) / static_cast<std::int64_t>(b.bits));
}

std::uint64_t shifted_right(const Constant& value, std::uint64_t by) {
  const bool negative = value.kind == Kind::signed_integer && value.bits >> 63 != 0;
  if (by > 63) return negative ? std::numeric_limits<std::uint64_t>::max() : 0;
  const std::uint64_t shifted = value.bits >> by;
  return negative && by > 0 ? shifted | ~(std::numeric_limits<std::uint64_t>::max() >> by) : shifted;
}

}  // namespace

double Constant::as_double() const {
  if (kind == Kind::single) {
    const auto low = static_cast<std::uint32_t>(bits);
    float value = 0;
    std::memcpy(&value, &low, sizeof value);
    return value;
  }
  if (kind == Kind::signed_integer) return static_cast<double>(static_cast<std::int64_t>(bits));
  if (kind == Kind::unsigned_integer) return static_cast<double>(bits);
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

bool ConstantReader::at_constant() const {
  const Token& token = tokens_.peek();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::single || token.kind == TokenKind::real) return true;
  if (token.kind == TokenKind::name) return token.text == "WARP_SZ";
  if (token.kind != TokenKind::symbol) return false;
  return token.text == "-" || token.text == "+" || token.text == "~" || token.text == "!" || token.text == "(";
}

Constant ConstantReader::read() { return read_choice(); }

Constant ConstantReader::read_term() { return read_binary(kTerm); }

std::uint64_t ConstantReader::read_integer(std::string_view what) {
  const Token start = tokens_.peek();
  if (!at_constant()) tokens_.refuse_token(start, what);
  const Constant value = read();
  if (!value.is_integer()) tokens_.refuse_token(start, std::string(what) + ", an integer");
  return value.bits;
}

std::uint64_t ConstantReader::read_count(std::string_view what, std::uint64_t limit) {
  const Token start = tokens_.peek();
  if (!at_constant()) tokens_.refuse_token(start, what);
  const Constant value = read();
  const bool negative = value.kind == Kind::signed_integer && value.bits >> 63 != 0;
  if (!value.is_integer() || negative) tokens_.refuse_token(start, std::string(what) + ", an integer from 0 on");
  if (value.bits > limit) {
    tokens_.refuse(start.place, std::string(what) + " is " + std::to_string(value.bits),
                   "at most " + std::to_string(limit) + " is read");
  }
  return value.bits;
}

Constant ConstantReader::read_choice() {
  const Constant condition = read_binary(kWeakest);
  if (!tokens_.at_symbol("?")) return condition;
  const Token op = tokens_.take();
  need_integer(op, condition);
  if (++depth_ > kMaxExpressionDepth) tokens_.refuse(op.place, "an expression of too many levels", "split it");
  Constant yes = read_choice();
  tokens_.expect_symbol(":", "between the two values of ?");
  Constant no = read_choice();
  --depth_;
  if (yes.is_integer() != no.is_integer() || yes.kind == Kind::single || no.kind == Kind::single) {
    tokens_.refuse(op.place, "the two values of ? are not of one kind", "make both integers, or both doubles");
  }
  const Kind kind = yes.is_integer() ? common_kind(yes, no) : Kind::real;
  return {kind, is_true(condition) ? yes.bits : no.bits};
}

Constant ConstantReader::read_binary(int weakest) {
  Constant left = read_unary();
  while (tokens_.peek().kind == TokenKind::symbol) {
    const int precedence = precedence_of(tokens_.peek().text);
    if (precedence < weakest) break;
    const Token op = tokens_.take();
    const Constant right = read_binary(precedence + 1);
    left = combine(op, left, right);
  }
  return left;
}

Constant ConstantReader::read_unary() {
  const Token op = tokens_.peek();
  if (op.kind != TokenKind::symbol || op.text == "(") return read_primary();
  if (op.text != "-" && op.text != "+" && op.text != "~" && op.text != "!") tokens_.refuse_token(op, "a constant");
  tokens_.take();
  if (++depth_ > kMaxExpressionDepth) tokens_.refuse(op.place, "an expression of too many levels", "split it");
  Constant value = read_unary();
  --depth_;
  if (value.kind == Kind::single) {
    tokens_.refuse(op.place, in_words(op) + " in front of the bits of a number",
                   "write the sign into the bits: 0fBF800000");
  }
  if (op.text == "+") return value;
  if (op.text == "-") {
    if (value.kind == Kind::real) return real_of(-value.as_double());
    return {value.kind, 0 - value.bits};
  }
  need_integer(op, value);
  return op.text == "!" ? truth(value.bits == 0) : Constant{Kind::unsigned_integer, ~value.bits};
}

Constant ConstantReader::read_primary() {
  const Token token = tokens_.take();
  switch (token.kind) {
    case TokenKind::integer:
      return {token.is_unsigned ? Kind::unsigned_integer : Kind::signed_integer, token.bits};
    case TokenKind::single:
      return {Kind::single, token.bits};
    case TokenKind::real:
      return {Kind::real, token.bits};
    case TokenKind::name:
      if (token.text == "WARP_SZ") return {Kind::signed_integer, kWarpSize};
      break;
    case TokenKind::symbol: {
      if (token.text != "(") break;
      if (++depth_ > kMaxExpressionDepth) tokens_.refuse(token.place, "an expression of too many levels", "split it");
      Constant value;
      if (tokens_.at_directive("s64") || tokens_.at_directive("u64")) {
        const Token cast = tokens_.take();
        tokens_.expect_symbol(")", "behind the type of a cast");
        value = read_unary();
        need_integer(cast, value);
        value.kind = cast.text == "s64" ? Kind::signed_integer : Kind::unsigned_integer;
      } else {
        value = read_choice();
        tokens_.expect_symbol(")", "at the end of an expression in parentheses");
      }
      --depth_;
      return value;
    }
    default:
      break;
  }
  tokens_.refuse_token(token, "a constant");
}

void ConstantReader::need_integer(const Token& op, const Constant& value) const {
  if (!value.is_integer()) {
    tokens_.refuse(op.place, in_words(op) + " is of integers", "write an integer, without a point");
  }
}

Constant ConstantReader::combine(const Token& op, const Constant& a, const Constant& b) const {
  if (a.is_integer() && b.is_integer()) return combine_integers(op, a, b);
  if (a.kind != Kind::real || b.kind != Kind::real) {
    tokens_.refuse(op.place, in_words(op) + " between constants of two kinds",
                   "make both integers, or both doubles; constants 0f… stand alone");
  }
  return combine_reals(op, a, b);
}

Constant ConstantReader::combine_reals(const Token& op, const Constant& a, const Constant& b) const {
  const double x = a.as_double();
  const double y = b.as_double();
  if (op.text == "+") return real_of(x + y);
  if (op.text == "-") return real_of(x - y);
  if (op.text == "*") return real_of(x * y);
  if (op.text == "/") {
    if (y == 0) tokens_.refuse(op.place, "a division by zero", "write the bits of what is meant: 0d7FF0000000000000");
    return real_of(x / y);
  }
  if (op.text == "<") return truth(x < y);
  if (op.text == ">") return truth(x > y);
  if (op.text == "<=") return truth(x <= y);
  if (op.text == ">=") return truth(x >= y);
  if (op.text == "==") return truth(x == y);
  if (op.text == "!=") return truth(x != y);
  tokens_.refuse(op.place, in_words(op) + " is of integers", "write integers, without a point");
}

Constant ConstantReader::combine_integers(const Token& op, const Constant& a, const Constant& b) const {
  const Kind kind = common_kind(a, b);
  const std::string_view text = op.text;
  if ((text == "/" || text == "%") && b.bits == 0)
    tokens_.refuse(op.place, "a division by zero", "divide by something");
  if (text == "+") return {kind, a.bits + b.bits};
  if (text == "-") return {kind, a.bits - b.bits};
  if (text == "*") return {kind, a.bits * b.bits};
  if (text == "/") return {kind, quotient(a, b)};
  if (text == "%") return {Kind::signed_integer, a.bits % b.bits};
  if (text == "<<") return {a.kind, b.bits > 63 ? 0 : a.bits << b.bits};
  if (text == ">>") return {a.kind, shifted_right(a, b.bits)};
  if (text == "<") return truth(less_than(a, b));
  if (text == ">") return truth(less_than(b, a));
  if (text == "<=") return truth(!less_than(b, a));
  if (text == ">=") return truth(!less_than(a, b));
  if (text == "==") return truth(a.bits == b.bits);
  if (text == "!=") return truth(a.bits != b.bits);
  if (text == "&") return {Kind::unsigned_integer, a.bits & b.bits};
  if (text == "|") return {Kind::unsigned_integer, a.bits | b.bits};
  if (text == "^") return {Kind::unsigned_integer, a.bits ^ b.bits};
  if (text == "&&") return truth(is_true(a) && is_true(b));
  return truth(is_true(a) || is_true(b));
}

}  // namespace heddle::ptx
