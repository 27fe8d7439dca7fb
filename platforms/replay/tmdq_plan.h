// What a host whose streams are TMDQs keeps in device memory for them (TSK-06): contexts of depth 0, TMDs, and the
// objects of its kernels. Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/task_record.h"
#include "replay/packet_encoder.h"
#include "replay/submission.h"
#include "workload/workload.h"

namespace heddle::replay {

// Streams of one subcontext have the TMDQs of one context; from arch::kMaxTmdqs streams on of several. A stream never
// shares its TMDQ: the host allocates as much as it needs.
struct HostTmdq {
  std::size_t stream = 0;
  std::uint8_t subcontext = 0;
  std::uint64_t context = 0;
  std::uint32_t number = 0;      // of the context's TMDQs
  std::vector<std::size_t> ops;  // in the order of the stream

  std::uint64_t last_task() const { return context + arch::context::last_task(number); }
  std::uint64_t work() const { return context + arch::context::kWork; }
};

struct TmdqPlan {
  std::vector<HostTmdq> tmdqs;          // of the streams that have operations
  std::vector<std::int64_t> when;       // by operation, ns of the workload's axis: when the host turns to it
  std::vector<std::uint64_t> contexts;  // addresses
  std::vector<std::uint64_t> objects;   // of kernels, by operation
  std::vector<std::uint64_t> tmds;      // addresses
  std::vector<MemoryWrite> contents;    // of contexts and kernel objects when the run begins
};

// `codes`: of load_programs(). `tmds`: tasks that are in memory at a time. `device`: below what the machine itself
// uses. Throws InputError where an operation cannot be pushed into a TMDQ, or memory is too small.
TmdqPlan plan_tmdqs(const workload::Workload& workload, const std::vector<std::uint32_t>& codes,
                    const std::vector<std::int64_t>& when, std::uint32_t tmds, Area& device);

// The TMD of an operation as the host writes it, with next = 0.
std::array<std::uint8_t, arch::kRecordBytes> tmd_of(const workload::Workload& workload, const TmdqPlan& plan,
                                                    const HostTmdq& tmdq, std::size_t op);

}  // namespace heddle::replay
