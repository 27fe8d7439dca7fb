// Task management <-> CWD, beside tasks: eviction (TSK-03) and the growth of queue tasks (TSK-05).
#pragma once

#include <cstdint>

#include "common/packet_socket.h"

namespace heddle::protocol {

// Task management -> CWD: the task is to give up its slot of the task table. CTAs of it that run are not touched. The
// CWD answers every one, once the session of the task that may be under way has ended.
struct EvictPacket {
  std::uint32_t operation = 0;
};

// CWD -> task management. The slot's credit has been returned if `evicted`.
struct EvictedPacket {
  std::uint32_t operation = 0;
  bool evicted = false;    // false: it had left the table before, or no place for evicted tasks was free
  bool remainder = false;  // evicted with CTAs left to launch: it is to be sent again
};

// Task management -> CWD: so many more entries of a queue task have arrived, and whether they are the last: the task
// ends once all of them have completed. `broken`: an entry will never come; the task is aborted.
struct GrowPacket {
  std::uint32_t operation = 0;
  std::uint64_t entries = 0;
  bool last = false;
  bool broken = false;
};

// CWD -> task management: all entries of a queue task so far have been launched and have completed. It may end.
struct IdlePacket {
  std::uint32_t operation = 0;
  std::uint64_t completed = 0;  // entries so far
};

}  // namespace heddle::protocol

HEDDLE_PACKET_LINK(heddle::protocol::EvictPacket);
HEDDLE_PACKET_LINK(heddle::protocol::EvictedPacket);
HEDDLE_PACKET_LINK(heddle::protocol::GrowPacket);
HEDDLE_PACKET_LINK(heddle::protocol::IdlePacket);
