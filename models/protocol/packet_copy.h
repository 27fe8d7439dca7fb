// Packet processor or host interface -> copy engines: bytes move (HST-05). Copy engines -> sender: they have.
#pragma once

#include <cstdint>

#include "arch/aql_packet.h"

namespace heddle::protocol {

enum class CopyKind : std::uint8_t { copy, fill };

struct CopyRequestPacket {
  std::uint32_t tag = 0;  // the sender's own
  CopyKind kind = CopyKind::copy;
  std::uint64_t from = 0;  // unified addresses
  std::uint64_t to = 0;
  std::uint64_t bytes = 0;
  std::uint32_t value = 0;  // fill
  std::uint8_t subcontext = 0;
};

struct CopyDonePacket {
  std::uint32_t tag = 0;
  arch::HsaStatus status = arch::HsaStatus::success;  // error: memory refused; what had been written before stays
  std::uint64_t address = 0;                          // then: the first unified address that failed
  std::uint64_t start = 0;                            // cycles
  std::uint64_t end = 0;
};

}  // namespace heddle::protocol
