// Kernel objects and the kernels that they make with a dispatch, written once more from their layout.
#pragma once

#include "arch/cluster.h"
#include "packet/packet_oracle.h"

namespace heddle::oracle {

struct Object {
  bool balancing = false;
  bool linear = false;
  std::uint64_t program = 0;
  std::uint64_t threads = 0;
  std::uint64_t registers = 0;
  std::uint64_t shared = 0;
  std::uint64_t shortest = 0;
  std::uint64_t longest = 0;
  std::uint64_t code = 0;        // in memory: address
  std::uint64_t code_bytes = 0;  // 0: none
  std::array<Extents, 4> levels{};
  std::array<Extents, 4> smaller{};
  std::uint64_t order = 0;  // 1: tiles
  std::array<std::uint64_t, 2> tile{};
  std::string name;
};

inline Extents extents(const ObjectImage& image, std::size_t at) {
  return {number(image, at, 2), number(image, at + 2, 2), number(image, at + 4, 2)};
}
inline bool given(const Extents& e) { return e != Extents{0, 0, 0}; }
inline bool solid(const Extents& e) { return e[0] > 0 && e[1] > 0 && e[2] > 0; }
// Solid ones only.
inline bool tiles(const Extents& small, const Extents& large) {
  return large[0] % small[0] == 0 && large[1] % small[1] == 0 && large[2] % small[2] == 0;
}

// The levels that are given, outermost first.
inline std::vector<Extents> given_levels(const Object& object) {
  std::vector<Extents> result;
  for (std::size_t level = 4; level-- > 0;) {
    if (given(object.levels[level])) result.push_back(object.levels[level]);
  }
  return result;
}

inline bool smaller_sizes_are_right(const Object& object, const std::vector<Extents>& levels) {
  bool before = true;
  for (const Extents& size : object.smaller) {
    if (given(size) && !before) return false;
    before = given(size);
    if (!before) continue;
    if (!solid(size) || !tiles(size, levels[0]) || size == levels[0]) return false;
    if (levels.size() > 1 && !tiles(levels[1], size)) return false;
  }
  return true;
}

// Whether there is a grid for which the clusters are right: CWD-10, CWD-21.
inline bool clusters_are_right(const Object& object) {
  const std::vector<Extents> levels = given_levels(object);
  if (levels.empty()) {
    return !object.linear && std::none_of(object.smaller.begin(), object.smaller.end(), given);
  }
  if (!std::all_of(levels.begin(), levels.end(), solid)) return false;
  const Extents& gpc = object.levels[1];
  if (given(object.levels[0]) && !given(gpc)) return false;
  if (given(object.levels[3]) && given(object.levels[2]) && !given(gpc)) return false;
  if (gpc[0] * gpc[1] * gpc[2] > 0xFFFF'FFFF) return false;
  for (std::size_t i = 1; i < levels.size(); ++i) {
    if (!tiles(levels[i], levels[i - 1])) return false;
  }
  return smaller_sizes_are_right(object, levels);
}

inline Blame read(const ObjectImage& image, Object& object) {
  Blame blame;
  blame.add(kObject, image[0] != 'H' || image[1] != 'D' || image[2] != 'L' || image[3] != 'K');
  blame.add(kObject, image[4] != 1 || image[5] != 0);
  blame.add(kObject, image[6] > 31 || image[7] != 0);
  object.balancing = image[6] % 2 == 1;
  object.linear = image[6] / 2 % 2 == 1;
  object.program = number(image, 8, 4);
  object.threads = number(image, 12, 4);
  object.registers = number(image, 16, 4);
  object.shared = number(image, 20, 4);
  object.code = object.code_bytes = object.shortest = object.longest = 0;
  if (image[6] / 16 % 2 == 1) {
    object.code = number(image, 24, 8);
    object.code_bytes = number(image, 32, 4);
    blame.add(kObject, object.program != 0 || number(image, 36, 4) != 0);
    blame.add(kObject, object.code_bytes == 0 || object.code_bytes > 1'048'576);
    blame.add(kObject, object.code == 0 || object.code % 128 != 0);
    blame.add(kObject, object.code > 0x7FFF'FFFF'FFFF'FFFF - (object.code_bytes - 1));
  } else {
    object.shortest = number(image, 24, 8);
    object.longest = number(image, 32, 8);
  }
  if (object.program == 0 && image[6] / 16 % 2 == 0) {
    blame.add(kObject, object.shortest == 0 || object.shortest > object.longest);
    blame.add(kObject, object.longest > std::uint64_t{1} << 48);
  }
  for (std::size_t i = 0; i < 4; ++i) object.levels[i] = extents(image, 40 + 6 * i);
  for (std::size_t i = 0; i < 4; ++i) object.smaller[i] = extents(image, 64 + 6 * i);
  blame.add(kObject, given_levels(object).empty() == (image[6] / 4 % 2 == 1));
  blame.add(kObject, !clusters_are_right(object));
  // Order of the launch: rows and the Hilbert curve have no tile, tiles have one.
  const bool tiled = image[88] == 1;
  blame.add(kObject, image[88] > 2 || image[91] != 0);
  blame.add(kObject, (image[89] != 0) != tiled || (image[90] != 0) != tiled);
  object.order = image[88];
  object.tile = {image[89], image[90]};
  object.name.clear();
  std::size_t at = 92;
  while (at < 128 && image[at] != 0) object.name.push_back(static_cast<char>(image[at++]));
  blame.add(kObject, at == 128);
  while (at < 128) blame.add(kObject, image[at++] != 0);
  return blame;
}

// CTAs of the grid; `partial`: one of them at least is not full.
inline Extents ctas(const Image& image, bool& partial) {
  Extents result{};
  partial = false;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint64_t items = number(image, 12 + 4 * i, 4);
    const std::uint64_t group = number(image, 4 + 2 * i, 2);
    result[i] = items / group;
    if (result[i] * group == items) continue;
    ++result[i];
    partial = true;
  }
  return result;
}

inline std::uint64_t up(std::uint64_t value, std::uint64_t step) {
  return value % step == 0 ? value : value - value % step + step;
}

// Of a dispatch and an object without blame.
inline Blame together(const Image& image, const Object& object, const arch::SmLimits& limits) {
  Blame blame;
  const std::uint64_t threads = number(image, 4, 2) * number(image, 6, 2) * number(image, 8, 2);
  blame.add(kIncompatible, object.threads != 0 && threads > object.threads);
  // hsa.h: group_segment_size is not less than what the kernel itself uses, and what is allocated dynamically.
  const std::uint64_t shared = number(image, 28, 4);
  blame.add(kAllocation, shared < object.shared);
  const std::uint64_t warps = (threads + limits.warp_size - 1) / limits.warp_size;
  const std::uint64_t registers =
      up(object.registers * limits.warp_size, limits.register_granularity) * up(warps, limits.warp_granularity);
  blame.add(kResources, object.registers > limits.max_registers_per_thread || registers > limits.registers);
  blame.add(kResources, shared > limits.max_shared_per_cta);
  blame.add(kResources, up(shared + limits.shared_reserve, limits.shared_granularity) > limits.shared_bytes);
  blame.add(kResources, warps > limits.warps || warps * limits.warp_size > limits.threads || limits.ctas == 0);
  blame.add(kResources, limits.barriers_per_cta > limits.barriers);
  bool partial = false;
  const Extents grid = ctas(image, partial);
  const std::vector<Extents> levels = given_levels(object);
  if (!levels.empty()) blame.add(kIncompatible, partial || !tiles(levels[0], grid));
  return blame;
}

}  // namespace heddle::oracle
