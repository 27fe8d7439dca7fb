// From a warp's global access to the lines and sectors that it touches.
#pragma once

#include <array>
#include <cstdint>

#include "arch/memory_op.h"
#include "arch/warp_program.h"

namespace heddle::sm {

// One line of an access.
struct LineAccess {
  std::uint64_t line = 0;    // address of its first byte
  arch::LaneMask lanes = 0;  // that touch it
  std::uint8_t sectors = 0;  // bit = sector
};

// The lines of an access, each once, in the order in which its lanes first touch them.
struct LineAccesses {
  static constexpr std::uint32_t kMost = 2 * arch::kWarpLanes;  // every lane across a line's end
  std::uint32_t count = 0;
  bool unit_stride = false;            // all 32 lanes, side by side in their order, none across a sector's end
  std::array<LineAccess, kMost> line;  // the first `count` are valid

  const LineAccess* begin() const { return line.data(); }
  const LineAccess* end() const { return line.data() + count; }
};

// Each of `lanes` accesses `width` bytes (1 … 128) from its address on; addresses of other lanes are not read. Accesses
// across sectors and lines are split.
void coalesce(arch::LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width,
              LineAccesses& result);

// First of `lanes` whose address is not a multiple of `width` (a power of two); kWarpLanes if there is none.
std::uint32_t first_misaligned(arch::LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width);

}  // namespace heddle::sm
