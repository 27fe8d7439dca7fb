// Variables of modules and functions: what is declared, and where its bytes are (PTX ISA, "Variables").
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/module.h"
#include "ptx_text.h"

namespace ptx_parser_declaration_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;
using Bytes = std::vector<std::uint8_t>;

namespace {

ptx::Variable variable_of(const std::string& text) { return module_of(text).variables.back(); }

}  // namespace

TEST_CASE("types have the sizes of the manual's table", "[ptx]") {
  const std::pair<const char*, std::uint32_t> kSizes[] = {
      {"b8", 1},     {"u8", 1},     {"s8", 1},   {"b16", 2},     {"u16", 2}, {"s16", 2},   {"f16", 2},
      {"bf16", 2},   {"b32", 4},    {"u32", 4},  {"s32", 4},     {"f32", 4}, {"f16x2", 4}, {"bf16x2", 4},
      {"tf32", 4},   {"b64", 8},    {"u64", 8},  {"s64", 8},     {"f64", 8}, {"f32x2", 8}, {"b128", 16},
      {"e4m3x2", 2}, {"e5m2x2", 2}, {"e4m3", 1}, {"ue8m0x2", 2}, {"pred", 1}};
  for (const auto& [name, bytes] : kSizes) {
    const auto type = ptx::find_type(name);
    REQUIRE(type.has_value());
    CHECK(ptx::type_name(*type) == std::string(name));
    CHECK(ptx::bytes_of(*type) == bytes);
  }
  CHECK(!ptx::find_type("none").has_value());
  CHECK(!ptx::find_type("f8").has_value());
}

TEST_CASE("variables of a module have spaces, types, extents, alignments and linkage", "[ptx]") {
  const ptx::Module module = module_of(R"(
    .visible .global .align 16 .v4 .f32 quads[3][2];
    .const .u16 width = 3;
    .extern .shared .align 128 .b8 dynamic[];
    .weak .global .b64 spare, other[2];
    .common .global .attribute(.managed, .unified(1, 0x2)) .b8 heap[1 << 12];
    .global .texref picture;
    .global .samplerref how = { addr_mode_0 = clamp_to_edge, filter_mode = nearest };)");
  REQUIRE(module.variables.size() == 8);
  const auto& quads = *module.find_variable("quads");
  CHECK(quads.space == ptx::StateSpace::global);
  CHECK(quads.type == ptx::Type::f32);
  CHECK(quads.vector == 4);
  CHECK(quads.extents == std::vector<std::uint64_t>{3, 2});
  CHECK(quads.bytes() == 3 * 2 * 4 * 4);
  CHECK(quads.alignment() == 16);
  CHECK(quads.is_visible);
  CHECK(quads.place.line == 3);
  CHECK(quads.place.column == 41);
  CHECK(quads.module == "m.ptx");
  const auto& width = *module.find_variable("width");
  CHECK(width.space == ptx::StateSpace::constant);
  CHECK(width.alignment() == 2);
  CHECK(width.bytes() == 2);
  CHECK(!width.is_visible);
  const auto& dynamic = *module.find_variable("dynamic");
  CHECK(dynamic.is_extern);
  CHECK(dynamic.array);
  CHECK(dynamic.bytes() == 0);
  CHECK(dynamic.alignment() == 128);
  CHECK(module.find_variable("spare")->is_weak);
  CHECK(module.find_variable("other")->is_weak);
  CHECK(module.find_variable("other")->bytes() == 16);
  CHECK(module.find_variable("heap")->is_common);
  CHECK(module.find_variable("heap")->managed);
  CHECK(module.find_variable("heap")->bytes() == 4096);
  CHECK(module.find_variable("picture")->opaque == "texref");
  CHECK(module.find_variable("how")->opaque == "samplerref");
  CHECK(module.find_variable("nobody") == nullptr);
  CHECK(variable_of(".global .v4 .b32 x;").alignment() == 16);
}

TEST_CASE("initial values lie where the rows of an array do, and zeros beside them", "[ptx]") {
  CHECK(variable_of(".global .u16 x[3] = {1, 0x203, -1};").initial->bytes == Bytes{1, 0, 3, 2, 255, 255});
  CHECK(variable_of(".global .u8 x[4] = {256, 300, -1, 5};").initial->bytes == Bytes{0, 44, 255, 5});
  const ptx::Variable rows = variable_of(".global .u8 x[][3] = {{1}, {2, 3}, {4, 5, 6}};");
  CHECK(rows.extents == std::vector<std::uint64_t>{3, 3});
  CHECK(rows.initial->bytes == Bytes{1, 0, 0, 2, 3, 0, 4, 5, 6});
  // From the last value on, zeros are left out.
  CHECK(variable_of(".global .u8 x[1000] = {7, 8};").initial->bytes == Bytes{7, 8});
  CHECK(variable_of(".global .u8 x[2] = {};").initial->bytes.empty());
  CHECK(variable_of(".global .v2 .u8 x[2] = {{1, 2}, {3, 4}};").initial->bytes == Bytes{1, 2, 3, 4});
  CHECK(variable_of(".global .b128 x = -2;").initial->bytes ==
        Bytes{254, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255});
  CHECK(!variable_of(".global .u8 x[2];").initial.has_value());
}

TEST_CASE("addresses are initial values, whole or by byte", "[ptx]") {
  const ptx::Variable whole = variable_of(R"(.global .b32 table[4]; .func helper();
    .global .u64 x[4] = {table, generic(table) + 8 - 2 * 2, 5, helper};)");
  REQUIRE(whole.initial->addresses.size() == 3);
  CHECK(whole.initial->bytes.size() == 32);
  CHECK(whole.initial->bytes[16] == 5);
  const auto& first = whole.initial->addresses[0];
  CHECK(first.at == 0);
  CHECK(first.name == "table");
  CHECK(first.bytes == 8);
  CHECK(!first.generic);
  const auto& second = whole.initial->addresses[1];
  CHECK(second.at == 8);
  CHECK(second.generic);
  CHECK(second.offset == 4);
  CHECK(whole.initial->addresses[2].at == 24);
  CHECK(whole.initial->addresses[2].name == "helper");

  const ptx::Variable by_byte =
      variable_of(".global .b32 table; .global .u8 x[3] = {0xFF(table), 0xFF0000(table + 4), 0xFF00(generic(table))};");
  REQUIRE(by_byte.initial->addresses.size() == 3);
  CHECK(by_byte.initial->addresses[0].shift == 0);
  CHECK(by_byte.initial->addresses[0].bytes == 1);
  CHECK(by_byte.initial->addresses[1].shift == 2);
  CHECK(by_byte.initial->addresses[1].offset == 4);
  CHECK(by_byte.initial->addresses[1].at == 1);
  CHECK(by_byte.initial->addresses[2].shift == 1);
  CHECK(by_byte.initial->addresses[2].generic);
}

TEST_CASE("an external variable may be declared beside its definition", "[ptx]") {
  const ptx::Module module =
      module_of(".extern .global .b32 x[]; .visible .global .b32 x[2] = {1, 2}; .extern .global .b32 x[2];");
  REQUIRE(module.variables.size() == 1);
  CHECK(!module.variables[0].is_extern);
  CHECK(module.variables[0].bytes() == 8);
  CHECK_THAT(refusal(".extern .global .b32 x; .global .b32 x;"), Contains("its definition is of the module alone"));
  CHECK_THAT(refusal(".extern .global .b32 x; .visible .const .b32 x;"),
             Contains("is another variable than in line 2"));
  CHECK_THAT(refusal(".global .b32 x;\n.global .b32 x;"), Contains("m.ptx:3:14: 'x' is declared already, in line 2"));
}

TEST_CASE("registers come alone, in lists and by number", "[ptx]") {
  const ptx::Block body = body_of(".reg .b32 a, %r<7>, b; .reg .v2 .f32 v; .reg .b32 none<0>; .reg .pred %p<2>;");
  const auto registers = statements_of<ptx::Variable>(body);
  REQUIRE(registers.size() == 5);
  CHECK(registers[0].name == "a");
  CHECK(!registers[0].parametrized);
  CHECK(registers[1].name == "%r");
  CHECK(registers[1].parametrized);
  CHECK(registers[1].count == 7);
  CHECK(registers[3].vector == 2);
  CHECK(registers[4].type == ptx::Type::pred);
  // The first and the last one are there; no other.
  CHECK(body_refusal(".reg .b32 %r<7>; mov.b32 %r0, %r6;").empty());
  CHECK_THAT(body_refusal(".reg .b32 %r<7>; mov.b32 %r0, %r7;"),
             Contains("nobody has declared '%r7'") && Contains("the last one is %r6, declared in line 3"));
  CHECK_THAT(body_refusal(".reg .b32 %r<7>; mov.b32 %r0, %r06;"), Contains("nobody has declared '%r06'"));
  // %a1<10> is %a10 to %a19.
  CHECK(body_refusal(".reg .b32 %a1<10>; mov.b32 %a10, %a19;").empty());
  CHECK_THAT(body_refusal(".reg .b32 %a1<10>; mov.b32 %a10, %a9;"), Contains("nobody has declared '%a9'"));
  CHECK_THAT(body_refusal(".reg .b32 %r<7>, %r3;"), Contains("'%r3' is declared already"));
  CHECK_THAT(body_refusal(".reg .b32 %r3, %r<7>;"), Contains("'%r<7>' is declared already"));
  CHECK_THAT(body_refusal(".reg .b32 %r<7>; .reg .f32 %r<2>;"), Contains("'%r<2>' is declared already"));
  CHECK_THAT(body_refusal(".reg .b32 %r<2000000>;"), Contains("2000000 registers"));
  CHECK_THAT(body_refusal(".reg .b32 r[4];"), Contains("registers have no arrays"));
  CHECK_THAT(body_refusal(".local .b32 x<4>;"), Contains("stands for many registers"));
}

TEST_CASE("parameters of kernels and functions have their attributes", "[ptx]") {
  const ptx::Module module = module_of(R"(
    .func (.param .align 16 .b8 result[16]) f(.param .b64 a, .reg .f32 b, .param .b8 more[]) { ret; }
    .visible .entry k(.param .u64 .ptr .global .align 32 p, .param .u64 .ptr q, .param .align 8 .b8 s[24]) { ret; })");
  const ptx::Function& f = *module.find_function("f");
  CHECK(!f.entry);
  REQUIRE(f.results.size() == 1);
  CHECK(f.results[0].bytes() == 16);
  REQUIRE(f.parameters.size() == 3);
  CHECK(f.parameters[1].space == ptx::StateSpace::reg);
  CHECK(f.parameters[2].array);
  const ptx::Function& k = *module.find_function("k");
  CHECK(k.entry);
  CHECK(k.is_visible);
  REQUIRE(k.parameters.size() == 3);
  CHECK(k.parameters[0].pointer);
  CHECK(k.parameters[0].pointer_space == ptx::StateSpace::global);
  CHECK(k.parameters[0].pointer_align == 32);
  CHECK(k.parameters[1].pointer);
  CHECK(k.parameters[1].pointer_space == ptx::StateSpace::generic);
  CHECK(k.parameters[1].pointer_align == 4);
  CHECK(!k.parameters[2].pointer);
  CHECK(k.parameters[2].bytes() == 24);
  CHECK(k.parameters[2].alignment() == 8);
}

TEST_CASE("declarations that mean nothing are refused where they are", "[ptx]") {
  const std::pair<const char*, const char*> kWrong[] = {
      {".global .u32 x[];", "m.ptx:2:14: nobody says how large 'x' is"},
      {".global .u32 x[0];", "nobody says how large 'x' is"},
      {".global .u32 x[2][] = {};", "only the first dimension may be left out"},
      {".global .u32 x[2] = {1, 2, 3};", "m.ptx:2:28: more values than the 2 of 'x'"},
      {".global .u32 x[2][2] = {1, 2};", "here belongs '{' in front of the values of an array"},
      {".global .u32 x = {1};", "here belongs an initial value"},
      {".global .v2 .u8 x = {1};", "between the elements of a vector"},
      {".global .align 3 .u32 x;", "m.ptx:2:16: an alignment of 3 bytes"},
      {".global .align 0 .u32 x;", "an alignment of 0 bytes"},
      {".global .bf16 x;", "'.bf16' is a type of instructions, not of variables"},
      {".global .e4m3x2 x;", "declare .b16"},
      {".global .int x;", "'.int' is no type of PTX"},
      {".global .pred x;", "predicates are registers"},
      {".global .v4 .f64 x;", "vectors have at most 16 bytes"},
      {".global .f16 x = 1.0;", ".f16 has no initial values"},
      {".shared .u32 x = 1;", "'x' is a .shared, which has no initial value"},
      {".extern .global .u32 x = 1;", "has its initial value elsewhere"},
      {".common .shared .u32 x;", ".common is of variables in .global"},
      {".visible .extern .global .u32 x;", "more than one of .visible, .extern, .weak and .common"},
      {".reg .b32 x;", "'x' is a .reg of the module"},
      {".local .b32 x;", "'x' is a .local of the module"},
      {".sreg .b32 x;", "special registers are there without a declaration"},
      {".const[2] .u32 x;", "a bank of constants"},
      {".const .attribute(.managed) .u32 x;", ".managed is of variables in .global"},
      {".global .attribute(.shiny) .u32 x;", "unexpected '.shiny'"},
      {".shared .texref x;", "'.texref' is of .global and .param"},
      {".tex .u32 x;", ".tex has been replaced"},
      {".global .u64 x = y;", "m.ptx:2:18: nobody has declared 'y'"},
      {".global .b32 table; .global .u64 x = tabel;", "did you mean table?"},
      {".shared .b32 y; .global .u64 x = y;", "'y' is a .shared, whose address each CTA has anew"},
      {".global .b32 y; .global .u16 x = y;", "an address in a place of 2 bytes"},
      {".global .b32 y; .global .f32 x = y;", "here belongs a number"},
      {".global .b32 y; .global .u8 x = 0xFE(y);", "takes one byte of an address"},
      {".global .b32 y; .global .u16 x = 0xFF(y);", "in arrays of bytes"},
      {".global .u32 _;", "unexpected '_'"},
      {".global .b8 x[1099511627777];", "m.ptx:2:15: the extent of an array is 1099511627777"},
      {".global .b64 x[1000000][1000000];", "has more than 1099511627776 bytes"},
      {".global .b8 x[2][1000000000] = {{1}, {1}};", "an initial value behind byte 268435456"},
      {".global .u64 x[2][1000000000] = {{1}, {x}};", "an initial value behind byte 268435456 of 'x'"},
      {".global .u32 x", "here belongs ';' at the end of a declaration"},
      {".entry k(.reg .b32 a) { ret; }", "'a' is a register, and kernels have none as parameters"},
      {".entry k(.param .b8 a[]) { ret; }", "nobody says how large 'a' is"},
      {".entry k(.param .b32 a, .param .b32 a) { ret; }", "'a' is declared already"},
      {".entry k(.param .b32 a) { .reg .b32 a; ret; }", "'a' is declared already"},
      {".entry k(.param .b64 .ptr .reg a) { ret; }", "here belongs .const, .global, .local or .shared"},
      {".entry k(.global .b64 a) { ret; }", "here belongs .param or .reg of a parameter"},
  };
  for (const auto& [text, said] : kWrong) {
    INFO(text);
    CHECK_THAT(refusal(text), Contains(said));
  }
  CHECK_THAT(body_refusal(".local .b32 x = 5;"), Contains("which has no initial value"));
  CHECK_THAT(body_refusal(".shared .b32 x[];"), Contains("nobody says how large 'x' is"));
  CHECK_THAT(refusal(".global .u8 x[1]" +
                     [] {
                       std::string many;
                       for (int i = 0; i < 16; ++i) many += "[1]";
                       return many;
                     }() +
                     ";"),
             Contains("more than 16 dimensions"));
}

}  // namespace ptx_parser_declaration_test
