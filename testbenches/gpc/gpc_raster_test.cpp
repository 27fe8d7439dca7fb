// The raster units of the MPCs over the sockets of a GPC: what ids they know, from what, and when.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "gpc/gpc_bench.h"
#include "support/random.h"

namespace gpc_raster_test {

using Catch::Contains;
using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::CgaLevel;
using heddle::arch::ClusterShape;
using heddle::arch::Coord;
using heddle::arch::CtaId;
using heddle::arch::Dim3;

namespace {

constexpr Cycle kThere = 10 + 5 + 2;  // distributor to SM, with plain()

// Starts by the place in the launch order of a task.
std::map<std::uint64_t, Start> by_order(const GpcBench& bench, std::uint32_t slot = 0) {
  std::map<std::uint64_t, Start> starts;
  for (const Start& start : bench.starts) {
    if (start.packet.tag.slot == slot) REQUIRE(starts.emplace(start.packet.order, start).second);
  }
  return starts;
}

// A grid of any kind that a GPC meets, at most a few thousand CTAs: in CGAs of the full size, and of a smaller one.
struct Nest {
  heddle::arch::RasterShape full, smaller;
};

Nest random_nest(Random& random) {
  const auto multiple = [&random](const Dim3& inner) {
    return Dim3{inner.x * random.between(1, 3), inner.y * random.between(1, 2), inner.z * random.between(1, 2)};
  };
  ClusterShape cluster;
  Dim3 inner{1, 1, 1};
  if (random.chance(70)) inner = cluster.of(CgaLevel::gpc) = multiple(inner);
  if (random.chance(50)) inner = cluster.of(CgaLevel::gpu) = multiple(inner);
  if (cluster.any()) {
    cluster.fallback[0] = inner;
    inner = cluster.of(cluster.outermost()) = {inner.x * 2, inner.y, inner.z};
  }
  const Dim3 grid{inner.x * random.between(1, 9), inner.y * random.between(1, 5), inner.z * random.between(1, 4)};
  return {raster_shape(grid, cluster, 0), raster_shape(grid, cluster, cluster.any() ? 1 : 0)};
}

}  // namespace

TEST_CASE("an MPC's raster unit delivers one id after another", "[gpc][CWD-41]") {
  for (const std::uint32_t cycles : {0U, 1U, 5U}) {
    for (const TimingMode mode : {TimingMode::at, TimingMode::lt}) {
      CAPTURE(cycles);
      GpcParams params = plain();
      params.raster_cycles = cycles;
      GpcBench bench(uneven(), params, mode);
      bench.cwd.script = {bench.launch(0, 0b1111'1111, 0), bench.launch(0, 0b0000'0011, 8)};
      bench.cwd.start(0);
      run_until_idle();
      const std::map<std::uint64_t, Start> starts = by_order(bench);
      REQUIRE(starts.size() == 10);
      // TPCs of 2, 1, 3 and 2 SMs: the second SM waits for one id, the third for two, the next packet for all before.
      const std::vector<Cycle> ids_before{0, 1, 0, 0, 1, 2, 0, 1, 2, 3};
      for (std::size_t i = 0; i < ids_before.size(); ++i) {
        CAPTURE(i);
        CHECK(starts.at(i).cycle == (mode == TimingMode::at ? kThere + ids_before[i] * cycles : 0));
      }
      bench.expect_idle();
    }
  }
}

TEST_CASE("a raster unit that was idle is not late", "[gpc][CWD-41]") {
  GpcParams params = plain();
  params.raster_cycles = 3;
  GpcBench bench(uneven(), params);
  bench.cwd.script = {bench.launch(0, 0b11, 0)};
  bench.cwd.start(0);
  run_until_idle();
  bench.cwd.script.push_back(bench.launch(0, 0b11, 2));
  bench.cwd.start(1000);
  run_until_idle();
  const std::map<std::uint64_t, Start> starts = by_order(bench);
  CHECK(starts.at(1).cycle == kThere + 3);
  CHECK(starts.at(2).cycle == 1000 + kThere);
  CHECK(starts.at(3).cycle == 1000 + kThere + 3);
}

TEST_CASE("ids of a central rasteriser pass the raster unit by", "[gpc][CWD-43]") {
  GpcParams params = plain();
  params.raster_cycles = 100;
  GpcBench bench(uneven(), params);
  LaunchPacket packet = bench.launch(0, 0b01, 0);
  packet.id = CtaId{{3, 4, 5}, 12'345, 77, 2, 4};
  LaunchPacket second = packet;
  second.sm_mask = 0b10;
  second.raster = 1;
  second.id->index = 999;
  bench.cwd.script = {packet, second};
  bench.cwd.start(0);
  run_until_idle();
  const std::map<std::uint64_t, Start> starts = by_order(bench);
  REQUIRE(starts.size() == 2);
  const CtaId& id = starts.at(0).packet.id;
  CHECK(id.cta == Coord{3, 4, 5});
  CHECK(id.index == 12'345);
  CHECK(id.cga == 77);
  CHECK(id.rank == 2);
  CHECK(id.cga_size == 4);
  CHECK(starts.at(1).packet.id.index == 999);
  CHECK(starts.at(0).cycle == kThere);
  CHECK(starts.at(1).cycle == kThere);
  CHECK(bench.stat("mpc0.raster_updates") == 0);
  packet.sm_mask = 0b11;
  packet.num_ctas = 2;
  bench.cwd.script.push_back(packet);
  bench.cwd.start(1000);
  CHECK_THROWS_WITH(run_until_idle(), Contains("several CTAs has one id"));
}

TEST_CASE("a late joiner goes on from the coordinate that it is told", "[gpc][CWD-42]") {
  // Coordinates that a follower from the start would not have at these places: only the packet can have told them.
  GpcBench bench(uneven(), plain());
  const Dim3 grid{10, 10, 10};
  LaunchPacket packet = bench.launch(0, 0b0000'1111, 40);
  packet.shape.grid = grid;
  packet.late_mask = 0b0000'1100;  // the TPC of SM 2 and that of SMs 3, 4, 5
  packet.late_coord = {8, 9, 3};
  LaunchPacket next = bench.launch(0, 0b0010'0101, 52);
  next.shape.grid = grid;
  bench.cwd.script = {packet, next};
  bench.cwd.start(0);
  run_until_idle();
  const std::map<std::uint64_t, Start> starts = by_order(bench);
  REQUIRE(starts.size() == 7);
  CHECK(starts.at(40).packet.id.cta == Coord{0, 4, 0});
  CHECK(starts.at(41).packet.id.cta == Coord{1, 4, 0});
  CHECK(starts.at(42).packet.id.cta == Coord{0, 0, 4});  // two places after (8,9,3)
  CHECK(starts.at(43).packet.id.cta == Coord{1, 0, 4});
  CHECK(starts.at(43).packet.id.index == 401);
  CHECK(starts.at(52).packet.id.cta == Coord{2, 5, 0});
  CHECK(starts.at(53).packet.id.cta == Coord{1, 1, 4});
  CHECK(starts.at(54).packet.id.cta == Coord{2, 1, 4});
  bench.expect_idle();
}

TEST_CASE("a late joiner is told the outermost CGA, and knows the rank in it", "[gpc][CWD-42]") {
  GpcBench bench(uneven(), plain());
  ClusterShape cluster;
  cluster.of(CgaLevel::gpu) = {3, 2, 1};
  // GPU_CGAs of 6 CTAs; 8 of them in a row.
  LaunchPacket packet = bench.launch(0, 0b1111'1111, 6 * 9 + 4);
  packet.shape = raster_shape({24, 8, 1}, cluster, 0);
  packet.late_mask = 0b1111'1111;
  packet.late_coord = {1, 1, 0};
  bench.cwd.script = {packet};
  bench.cwd.start(0);
  run_until_idle();
  const std::map<std::uint64_t, Start> starts = by_order(bench);
  REQUIRE(starts.size() == 8);
  for (std::uint64_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    const CtaId expected = resolve(packet.shape, 6 * 9 + 4 + i);
    CHECK(starts.at(58 + i).packet.id.cta == expected.cta);
    CHECK(starts.at(58 + i).packet.id.rank == expected.rank);
    CHECK(starts.at(58 + i).packet.id.cga == expected.cga);
  }
  CHECK(starts.at(58).packet.id.cta == Coord{4, 3, 0});
  CHECK(starts.at(60).packet.id.cta == Coord{6, 2, 0});
}

TEST_CASE("concurrent grids do not disturb each other, and a new one begins anew", "[gpc][CWD-42]") {
  GpcBench bench(uneven(), plain());
  bench.duration = [](std::uint64_t) { return Cycle{10}; };
  const std::vector<Dim3> grids{{4, 100, 1}, {7, 100, 1}, {5, 100, 1}};
  std::vector<std::uint64_t> raster(3, 0);
  for (std::uint32_t round = 0; round < 12; ++round) {
    const std::uint32_t which = round % 3;
    LaunchPacket packet = bench.launch(which, round % 2 == 0 ? 0b1100'0011 : 0b1000'0101, raster[which]);
    packet.shape.grid = grids[which];
    raster[which] += packet.num_ctas + 5;  // CTAs of other GPCs
    bench.cwd.script.push_back(packet);
  }
  LaunchPacket fresh = bench.launch(1, 0b11, 0);  // another grid in slot 1
  fresh.operation = 555;
  fresh.shape.grid = {1, 1, 9};
  bench.cwd.script.push_back(fresh);
  bench.cwd.start(0);
  run_until_idle();
  std::uint32_t checked = 0;
  for (const Start& start : bench.starts) {
    const std::uint64_t order = start.packet.order;
    const CtaId& id = start.packet.id;
    CAPTURE(start.packet.tag.operation, order);
    const Dim3& grid = start.packet.tag.operation == 555 ? fresh.shape.grid : grids[start.packet.tag.slot];
    CHECK(id.cta.x == order % grid.x);
    CHECK(id.cta.y == order / grid.x % grid.y);
    CHECK(id.cta.z == order / grid.x / grid.y);
    ++checked;
  }
  CHECK(checked == 12 * 4 - 6 + 2);
  bench.expect_idle();
}

TEST_CASE("delta overflows and decompositions are counted", "[gpc][CWD-41]") {
  GpcParams params = plain();
  params.delta_bits = 4;  // below 16
  GpcBench bench(uneven(), params);
  bench.cwd.script = {bench.launch(0, 0b01, 0),    // position 0
                      bench.launch(0, 0b01, 16),   // 15 elsewhere: fit
                      bench.launch(0, 0b11, 33),   // 16 elsewhere: one overflow; 34 follows directly
                      bench.launch(0, 0b01, 85)};  // 50 elsewhere: three
  bench.cwd.start(0);
  run_until_idle();
  CHECK(bench.stat("mpc0.raster_updates") == 5);
  CHECK(bench.stat("mpc0.delta_overflows") == 4);
  CHECK(bench.stat("mpc1.raster_updates") == 0);

  // CGAs are counted, not CTAs: the three CTAs of one CGA take one update.
  ClusterShape cluster;
  cluster.of(CgaLevel::gpu) = {10, 1, 1};
  LaunchPacket packet = bench.launch(1, 0b11, 170);
  packet.further_masks[0] = 0b10;
  packet.num_ctas = 3;
  packet.shape = raster_shape({1000, 1, 1}, cluster, 0);
  bench.cwd.script.push_back(packet);
  bench.cwd.start(1000);
  run_until_idle();
  CHECK(bench.stat("mpc0.raster_updates") == 6);
  CHECK(bench.stat("mpc0.delta_overflows") == 5);
  CHECK(bench.starts.back().packet.id.rank == 2);
}

TEST_CASE("a launch that stands before an earlier one is caught", "[gpc][CWD-41]") {
  GpcBench bench(uneven(), plain());
  bench.cwd.script = {bench.launch(0, 0b01, 7), bench.launch(0, 0b01, 6)};
  bench.cwd.start(0);
  CHECK_THROWS_WITH(sc_core::sc_start(), Contains("before one that has been followed"));
}

TEST_CASE("a follower that was told a place knows none before it", "[gpc][CWD-42]") {
  heddle::arch::RasterShape shape;
  shape.grid = {5, 5, 5};
  heddle::gpc::RasterFollower follower(0, shape, 16);
  CHECK(follower.locate(shape, 3).cta == Coord{3, 0, 0});
  follower.join(8, {3, 1, 0});
  CHECK_THROWS_AS(follower.locate(shape, 7), heddle::CheckFailed);
  CHECK(follower.locate(shape, 8).cta == Coord{3, 1, 0});
  CHECK(follower.locate(shape, 8).cta == Coord{3, 1, 0});  // the same outermost CGA
  CHECK(follower.updates() == 2);
}

TEST_CASE("random grids, shared with other GPCs, late joiners: ids equal division", "[gpc][CWD-40][CWD-41][CWD-42]") {
  std::uint32_t late = 0;
  for (const std::uint64_t seed : seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    GpcParams params;
    params.mpc_queue = random.between(1, 3);
    params.raster_cycles = random.below(3);
    params.delta_bits = random.chance(50) ? random.between(1, 5) : random.between(1, 63);
    GpcBench bench(random.shape(1), params, random.chance(20) ? TimingMode::lt : TimingMode::at,
                   random.chance(50) ? 0 : 1024);
    bench.duration = [](std::uint64_t index) { return Cycle{1 + index * 7919 % 60}; };
    struct Task {
      Nest nest;
      std::uint64_t at = 0;
      std::uint64_t joined = 0;  // SMs that follow
    };
    std::vector<Task> tasks(3);
    for (Task& task : tasks) {
      task.nest = random_nest(random);
      task.joined = random.chance(50) ? ~std::uint64_t{0} : random.next();
    }
    std::vector<std::map<std::uint64_t, CtaId>> wanted(tasks.size());
    for (std::uint32_t p = 0; p < 100; ++p) {
      const std::uint32_t slot = random.below(tasks.size());
      Task& task = tasks[slot];
      task.at += random.chance(60) ? 0 : random.below(80);  // CTAs of other GPCs
      const std::uint64_t end = task.nest.full.grid.count();
      const std::uint64_t all = bench.gpc.sms == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bench.gpc.sms) - 1;
      const std::uint64_t mask = random.next() & all;
      const auto ctas = heddle::bits::count(mask);
      if (mask == 0 || task.at + ctas > end) continue;
      LaunchPacket packet = bench.launch(slot, mask, task.at);
      packet.shape = random.chance(50) ? task.nest.full : task.nest.smaller;
      packet.late_mask = mask & ~task.joined;
      late += packet.late_mask != 0 ? 1 : 0;
      const Dim3 units = raster_extents(packet.shape);
      packet.late_coord = coord_of(task.at / raster_unit(packet.shape), units);
      // A TPC follows as soon as one of its SMs has been told.
      for (const Topology::Tpc& tpc : bench.gpc.tpcs) {
        const std::uint64_t tpc_mask = ((std::uint64_t{1} << tpc.sms) - 1) << tpc.first_sm;
        if ((packet.late_mask & tpc_mask) != 0) task.joined |= tpc_mask;
      }
      for (std::uint64_t i = 0; i < ctas; ++i) wanted[slot][task.at + i] = resolve(packet.shape, task.at + i);
      task.at += ctas;
      bench.cwd.script.push_back(packet);
    }
    bench.cwd.start(0);
    run_until_idle();
    std::size_t total = 0;
    for (const auto& ids : wanted) total += ids.size();
    REQUIRE(bench.starts.size() == total);
    for (const Start& start : bench.starts) {
      const CtaId& expected = wanted.at(start.packet.tag.slot).at(start.packet.order);
      REQUIRE(start.packet.id.cta == expected.cta);
      REQUIRE(start.packet.id.index == expected.index);
      REQUIRE(start.packet.id.cga == expected.cga);
      REQUIRE(start.packet.id.rank == expected.rank);
      REQUIRE(start.packet.id.cga_size == expected.cga_size);
    }
    bench.expect_idle();
  }
  CHECK(late > 400);
}

}  // namespace gpc_raster_test
