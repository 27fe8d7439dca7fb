// What instructions cost on an SM: latencies, chains, throughput of units, bank conflicts, barriers.
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "sm/program_bench.h"

namespace sm_timing_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::MatmulTile;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::sm::SmParams;
using heddle::sm::WarpPolicy;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

Access in(Space space) {
  Access access;
  access.space = space;
  return access;
}

// `count` loads of one lane, each of which needs the one before.
ListProgram chase(Space space, std::uint64_t count) {
  ListProgram p(2);
  p.loop(count);
  p.load(in(space), 0, [](const Warp& w, std::uint32_t lane) { return w.reg(0, lane); }, {{0, 1}});
  p.end_loop();
  p.exit();
  return p;
}

Cycle cycles_of(const ListProgram& program, std::uint32_t threads, std::uint32_t shared = 0,
                const SmParams& params = {}, TimingMode mode = TimingMode::at) {
  ProgramBench bench(params, mode);
  return bench.run(program, threads, shared);
}

ListProgram computes(Unit unit, std::uint32_t count) {
  ListProgram p(4);
  p.compute(unit, count, {}, {{0, 1}});
  p.exit();
  return p;
}

}  // namespace

TEST_CASE("dependent loads that hit the L1 take 32 cycles, shared ones 29", "[sm][SM-03]") {
  for (const TimingMode mode : kModes) {
    for (const Space space : {Space::global, Space::shared}) {
      const auto run = [&](std::uint64_t count) { return cycles_of(chase(space, count), 32, 1024, {}, mode); };
      CHECK(run(21) - run(11) == 10 * (space == Space::global ? 32 : 29));  // the first of them may miss
    }
  }
}

TEST_CASE("addresses of shared memory take their time beside the data", "[sm][SM-03]") {
  // 17 loads of a warp of which none waits for another, of one and of four wavefronts.
  const auto cost = [](double starts, std::uint64_t stride, Space space, TimingMode mode) {
    ListProgram p(17);
    for (std::uint8_t to = 0; to < 17; ++to) {
      p.load(in(space), to, [=](const Warp&, std::uint32_t lane) { return stride * lane; });
    }
    p.compute(Unit::fp32, 1, {{16, 1}});
    p.exit();
    SmParams params;
    params.memory.shared_starts = starts;
    return cycles_of(p, 32, 1024, params, mode);
  };
  for (const TimingMode mode : kModes) {
    const Cycle quick = cost(1, 4, Space::shared, mode);
    CHECK(cost(0.5, 4, Space::shared, mode) - quick == 16);
    CHECK(std::abs(static_cast<double>(cost(0.8, 4, Space::shared, mode) - quick) - 16 / 4.0) <= 1);
    // The banks limit, not the addresses.
    CHECK(cost(0.5, 16, Space::shared, mode) == cost(1, 16, Space::shared, mode));
    // Other memory has nothing to do with it.
    CHECK(cost(0.5, 4, Space::global, mode) == cost(1, 4, Space::global, mode));
  }
}

TEST_CASE("a miss costs the L1's latency beside that of memory", "[sm][SM-03]") {
  for (const TimingMode mode : kModes) {
    ListProgram p(2);
    p.load({}, 0, ListProgram::constant(0));
    p.compute(Unit::fp32, 1, {{0, 1}});
    p.exit();
    ProgramBench bench({}, mode);
    bench.l2.latency = 226;
    // The load at 0, what needs it at 258, the exit at 259; the CTA ends in the cycle after.
    CHECK(bench.run(p, 32) == 260);
  }
}

TEST_CASE("lines of one load are on their way together", "[sm][SM-03][HST-03]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t lines : {1U, 2U, 4U, 32U}) {
      ListProgram p(2);
      p.load({}, 0, [=](const Warp&, std::uint32_t lane) { return 128 * (lane % lines); });
      p.compute(Unit::fp32, 1, {{0, 1}});
      p.exit();
      ProgramBench bench({}, mode);
      bench.l2.latency = 226;
      CHECK(bench.run(p, 32) == 260 + lines - 1);  // one after the other at the tags
    }
  }
}

TEST_CASE("a load of a line that is on its way waits for it, and asks for it no more", "[sm][SM-03][HST-03]") {
  for (const TimingMode mode : kModes) {
    ListProgram p(4);
    p.load({}, 0, ListProgram::constant(0));
    p.compute(Unit::fp32, 1, {}, {{3, 1}});
    p.load({}, 1, ListProgram::constant(0));
    p.compute(Unit::fp32, 1, {{1, 1}});
    p.exit();
    ProgramBench bench({}, mode);
    bench.l2.latency = 226;
    const Cycle cycles = bench.run(p, 32);
    CHECK(bench.l2.seen.size() == 1);
    CHECK(cycles >= 260);
    CHECK(cycles <= 262);
  }
}

TEST_CASE("a result is waited for by readers and by writers of its register, and by nobody else", "[sm][SM-03]") {
  const auto cost = [](const ListProgram::Reads& reads, const ListProgram::Reads& writes) {
    ListProgram p(4);
    p.compute(Unit::sfu, 1, {}, {{1, 1}});  // 12 cycles
    p.compute(Unit::fp32, 1, reads, writes);
    p.exit();
    return cycles_of(p, 32);
  };
  CHECK(cost({{2, 1}}, {{3, 1}}) == 1 + 1 + 1);
  CHECK(cost({{0, 2}}, {{3, 1}}) == 12 + 1 + 1);
  CHECK(cost({{2, 1}}, {{1, 1}}) == 12 + 1 + 1);
  // A load that is under way, too: 200 cycles of memory and 32 of the SM.
  ListProgram p(4);
  p.load({}, 1, ListProgram::linear(0, 4));
  p.compute(Unit::fp32, 1, {}, {{1, 1}});
  p.exit();
  CHECK(cycles_of(p, 32) == 232 + 1 + 1);
}

TEST_CASE("units take the lanes that they have per cycle", "[sm][SM-03]") {
  const std::pair<Unit, Cycle> units[] = {
      {Unit::none, 1}, {Unit::fp32, 1}, {Unit::int32, 2}, {Unit::fp64, 2}, {Unit::sfu, 8}};
  for (const auto& [unit, interval] : units) {
    CAPTURE(heddle::arch::unit_name(unit));
    CHECK(cycles_of(computes(unit, 1001), 32) - cycles_of(computes(unit, 1), 32) == 1000 * interval);
    // Eight warps on four partitions have twice the work for each; sixteen four times.
    for (const std::uint32_t warps : {4U, 8U, 16U}) {
      const Cycle cost = cycles_of(computes(unit, 1001), 32 * warps) - cycles_of(computes(unit, 1), 32 * warps);
      CHECK(cost == warps / 4 * 1000 * interval);
    }
    ProgramBench bench;
    bench.run(computes(unit, 77), 96);
    CHECK(bench.stat(std::string("instructions.") + heddle::arch::unit_name(unit)) ==
          77 * 3 + (unit == Unit::none ? 3 : 0));
  }
}

TEST_CASE("one instruction issues per cycle, to whatever units", "[sm][SM-01][SM-03]") {
  // fp32, int32 and special functions side by side: together they would take more than one issue per cycle.
  const auto mixed = [](std::uint64_t rounds) {
    ListProgram p(4);
    p.loop(rounds);
    p.compute(Unit::fp32, 8, {}, {});
    p.compute(Unit::int32, 4, {}, {});
    p.compute(Unit::sfu, 1, {}, {});
    p.end_loop();
    p.exit();
    return p;
  };
  // 13 slots for 8 cycles of each unit: eight warps of a partition need 8 x 13 cycles per round.
  const Cycle cost = cycles_of(mixed(201), 1024) - cycles_of(mixed(1), 1024);
  CHECK(cost >= 200 * 8 * 13);
  CHECK(cost < 200 * 8 * 13 * 105 / 100);
}

TEST_CASE("warps hide the latency of each other", "[sm][SM-03]") {
  // Each warp works 200 cycles in a row on what it has loaded, four times.
  const auto work = [](std::uint64_t lines) {
    ListProgram p(4);
    const auto loop = p.loop(4);
    p.load({}, 1,
           [=](const Warp& w, std::uint32_t lane) { return 128 * (w.count(loop) * lines + w.place.warp) + 4 * lane; });
    p.compute(Unit::fp32, 200, {{1, 1}}, {{2, 1}});
    p.end_loop();
    p.exit();
    return p;
  };
  for (const TimingMode mode : kModes) {
    for (const WarpPolicy policy : {WarpPolicy::greedy_oldest, WarpPolicy::round_robin}) {
      SmParams params;
      params.issue.policy = policy;
      const Cycle alone = cycles_of(work(1), 32, 0, params, mode);
      CHECK(alone >= 4 * (232 + 200));
      // Eight warps, two of a partition: one computes while the other waits.
      const Cycle two = cycles_of(work(8), 256, 0, params, mode);
      if (policy == WarpPolicy::greedy_oldest) {
        CHECK(two < alone * 115 / 100);
      } else {  // in step with each other, they wait together as well
        CHECK(two < alone * 3 / 2);
      }
      // Sixteen of a partition: the unit is the limit, and nothing else.
      const Cycle full = cycles_of(work(32), 1024, 0, params, mode);
      CHECK(full >= 8 * 4 * 200);
      CHECK(full < (8 * 4 * 200 + 232) * 105 / 100);
    }
  }
}

TEST_CASE("a long computation gives way to an older warp, or in turns to any", "[sm][SM-03]") {
  ListProgram busy(4);
  busy.compute(Unit::fp32, 100'000, {}, {});
  busy.exit();
  ListProgram loads(4);
  loads.loop(50);
  loads.load({}, 1, ListProgram::linear(0, 4), {{1, 1}});
  loads.end_loop();
  loads.exit();
  for (const WarpPolicy policy : {WarpPolicy::greedy_oldest, WarpPolicy::round_robin}) {
    for (const bool older : {true, false}) {
      SmParams params;
      params.issue.burst = 16;
      params.issue.policy = policy;
      ProgramBench bench(params);
      const std::uint32_t a = bench.add(loads, 32);
      const std::uint32_t b = bench.add(busy, 128);
      bench.start(older ? a : b, 0, 0);
      bench.start(older ? b : a, 1, 1);
      heddle::test::run_until_idle();
      REQUIRE(bench.mpc.exits.size() == 2);
      const std::size_t which = bench.mpc.exits[0].second.cta_slot == (older ? 0U : 1U) ? 0 : 1;
      const Cycle end = bench.mpc.exits[which].first;
      if (older || policy == WarpPolicy::round_robin) {
        CHECK(end < 50 * (32 + 16) + 300);
      } else {
        CHECK(end > 100'000);
      }
    }
  }
}

TEST_CASE("bank conflicts cost a cycle for each turn", "[sm][SM-03]") {
  const auto cost = [](std::uint64_t stride) {
    const auto loads = [stride](std::uint64_t count) {
      ListProgram p(4);
      p.loop(count);
      p.load(in(Space::shared), 0,
             [stride](const Warp& w, std::uint32_t lane) { return stride * lane + w.reg(0, lane); }, {{0, 1}});
      p.end_loop();
      p.exit();
      return p;
    };
    return (cycles_of(loads(11), 32, 8192) - cycles_of(loads(1), 32, 8192)) / 10;
  };
  CHECK(cost(0) == 29);
  CHECK(cost(4) == 29);
  CHECK(cost(8) == 29 + 1);
  CHECK(cost(64) == 29 + 15);
  CHECK(cost(128) == 29 + 31);
  ProgramBench bench;
  ListProgram p(4);
  p.load(in(Space::shared), 0, ListProgram::linear(0, 128));
  p.exit();
  bench.run(p, 32, 8192);
  CHECK(bench.stat("shared.wavefronts") == 32);
  CHECK(bench.stat("shared.conflicts") == 31);
}

TEST_CASE("the four partitions share one load-store unit of 128 bytes per cycle", "[sm][SM-03]") {
  const auto loads = [](std::uint8_t width, std::uint64_t count) {
    Access access = in(Space::shared);
    access.width = width;
    ListProgram p(8);
    p.loop(count);
    p.load(access, 0, ListProgram::linear(0, width));
    p.load(access, 4, ListProgram::linear(0, width));
    p.end_loop();
    p.exit();
    return p;
  };
  for (const std::uint8_t width : {std::uint8_t{4}, std::uint8_t{8}, std::uint8_t{16}}) {
    CAPTURE(int{width});
    SmParams params;
    params.issue.policy = WarpPolicy::round_robin;  // so that none is left over at the end
    const Cycle cost =
        cycles_of(loads(width, 101), 1024, 4096, params) - cycles_of(loads(width, 1), 1024, 4096, params);
    CHECK(cost >= 100 * 2 * 32 * (width / 4U));
    CHECK(cost < 101 * 2 * 32 * (width / 4U));
  }
}

TEST_CASE("a barrier of 4 warps costs 21 cycles, one of 8 costs 29", "[sm][SM-03]") {
  for (const TimingMode mode : kModes) {
    for (const auto& [threads, published] : {std::pair<std::uint32_t, Cycle>{128, 21}, {256, 29}}) {
      const auto barriers = [](std::uint64_t count) {
        ListProgram p(1);
        p.loop(count);
        p.barrier();
        p.end_loop();
        p.exit();
        return p;
      };
      const Cycle cost = cycles_of(barriers(101), threads, 0, {}, mode) - cycles_of(barriers(1), threads, 0, {}, mode);
      CHECK(cost == 100 * published);
    }
  }
}

TEST_CASE("a warpgroup multiplies 64 x N x 16 in N/2 cycles, if its operands have no bank conflicts",
          "[sm][SM-03][TMA-21]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t n : {64U, 128U, 256U}) {
      CAPTURE(n);
      MatmulTile tile;
      tile.n = n;
      tile.b = 8192;
      tile.a_pitch = tile.b_pitch = 32;
      tile.b_transposed = true;
      tile.a_swizzle = tile.b_swizzle = heddle::arch::Swizzle::bytes32;
      const auto multiplies = [&tile](std::uint64_t count) {
        ListProgram p(static_cast<std::uint32_t>(tile.n / 2 + 2));
        p.loop(count);
        p.matmul(tile, 0);
        p.end_loop();
        p.compute(Unit::fp32, 1, {{0, 1}}, {});
        p.exit();
        return p;
      };
      const auto run = [&](std::uint64_t count) { return cycles_of(multiplies(count), 128, 32'768, {}, mode); };
      CHECK(run(41) - run(1) == 40 * n / 2);
      // The result is there after its own cycles and the unit's latency.
      CHECK(run(1) == n / 2 + SmParams{}.issue.tensor_latency + 1 + 1);
      // Two rows of each core matrix meet in a bank group: the port needs 4 x 4 of A and n / 4 of B twice.
      tile.a_swizzle = tile.b_swizzle = heddle::arch::Swizzle::none;
      CHECK(run(41) - run(1) == 40 * std::max(n / 2, 2 * (16 + n / 4)));
    }
  }
}

TEST_CASE("an SM without work has no events", "[sm][SM-03]") {
  ProgramBench bench;
  ListProgram p(2);
  p.load({}, 0, ListProgram::constant(0));
  p.compute(Unit::fp32, 1, {{0, 1}});
  p.exit();
  bench.l2.latency = 100'000;
  bench.run(p, 32);
  // Two of the packets, one of the CTA's end, three issues, two of the memory.
  CHECK(bench.domain.events_executed() <= 9);
}

}  // namespace sm_timing_test
