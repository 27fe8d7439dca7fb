// What an instruction of PTX that touches registers alone costs the computer, of a whole warp: CPU time by class.
// --table prints the table of docs/ptx-arithmetic.md.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <sstream>
#include <vector>

#include <systemc>

#include "ptx/lane_alu.h"
#include "ptx/mma.h"
#include "ptx/wgmma.h"

namespace {

using namespace heddle;

constexpr int kTurns = 200000;

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The best of five, interleaved with nothing: CPU time.
template <class Work>
double nanoseconds(int turns, const Work& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const double begin = seconds();
    for (int turn = 0; turn < turns; ++turn) work();
    best = std::min(best, (seconds() - begin) / turns * 1e9);
  }
  return best;
}

void measure_form(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  const std::string opcode = parts.front();
  parts.erase(parts.begin());
  std::string why;
  const ptx::AluForm* const form = ptx::find_alu_form(opcode, parts, why);
  if (form == nullptr) {
    std::printf("%s\n", why.c_str());
    return;
  }
  std::mt19937 random(1);
  std::vector<std::uint32_t> planes(6 * 128);
  for (std::uint32_t& word : planes) word = (static_cast<std::uint32_t>(random()) & 0x007fffff) | 0x3f800000;
  ptx::AluOperands operands;
  operands.d[0] = planes.data();
  std::size_t sources = 0;
  for (const ptx::OperandSlot& slot : form->sources) {
    if (slot.kind == ptx::OperandKind::predicate || slot.optional) continue;
    operands.s[sources] = planes.data() + 128 * (sources + 1);
    ++sources;
  }
  operands.p_in[0] = 0x0f0f0f0f;
  operands.lanes = ~arch::LaneMask{0};
  const double whole = nanoseconds(kTurns, [&] { form->function(operands); });
  operands.lanes = 0x0000ffff;
  const double half = nanoseconds(kTurns, [&] { form->function(operands); });
  std::printf("| `%s` | %.0f | %.0f |\n", text.c_str(), whole, half);
}

void measure_mma(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  parts.erase(parts.begin());
  std::string why;
  const auto form = ptx::find_mma_form(parts, why);
  if (!form) {
    std::printf("%s\n", why.c_str());
    return;
  }
  std::vector<ptx::LaneWords> a(form->a_words()), b(form->b_words()), c(form->c_words()), d(form->d_words());
  const double time = nanoseconds(2000, [&] { ptx::multiply_matrices(*form, d.data(), a.data(), b.data(), c.data()); });
  std::printf("| `%s` | %.0f | |\n", text.c_str(), time);
}
void measure_wgmma() {
  std::string why;
  const auto form = ptx::find_wgmma_form({"mma_async", "sync", "aligned", "m64n256k16", "f32", "f16", "f16"}, why);
  if (!form) return;
  std::vector<std::uint8_t> shared(1u << 16);
  std::vector<ptx::LaneWords> d(form->d_words());
  ptx::WgmmaOperands operands;
  operands.a_place = {0, 0, 1024, 0, ptx::MatrixSwizzle::bytes128};
  operands.b_place = {8192, 0, 1024, 0, ptx::MatrixSwizzle::bytes128};
  const ptx::ReadChunk read = [&](std::uint32_t address, std::uint8_t* bytes) {
    std::memcpy(bytes, &shared[address], 16);
  };
  const double time = nanoseconds(100, [&] { ptx::multiply_warpgroup(*form, 1, operands, read, d.data()); });
  std::printf("| a warp of `%s` | %.0f | |\n", form->text.c_str(), time);
}

}  // namespace

int sc_main(int argc, char* argv[]) {
  if (argc > 1 && std::strcmp(argv[1], "--table") == 0) {
    std::fputs(ptx::alu_table().c_str(), stdout);
    return 0;
  }
  std::puts("| instruction | all lanes, ns | 16 lanes, ns |\n| --- | --- | --- |");
  for (const char* const text : {"mov.b32",
                                 "mov.b64",
                                 "add.s32",
                                 "add.s64",
                                 "mad.lo.s32",
                                 "mul.wide.u32",
                                 "mad.wide.u32",
                                 "div.u32",
                                 "and.b32",
                                 "lop3.b32",
                                 "shl.b32",
                                 "shr.s32",
                                 "shf.l.wrap.b32",
                                 "bfe.u32",
                                 "prmt.b32",
                                 "dp4a.s32.s32",
                                 "selp.b32",
                                 "setp.lt.s32",
                                 "setp.lt.f32",
                                 "setp.lt.and.s32",
                                 "set.lt.u32.f32",
                                 "add.f32",
                                 "mul.ftz.f32",
                                 "fma.rn.f32",
                                 "fma.rz.f32",
                                 "min.f32",
                                 "add.f64",
                                 "fma.rn.f64",
                                 "add.rz.f64",
                                 "div.rn.f32",
                                 "div.rz.f32",
                                 "rcp.approx.ftz.f32",
                                 "ex2.approx.ftz.f32",
                                 "lg2.approx.f32",
                                 "sin.approx.f32",
                                 "add.f16x2",
                                 "fma.rn.f16x2",
                                 "fma.rn.bf16x2",
                                 "cvt.f32.f16",
                                 "cvt.rn.f16.f32",
                                 "cvt.rn.f16x2.f32",
                                 "cvt.rn.bf16x2.f32",
                                 "cvt.rzi.s32.f32",
                                 "cvt.rn.f32.s32",
                                 "cvt.s64.s32",
                                 "cvt.f64.f32",
                                 "cvt.rn.satfinite.e4m3x2.f32",
                                 "cvt.rni.s64.f64"}) {
    measure_form(text);
  }
  for (const char* const text :
       {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"}) {
    measure_mma(text);
  }
  measure_wgmma();
  return 0;
}
