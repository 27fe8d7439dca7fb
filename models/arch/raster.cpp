#include "arch/raster.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::arch {
namespace {

// inner extents divide outer ones
Dim3 divided(const Dim3& outer, const Dim3& inner) { return {outer.x / inner.x, outer.y / inner.y, outer.z / inner.z}; }

Coord quotient(const Coord& coord, const Dim3& extents) {
  return {coord.x / extents.x, coord.y / extents.y, coord.z / extents.z};
}

Coord remainder(const Coord& coord, const Dim3& extents) {
  return {coord.x % extents.x, coord.y % extents.y, coord.z % extents.z};
}

// Bands of `tile_y` rows, in each of them tiles of `tile_x` columns.
Coord in_tiles(std::uint64_t nth, const Dim3& extents, std::uint32_t tile_x, std::uint32_t tile_y) {
  const std::uint64_t band = nth / (std::uint64_t{extents.x} * tile_y);
  const std::uint64_t first_row = band * tile_y;
  const std::uint64_t rows = std::min<std::uint64_t>(tile_y, extents.y - first_row);
  nth -= first_row * extents.x;
  const std::uint64_t first_column = nth / (tile_x * rows) * tile_x;
  const std::uint64_t columns = std::min<std::uint64_t>(tile_x, extents.x - first_column);
  nth -= first_column * rows;
  return {static_cast<std::uint32_t>(first_column + nth % columns),
          static_cast<std::uint32_t>(first_row + nth / columns), 0};
}

// How many of `extent` items lie in [from, from + side).
std::uint64_t covered(std::uint64_t from, std::uint64_t side, std::uint64_t extent) {
  return from >= extent ? 0 : std::min(side, extent - from);
}

// Along the Hilbert curve of the smallest square of a power of two that covers the plane; what lies outside of it is
// left out. Quarter by quarter: those before the n-th item are counted, not visited.
Coord on_hilbert(std::uint64_t nth, const Dim3& extents) {
  std::uint64_t side = 1;
  while (side < std::max(extents.x, extents.y)) side *= 2;
  std::uint64_t x = 0;
  std::uint64_t y = 0;
  bool swapped = false;  // the curve of this square goes up first, not to the right
  bool flipped = false;  // it begins at the far corner
  while (side > 1) {
    side /= 2;
    for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
      // Quarters of the plain curve: (0, 0), (0, 1), (1, 1), (1, 0).
      bool right = quarter >= 2;
      bool up = quarter == 1 || quarter == 2;
      if (swapped) std::swap(right, up);
      if (flipped) {
        right = !right;
        up = !up;
      }
      const std::uint64_t corner_x = x + (right ? side : 0);
      const std::uint64_t corner_y = y + (up ? side : 0);
      const std::uint64_t items = covered(corner_x, side, extents.x) * covered(corner_y, side, extents.y);
      if (nth >= items) {
        nth -= items;
        continue;
      }
      x = corner_x;
      y = corner_y;
      // The first quarter is mirrored at one diagonal, the last one at the other.
      if (quarter == 0) swapped = !swapped;
      if (quarter == 3) {
        swapped = !swapped;
        flipped = !flipped;
      }
      break;
    }
  }
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 0};
}

// coord counts items of these extents; `within` counts inside the item.
Coord inside(const Coord& coord, const Dim3& extents, const Coord& within) {
  return {coord.x * extents.x + within.x, coord.y * extents.y + within.y, coord.z * extents.z + within.z};
}

}  // namespace

Coord coord_of(std::uint64_t index, const Dim3& extents) {
  const std::uint64_t row = index / extents.x;
  return {static_cast<std::uint32_t>(index % extents.x), static_cast<std::uint32_t>(row % extents.y),
          static_cast<std::uint32_t>(row / extents.y)};
}

std::uint64_t linear_of(const Coord& coord, const Dim3& extents) {
  return coord.x + extents.x * (coord.y + std::uint64_t{extents.y} * coord.z);
}

Coord advanced(const Coord& from, std::uint64_t count, const Dim3& extents) {
  if (count < extents.x - from.x && from.x < extents.x) {  // the same, without a division
    return {from.x + static_cast<std::uint32_t>(count), from.y, from.z};
  }
  const std::uint64_t plane = std::uint64_t{extents.x} * extents.y;
  const std::uint64_t rest = count % plane;
  std::uint64_t x = from.x + rest % extents.x;
  std::uint64_t y = from.y + rest / extents.x;
  std::uint64_t z = from.z + count / plane;
  if (x >= extents.x) {
    x -= extents.x;
    ++y;
  }
  if (y >= extents.y) {
    y -= extents.y;
    ++z;
  }
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z & 0xFFFF)};
}

RasterShape raster_shape(const Dim3& grid, const ClusterShape& cluster, std::uint32_t size, const RasterOrder& order) {
  RasterShape shape;
  shape.grid = grid;
  shape.order = order;
  shape.size = static_cast<std::uint8_t>(size);
  shape.sizes = static_cast<std::uint8_t>(cluster.sizes());
  for (std::size_t level = kCgaLevels; level-- > 0;) {
    if (cluster.extents[level].count() == 0) continue;
    const bool outermost = shape.levels == 0;
    shape.nest[shape.levels++] = cluster.extents[level];
    if (outermost && size > 0) {
      HEDDLE_CHECK(size < cluster.sizes(), "a CGA has no fallback of that index");
      shape.nest[shape.levels++] = cluster.size(size);
    }
    if (static_cast<CgaLevel>(level) != CgaLevel::cpc) shape.cga_level = static_cast<std::uint8_t>(shape.levels - 1);
  }
  return shape;
}

std::uint64_t raster_unit(const RasterShape& shape) { return shape.levels == 0 ? 1 : shape.nest[0].count(); }

Dim3 raster_extents(const RasterShape& shape) {
  return shape.levels == 0 ? shape.grid : divided(shape.grid, shape.nest[0]);
}

Coord coord_in_order(const RasterShape& shape, std::uint64_t nth) {
  const Dim3 extents = raster_extents(shape);
  if (shape.order.kind == RasterOrder::Kind::rows) return coord_of(nth, extents);
  const std::uint64_t plane = std::uint64_t{extents.x} * extents.y;
  Coord coord = shape.order.kind == RasterOrder::Kind::tiles
                    ? in_tiles(nth % plane, extents, shape.order.tile_x, shape.order.tile_y)
                    : on_hilbert(nth % plane, extents);
  coord.z = static_cast<std::uint32_t>(nth / plane);
  return coord;
}

CtaId resolve(const RasterShape& shape, const Coord& counted, std::uint64_t within) {
  CtaId id;
  id.cta = shape.order.kind == RasterOrder::Kind::rows
               ? counted
               : coord_in_order(shape, linear_of(counted, raster_extents(shape)));
  // From the outside in: each level's coordinate within the one around it, counted in its own items; then the CTAs.
  for (std::size_t level = 0; level < shape.levels; ++level) {
    const Dim3& extents = shape.nest[level];
    const bool innermost = level + 1 == shape.levels;
    const Dim3 items = innermost ? extents : divided(extents, shape.nest[level + 1]);
    const std::uint64_t ctas = innermost ? 1 : shape.nest[level + 1].count();
    id.cta = inside(id.cta, items, coord_of(within / ctas, items));
    within %= ctas;
  }
  id.index = linear_of(id.cta, shape.grid);
  id.cga = id.index;
  if (shape.levels == 0) return id;
  id.size = shape.size;
  const Dim3& cga = shape.nest[shape.cga_level];
  id.cga = linear_of(quotient(id.cta, cga), divided(shape.grid, cga));
  id.rank = static_cast<std::uint32_t>(linear_of(remainder(id.cta, cga), cga));
  id.cga_size = static_cast<std::uint32_t>(cga.count());
  return id;
}

CgaPlace cga_place(const Dim3& grid, const ClusterShape& cluster, std::uint32_t size, CgaLevel level,
                   const Coord& cta) {
  CgaPlace place;
  if (cluster.has(level)) place.extents = level == cluster.outermost() ? cluster.size(size) : cluster.of(level);
  place.id = linear_of(quotient(cta, place.extents), divided(grid, place.extents));
  place.rank = static_cast<std::uint32_t>(linear_of(remainder(cta, place.extents), place.extents));
  return place;
}

CtaId resolve(const RasterShape& shape, std::uint64_t position) {
  const std::uint64_t unit = raster_unit(shape);
  return resolve(shape, coord_of(position / unit, raster_extents(shape)), position % unit);
}

}  // namespace heddle::arch
