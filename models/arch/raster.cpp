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
  HEDDLE_CHECK(z <= extents.z, "a raster position lies beyond the end of its grid");
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(z)};
}

RasterCounter::RasterCounter(const Dim3& extents, std::uint32_t delta_bits)
    : extents_(extents), limit_(std::uint64_t{1} << delta_bits) {
  HEDDLE_CHECK(delta_bits >= 1 && delta_bits <= 63, "a delta counter of that width does not exist");
}

std::uint64_t RasterCounter::advance(std::uint64_t count) {
  const std::uint64_t sum = delta_ + count;
  if (sum < limit_) {
    delta_ = sum;
    return 0;
  }
  // The counter wraps: what it cannot hold is decomposed now. How often depends on the sum alone, so that a follower
  // that catches up at once counts the same as one that sees every launch.
  delta_ = sum % limit_;
  current_ = advanced(current_, sum - delta_, extents_);
  return sum / limit_;
}

Coord RasterCounter::take() {
  current_ = advanced(current_, delta_, extents_);
  delta_ = 0;
  const Coord taken = current_;
  HEDDLE_CHECK(taken.z < extents_.z, "a raster position lies beyond the end of its grid");
  current_ = advanced(current_, 1, extents_);
  return taken;
}

void RasterCounter::sync(const Coord& next) {
  current_ = next;
  delta_ = 0;
}

RasterShape raster_shape(const Dim3& grid, const ClusterShape& cluster, std::uint32_t size) {
  RasterShape shape;
  shape.grid = grid;
  shape.size = static_cast<std::uint8_t>(size);
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
