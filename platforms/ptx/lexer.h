// The text of a PTX module as tokens (PTX ISA, "Syntax").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "ptx/module.h"

namespace heddle::ptx {

enum class TokenKind : std::uint8_t {
  name,     // add, %r1, $L__BB0_1, _
  dotted,   // .reg, .shared::cta, .2d: what follows a dot; `text` is without it
  integer,  // 12, 0x1F, 0b101, 017, 12U
  single,   // 0f3F800000
  real,     // 1.5, 0d3FF0000000000000
  string,   // "…": `text` is what stands between the quotes
  symbol,   // ( ) [ ] { } , ; : | and operators, of one or two characters
  end,      // of the text
};

// Points into the text, which has to live as long.
struct Token {
  TokenKind kind = TokenKind::end;
  bool is_unsigned = false;  // of an integer: written with U, or beyond the signed ones
  bool adjoining = false;    // nothing stands between it and the token before
  TextPlace place;
  std::string_view text;
  std::uint64_t bits = 0;  // of a number: two's complement, or IEEE 754
};

// The tokens in order, with one of kind `end` behind them. Comments are left out, and so are line markers of a
// preprocessor. Throws InputError with the place for characters and numbers that PTX does not have.
std::vector<Token> tokenize(const std::string& text, const std::string& file);

// Goes through tokens, and says where something is wrong.
class TokenReader {
 public:
  TokenReader(const std::string& text, std::string file);

  const Token& peek(std::size_t ahead = 0) const;
  // The next one; at the end, stays there.
  const Token& take();

  // Whether the next one is this symbol, directive (without its dot), or name.
  bool at_symbol(std::string_view symbol) const;
  bool at_directive(std::string_view directive) const;
  bool at_name(std::string_view name) const;
  // Takes it if it is.
  bool accept_symbol(std::string_view symbol);
  bool accept_directive(std::string_view directive);
  // Takes it, or refuses what is there: `where` says behind or in what ("behind .version").
  void expect_symbol(std::string_view symbol, std::string_view where);
  const Token& expect_name(std::string_view what);

  [[noreturn]] void refuse(TextPlace place, std::string_view message, std::string_view remedy = {}) const;
  // Says what is there, and what should be.
  [[noreturn]] void refuse_token(const Token& token, std::string_view wanted) const;

 private:
  std::string file_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

// For messages: a place in a module's text.
SourcePos position_of(const std::string& module, TextPlace place);

// As it stands in a message: "'.reg'", "'%r1'", "the end of the text".
std::string in_words(const Token& token);

}  // namespace heddle::ptx
