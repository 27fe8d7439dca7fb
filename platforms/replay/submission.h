// How the operations of a workload are submitted: their times, and what the host of packets takes for its part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/param_fwd.h"

namespace heddle::workload {
struct Workload;
}

namespace heddle::replay {

enum class Pace {
  recorded,  // operations are submitted at the workload's times
  asap,      // as soon as order allows: only streams and the edges between them hold operations back
};

struct SubmissionTimings {
  double launch_latency_ns = 0;       // from the host's call to the earliest start on an idle GPU
  double start_path_ns = 0;           // the part of it that the modelled GPU spends itself on a kernel
  std::uint32_t submit_queue = 1024;  // operations on their way to the GPU: credits
};

// What messages and timelines call an operation.
std::string operation_label(const workload::Workload& workload, std::size_t op);

// Parameters of the host of a run that submits by packets.
struct SubmissionParams {
  double enqueue = 250;                           // ns, writing a packet into its ring
  double doorbell = 50;                           // ns, ringing it
  double poll = 1000;                             // ns between looks at the read index of a full ring
  std::uint32_t ring = 1024;                      // packets: a power of two
  std::uint64_t memory = std::uint64_t{1} << 30;  // bytes, of all GPUs together
  double memory_latency = 90;                     // ns, of an access from a GPU

  static void describe(ParamTable<SubmissionParams>& t);
  // Throws InputError where a value is within its range and still makes no sense.
  void check() const;
};

}  // namespace heddle::replay
