// Bytes of memory to and from the registers of a warp's lanes. Little endian.
#pragma once

#include <array>
#include <cstdint>

#include "arch/warp_program.h"
#include "sm/coalescer.h"

namespace heddle::sm {

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
