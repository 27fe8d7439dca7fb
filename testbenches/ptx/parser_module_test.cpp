// What stands outside of functions' bodies: versions, targets, files, sections, functions and their directives (PTX
// ISA, "Directives").
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/module.h"
#include "ptx_text.h"

namespace ptx_parser_module_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;
using Numbers = std::vector<std::uint64_t>;

TEST_CASE("a module says its version, target and address size", "[ptx]") {
  const ptx::Module module =
      ptx::parse_module(".version 8.7\n.target sm_80, debug, texmode_independent\n.address_size 64\n", "old.ptx");
  CHECK(module.name == "old.ptx");
  CHECK(module.major == 8);
  CHECK(module.minor == 7);
  CHECK(module.target == "sm_80");
  CHECK(module.target_options == std::vector<std::string>{"debug", "texmode_independent"});
  CHECK(module.address_size == 64);
  CHECK(refusal_of_text(".version 9.1 .target compute_90a").empty());

  const std::pair<const char*, const char*> kWrong[] = {
      {"", "m.ptx:1:1: a module of PTX begins with .version"},
      {".target sm_90a", "a module of PTX begins with .version"},
      {"\x7f"
       "ELF",
       "does not occur in PTX"},
      {".version 9", "here belongs a version of PTX"},
      {".version 1e5 .target sm_90a", "here belongs a version of PTX"},
      {".version 10.0 .target sm_90a", "m.ptx:1:10: PTX 10.0 is newer than what is read\n  versions up to 9.x are"},
      {".version 0.5 .target sm_90a", "there is no PTX 0.5"},
      {".version 9.0 .global .b32 x;", "here belongs .target behind .version"},
      {".version 9.0\n.target sm_100a",
       "m.ptx:2:9: 'sm_100a' is newer than the machine, which is sm_90a\n  compile with nvcc -arch=sm_90a"},
      {".version 9.0 .target sm_80a", "'sm_80a' is for that architecture alone"},
      {".version 9.0 .target sm_90f", "'sm_90f' is for that architecture alone"},
      {".version 9.0 .target sm_9", "'sm_9' is no architecture"},
      {".version 9.0 .target debug", ".target names no architecture"},
      {".version 9.0 .target sm_90, sm_80", "a second target 'sm_80'"},
      {".version 9.0 .target sm_90, debgu", "'debgu' is no target and no option of .target\n  did you mean debug?"},
      {".version 9.0 .target sm_90, map_f64_to_f32", "for machines without doubles"},
      {".version 9.0 .target sm_80 .address_size 32", "addresses of 32 bits"},
  };
  for (const auto& [text, said] : kWrong) {
    INFO(text);
    CHECK_THAT(refusal_of_text(text), Contains(said));
  }
}

TEST_CASE("files are listed, and sections of debuggers are passed over whole", "[ptx]") {
  const ptx::Module module = module_of(R"(.file 1 "a.cu" .file 2 "b.h", 12345, 678
    .pragma "nounroll";
    .section .debug_str { $L__info: .b8 95,90,0 .b64 $L__info + 4 .b32 .debug_abbrev .b32 L1-L0 }
    .section .debug_macinfo { .b8 0 })");
  REQUIRE(module.files.size() == 2);
  CHECK(module.files[1].index == 2);
  CHECK(module.files[1].name == "b.h");
  CHECK(module.variables.empty());
  CHECK_THAT(refusal(".section .debug_str { .b8 1 "), Contains("here belongs data of a section, or '}'"));
  CHECK_THAT(refusal(".section .debug_str { ret; }"), Contains("unexpected ';'"));
  CHECK_THAT(refusal(".file 1 a.cu"), Contains("the name of a file in quotes"));
}

TEST_CASE("kernels and functions have directives of their own", "[ptx]") {
  const ptx::Module module = module_of(R"(
    .visible .entry k() .maxntid 128, 2 .minnctapersm 2 .maxnctapersm 4 .maxnreg 64 .pragma "x";
      .reqnctapercluster 2, 1, 1 .explicitcluster { ret; }
    .entry c .reqntid 32 .reqnctapercluster 4 .blocksareclusters { ret; }
    .entry m() .maxclusterrank 8 { ret; }
    .weak .func stop() .noreturn .abi_preserve 8 .abi_preserve_control 2 { trap; }
    .extern .func .attribute(.unified(0xAB, 0xCD)) outside(.param .b32 a);)");
  const auto& k = *module.find_function("k");
  CHECK(k.directives.at("maxntid") == Numbers{128, 2, 1});
  CHECK(k.directives.at("minnctapersm") == Numbers{2});
  CHECK(k.directives.at("maxnctapersm") == Numbers{4});
  CHECK(k.directives.at("maxnreg") == Numbers{64});
  CHECK(k.directives.at("reqnctapercluster") == Numbers{2, 1, 1});
  CHECK(k.directives.at("explicitcluster").empty());
  CHECK(k.directives.size() == 6);
  CHECK(module.find_function("c")->directives.at("reqntid") == Numbers{32, 1, 1});
  CHECK(module.find_function("c")->directives.count("blocksareclusters") == 1);
  CHECK(module.find_function("m")->directives.at("maxclusterrank") == Numbers{8});
  const auto& stop = *module.find_function("stop");
  CHECK(stop.no_return);
  CHECK(stop.is_weak);
  CHECK(stop.directives.at("abi_preserve") == Numbers{8});
  CHECK(module.find_function("outside")->is_extern);
  CHECK(!module.find_function("outside")->body.has_value());

  const std::pair<const char*, const char*> kWrong[] = {
      {".entry k() .maxntid 0 { ret; }", "m.ptx:2:21: '.maxntid' of 0"},
      {".entry k() .maxntid 1, 1, 1, 1 { ret; }", "unexpected ','"},
      {".entry k() .maxntid 32 .maxntid 32 { ret; }", "a second '.maxntid'"},
      {".entry k() .maxnreg { ret; }", "here belongs a number of '.maxnreg'"},
      {".entry k() .maxntidd 32 { ret; }", "'.maxntidd' is no directive of a function\n  did you mean .maxntid"},
      {".entry k() .noreturn { ret; }", "'.noreturn' is of functions that are called"},
      {".func f() .maxntid 32 { ret; }", "'.maxntid' is of kernels"},
      {".func (.param .b32 r) f() .noreturn { trap; }", "'.noreturn' of a function with results"},
      {".entry k() .blocksareclusters { ret; }", "without .reqntid and .reqnctapercluster"},
      {".entry k() .reqnctapercluster 2 .maxclusterrank 4 { ret; }", "has both .maxclusterrank and .reqnctapercluster"},
      {".entry (.param .b32 r) k() { ret; }", "a kernel has no results"},
      {".common .func f();", ".common is of variables"},
      {".extern .func f() { ret; }", "'f' is .extern, and has a body"},
      {".global .b32 f; .func f() { ret; }", "'f' is declared already"},
      {".func f() { ret; } .global .b32 f;", "'f' is declared already"},
      {".entry k() ret;", "here belongs ';' or '{' behind a function's head"},
      {".globl .b32 x;", "'.globl' is no directive of PTX\n  did you mean .global"},
      {"ret;", "here belongs a directive of the module"},
      {".visible x;", "here belongs what is linked"},
  };
  for (const auto& [text, said] : kWrong) {
    INFO(text);
    CHECK_THAT(refusal(text), Contains(said));
  }
}

TEST_CASE("a declaration and a definition are one function", "[ptx]") {
  const ptx::Module module = module_of(
      ".visible .func (.param .b32 r) f(.param .b32 a); .func g() { ret; }\n"
      ".visible .func (.param .b32 s) f(.param .b32 b) { ret; } .visible .func (.param .b32 r) f(.param .b32 a);");
  REQUIRE(module.functions.size() == 2);
  CHECK(module.functions[0].name == "f");
  CHECK(module.functions[0].body.has_value());
  CHECK(module.functions[0].parameters[0].name == "b");
  CHECK(module.functions[0].place.line == 3);
  CHECK_THAT(refusal(".func f() { ret; }\n.func f() { ret; }"),
             Contains("m.ptx:3:7: 'f' has a body already, in line 2"));
  CHECK_THAT(refusal(".func f(.param .b32 a); .func f() { ret; }"),
             Contains("'f' has other parameters than in line 2"));
  CHECK_THAT(refusal(".func f(.param .b32 a); .func f(.param .b64 a) { ret; }"), Contains("has other parameters"));
  CHECK_THAT(refusal(".func f(.param .b32 a); .func (.param .b32 r) f(.param .b32 a) { ret; }"),
             Contains("has other parameters"));
  CHECK_THAT(refusal(".func f(); .entry f() { ret; }"), Contains("has other parameters"));
}

TEST_CASE("a function can have a second name", "[ptx]") {
  const ptx::Module module = module_of(".func f(.param .b32 a) { ret; } .func g(.param .b32 a); .alias g, f;");
  CHECK(module.aliases.at("g") == "f");
  CHECK_THAT(refusal(".func f() { ret; } .alias g, f;"), Contains("m.ptx:2:27: 'g' is no function"));
  CHECK_THAT(refusal(".func f(); .func g(); .alias g, f;"), Contains("'f' is no .func with a body"));
  CHECK_THAT(refusal(".func f() { ret; } .func g() { ret; } .alias g, f;"), Contains("'g' has a body"));
  CHECK_THAT(refusal(".func f() { ret; } .func g(.param .b32 a); .alias g, f;"),
             Contains("other parameters than 'f' in line 2"));
  CHECK_THAT(refusal(".func f() { ret; } .func g(); .alias g, f; .alias g, f;"), Contains("'g' is an alias already"));
}

}  // namespace ptx_parser_module_test
