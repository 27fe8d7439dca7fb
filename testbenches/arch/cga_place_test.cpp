// The place of a CTA in its CGA of each level, against enumeration of the grid.
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/raster.h"
#include "support/random.h"

namespace arch_cga_place_test {

using namespace heddle::arch;
using heddle::test::Random;

// [0228], [0229]: coordinates in the grid become a CGA and a linear number in it, x fastest, at each level.
TEST_CASE("at each level every CGA has each rank once, in the order of its coordinates", "[arch][CGA-10]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    ClusterShape cluster;
    Dim3 unit{1, 1, 1};
    for (std::size_t level = 0; level < kCgaLevels; ++level) {
      if (random.chance(40)) continue;
      unit = {unit.x * random.between(1, 2), unit.y * random.between(1, 2), unit.z * random.between(1, 2)};
      cluster.extents[level] = unit;
    }
    const Dim3 grid{unit.x * random.between(1, 3), unit.y * random.between(1, 3), unit.z * random.between(1, 2)};
    std::uint32_t size = 0;
    if (cluster.any() && unit.x % 2 == 0 && random.chance(50)) {
      cluster.fallback[0] = {unit.x / 2, unit.y, unit.z};
      size = random.below(2);
    }
    for (std::size_t level = 0; level < kCgaLevels; ++level) {
      const auto its = static_cast<CgaLevel>(level);
      Dim3 extents{1, 1, 1};
      if (cluster.has(its)) extents = its == cluster.outermost() && size == 1 ? cluster.fallback[0] : cluster.of(its);
      std::map<std::uint64_t, std::uint32_t> next;  // rank, by CGA: coordinates are walked with x fastest
      for (std::uint32_t z = 0; z < grid.z; ++z) {
        for (std::uint32_t y = 0; y < grid.y; ++y) {
          for (std::uint32_t x = 0; x < grid.x; ++x) {
            const CgaPlace place = cga_place(grid, cluster, size, its, {x, y, z});
            REQUIRE(place.extents == extents);
            REQUIRE(place.rank == next[place.id]++);
          }
        }
      }
      REQUIRE(next.size() == grid.count() / extents.count());
      REQUIRE(next.rbegin()->first == next.size() - 1);
      for (const auto& [id, ranks] : next) REQUIRE(ranks == extents.count());
    }
  }
}

// Figure 12a of the text: CTA (7, 3, 0) of a grid of CGAs of 3 x 2 is number 4 of its CGA.
TEST_CASE("the example of the text", "[arch][CGA-10][CWD-40]") {
  ClusterShape cluster;
  cluster.of(CgaLevel::gpc) = {3, 2, 1};
  CHECK(cga_place({12, 6, 1}, cluster, 0, CgaLevel::gpc, {7, 3, 0}).rank == 4);
  CHECK(cga_place({12, 6, 1}, cluster, 0, CgaLevel::gpc, {7, 3, 0}).id == 6);
  CHECK(cga_place({12, 6, 1}, cluster, 0, CgaLevel::gpu, {7, 3, 0}).rank == 0);
  CHECK(cga_place({12, 6, 1}, cluster, 0, CgaLevel::gpu, {7, 3, 0}).id == 43);
}

}  // namespace arch_cga_place_test
