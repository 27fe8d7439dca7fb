// SM <-> SM-to-SM network of its GPC: accesses to distributed shared memory (DSMEM) and their replies (CGA-06, CGA-08).
//
// The request itself is a payload of the asking SM's pool, which holds it until the reply has come: address and data
// (byte enables, lanes of atomics) are those of the target's window, within one 128-byte line of it. The target fills
// in data and old values and sends the same payload back.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/address_map.h"
#include "protocol/ids.h"

namespace heddle::protocol {

class MemoryRequest;

struct DsmemPacket {
  MemoryRequest* request = nullptr;
  std::optional<CgaId> cga_id;  // always, on the network; none: a CTA of no CGA has addressed itself
  std::uint32_t rank = 0;       // cta_id_in_cga of the target
  SmInGpc from_sm;              // that sends this packet
  SmInGpc to_sm;                // that it is for
  std::uint64_t sequence =
      0;  // launch of the CGA: for checks only. No access of an old CGA may reach a new one (CGA-12)
  // Replies.
  arch::DsmemStatus status = arch::DsmemStatus::ok;
  std::uint32_t offset = 0;  // of what was wrong
};

}  // namespace heddle::protocol
