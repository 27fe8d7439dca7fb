// CWD -> GPM -> MPC -> SM: a task has faulted; what runs of it stops, and what still arrives of it ends at once.
#pragma once

#include <cstdint>

namespace heddle::protocol {

struct AbortPacket {
  std::uint32_t operation = 0;
};

}  // namespace heddle::protocol
