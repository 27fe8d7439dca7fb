#include "program/expression_functions.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <muParser.h>
#include <numeric>

#include "program/expression.h"

namespace heddle::workload {
namespace {

// The remainder that goes with a quotient rounded down: it has the sign of the divisor.
double remainder_of(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
// Exact where a and b are integers below 2^53: a division that is rounded could reach the next integer.
double quotient(double a, double b) { return std::floor((a - remainder_of(a, b)) / b); }

std::int64_t whole(double value) { return static_cast<std::int64_t>(whole_bits(value)); }
double bit_and(double a, double b) { return static_cast<double>(whole(a) & whole(b)); }
double bit_or(double a, double b) { return static_cast<double>(whole(a) | whole(b)); }
double bit_xor(double a, double b) { return static_cast<double>(whole(a) ^ whole(b)); }
// Beyond any shift that makes a difference, and within int.
int places(double value) { return static_cast<int>(std::clamp<std::int64_t>(whole(value), -5000, 5000)); }
double shift_left(double a, double b) { return std::ldexp(std::trunc(a), places(b)); }
double shift_right(double a, double b) { return std::floor(std::ldexp(std::trunc(a), -places(b))); }

double negation(double a) { return a == 0 ? 1 : 0; }
double absolute(double a) { return std::fabs(a); }
double round_down(double a) { return std::floor(a); }
double round_up(double a) { return std::ceil(a); }
double round_even(double a) { return std::nearbyint(a); }
double cut(double a) { return std::trunc(a); }
double root(double a) { return std::sqrt(a); }
double exponential(double a) { return std::exp(a); }
double logarithm(double a) { return std::log(a); }
double logarithm2(double a) { return std::log2(a); }
double sine(double a) { return std::sin(a); }
double cosine(double a) { return std::cos(a); }
double hyperbolic(double a) { return std::tanh(a); }
double select(double condition, double a, double b) { return condition != 0 ? a : b; }
// NaN gives way to a number, as in fminf.
double smallest(const double* values, int count) {
  return std::accumulate(values + 1, values + count, values[0], [](double a, double b) { return std::fmin(a, b); });
}
double largest(const double* values, int count) {
  return std::accumulate(values + 1, values + count, values[0], [](double a, double b) { return std::fmax(a, b); });
}

struct Function {
  const char* name;
  double (*of_one)(double);
};
constexpr Function kFunctions[] = {{"abs", absolute},     {"floor", round_down}, {"ceil", round_up},
                                   {"round", round_even}, {"trunc", cut},        {"sqrt", root},
                                   {"exp", exponential},  {"log", logarithm},    {"log2", logarithm2},
                                   {"sin", sine},         {"cos", cosine},       {"tanh", hyperbolic}};

struct Operator {
  const char* symbol;
  const char* word;  // of letters: muParser would take the first character of // for a division
  double (*function)(double, double);
  unsigned priority;
};
// Priorities as in Go: bits and shifts bind more tightly than comparisons do.
constexpr Operator kOperators[] = {
    {"//", "quotient", quotient, mu::prMUL_DIV}, {"%", "remainder", remainder_of, mu::prMUL_DIV},
    {"&", "bitand", bit_and, mu::prMUL_DIV},     {"<<", "shl", shift_left, mu::prMUL_DIV},
    {">>", "shr", shift_right, mu::prMUL_DIV},   {"|", "bitor", bit_or, mu::prADD_SUB},
    {"xor", "bitxor", bit_xor, mu::prADD_SUB},
};

}  // namespace

void define_functions(mu::Parser& parser) {
  parser.ClearFun();
  parser.ClearConst();
  for (const Function& function : kFunctions) parser.DefineFun(function.name, function.of_one);
  parser.DefineFun("min", smallest);
  parser.DefineFun("max", largest);
  parser.DefineFun("select", select);
  for (const Operator& op : kOperators) parser.DefineOprt(op.word, op.function, op.priority, mu::oaLEFT, true);
  parser.DefineInfixOprt("!", negation);
}

const std::vector<std::string>& function_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names{"min", "max", "select"};
    for (const Function& function : kFunctions) names.emplace_back(function.name);
    return names;
  }();
  return kNames;
}

const char* operator_word(const std::string& symbol) {
  for (const Operator& op : kOperators) {
    if (symbol == op.symbol) return op.word;
  }
  return nullptr;
}

}  // namespace heddle::workload
