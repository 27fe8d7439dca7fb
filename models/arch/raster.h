// Rasterisation: which coordinates in the grid the CTAs have that start one after another (CWD-40 to CWD-42).
#pragma once

#include <array>
#include <cstdint>

#include "arch/cluster.h"

namespace heddle::arch {

// Coordinates in a grid: x of 32, y and z of 16 bits.
struct Coord {
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint32_t z = 0;

  bool operator==(const Coord& other) const { return x == other.x && y == other.y && z == other.z; }
  bool operator!=(const Coord& other) const { return !(*this == other); }
};

// By division, x fastest. index < extents.count().
Coord coord_of(std::uint64_t index, const Dim3& extents);
std::uint64_t linear_of(const Coord& coord, const Dim3& extents);
// `count` items further: the count is decomposed and added with carries (CWD-41). Beyond the end of the grid z goes on,
// and is cut to 16 bits.
Coord advanced(const Coord& from, std::uint64_t count, const Dim3& extents);

// How a grid is nested while it is rasterised: extents in CTAs, outermost CGA first. Plain data: packets carry it.
// Without levels, the grid is one of CTAs.
struct RasterShape {
  static constexpr std::size_t kMaxLevels = kCgaLevels + 1;
  Dim3 grid;
  std::array<Dim3, kMaxLevels> nest{kNoExtents, kNoExtents, kNoExtents, kNoExtents, kNoExtents};
  std::uint8_t levels = 0;
  std::uint8_t cga_level = 0;  // index into `nest` of the CGA whose ranks CTAs know: the innermost above CPC_CGAs
  RasterOrder order;
  std::uint8_t size = 0;   // size index of the outermost CGA: ClusterShape::size
  std::uint8_t sizes = 1;  // that the outermost CGAs of the grid can have: ClusterShape::sizes
};

// `size`: the size index of the outermost CGA in use, 0: the full one. A smaller size is a level below the full one.
RasterShape raster_shape(const Dim3& grid, const ClusterShape& cluster, std::uint32_t size,
                         const RasterOrder& order = {});

// What a CTA knows of itself (CWD-40).
struct CtaId {
  Coord cta;                // in the grid
  std::uint64_t index = 0;  // linear id in the grid, x fastest
  std::uint64_t cga = 0;    // linear id of its CGA in the grid of CGAs of that size; without CGAs: index
  std::uint32_t rank = 0;   // linear id in the CGA, x fastest; without CGAs: 0
  std::uint32_t cga_size = 1;
  std::uint8_t size = 0;  // size index of its outermost CGA
};

// The place of a CTA in its CGA of one level (CGA-10).
struct CgaPlace {
  std::uint64_t id = 0;    // linear id of the CGA in the grid of CGAs of that level and size
  std::uint32_t rank = 0;  // linear id of the CTA in it
  Dim3 extents;            // of the CGA, in CTAs
};
// Of a level that the grid does not have, the CTA is a CGA of its own.
CgaPlace cga_place(const Dim3& grid, const ClusterShape& cluster, std::uint32_t size, CgaLevel level, const Coord& cta);

// CTAs in a CGA of the outermost level (1 without CGAs): the raster counter counts these.
std::uint64_t raster_unit(const RasterShape& shape);
// The extents in which the outermost CGAs (or CTAs) lie: grid / outermost extents.
Dim3 raster_extents(const RasterShape& shape);
// The coordinate, in these extents, of the outermost CGA that starts as the n-th of the grid, from 0.
Coord coord_in_order(const RasterShape& shape, std::uint64_t nth);
// Of a CTA in the outermost CGA whose number in the launch order is that of `counted` in rows: what a raster counter
// gives, which counts in rows whatever the order. `within`: the CTAs of the CGA that start before.
CtaId resolve(const RasterShape& shape, const Coord& counted, std::uint64_t within);
// The same from the position in the launch order of the whole grid, by plain division: the reference, and what a
// central rasteriser sends (CWD-43).
CtaId resolve(const RasterShape& shape, std::uint64_t position);

}  // namespace heddle::arch
