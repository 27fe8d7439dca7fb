#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "program/expression.h"

namespace heddle::program {
namespace {

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

Shape shape_of(const ExpressionText& text, const std::function<Shape(std::uint32_t)>& shape_of) {
  return Reader(text.code, shape_of).read();
}

}  // namespace heddle::program
