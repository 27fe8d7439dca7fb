#include "sm/coalescer.h"

namespace heddle::sm {
namespace {

using arch::kLineBytes;
using arch::kSectorBytes;
using arch::kWarpLanes;
using arch::LaneMask;

// Sectors of the bytes first … last of a line.
std::uint8_t sectors_of(std::uint32_t first, std::uint32_t last) {
  return static_cast<std::uint8_t>((2U << last / kSectorBytes) - (1U << first / kSectorBytes));
}

void add(LineAccesses& result, std::uint64_t line, std::uint8_t sectors, LaneMask lane) {
  // The line of the lane before is the most likely one.
  for (std::uint32_t i = result.count; i-- > 0;) {
    LineAccess& known = result.line[i];
    if (known.line != line) continue;
    known.lanes |= lane;
    known.sectors |= sectors;
    return;
  }
  result.line[result.count++] = {line, lane, sectors};
}

// All 32 lanes side by side, none across a sector's end.
bool has_unit_stride(LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width) {
  if (lanes != ~LaneMask{0} || kSectorBytes % width != 0 || address[0] % width != 0) return false;
  std::uint64_t difference = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    difference |= address[lane] ^ (address[0] + std::uint64_t{lane} * width);
  }
  return difference == 0;
}

void split_unit_stride(std::uint64_t address, std::uint32_t width, LineAccesses& result) {
  std::uint32_t lane = 0;
  while (lane < kWarpLanes) {
    const auto offset = static_cast<std::uint32_t>(address % kLineBytes);
    std::uint32_t lanes = (kLineBytes - offset) / width;
    if (lanes > kWarpLanes - lane) lanes = kWarpLanes - lane;
    const LaneMask mask = lanes == kWarpLanes ? ~LaneMask{0} : ((LaneMask{1} << lanes) - 1) << lane;
    result.line[result.count++] = {address - offset, mask, sectors_of(offset, offset + lanes * width - 1)};
    address += std::uint64_t{lanes} * width;
    lane += lanes;
  }
}

}  // namespace

void coalesce(LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width, LineAccesses& result) {
  result.count = 0;
  result.unit_stride = has_unit_stride(lanes, address, width);
  if (result.unit_stride) return split_unit_stride(address[0], width, result);
  for (std::uint32_t lane = 0; lanes >> lane != 0; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const std::uint64_t line = arch::line_of(address[lane]);
    const auto offset = static_cast<std::uint32_t>(address[lane] - line);
    const std::uint32_t end = offset + width;
    const LaneMask bit = LaneMask{1} << lane;
    add(result, line, sectors_of(offset, (end < kLineBytes ? end : kLineBytes) - 1), bit);
    if (end > kLineBytes) add(result, line + kLineBytes, sectors_of(0, end - kLineBytes - 1), bit);
    if (lane == kWarpLanes - 1) break;
  }
}

std::uint32_t first_misaligned(LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width) {
  const std::uint64_t low = width - 1;
  std::uint64_t any = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) any |= address[lane];
  if ((any & low) == 0) return kWarpLanes;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) != 0 && (address[lane] & low) != 0) return lane;
  }
  return kWarpLanes;
}

}  // namespace heddle::sm
