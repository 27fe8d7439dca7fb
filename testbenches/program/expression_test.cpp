// Expressions of scenarios: what they mean, and what is said of those that mean nothing.
#include "program/expression.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "program/program_values.h"
#include "support/random.h"

namespace program_expression_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;
using Catch::Contains;

namespace {

class Names : public ExpressionNames {
 public:
  std::optional<NamedValue> find(const std::string& name) override {
    const auto found = meanings.find(name);
    return found == meanings.end() ? std::nullopt : std::optional<NamedValue>(found->second);
  }
  std::vector<std::string> known() const override {
    std::vector<std::string> names;
    for (const auto& entry : meanings) names.push_back(entry.first);
    return names;
  }
  double& slot(const std::string& name) {
    const std::uint32_t number = slots.add();
    meanings[name] = number;
    return slots.at(number);
  }

  ExpressionSlots slots;
  std::map<std::string, NamedValue> meanings;
};

double value(const std::string& text) {
  Names names;
  names.slot("x") = 7;
  names.slot("a.b") = 100;
  names.meanings["five"] = 5.0;
  return Expression(text, {"e.yaml", 3, 4}, names, names.slots).value();
}

// The same with everything in slots: muParser computes it when it is evaluated, not when it is read.
double late_value(std::string text) {
  Names names;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.')) ++end;
    if (end == i) {
      out += text[i++];
      continue;
    }
    const std::string name = "n" + std::to_string(i);
    names.slot(name) = std::stod(text.substr(i, end - i));
    out += name;
    i = end;
  }
  return Expression(out, {}, names, names.slots).value();
}

std::string error(const std::string& text) {
  try {
    (void)value(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("operators and their order", "[workload]") {
  const std::vector<std::pair<std::string, double>> cases{{"1 + 2 * 3", 7},
                                                          {"(1 + 2) * 3", 9},
                                                          {"2 ^ 3 ^ 2", 512},
                                                          {"7 / 2", 3.5},
                                                          {"7 // 2", 3},
                                                          {"7 % 3", 1},
                                                          {"(0-7) // 2", -4},
                                                          {"(0-7) % 3", 2},
                                                          {"7 % (0-3)", -2},
                                                          {"(0-7) % (0-3)", -1},
                                                          {"7.5 // 2", 3},
                                                          {"7.5 % 2", 1.5},
                                                          {"12 & 10", 8},
                                                          {"12 | 10", 14},
                                                          {"12 xor 10", 6},
                                                          {"1 << 4", 16},
                                                          {"1 << 2 + 1", 5},
                                                          {"100 >> 3", 12},
                                                          {"(0-1) >> 3", -1},
                                                          {"(0-1) & 255", 255},
                                                          {"6 & 3 == 2", 1},
                                                          {"1 | 2 == 3", 1},
                                                          {"3 < 4", 1},
                                                          {"4 <= 3", 0},
                                                          {"1 == 1 && 2 == 3", 0},
                                                          {"0 || 5", 1},
                                                          {"!0", 1},
                                                          {"!5", 0},
                                                          {"1 ? 10 : 20", 10},
                                                          {"0 ? 10 : 20", 20},
                                                          {"5 - 3 - 1", 1},
                                                          {"24 // 5 % 3", 1},
                                                          {"3 != 3", 0},
                                                          {"1 << 60", std::ldexp(1, 60)},
                                                          {"5 // 2 * 2", 4},
                                                          {"7 >= 7", 1}};
  for (const auto& [text, expected] : cases) {
    INFO(text);
    CHECK(value(text) == expected);
    CHECK(late_value(text) == expected);
  }
}

TEST_CASE("numbers, names and functions", "[workload]") {
  CHECK(value("0x1F + 0.5e1 + .25") == 36.25);
  CHECK(value("-x + a.b") == 93);
  CHECK(value("-2 ^ 2") == -4);
  CHECK(value("2 * -x") == -14);
  CHECK(value("five*five") == 25);
  CHECK(value("min(x, 3, 9) + max(x,8)") == 11);
  CHECK(value("select(x > 5, 1, 2)") == 1);
  CHECK(value("abs(0 - 3) + floor(2.7) + ceil(2.2) + round(2.5) + round(3.5) + trunc(0-2.7)") == 3 + 2 + 3 + 2 + 4 - 2);
  CHECK(value("sqrt(16) + log2(8) + exp(0) + log(1) + sin(0) + cos(0) + tanh(0)") == 9);
  CHECK(value("1e15 + 1") == 1e15 + 1);
  CHECK(value(" \n 1\t+1 ") == 2);
}

TEST_CASE("integers are exact below 2^53", "[workload]") {
  CHECK(value("9007199254740991 - 9007199254740990") == 1);
  CHECK(value("9007199254740993") == 9007199254740992.0);
  // The rounded quotient of these would be 3.
  CHECK(late_value("9007199254740991 // 3002399751580331") == 2);
  CHECK(late_value("9007199254740991 % 3002399751580331") == 3002399751580329.0);
  CHECK(late_value("9007199254740991 & 9007199254740990") == 9007199254740990.0);
}

TEST_CASE("what is no number stays defined", "[workload]") {
  CHECK(std::isinf(late_value("1 / 0")));
  CHECK(std::isnan(late_value("0 / 0")));
  CHECK(std::isnan(late_value("5 % 0")));
  CHECK(std::isnan(late_value("5 // 0")));
  CHECK(late_value("(1 / 0) & 7") == 0);
  CHECK(late_value("1 << 5000") == std::numeric_limits<double>::infinity());
  CHECK(late_value("1 >> 5000") == 0);
  CHECK(late_value("min(0 / 0, 3)") == 3);
  CHECK_THAT(error("1 / 0"), Contains("its value is not a finite number"));

  CHECK(whole_bits(2.9) == 2);
  CHECK(whole_bits(-2.9) == static_cast<std::uint64_t>(-2));
  CHECK(whole_bits(-1) == ~std::uint64_t{0});
  CHECK(whole_bits(0x1p63) == std::uint64_t{1} << 63);
  CHECK(whole_bits(0x1.8p64) == std::uint64_t{1} << 63);
  CHECK(whole_bits(-0x1p64) == 0);
  CHECK(whole_bits(-0x1.8p63) == std::uint64_t{1} << 62);
  CHECK(whole_bits(std::numeric_limits<double>::infinity()) == 0);
  CHECK(whole_bits(std::nan("")) == 0);
}

TEST_CASE("values become the bits of their type", "[workload]") {
  using arch::ValueType;
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(bits_of(ValueType::u8, 300) == 44);
  CHECK(bits_of(ValueType::s8, -1) == 0xFF);
  CHECK(number_of(ValueType::s8, 0xFF) == -1);
  CHECK(number_of(ValueType::u8, 0x1FF) == 255);
  CHECK(bits_of(ValueType::s16, -2.9) == 0xFFFE);
  CHECK(bits_of(ValueType::u32, 4294967297.0) == 1);
  CHECK(bits_of(ValueType::s32, -1) == 0xFFFF'FFFF);
  CHECK(number_of(ValueType::s32, 0x8000'0000) == -2147483648.0);
  CHECK(bits_of(ValueType::u64, -1) == ~std::uint64_t{0});
  CHECK(number_of(ValueType::s64, ~std::uint64_t{0}) == -1);
  CHECK(bits_of(ValueType::u32, nan) == 0);
  CHECK(bits_of(ValueType::s64, inf) == 0);
  CHECK(bits_of(ValueType::f32, nan) == arch::kNanF32);
  CHECK(bits_of(ValueType::f64, nan) == arch::kNanF64);
  CHECK(bits_of(ValueType::f16, nan) == arch::kNanHalf);
  CHECK(bits_of(ValueType::f32, 1e300) == 0x7F80'0000);
  CHECK(bits_of(ValueType::f16, 65520) == 0x7C00);
  CHECK(bits_of(ValueType::f16, 65519.99) == 0x7BFF);
  CHECK(bits_of(ValueType::bf16, -inf) == 0xFF80);
  CHECK(bits_of(ValueType::f32, 0.1) == 0x3DCC'CCCD);
  CHECK(number_of(ValueType::f16, 0x3555) == 0.333251953125);
  CHECK(number_of(ValueType::bf16, 0x3FC0) == 1.5);
  // Rounding to f32 first, then to f16, would round twice and go up: a tie that is none.
  CHECK(bits_of(ValueType::f16, 1 + 0x1p-11 + 0x1p-40) == 0x3C01);
  CHECK(bits_of(ValueType::f16, 1 + 0x1p-11) == 0x3C00);
  CHECK(bits_of(ValueType::f16, 1 + 0x1p-11 - 0x1p-40) == 0x3C00);
  CHECK(bits_of(ValueType::f16, -(1 + 0x3p-11 - 0x1p-40)) == 0xBC01);
  CHECK(bits_of(ValueType::f16, -(1 + 0x3p-11)) == 0xBC02);
}

TEST_CASE("`let` puts text in place, constants become numbers", "[workload]") {
  Names names;
  double& x = names.slot("x");
  Expression sum("x + 1", {}, names, names.slots);
  names.meanings["sum"] = sum.named();
  Expression fixed("2 + 3", {}, names, names.slots);
  CHECK(fixed.constant());
  CHECK(std::get<double>(fixed.named()) == 5);
  names.meanings["fixed"] = fixed.named();
  const Expression product("10 * sum * fixed - sum", {}, names, names.slots);
  CHECK(product.slots().size() == 1);
  x = 4;
  CHECK(product.value() == 245);
  x = -1;
  CHECK(product.value() == 0);
  Expression moved = std::move(sum);
  x = 41;
  CHECK(moved.value() == 42);
}

TEST_CASE("what is said of expressions that mean nothing", "[workload]") {
  CHECK_THAT(error("x + y"), Contains("e.yaml:3:4: expression \"x + y\": there is no y"));
  CHECK_THAT(error("x + fiv"), Contains("there is no fiv") && Contains("did you mean five?"));
  CHECK_THAT(error("sqr(2)"), Contains("there is no function sqr") && Contains("did you mean sqrt?"));
  CHECK_THAT(error("x(2)"), Contains("there is no function x"));
  CHECK_THAT(error(""), Contains("it is empty"));
  CHECK_THAT(error("  "), Contains("it is empty"));
  CHECK_THAT(error("1 +"), Contains("it ends where a value is expected"));
  CHECK_THAT(error("1 + * 2"), Contains("two operators stand side by side"));
  CHECK_THAT(error("* 2"), Contains("operator"));
  CHECK_THAT(error("1 2"), Contains("two values stand side by side"));
  CHECK_THAT(error("1 x"), Contains("two values stand side by side"));
  CHECK_THAT(error("x x"), Contains("two values stand side by side"));
  CHECK_THAT(error("2x"), Contains("2x is not a number"));
  CHECK_THAT(error("1.2.3"), Contains("1.2.3 is not a number"));
  CHECK_THAT(error("0x"), Contains("0x is not a number"));
  CHECK_THAT(error("0x12345678901234567"), Contains("is not a number"));
  CHECK_THAT(error("1e999"), Contains("1e999 is not a number"));
  CHECK_THAT(error("(1 + 2"), Contains("a ) is missing"));
  CHECK_THAT(error("1 + 2)"), Contains("a ( is missing"));
  CHECK_THAT(error("()"), Contains("parenthesis"));
  CHECK_THAT(error("1, 2"), Contains("a comma stands between the arguments"));
  CHECK_THAT(error("(1, 2)"), Contains("a comma stands between the arguments"));
  CHECK_THAT(error("min(1, (2, 3))"), Contains("a comma stands between the arguments"));
  CHECK_THAT(error("min()"), Contains("too few arguments for min"));
  CHECK_THAT(error("sqrt(1, 2)"), Contains("too many arguments for sqrt"));
  CHECK_THAT(error("select(1, 2)"), Contains("too few arguments for select"));
  CHECK_THAT(error("x = 3"), Contains("= gives no value") && Contains("compare with =="));
  CHECK_THAT(error("1 ? 2"), Contains("a ? needs its :"));
  CHECK_THAT(error("1 : 2"), Contains("? and : do not match"));
  CHECK_THAT(error("\"x\""), Contains("\" has no meaning here"));
  CHECK_THAT(error("x @ 2"), Contains("@ has no meaning here"));
  CHECK_THAT(error("x + \xc3\xa4"), Contains("holds a character that has no meaning"));
  CHECK_THAT(error(std::string(101, '(') + "1" + std::string(101, ')')), Contains("more than 100 parentheses"));
  CHECK(error(std::string(99, '(') + "1" + std::string(99, ')')) == "accepted");
  std::string lengthy = "1";
  while (lengthy.size() < 9000) lengthy += " + 1";
  CHECK_THAT(error(lengthy), Contains("too long") && Contains(" …"));
}

TEST_CASE("random expressions agree with direct computation", "[workload]") {
  HEDDLE_RANDOM(dice);
  const auto random = [&] { return dice.next(); };
  for (int round = 0; round < 1500; ++round) {
    Names names;
    std::vector<double> values(4);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(random() % 2000) - 1000;
      names.slot("v" + std::to_string(i)) = values[i];
    }
    struct Made {
      std::string text;
      double value;
    };
    const std::function<Made(int)> make = [&](int depth) -> Made {
      const auto small = [&] { return static_cast<int>(random() % 12); };
      if (depth == 0 || random() % 5 == 0) {
        if (random() % 2 == 0) {
          const std::size_t i = random() % values.size();
          return {"v" + std::to_string(i), values[i]};
        }
        const int number = small();
        return {std::to_string(number), static_cast<double>(number)};
      }
      const Made a = make(depth - 1);
      const Made b = make(depth - 1);
      const auto ints = [](double v) { return static_cast<std::int64_t>(v); };
      const auto floored = [](std::int64_t p, std::int64_t q) {
        const std::int64_t cut = p / q;
        return static_cast<double>(p % q != 0 && (p < 0) != (q < 0) ? cut - 1 : cut);
      };
      // Everything stays an integer far below 2^53.
      if (std::fabs(a.value) > 1e6 || std::fabs(b.value) > 1e6) {
        return {"min(" + a.text + ", " + b.text + ")", std::min(a.value, b.value)};
      }
      const auto with = [&](const std::string& op, double v) -> Made {
        return {"(" + a.text + ") " + op + " (" + b.text + ")", v};
      };
      switch (random() % 12) {
        case 0:
          return with("+", a.value + b.value);
        case 1:
          return with("-", a.value - b.value);
        case 2:
          return with("*", a.value * b.value);
        case 3:
          if (b.value == 0) return a;
          return with("//", floored(ints(a.value), ints(b.value)));
        case 4:
          if (b.value == 0) return b;
          return with("%", a.value - b.value * floored(ints(a.value), ints(b.value)));
        case 5:
          return with("&", static_cast<double>(ints(a.value) & ints(b.value)));
        case 6:
          return with("|", static_cast<double>(ints(a.value) | ints(b.value)));
        case 7:
          return with("xor", static_cast<double>(ints(a.value) ^ ints(b.value)));
        case 8:
          return with("<", a.value < b.value ? 1 : 0);
        case 9: {
          const int by = small();
          return {"(" + a.text + ") << " + std::to_string(by), std::ldexp(a.value, by)};
        }
        case 10: {
          const int by = small();
          return {"(" + a.text + ") >> " + std::to_string(by), static_cast<double>(ints(a.value) >> by)};
        }
        default:
          return {"((" + a.text + ") != 0 ? (" + b.text + ") : " + std::to_string(7) + ")", a.value != 0 ? b.value : 7};
      }
    };
    const Made made = make(4);
    CAPTURE(round, made.text);
    if (made.text.size() > 1500) continue;
    REQUIRE(Expression(made.text, {}, names, names.slots).value() == made.value);
  }
}

TEST_CASE("any sequence of tokens is an expression or refused, nothing else", "[workload][fuzz]") {
  HEDDLE_RANDOM(dice);
  const std::vector<std::string> tokens{"1", "2.5", "0x1f", "x",  "y",  "five", "min(", "select(", "sqrt(",
                                        "(", "(",   ")",    ")",  ")",  ",",    "?",    ":",       "+",
                                        "-", "-",   "*",    "/",  "//", "%",    "&",    "|",       "^",
                                        "<", "==",  "&&",   "||", "<<", "!",    "xor",  ">=",      "let"};
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Names names;
    names.slot("x") = 7;
    names.slot("y") = -0.5;
    names.meanings["five"] = 5.0;
    names.meanings["let"] = ExpressionText{"( V0 + V1 )", {0, 1}};
    std::string text;
    for (std::uint64_t i = dice.between64(1, 3 + round % 12); i > 0; --i) {
      text += tokens[dice.between64(0, tokens.size() - 1)] + " ";
    }
    CAPTURE(round, text);
    try {
      const Expression made(text, {}, names, names.slots);
      ++accepted;
      const double first = made.value();
      const double again = made.value();
      REQUIRE((first == again || std::isnan(first)));
      if (made.constant()) REQUIRE(std::isfinite(made.value()));
    } catch (const InputError& e) {
      ++refused;
      REQUIRE_FALSE(e.message().empty());
    }
  }
  CHECK(accepted > 500);
  CHECK(refused > 10000);
}

}  // namespace program_expression_test
