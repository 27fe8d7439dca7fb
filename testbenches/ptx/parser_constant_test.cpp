// Numbers and constant expressions of PTX: what they are worth, by the manual's rules (PTX ISA, "Constants").
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/module.h"
#include "ptx_text.h"
#include "support/random.h"

namespace ptx_parser_constant_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;

namespace {

std::uint64_t bits_of(const std::string& type, const std::string& expression) {
  const ptx::Module module = module_of(".global ." + type + " x = " + expression + ";");
  const auto& bytes = module.variables.at(0).initial->bytes;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
  return value;
}
std::uint64_t integer_of(const std::string& expression) { return bits_of("u64", expression); }

std::uint64_t bits_of_double(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// A value with its type, as the table of evaluation rules has them.
struct Value {
  std::uint64_t bits = 0;
  bool is_unsigned = false;
};

// A random expression as text, what it is worth, and how tightly its outermost operator binds.
struct Expression {
  std::string text;
  Value value;
  int binds = 0;
};

struct Operator {
  const char* text;
  int binds;  // as in C
};
constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"|", 3}, {"^", 4},  {"&", 5},  {"==", 6},
                                   {"!=", 6}, {"<", 7},  {">", 7}, {"<=", 7}, {">=", 7}, {"<<", 8},
                                   {">>", 8}, {"+", 9},  {"-", 9}, {"*", 10}, {"/", 10}, {"%", 10}};
constexpr int kUnary = 11;

Value apply(const std::string& op, Value a, Value b) {
  const auto signed_of = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits); };
  const bool wide = a.is_unsigned || b.is_unsigned;  // the usual conversions
  if (op == "+") return {a.bits + b.bits, wide};
  if (op == "-") return {a.bits - b.bits, wide};
  if (op == "*") return {a.bits * b.bits, wide};
  if (op == "/" && wide) return {a.bits / b.bits, true};
  if (op == "/") return {static_cast<std::uint64_t>(signed_of(a.bits) / signed_of(b.bits)), false};
  if (op == "%") return {a.bits % b.bits, false};
  if (op == "<<") return {a.bits << b.bits, a.is_unsigned};
  if (op == ">>" && a.is_unsigned) return {a.bits >> b.bits, true};
  if (op == ">>") {
    std::uint64_t result = a.bits >> b.bits;
    for (std::uint64_t i = 0; i < b.bits; ++i) result |= a.bits >> 63 << (63 - i);
    return {result, false};
  }
  const bool less = wide ? a.bits < b.bits : signed_of(a.bits) < signed_of(b.bits);
  if (op == "<") return {less ? 1U : 0U, false};
  if (op == ">=") return {less ? 0U : 1U, false};
  const bool equal = a.bits == b.bits;
  if (op == ">") return {less || equal ? 0U : 1U, false};
  if (op == "<=") return {less || equal ? 1U : 0U, false};
  if (op == "==") return {equal ? 1U : 0U, false};
  if (op == "!=") return {equal ? 0U : 1U, false};
  if (op == "&") return {a.bits & b.bits, true};
  if (op == "|") return {a.bits | b.bits, true};
  if (op == "^") return {a.bits ^ b.bits, true};
  if (op == "&&") return {a.bits != 0 && b.bits != 0 ? 1U : 0U, false};
  return {a.bits != 0 || b.bits != 0 ? 1U : 0U, false};
}

std::string in_parentheses(const Expression& expression, int needed) {
  return expression.binds < needed ? "(" + expression.text + ")" : expression.text;
}

Expression random_expression(Random& random, int depth) {
  const auto kind = depth == 0 ? 0U : random.below(10);
  if (kind < 2) {
    const std::uint64_t value =
        random.below(3) == 0 ? random.below(1U << 31) * std::uint64_t{0x9E3779B97F4A7C15} : random.below(40);
    const bool forced = random.below(3) == 0;
    return {std::to_string(value) + (forced ? "U" : ""), {value, forced || value >> 63 != 0}, kUnary + 1};
  }
  if (kind == 2) {
    const Expression of = random_expression(random, depth - 1);
    const std::string text = in_parentheses(of, kUnary);
    switch (random.below(6)) {
      case 0:
        return {"- " + text, {0 - of.value.bits, of.value.is_unsigned}, kUnary};
      case 1:
        return {"+" + text, of.value, kUnary};
      case 2:
        return {"!" + text, {of.value.bits == 0 ? 1U : 0U, false}, kUnary};
      case 3:
        return {"~" + text, {~of.value.bits, true}, kUnary};
      case 4:
        return {"(.s64)" + text, {of.value.bits, false}, kUnary};
      default:
        return {"(.u64) " + text, {of.value.bits, true}, kUnary};
    }
  }
  if (kind == 3) {
    const Expression condition = random_expression(random, depth - 1);
    const Expression yes = random_expression(random, depth - 1);
    const Expression no = random_expression(random, depth - 1);
    const bool is_unsigned = yes.value.is_unsigned || no.value.is_unsigned;
    return {in_parentheses(condition, 1) + " ? " + yes.text + " : " + no.text,
            {condition.value.bits != 0 ? yes.value.bits : no.value.bits, is_unsigned},
            0};
  }
  const Operator op = kOperators[random.below(std::size(kOperators))];
  const Expression left = random_expression(random, depth - 1);
  Expression right = random_expression(random, depth - 1);
  const std::string text = op.text;
  const bool shift = text == "<<" || text == ">>";
  const bool overflows = left.value.bits == std::uint64_t{1} << 63 && right.value.bits == ~std::uint64_t{0};
  if ((shift && right.value.bits > 63) || ((text == "/" || text == "%") && (right.value.bits == 0 || overflows))) {
    right = {"7", {7, false}, kUnary + 1};
  }
  // Operators of one strength go from left to right. A blank keeps a%b from reading as a name.
  return {in_parentheses(left, op.binds) + " " + text + " " + in_parentheses(right, op.binds + 1),
          apply(text, left.value, right.value), op.binds};
}

}  // namespace

TEST_CASE("integers are written in four bases, and are unsigned where they say so or have to be", "[ptx]") {
  CHECK(integer_of("0x1F") == 31);
  CHECK(integer_of("0XfF") == 255);
  CHECK(integer_of("017") == 15);
  CHECK(integer_of("0b1011") == 11);
  CHECK(integer_of("0B11U") == 3);
  CHECK(integer_of("0") == 0);
  CHECK(integer_of("9223372036854775807") == 9223372036854775807ULL);
  CHECK(integer_of("0xFFFFFFFFFFFFFFFF") == ~std::uint64_t{0});
  // A signed one compares as negative, one beyond 63 bits does not.
  CHECK(integer_of("-1 < 1") == 1);
  CHECK(integer_of("-1 < 1U") == 0);
  CHECK(integer_of("18446744073709551615 < 1") == 0);
  CHECK(integer_of("WARP_SZ * 2") == 64);

  CHECK_THAT(refusal(".global .u64 x = 18446744073709551616;"),
             Contains("m.ptx:2:18: the number 18446744073709551616 has more than 64 bits"));
  CHECK_THAT(refusal(".global .u64 x = 08;"), Contains("m.ptx:2:18"));
  CHECK_THAT(refusal(".global .u64 x = 0x;"), Contains("without digits"));
  CHECK_THAT(refusal(".global .u64 x = 12u;"), Contains("'12u' is no number of PTX"));
  CHECK_THAT(refusal(".global .u64 x = 0b12;"), Contains("'0b12' is no number of PTX"));
}

TEST_CASE("floating-point numbers are doubles, or the bits that they say", "[ptx]") {
  CHECK(bits_of("f64", "1.5") == bits_of_double(1.5));
  CHECK(bits_of("f64", ".5") == bits_of_double(0.5));
  CHECK(bits_of("f64", "1.") == bits_of_double(1.0));
  CHECK(bits_of("f64", "25e-1") == bits_of_double(2.5));
  CHECK(bits_of("f64", "1.5E+2") == bits_of_double(150));
  CHECK(bits_of("f64", "-2.0 * 3.0 + 1.0") == bits_of_double(-5));
  CHECK(bits_of("f64", "1.0 / 3.0") == bits_of_double(1.0 / 3.0));
  CHECK(bits_of("f64", "1 ? 2.0 : 3.0") == bits_of_double(2.0));
  CHECK(bits_of("f64", "0d7FF8000000000001") == 0x7FF8000000000001);
  CHECK(bits_of("f64", "0f3FC00000") == bits_of_double(1.5));
  CHECK(bits_of("f32", "0F3fc00000") == 0x3FC00000);
  CHECK(bits_of("f32", "1.5") == 0x3FC00000);
  // To the nearest single-precision number: 1/3 is 0x3EAAAAAB.
  CHECK(bits_of("f32", "1.0 / 3.0") == 0x3EAAAAAB);
  CHECK(bits_of("b32", "1.5") == 0x3FC00000);
  CHECK(bits_of("b64", "1.5") == bits_of_double(1.5));
  CHECK(integer_of("1.0 < 2.0") == 1);
  CHECK(integer_of("1.0 == 2.0") == 0);

  CHECK_THAT(refusal(".global .f32 x = 1;"), Contains("a .f32 with the value of an integer") && Contains("1.0"));
  CHECK_THAT(refusal(".global .u32 x = 1.0;"), Contains("a .u32 with the value of a floating-point number"));
  CHECK_THAT(refusal(".global .f32 x = 1.0 + 1;"), Contains("m.ptx:2:22: '+' between constants of two kinds"));
  CHECK_THAT(refusal(".global .f32 x = -0f3F800000;"), Contains("write the sign into the bits"));
  CHECK_THAT(refusal(".global .f32 x = 0f3F800000 + 0f3F800000;"), Contains("0f… stand alone"));
  CHECK_THAT(refusal(".global .f32 x = 0f3F80;"), Contains("'0f3F80' has 4 digits") && Contains("8 hexadecimal"));
  CHECK_THAT(refusal(".global .f32 x = 0f3F8000000;"), Contains("is no number of PTX"));
  CHECK_THAT(refusal(".global .f64 x = 1e999;"), Contains("beyond a double's range"));
  CHECK_THAT(refusal(".global .f64 x = 1e;"), Contains("no exponent"));
  CHECK_THAT(refusal(".global .f64 x = 1.0 % 2.0;"), Contains("'%' is of integers"));
  CHECK_THAT(refusal(".global .f64 x = ~1.0;"), Contains("'~' is of integers"));
  CHECK_THAT(refusal(".global .f64 x = 1.0 / 0.0;"), Contains("a division by zero"));
  CHECK_THAT(refusal(".global .f64 x = 1 ? 1.0 : 1;"), Contains("are not of one kind"));
}

TEST_CASE("remainders and bits are unsigned, comparisons are signed, shifts keep their kind", "[ptx]") {
  // Seen with ptxas 13.0: 2^64 - 7 is divisible by 3.
  CHECK(integer_of("-7 % 3") == 0);
  CHECK(integer_of("-8 / 3") == static_cast<std::uint64_t>(-2));
  CHECK(integer_of("-8U / 3") == 0x5555555555555552);
  CHECK(integer_of("-8 >> 1") == static_cast<std::uint64_t>(-4));
  CHECK(integer_of("-8U >> 1") == 0x7FFFFFFFFFFFFFFC);
  CHECK(integer_of("(.s64)~0 >> 70") == ~std::uint64_t{0});
  CHECK(integer_of("1 << 64") == 0);
  CHECK(integer_of("~0 > 0") == 1);
  CHECK(integer_of("(1 ? 2 : 3U) - 4 > 0") == 1);
  CHECK(integer_of("1 + 2 * 3 - 4 / 2") == 5);
  CHECK(integer_of("1 | 6 ^ 4 & 12") == 3);
  CHECK_THAT(refusal(".global .u64 x = 5 / 0;"), Contains("m.ptx:2:20: a division by zero"));
  CHECK_THAT(refusal(".global .u64 x = (.u32)5;"), Contains("'.u32'"));
  CHECK_THAT(refusal(".global .u64 x = (5;"), Contains("here belongs ')'"));
  CHECK_THAT(refusal(".global .u64 x = " + std::string(1000, '(') + "1;"), Contains("too many levels"));
  CHECK_THAT(refusal(".global .u64 x = " + std::string(1000, '~') + "1;"), Contains("too many levels"));
}

TEST_CASE("random expressions are worth what the table of rules says", "[ptx]") {
  CAPTURE(seed());
  Random random(seed());
  for (int i = 0; i < 3000; ++i) {
    const Expression expression = random_expression(random, 1 + static_cast<int>(random.below(5)));
    INFO(expression.text);
    CHECK(integer_of(expression.text) == expression.value.bits);
  }
}

}  // namespace ptx_parser_constant_test
