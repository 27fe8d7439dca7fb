#include "memory/l2_access.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace heddle::memory {
namespace {

// Values lie in memory with their lowest byte first, as everywhere in the machine.
std::uint64_t load_value(const std::uint8_t* from, std::uint32_t bytes) {
  std::uint64_t value = 0;
  for (std::uint32_t i = bytes; i-- > 0;) value = value << 8 | from[i];
  return value;
}

void store_value(std::uint8_t* to, std::uint32_t bytes, std::uint64_t value) {
  for (std::uint32_t i = 0; i < bytes; ++i, value >>= 8) to[i] = static_cast<std::uint8_t>(value);
}

void perform_atomic(protocol::MemoryExtension& atomic, std::uint8_t* line) {
  const std::uint32_t bytes = arch::bytes_of(atomic.type);
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    protocol::AtomicLane& lane = atomic.lane[i];
    const std::uint64_t old = load_value(line + lane.offset, bytes);
    store_value(line + lane.offset, bytes,
                arch::atomic_result(atomic.atomic, atomic.type, old, lane.operand, lane.compare));
    if (atomic.action == protocol::MemoryAction::atomic) lane.old = old;
  }
}

}  // namespace

void copy_bytes(std::uint8_t* to, const std::uint8_t* from, const LineMask& mask) {
  for (std::uint32_t sector = 0; sector < arch::kSectorsPerLine; ++sector) {
    const std::uint64_t half = sector < 2 ? mask.low : mask.high;
    auto bits = static_cast<std::uint32_t>(half >> (sector % 2 * 32));
    const std::uint32_t first = sector * arch::kSectorBytes;
    if (bits == ~std::uint32_t{0}) {
      std::memcpy(to + first, from + first, arch::kSectorBytes);
      continue;
    }
    for (; bits != 0; bits &= bits - 1) {
      const std::uint32_t byte = first + static_cast<std::uint32_t>(__builtin_ctz(bits));
      to[byte] = from[byte];
    }
  }
}

bool perform(const L2Access& access, std::uint8_t* line) {
  switch (access.kind) {
    case L2Access::Kind::read:
      if (access.dense) {
        std::memcpy(access.data, line + access.offset, access.length);
      } else {
        for (std::uint32_t i = 0; i < access.length; ++i) {
          if (access.bytes.test(access.offset + i)) access.data[i] = line[access.offset + i];
        }
      }
      return false;
    case L2Access::Kind::write:
      if (access.dense) {
        std::memcpy(line + access.offset, access.data, access.length);
      } else {
        for (std::uint32_t i = 0; i < access.length; ++i) {
          if (access.bytes.test(access.offset + i)) line[access.offset + i] = access.data[i];
        }
      }
      return true;
    case L2Access::Kind::atomic:
      perform_atomic(*access.atomic, line);
      return true;
    case L2Access::Kind::prefetch:
    case L2Access::Kind::write_back:
      break;
  }
  return false;
}

std::uint32_t atomic_cycles(const protocol::MemoryExtension& atomic, std::uint32_t rate) {
  std::array<std::uint8_t, arch::kLineBytes> times{};
  std::uint32_t worst = 0;
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    worst = std::max<std::uint32_t>(worst, ++times[atomic.lane[i].offset]);
  }
  return std::max({worst, (atomic.lanes + rate - 1) / rate, 1U});
}

}  // namespace heddle::memory
