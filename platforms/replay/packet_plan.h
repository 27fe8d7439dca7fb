// Which queue an operation goes to, when, and what it waits for: how a workload's streams become queues. Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/aql_packet.h"
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

// Where the time of a kernel goes that was launched by a packet (PKT-08). Plain C++.
enum class Part : std::uint8_t { enqueue, fetch, wait, decode, dispatch, launch, execution, clean_up };
constexpr std::size_t kParts = 8;
// "clean_up", for files and statistics; what it is, in words.
const char* part_key(Part part);
const char* part_text(Part part);

// One kernel. Times in nanoseconds on the simulation's axis.
struct PacketLaunch {
  std::size_t op = 0;
  std::uint32_t queue = 0;
  std::uint64_t index = 0;    // of its packet
  std::uint32_t kernel = 0;   // which of the packet
  std::uint32_t kernels = 1;  // of the packet
  arch::PacketType type = arch::PacketType::kernel_dispatch;
  arch::HsaStatus status = arch::HsaStatus::success;
  arch::Reason reason = arch::Reason::none;
  // The ends of its parts: the host begins to write, doorbell, fetched, ready, decoded, dispatched, started, ended,
  // cleaned.
  std::array<double, kParts + 1> times{};

  // Of a part, 0 or more. What a condensed packet takes as a whole counts for its first kernel.
  double part_ns(Part part) const;
};

using Parts = std::array<double, kParts>;  // ns

// The parts as they lie behind each other: of every launch, what no earlier launch of its queue covers. In a queue that
// always has work they add up to the time from the first enqueue to the last clean-up. By launch.
std::vector<Parts> own_parts(const std::vector<PacketLaunch>& launches);

}  // namespace heddle::replay
