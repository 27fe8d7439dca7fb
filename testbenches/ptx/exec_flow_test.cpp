// Control flow of compiled code: divergence, where paths meet again, and lanes that wait for each other.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/exec_machine.h"

namespace exec_flow_test {

using namespace heddle;
using heddle::ptx::PtxProgram;
using heddle::ptx::testing::ExecMachine;
using heddle::ptx::testing::kernel;

// Stores %r90 at the thread's word.
const std::string kStore = "mul.wide.u32 %rd90, %t0, 4;\nadd.u64 %rd91, %rd0, %rd90;\nst.global.u32 [%rd91], %r90;\n";

std::vector<std::uint32_t> results(const std::string& text, std::uint32_t threads, ExecMachine** out = nullptr) {
  static std::unique_ptr<ExecMachine> machine;
  machine = std::make_unique<ExecMachine>(text, "k");
  machine->argument(0, ExecMachine::kData);
  machine->run({1, 1, 1}, {threads, 1, 1});
  std::vector<std::uint32_t> values;
  for (std::uint32_t i = 0; i < threads; ++i) values.push_back(machine->word(i));
  if (out != nullptr) *out = machine.get();
  return values;
}

TEST_CASE("threads add what they read", "[ptx]") {
  ExecMachine machine(
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n)\n{\n"
      ".reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<8>; .reg .f32 %f<4>;\n"
      "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n];\n"
      "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
      "setp.ge.s32 %p1, %r5, %r1;\n@%p1 bra DONE;\n"
      "cvta.to.global.u64 %rd3, %rd1; mul.wide.s32 %rd4, %r5, 4; add.s64 %rd5, %rd3, %rd4; add.s64 %rd6, %rd2, %rd4;\n"
      "ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd6], %f3;\n"
      "DONE:\nret;\n}\n",
      "add");
  machine.argument(0, ExecMachine::kData);
  machine.argument(1, ExecMachine::kData + 4096);
  machine.argument(2, 150);
  const auto bits = [](float value) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, 4);
    return word;
  };
  for (std::uint32_t i = 0; i < 160; ++i) {
    machine.word(i) = bits(static_cast<float>(i));
    machine.word(1024 + i) = bits(0.5F);
  }
  machine.run({3, 1, 1}, {64, 1, 1});
  for (std::uint32_t i = 0; i < 160; ++i) {
    CHECK(machine.word(1024 + i) == bits(i < 150 ? static_cast<float>(i) + 0.5F : 0.5F));
  }
}

// PTX ISA, activemask: the lanes that execute it together. Behind the post-dominator of a branch these are all.
TEST_CASE("paths meet again at the post-dominator", "[ptx]") {
  const std::string text = kernel(
      "and.b32 %r1, %t0, 3;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra A;\n"
      "setp.eq.u32 %p2, %r1, 1;\n@%p2 bra B;\nmov.u32 %r2, 1;\nbra.uni C;\nB:\nmov.u32 %r2, 2;\nC:\n"
      "activemask.b32 %r3;\nbra.uni D;\nA:\nactivemask.b32 %r3;\nD:\nactivemask.b32 %r4;\n"
      "setp.ne.u32 %p3, %r4, -1;\nselp.b32 %r90, 0, %r3, %p3;\n" +
      kStore);
  const std::vector<std::uint32_t> values = results(text, 32);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == (i % 4 == 0 ? 0x11111111U : 0xEEEEEEEEU));
}

TEST_CASE("lanes that leave a loop early wait for the others behind it", "[ptx]") {
  const std::string text = kernel(
      "mov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nsetp.gt.u32 %p1, %r1, %t0;\n@%p1 bra OUT;\n"
      "add.u32 %r2, %r1, 5;\nsetp.gt.u32 %p2, %r2, 20;\n@%p2 bra OUT;\nbra.uni LOOP;\n"
      "OUT:\nactivemask.b32 %r3;\npopc.b32 %r4, %r3;\nmad.lo.u32 %r90, %r1, 100, %r4;\n" +
      kStore);
  const std::vector<std::uint32_t> values = results(text, 32);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == std::min(i + 1, 16U) * 100 + 32);
}

// The winner of the lock is in the warp of those that spin.
TEST_CASE("a spin lock within a warp ends", "[ptx]") {
  const std::string before = ".global .align 4 .u32 lock;\n";
  const std::string text = kernel(
      "mov.u64 %rd1, lock;\nSPIN:\natom.global.cas.b32 %r1, [%rd1], 0, 1;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra SPIN;\n"
      "membar.gl;\nld.volatile.global.u32 %r2, [%rd0];\nadd.u32 %r2, %r2, 1;\nst.volatile.global.u32 [%rd0], %r2;\n"
      "membar.gl;\natom.global.exch.b32 %r3, [%rd1], 0;\n",
      before);
  ExecMachine machine(text, "k");
  machine.argument(0, ExecMachine::kData);
  machine.run({1, 1, 1}, {128, 1, 1});
  CHECK(machine.word(0) == 128);
}

// PTX ISA, bar.warp.sync: it waits until all threads of the mask have executed a bar.warp.sync with that mask; any of
// them.
TEST_CASE("lanes of two branches meet at warp barriers of their own", "[ptx]") {
  const std::string text = kernel(
      "mul.wide.u32 %rd1, %t0, 4;\nadd.u64 %rd2, %rd0, %rd1;\nand.b32 %r1, %t0, 1;\nsetp.eq.u32 %p1, %r1, 0;\n"
      "@%p1 bra EVEN;\n"
      "bar.warp.sync 0xffffffff;\nld.global.u32 %r2, [%rd2+124];\nst.global.u32 [%rd2+256], %r2;\nbra.uni END;\n"
      "EVEN:\nadd.u32 %r3, %t0, 7;\nst.global.u32 [%rd2+128], %r3;\nbar.warp.sync 0xffffffff;\nEND:\n");
  ExecMachine machine(text, "k");
  machine.argument(0, ExecMachine::kData);
  machine.run({1, 1, 1}, {32, 1, 1});
  for (std::uint32_t i = 1; i < 32; i += 2) CHECK(machine.word(64 + i) == i - 1 + 7);
}

TEST_CASE("a shuffle waits for the lanes of its mask", "[ptx]") {
  // Lanes below 16 loop as often as their number says, then shuffle among themselves.
  const std::string text = kernel(
      "mov.u32 %r90, 99;\nsetp.ge.u32 %p1, %t0, 16;\n@%p1 bra END;\nmov.u32 %r1, 0;\n"
      "LOOP:\nadd.u32 %r1, %r1, 1;\nsetp.le.u32 %p2, %r1, %t0;\n@%p2 bra LOOP;\n" +
      std::string(GENERATE("shfl.sync.bfly.b32 %r90|%p3, %r1, 15, 31, 0xffff;\nEND:\n",
                           "mov.b32 %r2, 0xffff;\nshfl.sync.bfly.b32 %r90|%p3, %r1, 15, 31, %r2;\nEND:\n")) +
      kStore);
  const std::vector<std::uint32_t> values = results(text, 32);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == (i < 16 ? 16 - i : 99));
}

// PTX ISA, the table of shfl: per segment of 8 lanes, out of range leaves the own value and a false predicate.
TEST_CASE("shuffles of each kind", "[ptx]") {
  struct Case {
    const char* kind;
    std::uint32_t clamp;
  };
  for (const Case& one : {Case{"up", 0}, Case{"down", 31}, Case{"bfly", 31}, Case{"idx", 31}}) {
    const std::string c = std::to_string(0x1800 | one.clamp);  // width 8: segment mask 0b11000
    const std::string text = kernel("shfl.sync." + std::string(one.kind) + ".b32 %r1|%p1, %t0, 3, " + c +
                                    ", -1;\nselp.u32 %r2, 1000, 0, %p1;\nadd.u32 %r90, %r1, %r2;\n" + kStore);
    const std::vector<std::uint32_t> values = results(text, 32);
    for (std::uint32_t i = 0; i < 32; ++i) {
      const std::uint32_t base = i / 8 * 8;
      const std::int32_t in = static_cast<std::int32_t>(i % 8);
      const std::string kind = one.kind;
      const std::int32_t from = kind == "up" ? in - 3 : kind == "down" ? in + 3 : kind == "bfly" ? (in ^ 3) : 3;
      const bool inside = from >= 0 && from < 8;
      CAPTURE(kind, i);
      CHECK(values[i] == (inside ? base + static_cast<std::uint32_t>(from) + 1000 : i));
    }
  }
}

TEST_CASE("votes, matches and reductions", "[ptx]") {
  const std::string text = kernel(
      "setp.lt.u32 %p1, %t0, 5;\nvote.sync.ballot.b32 %r1, %p1, -1;\nvote.sync.any.pred %p2, %p1, -1;\n"
      "vote.sync.all.pred %p3, %p1, -1;\nvote.sync.uni.pred %p4, %p1, -1;\nshr.u32 %r2, %t0, 2;\n"
      "match.any.sync.b32 %r3, %r2, -1;\nmatch.all.sync.b32 %r4|%p5, %r2, -1;\nredux.sync.add.u32 %r5, %t0, -1;\n"
      "redux.sync.max.s32 %r6, %t0, -1;\nelect.sync %r7|%p6, -1;\n"
      "selp.u32 %r8, 1, 0, %p2;\nselp.u32 %r9, 2, 0, %p3;\nselp.u32 %r10, 4, 0, %p4;\nselp.u32 %r11, 8, 0, %p5;\n"
      "selp.u32 %r12, 16, 0, %p6;\nor.b32 %r8, %r8, %r9;\nor.b32 %r8, %r8, %r10;\nor.b32 %r8, %r8, %r11;\n"
      "or.b32 %r8, %r8, %r12;\n"
      "mul.wide.u32 %rd1, %t0, 32;\nadd.u64 %rd2, %rd0, %rd1;\nst.global.v4.u32 [%rd2], {%r1, %r3, %r4, %r5};\n"
      "st.global.v2.u32 [%rd2+16], {%r6, %r8};\n");
  ExecMachine machine(text, "k");
  machine.argument(0, ExecMachine::kData);
  machine.run({1, 1, 1}, {32, 1, 1});
  for (std::uint32_t i = 0; i < 32; ++i) {
    CHECK(machine.word(8 * i) == 0x1FU);
    CHECK(machine.word(8 * i + 1) == 0xFU << (i / 4 * 4));
    CHECK(machine.word(8 * i + 2) == 0);
    CHECK(machine.word(8 * i + 3) == 31 * 16);
    CHECK(machine.word(8 * i + 4) == 31);
    CHECK(machine.word(8 * i + 5) == (i == 0 ? 17U : 1U));
  }
}

// PTX ISA, bar.red: over all threads of the CTA, twice with the same barrier.
TEST_CASE("barriers that reduce", "[ptx]") {
  const std::string reduce =
      "setp.lt.u32 %p1, %t0, 70;\nbar.red.popc.u32 %r1, 2, %p1;\nsetp.eq.u32 %p2, %t0, 95;\n"
      "bar.red.or.pred %p3, 2, %p2;\nbar.red.and.pred %p4, 2, !%p2;\nsetp.lt.u32 %p5, %t0, 96;\n"
      "bar.red.and.pred %p6, 2, %p5;\nselp.u32 %r2, 100, 0, %p3;\nselp.u32 %r3, 200, 0, %p4;\n"
      "selp.u32 %r4, 400, 0, %p6;\nadd.u32 %r90, %r1, %r2;\nadd.u32 %r90, %r90, %r3;\nadd.u32 %r90, %r90, %r4;\n";
  const std::vector<std::uint32_t> values = results(kernel(reduce + reduce + kStore), 96);
  for (std::uint32_t i = 0; i < 96; ++i) CHECK(values[i] == 70 + 100 + 400);
}

TEST_CASE("a table of branches", "[ptx]") {
  const std::string text = kernel(
      "rem.u32 %r1, %t0, 3;\nL: .branchtargets A, B, C;\nbrx.idx %r1, L;\nA:\nmov.u32 %r90, 10;\nbra.uni END;\n"
      "B:\nmov.u32 %r90, 20;\nbra.uni END;\nC:\nmov.u32 %r90, 30;\nEND:\nactivemask.b32 %r2;\npopc.b32 %r2, %r2;\n"
      "add.u32 %r90, %r90, %r2;\n" +
      kStore);
  const std::vector<std::uint32_t> values = results(text, 32);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == (i % 3 + 1) * 10 + 32);
}

TEST_CASE("functions are called with parameters of several widths, by name and through a register", "[ptx]") {
  const std::string before =
      ".func (.param .b64 res) mix(.param .b32 a, .param .b64 b)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<5>;\n"
      "ld.param.u32 %r1, [a]; ld.param.u64 %rd1, [b]; cvt.u64.u32 %rd2, %r1;\nmul.lo.u64 %rd3, %rd1, 3;\n"
      "add.u64 %rd4, %rd2, %rd3;\nst.param.b64 [res], %rd4;\nret;\n}\n"
      ".func (.param .b64 res) other(.param .b32 a, .param .b64 b)\n{\n.reg .b64 %rd<2>;\n"
      "ld.param.u64 %rd1, [b];\nst.param.b64 [res], %rd1;\nret;\n}\n";
  const auto call = [](const std::string& what, const std::string& behind) {
    return "{\n.param .b32 p0;\n.param .b64 p1;\n.param .b64 r;\nst.param.b32 [p0], %t0;\nst.param.b64 [p1], %rd5;\n"
           "call (r), " +
           what + ", (p0, p1)" + behind + ";\nld.param.b64 %rd6, [r];\n}\n";
  };
  const std::string text =
      kernel("mov.u64 %rd5, 1000;\n" + call("mix", "") +
                 "cvt.u32.u64 %r1, %rd6;\nP: .callprototype (.param .b64 _) _ (.param .b32 _, .param .b64 _);\n"
                 "mov.u64 %rd7, mix;\nmov.u64 %rd8, other;\nand.b32 %r2, %t0, 1;\nsetp.eq.u32 %p1, %r2, 0;\n"
                 "selp.b64 %rd9, %rd7, %rd8, %p1;\n" +
                 call("%rd9", ", P") + "cvt.u32.u64 %r3, %rd6;\nadd.u32 %r90, %r1, %r3;\n" + kStore,
             before);
  const std::vector<std::uint32_t> values = results(text, 40);
  for (std::uint32_t i = 0; i < 40; ++i) CHECK(values[i] == i + 3000 + (i % 2 == 0 ? i + 3000 : 1000));
}

TEST_CASE("a kernel that cannot be resolved says where and what helps", "[ptx]") {
  const auto wrong = [](const std::string& body, const std::string& part, const std::string& before = "") {
    try {
      ExecMachine machine(kernel(body, before), "k");
      FAIL("it was accepted: " << body);
    } catch (const InputError& error) {
      CAPTURE(body, error.what());
      CHECK(error.message().find(part) != std::string::npos);
      CHECK(error.where().line > 0);
      CHECK(!error.remedy().empty());
    }
  };
  wrong("atom.global.add.f16 %rs1, [%rd0], %rs2;", "no such atomic");
  wrong("ld.global.u64 %r1, [%rd0];", "narrower");
  wrong("mov.u32 %r1, %pm0;", "no special register");
  wrong("shfl.bfly.b32 %r1, %r2, 1, 31;", "whom they meet");
  wrong("bar.arrive 1, 64;", "not in the model");
  wrong("add.u32 %r1, %rd0, 1;", "expected");
  wrong("call loop;", "calls itself", ".func loop()\n{\ncall loop;\nret;\n}\n");
  wrong(".shared .align 4 .b8 x[4294967312];", "x: 4294967312 bytes");
  wrong(".shared .align 4 .b8 x[16777216];\n.shared .b8 y;", "y: 1 bytes behind 16777216 others");
  wrong(".local .align 4 .b8 x[4294967312];", "x: 4294967312 bytes");
  wrong(".local .align 4 .b8 x[524288];\n.local .b8 y[1099511627776];", "y: 1099511627776 bytes behind 524288 others");
}

// Each function calls the one before twice: 2^40 calls, and no instruction in any of them.
TEST_CASE("calls that multiply are refused before they are carried out", "[ptx]") {
  const bool indirect = GENERATE(false, true);
  std::string before = ".func f0() { }\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string callee = "f" + std::to_string(i - 1);
    const std::string by_name = "call " + callee + ", (); ";
    const std::string by_register = "mov.u64 %a, " + callee + "; T: .calltargets " + callee + ", f0; call %a, (), T; ";
    before += ".func f" + std::to_string(i) + "() { .reg .b64 %a; " +
              (indirect ? by_register + "{ T2: .calltargets " + callee + "; call %a, (), T2; } " : by_name + by_name) +
              "}\n";
  }
  try {
    ExecMachine machine(kernel("call f40, ();", before), "k");
    FAIL("it was accepted");
  } catch (const InputError& error) {
    CAPTURE(error.what());
    CHECK(error.message().find("k has more than") != std::string::npos);
    CHECK(error.where().line > 0);
    CHECK(!error.remedy().empty());
  }
}

// Functions that have returned need their local memory no more.
TEST_CASE("functions that are called one after the other share local memory", "[ptx]") {
  const std::string before =
      ".func (.param .b32 r) inner(.param .b32 a)\n{\n.local .align 4 .b8 x[64];\n.reg .b32 %r<3>;\n"
      "ld.param.u32 %r1, [a];\nst.local.u32 [x+4], %r1;\nld.local.u32 %r2, [x+4];\nst.param.b32 [r], %r2;\nret;\n}\n";
  const std::string call =
      "{\n.param .b32 a;\n.param .b32 r;\nst.param.b32 [a], %r90;\ncall (r), inner, (a);\n"
      "ld.param.b32 %r1, [r];\nadd.u32 %r90, %r90, %r1;\n}\n";
  ExecMachine machine(kernel(".local .align 4 .b8 own[16];\nst.local.u32 [own+4], 7;\nmov.u32 %r90, %t0;\n" + call +
                                 call + call + "ld.local.u32 %r2, [own+4];\nadd.u32 %r90, %r90, %r2;\n" + kStore,
                             before),
                      "k");
  CHECK(machine.local_bytes() == 16 + 64);
  machine.argument(0, ExecMachine::kData);
  machine.run({1, 1, 1}, {32, 1, 1});
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(machine.word(i) == 8 * i + 7);
}

// PTX ISA, .loc and .file.
TEST_CASE("an instruction is told with its line in the source", "[ptx]") {
  const ExecMachine machine(
      kernel("membar.gl;\n.loc 2 77 5\nmembar.cta;\n") + ".file 1 \"/somewhere/a.h\"\n.file 2 \"/somewhere/b.cu\"\n",
      "k");
  const PtxProgram& program = machine.program();
  arch::WarpPlace place;
  place.lanes = ~0U;
  arch::WarpState state;
  program.start(place, state);
  std::vector<std::string> texts;
  arch::Operation operation;
  while (!state.exited) {
    texts.push_back(program.describe(state));
    program.issue(place, state, operation);
  }
  const auto line = [&](const std::string& opcode) {
    for (const std::string& text : texts) {
      if (text.find(opcode) != std::string::npos) return text;
    }
    return std::string();
  };
  CHECK(line("membar.gl").find("(test.ptx, line 14)") != std::string::npos);
  CHECK(line("membar.cta").find("(test.ptx, line 16; b.cu, line 77)") != std::string::npos);
}

// What the host's compiler makes of the same operands.
TEST_CASE("nvcc's division of 128 bits", "[ptx]") {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/testbenches/ptx/wide_division.ptx", std::ios::binary);
  REQUIRE(in.good());
  ExecMachine machine({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}, "wide_division");
  machine.argument(0, ExecMachine::kData);
  __extension__ using Wide = unsigned __int128;
  const auto store = [&](std::uint64_t index, Wide value) {
    for (std::uint64_t i = 0; i < 4; ++i) machine.word(4 * index + i) = static_cast<std::uint32_t>(value >> 32 * i);
  };
  const auto load = [&](std::uint64_t index) {
    Wide value = 0;
    for (std::uint64_t i = 0; i < 4; ++i) value |= Wide{machine.word(4 * index + i)} << 32 * i;
    return value;
  };
  constexpr std::uint32_t kThreads = 512;
  std::mt19937_64 random(128);
  const auto number = [&] { return (Wide{random()} << 64 | random()) >> random() % 128; };
  std::vector<std::pair<Wide, Wide>> operands;
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    operands.emplace_back(number(), std::max<Wide>(number(), 1));
    store(4 * i, operands.back().first);
    store(4 * i + 1, operands.back().second);
  }
  machine.run({1, 1, 1}, {kThreads, 1, 1});
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    CHECK(load(4 * i + 2) == operands[i].first / operands[i].second);
    CHECK(load(4 * i + 3) == operands[i].first % operands[i].second);
  }
}

// PTX ISA, vote.sync and others: among the lanes of the mask that the lane names, which may be another for others.
TEST_CASE("tiles of a warp exchange among themselves", "[ptx]") {
  const std::uint32_t tile = GENERATE(8U, 16U, 2U);
  const std::string size = std::to_string(tile);
  const std::string ones = std::to_string((1ULL << tile) - 1);
  const std::string text = kernel(
      "and.b32 %r1, %t0, 31;\ndiv.u32 %r2, %r1, " + size + ";\nmul.lo.u32 %r3, %r2, " + size + ";\nshl.b32 %r4, " +
      ones +
      ", %r3;\n"
      // Of each tile some come late, and one late lane of the last tile comes later than all others.
      "and.b32 %r5, %t0, 1;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra ON;\nmov.u32 %r6, 0;\nLATE:\nadd.u32 %r6, %r6, 1;\n"
      "setp.lt.u32 %p2, %r6, %t0;\n@%p2 bra LATE;\nON:\n"
      "setp.eq.u32 %p3, %r1, 21;\nvote.sync.any.pred %p4, %p3, %r4;\nsetp.gt.u32 %p5, %r1, 15;\n"
      "vote.sync.all.pred %p6, %p5, %r4;\nrem.u32 %r7, %t0, 3;\nsetp.eq.u32 %p7, %r7, 0;\n"
      "vote.sync.ballot.b32 %r8, %p7, %r4;\nmatch.any.sync.b32 %r9, %r7, %r4;\nmatch.all.sync.b32 %r10|%p8, %r2, %r4;\n"
      "redux.sync.add.u32 %r11, %t0, %r4;\nelect.sync %r12|%p9, %r4;\n"
      "selp.u32 %r13, 1, 0, %p4;\nselp.u32 %r14, 2, 0, %p6;\nselp.u32 %r15, 4, 0, %p8;\nselp.u32 %r16, 8, 0, %p9;\n"
      "or.b32 %r13, %r13, %r14;\nor.b32 %r13, %r13, %r15;\nor.b32 %r13, %r13, %r16;\n"
      "mul.wide.u32 %rd1, %t0, 32;\nadd.u64 %rd2, %rd0, %rd1;\nst.global.v4.u32 [%rd2], {%r8, %r9, %r10, %r11};\n"
      "st.global.v2.u32 [%rd2+16], {%r12, %r13};\n");
  ExecMachine machine(text, "k");
  machine.argument(0, ExecMachine::kData);
  machine.run({1, 1, 1}, {64, 1, 1});
  for (std::uint32_t i = 0; i < 64; ++i) {
    const std::uint32_t base = i & ~(tile - 1);
    std::uint32_t thirds = 0;
    std::uint32_t alike = 0;
    std::uint32_t sum = 0;
    bool any = false;
    bool all = true;
    for (std::uint32_t j = base; j < base + tile; ++j) {
      thirds |= std::uint32_t{j % 3 == 0} << j % 32;
      alike |= std::uint32_t{j % 3 == i % 3} << j % 32;
      sum += j;
      any = any || j % 32 == 21;
      all = all && j % 32 > 15;
    }
    INFO("tile " << tile << " thread " << i);
    CHECK(machine.word(8 * i) == thirds);
    CHECK(machine.word(8 * i + 1) == alike);
    CHECK(machine.word(8 * i + 2) == static_cast<std::uint32_t>(((1ULL << tile) - 1) << base % 32));
    CHECK(machine.word(8 * i + 3) == sum);
    CHECK(machine.word(8 * i + 4) == base % 32);
    CHECK(machine.word(8 * i + 5) == (any ? 1U : 0) + (all ? 2U : 0) + 4 + (i == base ? 8U : 0));
  }
}

// The upper half waits until the lower half has passed a barrier of its own: neither may wait for the other's.
TEST_CASE("a tile goes on when its own lanes have come", "[ptx]") {
  const std::string text = kernel(
      ".shared .align 4 .b32 flag;\nsetp.lt.u32 %p1, %t0, 16;\nselp.b32 %r1, 0xffff, 0xffff0000, %p1;\n"
      "setp.ne.u32 %p2, %t0, 31;\n@%p2 bra MEET;\n"
      "SPIN:\nld.volatile.shared.u32 %r2, [flag];\nsetp.eq.u32 %p3, %r2, 0;\n@%p3 bra SPIN;\nMEET:\n"
      "bar.warp.sync %r1;\n@%p1 st.volatile.shared.u32 [flag], 1;\nredux.sync.add.u32 %r90, %t0, %r1;\n" +
      kStore);
  const std::vector<std::uint32_t> values = results(text, 32);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == (i < 16 ? 15U * 16 / 2 : (16U + 31) * 16 / 2));
}

}  // namespace exec_flow_test
