// Host -> task management: an operation enters its stream. Task management -> host: it is done.
#pragma once

#include <cstdint>

#include <systemc>

#include "arch/kernel_record.h"
#include "common/packet_socket.h"
#include "protocol/control_packet.h"

namespace heddle::protocol {

enum class SubmitKind : std::uint8_t {
  kernel,   // runs on the SMs
  hold,     // holds its place in the stream for a time: a copy or a fill of a recording (INP-11)
  wait,     // the stream goes on once another operation is complete: an edge between streams
  control,  // changes the TPC enable table, at once and outside all streams; it is not an operation and is not answered
  share,    // changes how the machine is shared, in the same way: `share`
  close,    // the queue task `wait_for` may end once nothing is left in its queue (TSK-05); in its stream, like a wait
};

// Packets of one stream arrive in the order of the stream. Operation ids are never used twice
// between resets.
struct SubmitPacket {
  SubmitKind kind = SubmitKind::kernel;
  std::uint32_t operation = 0;  // its id; of a wait: the id of the operation that waits
  std::uint32_t stream = 0;
  std::int32_t priority = 0;  // larger is more urgent

  // kernel
  arch::KernelShape kernel;
  // hold
  double hold_ns = 0;
  // wait
  std::uint32_t wait_for = 0;  // operation id; it may be submitted later
  // control
  TpcEnablePacket tpc;
  // share
  SubcontextPacket share;
  // kernel
  bool head = false;          // it goes to the head of the list of its priority, not to the tail (TSK-01)
  std::uint64_t queue = 0;    // a queue task: address of its queue in memory (arch/task_record.h); 0: a grid
  std::uint64_t entries = 0;  // of a queue task: entries that are in its queue from the start
  bool held_open = false;     // of a queue task: it waits for a close operation, however empty its queue is
};

enum class DoneStatus : std::uint8_t {
  ok,
  rejected,  // can never run on this machine: a CTA or a CGA is larger than what could hold it
  faulted,   // a CTA faulted: what had not run of it never did
};

struct DonePacket {
  std::uint32_t operation = 0;
  DoneStatus status = DoneStatus::ok;
  sc_core::sc_time submitted;  // when task management took it in
  sc_core::sc_time start;      // first launch packet left, or the hold began
  sc_core::sc_time end;        // last completion arrived, or the hold ended
};

}  // namespace heddle::protocol

HEDDLE_PACKET_LINK(heddle::protocol::SubmitPacket);
HEDDLE_PACKET_LINK(heddle::protocol::DonePacket);
