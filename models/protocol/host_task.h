// Host -> device: operations enter their streams and are done; and, at any time and outside all streams, which TPCs may
// work and how the machine is shared.
#pragma once

#include <cstdint>

#include "arch/bandwidth_table.h"
#include "arch/task_record.h"
#include "common/cycle.h"
#include "protocol/ids.h"

namespace heddle::protocol {

// Host -> CWD: which TPCs may receive work from now on (TPC enable table). A cleared TPC finishes what runs on it.
struct TpcEnablePacket {
  GpcId gpc;
  TpcInGpc tpc;
  bool enabled = true;
};

// Host -> CWD and MMU: how the machine is shared (PRT-05, PRT-06, PRT-07).
enum class PartitionMode : std::uint8_t {
  none,     // subcontexts share all TPCs without limits
  static_,  // fixed masks; no TPC belongs to two subcontexts; software sets local-memory blocks
  dynamic,  // credits, and masks that bound where a subcontext may run
};

// Why a change of how the machine is shared was not carried out. Nothing has changed then.
enum class ShareRefusal : std::uint8_t {
  none,
  subcontext,  // there is no such subcontext
  tpc,         // the machine has no such TPC
  value,       // out of range
  overlap,     // static mode: a TPC would belong to two subcontexts
  block,       // the local-memory block is another's
  no_mmu,      // a page table, and the machine does not translate
  in_use,      // CTAs use the local memory that would change
  bandwidth,   // the shares would be more than all, or a limit below the subcontext's share
};
constexpr std::uint32_t kShareRefusals = 9;

struct SubcontextPacket {
  enum class What : std::uint8_t {
    mode,        // `mode`; of the whole machine
    credits,     // TPCs that it may hold: `value`
    enable,      // TPC `tpc` of GPC `gpc`: `value` is 1 or 0
    block,       // static mode: local-memory block `value` for TPC `tpc` of GPC `gpc`
    page_table,  // root of its page tables: physical address `value`; 0: its addresses are not translated
    // Its local memory (PRT-06), which cannot change while its CTAs use some.
    local_address,  // of block 0, in its space: `value`, a multiple of 128
    local_bytes,    // of a thread: `value`, a multiple of 4; 0: it has none
    // Shares below a TPC (PRT-11), `value` in percent.
    sms,    // of the machine on which it may have CTAs at a time
    warps,  // of an SM that its CTAs may have
    // Bandwidth (PRT-11).
    bandwidth,        // its share of the bandwidth of L2 and memory: `value` thousandths; 0: none of its own
    bandwidth_limit,  // the most that it may have, in the same way; 1000: no limit
    instance,         // whose copy engines its copies use: the number of the instance and one; 0: those of none
  };
  What what = What::credits;
  PartitionMode mode = PartitionMode::none;
  std::uint8_t subcontext = 0;
  GpcId gpc;
  TpcInGpc tpc;
  std::uint64_t value = 0;
};

// Enters a change of bandwidth into a table of shares.
inline ShareRefusal judge_share(arch::BandwidthTable& table, const SubcontextPacket& change) {
  using Refusal = arch::BandwidthTable::Refusal;
  if (change.subcontext >= arch::kSubcontexts) return ShareRefusal::subcontext;
  const Refusal refusal = change.what == SubcontextPacket::What::bandwidth
                              ? table.set_share(change.subcontext, change.value)
                              : table.set_limit(change.subcontext, change.value);
  if (refusal == Refusal::none) return ShareRefusal::none;
  return refusal == Refusal::value ? ShareRefusal::value : ShareRefusal::bandwidth;
}

// Host -> task management: an operation enters its stream. Task management -> host: it is done.
enum class SubmitKind : std::uint8_t {
  kernel,   // runs on the SMs
  copy,     // the copy engines move bytes; the stream goes on when they have (HST-05)
  hold,     // holds its place in the stream for a time: a copy or a fill of a recording (INP-11)
  wait,     // the stream goes on once another operation is complete: an edge between streams
  control,  // changes the TPC enable table, at once and outside all streams; it is not an operation and is not answered
  share,    // changes how the machine is shared, in the same way: `share`
  close,    // the queue task `wait_for` may end once nothing is left in its queue (TSK-05); in its stream, like a wait
  edge,     // of a graph: its kernel `operation`, which follows, waits for its kernel `wait_for`
  // Of a kernel that the host has pushed into a TMDQ of its own in memory (TSK-06).
  start,   // the TMDQ was empty: the doorbell for the task of `record`
  queued,  // it is behind operation `wait_for`: for observation only
  // Outside all streams, and not answered.
  signal,  // an operation of another device, which has the id `operation` here, is complete (LNK-09)
  fill,    // the copy engines write `fill_value` over and over: to `copy_to`, `copy_bytes` bytes, both whole words
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
  // copy: unified addresses, or such of other devices
  std::uint64_t copy_from = 0;
  std::uint64_t copy_to = 0;
  std::uint64_t copy_bytes = 0;
  std::uint32_t fill_value = 0;
  // wait
  std::uint32_t wait_for = 0;  // operation id; it may be submitted later
  // control
  TpcEnablePacket tpc;
  // share
  SubcontextPacket share;
  // kernel
  bool programmatic = false;  // it may start once the kernel before it in its stream lets it
  bool head = false;          // it goes to the head of the list of its priority, not to the tail (TSK-01)
  std::uint64_t queue = 0;    // a queue task: address of its queue in memory (arch/task_record.h); 0: a grid
  std::uint64_t entries = 0;  // of a queue task: entries that are in its queue from the start
  bool held_open = false;     // of a queue task: it waits for a close operation, however empty its queue is
  // start, queued
  std::uint64_t record = 0;  // TMD of the task
  // edge, kernel
  bool in_graph = false;    // it is of the graph that is being launched in its stream: its packets follow each other
  bool graph_last = false;  // the last of them, a kernel
};

enum class DoneStatus : std::uint8_t {
  ok,
  rejected,  // can never run on this machine: a CTA or a CGA is larger than what could hold it
  faulted,   // a CTA faulted: what had not run of it never did
  aborted,   // killed by its host: what had not run of it never did
};

struct DonePacket {
  std::uint32_t operation = 0;
  DoneStatus status = DoneStatus::ok;
  Picoseconds submitted = 0;  // when task management took it in
  Picoseconds start = 0;      // first launch packet left, or the hold began
  Picoseconds end = 0;        // last completion arrived, or the hold ended
};

// Host of a device -> hosts of others: an operation there is complete, for streams that wait for it (LNK-09).
struct RemoteEndPacket {
  std::uint32_t device = 0;
  std::uint32_t operation = 0;
};

}  // namespace heddle::protocol
