// Address translation (MEM-04): TLB of a GPC -> MMU at the L2's side, and back.
#pragma once

#include <cstdint>

#include "arch/page_table.h"

namespace heddle::protocol {

struct TranslatePacket {
  std::uint64_t page = 0;  // virtual address, a multiple of the smallest page
  std::uint8_t subcontext = 0;
  std::uint32_t tag = 0;  // the requester's own
};

struct TranslatedPacket {
  std::uint32_t tag = 0;
  arch::Translation translation;  // not present: a fault
};

// To TLBs: what they know of a subcontext is not valid any more.
struct InvalidateTlbPacket {
  std::uint8_t subcontext = 0;
};

}  // namespace heddle::protocol
