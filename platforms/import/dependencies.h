// What made the operations of a recording wait: the timings of host and driver, and edges between streams, as far as
// the recording has them or lets them be inferred (INP-02, INP-03). Independent of the format of the recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workload/workload.h"

namespace heddle::import {

// What no real recording exceeds: beyond it a file is damaged. The bounds keep sums and products of what is read within
// 64 bits (INP-07).
constexpr workload::Nanoseconds kMaxRecordedDuration = 1'000'000'000'000'000;  // 11 days: nothing on a GPU takes longer
// Three years from the first operation of the device: sums of a few such times fit 64 bits.
constexpr workload::Nanoseconds kMaxRecordedSpan = 100'000'000'000'000'000;
constexpr std::uint64_t kMaxRecordedDevice = 65'535;
constexpr std::uint64_t kMaxRecordedRegisters = 1'024;   // per thread; 255 on CUDA, 512 on CDNA
constexpr std::uint64_t kMaxRecordedShared = 16U << 20;  // bytes per CTA; 227 KiB on sm_90
constexpr std::uint64_t kMaxRecordedLocal = 16U << 20;   // bytes per thread; 512 KiB on CUDA
constexpr std::uint64_t kMaxRecordedBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kMaxRecordedBlock = 1'024;  // threads of a CTA, in any direction and in all
constexpr std::uint64_t kMaxRecordedSms = 4'096;
constexpr std::uint64_t kMaxRecordedCtas = std::uint64_t{1} << 48;  // products of it with a few thousand fit 64 bits

constexpr workload::Nanoseconds kRecordedRounding = 2;  // recorders round starts and durations on their own
constexpr workload::Nanoseconds kUnexplained = 15'000;  // a start so much later than expected has a reason of its own

// A moment on the host. `sequence` orders calls within one tick of the recorder's clock (a correlation id, say: they
// grow with every call); 0 where there is none.
struct HostMoment {
  workload::Nanoseconds time = 0;
  std::uint64_t sequence = 0;
};

// "What `waiting` is given after `called` waits for what `source` was given before `recorded`" (cudaStreamWaitEvent
// and cudaEventRecord). Streams are indices into Workload::streams, times count like those of the workload.
struct StreamWait {
  std::size_t waiting = 0;
  HostMoment called;
  std::size_t source = 0;
  HostMoment recorded;
};

struct DependencyCounts {
  std::size_t recorded = 0;      // edges from the recording
  std::size_t contradicted = 0;  // waits of the recording that its own times refute: no edge
  std::size_t inferred = 0;      // edges inferred from coinciding ends
  std::size_t pinned = 0;        // operations with not_before although they have a launch call
};

// Launches of graphs: what one call launched together becomes one operation of its stream (INP-13).
//
// Gives the operations of each launch of a graph their GraphUse, and adds the workload's notes on it. `launch_of` has
// an entry per operation: the number of its launch, 0 if it is of none. Operations are in the order of their recorded
// starts. To be called before derive_dependencies().
//
// Which node of a graph waits for which is not recorded. Within a recorded stream each waits for the last one that had
// ended when it started; it waits for one of another stream if that ended later still. Times that are equal within the
// recorder's resolution count as one after the other.
//
// All operations of a launch go to the stream of its first one. Where that could change an order (another operation of
// one of its streams lies among them, or one of the graph's other streams has operations that no graph launched), and
// where one starts more than 15 us after all that it could have waited for, so that not all of the graph is recorded,
// they stay single operations of their streams. So does a launch of one operation, which is no different.
void form_graphs(workload::Workload& workload, const std::vector<std::uint64_t>& launch_of);

// Fills timings.launch_latency, timings.stream_gap, Op::after, Op::not_before, Op::programmatic and Recorded::overlaps
// of a workload whose operations are in order of their recorded starts, and adds its warnings. `launches` holds, for
// every operation with an `enqueue`, that moment (an entry per operation; those of operations without `enqueue` are not
// read). Every edge goes from an earlier operation to a later one, so that no cycle with the order of a stream is
// possible.
//
// An operation is expected at the latest of: its launch + latency, the end of its predecessor in the stream + gap, the
// end of what it is recorded to wait for + gap. One that starts more than 15 us later has waited for something else:
// if an operation of another stream ended within the 20 us before it, it is taken to have waited for the one that
// ended last; otherwise it is pinned to its recorded start. An operation without launch call is pinned anyway (INP-03);
// if calls are recorded and none for its stream so far, the GPU had it from the start, and it has waited likewise.
// Of the operations of a graph only the first is asked, and others wait for its last.
DependencyCounts derive_dependencies(workload::Workload& workload, const std::vector<HostMoment>& launches,
                                     const std::vector<StreamWait>& waits);

}  // namespace heddle::import
