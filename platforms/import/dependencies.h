// What made the operations of a recording wait: the timings of host and driver, and edges between streams, as far as
// the recording has them or lets them be inferred (INP-02, INP-03). Independent of the format of the recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenario/workload.h"

namespace heddle::workload {

// A moment on the host. `sequence` orders calls within one tick of the recorder's clock (a correlation id, say: they
// grow with every call); 0 where there is none.
struct HostMoment {
  Nanoseconds time = 0;
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

// Fills timings.launch_latency, timings.stream_gap, Op::after, Op::not_before and Recorded::overlaps of a workload
// whose operations are in order of their recorded starts, and adds its warnings. `launches` holds, for every operation
// with an `enqueue`, that moment (an entry per operation; those of operations without `enqueue` are not read).
// Every edge goes from an earlier operation to a later one, so that no cycle with the order of a stream is possible.
//
// An operation is expected at the latest of: its launch + latency, the end of its predecessor in the stream + gap, the
// end of what it is recorded to wait for + gap. One that starts more than 15 us later has waited for something else:
// if an operation of another stream ended within the 15 us before it, it is taken to have waited for the one that
// ended last; otherwise it is pinned to its recorded start. An operation without launch call is pinned anyway (INP-03).
DependencyCounts derive_dependencies(Workload& workload, const std::vector<HostMoment>& launches,
                                     const std::vector<StreamWait>& waits);

}  // namespace heddle::workload
