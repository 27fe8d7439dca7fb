#include "program/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <muParser.h>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::program {
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

// Replaces muParser's functions and constants by those that docs/scenario.md lists.
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

// muParser's name of an operator that it does not have itself ("//" is "quotient"); null: it has it, or there is none.
const char* operator_word(const std::string& symbol) {
  for (const Operator& op : kOperators) {
    if (symbol == op.symbol) return op.word;
  }
  return nullptr;
}

constexpr std::size_t kMaxDepth = 100;  // of parentheses

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_name(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

std::string code_of(double value) {
  return value < 0 || std::signbit(value) ? fmt::format("(0 - {:.17g})", -value) : fmt::format("{:.17g}", value);
}

// Reads the text token by token and writes it in muParser's words. What it lets pass is made of known names, numbers,
// operators and matched parentheses; whether they make sense in this order is for muParser to say.
class Translator {
 public:
  Translator(const std::string& text, const SourcePos& where, ExpressionNames& names)
      : text_(text), where_(where), names_(names) {}

  ExpressionText translate() {
    while (skip_spaces(), at_ < text_.size()) {
      const char c = text_[at_];
      if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
        number();
      } else if (is_letter(c)) {
        name();
      } else {
        symbol();
      }
      if (result_.code.size() > kMaxExpressionText) fail("it is too long, with the `let`s that it names");
    }
    if (result_.code.empty()) fail("it is empty");
    if (!calls_.empty()) fail("a ) is missing");
    return std::move(result_);
  }

  [[noreturn]] void fail(const std::string& message, const std::string& remedy = {}) const {
    const std::string shown = text_.size() <= 100 ? text_ : text_.substr(0, 100) + " …";
    throw InputError(where_, fmt::format("expression \"{}\": {}", shown, message),
                     remedy.empty() ? "docs/scenario.md, Expressions, says what can stand in it" : remedy);
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }

  void emit(const std::string& code) {
    if (!result_.code.empty()) result_.code += ' ';
    result_.code += code;
  }

  std::string word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  void number() {
    const std::size_t begin = at_;
    const char* const end = text_.data() + text_.size();
    const char* stop = nullptr;
    double value = 0;
    if (text_.compare(at_, 2, "0x") == 0) {
      std::uint64_t bits = 0;
      const auto read = std::from_chars(text_.data() + at_ + 2, end, bits, 16);
      stop = read.ptr;
      value = read.ec == std::errc() ? static_cast<double>(bits) : std::numeric_limits<double>::infinity();
    } else {
      const auto read = std::from_chars(text_.data() + at_, end, value);
      stop = read.ptr;
      if (read.ec != std::errc()) value = std::numeric_limits<double>::infinity();
    }
    at_ = static_cast<std::size_t>(stop - text_.data());
    const bool glued = at_ < text_.size() && in_name(text_[at_]);
    if (glued || !std::isfinite(value)) {
      while (at_ < text_.size() && in_name(text_[at_])) ++at_;
      fail(fmt::format("{} is not a number", text_.substr(begin, at_ - begin)));
    }
    emit(code_of(value));
  }

  void name() {
    const std::string name = word();
    if (const char* op = operator_word(name)) return emit(op);
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '(') return function(name);
    const std::optional<NamedValue> value = names_.find(name);
    if (!value) fail(fmt::format("there is no {}", name), suggestion(name, names_.known()));
    if (const auto* constant = std::get_if<double>(&*value)) return emit(code_of(*constant));
    if (const auto* slot = std::get_if<std::uint32_t>(&*value)) {
      add_slot(*slot);
      return emit(fmt::format("V{}", *slot));
    }
    const auto& other = std::get<ExpressionText>(*value);
    for (const std::uint32_t slot : other.slots) add_slot(slot);
    emit("( " + other.code + " )");
  }

  void function(const std::string& name) {
    const std::vector<std::string>& known = function_names();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(fmt::format("there is no function {}", name), suggestion(name, known));
    }
    emit(name + "(");  // muParser wants no space between the two
    open(true);
  }

  void open(bool call) {
    if (calls_.size() == kMaxDepth) fail(fmt::format("more than {} parentheses in one another", kMaxDepth));
    calls_.push_back(call);
    ++at_;
    if (!call) emit("(");
  }

  void add_slot(std::uint32_t slot) {
    std::vector<std::uint32_t>& slots = result_.slots;
    if (std::find(slots.begin(), slots.end(), slot) == slots.end()) slots.push_back(slot);
  }

  void symbol() {
    static const char* const kSymbols[] = {"//", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+", "-",
                                           "*",  "/",  "%",  "<",  ">",  "&",  "|",  "^",  "?",  ":", "!"};
    const char c = text_[at_];
    if (c == '(') return open(false);
    if (c == ')') {
      if (calls_.empty()) fail("a ( is missing");
      calls_.pop_back();
      ++at_;
      return emit(")");
    }
    if (c == ',') {
      if (calls_.empty() || !calls_.back())
        fail("a comma stands between the arguments of a function, and nowhere else");
      ++at_;
      return emit(",");
    }
    for (const char* symbol : kSymbols) {
      if (text_.compare(at_, std::char_traits<char>::length(symbol), symbol) != 0) continue;
      at_ += std::char_traits<char>::length(symbol);
      const char* word = operator_word(symbol);
      return emit(word != nullptr ? word : symbol);
    }
    if (c == '=') fail("= gives no value", "compare with ==; values get names with `let` and `set`");
    const bool shown = c > ' ' && c < 127;
    fail(shown ? fmt::format("{} has no meaning here", c) : "it holds a character that has no meaning here");
  }

  const std::string& text_;
  const SourcePos& where_;
  ExpressionNames& names_;
  std::size_t at_ = 0;
  std::vector<bool> calls_;  // open parentheses: is it a function's?
  ExpressionText result_;
};

// muParser's own messages count characters of the translated text, which the author has never seen.
std::string reason(const mu::ParserError& error) {
  switch (error.GetCode()) {
    case mu::ecUNEXPECTED_OPERATOR:
      return "two operators stand side by side; write parentheses";
    case mu::ecUNEXPECTED_VAL:
    case mu::ecUNEXPECTED_VAR:
    case mu::ecUNEXPECTED_FUN:
      return "two values stand side by side, without an operator";
    case mu::ecUNEXPECTED_EOF:
      return "it ends where a value is expected";
    case mu::ecUNEXPECTED_PARENS:
      return "a parenthesis stands where it has no meaning";
    case mu::ecUNEXPECTED_ARG_SEP:
      return "a comma stands where it has no meaning";
    case mu::ecTOO_MANY_PARAMS:
      return fmt::format("too many arguments for {}", error.GetToken());
    case mu::ecTOO_FEW_PARAMS:
      return fmt::format("too few arguments for {}", error.GetToken());
    case mu::ecMISSING_ELSE_CLAUSE:
      return "a ? needs its :";
    case mu::ecMISPLACED_COLON:
    case mu::ecUNEXPECTED_CONDITIONAL:
      return "? and : do not match";
    default:
      return "it cannot be read: " + error.GetMsg();
  }
}

// Goes through code that muParser has accepted, so it is well formed; what it does not know is `other`.
class Reader {
 public:
  Reader(const std::string& code, const std::function<Shape(std::uint32_t)>& shape_of) : shape_of_(shape_of) {
    std::istringstream words(code);
    for (std::string word; words >> word;) tokens_.push_back(word);
  }

  Shape read() {
    const Shape result = sum();
    return at_ == tokens_.size() ? result : Shape::other;
  }

 private:
  bool next_is(const char* word) const { return at_ < tokens_.size() && tokens_[at_] == word; }

  Shape sum() {
    Shape left = product();
    while (next_is("+") || next_is("-") || next_is("bitor") || next_is("bitxor")) {
      const bool bits = tokens_[at_].size() > 1;
      ++at_;
      left = combine(left, product(), !bits);
    }
    return left;
  }

  Shape product() {
    Shape left = factor();
    while (next_is("*") || next_is("quotient") || next_is("remainder") || next_is("bitand") || next_is("shl")) {
      const bool times = tokens_[at_] == "*";
      ++at_;
      const Shape right = factor();
      left = combine(left, right, times && (left == Shape::uniform || right == Shape::uniform));
    }
    return left;
  }

  // Two that are not both uniform are at best affine.
  static Shape combine(Shape left, Shape right, bool keeps) {
    if (left == Shape::uniform && right == Shape::uniform) return Shape::uniform;
    return keeps ? std::max(left, right) : Shape::other;
  }

  Shape factor() {
    if (at_ == tokens_.size()) return Shape::other;
    const std::string token = tokens_[at_++];
    if (token == "-") return factor();
    if (token == "(") {
      const Shape inner = sum();
      if (!next_is(")")) return Shape::other;
      ++at_;
      return inner;
    }
    if (token[0] == 'V') return shape_of_(static_cast<std::uint32_t>(std::stoul(token.substr(1))));
    const bool integer = std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; });
    return integer ? Shape::uniform : Shape::other;
  }

  const std::function<Shape(std::uint32_t)>& shape_of_;
  std::vector<std::string> tokens_;
  std::size_t at_ = 0;
};

}  // namespace

Expression::Expression(const std::string& text, const SourcePos& where, ExpressionNames& names, ExpressionSlots& slots)
    : parser_(std::make_unique<mu::Parser>()) {
  Translator translator(text, where, names);
  text_ = translator.translate();
  define_functions(*parser_);
  for (const std::uint32_t slot : text_.slots) parser_->DefineVar(fmt::format("V{}", slot), &slots.at(slot));
  try {
    // muParser 2.3.3 compares operators beyond the end of the text: there has to be something.
    parser_->SetExpr(text_.code + std::string(16, ' '));
    constant_ = parser_->Eval();  // syntax is checked by the first evaluation
    if (parser_->GetNumResults() != 1) translator.fail("it has more than one value");
  } catch (const mu::ParserError& error) {
    translator.fail(reason(error));
  }
  if (constant() && !std::isfinite(constant_))
    translator.fail("its value is not a finite number",
                    std::isnan(constant_) ? "0 / 0, and sqrt and log of what is negative, have no value"
                                          : "it divides by zero, or grows too large");
  if (constant()) parser_.reset();
}

Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;
Expression::~Expression() = default;

NamedValue Expression::named() const {
  if (constant()) return constant_;
  return text_;
}

double Expression::evaluate() const { return parser_->Eval(); }

bool usable_name(const std::string& name) {
  const auto fits = [](char c) { return is_letter(c) || is_digit(c); };
  if (name.empty() || name.size() > 64 || is_digit(name[0]) || !std::all_of(name.begin(), name.end(), fits)) {
    return false;
  }
  return operator_word(name) == nullptr;
}

std::uint64_t whole_bits(double value) {
  if (!std::isfinite(value)) return 0;
  const double whole = std::trunc(value);
  if (std::fabs(whole) < 9.2e18) return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole));
  const double magnitude = std::fmod(std::fabs(whole), 0x1p64);
  const auto bits = static_cast<std::uint64_t>(magnitude);
  return whole < 0 ? std::uint64_t{0} - bits : bits;
}

Shape shape_of(const ExpressionText& text, const std::function<Shape(std::uint32_t)>& shape_of) {
  return Reader(text.code, shape_of).read();
}

}  // namespace heddle::program
