// CTAs at the edges of a grid that hold fewer threads than a workgroup has (PKT-03), and arguments of launches.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/program_bench.h"
#include "support/random.h"

namespace sm_partial_test {

using namespace heddle;
using heddle::arch::AtomicKind;
using heddle::arch::Dim3;
using heddle::arch::kNoRegister;
using heddle::arch::Space;
using heddle::arch::SpecialRegister;
using heddle::arch::ValueType;
using heddle::arch::WarpPlace;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Random;
using heddle::test::Warp;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint64_t kCounts = 0;
constexpr std::uint64_t kMirrors = 0x20000;
constexpr std::uint64_t kBlocks = 0x40000;

struct Launch {
  arch::KernelShape kernel;
  Dim3 items;
  std::uint64_t kernarg = 0;
};

std::uint64_t cell_of(const Dim3& item, const Dim3& items) {
  return item.x + std::uint64_t{items.x} * (item.y + std::uint64_t{items.y} * item.z);
}

// From what the warp is told of its place.
std::uint64_t cell_of(const WarpPlace& place, std::uint32_t thread, const Dim3& items) {
  const Dim3& block = place.block;
  return cell_of(
      {place.cta_x * place.workgroup.x + thread % block.x, place.cta_y * place.workgroup.y + thread / block.x % block.y,
       place.cta_z * place.workgroup.z + thread / block.x / block.y},
      items);
}

// The launch of a program of the bench; its CTAs start in the slots from 0 on.
void launch(ProgramBench& bench, const ListProgram& program, const Launch& launch) {
  const auto threads = static_cast<std::uint32_t>(launch.kernel.block.count());
  const std::uint32_t number = bench.add(program, threads, launch.kernel.shared_bytes);
  const std::uint32_t code = bench.code.lend(number, launch.kernel, {launch.items}, launch.kernarg);
  const Dim3& grid = launch.kernel.grid;
  for (std::uint32_t cta = 0; cta < grid.count(); ++cta) {
    protocol::CtaStartPacket packet = bench.packet(number, cta, cta);
    packet.id.cta = {cta % grid.x, cta / grid.x % grid.y, cta / grid.x / grid.y};
    packet.code = code;
    bench.mpc.start(0, packet);
  }
}

Launch launch_of(const Dim3& grid, const Dim3& block, const Dim3& items, std::uint32_t shared = 0) {
  Launch result;
  result.kernel.grid = grid;
  result.kernel.block = block;
  result.kernel.shared_bytes = shared;
  result.items = items;
  return result;
}

std::uint32_t packed(std::uint32_t x, std::uint32_t y, std::uint32_t z) { return x | y << 8 | z << 16; }

// Every thread counts in its cell, leaves there what the thread opposite it in its CTA wrote to shared memory before a
// barrier, and notes the extents of its block.
ListProgram cells(const Dim3& items) {
  const auto cell = [items](const Warp& warp, std::uint32_t lane) {
    return cell_of(warp.place, warp.thread(lane), items);
  };
  const auto cell_at = [cell](std::uint64_t base) {
    return [cell, base](const Warp& warp, std::uint32_t lane) { return base + 4 * cell(warp, lane); };
  };
  ListProgram::Access shared;
  shared.space = Space::shared;
  ListProgram p(6);
  p.special(SpecialRegister::block_x, 1);
  p.special(SpecialRegister::block_y, 2);
  p.special(SpecialRegister::block_z, 3);
  p.store(shared, cell, [](const Warp& warp, std::uint32_t lane) { return 4 * warp.thread(lane); });
  p.barrier();
  p.load(shared, 4,
         [](const Warp& warp, std::uint32_t lane) { return 4 * (warp.place.block.count() - 1 - warp.thread(lane)); });
  p.atomic({}, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1), cell_at(kCounts));
  p.store_registers({}, 4, cell_at(kMirrors));
  p.store({},
          [](const Warp& warp, std::uint32_t lane) {
            return packed(warp.reg(1, lane), warp.reg(2, lane), warp.reg(3, lane));
          },
          cell_at(kBlocks), {{1, 3}});
  p.exit();
  return p;
}

// The same by plain arithmetic, from the side of the items.
void check_cells(ProgramBench& bench, const Launch& launch) {
  const Dim3& items = launch.items;
  const Dim3& size = launch.kernel.block;
  for (std::uint32_t i = 0; i < items.count(); ++i) {
    const Dim3 item{i % items.x, i / items.x % items.y, i / items.x / items.y};
    const Dim3 first{item.x / size.x * size.x, item.y / size.y * size.y, item.z / size.z * size.z};
    const Dim3 block{std::min(size.x, items.x - first.x), std::min(size.y, items.y - first.y),
                     std::min(size.z, items.z - first.z)};
    // Opposite in the linear order of threads is opposite along every axis.
    const Dim3 opposite{first.x + block.x - 1 - (item.x - first.x), first.y + block.y - 1 - (item.y - first.y),
                        first.z + block.z - 1 - (item.z - first.z)};
    CAPTURE(item.x, item.y, item.z);
    REQUIRE(bench.l2.get<std::uint32_t>(kCounts + 4 * i) == 1);
    REQUIRE(bench.l2.get<std::uint32_t>(kMirrors + 4 * i) == cell_of(opposite, items));
    REQUIRE(bench.l2.get<std::uint32_t>(kBlocks + 4 * i) == packed(block.x, block.y, block.z));
  }
  for (std::uint64_t i = items.count(); i < items.count() + 200; ++i) {
    REQUIRE(bench.l2.get<std::uint32_t>(kCounts + 4 * i) == 0);
  }
}

}  // namespace

TEST_CASE("partial workgroups run the work-items that there are", "[sm][PKT-03]") {
  for (const std::uint64_t seed : test::seeds(60)) {
    for (const TimingMode mode : kModes) {
      CAPTURE(seed);
      Random random(seed);
      // 8 CTAs of at most 8 warps: as many as the SM holds.
      const Dim3 grid{random.between(1, 2), random.between(1, 2), random.between(1, 2)};
      const Dim3 block{random.between(1, 42), random.between(1, 3), random.between(1, 2)};
      const auto covered = [&](std::uint32_t ctas, std::uint32_t size) {
        return random.between((ctas - 1) * size + 1, ctas * size);
      };
      const Dim3 items{covered(grid.x, block.x), covered(grid.y, block.y), covered(grid.z, block.z)};
      CAPTURE(grid.x, grid.y, grid.z, block.x, block.y, block.z, items.x, items.y, items.z);
      ProgramBench bench({}, mode);
      const Launch partial = launch_of(grid, block, items, 4 * static_cast<std::uint32_t>(block.count()));
      launch(bench, cells(items), partial);
      test::run_until_idle();
      REQUIRE(bench.faults.empty());
      REQUIRE(bench.mpc.exits.size() == grid.count());
      check_cells(bench, partial);
    }
  }
}

TEST_CASE("a partial CTA takes the resources of a whole one", "[sm][PKT-03]") {
  ProgramBench bench;
  ListProgram p(2);
  p.compute(arch::Unit::int32, 100);
  p.exit();
  launch(bench, p, launch_of({1, 1, 1}, {256, 1, 1}, {3, 1, 1}));
  test::run_until_idle();
  REQUIRE(bench.mpc.exits.size() == 1);
  // One warp has run; eight were accounted for, from the start until the permission to leave has come.
  const Cycle busy = bench.mpc.exits[0].first;  // as long after the ask as the start took
  CHECK(bench.stat("warp_cycles") == 8.0 * static_cast<double>(busy));
  CHECK(bench.stat("instructions.int32") == 100);
}

TEST_CASE("a barrier in a partial CTA counts its own threads", "[sm][PKT-03]") {
  // 40 of 128 threads: two warps. `threads`: what the barrier waits for.
  for (const std::uint32_t threads : {0U, 64U, 128U}) {
    CAPTURE(threads);
    ProgramBench bench;
    ListProgram p(2);
    p.barrier(3, threads);
    p.store({}, ListProgram::constant(7), [](const Warp& warp, std::uint32_t lane) { return 4 * warp.thread(lane); });
    p.exit();
    launch(bench, p, launch_of({1, 1, 1}, {128, 1, 1}, {40, 1, 1}));
    test::run_until_idle();
    REQUIRE(bench.mpc.exits.size() == 1);
    if (threads == 128) {  // as many as there are not
      REQUIRE(bench.faults.size() == 1);
      CHECK(bench.faults[0].kind == arch::FaultKind::barrier);
      continue;
    }
    CHECK(bench.faults.empty());
    CHECK(bench.l2.get<std::uint32_t>(4 * 39) == 7);
    CHECK(bench.l2.get<std::uint32_t>(4 * 40) == 0);
  }
}

TEST_CASE("launches of one program have grids and arguments of their own", "[sm][PKT-03]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    ListProgram p(1);
    // Lane 0 of every warp notes what it knows of its launch: 16 bytes for each launch.
    const auto note = [&p](std::uint64_t offset, std::uint64_t (*value)(const WarpPlace&)) {
      ListProgram::Access access;
      access.lanes = ListProgram::only(0);
      p.store(
          access, [value](const Warp& warp, std::uint32_t) { return value(warp.place); },
          [offset](const Warp& warp, std::uint32_t) { return warp.place.kernarg + offset; });
    };
    note(0, [](const WarpPlace& place) { return place.kernarg; });
    note(4, [](const WarpPlace& place) { return std::uint64_t{place.grid.x}; });
    note(8, [](const WarpPlace& place) { return std::uint64_t{place.workgroup.x}; });
    note(12, [](const WarpPlace& place) { return std::uint64_t{place.block.x}; });
    p.exit();
    const std::uint32_t number = bench.add(p, 96);
    const auto start = [&](std::uint32_t slot, std::uint32_t code) {
      protocol::CtaStartPacket packet = bench.packet(number, slot);
      packet.code = code;
      bench.mpc.start(0, packet);
    };
    std::vector<std::uint32_t> codes;
    for (std::uint32_t i = 1; i <= 5; ++i) {
      const Launch one = launch_of({i, 1, 1}, {32 * (i % 3 + 1), 1, 1}, {32 * (i % 3 + 1) * i, 1, 1});
      codes.push_back(bench.code.lend(number, one.kernel, {i == 1 ? Dim3{5, 1, 1} : one.items}, 64 * i));
      start(i, codes.back());
    }
    start(0, number);  // the program as it was added: no arguments
    test::run_until_idle();
    REQUIRE(bench.faults.empty());
    for (std::uint32_t i = 1; i <= 5; ++i) {
      CAPTURE(i);
      CHECK(bench.l2.get<std::uint32_t>(64 * i) == 64 * i);
      CHECK(bench.l2.get<std::uint32_t>(64 * i + 4) == i);
      CHECK(bench.l2.get<std::uint32_t>(64 * i + 8) == 32 * (i % 3 + 1));
      CHECK(bench.l2.get<std::uint32_t>(64 * i + 12) == (i == 1 ? 5 : 32 * (i % 3 + 1)));
    }
    CHECK(bench.l2.get<std::uint32_t>(0) == 0);
    CHECK(bench.l2.get<std::uint32_t>(8) == 96);
    CHECK(bench.l2.get<std::uint32_t>(12) == 96);
  }
}

}  // namespace sm_partial_test
