// A workload: operations in streams, as a host submits them to one GPU. Scenarios and recorded traces both become one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arch/address_map.h"
#include "arch/instances.h"
#include "arch/memory_op.h"
#include "arch/task_record.h"
#include "arch/tensor_descriptor.h"
#include "common/error.h"
#include "workload/operators.h"

namespace heddle::workload {

// Times are nanoseconds; those of a recording count from the start of its first operation on the device.
using Nanoseconds = std::int64_t;

enum class OpKind { kernel, copy, fill };

// Between which memories a copy moves its bytes.
enum class CopyDirection { device_to_device, host_to_device, device_to_host };
// What a recorder's name for a copy says: "Memcpy HtoD (Pinned -> Device)". Within the device where it says nothing.
inline CopyDirection direction_of(const std::string& name) {
  const auto has = [&name](const char* text) { return name.find(text) != std::string::npos; };
  // ROCm writes "CopyHostToDevice", CUDA "Memcpy HtoD".
  if (has("HtoD") || has("HtoA") || has("HostToDevice")) return CopyDirection::host_to_device;
  if (has("DtoH") || has("AtoH") || has("DeviceToHost")) return CopyDirection::device_to_host;
  return CopyDirection::device_to_device;
}

// Why an operation does not start as soon as its stream and its host call would allow it.
enum class EdgeSource {
  recorded,  // a stream-wait event in the recording, or an `after:` in a scenario
  inferred,  // no record, but the end of another stream's operation coincides with the start
};

struct Edge {
  std::size_t from = 0;  // index into Workload::ops; that operation completes before this one starts
  EdgeSource source = EdgeSource::recorded;
  std::optional<std::size_t> gpu = {};  // another GPU of the run, whose operation it is
};

// What GPUs do together, over what connects them.
enum class Collective { all_reduce, all_gather, reduce_scatter, broadcast };

// A recorded kernel of a library of collectives (NCCL, RCCL).
struct Communication {
  std::optional<Collective> kind;         // none: it does something else, or the recording does not tell
  std::string group;                      // of processes, as the recording calls it; empty: not recorded
  std::uint64_t bytes = 0;                // of the buffer of each rank, whole; 0: not recorded
  std::uint64_t ranks = 0;                // that took part; 0: not recorded
  std::string members;                    // these, as the recording lists them; empty: not recorded
  std::optional<std::uint64_t> sequence;  // its number within the group, which all ranks count alike
};

// What the recorder saw of an operation. Absent in scenarios.
struct Recorded {
  Nanoseconds start = 0;
  Nanoseconds duration = 0;
  double occupancy_percent =
      -1.0;               // the recorder's estimate ("est. achieved occupancy %"); negative: none, or not usable
  bool overlaps = false;  // another kernel of this device ran at some time while this kernel ran
};

// The queue that a queue task takes its entries from.
struct QueueUse {
  std::uint64_t address = 0;
  std::uint64_t entries = 0;       // that are there from the start
  std::vector<std::size_t> until;  // it stays open until these operations have ended: indices into Workload::ops
};

// An operation of a graph: the operations of one launch follow each other, each behind all that it waits for.
struct GraphUse {
  std::vector<std::size_t> after;  // of the same launch: indices into Workload::ops
  bool last = false;               // of its launch
};

// What a copy between memories of the run's GPUs really moves. Addresses are of the GPU that copies, or in its window
// to others.
struct MovedBytes {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

struct Op {
  OpKind kind = OpKind::kernel;
  arch::KernelRecord kernel;                                  // for copies and fills only `name` has a meaning
  std::uint64_t bytes = 0;                                    // copies and fills
  CopyDirection direction = CopyDirection::device_to_device;  // copies
  std::optional<MovedBytes> moved;        // of a copy that the copy engines carry out; then it has no duration
  Nanoseconds duration = 0;               // copies and fills: how long they hold their place in their stream
  std::size_t stream = 0;                 // index into Workload::streams
  std::optional<Nanoseconds> enqueue;     // begin of the host's call; absent: recorded without one
  std::optional<Nanoseconds> not_before;  // earliest start, for operations whose wait nothing else explains
  std::vector<Edge> after;                // edges between streams
  std::vector<std::uint64_t> args;        // of a kernel: its arguments in device memory; only packets carry them
  std::optional<int> priority;            // absent: that of its stream
  bool head = false;                      // it goes to the head of the list of its priority (TSK-01)
  std::optional<QueueUse> queue;          // a queue task: a CTA for each entry of a queue (TSK-05)
  bool programmatic = false;              // a kernel: it may start once the one before it in its stream lets it
  std::optional<GraphUse> graph;          // it is launched with others, as one operation of its stream
  std::optional<Recorded> recorded;
  std::optional<Communication> communication;
  std::uint32_t max_active_clusters =
      0;                             // of a clustered kernel, as the recorder's driver computed it (INP-09); 0: none
  bool cluster_guessed = false;      // the recording tells none: kernel.cluster is what its name says
  bool grid_assumed = false;         // the recording has no grid: one CTA per SM of the recorded machine (INP-04)
  std::optional<std::size_t> op_of;  // the operator that launched it: index into Workload::operators
  bool op_inferred = false;          // its own is not recorded: op_of is that of launches like it, which all agree
};

// A part of the recorded program that it named itself, and what it launched in it.
struct NamedRange {
  std::string name;
  std::optional<std::size_t> within;  // index into Workload::ranges, of one before it
  std::vector<std::size_t> ops;       // indices into Workload::ops, ascending; those of ranges within it among them
};

struct Stream {
  std::string name;  // as the recording or the scenario calls it, e.g. "7"
  int priority = 0;  // larger is more urgent
};

// The machine that a recording was made on, as far as the recording tells.
struct DeviceInfo {
  std::string name;  // e.g. "NVIDIA H100 80GB HBM3"; empty: unknown
  int id = 0;        // device number in the recording
  std::uint32_t sms = 0;
  std::uint32_t warp_size = 32;
  std::uint32_t max_threads_per_sm = 0;  // 0: not recorded, here and below
  std::uint32_t max_threads_per_cta = 0;
  std::uint32_t registers_per_sm = 0;
  std::uint64_t shared_bytes_per_sm = 0;
  std::uint64_t max_shared_bytes_per_cta = 0;
};

// Host and driver as the recording shows them; they belong to the recorded system, not to the modelled GPU.
struct RecordedTimings {
  std::optional<Nanoseconds> launch_latency;  // host call to start on an idle stream (lower quartile)
  std::optional<Nanoseconds>
      stream_gap;              // end of an operation to the start of its waiting successor (mean without outliers)
  Nanoseconds resolution = 1;  // of the recorder's clock: 1, or 1000 where it wrote whole microseconds
};

// What SMs hold when the machine starts: resources of CTAs that are not part of the workload. One of sms, gpcs, all.
struct SmLoad {
  std::vector<std::uint32_t> sms;   // SM ids of the machine
  std::vector<std::uint32_t> gpcs;  // every SM of these
  bool all = false;
  arch::KernelShape kernel;  // whose CTAs
  std::uint32_t ctas = 0;    // on each of the SMs
  Nanoseconds until = 0;     // when they leave; 0: never
  SourcePos where;
};

// A TPC that begins or ceases to receive work (TPC enable table).
struct TpcSwitch {
  std::uint32_t gpc = 0;
  std::uint32_t tpc = 0;  // of the GPC
  bool enabled = true;
  Nanoseconds when = 0;
  SourcePos where;
};

// How a subcontext begins.
struct Subcontext {
  std::uint8_t id = 0;
  std::optional<std::uint32_t> credits;                                      // TPCs that it may hold
  std::optional<std::vector<std::pair<std::uint32_t, std::uint32_t>>> tpcs;  // GPC, TPC: where it may run
  bool translated = false;                   // it has an address space of its own (MEM-04)
  std::optional<std::uint32_t> sms;          // percent of the machine's, on which it may have CTAs at a time (PRT-11)
  std::optional<std::uint32_t> warps;        // percent of an SM's, that its CTAs may have there
  std::optional<std::uint32_t> local_bytes;  // local memory of a thread; none: as much as its kernels need (PRT-06)
  std::optional<std::uint32_t> instance;     // that it belongs to (PRT-11)
  std::optional<std::uint32_t> bandwidth;    // thousandths of that of L2 and memory, where it is contended
  std::optional<std::uint32_t> bandwidth_limit;  // the most that it may have, in thousandths
  SourcePos where;
};

// A change of how the machine is shared, while work runs (PRT-07).
struct ShareChange {
  enum class What : std::uint8_t { mode, credits, enable, block, sms, warps, bandwidth, bandwidth_limit };
  enum class Mode : std::uint8_t { none, static_, dynamic };
  What what = What::mode;
  Mode mode = Mode::none;
  std::uint8_t subcontext = 0;
  std::uint32_t gpc = 0;
  std::uint32_t tpc = 0;    // of the GPC
  std::uint32_t value = 0;  // credits; 1 or 0; the number of the block; thousandths
  Nanoseconds when = 0;
  SourcePos where;
};

// What a region of memory holds when the run begins.
struct RegionContents {
  enum class Kind {
    zeros,
    pattern,
    random,
    file,
    tensor,
    bytes,    // `bytes`, as many as the region has
    queue,    // a queue of a queue task: `capacity`, `entries`
    kernels,  // kernel objects of Workload::launched: whoever knows the numbers of their programs writes them
  };
  Kind kind = Kind::zeros;
  arch::ValueType type = arch::ValueType::u8;  // pattern, random: of the elements
  std::string pattern;                         // expression over i, the number of the element
  std::uint64_t seed = 0;                      // random, and what follows
  double min = 0;
  double max = 1;
  bool integer = false;           // whole numbers from min to max, both included; otherwise from min, included, to max
  std::string file;               // as it can be opened
  arch::TensorDescriptor tensor;  // kDescriptorBytes that describe it
  std::vector<std::uint8_t> bytes;
  std::uint64_t capacity = 0;     // queue: entries at a time
  std::vector<std::array<std::uint64_t, arch::kQueueEntryWords>> entries;  // queue: there when the run begins
  SourcePos where;
};

// A named part of a GPU's memory. initial_bytes (memory_region.h) gives its contents.
struct MemoryRegion {
  std::string name;
  std::size_t gpu = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  RegionContents contents;
  std::optional<std::string> write;  // file that takes its bytes at the end of the run, as the scenario has it
  // Of a translated subcontext: `address` is one of its address space, and where the bytes lie is the loader's affair.
  std::optional<std::uint8_t> subcontext;
  std::optional<std::uint32_t> instance;  // in whose memory it lies (PRT-11); of a translated subcontext: its own
  bool read_only = false;                 // there
  bool shared = false;                    // kernels of all GPUs may use it, over links: its name is an address of that
  std::set<std::uint8_t> users;           // a queue: subcontexts whose programs append to it or take its entries
  SourcePos where;

  // What its name means.
  std::uint64_t known_as() const {
    return shared ? arch::peer_address(static_cast<std::uint32_t>(gpu), address) : address;
  }
};

// A kernel that programs launch: its object lies at `address` (arch/kernel_object.h).
struct LaunchedKernel {
  arch::KernelRecord kernel;
  std::uint64_t address = 0;
};

struct Workload {
  std::string name;    // file or scenario name
  std::string format;  // "kineto", "nsys", "rocprof", "scenario"
  DeviceInfo device;
  RecordedTimings timings;
  std::size_t recording = 0;  // number of the file among those of the run
  Nanoseconds origin = 0;     // of its times, on the recorder's clock, which all devices of a file have in common
  std::vector<Stream> streams;
  std::vector<Op> ops;  // in the order of their submission; within a stream this is their order of execution
  std::vector<Operator> operators;  // that launched them, as far as they are recorded; callers before those they call
  std::vector<NamedRange> ranges;   // with launches, in the order of their begin
  std::vector<SmLoad> loads;
  std::vector<TpcSwitch> tpc_switches;
  arch::Instances instances;  // of the machine, as the scenario's `config` has them
  std::vector<Subcontext> subcontexts;
  std::vector<ShareChange> shares;   // in the order of the file
  std::vector<MemoryRegion> memory;  // of this GPU, in the order of the file
  std::vector<LaunchedKernel> launched;
  bool collectives = false;           // it has kernels of collectives, which write to other GPUs over links
  std::vector<std::string> warnings;  // sentences for the user

  std::size_t kernels() const {
    return static_cast<std::size_t>(
        std::count_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::kernel; }));
  }
};

}  // namespace heddle::workload
