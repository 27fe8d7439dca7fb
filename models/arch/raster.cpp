#include "arch/raster.h"

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

RasterShape raster_shape(const Dim3& grid, const ClusterShape& cluster, std::uint32_t size) {
  RasterShape shape;
  shape.grid = grid;
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

CtaId resolve(const RasterShape& shape, const Coord& outermost, std::uint64_t within) {
  CtaId id;
  id.cta = outermost;
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
  const Dim3& cga = shape.nest[shape.cga_level];
  id.cga = linear_of(quotient(id.cta, cga), divided(shape.grid, cga));
  id.rank = static_cast<std::uint32_t>(linear_of(remainder(id.cta, cga), cga));
  id.cga_size = static_cast<std::uint32_t>(cga.count());
  return id;
}

CtaId resolve(const RasterShape& shape, std::uint64_t position) {
  const std::uint64_t unit = raster_unit(shape);
  return resolve(shape, coord_of(position / unit, raster_extents(shape)), position % unit);
}

}  // namespace heddle::arch
