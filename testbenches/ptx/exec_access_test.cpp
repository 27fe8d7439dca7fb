// Accesses of compiled code: which memory an address is in, widths, extension, variables of the module.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/exec_machine.h"

namespace exec_access_test {

using namespace heddle;
using heddle::ptx::testing::ExecMachine;
using heddle::ptx::testing::kernel;

namespace {

ExecMachine run(const std::string& body, const std::string& before = "", std::uint32_t threads = 32,
                std::uint32_t dynamic_shared = 0) {
  ExecMachine machine(kernel(body, before), "k");
  machine.argument(0, ExecMachine::kData);
  for (std::uint32_t i = 0; i < 64; ++i) machine.word(1024 + i) = 0x80818283U + i * 0x01010101U;
  machine.run({1, 1, 1}, {threads, 1, 1}, dynamic_shared);
  return machine;
}

// %rd1: the thread's own word.
const std::string kOwn = "mul.wide.u32 %rd2, %t0, 4;\nadd.u64 %rd1, %rd0, %rd2;\n";

}  // namespace

// PTX ISA, 5.1: lanes of one instruction may have generic addresses in different memories.
TEST_CASE("one access reaches device, shared and local memory", "[ptx]") {
  ExecMachine machine = run(
      kOwn +
          ".local .align 4 .b8 area[16];\ncvta.local.u64 %rd3, area;\nmov.u64 %rd4, pool;\ncvta.shared.u64 %rd5, "
          "%rd4;\nadd.u64 %rd5, %rd5, %rd2;\n"
          "rem.u32 %r1, %t0, 3;\nsetp.eq.u32 %p1, %r1, 0;\nsetp.eq.u32 %p2, %r1, 1;\n"
          "selp.b64 %rd6, %rd5, %rd3, %p1;\nselp.b64 %rd6, %rd1, %rd6, %p2;\nadd.u32 %r2, %t0, 100;\n"
          "st.u32 [%rd6], %r2;\natom.add.u32 %r3, [%rd5], 0;\nld.u32 %r4, [%rd6];\nisspacep.shared %p3, %rd6;\n"
          "isspacep.local %p4, %rd6;\nisspacep.global %p5, %rd6;\nselp.u32 %r5, 1000, 0, %p3;\n"
          "selp.u32 %r6, 2000, 0, %p4;\nselp.u32 %r7, 3000, 0, %p5;\nadd.u32 %r4, %r4, %r5;\nadd.u32 %r4, %r4, %r6;\n"
          "add.u32 %r4, %r4, %r7;\nst.global.u32 [%rd1+512], %r4;\nst.global.u32 [%rd1+1024], %r3;\n",
      ".shared .align 4 .b8 pool[128];\n");
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::uint32_t kind = i % 3;
    CHECK(machine.word(128 + i) == i + 100 + (kind == 0 ? 1000 : kind == 1 ? 3000 : 2000));
    CHECK(machine.word(256 + i) == (kind == 0 ? i + 100 : 0));
    CHECK(machine.word(i) == (kind == 1 ? i + 100 : 0));
  }
}

// PTX ISA, 9.4.1: loads into registers that are wider are extended as their type says; stores take the low bits.
TEST_CASE("values of all widths come and go", "[ptx]") {
  ExecMachine machine = run(
      "ld.global.s8 %r1, [%rd0+4096];\nld.global.u8 %r2, [%rd0+4097];\nld.global.s16 %r3, [%rd0+4098];\n"
      "ld.global.s32 %rd3, [%rd0+4096];\nld.global.u32 %rd4, [%rd0+4096];\nld.global.s8 %rs1, [%rd0+4096];\n"
      "ld.global.v4.u8 {%r4, %r5, _, %r6}, [%rd0+4100];\nld.global.v2.s16 {%r7, %r8}, [%rd0+4104];\n"
      "ld.global.v4.b64 {%rd5, %rd6, %rd7, %rd8}, [%rd0+4128];\n"
      "mov.b64 {%r10, %r11}, %rd3;\nmov.b64 {%r12, %r13}, %rd4;\nmov.b64 {%r14, %r15}, %rd8;\ncvt.u32.u16 %r16, %rs1;\n"
      "st.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r4};\nst.global.v4.u32 [%rd0+16], {%r5, %r6, %r7, %r8};\n"
      "st.global.v4.u32 [%rd0+32], {%r10, %r11, %r12, %r13};\nst.global.v2.u32 [%rd0+48], {%r14, %r15};\n"
      "st.global.u32 [%rd0+56], %r16;\nst.global.v4.u8 [%rd0+60], {%r1, %r2, %r3, %r4};\n"
      "st.global.v2.b64 [%rd0+64], {%rd5, %rd6};\nst.global.v4.b16 [%rd0+80], {%rs1, %rs1, %rs1, %rs1};\n",
      "", 1);
  // Words in memory from 4096 on: 0x80818283, 0x81828384, 0x82838485, …
  const std::uint32_t expected[] = {0xFFFFFF83, 0x82,       0xFFFF8081, 0x84,       0x83,       0x81,
                                    0xFFFF8485, 0xFFFF8283, 0x80818283, 0xFFFFFFFF, 0x80818283, 0,
                                    0x8E8F9091, 0x8F909192, 0xFF83,     0x84818283, 0x88898A8B, 0x898A8B8C,
                                    0x8A8B8C8D, 0x8B8C8D8E, 0xFF83FF83, 0xFF83FF83};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    CAPTURE(i);
    CHECK(machine.word(i) == expected[i]);
  }
}

TEST_CASE("variables of the module have their initial values and addresses", "[ptx]") {
  ExecMachine machine =
      run("ld.const.u32 %r1, [table+8];\nld.global.u64 %rd3, [pointer];\nld.u32 %r2, [%rd3];\nmov.u64 %rd4, table+4;\n"
          "ld.const.u32 %r3, [%rd4];\nisspacep.const %p1, %rd4;\nselp.u32 %r4, 1, 0, %p1;\nmov.u64 %rd5, dynamic;\n"
          "mov.u64 %rd6, fixed;\nsub.u64 %rd7, %rd5, %rd6;\ncvt.u32.u64 %r5, %rd7;\nst.shared.u32 [dynamic+60], %r1;\n"
          "ld.shared.u32 %r6, [%rd5+60];\nst.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r4};\n"
          "st.global.v2.u32 [%rd0+16], {%r5, %r6};\n",
          ".const .align 4 .u32 table[4] = {3, 5, 7, 11};\n.global .align 4 .u32 numbers[3] = {20, 21, 22};\n"
          ".global .align 8 .u64 pointer = generic(numbers)+4;\n.shared .align 4 .b8 fixed[20];\n"
          ".extern .shared .align 16 .b8 dynamic[];\n",
          1, 64);
  CHECK(machine.word(0) == 7);
  CHECK(machine.word(1) == 21);
  CHECK(machine.word(2) == 5);
  CHECK(machine.word(3) == 1);
  CHECK(machine.word(4) == 32);  // behind 20 bytes, aligned to 16
  CHECK(machine.word(5) == 7);
}

// PTX ISA, 9.7.18: bytes and halves of registers as operands.
TEST_CASE("video instructions take parts of registers", "[ptx]") {
  ExecMachine machine =
      run("mov.u32 %r1, 0x80C04020;\nmov.u32 %r2, 0x00050003;\nvadd.s32.u32.u32 %r3, %r1.b2, %r2.h1;\n"
          "vadd.s32.s32.s32 %r4, %r1.b3, %r2.h0;\nst.global.v2.u32 [%rd0], {%r3, %r4};\n",
          "", 1);
  CHECK(machine.word(0) == 0xC0 + 5);
  CHECK(machine.word(1) == 0xFFFFFF80U + 3);
}

// PTX ISA, atom: each operation's result is the old value; lanes follow each other.
TEST_CASE("atomics of each kind", "[ptx]") {
  ExecMachine machine =
      run("atom.global.add.u32 %r1, [%rd0], 2;\natom.global.max.s32 %r2, [%rd0+4], %t0;\n"
          "atom.global.cas.b32 %r3, [%rd0+8], %t0, 77;\natom.global.inc.u32 %r4, [%rd0+12], 4;\n"
          "red.global.or.b32 [%rd0+16], 6;\nred.global.add.u64 [%rd0+24], 4294967296;\n"
          "atom.global.exch.b64 %rd3, [%rd0+32], %rd0;\n");
  CHECK(machine.word(0) == 64);
  CHECK(machine.word(1) == 31);
  CHECK(machine.word(2) == 77);
  CHECK(machine.word(3) == 32 % 5);
  CHECK(machine.word(4) == 6);
  CHECK(machine.word(6) == 0);
  CHECK(machine.word(7) == 32);
  CHECK(machine.word(8) == ExecMachine::kData);
}

TEST_CASE("numbers of the thread's place", "[ptx]") {
  ExecMachine machine(
      kernel("mov.u32 %r1, %tid.y;\nmov.u32 %r2, %tid.z;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %nctaid.x;\n"
             "mov.u32 %r5, %ntid.x;\nmov.u32 %r6, %ntid.y;\nmad.lo.u32 %r7, %r2, %r6, %r1;\n"
             "mad.lo.u32 %r7, %r7, %r5, %t0;\nmul.lo.u32 %r8, %r5, %r6;\nmul.lo.u32 %r8, %r8, 2;\n"
             "mad.lo.u32 %r9, %r3, %r8, %r7;\nmul.wide.u32 %rd1, %r9, 4;\nadd.u64 %rd1, %rd0, %rd1;\n"
             "mov.u32 %r10, %laneid;\nmov.u32 %r11, %lanemask_lt;\npopc.b32 %r11, %r11;\nsub.u32 %r10, %r10, %r11;\n"
             "mad.lo.u32 %r12, %r9, 10, %r4;\nadd.u32 %r12, %r12, %r10;\nst.global.u32 [%rd1], %r12;\n"),
      "k");
  machine.argument(0, ExecMachine::kData);
  machine.run({3, 1, 1}, {5, 4, 2});
  for (std::uint32_t i = 0; i < 120; ++i) CHECK(machine.word(i) == i * 10 + 3);
}

// PTX ISA, st.async and red.async: the bytes count at the mbarrier that the lane names, of whichever CTA.
TEST_CASE("asynchronous stores count at the mbarrier that each lane names", "[ptx]") {
  const std::string text = kernel(
      ".shared .align 8 .b64 bar[4];\n.shared .align 4 .b32 data[32];\nmov.u32 %r1, bar;\nmov.u32 %r2, data;\n"
      "mad.lo.u32 %r3, %t0, 4, %r2;\nshr.u32 %r4, %t0, 3;\nand.b32 %r4, %r4, 1;\nmad.lo.u32 %r5, %r4, 8, %r1;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %t0, [%r5+8];\n"
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r3], 100, [%r1+24];\n"
      "ld.shared.u32 %r6, [%r3];\nmul.wide.u32 %rd1, %t0, 4;\nadd.u64 %rd2, %rd0, %rd1;\nst.global.u32 [%rd2], %r6;\n");
  ExecMachine machine(text, "k");
  machine.argument(0, ExecMachine::kData);
  machine.run({1, 1, 1}, {32, 1, 1});
  CHECK(machine.completed(0) == 0);
  CHECK(machine.completed(8) == 64);
  CHECK(machine.completed(16) == 64);
  CHECK(machine.completed(24) == 128);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(machine.word(i) == i + 100);
}

// PTX ISA, ldmatrix: lane i gives the address of row i, and takes elements of row i / 4. Half of the lanes come late.
TEST_CASE("matrices are loaded when all lanes have come", "[ptx]") {
  const std::string text = kernel(
      ".shared .align 16 .b8 rows[128];\nmov.u32 %r1, rows;\nmad.lo.u32 %r2, %t0, 4, %r1;\nst.shared.u32 [%r2], %t0;\n"
      "bar.warp.sync -1;\nmad.lo.u32 %r3, %t0, 16, %r1;\nmov.u32 %r4, 0;\nand.b32 %r5, %t0, 1;\n"
      "LOOP:\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra LOAD;\nadd.u32 %r4, %r4, 1;\n"
      "ld.volatile.shared.u32 %r7, [%r1];\nsetp.lt.u32 %p2, %r4, %t0;\n"
      "@%p2 bra LOOP;\nLOAD:\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r3];\n"
      "setp.ge.u32 %p3, %r4, 40;\n@%p3 bra LOOP;\n"
      "mul.wide.u32 %rd1, %t0, 4;\nadd.u64 %rd2, %rd0, %rd1;\nst.global.u32 [%rd2], %r6;\n");
  ExecMachine machine(text, "k");
  machine.argument(0, ExecMachine::kData);
  machine.run({1, 1, 1}, {32, 1, 1});
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(machine.word(i) == i);
}

}  // namespace exec_access_test