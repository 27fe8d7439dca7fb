#include "sm/lane_data.h"

#include <cstring>

#include "arch/mbarrier.h"

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

// `width`: a power of two.
void split_unit_stride(std::uint64_t address, std::uint32_t width, LineAccesses& result) {
  const std::uint32_t shift = bits::lowest(width);
  std::uint32_t lane = 0;
  while (lane < kWarpLanes) {
    const auto offset = static_cast<std::uint32_t>(address % kLineBytes);
    std::uint32_t lanes = (kLineBytes - offset) >> shift;
    if (lanes > kWarpLanes - lane) lanes = kWarpLanes - lane;
    const LaneMask mask = lanes == kWarpLanes ? ~LaneMask{0} : ((LaneMask{1} << lanes) - 1) << lane;
    result.line[result.count++] = {address - offset, mask, sectors_of(offset, offset + (lanes << shift) - 1)};
    address += std::uint64_t{lanes} << shift;
    lane += lanes;
  }
}

// Little endian hosts only, as the rest of the model's data path.
template <class T>
T read(const std::uint8_t* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

constexpr std::array<std::uint32_t, 4> kEnabled{~0U, ~0U, ~0U, ~0U};

// All lanes, each 4 bytes, side by side: a line is a register.
bool is_whole_line(const arch::Operation& operation, const LineAccess& access) {
  if (access.lanes != ~arch::LaneMask{0} || operation.width != 4) return false;
  std::uint64_t difference = 0;
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    difference |= operation.address[lane] ^ (access.line + 4 * lane);
  }
  return difference == 0;
}

}  // namespace

bool has_unit_stride(LaneMask lanes, const arch::PerLane<std::uint64_t>& address, std::uint32_t width) {
  if (lanes != ~LaneMask{0} || kSectorBytes % width != 0 || address[0] % width != 0) return false;
  std::uint64_t difference = 0;
  std::uint64_t expected = address[0];
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane, expected += width) difference |= address[lane] ^ expected;
  return difference == 0;
}

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

std::uint32_t lane_width(const arch::Operation& operation) {
  switch (operation.code) {
    case arch::OpCode::atomic:
      return arch::bytes_of(operation.type);
    case arch::OpCode::mbarrier_arrive:
    case arch::OpCode::mbarrier_expect:
    case arch::OpCode::mbarrier_complete:
      return arch::kMbarrierBytes;
    default:
      return operation.width;
  }
}

void put_lane(std::uint32_t* registers, std::uint32_t lane, std::uint32_t width, const std::uint8_t* bytes) {
  switch (width) {
    case 1:
      registers[lane] = bytes[0];
      return;
    case 2:
      registers[lane] = read<std::uint16_t>(bytes);
      return;
    case 4:
      registers[lane] = read<std::uint32_t>(bytes);
      return;
    default:
      for (std::uint32_t word = 0; word < width / 4; ++word) {
        registers[word * arch::kWarpLanes + lane] = read<std::uint32_t>(bytes + std::size_t{4} * word);
      }
  }
}

void put_lanes(std::uint32_t* registers, std::uint32_t first, std::uint32_t count, std::uint32_t width,
               const std::uint8_t* bytes) {
  const std::uint32_t words = width / 4;
  if (words == 1 && count == arch::kWarpLanes) {  // a copy of known size is a few instructions
    std::memcpy(registers, bytes, arch::kLineBytes);
    return;
  }
  for (std::uint32_t word = 0; word < words; ++word) {
    std::uint32_t* to = registers + word * arch::kWarpLanes + first;
    const std::uint8_t* from = bytes + std::size_t{word} * 4;
    for (std::uint32_t i = 0; i < count; ++i, from += width) to[i] = read<std::uint32_t>(from);
  }
}

void take_lane(const std::array<std::uint32_t, 4>& data, std::uint32_t width, std::uint8_t* bytes) {
  switch (width) {  // a copy of known size is one instruction
    case 4:
      std::memcpy(bytes, data.data(), 4);
      return;
    case 8:
      std::memcpy(bytes, data.data(), 8);
      return;
    case 16:
      std::memcpy(bytes, data.data(), 16);
      return;
    default:
      std::memcpy(bytes, data.data(), width);
  }
}

void put_sectors(const arch::Operation& load, const LineAccess& access, std::uint8_t sectors, const std::uint8_t* bytes,
                 std::uint32_t offset, std::uint32_t* registers) {
  if (sectors == 0xF && offset == 0 && is_whole_line(load, access)) {
    std::memcpy(registers, bytes, arch::kLineBytes);
    return;
  }
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if ((access.lanes >> lane & 1) == 0) continue;
    const std::uint64_t address = load.address[lane];
    if ((sectors >> arch::sector_of(address) & 1) == 0) continue;
    put_lane(registers, lane, load.width, bytes + (address - access.line - offset));
  }
}

void take_line(const arch::Operation& store, const LineAccess& access, std::uint8_t* bytes, std::uint8_t* enables) {
  std::memset(enables, 0, arch::kLineBytes);
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if ((access.lanes >> lane & 1) == 0) continue;
    const std::uint64_t at = store.address[lane] - access.line;
    take_lane(store.data[lane], store.width, bytes + at);
    take_lane(kEnabled, store.width, enables + at);
  }
}

}  // namespace heddle::sm
