// The record of what the MPCs of a GPC have heard, against delta counters of which every MPC has its own and adds every
// launch packet to it, as the text has it ([0177], [0178]).
#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "gpc/launch_record.h"
#include "gpc/raster_unit.h"
#include "support/random.h"

namespace gpc_heard_launches_test {

using heddle::arch::Coord;
using heddle::arch::Dim3;
using heddle::arch::RasterShape;
using heddle::gpc::LaunchRecord;
using heddle::gpc::RasterUnit;
using heddle::protocol::LaunchPacket;
using heddle::protocol::RasterStep;
using heddle::test::Random;

namespace {

// The raster state of one MPC for one slot. Everything that it hears changes it at once.
struct Counter {
  std::uint64_t current = 0;  // outermost CGA whose coordinate is known, by its place in the grid
  std::uint64_t delta = 0;
  std::uint32_t within = 0;
  std::uint64_t overflows = 0;

  void add(std::uint64_t units, std::uint64_t limit) {
    delta += units;
    for (; delta >= limit; delta -= limit) {
      current += limit;
      ++overflows;
    }
  }
  void read() {
    current += delta;
    delta = 0;
  }
};

}  // namespace

TEST_CASE("one record knows what a delta counter in every MPC would", "[gpc][CWD-35][CWD-41]") {
  for (const std::uint64_t seed : heddle::test::seeds(500)) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<std::uint32_t> tpc_of;
    const std::uint32_t tpcs = random.between(1, 6);
    for (std::uint32_t t = 0; t < tpcs; ++t) tpc_of.insert(tpc_of.end(), random.between(1, 3), t);
    const auto mpcs = static_cast<std::uint32_t>(tpc_of.size());
    const std::uint32_t bits = random.between(1, 6);
    const std::uint64_t limit = std::uint64_t{1} << bits;
    LaunchRecord record(tpc_of, bits);
    std::vector<RasterUnit> units(mpcs, RasterUnit(bits, 0, 0));
    constexpr std::uint32_t kSlots = 2;
    std::vector<std::vector<Counter>> counters(kSlots, std::vector<Counter>(mpcs));
    std::vector<std::vector<std::uint64_t>> overflows(kSlots, std::vector<std::uint64_t>(mpcs, 0));
    std::vector<std::uint32_t> within(kSlots, 0);
    std::vector<bool> in_cga(kSlots, false);
    RasterShape shape;
    shape.grid = {random.between(1, 9), random.between(1, 9), 65'535};
    const std::uint32_t cga = random.between(2, 9);

    const auto place = [&shape](const Coord& coord) { return linear_of(coord, shape.grid); };
    // What is said to the MPC, and that it then stands where its counter does.
    const auto tell = [&](std::uint32_t slot, std::uint32_t mpc, const RasterStep& step) {
      units[mpc].follow(slot, shape, step);
      overflows[slot][mpc] += step.overflows;
      REQUIRE(place(units[mpc].current(slot)) == counters[slot][mpc].current);
      REQUIRE(overflows[slot][mpc] == counters[slot][mpc].overflows);
    };
    const auto settle = [&](std::uint32_t slot) {
      while (const auto mpc = record.due(slot)) tell(slot, *mpc, record.overflow(slot, *mpc));
      for (std::uint32_t m = 0; m < mpcs; ++m) REQUIRE(overflows[slot][m] == counters[slot][m].overflows);
    };
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) record.begin(slot, shape, ~std::uint64_t{0});
    for (int step = 0; step < 300; ++step) {
      const std::uint32_t slot = random.below(kSlots);
      const std::uint64_t listeners = random.chance(80) ? ~std::uint64_t{0} : random.next();
      const auto listens = [&](std::uint32_t mpc) { return (listeners >> tpc_of[mpc] & 1) != 0; };
      if (random.chance(5)) {
        in_cga[slot] = random.chance(50);
        within[slot] = 0;
        record.begin(slot, shape, ~std::uint64_t{0});
        for (std::uint32_t m = 0; m < mpcs; ++m) counters[slot][m] = {0, 0, 0, counters[slot][m].overflows};
        continue;
      }
      const std::uint32_t own = random.below(mpcs);
      if (random.chance(40) && listens(own)) {
        const RasterStep read = record.read(slot, own, 1, in_cga[slot]);
        Counter& counter = counters[slot][own];
        const std::uint64_t gathered = counter.delta;
        counter.read();
        REQUIRE(read.delta == gathered);
        REQUIRE(read.within == (in_cga[slot] ? counter.within : 0));
        tell(slot, own, read);
      }
      const std::uint32_t ctas =
          in_cga[slot] ? std::min(cga - within[slot], random.between(1, 4)) : random.between(1, 40);
      record.launch(slot, ctas, in_cga[slot], listeners);
      within[slot] += in_cga[slot] ? ctas : 0;
      const bool ends = in_cga[slot] && within[slot] == cga;
      if (ends) record.end_cga(slot, cga, listeners);
      if (ends) within[slot] = 0;
      for (std::uint32_t m = 0; m < mpcs; ++m) {
        if (!listens(m)) continue;
        Counter& counter = counters[slot][m];
        if (!in_cga[slot]) counter.add(ctas, limit);
        if (in_cga[slot]) counter.within += ctas;
        if (!ends || counter.within < cga) continue;  // who has missed a part does not know that it is over
        counter.add(1, limit);
        counter.within = 0;
      }
      settle(slot);
      if (random.chance(10)) {
        LaunchPacket::Sync sync;
        const std::uint64_t at = random.below(20'000);
        sync.outermost = coord_of(at, shape.grid);
        sync.within = in_cga[slot] ? within[slot] : 0;
        counters[slot][own] = {at, 0, sync.within, counters[slot][own].overflows};
        tell(slot, own, record.tell(slot, own, shape, sync));
      }
    }
  }
}

TEST_CASE("a grid begins for those who hear it", "[gpc][CWD-42]") {
  LaunchRecord record({0, 1}, 16);
  RasterShape shape;
  shape.grid = {10, 10, 10};
  record.begin(0, shape, 0b11);
  CHECK(record.read(0, 0, 1, false).fresh);
  CHECK_FALSE(record.read(0, 0, 1, false).fresh);
  record.launch(0, 7, false, 0b11);
  record.begin(0, shape, 0b01);  // TPC 1 does not listen
  record.launch(0, 5, false, 0b11);
  const RasterStep heard = record.read(0, 0, 1, false);
  CHECK(heard.fresh);
  CHECK(heard.delta == 5);
  const RasterStep stale = record.read(0, 1, 1, false);
  CHECK(stale.delta == 12);  // as if the old grid went on
  record.begin(0, shape, 0b11);
  CHECK(record.read(0, 1, 1, false).fresh);
  CHECK(record.read(0, 1, 1, false).delta == 0);
}

TEST_CASE("a delta counter has 1 to 63 bits", "[gpc][CWD-41]") {
  CHECK_THROWS_AS(LaunchRecord({0}, 0), heddle::CheckFailed);
  CHECK_THROWS_AS(LaunchRecord({0}, 64), heddle::CheckFailed);
  LaunchRecord widest({0}, 63);
  RasterUnit unit(63, 0, 0);
  RasterShape shape;
  shape.grid = {2'147'483'647, 65'535, 16};
  widest.begin(0, shape, 1);
  std::uint64_t left = shape.grid.count() - 1;
  for (; left > 0xFFFF'FFFF; left -= 0xFFFF'FFFF) widest.launch(0, 0xFFFF'FFFF, false, 1);
  widest.launch(0, static_cast<std::uint32_t>(left), false, 1);
  CHECK_FALSE(widest.due(0).has_value());
  unit.follow(0, shape, widest.read(0, 0, 1, false));
  CHECK(unit.current(0) == Coord{2'147'483'646, 65'534, 15});
}

TEST_CASE("a delta that is wider than its counter is seen in part", "[gpc][CWD-41]") {
  RasterUnit unit(4, 7, 2);
  RasterShape shape;
  shape.grid = {5, 50, 1};
  RasterStep step;
  step.fresh = true;
  step.delta = 18;  // nobody has said that the counter was full
  CHECK(unit.follow(3, shape, step) == 1);
  CHECK(unit.current(3) == Coord{2, 0, 0});
  step.overflows = 1;
  step.delta = 2;
  CHECK(unit.follow(3, shape, step) == 2);
  CHECK(unit.current(3) == Coord{3, 3, 0});
}

TEST_CASE("a raster unit divides and delivers one after another", "[gpc][CWD-41]") {
  RasterUnit unit(8, 10, 3);
  RasterShape shape;
  shape.grid = {4, 4, 400};
  RasterStep step;
  step.fresh = true;
  CHECK(unit.take(100) == 100);
  CHECK(unit.follow(0, shape, step) == 0);  // nothing to divide
  CHECK(unit.deliver() == 100);
  step.fresh = false;
  step.overflows = 2;
  step.delta = 9;
  CHECK(unit.take(101) == 103);
  CHECK(unit.follow(0, shape, step) == 3);
  CHECK(unit.deliver() == 133);
  CHECK(unit.go_on(0, shape) == 1);
  CHECK(unit.deliver() == 146);
  CHECK(unit.take(100) == 149);
  CHECK(unit.take(1000) == 1000);
  unit.reset();
  CHECK(unit.take(5) == 5);
}

}  // namespace gpc_heard_launches_test
