// Packet processor -> task management: a kernel starts as soon as it can; no stream holds it back. Or one that was
// started is to be killed. Task management -> packet processor: it is done.
#pragma once

#include <cstdint>

#include "arch/task_record.h"
#include "protocol/host_task.h"

namespace heddle::protocol {

// Operation ids of dispatches have this bit, those of submitted operations do not.
constexpr std::uint32_t kDispatchBit = 0x8000'0000;
// Those of tasks that device code has launched have this bit alone, and so have restored CTAs.
constexpr std::uint32_t kChildBit = 0x4000'0000;

struct DispatchPacket {
  std::uint32_t operation = 0;  // kDispatchBit | number; not used for another one while one has it
  std::int32_t priority = 0;    // larger is more urgent
  arch::KernelShape kernel;
  std::uint32_t queue = 0;  // that it comes from: queues of one priority take turns (TSK-03)
  std::uint64_t fence = 0;  // number of the last acquire fence of agent scope or wider before it; 0: there was none
  // The kernel of that operation, sent before, is to end, with all that it has launched: what waits does not begin, and
  // what runs is stopped. Nothing else of the packet counts. It is answered once, as `aborted`, or as it had ended.
  bool abort = false;
};

struct DispatchDonePacket {
  std::uint32_t operation = 0;
  DoneStatus status = DoneStatus::ok;
  std::uint64_t start = 0;  // cycle of the first launch packet
  std::uint64_t end = 0;    // cycle at which the last completion arrived at the distributor
};

}  // namespace heddle::protocol
