// Which queue an operation goes to, when, and what it waits for: how a workload's streams become queues. Plain C++.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/submission.h"
#include "workload/workload.h"

namespace heddle::replay {

struct PlannedQueue {
  std::int32_t priority = 0;
  std::uint8_t subcontext = 0;
  std::vector<std::size_t> streams;
  std::vector<std::size_t> ops;  // in the order of their packets
};

struct PlannedOp {
  std::uint32_t queue = 0;
  std::size_t place = 0;                // in PlannedQueue::ops
  std::int64_t when = 0;                // ns, workload axis: when the host turns to it, at the earliest
  std::size_t order = 0;                // among all operations, by time and then by the order of submission
  std::vector<std::size_t> waits;       // operations of other queues that must be complete before
  std::optional<std::uint32_t> signal;  // number of its completion signal: another queue waits for it, or it is the
                                        // last of its queue
};

struct PacketPlan {
  std::vector<PlannedQueue> queues;
  std::vector<PlannedOp> ops;  // by operation
  std::uint32_t signals = 0;
  std::vector<std::string> warnings;
};

// Every stream has a queue of its own as long as there are queues; then streams of one priority and subcontext share
// them, in the order of their host times, and wait for each other. Throws InputError where kernels of one stream are of
// different subcontexts, where there are more kinds of streams than queues, or where an operation waits for one that is
// behind it in the same queue.
PacketPlan plan_packets(const workload::Workload& workload, Pace pace, const SubmissionTimings& timings,
                        std::uint32_t queues);

}  // namespace heddle::replay
