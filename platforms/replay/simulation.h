// Runs workloads on GPUs, once: elaborates, simulates until everything is done or nothing goes on, and collects.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <systemc>

#include "arch/fault.h"
#include "arch/gpu_observation.h"
#include "gpu/gpu_params.h"
#include "replay/packet_plan.h"
#include "replay/submission.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::replay {

// One GPU and what it is given to do.
struct Job {
  std::string instance;  // "gpu0"
  gpu::GpuParams params;
  const workload::Workload* workload = nullptr;
  Pace pace = Pace::recorded;
  double launch_latency_ns = 0;      // host call to start
  std::vector<std::string> regions;  // memory regions to read at the end, beside those that are written to files
  CtaListener* ctas = nullptr;       // sees the CTAs of this GPU, by operation; null: off
  std::optional<workload::PacketOptions> packets;  // submitted by packets of user-mode queues
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  double no_progress_ms = 1000;  // simulated; 0: only when no event is left
  TimelineSink* timeline = nullptr;
  SubmissionParams host;  // of jobs that are submitted by packets: they share its memory
  // Called now and then with simulated time and the share of operations that are done (0 … 1).
  std::function<void(const sc_core::sc_time&, double)> progress;
};

struct JobResult {
  std::unique_ptr<GpuObservation> observation;  // statistics and load map
  std::vector<OpResult> results;
  double cycle_ns = 1;
  double lead_ns = 0;  // the workload's time 0 on the simulation's axis
  std::vector<std::string> sm_paths;
  std::vector<std::uint32_t> sms_per_gpc;
  std::vector<arch::FaultRecord> faults;           // in order of time; `task`: the operation
  std::vector<std::string> fault_kernels;          // of each of them, if a program launched it; else empty
  std::vector<std::vector<std::uint8_t>> regions;  // at the end, by memory region; empty: not asked for
  // Of a job that was submitted by packets.
  bool by_packets = false;
  std::vector<PacketLaunch> launches;                         // in the order of their ends
  std::vector<std::string> problems;                          // queues that stopped: sentences
  std::vector<std::string> notes;                             // for the user
  std::unordered_map<std::uint32_t, std::size_t> operations;  // by the id of the dispatch

  // The operation that a CGA, which carries the id of a task, belongs to.
  std::size_t operation_of(std::uint32_t task) const {
    const auto found = operations.find(task);
    return found == operations.end() ? task : found->second;
  }
};

struct SimulationResult {
  std::vector<JobResult> jobs;
  bool progress = true;            // false: the run ended without progress
  std::string stopped;             // then: how ("no event is left", …)
  std::vector<std::string> waits;  // then: the chain of waits
  double sim_time_ns = 0;          // time of the last event
  std::uint64_t events = 0;
  std::uint64_t wakeups = 0;  // of the SystemC kernel
  std::uint64_t ctas = 0;
  double wall_seconds = 0;  // of the simulation proper
  double cpu_seconds = 0;   // the same, of this process
  double elaboration_seconds = 0;
};

// In a simulation context of its own. Throws InputError, before anything is simulated, if a kernel or its clusters can
// never run on their machine: naming the kernel, the resource, the domain and the machine; and if a load or a TPC
// switch concerns something that the machine does not have.
SimulationResult simulate(const std::vector<Job>& jobs, const SimulationOptions& options);

// What a machine shows of itself before anything has run on it: all its statistics. Throws InputError if its parameters
// contradict each other.
std::unique_ptr<GpuObservation> observe_built(const std::string& instance, const gpu::GpuParams& params);

// Decides when a simulation that still has events makes no progress any more.

// Times are simulated, in any unit. What counts is time in which something happened and no work moved. A jump to the
// next event, however long (a CTA that runs for seconds), is not a standstill: that event is what will move the work.
class ProgressWatch {
 public:
  // `patience` of 0 or less: never.
  explicit ProgressWatch(double patience) : patience_(patience) {}

  // After a stretch of simulation from `begin` to `end`, of which the first `jump` had no event. `progress`: a count
  // that goes up whenever work is taken in, started or finished. `open`: work waits. True: no progress for too long.
  bool stuck(double begin, double end, double jump, std::uint64_t progress, bool open) {
    if (progress != seen_ || !open) {
      seen_ = progress;
      idle_ = 0;
      return false;
    }
    idle_ += end - begin - jump;
    return patience_ > 0 && idle_ >= patience_;
  }
  double idle() const { return idle_; }

 private:
  double patience_;
  std::uint64_t seen_ = 0;
  double idle_ = 0;
};

}  // namespace heddle::replay
