// Several modules as one: who defines what (PTX ISA, "Linking Directives").
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/module.h"
#include "ptx_text.h"

namespace ptx_parser_link_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;

namespace {

// a.ptx, b.ptx, c.ptx …
ptx::Module linked(const std::vector<std::string>& texts) {
  std::vector<ptx::Module> modules;
  for (const std::string& text : texts) {
    modules.push_back(
        ptx::parse_module(with_head(text), std::string(1, static_cast<char>('a' + modules.size())) + ".ptx"));
  }
  return ptx::link(std::move(modules));
}

std::string refusal_of_link(const std::vector<std::string>& texts) {
  try {
    (void)linked(texts);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::uint8_t first_byte(const ptx::Module& module, const std::string& variable) {
  return module.find_variable(variable)->initial->bytes.at(0);
}

const ptx::NameOperand& name_of(const ptx::Operand& operand) { return std::get<ptx::NameOperand>(operand.what); }

}  // namespace

TEST_CASE("external names are those that another module defines, in any order", "[ptx]") {
  const std::string user = R"(.extern .global .b32 x[]; .extern .func (.param .b32 r) f(.param .b32 a);
    .visible .entry k() { .reg .b32 %r<2>; .param .b32 p; ld.global.b32 %r1, [x + 4]; call (p), f, (p); ret; })";
  const std::string definer =
      ".visible .global .b32 x[2] = {5, 6}; .visible .func (.param .b32 r) f(.param .b32 a) { ret; }";
  for (const auto& texts : {std::vector<std::string>{user, definer}, {definer, user}}) {
    const ptx::Module module = linked(texts);
    REQUIRE(module.variables.size() == 1);
    CHECK(!module.variables[0].is_extern);
    CHECK(module.variables[0].bytes() == 8);
    REQUIRE(module.functions.size() == 2);
    CHECK(module.find_function("f")->body.has_value());
    CHECK(module.find_function("f")->module == (texts[0] == definer ? "a.ptx" : "b.ptx"));
    CHECK(module.find_function("k")->body.has_value());
  }
  CHECK_THAT(refusal_of_link({".extern .global .b32 x;"}), Contains("a.ptx:2:22: no module defines the variable 'x'"));
  // A function may be the system's, and memory of unknown size is a launch's.
  CHECK(refusal_of_link({".extern .func vprintf(); .extern .shared .b8 x[];", ".extern .func vprintf();"}).empty());
  CHECK_THAT(refusal_of_link({".extern .global .b32 x;", ".visible .global .b64 x;"}),
             Contains("'x' has 4 bytes, and 8 in b.ptx:2:23"));
  CHECK_THAT(refusal_of_link({".extern .global .b32 x;", ".visible .const .b32 x;"}),
             Contains("b.ptx:2:22: 'x' is in another state space than in a.ptx:2:22"));
  CHECK_THAT(refusal_of_link({".extern .func f(.param .b32 a);", ".visible .func f(.param .b64 a) { ret; }"}),
             Contains("b.ptx:2:16: 'f' has other parameters than in a.ptx:2:15"));
}

TEST_CASE("dynamic shared memory has the largest alignment that a module wants", "[ptx]") {
  const ptx::Module module = linked({".extern .shared .align 4 .b8 x[];", ".extern .shared .align 128 .b8 x[];",
                                     ".extern .shared .align 16 .b8 x[];"});
  REQUIRE(module.variables.size() == 1);
  CHECK(module.variables[0].alignment() == 128);
}

TEST_CASE("two definitions are refused by name, unless one is weak", "[ptx]") {
  CHECK_THAT(refusal_of_link({".visible .func f() { ret; }", ".visible .func f() { ret; }"}),
             Contains("b.ptx:2:16: a second function 'f', beside that of a.ptx:2:16"));
  CHECK_THAT(refusal_of_link({".visible .entry f() { ret; }", ".visible .entry f() { ret; }"}),
             Contains("a second function 'f'"));
  CHECK_THAT(refusal_of_link({".visible .global .b32 x;", ".visible .global .b32 x;"}),
             Contains("a second variable 'x', beside that of a.ptx:2:23"));
  CHECK_THAT(refusal_of_link({".visible .func f() { ret; }", ".visible .global .b32 f;"}),
             Contains("'f' is a function, and a variable in b.ptx:2:23"));

  const std::string weak = ".weak .global .u8 x = 1; .weak .func f() { ret; }";
  const std::string other = ".weak .global .u8 x = 2; .weak .func f() { trap; }";
  const std::string strong = ".visible .global .u8 x = 3; .visible .func f() { exit; }";
  const auto opcode = [](const ptx::Module& module) {
    return instructions_of(*module.find_function("f")->body).at(0).opcode;
  };
  CHECK(first_byte(linked({weak, other}), "x") == 1);
  CHECK(opcode(linked({weak, other})) == "ret");
  for (const auto& texts :
       {std::vector<std::string>{weak, strong, other}, {strong, weak, other}, {other, weak, strong}}) {
    const ptx::Module module = linked(texts);
    CHECK(first_byte(module, "x") == 3);
    CHECK(opcode(module) == "exit");
    CHECK(module.functions.size() == 1);
    CHECK(module.variables.size() == 1);
  }
}

TEST_CASE("of common variables the largest one stays, and only that has a value", "[ptx]") {
  const std::string small = ".common .global .b8 x[4];";
  const std::string large = ".common .global .align 2 .b8 x[16];";
  const std::string valued = ".common .global .b8 x[16] = {9};";
  CHECK(linked({small, large}).variables.at(0).bytes() == 16);
  CHECK(linked({large, small}).variables.at(0).bytes() == 16);
  CHECK(linked({large, small}).variables.at(0).alignment() == 2);
  CHECK(linked({".common .global .align 64 .b8 x[4];", large}).variables.at(0).alignment() == 64);
  for (const auto& texts : {std::vector<std::string>{valued, large, small}, {small, large, valued}}) {
    CHECK(first_byte(linked(texts), "x") == 9);
  }
  CHECK_THAT(refusal_of_link({valued, valued}), Contains("a second variable 'x'"));
  CHECK_THAT(refusal_of_link({valued, ".common .global .b8 x[32];"}),
             Contains("a.ptx:2:21: 'x' has an initial value, and is larger elsewhere"));
  // A definition that is visible is the one.
  CHECK(first_byte(linked({small, ".visible .global .b8 x[4] = {7};"}), "x") == 7);
}

TEST_CASE("names that modules have for themselves stay apart, wherever they are said", "[ptx]") {
  const std::string text = R"(.global .u8 word[2] = {1, 2}; .global .u64 where = generic(word);
    .func (.param .b32 r) f(.param .b32 a) { ret; } .func g(.param .b32 word) { .reg .b32 %r<2>; ld.param.b32 %r1, [word]; ret; })";
  const std::string first = text + R"(.visible .entry first() { .reg .b64 %rd<3>; .reg .b128 q; .param .b32 p;
    mov.u64 %rd1, word + 1; ld.global.u8 %rd2, [word]; { call (p), f, (p); } t: .calltargets f; call (p), %rd1, (p), t; mov.b128 q, {%rd1, word};
    { .reg .b64 word; mov.u64 word, 1; f: bra f; } ret; })";
  const std::string second = text + ".visible .entry second() { .reg .b64 %rd<2>; mov.u64 %rd1, word; ret; }";
  const ptx::Module module = linked({first, second});
  for (const char* name : {"word@1", "word@2", "where@1", "where@2"}) CHECK(module.find_variable(name) != nullptr);
  CHECK(module.find_variable("word") == nullptr);
  CHECK(module.find_function("f@1") != nullptr);
  CHECK(module.find_function("f@2") != nullptr);
  CHECK(module.find_variable("where@2")->initial->addresses.at(0).name == "word@2");
  const ptx::Block& body = *module.find_function("first")->body;
  const auto instructions = instructions_of(body);
  CHECK(name_of(instructions.at(0).operands[1]).name == "word@1");
  CHECK(name_of(instructions.at(0).operands[1]).offset == 1);
  CHECK(name_of(std::get<ptx::AddressOperand>(instructions.at(1).operands[1].what).base.at(0)).name == "word@1");
  CHECK(name_of(std::get<ptx::VectorOperand>(instructions.at(3).operands[1].what).elements.at(1)).name == "word@1");
  CHECK(statements_of<ptx::TargetList>(body).at(0).targets == std::vector<std::string>{"f@1"});
  const auto blocks = statements_of<ptx::Block>(body);
  CHECK(name_of(instructions_of(blocks.at(0)).at(0).operands[1]).name == "f@1");
  // Where a block has the name for something of its own, it means that.
  CHECK(name_of(instructions_of(blocks.at(1)).at(0).operands[0]).name == "word");
  CHECK(name_of(instructions_of(blocks.at(1)).at(1).operands[0]).name == "f");
  const auto load = instructions_of(*module.find_function("g@2")->body).at(0);
  CHECK(name_of(std::get<ptx::AddressOperand>(load.operands[1].what).base.at(0)).name == "word");
  CHECK(name_of(instructions_of(*module.find_function("second")->body).at(0).operands[1]).name == "word@2");

  // Parts of addresses, parameters of calls, and initial values of a function's own variables say names, too.
  const std::string third = R"(.global .samplerref how; .global .u8 word; .func f(.param .b32 a) { ret; }
    .visible .entry third() { .reg .b32 %r<5>; .global .texref picture; .global .u64 kept = word;
      tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [picture, how, {%r1}]; call f, (word); ret; })";
  const ptx::Module both =
      linked({third, ".global .samplerref how; .global .u8 word; .func f(.param .b32 a) { ret; }"});
  const ptx::Block& uses = *both.find_function("third")->body;
  CHECK(statements_of<ptx::Variable>(uses).at(2).initial->addresses.at(0).name == "word@1");
  const auto said = instructions_of(uses);
  CHECK(name_of(std::get<ptx::AddressOperand>(said.at(0).operands[1].what).parts.at(0)).name == "how@1");
  CHECK(name_of(said.at(1).operands[0]).name == "f@1");
  CHECK(name_of(std::get<ptx::ListOperand>(said.at(1).operands[1].what).elements.at(0)).name == "word@1");

  // One that only one module has keeps its name; one that another module looks for does not stand for it.
  CHECK(linked({".global .b32 lone;", ".visible .entry k() { ret; }"}).find_variable("lone") != nullptr);
  CHECK_THAT(refusal_of_link({".global .b32 x;", ".extern .global .b32 x;"}),
             Contains("no module defines the variable 'x'"));
}

TEST_CASE("heads, files and other names of functions are put together", "[ptx]") {
  std::vector<ptx::Module> modules;
  modules.push_back(ptx::parse_module(
      ".version 8.0 .target sm_80 .file 1 \"a.cu\" .file 3 \"b.h\" .entry k() { .loc 3 7 1 ret; }", "a.ptx"));
  modules.push_back(
      ptx::parse_module(".version 9.0 .target sm_90a, debug .file 1 \"c.cu\" .entry l() { trap; .loc 1 8 1 ret; } "
                        ".func f() { ret; } .func g(); .alias g, f;",
                        "b.ptx"));
  const ptx::Module module = ptx::link(std::move(modules));
  CHECK(module.name == "a.ptx");
  CHECK(module.major == 9);
  CHECK(module.target == "sm_90a");
  CHECK(module.target_options == std::vector<std::string>{"debug"});
  CHECK(module.aliases.at("g") == "f");
  REQUIRE(module.files.size() == 3);
  const auto file_of = [&module](const char* function, std::size_t i) {
    const std::uint32_t index = instructions_of(*module.find_function(function)->body).at(i).source.file;
    for (const ptx::SourceFile& file : module.files) {
      if (file.index == index) return file.name;
    }
    return std::string();
  };
  CHECK(file_of("k", 0) == "b.h");
  CHECK(file_of("l", 0).empty());
  CHECK(file_of("l", 1) == "c.cu");
  CHECK_THROWS_WITH(ptx::link({}), Contains("there is no module to link"));
}

}  // namespace ptx_parser_link_test
