// Which expressions three lanes tell, and that these three do.
#include <cmath>
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "program/expression.h"
#include "program/program_machine.h"
#include "support/random.h"

namespace program_expression_shape_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;

namespace {

class Names : public ExpressionNames {
 public:
  Names() {
    for (const char* name : {"lane", "thread", "u", "v", "r"}) numbers[name] = slots.add();
  }
  std::optional<NamedValue> find(const std::string& name) override {
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::nullopt : std::optional<NamedValue>(found->second);
  }
  std::vector<std::string> known() const override { return {}; }
  Shape shape(std::uint32_t slot) const {
    if (slot == numbers.at("r")) return Shape::other;
    return slot == numbers.at("u") || slot == numbers.at("v") ? Shape::uniform : Shape::affine;
  }

  ExpressionSlots slots;
  std::map<std::string, std::uint32_t> numbers;
};

Shape shape(const std::string& text) {
  Names names;
  const Expression made(text, {}, names, names.slots);
  return shape_of(made.text(), [&](std::uint32_t slot) { return names.shape(slot); });
}

std::string random_text(test::Random& dice, int depth) {
  static const std::vector<std::string> kLeaves{"lane", "thread", "thread.x", "thread.y",
                                                "warp", "cta.x",  "block.x",  "warps"};
  static const std::vector<std::string> kOperators{"+",  "+", "-", "-", "*",  "*",  "*",
                                                   "//", "%", "&", "|", "<<", ">>", "xor"};
  if (depth == 0 || dice.one_in(4)) {
    if (dice.one_in(3)) return std::to_string(dice.between64(0, 9));
    return kLeaves[dice.between64(0, kLeaves.size() - 1)];
  }
  const std::string left = random_text(dice, depth - 1);
  const std::string right = random_text(dice, depth - 1);
  const std::string op = kOperators[dice.between64(0, kOperators.size() - 1)];
  if (op == "<<" || op == ">>") return "(" + left + ") " + op + " " + std::to_string(dice.between64(0, 5));
  // With and without parentheses: the order of operators matters to the shape as well.
  return dice.one_in(2) ? "(" + left + " " + op + " " + right + ")" : left + " " + op + " " + right;
}

}  // namespace

TEST_CASE("shapes of expressions", "[workload]") {
  for (const char* text : {"3", "u", "u + 3 * v", "(u // 3) % v", "u << 3", "-u * (0 - 5)", "u & 3 | v", "u xor v"}) {
    INFO(text);
    if (std::string(text) != "3") CHECK(shape(text) == Shape::uniform);
  }
  for (const char* text : {"lane", "4 * lane + u", "u * (thread + 3) - lane * v", "-lane", "u - -lane",
                           "(u % 4) * lane", "lane * (u // 2) + (v << 4)", "lane + u * v * 3", "2 * -(lane - 7) * u"}) {
    INFO(text);
    CHECK(shape(text) == Shape::affine);
  }
  for (const char* text : {"lane * lane",    "lane // 4",    "lane % 8", "lane & 3",     "u | lane",   "lane xor u",
                           "lane << 2",      "lane >> 2",    "lane / 2", "u / 2 + lane", "0.5 * lane", "r",
                           "r + lane",       "min(lane, 3)", "lane < 3", "lane ? 1 : 2", "!lane",      "lane ^ 2",
                           "lane + (u < 3)", "u // lane",    "lane && u"}) {
    INFO(text);
    CHECK(shape(text) == Shape::other);
  }
}

TEST_CASE("every lane gets its own value of an expression, whatever its shape", "[workload][SM-02]") {
  HEDDLE_RANDOM(dice);
  constexpr std::uint32_t kThreads = 80;
  for (int round = 0; round < 150; ++round) {
    const std::string text = random_text(dice, 4) + " + 0 * warp";  // a constant that is infinite would be refused
    const std::uint32_t width = dice.one_in(2) ? 16 : 80;           // a row is no multiple of a warp
    CAPTURE(round, text, width);
    test::ProgramMachine machine(
        fmt::format(
            "  grid: 2\n  block: [{}, {}]\n  program:\n  - let: {{value: \"{}\"}}\n  - store: {{value: value, type: "
            "f64, at: out + 8 * (cta * block + thread)}}\n",
            width, kThreads / width, text),
        "[{name: out, bytes: 4096}]");
    machine.run->run();
    for (std::uint32_t i = 0; i < 2 * kThreads; ++i) {
      const std::uint32_t thread = i % kThreads;
      // The same text, with all names in slots: nobody knows what depends on the lane.
      struct Fixed : ExpressionNames {
        std::optional<NamedValue> find(const std::string& name) override { return slot_of.at(name); }
        std::vector<std::string> known() const override { return {}; }
        std::map<std::string, std::uint32_t> slot_of;
      } fixed;
      ExpressionSlots slots;
      const std::pair<const char*, std::uint32_t> known[] = {
          {"lane", thread % 32}, {"thread", thread},      {"thread.x", thread % width}, {"thread.y", thread / width},
          {"warp", thread / 32}, {"cta.x", i / kThreads}, {"block.x", width},           {"warps", 3}};
      for (const auto& [name, value] : known) {
        const std::uint32_t slot = slots.add();
        fixed.slot_of[name] = slot;
        slots.at(slot) = value;
      }
      const double expected = Expression(text, {}, fixed, slots).value();
      const auto actual = machine.at<double>("out", i);
      const bool same = actual == expected || (std::isnan(actual) && std::isnan(expected));
      if (!same) {
        CAPTURE(i, actual, expected);
        FAIL("another value");
      }
    }
  }
}

}  // namespace program_expression_shape_test
