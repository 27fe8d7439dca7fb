// The packet processor's requests to memory, and what their answers are for.
#pragma once

#include <cstdint>

#include "arch/unified_address.h"
#include "protocol/memory_client.h"

namespace heddle::packet {

// What an answer is for.
struct MemoryTag {
  enum class Use : std::uint8_t {
    ring,           // `index`: of the packet
    slot_cleared,   // `index`
    read_index,     // `index`: the new value
    table_read,     // `part`: entry; of packet `slot`, `generation`
    table_write,    // `part`: entry; of the packet
    kernel_object,  // `part`: the first kernel of the packet that needs it
    dependency,     // `part`: which signal of the packet
    fence,          // of clean-up `slot`, as all below
    signal,
    mailbox_read,
    mailbox_write,
  };
  Use use = Use::ring;
  std::uint32_t queue = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t part = 0;
  std::uint64_t index = 0;
};

using MemoryClient = protocol::MemoryClient<MemoryTag>;
using MemoryAnswer = MemoryClient::Answer;

}  // namespace heddle::packet
