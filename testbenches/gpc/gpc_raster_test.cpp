// The raster units of the MPCs over the sockets of a GPC: what ids they know, from what, and when. What they know comes
// from the launch packets of all GPCs that the bench sends, and from nothing else.
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

// Starts by the place in the launch order of a task, as far as the raster units know it.
std::map<std::uint64_t, Start> by_order(const GpcBench& bench, std::uint32_t slot = 0) {
  std::map<std::uint64_t, Start> starts;
  for (const Start& start : bench.starts) {
    if (start.packet.tag.slot == slot) REQUIRE(starts.emplace(start.packet.order, start).second);
  }
  return starts;
}

// Where the CTAs of a script stand, in the order in which each SM starts those of each slot.
using Positions = std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>>;  // by SM and slot

Positions positions_of(const std::vector<BenchLaunch>& script) {
  Positions positions;
  for (const BenchLaunch& launch : script) {
    std::uint64_t position = launch.position;
    for (const std::uint64_t mask : masks_of(launch)) {
      for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1, ++position) {
        positions[{static_cast<std::uint32_t>(heddle::bits::lowest(rest)), launch.slot}].push_back(position);
      }
    }
  }
  return positions;
}

// CTAs whose ids are not those of their places in the launch order of the grid.
std::uint32_t wrong_ids(const GpcBench& bench, const std::vector<BenchLaunch>& script,
                        const heddle::arch::RasterShape& shape) {
  const Positions positions = positions_of(script);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> next;
  std::uint32_t wrong = 0;
  for (const Start& start : bench.starts) {
    const auto key = std::pair(start.sm, std::uint32_t{start.packet.tag.slot});
    const CtaId expected = resolve(shape, positions.at(key).at(next[key]++));
    const CtaId& id = start.packet.id;
    wrong += id.cta == expected.cta && id.rank == expected.rank && id.cga == expected.cga ? 0 : 1;
  }
  return wrong;
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
    for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
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
        CHECK(starts.at(i).cycle == (mode != TimingMode::lt ? kThere + ids_before[i] * cycles : 0));
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
  BenchLaunch packet = bench.launch(0, 0b01, 0);
  packet.id = CtaId{{3, 4, 5}, 12'345, 77, 2, 4};
  BenchLaunch second = packet;
  second.sm_mask = 0b10;
  second.id->index = 999;
  bench.cwd.script = {packet, second};
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 2);
  const CtaId& id = bench.starts[0].packet.id;
  CHECK(id.cta == Coord{3, 4, 5});
  CHECK(id.index == 12'345);
  CHECK(id.cga == 77);
  CHECK(id.rank == 2);
  CHECK(id.cga_size == 4);
  CHECK(bench.starts[1].packet.id.index == 999);
  CHECK(bench.starts[0].cycle == kThere);
  CHECK(bench.starts[1].cycle == kThere);
  CHECK(bench.stat("mpc0.raster_updates") == 0);
  packet.sm_mask = 0b11;
  packet.num_ctas = 2;
  bench.cwd.script.push_back(packet);
  bench.cwd.start(1000);
  CHECK_THROWS_WITH(run_until_idle(), Contains("several CTAs has one id"));
}

TEST_CASE("a late joiner goes on from the coordinate that it is told", "[gpc][CWD-42]") {
  // Coordinates that a follower from the start would not have at these places: only the packet can have told them.
  GpcParams params = plain();
  params.mpc = GENERATE(heddle::gpc::MpcPer::sm, heddle::gpc::MpcPer::tpc);
  GpcBench bench(uneven(), params);
  const Dim3 grid{10, 10, 10};
  BenchLaunch packet = bench.launch(0, 0b0000'1111, 40);
  packet.shape.grid = grid;
  packet.sync.emplace();
  packet.sync->tpcs = 0b0110;  // the TPC of SM 2 and that of SMs 3, 4, 5
  packet.sync->outermost = {8, 9, 3};
  BenchLaunch next = bench.launch(0, 0b0010'0101, 52);  // SM 5 started nothing when its TPC was told
  next.shape.grid = grid;
  bench.cwd.script = {packet, next};
  bench.cwd.start(0);
  run_until_idle();
  std::map<std::uint32_t, std::vector<Coord>> ids;
  for (const Start& start : bench.starts) ids[start.sm].push_back(start.packet.id.cta);
  CHECK(ids[0] == std::vector<Coord>{{0, 4, 0}, {2, 5, 0}});
  CHECK(ids[1] == std::vector<Coord>{{1, 4, 0}});
  CHECK(ids[2] == std::vector<Coord>{{0, 0, 4}, {1, 1, 4}});  // two places after (8,9,3)
  CHECK(ids[3] == std::vector<Coord>{{1, 0, 4}});
  CHECK(ids[5] == std::vector<Coord>{{2, 1, 4}});
  bench.expect_idle();
}

TEST_CASE("a late joiner is told the outermost CGA, and knows the rank in it", "[gpc][CWD-42]") {
  GpcBench bench(uneven(), plain());
  ClusterShape cluster;
  cluster.of(CgaLevel::gpu) = {3, 2, 1};
  // GPU_CGAs of 6 CTAs; 8 of them in a row.
  BenchLaunch packet = bench.launch(0, 0b0000'0011, 6 * 9 + 4);
  packet.shape = raster_shape({24, 8, 1}, cluster, 0);
  packet.listeners = 0b1110;  // all but the TPC of SMs 0 and 1 have heard the packets before
  BenchLaunch second = bench.launch(0, 0b0011'1111, 6 * 10);
  second.shape = packet.shape;
  bench.cwd.script = {packet, second};
  const bool told = GENERATE(true, false);
  bench.cwd.tamper = [told](std::vector<LaunchPacket>& packets) {
    for (LaunchPacket& heard : packets) {
      if (heard.virtual_gpc != kVirtualGpc || heard.listeners != 0b1110) continue;
      heard.listeners = 0b1111;
      if (told) heard.sync = LaunchPacket::Sync{0b0001, {1, 1, 0}, 4};
    }
  };
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 8);
  if (told) {
    CHECK(wrong_ids(bench, bench.cwd.script, packet.shape) == 0);
    CHECK(bench.starts[0].packet.id.cta == Coord{4, 3, 0});
  } else {
    CHECK(wrong_ids(bench, bench.cwd.script, packet.shape) == 4);
  }
}

TEST_CASE("who has not listened and is not told has wrong ids", "[gpc][CWD-35][CWD-42]") {
  GpcParams params = plain();
  params.mpc = GENERATE(heddle::gpc::MpcPer::sm, heddle::gpc::MpcPer::tpc);
  GpcBench bench(uneven(), params);
  const Dim3 grid{4, 5, 6};
  // TPC 2, SMs 3 to 5, is away while 21 CTAs of the grid are launched.
  for (std::uint64_t i = 0; i < 8; ++i) {
    BenchLaunch packet = bench.launch(0, i == 1 || i == 2 ? 0b0000'0110 : 0b0010'1010, i * 11);
    packet.shape.grid = grid;
    if (i == 1 || i == 2) packet.listeners = 0b1011;
    bench.cwd.script.push_back(packet);
  }
  const bool told = GENERATE(true, false);
  CAPTURE(told);
  if (told) bench.cwd.script[3].sync = LaunchPacket::Sync{0b0100, coord_of(33, grid), 0};
  bench.cwd.start(0);
  run_until_idle();
  const std::uint32_t wrong = wrong_ids(bench, bench.cwd.script, bench.cwd.script[0].shape);
  CHECK(wrong == (told ? 0 : 2 * 5));  // SMs 3 and 5, in the last five packets
}

TEST_CASE("a broadcast that is lost, late or out of order makes ids wrong", "[gpc][CWD-35]") {
  enum class Evil { nothing, lost, swapped, first_lost, twice };
  const Evil evil = GENERATE(Evil::nothing, Evil::lost, Evil::swapped, Evil::first_lost, Evil::twice);
  CAPTURE(static_cast<int>(evil));
  GpcBench bench(uneven(), plain());
  const Dim3 grid{7, 5, 9};
  for (std::uint64_t i = 0; i < 12; ++i) {
    BenchLaunch packet = bench.launch(0, 0b0101'0011, 3 + i * 11);
    packet.shape.grid = grid;
    bench.cwd.script.push_back(packet);
  }
  std::uint32_t which = 0;
  bench.cwd.tamper = [&](std::vector<LaunchPacket>& packets) {
    const std::uint32_t number = which++;
    REQUIRE(packets.size() == 2);  // one of another GPC, and one of this one
    if (evil == Evil::first_lost && number == 0) packets.erase(packets.begin());
    if (number != 5) return;
    if (evil == Evil::lost) packets.erase(packets.begin());
    if (evil == Evil::swapped) std::swap(packets[0], packets[1]);
    if (evil == Evil::twice) packets.insert(packets.begin(), packets.front());
  };
  bench.cwd.start(0);
  run_until_idle();
  const std::uint32_t wrong = wrong_ids(bench, bench.cwd.script, bench.cwd.script[0].shape);
  switch (evil) {
    case Evil::nothing:
      CHECK(wrong == 0);
      break;
    case Evil::swapped:
      CHECK(wrong == 4);  // those that came too early
      break;
    case Evil::first_lost:
      CHECK(wrong == 12 * 4);
      break;
    default:
      CHECK(wrong == 7 * 4);  // all from there on
      break;
  }
}

TEST_CASE("the end-of-CGA mark takes a follower to the next CGA", "[gpc][CWD-30][CWD-35]") {
  const bool marked = GENERATE(true, false);
  CAPTURE(marked);
  GpcBench bench(uneven(), plain());
  ClusterShape cluster;
  cluster.of(CgaLevel::gpc) = {5, 1, 1};
  const heddle::arch::RasterShape shape = raster_shape({100, 3, 1}, cluster, 0);
  for (std::uint64_t i = 0; i < 4; ++i) {
    BenchLaunch packet = bench.launch(0, 0b0001'1111, i * 15);
    packet.shape = shape;
    packet.cga_ctas = 5;
    packet.cga_first = true;
    packet.sequence = i;
    bench.cwd.script.push_back(packet);
  }
  std::uint32_t which = 0;
  bench.cwd.tamper = [&](std::vector<LaunchPacket>& packets) {
    if (which++ == 2 && !marked) packets.front().last = false;
  };
  bench.cwd.start(0);
  run_until_idle();
  CHECK((wrong_ids(bench, bench.cwd.script, shape) > 0) == !marked);
}

TEST_CASE("concurrent grids do not disturb each other, and a new one begins anew", "[gpc][CWD-42]") {
  GpcBench bench(uneven(), plain());
  bench.duration = [](std::uint64_t) { return Cycle{10}; };
  const std::vector<Dim3> grids{{4, 100, 1}, {7, 100, 1}, {5, 100, 1}};
  std::vector<std::uint64_t> at(3, 0);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Coord>> wanted;  // by SM and operation
  const auto want = [&](const BenchLaunch& packet) {
    std::uint64_t position = packet.position;
    for (std::uint64_t rest = packet.sm_mask; rest != 0; rest &= rest - 1, ++position) {
      const Dim3& grid = packet.shape.grid;
      wanted[{static_cast<std::uint32_t>(heddle::bits::lowest(rest)), packet.operation}].push_back(
          {static_cast<std::uint32_t>(position % grid.x), static_cast<std::uint32_t>(position / grid.x % grid.y),
           static_cast<std::uint32_t>(position / grid.x / grid.y)});
    }
    bench.cwd.script.push_back(packet);
  };
  for (std::uint32_t round = 0; round < 12; ++round) {
    const std::uint32_t which = round % 3;
    BenchLaunch packet = bench.launch(which, round % 2 == 0 ? 0b1100'0011 : 0b1000'0101, at[which]);
    packet.shape.grid = grids[which];
    at[which] += packet.num_ctas + 5;  // CTAs of other GPCs
    want(packet);
  }
  BenchLaunch fresh = bench.launch(1, 0b11, 0);  // another grid in slot 1
  fresh.operation = 555;
  fresh.shape.grid = {1, 1, 9};
  want(fresh);
  bench.cwd.start(0);
  run_until_idle();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Coord>> known;
  for (const Start& start : bench.starts) {
    known[{start.sm, start.packet.tag.operation}].push_back(start.packet.id.cta);
  }
  CHECK(known == wanted);
  bench.expect_idle();
}

TEST_CASE("delta overflows and decompositions are counted", "[gpc][CWD-41]") {
  GpcParams params = plain();
  params.delta_bits = 4;  // 15 at most
  GpcBench bench(uneven(), params);
  bench.cwd.others.split = 9;
  bench.cwd.script = {bench.launch(0, 0b01, 0),    // place 0
                      bench.launch(0, 0b01, 15),   // fits
                      bench.launch(0, 0b11, 32),   // 17 places on: full once; 33 follows directly
                      bench.launch(0, 0b01, 97)};  // 64 places on from 33: full four times, and nothing is left
  bench.cwd.start(0);
  run_until_idle();
  CHECK(wrong_ids(bench, bench.cwd.script, bench.cwd.script[0].shape) == 0);
  CHECK(bench.stat("mpc0.raster_updates") == 3);
  CHECK(bench.stat("mpc0.delta_overflows") == 5);
  CHECK(bench.stat("mpc1.raster_updates") == 0);
  CHECK(bench.stat("mpc1.delta_overflows") == 6);  // 97 places and one

  // CGAs are counted, not CTAs: the three CTAs of one CGA take one update.
  ClusterShape cluster;
  cluster.of(CgaLevel::gpu) = {10, 1, 1};
  BenchLaunch packet = bench.launch(1, 0b11, 170);
  packet.further_masks[0] = 0b10;
  packet.num_ctas = 3;
  packet.shape = raster_shape({1000, 1, 1}, cluster, 0);
  bench.cwd.script.push_back(packet);
  bench.cwd.start(1000);
  run_until_idle();
  CHECK(bench.stat("mpc0.raster_updates") == 4);
  CHECK(bench.stat("mpc0.delta_overflows") == 6);
  CHECK(bench.starts.back().packet.id.rank == 2);
}

TEST_CASE("random grids, shared with other GPCs, late joiners: ids equal division", "[gpc][CWD-40][CWD-41][CWD-42]") {
  std::uint32_t late = 0;
  for (const std::uint64_t seed : seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    GpcParams params;
    params.mpc = random.chance(50) ? heddle::gpc::MpcPer::sm : heddle::gpc::MpcPer::tpc;
    params.mpc_queue = random.between(1, 3);
    params.raster_cycles = random.below(3);
    params.delta_bits = random.chance(50) ? random.between(1, 5) : random.between(1, 63);
    params.divide_cycles = random.below(3) / 2.0;
    params.packets = random.chance(50) ? 0 : random.between(100, 3000) / 1000.0;
    params.mpc_launches = random.chance(50) ? 0 : random.between(100, 3000) / 1000.0;
    params.cta_starts = random.chance(50) ? 0 : random.between(100, 3000) / 1000.0;
    GpcBench bench(random.shape(1), params, random.chance(20) ? TimingMode::lt : TimingMode::at,
                   random.chance(50) ? 0 : 1024, random.between(1, 8));
    bench.cwd.others.split = random.chance(50) ? 0 : random.between(1, 40);
    bench.duration = [](std::uint64_t index) { return Cycle{1 + index * 7919 % 60}; };
    struct Task {
      Nest nest;
      std::uint64_t at = 0;
      std::uint64_t joined = ~std::uint64_t{0};  // TPCs that have heard all of it, or were told
    };
    std::vector<Task> tasks(3);
    std::uint64_t listening = ~std::uint64_t{0};  // TPCs
    const std::uint64_t tpcs = (std::uint64_t{1} << bench.gpc.tpcs.size()) - 1;
    bench.cwd.tamper = [tpcs](std::vector<LaunchPacket>& packets) {  // nothing comes where nobody listens
      packets.erase(std::remove_if(packets.begin(), packets.end(),
                                   [tpcs](const LaunchPacket& packet) { return (packet.listeners & tpcs) == 0; }),
                    packets.end());
    };
    for (Task& task : tasks) task.nest = random_nest(random);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<CtaId>> wanted;  // by SM and slot
    std::size_t total = 0;
    for (std::uint32_t p = 0; p < 100; ++p) {
      if (random.chance(10)) listening = random.chance(50) ? ~std::uint64_t{0} : random.next();
      const std::uint32_t slot = random.below(tasks.size());
      Task& task = tasks[slot];
      const std::uint64_t position = task.at + (random.chance(60) ? 0 : random.below(80));  // CTAs of other GPCs
      const std::uint64_t end = task.nest.full.grid.count();
      BenchLaunch packet;
      packet.shape = random.chance(50) ? task.nest.full : task.nest.smaller;
      const std::uint64_t unit = raster_unit(packet.shape);
      // A packet lies in one outermost CGA.
      std::uint64_t room = packet.shape.levels > 0 ? unit - position % unit : 64;
      std::uint64_t mask = 0;
      for (std::uint32_t t = 0; t < bench.gpc.tpcs.size(); ++t) {
        for (std::uint32_t i = 0; i < bench.gpc.tpcs[t].sms; ++i) {
          if ((listening >> t & 1) == 0 || room == 0 || random.chance(50)) continue;
          mask |= std::uint64_t{1} << (bench.gpc.tpcs[t].first_sm + i);
          --room;
        }
      }
      const auto ctas = static_cast<std::uint64_t>(__builtin_popcountll(mask));
      if (mask == 0 || position + ctas > end) continue;
      const heddle::arch::RasterShape shape = packet.shape;
      packet = bench.launch(slot, mask, position);
      packet.shape = shape;
      packet.listeners = listening;
      task.joined &= listening;
      LaunchPacket::Sync sync{0, coord_of(position / unit, raster_extents(shape)),
                              static_cast<std::uint32_t>(position % unit)};
      for (std::uint32_t t = 0; t < bench.gpc.tpcs.size(); ++t) {
        const Topology::Tpc& tpc = bench.gpc.tpcs[t];
        if ((mask >> tpc.first_sm & ((std::uint64_t{1} << tpc.sms) - 1)) == 0) continue;
        if ((task.joined >> t & 1) == 0) sync.tpcs |= std::uint64_t{1} << t;
      }
      if (sync.tpcs != 0) packet.sync = sync;
      late += packet.sync ? 1 : 0;
      task.joined |= sync.tpcs;
      std::uint64_t place = position;
      for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1, ++place, ++total) {
        wanted[{static_cast<std::uint32_t>(heddle::bits::lowest(rest)), slot}].push_back(resolve(shape, place));
      }
      task.at = position + ctas;
      bench.cwd.script.push_back(packet);
    }
    bench.cwd.start(0);
    run_until_idle();
    REQUIRE(bench.starts.size() == total);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> next;
    for (const Start& start : bench.starts) {
      const auto key = std::pair(start.sm, std::uint32_t{start.packet.tag.slot});
      const CtaId& expected = wanted.at(key).at(next[key]++);
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
