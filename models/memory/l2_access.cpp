#include "memory/l2_access.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "arch/byte_codec.h"
#include "arch/tensor_data.h"
#include "common/bits.h"

namespace heddle::memory {
namespace {

// As the functions of tensors have it: bit i is byte i of the data.
arch::ByteMask mask_of_data(const L2Access& access) {
  const LineMask& bytes = access.bytes;
  if (access.offset == 0) return {bytes.low, bytes.high};
  if (access.offset >= 64) return {bytes.high >> (access.offset - 64), 0};
  return {bytes.low >> access.offset | bytes.high << (64 - access.offset), bytes.high >> access.offset};
}

void perform_reduction(const L2Access& access, std::uint8_t* line) {
  arch::reduce(access.extension->atomic, access.extension->type, mask_of_data(access), access.length, access.data,
               line + access.offset);
}

void perform_atomic(protocol::MemoryExtension& atomic, std::uint8_t* line) {
  const std::uint32_t bytes = arch::bytes_of(atomic.type);
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    protocol::AtomicLane& lane = atomic.lane[i];
    const std::uint64_t old = arch::load_number(line + lane.offset, bytes);
    arch::store_number(line + lane.offset, bytes,
                       arch::atomic_result(atomic.atomic, atomic.type, old, lane.operand, lane.compare));
    if (atomic.action == protocol::MemoryAction::atomic) lane.old = old;
  }
}

// A copy of known size is a few instructions.
void copy_dense(std::uint8_t* to, const std::uint8_t* from, std::uint32_t bytes) {
  switch (bytes) {
    case arch::kLineBytes:
      std::memcpy(to, from, arch::kLineBytes);
      return;
    case arch::kSectorBytes:
      std::memcpy(to, from, arch::kSectorBytes);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

}  // namespace

void copy_bytes(std::uint8_t* to, const std::uint8_t* from, const LineMask& mask) {
  for (std::uint32_t sector = 0; sector < arch::kSectorsPerLine; ++sector) {
    const std::uint64_t half = sector < 2 ? mask.low : mask.high;
    const auto bytes = static_cast<std::uint32_t>(half >> (sector % 2 * 32));
    const std::uint32_t first = sector * arch::kSectorBytes;
    if (bytes == ~std::uint32_t{0}) {
      std::memcpy(to + first, from + first, arch::kSectorBytes);
      continue;
    }
    bits::for_each(bytes, [&](std::uint32_t byte) { to[first + byte] = from[first + byte]; });
  }
}

bool perform(const L2Access& access, std::uint8_t* line) {
  switch (access.kind) {
    case L2Access::Kind::read:
      if (access.dense) {
        copy_dense(access.data, line + access.offset, access.length);
      } else {
        for (std::uint32_t i = 0; i < access.length; ++i) {
          if (access.bytes.test(access.offset + i)) access.data[i] = line[access.offset + i];
        }
      }
      return false;
    case L2Access::Kind::write:
      if (access.dense) {
        copy_dense(line + access.offset, access.data, access.length);
      } else {
        for (std::uint32_t i = 0; i < access.length; ++i) {
          if (access.bytes.test(access.offset + i)) line[access.offset + i] = access.data[i];
        }
      }
      return true;
    case L2Access::Kind::atomic:
      perform_atomic(*access.extension, line);
      return true;
    case L2Access::Kind::reduce:
      perform_reduction(access, line);
      return true;
    case L2Access::Kind::prefetch:
    case L2Access::Kind::write_back:
    case L2Access::Kind::invalidate:
    case L2Access::Kind::drop_copy:
      break;
  }
  return false;
}

std::uint32_t values_of(const L2Access& access) {
  if (access.kind == L2Access::Kind::atomic) return access.extension->lanes;
  if (access.kind != L2Access::Kind::reduce) return 0;
  const std::uint32_t width = std::max(arch::bytes_of(access.extension->type), 4U);
  std::uint32_t values = 0;
  for (std::uint32_t byte = 0; byte < arch::kLineBytes; byte += width) {
    values += (access.bytes & LineMask::range(byte, width)).any() ? 1 : 0;
  }
  return values;
}

std::uint32_t atomic_cycles(const L2Access& access, std::uint32_t rate) {
  if (access.kind == L2Access::Kind::reduce) return std::max((values_of(access) + rate - 1) / rate, 1U);
  const protocol::MemoryExtension& atomic = *access.extension;
  std::array<std::uint8_t, arch::kLineBytes> times{};
  std::uint32_t worst = 0;
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    worst = std::max<std::uint32_t>(worst, ++times[atomic.lane[i].offset]);
  }
  return std::max({worst, (atomic.lanes + rate - 1) / rate, 1U});
}

}  // namespace heddle::memory
