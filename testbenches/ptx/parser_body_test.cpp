// Statements of functions: instructions with their operands, labels, blocks, calls and places in the source (PTX ISA,
// "Instructions" and "Instruction Operands").
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/module.h"
#include "ptx_text.h"

namespace ptx_parser_body_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;
using Strings = std::vector<std::string>;

namespace {

const char* const kRegisters =
    ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<5>; .reg .v4 .f32 v; .shared .b32 tile[8][4];\n";

// The instruction is in line 4.
ptx::Instruction one(const std::string& text) {
  const auto found = instructions_of(body_of(kRegisters + text));
  REQUIRE(found.size() == 1);
  return found[0];
}

const ptx::NameOperand& name_of(const ptx::Operand& operand) { return std::get<ptx::NameOperand>(operand.what); }
const ptx::AddressOperand& address_of(const ptx::Operand& operand) {
  return std::get<ptx::AddressOperand>(operand.what);
}

Strings names_of(const std::vector<ptx::Operand>& operands) {
  Strings names;
  for (const ptx::Operand& operand : operands) names.push_back(name_of(operand).name);
  return names;
}

}  // namespace

TEST_CASE("an instruction has an opcode, modifiers, operands and a guard", "[ptx]") {
  const ptx::Instruction plain = one("add.rn.ftz.f32 %f1, %f2, 0f3F800000;");
  CHECK(plain.opcode == "add");
  CHECK(plain.modifiers == Strings{"rn", "ftz", "f32"});
  CHECK(!plain.guard.has_value());
  CHECK(plain.place.line == 4);
  CHECK(plain.place.column == 1);
  REQUIRE(plain.operands.size() == 3);
  CHECK(name_of(plain.operands[1]).name == "%f2");
  CHECK(plain.operands[1].place.column == 21);
  const auto& real = std::get<ptx::FloatOperand>(plain.operands[2].what);
  CHECK(real.type == ptx::Type::f32);
  CHECK(real.bits == 0x3F800000);

  const ptx::Instruction guarded = one("@!%p3 bar.sync 0;");
  CHECK(guarded.guard->name == "%p3");
  CHECK(guarded.guard->negated);
  CHECK(one("@%p0 ret;").operands.empty());

  const ptx::Instruction wide =
      one("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
          " [%r1], [%rd1, {%r2, %r3}], [%r4], %r5;");
  CHECK(wide.opcode == "cp");
  CHECK(wide.modifiers == Strings{"async", "bulk", "tensor", "2d", "shared::cluster", "global", "tile",
                                  "mbarrier::complete_tx::bytes", "multicast::cluster"});
  REQUIRE(wide.operands.size() == 4);
  const auto& map = address_of(wide.operands[1]);
  REQUIRE(map.parts.size() == 1);
  CHECK(names_of(std::get<ptx::VectorOperand>(map.parts[0].what).elements) == Strings{"%r2", "%r3"});
}

TEST_CASE("operands are registers, elements, numbers, vectors and pairs", "[ptx]") {
  CHECK(name_of(one("mov.u32 %r1, %tid.x;").operands[1]).name == "%tid");
  CHECK(name_of(one("mov.u32 %r1, %tid.x;").operands[1]).selector == "x");
  CHECK(name_of(one("mov.f32 %f1, v.w;").operands[1]).selector == "w");
  CHECK(name_of(one("vadd.s32.u32.s32 %r1, %r2.b0, %r3.h1;").operands[1]).selector == "b0");
  CHECK(one("vset4.u32.u32.ne %r1, %r2.b7654, %r3;").operands.size() == 3);
  CHECK(name_of(one("mov.u32 %r1, %clock;").operands[1]).selector.empty());

  const auto minus = std::get<ptx::IntegerOperand>(one("mov.u32 %r1, -(1 + 2);").operands[1].what);
  CHECK(minus.bits == static_cast<std::uint64_t>(-3));
  CHECK(!minus.is_unsigned);
  CHECK(std::get<ptx::IntegerOperand>(one("mov.u32 %r1, 3U;").operands[1].what).is_unsigned);
  CHECK(std::get<ptx::IntegerOperand>(one("mov.u32 %r1, !0;").operands[1].what).bits == 1);
  CHECK(std::get<ptx::IntegerOperand>(one("mov.u32 %r1, WARP_SZ;").operands[1].what).bits == 32);
  CHECK(std::get<ptx::FloatOperand>(one("add.f32 %f1, %f1, .5;").operands[2].what).type == ptx::Type::f64);

  const ptx::Instruction vectors = one("ld.global.v4.f32 {%f1, _, %f3, %f4}, [%rd1];");
  CHECK(names_of(std::get<ptx::VectorOperand>(vectors.operands[0].what).elements) == Strings{"%f1", "_", "%f3", "%f4"});
  const ptx::Instruction pairs = one("setp.lt.and.u32 %p1|%p2, %r1, 2, !%p3;");
  CHECK(names_of(std::get<ptx::PairOperand>(pairs.operands[0].what).elements) == Strings{"%p1", "%p2"});
  CHECK(name_of(pairs.operands[3]).negated);
  CHECK(names_of(std::get<ptx::PairOperand>(one("shfl.sync.up.b32 %r1|_, %r2, 1, 0, -1;").operands[0].what).elements) ==
        Strings{"%r1", "_"});
}

TEST_CASE("addresses are registers, names and numbers with offsets in bytes", "[ptx]") {
  const auto of = [](const std::string& brackets) {
    const ptx::Instruction load = one("ld.shared.b32 %r1, " + brackets + ";");
    const ptx::AddressOperand& address = address_of(load.operands[1]);
    const std::string base = address.base.empty() ? "" : name_of(address.base[0]).name;
    return std::pair(base, address.offset);
  };
  CHECK(of("[%r2]") == std::pair(std::string("%r2"), std::int64_t{0}));
  CHECK(of("[%r2+-4]") == std::pair(std::string("%r2"), std::int64_t{-4}));
  CHECK(of("[tile + 4 * 8 - 2]") == std::pair(std::string("tile"), std::int64_t{30}));
  CHECK(of("[16 + 0x10]") == std::pair(std::string(), std::int64_t{32}));
  // An index counts elements of the outermost dimension: rows of 16 bytes.
  CHECK(of("tile[2]") == std::pair(std::string("tile"), std::int64_t{32}));
  CHECK(of("[tile[2]]") == std::pair(std::string("tile"), std::int64_t{32}));

  const ptx::Instruction moved = one("mov.u32 %r1, tile + 12;");
  CHECK(name_of(moved.operands[1]).name == "tile");
  CHECK(name_of(moved.operands[1]).offset == 12);
  CHECK(name_of(one("mov.u32 %r1, tile[3];").operands[1]).offset == 48);
  CHECK_THAT(body_refusal(kRegisters + std::string("ld.shared.b32 %r1, [%r2 + %r3];")),
             Contains("m.ptx:4:27: an address of two names"));
  CHECK(name_of(address_of(one("ld.shared.b32 %r1, [v.y + 4];").operands[1]).base.at(0)).selector == "y");
  CHECK_THAT(body_refusal(kRegisters + std::string("ld.shared.b32 %r1, [%r2 x];")), Contains("here belongs ']'"));
  CHECK_THAT(body_refusal(kRegisters + std::string("ld.shared.b32 %r1, [];")), Contains("here belongs an address"));
  CHECK_THAT(body_refusal(kRegisters + std::string("ld.shared.b32 %r1, [%r2 + 1.5];")),
             Contains("here belongs an offset in bytes"));
}

TEST_CASE("labels are seen from inner blocks, and names of inner blocks are their own", "[ptx]") {
  const ptx::Block body = body_of(R"(
    { .reg .pred done; again: mbarrier.try_wait.shared.b64 done, [16], 1; @!done bra again; bra out; }
    { .reg .pred done; again: @done bra again; { bra again; } }
    out: ret;)");
  CHECK(statements_of<ptx::Block>(body).size() == 2);
  const auto labels = statements_of<ptx::Label>(body);
  REQUIRE(labels.size() == 1);
  CHECK(labels[0].name == "out");
  CHECK(labels[0].place.line == 6);
  CHECK(body_refusal("bra later; later: ret;").empty());
  CHECK_THAT(body_refusal("bra L;\n{ L: ret; }"),
             Contains("m.ptx:3:5: the function has no label 'L'") && Contains("a block from which"));
  CHECK_THAT(body_refusal("bra lop;\nloop: ret;"), Contains("did you mean loop?"));
  CHECK_THAT(body_refusal("L: ret;\nL: ret;"), Contains("m.ptx:4:1: 'L' is declared already, in line 3"));
  CHECK_THAT(body_refusal("bra elsewhere;"), Contains("put 'elsewhere:' where it belongs"));
  // Nor from other functions.
  CHECK_THAT(refusal(".func f() { L: ret; } .func g() { bra L; }"), Contains("has no label 'L'"));
}

TEST_CASE("names mean the innermost declaration, and nothing outside of their blocks", "[ptx]") {
  CHECK(body_refusal("{ .reg .b32 a; mov.b32 a, 1; { .reg .b64 a; mov.b64 a, 1; } mov.b32 a, 2; }").empty());
  CHECK_THAT(body_refusal("{ .reg .b32 inner; }\nmov.b32 inner, 1;"),
             Contains("m.ptx:4:9: nobody has declared 'inner'"));
  CHECK_THAT(body_refusal(".reg .b32 count;\nmov.b32 cuont, 1;"), Contains("did you mean count?"));
  CHECK_THAT(body_refusal(".reg .b32 a;\nmov.u32 a, %tidd.x;"),
             Contains("nobody has declared '%tidd'") && Contains("%tid"));
  CHECK_THAT(body_refusal(".reg .b32 a;\nmov.u32 a, %envreg32;"), Contains("nobody has declared"));
  CHECK(body_refusal(".reg .b32 a; mov.u32 a, %envreg31; mov.u32 a, %pm7; mov.u32 a, %lanemask_lt;").empty());
  CHECK_THAT(body_refusal("@%q ret;"), Contains("nobody has declared '%q'"));
  CHECK_THAT(body_refusal(".reg .b32 q; @q ret;"), Contains("'q' is no predicate"));
  CHECK_THAT(body_refusal("mov.b32 later, 1; .reg .b32 later;"), Contains("nobody has declared 'later'"));
}

TEST_CASE("calls have results, a function, parameters and a prototype", "[ptx]") {
  const ptx::Module module =
      module_of(R"(.func (.param .b32 r) f(.param .b32 a, .param .b64 b) { ret; } .func g() { ret; }
    .visible .entry kernel() { .reg .b64 %rd<2>;
    { .param .b32 param0; .param .b64 param1; .param .b32 retval0;
      call.uni (retval0), f, (param0, param1);
      proto : .callprototype (.param .b32 _) _ (.param .b32 _, .param .align 8 .b8 _[16]) .abi_preserve 4;
      call (retval0), %rd1, (param0, param1), proto;
      targets: .calltargets f, g;
      call (retval0), %rd1, (param0, param1), targets;
      call g; call g, (); }
    ret; })");
  const auto blocks = statements_of<ptx::Block>(*module.find_function("kernel")->body);
  const auto calls = instructions_of(blocks.at(0));
  REQUIRE(calls.size() == 5);
  CHECK(calls[0].modifiers == Strings{"uni"});
  REQUIRE(calls[0].operands.size() == 3);
  CHECK(names_of(std::get<ptx::ListOperand>(calls[0].operands[0].what).elements) == Strings{"retval0"});
  CHECK(name_of(calls[0].operands[1]).name == "f");
  CHECK(names_of(std::get<ptx::ListOperand>(calls[0].operands[2].what).elements) == Strings{"param0", "param1"});
  CHECK(name_of(calls[1].operands[3]).name == "proto");
  CHECK(calls[3].operands.size() == 1);
  CHECK(std::get<ptx::ListOperand>(calls[4].operands[1].what).elements.empty());
  const auto prototypes = statements_of<ptx::Prototype>(blocks[0]);
  REQUIRE(prototypes.size() == 1);
  CHECK(prototypes[0].name == "proto");
  CHECK(prototypes[0].results.size() == 1);
  REQUIRE(prototypes[0].parameters.size() == 2);
  CHECK(prototypes[0].parameters[1].bytes() == 16);
  CHECK(statements_of<ptx::TargetList>(blocks[0]).at(0).targets == Strings{"f", "g"});

  CHECK_THAT(body_refusal("call nobody;"), Contains("m.ptx:3:6: nobody has declared 'nobody'"));
  CHECK_THAT(body_refusal("t: .calltargets kernels;"),
             Contains("'kernels' is no function") && Contains("did you mean kernel?"));
  CHECK_THAT(body_refusal("p: .callprototype (.param .b32 _) _ () .noreturn;"),
             Contains("of a prototype with results"));
}

TEST_CASE("branches by index have a list of labels, which may stand further down", "[ptx]") {
  const ptx::Block body = body_of(".reg .b32 %r<2>; where: .branchtargets A, B; brx.idx.uni %r1, where; A: B: ret;");
  CHECK(statements_of<ptx::TargetList>(body).at(0).targets == Strings{"A", "B"});
  CHECK_THAT(body_refusal("where: .branchtargets A, C; A: ret;"), Contains("has no label 'C'"));
  CHECK_THAT(body_refusal(".reg .b32 r; where: .branchtargets r;"), Contains("'r' is no label"));
}

TEST_CASE(".loc says where the instructions behind it come from", "[ptx]") {
  const auto found = instructions_of(body_of(R"(
    trap;
    .loc 1 20 3
    trap; trap;
    .loc 2 107 9, function_name $L__info_string0 + 8, inlined_at 1 30 3
    trap;)"));
  REQUIRE(found.size() == 4);
  CHECK(found[0].source.file == 0);
  CHECK(found[2].source.file == 1);
  CHECK(found[2].source.line == 20);
  CHECK(found[2].source.column == 3);
  CHECK(found[3].source.file == 2);
  CHECK(found[3].source.line == 107);
  // The next function begins without.
  const ptx::Module module = module_of(".func f() { .loc 1 2 3 ret; } .func g() { ret; }");
  CHECK(instructions_of(*module.find_function("g")->body).at(0).source.file == 0);
  CHECK_THAT(body_refusal(".loc 1 x 3"), Contains("here belongs a line of .loc"));
  CHECK_THAT(body_refusal(".loc 1 2 3, name"), Contains("here belongs function_name"));
}

TEST_CASE("comments, pragmas, line markers and empty statements leave nothing", "[ptx]") {
  const ptx::Block body =
      body_of("// begin inline asm\n/* two\nlines */ ; ;\n# 12 \"k.cu\"\n#line 5\n.pragma \"nounroll\", \"x\";\ntrap;");
  CHECK(body.statements.size() == 1);
  CHECK(instructions_of(body).at(0).place.line == 9);
}

TEST_CASE("statements that are none are refused where they are", "[ptx]") {
  const std::pair<const char*, const char*> kWrong[] = {
      {"ret", "m.ptx:4:1: unexpected '}'"},
      {"add.f32 , ;", "here belongs an operand"},
      {".reg .b32 r; mov.b32 r 5;", "here belongs ';' at the end of an instruction"},
      {".reg .b32 r; mov.b32 r, -r;", "here belongs a constant"},
      {".reg .b32 r; mov.b32 {r, {r}}, 1;", "here belongs an element of a vector"},
      {".reg .b32 r; mov.b32 r, r.q;", "here belongs an element: .x, .y, .z or .w"},
      {"%tid ret;", "here belongs the name of an instruction"},
      {"12;", "here belongs a statement"},
      {".frobnicate 3;", "'.frobnicate' is no directive of a function's body"},
      {".pragm \"x\";", "did you mean .pragma"},
      {".pragma nounroll;", "here belongs a string of .pragma"},
      {"{ ret;", "m.ptx:4:2: the block of line 2 has no end"},
      {"ret; §", "the byte 0xC2 does not occur in PTX"},
      {"ret; ' ", "''' does not occur in PTX"},
      {"/* ret;", "this comment has no end"},
      {".pragma \"x;", "this string has no end"},
      {"#include \"x.h\"", "a directive of the preprocessor"},
  };
  for (const auto& [text, said] : kWrong) {
    INFO(text);
    CHECK_THAT(body_refusal(text), Contains(said));
  }
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += "{";
  CHECK_THAT(body_refusal(deep), Contains("blocks are nested more than 200 deep"));
}

}  // namespace ptx_parser_body_test
