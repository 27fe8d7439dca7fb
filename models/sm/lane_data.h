// Bytes of memory to and from the registers of a warp's lanes. Little endian.
#pragma once

#include <array>
#include <cstdint>

#include "arch/memory_op.h"
#include "arch/warp_program.h"
#include "common/bits.h"

namespace heddle::sm {

// From a warp's global access to the lines and sectors that it touches.

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

// Bytes from the first to the last of the sectors, of which there is one at least.
inline std::uint32_t span_of(std::uint8_t sectors) {
  return (bits::highest(sectors) - bits::lowest(sectors) + 1) * arch::kSectorBytes;
}

// Each of `lanes` accesses `width` bytes (1 … 128) from its address on; addresses of other lanes are not read. Accesses
// across sectors and lines are split.
void coalesce(arch::LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width,
              LineAccesses& result);

// All 32 lanes side by side in their order, none across a sector's end.
bool has_unit_stride(arch::LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width);

// First of `lanes` whose address is not a multiple of `width` (a power of two); kWarpLanes if there is none.
std::uint32_t first_misaligned(arch::LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width);

// Bytes that each lane of a memory operation moves or, of an mbarrier operation, those of the object.
std::uint32_t lane_width(const arch::Operation& operation);

// The value of one lane: `width` bytes (1, 2, 4, 8 or 16), zero-extended to registers. `registers` is
// WarpState::of(destination).
void put_lane(std::uint32_t* registers, std::uint32_t lane, std::uint32_t width, const std::uint8_t* bytes);

// The values of lanes `first` … `first + count - 1`, of at least 4 bytes each, which lie side by side.
void put_lanes(std::uint32_t* registers, std::uint32_t first, std::uint32_t count, std::uint32_t width,
               const std::uint8_t* bytes);

// The first `width` bytes of what a lane stores.
void take_lane(const std::array<std::uint32_t, 4>& data, std::uint32_t width, std::uint8_t* bytes);

// An aligned load's lanes that lie in `sectors` of that line get their values; others keep theirs. `bytes` are those of
// the line from `offset` on.
void put_sectors(const arch::Operation& load, const LineAccess& access, std::uint8_t sectors, const std::uint8_t* bytes,
                 std::uint32_t offset, std::uint32_t* registers);

// What an aligned store's lanes write to that line: bytes, and 0xFF in `enables` for each of them (0 elsewhere). Of
// lanes that write the same byte, the highest wins.
void take_line(const arch::Operation& store, const LineAccess& access, std::uint8_t* bytes, std::uint8_t* enables);

}  // namespace heddle::sm
