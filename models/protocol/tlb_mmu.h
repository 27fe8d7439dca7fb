// Address translation (MEM-04): TLB of a GPC -> MMU at the L2's side, and back.
#pragma once

#include <cstdint>

namespace heddle::protocol {

struct TranslatePacket {
  std::uint64_t page = 0;  // virtual address, a multiple of the smallest page
  std::uint8_t subcontext = 0;
  std::uint32_t tag = 0;  // the asker's own
};

struct TranslatedPacket {
  std::uint32_t tag = 0;
  std::uint64_t page = 0;       // virtual address at which the page begins
  std::uint64_t frame = 0;      // physical address at which it lies
  std::uint32_t page_bits = 0;  // its size is 2^page_bits bytes
  bool present = false;         // false: a fault
  bool writable = false;
};

// To TLBs: what they know of a subcontext, or of all (64 = kSubcontexts), is not valid any more.
struct InvalidateTlbPacket {
  std::uint8_t subcontext = 0;
};

}  // namespace heddle::protocol
