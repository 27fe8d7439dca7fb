// Rasterisation: ids by delta against direct division, and nested launch orders against enumeration.
#include "arch/raster.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace arch_raster_test {

using namespace heddle::arch;
using heddle::CheckFailed;
using heddle::test::Random;

namespace {

using Triple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

Triple triple(const Coord& coord) { return {coord.x, coord.y, coord.z}; }

// CWD-40, straight from the text: x runs fastest.
Triple by_division(std::uint64_t index, const Dim3& grid) {
  const std::uint64_t plane = std::uint64_t{grid.x} * grid.y;
  return {index % plane % grid.x, index % plane / grid.x, index / plane};
}

// Extents of every size up to the limits of 32, 16 and 16 bits.
Dim3 random_grid(Random& random) {
  const auto extent = [&random](std::uint64_t limit) {
    const std::uint64_t top = std::min<std::uint64_t>(limit, std::uint64_t{1} << random.between(0, 31));
    return random.chance(10) ? static_cast<std::uint32_t>(limit) : random.between(1, top);
  };
  return {extent(2'147'483'647), extent(65'535), extent(65'535)};
}

// All CTAs of the grid in launch order, by loops: the outermost CGAs over the grid, and so on inwards.
void enumerate(const std::vector<Dim3>& nest, std::size_t level, const Coord& origin, const Dim3& extents,
               std::vector<Coord>& out) {
  const Dim3 step = level < nest.size() ? nest[level] : Dim3{1, 1, 1};
  for (std::uint32_t z = 0; z < extents.z; z += step.z) {
    for (std::uint32_t y = 0; y < extents.y; y += step.y) {
      for (std::uint32_t x = 0; x < extents.x; x += step.x) {
        const Coord here{origin.x + x, origin.y + y, origin.z + z};
        if (level == nest.size()) {
          out.push_back(here);
        } else {
          enumerate(nest, level + 1, here, step, out);
        }
      }
    }
  }
}

struct Kind {
  ClusterShape cluster;
  std::uint32_t size = 0;
  std::vector<Dim3> nest;    // as the specification nests it
  Dim3 ranked = kNoExtents;  // the CGA whose ranks CTAs know
  Dim3 grid;
};

// A grid of that kind: bit 3 GPU, 2 uGPU, 1 GPC, 0 CPC; with or without a fallback of the outermost size.
Kind random_kind(Random& random, std::uint32_t levels, bool fallback) {
  const auto multiple = [&random](const Dim3& inner) {
    return Dim3{inner.x * random.between(1, 3), inner.y * random.between(1, 2), inner.z * random.between(1, 2)};
  };
  Kind kind;
  Dim3 inner{1, 1, 1};
  for (const CgaLevel level : {CgaLevel::cpc, CgaLevel::gpc, CgaLevel::ugpu, CgaLevel::gpu}) {
    const auto bit = static_cast<std::uint32_t>(level);
    if ((levels >> bit & 1) == 0) continue;
    const bool outermost = levels >> bit == 1;
    if (outermost && fallback) {
      inner = multiple(inner);
      kind.cluster.fallback[0] = inner;
      kind.size = 1;
      kind.nest.insert(kind.nest.begin(), inner);
      inner.x *= 2;  // the full size is larger
    } else {
      inner = multiple(inner);
    }
    kind.cluster.of(level) = inner;
    kind.nest.insert(kind.nest.begin(), inner);
  }
  // The innermost CGA above CPC_CGAs is ranked.
  if (!kind.nest.empty()) kind.ranked = kind.nest[kind.nest.size() - ((levels & 1) != 0 ? 2 : 1)];
  kind.grid = multiple(inner);
  return kind;
}

const std::vector<std::uint32_t> kKinds{0b0000, 0b0010, 0b0011, 0b1000, 0b0100, 0b1010,
                                        0b1011, 0b0110, 0b0111, 0b1110, 0b1111};

}  // namespace

TEST_CASE("CTA (7,3,0) of a grid of 3x2x1 CGAs has linear id 4", "[arch][CWD-40]") {
  ClusterShape cluster;
  cluster.of(CgaLevel::gpc) = {3, 2, 1};
  const Dim3 grid{18, 12, 1};
  const RasterShape shape = raster_shape(grid, cluster, 0);
  CHECK(raster_unit(shape) == 6);
  CHECK(raster_extents(shape) == Dim3{6, 6, 1});
  // CGA (2,1) is the ninth of its grid of 6x6; its fifth CTA is (1,1) in it.
  const CtaId id = resolve(shape, 8 * 6 + 4);
  CHECK(id.cta == Coord{7, 3, 0});
  CHECK(id.rank == 4);
  CHECK(id.cga == 8);
  CHECK(id.cga_size == 6);
  CHECK(id.index == 7 + 18 * 3);
}

TEST_CASE("coordinates and linear ids of a plain grid", "[arch][CWD-40]") {
  for (const std::uint64_t seed : heddle::test::seeds(5000)) {
    CAPTURE(seed);
    Random random(seed);
    const Dim3 grid = random_grid(random);
    const std::uint64_t index = random.chance(10) ? grid.count() - 1 : random.next() % grid.count();
    const Coord coord = coord_of(index, grid);
    REQUIRE(triple(coord) == by_division(index, grid));
    REQUIRE(linear_of(coord, grid) == index);
    const CtaId id = resolve(raster_shape(grid, {}, 0), index);
    REQUIRE(id.cta == coord);
    REQUIRE(id.index == index);
    REQUIRE(id.cga == index);
    REQUIRE(id.rank == 0);
    REQUIRE(id.cga_size == 1);
  }
}

TEST_CASE("adding deltas equals direct division up to 32, 16 and 16 bits", "[arch][CWD-40][CWD-41]") {
  for (const std::uint64_t seed : heddle::test::seeds(10'000)) {
    CAPTURE(seed);
    Random random(seed);
    const Dim3 grid = random_grid(random);
    const std::uint64_t count = grid.count();
    Coord current;
    std::uint64_t position = 0;
    for (int step = 0; step < 40 && position + 1 < count; ++step) {
      const std::uint64_t most =
          random.chance(20) ? count - 1 - position : std::min<std::uint64_t>(count - 1 - position, 500);
      const std::uint64_t delta = random.next() % (most + 1);
      current = advanced(current, delta, grid);
      position += delta;
      REQUIRE(triple(current) == by_division(position, grid));
    }
  }
}

TEST_CASE("counting on by any number adds with carries", "[arch][CWD-41]") {
  const Dim3 grid{5, 3, 4};
  for (std::uint64_t from = 0; from < 60; ++from) {
    for (std::uint64_t count = 0; from + count <= 60; ++count) {
      const Coord sum = advanced(coord_of(from, grid), count, grid);
      CAPTURE(from, count);
      REQUIRE(triple(sum) == by_division(from + count, grid));  // the end is (0, 0, 4)
    }
    REQUIRE(advanced(coord_of(from, grid), 75 - from, grid) == Coord{0, 0, 5});
    REQUIRE(advanced(coord_of(from, grid), 15 * 65'537 - from, grid) == Coord{0, 0, 1});
  }
}

TEST_CASE("nested launch orders of every grid kind, by enumeration", "[arch][CWD-40][CWD-10]") {
  for (const std::uint64_t seed : heddle::test::seeds(60)) {
    Random random(seed);
    for (const std::uint32_t levels : kKinds) {
      for (const bool fallback : {false, true}) {
        if (fallback && levels == 0) continue;
        CAPTURE(seed, levels, fallback);
        const Kind kind = random_kind(random, levels, fallback);
        REQUIRE(why_malformed(kind.grid, kind.cluster, 1U << 20).empty());
        const RasterShape shape = raster_shape(kind.grid, kind.cluster, kind.size);
        REQUIRE(shape.levels == kind.nest.size());
        std::vector<Coord> order;
        enumerate(kind.nest, 0, {}, kind.grid, order);
        REQUIRE(order.size() == kind.grid.count());
        std::set<std::uint64_t> seen;
        const std::uint64_t unit = raster_unit(shape);
        Coord outermost;
        for (std::uint64_t position = 0; position < order.size(); ++position) {
          CAPTURE(position);
          const CtaId id = resolve(shape, position);
          const Coord& cta = order[position];
          REQUIRE(id.cta == cta);
          REQUIRE(id.index == cta.x + std::uint64_t{kind.grid.x} * (cta.y + std::uint64_t{kind.grid.y} * cta.z));
          REQUIRE(seen.insert(id.index).second);
          if (levels != 0) {
            const Dim3& cga = kind.ranked;
            const Dim3 cgas{kind.grid.x / cga.x, kind.grid.y / cga.y, kind.grid.z / cga.z};
            REQUIRE(id.cga == cta.x / cga.x + cgas.x * (cta.y / cga.y + cgas.y * (cta.z / cga.z)));
            REQUIRE(id.rank == cta.x % cga.x + cga.x * (cta.y % cga.y + cga.y * (cta.z % cga.z)));
            REQUIRE(id.cga_size == cga.count());
          }
          // And as an SM does it: by counting outermost CGAs.
          if (position > 0 && position % unit == 0) outermost = advanced(outermost, 1, raster_extents(shape));
          const CtaId followed = resolve(shape, outermost, position % unit);
          REQUIRE(followed.index == id.index);
          REQUIRE(followed.rank == id.rank);
          REQUIRE(followed.cga == id.cga);
        }
        REQUIRE(seen.size() == kind.grid.count());
      }
    }
  }
}

namespace {

// Tile by tile, by loops.
std::vector<Triple> by_tiles(const Dim3& extents, std::uint32_t tile_x, std::uint32_t tile_y) {
  std::vector<Triple> order;
  for (std::uint32_t z = 0; z < extents.z; ++z) {
    for (std::uint32_t top = 0; top < extents.y; top += tile_y) {
      for (std::uint32_t left = 0; left < extents.x; left += tile_x) {
        for (std::uint32_t y = top; y < std::min(top + tile_y, extents.y); ++y) {
          for (std::uint32_t x = left; x < std::min(left + tile_x, extents.x); ++x) order.emplace_back(x, y, z);
        }
      }
    }
  }
  return order;
}

std::vector<Triple> in_order(const RasterShape& shape) {
  std::vector<Triple> order;
  for (std::uint64_t n = 0; n < raster_extents(shape).count(); ++n) order.push_back(triple(coord_in_order(shape, n)));
  return order;
}

std::uint64_t apart(const Triple& a, const Triple& b) {
  const auto distance = [](std::uint64_t p, std::uint64_t q) { return p > q ? p - q : q - p; };
  return distance(std::get<0>(a), std::get<0>(b)) + distance(std::get<1>(a), std::get<1>(b)) +
         distance(std::get<2>(a), std::get<2>(b));
}

}  // namespace

TEST_CASE("rows, tiles and a Hilbert curve are orders of a grid", "[arch][CWD-40]") {
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    const Dim3 grid{random.between(1, 20), random.between(1, 20), random.between(1, 3)};
    CAPTURE(grid.x, grid.y, grid.z);
    const auto tile_x = static_cast<std::uint8_t>(random.between(1, 25));
    const auto tile_y = static_cast<std::uint8_t>(random.between(1, 25));
    REQUIRE(in_order(raster_shape(grid, {}, 0)) == by_tiles(grid, 1000, 1));
    REQUIRE(in_order(raster_shape(grid, {}, 0, {RasterOrder::Kind::tiles, tile_x, tile_y})) ==
            by_tiles(grid, tile_x, tile_y));
    const std::vector<Triple> curve = in_order(raster_shape(grid, {}, 0, {RasterOrder::Kind::hilbert}));
    REQUIRE(std::set<Triple>(curve.begin(), curve.end()).size() == grid.count());  // each once
    for (std::size_t i = 1; i < curve.size(); ++i) REQUIRE(std::get<2>(curve[i]) >= std::get<2>(curve[i - 1]));
    for (const Triple& at : curve) REQUIRE((std::get<0>(at) < grid.x && std::get<1>(at) < grid.y));
  }
}

TEST_CASE("a Hilbert curve goes from neighbour to neighbour", "[arch][CWD-40]") {
  for (std::uint32_t side = 1; side <= 64; side *= 2) {
    CAPTURE(side);
    const std::vector<Triple> curve = in_order(raster_shape({side, side, 1}, {}, 0, {RasterOrder::Kind::hilbert}));
    for (std::size_t i = 1; i < curve.size(); ++i) REQUIRE(apart(curve[i - 1], curve[i]) == 1);
    // Every aligned square of a power of two is walked in one piece.
    for (std::size_t edge = 2; edge <= side; edge *= 2) {
      for (std::size_t i = 0; i < curve.size(); ++i) {
        const std::size_t first = i / (edge * edge) * (edge * edge);
        REQUIRE(apart(curve[first], curve[i]) <= 2 * (edge - 1));
      }
    }
  }
}

// [0176]: the order of coordinates is determined; whoever counts what starts knows them. A counter counts in rows, and
// the order is applied to what it says.
TEST_CASE("in any order, a counter that follows and the position in the launch give the same ids",
          "[arch][CWD-40][CWD-43]") {
  std::uint32_t elsewhere = 0;
  for (const std::uint64_t seed : heddle::test::seeds(120)) {
    Random random(seed);
    for (const std::uint32_t levels : kKinds) {
      const Kind kind = random_kind(random, levels, levels != 0 && random.chance(50));
      RasterOrder order{RasterOrder::Kind::hilbert};
      if (random.chance(50)) {
        order = {RasterOrder::Kind::tiles, static_cast<std::uint8_t>(random.between(1, 5)),
                 static_cast<std::uint8_t>(random.between(1, 5))};
      }
      CAPTURE(seed, levels, static_cast<int>(order.kind));
      const RasterShape shape = raster_shape(kind.grid, kind.cluster, kind.size, order);
      const RasterShape rows = raster_shape(kind.grid, kind.cluster, kind.size);
      const std::uint64_t unit = raster_unit(shape);
      Coord counted;  // counters count rows, whatever the order
      std::set<std::uint64_t> seen;
      for (std::uint64_t position = 0; position < kind.grid.count(); ++position) {
        if (position > 0 && position % unit == 0) counted = advanced(counted, 1, raster_extents(shape));
        const CtaId id = resolve(shape, position);
        REQUIRE(resolve(shape, counted, position % unit).index == id.index);
        REQUIRE(seen.insert(id.index).second);
        // What starts together stays together: the same CGA as in rows, somewhere else.
        REQUIRE(id.rank == resolve(rows, position).rank);
        elsewhere += id.index != resolve(rows, position).index ? 1 : 0;
      }
    }
  }
  CHECK(elsewhere > 1000);
}

TEST_CASE("ids in nested grids up to the limits", "[arch][CWD-40]") {
  for (const std::uint64_t seed : heddle::test::seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    ClusterShape cluster;
    const Dim3 gpc{random.between(1, 4), random.between(1, 2), random.between(1, 2)};
    const Dim3 gpu{gpc.x * random.between(1, 9), gpc.y * random.between(1, 5), gpc.z * random.between(1, 5)};
    cluster.of(CgaLevel::gpc) = gpc;
    cluster.of(CgaLevel::gpu) = gpu;
    const Dim3 grid{2'147'483'647 / gpu.x * gpu.x, 65'535 / gpu.y * gpu.y, 65'535 / gpu.z * gpu.z};
    const RasterShape shape = raster_shape(grid, cluster, 0);
    const std::uint64_t position = random.chance(5) ? grid.count() - 1 : random.next() % grid.count();
    const CtaId id = resolve(shape, position);
    // From the inside out: which GPU_CGA, which GPC_CGA of it, which CTA of that.
    const auto [ux, uy, uz] = by_division(position / gpu.count(), {grid.x / gpu.x, grid.y / gpu.y, grid.z / gpu.z});
    const auto [cx, cy, cz] =
        by_division(position % gpu.count() / gpc.count(), {gpu.x / gpc.x, gpu.y / gpc.y, gpu.z / gpc.z});
    const auto [tx, ty, tz] = by_division(position % gpc.count(), gpc);
    REQUIRE(triple(id.cta) ==
            Triple{ux * gpu.x + cx * gpc.x + tx, uy * gpu.y + cy * gpc.y + ty, uz * gpu.z + cz * gpc.z + tz});
    REQUIRE(id.rank == tx + gpc.x * (ty + gpc.y * tz));
    REQUIRE(coord_of(id.index, grid) == id.cta);
  }
}

TEST_CASE("a raster shape names its levels from the outside in", "[arch][CWD-10]") {
  ClusterShape cluster;
  cluster.of(CgaLevel::gpu) = {16, 4, 1};
  cluster.of(CgaLevel::ugpu) = {8, 4, 1};
  cluster.of(CgaLevel::gpc) = {4, 2, 1};
  cluster.of(CgaLevel::cpc) = {2, 1, 1};
  cluster.fallback[0] = {8, 4, 1};
  const RasterShape full = raster_shape({32, 4, 1}, cluster, 0);
  CHECK(full.levels == 4);
  CHECK(full.cga_level == 2);
  CHECK(full.nest[0] == Dim3{16, 4, 1});
  CHECK(full.nest[3] == Dim3{2, 1, 1});
  const RasterShape smaller = raster_shape({32, 4, 1}, cluster, 1);
  CHECK(smaller.levels == 5);
  CHECK(smaller.cga_level == 3);
  CHECK(smaller.nest[1] == Dim3{8, 4, 1});
  CHECK(raster_unit(smaller) == raster_unit(full));  // followers count in the full size
  CHECK_THROWS_AS(raster_shape({32, 4, 1}, cluster, 2), CheckFailed);

  ClusterShape gpc;
  gpc.of(CgaLevel::gpc) = {4, 2, 1};
  gpc.of(CgaLevel::cpc) = {2, 1, 1};
  gpc.fallback[0] = {2, 2, 1};
  CHECK(raster_shape({8, 2, 1}, gpc, 0).cga_level == 0);
  CHECK(raster_shape({8, 2, 1}, gpc, 1).cga_level == 1);  // the smaller GPC_CGA took its place
  CHECK(raster_shape({8, 2, 1}, {}, 0).levels == 0);
}

}  // namespace arch_raster_test
