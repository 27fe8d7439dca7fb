// What device-side launches keep in device memory (TSK-07, TSK-13): task metadata (TMD), thread-group contexts, rings
// of free records, areas of saved CTAs, and queues of queue tasks. Plain layouts; arch/tmdq.h has the steps.
//
// Everything is little-endian, and memory that holds zeros is a valid initial state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "arch/cluster.h"
#include "arch/memory_op.h"

namespace heddle::arch {

constexpr std::uint32_t kRecordBytes = 128;  // of a TMD, a queue: one line each; a context has one or more
constexpr std::uint32_t kMaxTmdqs = 64;      // task metadata queues of a context
constexpr std::uint32_t kChildArgs = 6;      // 64-bit arguments of a child launch

// How a child is launched.
enum class LaunchMode : std::uint8_t {
  stream,           // into a stream of its context: after what was launched into it before
  fire_and_forget,  // at once, outside all streams
  tail,             // once its parent grid and all other descendants of it have completed, in the order of launch
};

// TMD of a task that device code has launched, that the host has pushed, or of one of the host's whose program
// launches. Offsets:
namespace tmd {
constexpr std::uint32_t kNext = 0;     // u64: TMD of the next task of its TMDQ; 0: none yet
constexpr std::uint32_t kContext = 8;  // u64: the context that it was launched from; of a tail launch: TMD of the grid
                                       // that it follows; 0: from the host
constexpr std::uint32_t kKernel = 16;  // u64: kernel object (arch/kernel_object.h); 0: from the host
constexpr std::uint32_t kGridX = 24;   // u32: CTAs
constexpr std::uint32_t kGridY = 28;   // u16
constexpr std::uint32_t kGridZ = 30;   // u16
constexpr std::uint32_t kFlags = 32;   // u32: bits 0-7 TMDQ, 8-9 LaunchMode, 10 insert at the head, 11 its end is
                                       // waited for by its ticket, 12 queue task, 13 that is held open, 14-15
                                       // RecordKind, 16-31 stream
constexpr std::uint32_t kTicket = 36;  // u32: of its launch; another, or 0: the launch has completed. Of a task that
                                       // the host has pushed: the number of its operation and one
constexpr std::uint32_t kPriority = 40;   // s32
constexpr std::uint32_t kDepth = 44;      // u32: nesting depth at which it runs: 1 for a child of a host task
constexpr std::uint32_t kOpen = 48;       // u64: its own run (1) and its contexts that are open; of the record of an
                                          // event, until it has come to pass: its ticket in the upper half, and in the
                                          // lower one, in records, the address of the first wait that it has to let go
constexpr std::uint32_t kTailLast = 56;   // u64: last of its tail launches; 0: none
constexpr std::uint32_t kTailFirst = 64;  // u64
constexpr std::uint32_t kSharedContext = 72;  // u64: the context that all its CTAs share; 0: each has its own
constexpr std::uint32_t kArgs = 80;           // u64 x kChildArgs: what the child finds at `kernarg`
// In their place, of a queue task:
constexpr std::uint32_t kQueue = kArgs;        // u64: address
constexpr std::uint32_t kEntries = kArgs + 8;  // u64: that are there from the start
// Of a wait for an event:
constexpr std::uint32_t kAwaited = kArgs;       // u64: launch_handle of the record of the event
constexpr std::uint32_t kNextWait = kArgs + 8;  // u64: the next wait for the same; 0: none
constexpr std::uint32_t kGrid = kArgs + 16;     // u64: TMD of the grid that made it
// Of an event:
constexpr std::uint32_t kLatest = kArgs + 40;  // u64: launch_handle of its last record; 0: it has not been recorded
}  // namespace tmd

// What lies in a record of the pool of tasks.
enum class RecordKind : std::uint8_t {
  task,
  event_record,  // in a TMDQ: what was there before it has completed when it is due
  event_wait,    // in a TMDQ: what comes behind it waits for a record of an event
  event,         // by kTicket known from others that have had its place
};
constexpr std::uint32_t kRecordKindShift = 14;  // in kFlags
// The word at kFlags of an event that lives.
constexpr std::uint64_t event_word(std::uint32_t ticket) {
  return std::uint64_t{ticket} << 32 | std::uint64_t{3} << kRecordKindShift;
}

// Thread-group context: the streams of one CTA, or of all CTAs of a grid. Offsets:
namespace context {
constexpr std::uint32_t kWork = 0;    // u64: bits 0-23: its CTA or grid (1) and tasks that have not completed; 24-43:
                                      // warps that wait for all tasks; 44-63: warps that wait for some of them
constexpr std::uint32_t kOwner = 8;   // u64: TMD of the grid that it belongs to; of the host: host_owner()
constexpr std::uint32_t kHome = 16;   // u64: where its CTA is, below; of a shared context: the CTA of it that was saved
                                      // last, 0: none
constexpr std::uint32_t kTmdqs = 32;  // of each TMDQ: u64, its last-task pointer, 0: it is empty; u64, which of the
                                      // streams that enter it live, below
constexpr std::uint64_t last_task(std::uint64_t tmdq) { return kTmdqs + 16 * tmdq; }
constexpr std::uint64_t live_streams(std::uint64_t tmdq) { return kTmdqs + 16 * tmdq + 8; }
constexpr std::uint64_t bytes(std::uint64_t tmdqs) {
  return (kTmdqs + 16 * tmdqs + kRecordBytes - 1) / kRecordBytes * kRecordBytes;
}
}  // namespace context
// Owner of a context of the host (TSK-06): no TMD, but the subcontext. The host counts as its one CTA, and never
// leaves.
constexpr std::uint64_t host_owner(std::uint8_t subcontext) { return std::uint64_t{subcontext} << 1 | 1; }
constexpr bool is_host_owner(std::uint64_t owner) { return (owner & 1) != 0; }
constexpr std::uint8_t subcontext_of_owner(std::uint64_t owner) { return static_cast<std::uint8_t>(owner >> 1); }
constexpr std::uint64_t kWorkWaiter = std::uint64_t{1} << 24;      // for all tasks
constexpr std::uint64_t kWorkSomeWaiter = std::uint64_t{1} << 44;  // for some of them
constexpr std::uint64_t work_of(std::uint64_t word) { return word & 0xFF'FFFF; }
constexpr std::uint64_t waiters_of(std::uint64_t word) { return word >> 24 & 0xF'FFFF; }
constexpr std::uint64_t some_waiters_of(std::uint64_t word) { return word >> 44; }

// Number of a stream of a context: its TMDQ, and which of the streams that enter this TMDQ it is (TSK-11). Stream 0 is
// there from the start; the bits of the others are set while they live. A bit is used again only after all others.
constexpr std::uint32_t kStreamsOfTmdq = 64;
constexpr std::uint32_t kNoStream = ~std::uint32_t{0};  // none could be created
constexpr std::uint32_t stream_number(std::uint32_t tmdq, std::uint32_t place) { return tmdq | place << 8; }
constexpr std::uint32_t tmdq_of(std::uint32_t stream) { return stream & 0xFF; }
constexpr std::uint32_t place_of(std::uint32_t stream) { return stream >> 8; }
constexpr bool is_stream(std::uint32_t stream, std::uint32_t tmdqs) {
  return tmdq_of(stream) < tmdqs && place_of(stream) < kStreamsOfTmdq;
}

// What a program knows a launch by: its TMD, and its ticket there, by which a later launch with the same TMD is told
// from it.
constexpr std::uint64_t launch_handle(std::uint64_t record, std::uint32_t ticket) {
  return record / kRecordBytes << 32 | ticket;
}
constexpr std::uint64_t record_of_handle(std::uint64_t handle) { return (handle >> 32) * kRecordBytes; }
constexpr std::uint32_t ticket_of_handle(std::uint64_t handle) { return static_cast<std::uint32_t>(handle); }
// Values of kHome. Whoever wakes a context's warps writes kHomeWoken, and finds there where the CTA is.
constexpr std::uint64_t kHomeWoken = ~std::uint64_t{0};
constexpr std::uint64_t home_of_sm(std::uint32_t sm) { return (std::uint64_t{sm} + 1) << 1; }
constexpr bool is_saved_home(std::uint64_t home) { return home != kHomeWoken && (home & 1) != 0; }
constexpr std::uint64_t saved_home(std::uint64_t area) { return area | 1; }
// Of a CTA that was saved with its CGA: the CGA's record.
constexpr std::uint64_t saved_cga_home(std::uint64_t record) { return record | 3; }
constexpr bool is_saved_cga(std::uint64_t home) { return (home & 3) == 3; }
// Of a CGA that was preempted, and goes on in the entry of its task (TSK-16): no home.
constexpr std::uint64_t preempted_cga(std::uint64_t record) { return record | 7; }
constexpr bool is_preempted_cga(std::uint64_t area) { return (area & 7) == 7; }
constexpr std::uint64_t save_area_of(std::uint64_t home) { return home & ~std::uint64_t{7}; }
constexpr std::uint32_t sm_of_home(std::uint64_t home) { return static_cast<std::uint32_t>((home >> 1) - 1); }

// A saved CTA lies in as many chunks as it needs: first this line, then the addresses of the further chunks (u64 each,
// whole units of 16 bytes), then its state. Offsets:
constexpr std::uint32_t kSaveChunk = 4096;
namespace saved {
constexpr std::uint32_t kOperation = 0;  // u32: of the task that the CTA belongs to
constexpr std::uint32_t kRecord = 8;     // u64: TMD of that task
constexpr std::uint32_t kContext = 16;   // u64
constexpr std::uint32_t kBytes = 24;     // u64: of the state
constexpr std::uint32_t kIndex = 32;     // u64: linear id of the CTA in its grid
constexpr std::uint32_t kCtaX = 40;      // u32
constexpr std::uint32_t kCtaY = 44;      // u32
constexpr std::uint32_t kCtaZ = 48;      // u32
constexpr std::uint32_t kLocal = 52;     // u32: bytes of local memory, which follow the state
constexpr std::uint32_t kNext = 56;  // u64: of a shared context: the CTA that was saved before, as its kHome says it
constexpr std::uint32_t kCga = 64;   // u64: of a CTA of a CGA: linear id of the CGA
constexpr std::uint32_t kSize = 72;  // u32: size index of that (CWD-21)
constexpr std::uint32_t kOwed = 76;  // u32: 1: its task counts it as one that runs (TSK-16)
}  // namespace saved

// A CGA whose CTAs have all been saved: a chunk of its own. Whoever finds it by the home of one of its contexts counts
// itself as a waker and no longer as a reference; the first waker restores the CGA. References: one for each home that
// names it, and one for each CTA until it has been restored. The last to go gives the chunk back. Offsets:
namespace saved_cga {
constexpr std::uint32_t kWord = 0;        // u64: low half: references; high half: wakers
constexpr std::uint32_t kRecord = 8;      // u64: TMD of its task
constexpr std::uint32_t kOperation = 16;  // u32: of its task
constexpr std::uint32_t kCtas = 20;       // u32: of the CGA, those that had exited included
constexpr std::uint32_t kSize = 24;       // u32: size index of its shape (CWD-21)
constexpr std::uint32_t kSaved = 28;      // u32: of those CTAs, the ones that had not exited
constexpr std::uint32_t kOwed = 32;       // u32: 1: its task counts them as ones that run (TSK-16)
constexpr std::uint32_t kAreas = 128;     // u64 x kCtas, by rank: where the CTA lies; 0: it had exited
constexpr std::uint32_t kMaxCtas = 32;
constexpr std::uint32_t kBytes = kAreas + 8 * kMaxCtas;
}  // namespace saved_cga
constexpr std::uint64_t kCgaWaker = std::uint64_t{1} << 32;
constexpr std::uint64_t cga_references(std::uint64_t word) { return word & 0xFFFF'FFFF; }
constexpr std::uint64_t cga_wakers(std::uint64_t word) { return word >> 32; }

// A queue of a queue task (TSK-05). Its entries lie behind each other at kEntries: entry of ticket t at (t mod
// capacity) x kQueueEntryBytes. Offsets:
namespace queue {
constexpr std::uint32_t kTickets = 0;   // u64: entries reserved so far; kQueueClosed set: no more
constexpr std::uint32_t kCapacity = 8;  // u64: entries at a time
constexpr std::uint32_t kEntries = 16;  // u64: address
constexpr std::uint32_t kEnough = 24;   // u64: 1: a queue_close has come, and no task of it is held open
}  // namespace queue
constexpr std::uint64_t kQueueClosed = std::uint64_t{1} << 63;
constexpr std::uint32_t kQueueEntryBytes = 64;
constexpr std::uint32_t kQueueEntryData = 8;   // offset of the data in an entry; before: its turn, u64
constexpr std::uint32_t kQueueEntryWords = 7;  // u64 of data
// Turn of an entry: the appender of ticket t waits for free, writes the data, then ready; the CTA that has used it
// writes done, which is free for ticket t + capacity.
constexpr std::uint64_t turn_free(std::uint64_t ticket, std::uint64_t capacity) { return 2 * (ticket / capacity); }
constexpr std::uint64_t turn_ready(std::uint64_t ticket, std::uint64_t capacity) { return 2 * (ticket / capacity) + 1; }
constexpr std::uint64_t turn_done(std::uint64_t ticket, std::uint64_t capacity) { return 2 * (ticket / capacity) + 2; }

// A ring of free records. Who wants one counts itself as a user first, and finds none if there are as many users as
// records. The first `count` tickets take the records in their order; ticket t >= count takes what was given back with
// number t - count. Offsets:
namespace ring {
constexpr std::uint32_t kTaken = 0;    // u64: tickets of takers
constexpr std::uint32_t kUsed = 8;     // u64: records in use, and those that look for one
constexpr std::uint32_t kGiven = 64;   // u64: tickets of givers
constexpr std::uint32_t kSlots = 128;  // u64 x count: records; 0: empty
}  // namespace ring

// One pool of like records: a ring, then the records.
struct RecordPool {
  std::uint64_t base = 0;             // of the ring: a multiple of kRecordBytes
  std::uint64_t count = 0;            // records
  std::uint64_t size = kRecordBytes;  // of a record: a multiple of kRecordBytes

  std::uint64_t ring_bytes() const {
    return (ring::kSlots + 8 * count + kRecordBytes - 1) / kRecordBytes * kRecordBytes;
  }
  std::uint64_t slot(std::uint64_t number) const { return base + ring::kSlots + 8 * (number % count); }
  std::uint64_t record(std::uint64_t index) const { return base + ring_bytes() + index * size; }
  std::uint64_t bytes() const { return count == 0 ? 0 : ring_bytes() + count * size; }
  // Whether one of its records begins at that address.
  bool has(std::uint64_t address) const {
    const std::uint64_t offset = address - record(0);
    return count > 0 && address >= record(0) && offset % size == 0 && offset / size < count;
  }
};

// Records of one kind: a pool that is small enough to stay in the L2, and a larger one behind it for when that is used
// up (TSK-12).
struct RecordSupply {
  RecordPool pool;
  RecordPool spill;  // count 0: there is none

  bool has(std::uint64_t address) const { return pool.has(address) || spill.has(address); }
  const RecordPool& of(std::uint64_t address) const { return spill.has(address) ? spill : pool; }
  std::uint64_t bytes() const { return pool.bytes() + spill.bytes(); }
};

// Where all of it lies in device memory, and what SMs and task management have to agree on.
struct LaunchMemory {
  RecordSupply tasks;            // TMDs
  RecordSupply contexts;         // of thread groups
  RecordPool chunks;             // of saved CTAs
  std::uint32_t tmdqs = 4;       // of a context, up to kMaxTmdqs
  std::uint32_t max_depth = 24;  // deepest nesting at which a child may run
  bool shared_contexts = false;  // one context for all CTAs of a grid
  std::uint32_t retry = 200;     // cycles after which something that another writer is to write is read again
  // As many sets of pools, behind each other: the pools above are those of the first. Subcontexts have them in turn, so
  // that none takes another one's records (PRT-02), or sees them (PRT-08).
  std::uint32_t parts = 1;
  std::uint64_t part_bytes = 0;  // from one set to the next

  bool any() const { return tasks.pool.count > 0; }
  std::uint64_t base() const { return tasks.pool.base; }
  std::uint64_t bytes() const { return any() ? parts * part_bytes : 0; }
  // What a subcontext has of it: one set.
  LaunchMemory of(std::uint32_t subcontext) const { return part(subcontext % parts); }
  // The set that an address lies in; the first, of one that is in none.
  LaunchMemory part_at(std::uint64_t address) const {
    const bool inside = address >= base() && address - base() < bytes();
    return part(inside ? static_cast<std::uint32_t>((address - base()) / part_bytes) : 0);
  }
  LaunchMemory part(std::uint32_t number) const {
    LaunchMemory result = *this;
    for (RecordPool* pool :
         {&result.tasks.pool, &result.tasks.spill, &result.contexts.pool, &result.contexts.spill, &result.chunks}) {
      pool->base += number * part_bytes;
    }
    result.parts = 1;
    return result;
  }
};

// What a kernel launch asks of the machine. One definition, shared by everything that submits work.

// Limits of CWD-40: ids of 32, 16 and 16 bits.
constexpr std::uint32_t kMaxGridY = 65'535;
constexpr std::uint32_t kMaxGridZ = 65'535;
constexpr std::uint32_t kMaxGridX = 2'147'483'647;

// Subcontexts of a context (PRT-07).
constexpr std::uint32_t kSubcontexts = 64;

// Longest run of a CTA, in cycles: sums of such times stay far from 64 bits.
constexpr std::uint64_t kMaxCtaCycles = std::uint64_t{1} << 48;

// How long a CTA runs on its SM, in cycles: a value from [min, max], drawn per CTA from the seed; fixed if both are
// equal.
struct CtaDuration {
  std::uint64_t min = 1;
  std::uint64_t max = 1;
};

// What the machine needs to know of a kernel. Plain data: packets carry it.
struct KernelShape {
  Dim3 grid;                               // CTAs
  Dim3 block;                              // threads per CTA
  std::uint32_t registers_per_thread = 0;  // 0: not known, then no limit
  std::uint32_t shared_bytes = 0;          // static + dynamic, per CTA
  CtaDuration duration;                    // cycles of the SM clock
  ClusterShape cluster;                    // how CTAs are grouped
  RasterOrder raster;                      // in which order they start
  std::uint32_t local_bytes = 0;           // local memory per thread: more than 0 takes a local-memory block per TPC
  std::uint8_t subcontext = 0;             // below kSubcontexts
  bool cooperative = false;  // all its CTAs are on the machine at once, so that they may wait for each other
  std::uint32_t code = 0;    // of its program or demand in the machine's CodeStore; 0: none, CTAs run for `duration`
};

class WarpProgram;
struct Demand;

struct KernelRecord : KernelShape {
  std::string name;
  // At most one of the two; none: CTAs run for `duration`.
  std::shared_ptr<const WarpProgram> program;
  std::shared_ptr<const Demand> demand;  // of each CTA
};

}  // namespace heddle::arch
