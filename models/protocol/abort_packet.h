// CWD -> GPM -> MPC -> SM: a task has faulted; what runs of it stops, and what still arrives of it ends at once.
#pragma once

#include <cstdint>

#include "common/packet_socket.h"

namespace heddle::protocol {

struct AbortPacket {
  std::uint32_t operation = 0;
};

}  // namespace heddle::protocol

HEDDLE_PACKET_LINK(heddle::protocol::AbortPacket);
