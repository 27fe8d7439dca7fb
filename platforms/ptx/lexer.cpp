#include "ptx/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

namespace heddle::ptx {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool continues_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }
bool begins_name(char c) { return is_letter(c) || c == '_' || c == '$'; }

// 16 and more: not a digit of any base.
unsigned digit_value(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return 16;
}

class Lexer {
 public:
  Lexer(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Token> run() {
    while (true) {
      const bool apart = skip_blanks();
      Token token;
      token.adjoining = !apart;
      token.place = place();
      if (at_ >= text_.size()) {
        tokens_.push_back(token);
        return std::move(tokens_);
      }
      read(token);
      tokens_.push_back(token);
    }
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  TextPlace place() const { return {line_, static_cast<std::uint32_t>(at_ - line_start_ + 1)}; }

  [[noreturn]] void refuse(TextPlace place, const std::string& message, const std::string& remedy) const {
    throw InputError(position_of(file_, place), message, remedy);
  }

  void end_line() {
    ++at_;
    ++line_;
    line_start_ = at_;
  }

  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  // Comments, blanks and line markers. Whether there were any.
  bool skip_blanks() {
    const std::size_t from = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        end_line();
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        skip_line();
      } else if (c == '/' && peek(1) == '*') {
        skip_comment();
      } else if (c == '#') {
        skip_marker();
      } else {
        break;
      }
    }
    return at_ != from;
  }

  void skip_comment() {
    const TextPlace start = place();
    for (at_ += 2; at_ < text_.size();) {
      if (text_[at_] == '*' && peek(1) == '/') {
        at_ += 2;
        return;
      }
      if (text_[at_] == '\n') {
        end_line();
      } else {
        ++at_;
      }
    }
    refuse(start, "this comment has no end", "close it with */");
  }

  // # 12 "file", #line 12 "file": left by preprocessors.
  void skip_marker() {
    const TextPlace start = place();
    std::size_t at = at_ + 1;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    const bool line_marker =
        at < text_.size() && (is_digit(text_[at]) || text_.compare(at, 4, "line") == 0 || text_[at] == '\n');
    if (!line_marker) {
      refuse(start, "a directive of the preprocessor",
             "run the preprocessor first (cpp -P), or let nvcc write the file");
    }
    skip_line();
  }

  void read(Token& token) {
    const char c = peek();
    if (c == '.' && is_digit(peek(1)) && !behind_word()) {
      read_fraction(token);
    } else if (c == '.' && continues_name(peek(1))) {
      ++at_;
      token.kind = TokenKind::dotted;
      read_dotted(token);
    } else if (c == '_' || is_letter(c) || ((c == '%' || c == '$') && continues_name(peek(1)))) {
      token.kind = TokenKind::name;
      const std::size_t from = at_++;
      while (continues_name(peek())) ++at_;
      token.text = view(from);
    } else if (is_digit(c)) {
      read_number(token);
    } else if (c == '"') {
      read_string(token);
    } else {
      read_symbol(token);
    }
  }

  // Then a dot is a modifier's: cp.async.bulk.tensor.2d.
  bool behind_word() const {
    return !tokens_.empty() && (tokens_.back().kind == TokenKind::name || tokens_.back().kind == TokenKind::dotted);
  }

  std::string_view view(std::size_t from) const { return std::string_view(text_).substr(from, at_ - from); }

  // shared::cta is one word, and so is L2::cache_hint.
  void read_dotted(Token& token) {
    const std::size_t from = at_;
    while (true) {
      while (continues_name(peek())) ++at_;
      if (peek() != ':' || peek(1) != ':' || !continues_name(peek(2))) break;
      at_ += 2;
    }
    token.text = view(from);
  }

  void read_string(Token& token) {
    token.kind = TokenKind::string;
    const std::size_t from = ++at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
    at_ = std::min(at_, text_.size());
    if (peek() != '"') refuse(token.place, "this string has no end", "close it with \" on its line");
    token.text = view(from);
    ++at_;
  }

  void read_symbol(Token& token) {
    static constexpr const char* kPairs[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
    const char c = peek();
    token.kind = TokenKind::symbol;
    const std::size_t from = at_;
    if (c == '\0' || std::strchr("()[]{},;:|+-*/%<>=!&^~?@", c) == nullptr) refuse_character(token.place);
    for (const char* pair : kPairs) {
      if (c == pair[0] && peek(1) == pair[1]) {
        at_ += 2;
        token.text = view(from);
        return;
      }
    }
    ++at_;
    token.text = view(from);
  }

  [[noreturn]] void refuse_character(TextPlace where) const {
    const auto byte = static_cast<unsigned char>(peek());
    static constexpr char kDigits[] = "0123456789ABCDEF";
    const std::string code = std::string("0x") + kDigits[byte >> 4] + kDigits[byte & 15];
    const std::string shown = byte > 32 && byte < 127 ? "'" + std::string(1, peek()) + "'" : "the byte " + code;
    refuse(where, shown + " does not occur in PTX outside of comments and strings",
           byte == 0 || byte >= 127 ? "this may be a compiled file: give the text of a .ptx" : "take it out");
  }

  void read_number(Token& token) {
    const char second = peek(1);
    const std::size_t from = at_;
    if (peek() == '0' && (second == 'f' || second == 'F')) {
      read_bits(token, TokenKind::single, 8);
    } else if (peek() == '0' && (second == 'd' || second == 'D')) {
      read_bits(token, TokenKind::real, 16);
    } else if (peek() == '0' && (second == 'x' || second == 'X')) {
      at_ += 2;
      read_digits(token, 16);
    } else if (peek() == '0' && (second == 'b' || second == 'B')) {
      at_ += 2;
      read_digits(token, 2);
    } else if (is_decimal_fraction()) {
      read_fraction(token);
    } else if (peek() == '0' && is_digit(second)) {
      ++at_;
      read_digits(token, 8);
    } else {
      read_digits(token, 10);
    }
    if (continues_name(peek())) {
      refuse(token.place, "'" + std::string(view(from)) + peek() + "' is no number of PTX",
             "numbers are 12, 12U, 0x1F, 017, 0b101, 1.5, 0f3F800000 and 0d3FF0000000000000");
    }
  }

  // 1.5, 1., 1e9, 1.e-3
  bool is_decimal_fraction() const {
    std::size_t ahead = 0;
    while (is_digit(peek(ahead))) ++ahead;
    if (peek(ahead) == '.') return !begins_name(peek(ahead + 1)) || peek(ahead + 1) == 'e' || peek(ahead + 1) == 'E';
    return peek(ahead) == 'e' || peek(ahead) == 'E';
  }

  void read_fraction(Token& token) {
    token.kind = TokenKind::real;
    const std::size_t from = at_;
    while (is_digit(peek())) ++at_;
    if (peek() == '.') ++at_;
    while (is_digit(peek())) ++at_;
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!is_digit(peek())) {
        refuse(token.place, "'" + std::string(view(from)) + "' has no exponent behind its e", "write 1.5e3 or 1.5");
      }
      while (is_digit(peek())) ++at_;
    }
    token.text = view(from);
    double value = 0;
    if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec != std::errc()) {
      refuse(token.place, "the number " + std::string(token.text.substr(0, 40)) + " is beyond a double's range",
             "write the bits of what is meant: 0d7FF0000000000000 is infinity");
    }
    std::memcpy(&token.bits, &value, sizeof value);
  }

  void read_bits(Token& token, TokenKind kind, std::size_t digits) {
    token.kind = kind;
    const std::size_t from = at_;
    at_ += 2;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      const unsigned value = digit_value(peek());
      if (value >= 16) {
        refuse(token.place, "'" + std::string(view(from)) + "' has " + std::to_string(i) + " digits",
               "write " + std::to_string(digits) + " hexadecimal ones");
      }
      token.bits = token.bits << 4 | value;
    }
    token.text = view(from);
  }

  void read_digits(Token& token, unsigned base) {
    token.kind = TokenKind::integer;
    const std::size_t from = at_;
    bool too_large = false;
    while (digit_value(peek()) < base) {
      const unsigned digit = digit_value(peek());
      too_large = too_large || token.bits > (std::numeric_limits<std::uint64_t>::max() - digit) / base;
      token.bits = token.bits * base + digit;
      ++at_;
    }
    token.text = view(from);
    if (at_ == from) refuse(token.place, "a number without digits", "write one: 0x1F, 0b101");
    if (too_large) {
      refuse(token.place, "the number " + std::string(token.text.substr(0, 40)) + " has more than 64 bits",
             "integers of PTX end at 18446744073709551615");
    }
    token.is_unsigned = token.bits >> 63 != 0;
    if (peek() == 'U') {
      token.is_unsigned = true;
      ++at_;
    }
  }

  const std::string& text_;
  const std::string& file_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  std::uint32_t line_ = 1;
};

}  // namespace

SourcePos position_of(const std::string& module, TextPlace place) {
  return {module, static_cast<int>(place.line), static_cast<int>(place.column)};
}

std::vector<Token> tokenize(const std::string& text, const std::string& file) { return Lexer(text, file).run(); }

std::string in_words(const Token& token) {
  const std::string text(token.text.substr(0, 60));
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the text";
    case TokenKind::string:
      return "\"" + text + "\"";
    case TokenKind::dotted:
      return "'." + text + "'";
    default:
      return "'" + text + "'";
  }
}

TokenReader::TokenReader(const std::string& text, std::string file)
    : file_(std::move(file)), tokens_(tokenize(text, file_)) {}

const Token& TokenReader::peek(std::size_t ahead) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }

const Token& TokenReader::take() {
  const Token& token = tokens_[next_];
  if (next_ + 1 < tokens_.size()) ++next_;
  return token;
}

bool TokenReader::at_symbol(std::string_view symbol) const {
  return peek().kind == TokenKind::symbol && peek().text == symbol;
}

bool TokenReader::at_directive(std::string_view directive) const {
  return peek().kind == TokenKind::dotted && peek().text == directive;
}

bool TokenReader::at_name(std::string_view name) const { return peek().kind == TokenKind::name && peek().text == name; }

bool TokenReader::accept_symbol(std::string_view symbol) {
  if (!at_symbol(symbol)) return false;
  take();
  return true;
}

bool TokenReader::accept_directive(std::string_view directive) {
  if (!at_directive(directive)) return false;
  take();
  return true;
}

void TokenReader::expect_symbol(std::string_view symbol, std::string_view where) {
  if (!accept_symbol(symbol)) refuse_token(peek(), "'" + std::string(symbol) + "' " + std::string(where));
}

const Token& TokenReader::expect_name(std::string_view what) {
  if (peek().kind != TokenKind::name) refuse_token(peek(), what);
  return take();
}

void TokenReader::refuse(TextPlace place, std::string_view message, std::string_view remedy) const {
  throw InputError(position_of(file_, place), message, remedy);
}

void TokenReader::refuse_token(const Token& token, std::string_view wanted) const {
  refuse(token.place, "unexpected " + in_words(token), "here belongs " + std::string(wanted));
}

}  // namespace heddle::ptx
