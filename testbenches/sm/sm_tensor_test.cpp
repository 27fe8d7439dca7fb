// Matrix multiplies on tiles as a TMAU lays them out, and on a sample of CTAs; corrupt data out of memory.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "sm/bulk_oracle.h"
#include "sm/program_bench.h"

namespace sm_tensor_test {

using namespace heddle;
using heddle::arch::AtomicKind;
using heddle::arch::FaultKind;
using heddle::arch::MatmulTile;
using heddle::arch::Space;
using heddle::arch::Swizzle;
using heddle::arch::ValueType;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Warp;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

ListProgram::Access access_of(std::uint8_t width, Space space = Space::global) {
  ListProgram::Access access;
  access.space = space;
  access.width = width;
  return access;
}

// The warp writes the matrices A (16 x 64, at 0) and B (64 columns x 64, at 2048) in rows of 128 bytes, swizzled if
// told to, multiplies and stores.
ListProgram product(Swizzle swizzle) {
  MatmulTile tile;
  tile.n = 64;
  tile.k = 64;
  tile.a_pitch = tile.b_pitch = 128;
  tile.b = 2'048;
  tile.b_transposed = true;
  tile.a_swizzle = tile.b_swizzle = swizzle;
  ListProgram p(36);
  for (std::uint32_t row = 0; row < 80; ++row) {
    p.store(
        access_of(4, Space::shared),
        [row](const Warp&, std::uint32_t lane) {
          const auto value = [row](std::uint32_t k) { return static_cast<float>((row * 7 + k * 3) % 5) - 2.0F; };
          return std::uint32_t{arch::f16_of(value(2 * lane))} | std::uint32_t{arch::f16_of(value(2 * lane + 1))} << 16;
        },
        [=](const Warp&, std::uint32_t lane) { return test::swizzled(swizzle, 128 * row + 4 * lane); });
  }
  p.matmul(tile, 0);
  for (std::uint16_t reg = 0; reg < 32; reg += 4) {
    p.store_registers(access_of(16), reg, [reg](const Warp& w, std::uint32_t lane) {
      return 4'096 * w.place.cta_x + 16 * (8 * lane + reg / 4);
    });
  }
  p.exit();
  return p;
}

}  // namespace

TEST_CASE("a warp multiplies swizzled tiles, and sooner than unswizzled ones", "[sm][TMA-22][TMA-21]") {
  for (const TimingMode mode : kModes) {
    std::array<std::vector<std::uint8_t>, 2> results;
    std::array<Cycle, 2> cycles{};
    for (const bool swizzled : {false, true}) {
      ProgramBench bench({}, mode);
      cycles[swizzled] = bench.run(product(swizzled ? Swizzle::bytes128 : Swizzle::none), 32, 12'288);
      REQUIRE(bench.faults.empty());
      results[swizzled].assign(bench.l2.bytes.begin(), bench.l2.bytes.begin() + 4'096);
      // 16 core matrices of A and a quarter of 64 of B.
      const double least = 32;
      CHECK(bench.stat("shared.conflicts") == (swizzled ? 0 : 7 * least));
    }
    CHECK(results[0] == results[1]);
    CHECK(std::count(results[0].begin(), results[0].end(), 0) < 3'000);
    CHECK(cycles[0] > cycles[1]);
  }
}

TEST_CASE("only a sample of the CTAs computes, in the same time", "[sm][TMA-22]") {
  sm::SmParams params;
  params.issue.tensor_sample = 3;
  std::array<Cycle, 4> ends{};
  for (std::uint32_t cta = 0; cta < 4; ++cta) {
    ProgramBench bench(params);
    bench.start(bench.add(product(Swizzle::bytes128), 32, 12'288, 4), 0, cta);
    heddle::test::run_until_idle();
    REQUIRE(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == 1);
    ends[cta] = bench.mpc.exits[0].first;
    const auto first = bench.l2.bytes.begin() + 4'096 * cta;
    const bool computed = std::any_of(first, first + 4'096, [](std::uint8_t byte) { return byte != 0; });
    CHECK(computed == (cta % 3 == 0));
    CHECK(ends[cta] == ends[0]);
  }
}

TEST_CASE("a swizzled tile that reaches beyond shared memory or reads corrupt data is a fault",
          "[sm][TMA-22][MEM-05]") {
  const auto fault_of = [](std::uint32_t bytes, std::uint32_t b, std::uint32_t corrupt) {
    MatmulTile tile;
    tile.n = 8;
    tile.a_pitch = tile.b_pitch = 128;
    tile.b = b;
    tile.b_transposed = true;
    tile.a_swizzle = tile.b_swizzle = Swizzle::bytes128;
    ProgramBench bench;
    ListProgram p(8);
    p.compute(arch::Unit::fp32, 100, {}, {});
    p.matmul(tile, 0);
    p.exit();
    bench.start(bench.add(p, 32, bytes));
    heddle::test::run_until(bench.domain.clock().time_of(bench.first_issue() + 20));
    if (corrupt != 0) bench.sm.poison_shared(0, corrupt, 1);
    heddle::test::run_until_idle();
    if (bench.faults.empty()) return FaultKind::address;
    CHECK(bench.faults.size() == 1);
    return bench.faults[0].kind;
  };
  constexpr FaultKind kNone = FaultKind::address;
  // B has 8 rows of 32 bytes at 2,048: units 0 and 1, which lie at 6 and 7 of row 7 (7 ^ 1 and 7 ^ 0).
  CHECK(fault_of(2'048 + 8 * 128, 2'048, 0) == kNone);
  CHECK(fault_of(2'048 + 7 * 128 + 64, 2'048, 0) == FaultKind::shared_bounds);
  CHECK(fault_of(4'096, 2'048, 2'048 + 128 * 7 + 96) == FaultKind::poison);
  CHECK(fault_of(4'096, 2'048, 2'048 + 128 * 7) == kNone);
}

TEST_CASE("corrupt data of memory are a fault of who reads them, and stay out of the L1", "[sm][CGA-08][MEM-05]") {
  constexpr std::uint64_t kCorrupt = 1'024 + 36;
  struct Case {
    const char* name;
    std::function<void(ListProgram&)> add;
  };
  ListProgram::Access strong;
  strong.order = arch::Order::relaxed;
  strong.scope = arch::Scope::gpu;
  const Case one = GENERATE_COPY(
      Case{"load", [](ListProgram& p) { p.load({}, 1, ListProgram::linear(1'024, 4)); }},
      Case{"load of the L2", [strong](ListProgram& p) { p.load(strong, 1, ListProgram::linear(1'024, 4)); }},
      Case{"copy", [](ListProgram& p) { p.async_copy({}, ListProgram::linear(1'024, 4), ListProgram::linear(0, 4)); }},
      Case{"atomic", [](ListProgram& p) {
             p.atomic({}, AtomicKind::add, ValueType::u32, 1, ListProgram::constant(1), ListProgram::linear(1'024, 4));
           }});
  for (const TimingMode mode : kModes) {
    CAPTURE(one.name);
    ProgramBench bench({}, mode);
    bench.l2.corrupt = kCorrupt;
    ListProgram p(4);
    one.add(p);
    p.async_commit().async_wait(0);
    p.compute(arch::Unit::fp32, 1, {{1, 1}}, {});
    p.exit();
    bench.run(p, 32, 1'024);
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == FaultKind::poison);
    CHECK(bench.mpc.exit_of(0).faulted);
    CHECK(bench.faults[0].address >= 1'024);
    CHECK(bench.faults[0].address < 1'024 + 128);
    // Once it is sound again, the next CTA reads it anew.
    bench.faults.clear();
    bench.l2.corrupt = ~std::uint64_t{0};
    bench.l2.put<std::uint32_t>(kCorrupt, 77);
    ListProgram again(4);
    again.load({}, 1, ListProgram::linear(1'024, 4));
    again.store_registers({}, 1, ListProgram::linear(4'096, 4));
    again.exit();
    bench.start(bench.add(again, 32), 1, 0, bench.domain.now() + 10);
    heddle::test::run_until_idle();
    CHECK(bench.faults.empty());
    CHECK(bench.l2.get<std::uint32_t>(4'096 + 36) == 77);
  }
}

}  // namespace sm_tensor_test
