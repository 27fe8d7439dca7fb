// How the CTAs of a grid are grouped into cooperative group arrays (CGAs, clusters): CWD-10.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::arch {

// Extents of a grid (in CTAs), of a CGA (in CTAs) or of a CTA (in threads).
struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  bool operator==(const Dim3& other) const { return x == other.x && y == other.y && z == other.z; }
  bool operator!=(const Dim3& other) const { return !(*this == other); }
};

// No CGA: all extents 0.
constexpr Dim3 kNoExtents{0, 0, 0};

// In which order the outermost CGAs of a grid (its CTAs, if it has none) start: what becomes of the n-th one. Plain
// data: packets carry it.
struct RasterOrder {
  enum class Kind : std::uint8_t {
    rows,     // x fastest, then y, then z (CWD-40)
    tiles,    // tile by tile, x fastest among tiles and within one; tiles at the edges are cut
    hilbert,  // along a Hilbert curve, plane by plane
  };
  Kind kind = Kind::rows;
  std::uint8_t tile_x = 1;  // tiles: extents, 1 or more
  std::uint8_t tile_y = 1;

  bool operator==(const RasterOrder& other) const {
    return kind == other.kind && tile_x == other.tile_x && tile_y == other.tile_y;
  }
};

// The hardware domain that holds a CGA, innermost first: no CTA of a GPC_CGA is outside one GPC.
enum class CgaLevel : std::uint8_t { cpc, gpc, ugpu, gpu };
constexpr std::size_t kCgaLevels = 4;
// "CPC_CGA", "GPC_CGA", "uGPU_CGA", "GPU_CGA"
const char* cga_name(CgaLevel level);
// "CPC", "GPC", "uGPU", "GPU"
const char* domain_name(CgaLevel level);

// The CGAs that have a hardware barrier of their own, as an index: GPC_CGA, uGPU_CGA, GPU_CGA (CGA-13, CWD-09).
constexpr std::size_t kBarrierLevels = 3;
constexpr std::size_t barrier_index(CgaLevel level) {
  return static_cast<std::size_t>(level) - static_cast<std::size_t>(CgaLevel::gpc);
}
constexpr CgaLevel barrier_level(std::size_t index) {
  return static_cast<CgaLevel>(index + static_cast<std::size_t>(CgaLevel::gpc));
}

// Which SMs of its domain the CTAs of a CGA go to.
enum class CgaMode : std::uint8_t {
  load_balancing,  // the least loaded; several CTAs of one CGA may share an SM (CWD-15)
  multicast,       // at most one CTA of a CGA on an SM (CWD-16)
};

constexpr std::size_t kMaxFallbacks = 4;

// The grouping of a grid. Plain data: packets carry it. A grid without CGAs has none of the levels.
struct ClusterShape {
  std::array<Dim3, kCgaLevels> extents{kNoExtents, kNoExtents, kNoExtents, kNoExtents};  // in CTAs, by CgaLevel
  CgaMode mode = CgaMode::load_balancing;
  // Smaller sizes of the outermost level, in the order of trying, when the full size finds no room (CWD-21). A CGA of
  // full size that finds none is split: all its CTAs then start in CGAs of one smaller size. Unused: kNoExtents.
  std::array<Dim3, kMaxFallbacks> fallback{kNoExtents, kNoExtents, kNoExtents, kNoExtents};
  bool linear_memory = false;  // every outermost CGA takes a CGA memory slot (CWD-22)

  const Dim3& of(CgaLevel level) const { return extents[static_cast<std::size_t>(level)]; }
  Dim3& of(CgaLevel level) { return extents[static_cast<std::size_t>(level)]; }
  bool has(CgaLevel level) const { return of(level).count() != 0; }
  bool any() const { return has(CgaLevel::cpc) || has(CgaLevel::gpc) || has(CgaLevel::ugpu) || has(CgaLevel::gpu); }
  // The level that starts as a whole. any() must hold.
  CgaLevel outermost() const {
    for (std::size_t level = kCgaLevels; level-- > 0;) {
      if (extents[level].count() != 0) return static_cast<CgaLevel>(level);
    }
    return CgaLevel::gpc;
  }
  // Sizes that the outermost CGA can have: 1 and the fallbacks.
  std::uint32_t sizes() const {
    std::uint32_t count = 1;
    while (count <= kMaxFallbacks && fallback[count - 1].count() != 0) ++count;
    return count;
  }
  // Extents of the outermost CGA in its full size (0) or a fallback (1 …).
  const Dim3& size(std::uint32_t index) const { return index == 0 ? of(outermost()) : fallback[index - 1]; }
};

// What is wrong with the grouping of that grid, whatever the machine: extents that do not divide, levels that are not
// supported together (a CPC_CGA without a GPC_CGA, a GPU_CGA of uGPU_CGAs of CTAs), fallbacks that are not smaller.
// `max_gpc_cga`: most CTAs of a GPC_CGA. Empty if nothing is.
std::string why_malformed(const Dim3& grid, const ClusterShape& cluster, std::uint32_t max_gpc_cga);

}  // namespace heddle::arch
