// Host interface -> packet processor: queues are opened and closed, doorbells ring, agent packets are done. Packet
// processor -> host interface: what registers show and interrupts tell.
#pragma once

#include <array>
#include <cstdint>

#include "arch/aql_packet.h"

namespace heddle::protocol {

constexpr std::uint32_t kMaxQueues = 64;
constexpr std::uint32_t kMaxHeldAgents = 64;  // agent packets of a queue that the host can have at a time

struct QueueSetup {
  std::uint64_t base = 0;        // unified address of the ring; a multiple of 64
  std::uint32_t size = 0;        // packets: a power of two, 1 to 2^20
  std::uint64_t read_index = 0;  // unified address of the 64-bit index that the packet processor writes; 0: none
  std::uint64_t first = 0;       // index of the first packet
  std::int32_t priority = 0;     // larger is more urgent: among queues, and of their kernels
  std::uint8_t subcontext = 0;
};

enum class QueueCommand : std::uint8_t {
  open,        // `setup`
  close,       // starts nothing more; what has been launched ends as usual. Of an inactive queue: it is closed
  inactivate,  // starts nothing more; kernels that run are killed (PKT-14)
  doorbell,    // packets may be there; `index`: of one of them, if it is in reach of the ring
  agent_done,  // the agent packet `index` that the host holds is done; `status` is not 0: with an error
};

struct QueueCommandPacket {
  QueueCommand command = QueueCommand::doorbell;
  std::uint32_t queue = 0;
  QueueSetup setup;
  std::uint64_t index = 0;
  std::uint32_t status = 0;
};

enum class QueueState : std::uint8_t {
  closed = 0,
  active = 1,
  error = 2,     // stopped by a bad packet (PKT-09): close and open it again
  draining = 3,  // closed by the host, kernels still run
  aborting = 4,  // inactivated by the host; what ran is being killed
  inactive = 5,  // nothing of it is left; to be closed
};

enum class QueueEvent : std::uint8_t {
  state,   // `state`; with error also `status`, `reason` and `index`, and the interrupt
  read,    // `index`: the packets before it have been taken
  agent,   // an agent packet for the host: `index`, `packet`; and the interrupt
  signal,  // a signal that asks for an interrupt has changed: `event_id`
  fault,   // a kernel of the packet at `index` faulted
};

struct QueueEventPacket {
  QueueEvent event = QueueEvent::state;
  std::uint32_t queue = 0;
  QueueState state = QueueState::closed;
  arch::HsaStatus status = arch::HsaStatus::success;
  arch::Reason reason = arch::Reason::none;
  std::uint64_t index = 0;
  std::uint32_t kernel = 0;  // of a condensed packet: which
  std::uint32_t event_id = 0;
  arch::PacketBytes packet{};
};

}  // namespace heddle::protocol
