// How the operations of a workload are submitted: their times, and what the host of packets takes for its part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/param_fwd.h"

namespace heddle {
class Domain;
}

namespace heddle::workload {
struct Workload;
}

namespace heddle::replay {

enum class Pace {
  recorded,  // operations are submitted at the workload's times
  host,      // at the host's calls; nothing is held until a recorded start
  asap,      // as soon as order allows: only streams and the edges between them hold operations back
};

const char* pace_name(Pace pace);

struct SubmissionTimings {
  double launch_latency_ns = 0;       // from the host's call to the earliest start on an idle GPU
  double start_path_ns = 0;           // the part of it that the modelled GPU spends itself on a kernel
  double copy_path_ns = 0;            // the same of a copy or a fill
  std::uint32_t submit_queue = 1024;  // operations on their way to the GPU: credits
};

// When the host turns to each operation, in nanoseconds of the workload's axis: its call plus the launch latency, less
// what the modelled machine itself needs. Within a stream the order of the workload holds, whatever the times say.
std::vector<std::int64_t> host_times(const workload::Workload& workload, Pace pace, const SubmissionTimings& timings);

// What messages and timelines call an operation.
std::string operation_label(const workload::Workload& workload, std::size_t op);

// Parameters of the host of a run that submits by packets, or into TMDQs.
struct SubmissionParams {
  double enqueue = 250;                           // ns, writing a packet into its ring
  double plan = 0;                                // ns, of a kernel for which condensed packets are planned
  double doorbell = 50;                           // ns, ringing it
  double poll = 1000;                             // ns between looks at the read index of a full ring
  std::uint32_t ring = 1024;                      // packets: a power of two
  std::uint32_t tmds = 1024;                      // of tasks that have been pushed and have not ended
  std::uint64_t memory = std::uint64_t{1} << 30;  // bytes, of all GPUs together
  double memory_latency = 90;                     // ns, of an access from a GPU

  static void describe(ParamTable<SubmissionParams>& t);
  // Throws InputError where a value is within its range and still makes no sense.
  void check() const;
};

// What the model made of an operation. Times in nanoseconds on the workload's own axis (0 is the recording's first
// start).
struct OpResult {
  bool done = false;
  bool rejected = false;
  bool faulted = false;
  double submitted = 0;
  double start = 0;
  double end = 0;
};

// What a simulation wants of whoever submits the operations of a workload, however they are submitted.
class Submitter {
 public:
  virtual ~Submitter() = default;

  // Begins, now. Called once before the simulation.
  virtual void start() = 0;
  virtual std::size_t done() const = 0;
  virtual const std::vector<OpResult>& results() const = 0;
  // Nanoseconds by which the simulation's time axis lies before the workload's: host calls precede the first start.
  virtual double lead() const = 0;
  virtual Domain& submitter_domain() = 0;

  std::size_t operations() const { return results().size(); }
  bool finished() const { return done() == operations(); }
};

}  // namespace heddle::replay
