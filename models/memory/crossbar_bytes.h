// How many bytes of a link a request and its response take.
#pragma once

#include <cstdint>

#include <tlm>

#include "arch/memory_op.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

constexpr std::uint32_t kLaneBytes = 8;  // of an atomic: its operand, or its old value

inline std::uint32_t sector_bytes(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension) {
  if (extension.sectors != 0) {
    constexpr std::uint64_t kBits = 0x4332'3221'3221'2110U;  // how many are set in each value of four bits
    return static_cast<std::uint32_t>(kBits >> (extension.sectors % 16 * 4) & 0xF) * arch::kSectorBytes;
  }
  const std::uint64_t length = payload.get_data_length();
  if (length == 0) return 0;
  const std::uint64_t first = payload.get_address() / arch::kSectorBytes;
  const std::uint64_t last = (payload.get_address() + length - 1) / arch::kSectorBytes;
  return static_cast<std::uint32_t>(last - first + 1) * arch::kSectorBytes;
}

// A header, and the data that go along.
inline std::uint32_t request_bytes(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                   std::uint32_t header) {
  switch (extension.action) {
    case protocol::MemoryAction::plain:
      return header + extension.carried + (payload.is_write() ? sector_bytes(payload, extension) : 0);
    case protocol::MemoryAction::reduce_block:
      return header + extension.carried + sector_bytes(payload, extension);
    case protocol::MemoryAction::atomic:
    case protocol::MemoryAction::reduce:
      return header + kLaneBytes * extension.lanes;
    default:
      return header + extension.carried;
  }
}

// Data, whose header travels beside them; or an acknowledgement as large as a header. A TMAU's carry more (TMA-15).
inline std::uint32_t response_bytes(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                    std::uint32_t header) {
  if (payload.get_response_status() != tlm::TLM_OK_RESPONSE) return header + extension.carried;
  std::uint32_t data = 0;
  if (extension.action == protocol::MemoryAction::plain && payload.is_read()) data = sector_bytes(payload, extension);
  if (extension.action == protocol::MemoryAction::atomic) data = kLaneBytes * extension.lanes;
  return (data > header ? data : header) + extension.carried;
}

}  // namespace heddle::memory
