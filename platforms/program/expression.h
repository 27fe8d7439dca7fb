// Arithmetic that a scenario's author writes: "x + 4 * (cta.x * block.x + thread.x)". Names are looked up while the
// text is read; what remains is code over numbered slots, evaluated by muParser in double precision.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/error.h"

namespace mu {
class Parser;
}

namespace heddle::program {

// Values that change between evaluations. Their addresses stay: expressions point to them.
class ExpressionSlots {
 public:
  std::uint32_t add() {
    values_.push_back(0);
    return static_cast<std::uint32_t>(values_.size() - 1);
  }
  double& at(std::uint32_t slot) { return values_[slot]; }

 private:
  std::deque<double> values_;
};

// Text that has been read: names are slots, numbers are plain.
struct ExpressionText {
  std::string code;                  // in the words of muParser
  std::vector<std::uint32_t> slots;  // that it names, each once
};

// What a name stands for: a number that is known, a slot, or other text (`let`).
using NamedValue = std::variant<double, std::uint32_t, ExpressionText>;

class ExpressionNames {
 public:
  virtual ~ExpressionNames() = default;
  virtual std::optional<NamedValue> find(const std::string& name) = 0;
  // For suggestions.
  virtual std::vector<std::string> known() const = 0;
};

// Names that are known beforehand.
class NameTable : public ExpressionNames {
 public:
  void set(const std::string& name, const NamedValue& value) { values_.insert_or_assign(name, value); }
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  bool empty() const { return values_.empty(); }
  std::optional<NamedValue> find(const std::string& name) override {
    const auto found = values_.find(name);
    return found == values_.end() ? std::nullopt : std::optional<NamedValue>(found->second);
  }
  std::vector<std::string> known() const override {
    std::vector<std::string> names;
    for (const auto& [name, value] : values_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, NamedValue> values_;
};

// Longest expression that is taken, with everything that `let` puts in its place: muParser's own limit is a little
// higher.
constexpr std::size_t kMaxExpressionText = 8000;

// One expression over the slots of one program. It evaluates in place, so it serves one thread at a time.
class Expression {
 public:
  Expression(const std::string& text, const SourcePos& where, ExpressionNames& names, ExpressionSlots& slots);
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;
  ~Expression();

  // Names no slot: `value` never changes.
  bool constant() const { return text_.slots.empty(); }
  const std::vector<std::uint32_t>& slots() const { return text_.slots; }
  const ExpressionText& text() const { return text_; }
  // What a name that stands for this expression becomes. Constants become numbers.
  NamedValue named() const;
  // With what the slots hold now.
  double value() const { return constant() ? constant_ : evaluate(); }

 private:
  double evaluate() const;

  ExpressionText text_;
  std::unique_ptr<mu::Parser> parser_;
  double constant_ = 0;
};

// A name that a user may give to a value: letters, digits and underscores, no digit first, no operator.
bool usable_name(const std::string& name);

// The integer that is left when the fraction is cut off, modulo 2^64; 0 for what is not finite.
std::uint64_t whole_bits(double value);

// How an expression depends on the lane of a warp.
enum class Shape : std::uint8_t {
  uniform,  // an integer that is the same for all lanes
  affine,   // an integer that grows by the same amount from lane to lane
  other,
};

// Most addresses are sums of products of integers: three lanes tell all 32. The answer is about exact integers, so the
// caller checks that the values are small enough. `shape_of`: of a slot.
Shape shape_of(const ExpressionText& text, const std::function<Shape(std::uint32_t)>& shape_of);

}  // namespace heddle::program
