// Runs workloads on GPUs, once: elaborates, simulates until everything is done or nothing goes on, and collects.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <systemc>

#include "arch/fault.h"
#include "arch/gpu_observation.h"
#include "common/domain.h"
#include "common/error.h"
#include "common/waits.h"
#include "gpu/gpu_params.h"
#include "link/link_params.h"
#include "replay/packet_plan.h"
#include "replay/submission.h"
#include "replay/workload_part.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::gpu {
class Gpu;
}

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
  bool counts_kernels = false;       // what each kernel uses of the machine (arch/kernel_account.h)
  std::optional<workload::PacketOptions> packets;  // submitted by packets of user-mode queues
  bool tmdqs = false;                              // submitted into TMDQs in device memory; then without packets
  WorkloadPart part;                               // of a job whose operations are submitted to streams
};

// When a simulation that still has events makes no progress any more. In events: a run ends at the same one everywhere.
struct ProgressLimits {
  std::uint64_t events = 2'000'000;            // in which all that runs does the same again and again; 0: never
  std::uint64_t instructions = 1'000'000'000;  // in which nothing but instructions is seen; 0: never
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  ProgressLimits limits;
  // Where the run is stopped, its results partial; 0: nowhere.
  double wall_limit_s = 0;                                          // of this computer's time, since `wall_begin`
  std::optional<std::chrono::steady_clock::time_point> wall_begin;  // none: since this simulation begins
  double time_limit_ns = 0;                                         // of simulated time
  std::uint64_t event_limit =
      0;  // events of the model: looked at now and then, so that some thousands more are executed
  // Called now and then: a reason to stop, or nothing.
  std::function<std::optional<std::string>()> interrupted;
  // Called once the machines are built, before anything runs. What it throws ends the simulation.
  std::function<void(const std::vector<const Stats*>&)> built;
  // Called at the end of every stretch (WorkloadPart), the last one included.
  std::function<void(const RestingPoint&)> resting;
  TimelineSink* timeline = nullptr;
  SubmissionParams host;     // of jobs that are submitted by packets: they share its memory
  link::FabricParams links;  // between the GPUs of the jobs
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
  std::vector<arch::FaultRecord> faults;   // in order of time; `task`: the operation
  std::vector<std::string> fault_kernels;  // of each of them, if a program launched it; else empty
  bool checks_races = false;
  std::vector<arch::Race> races;                   // that were found, the first of them
  std::vector<std::vector<std::uint8_t>> regions;  // at the end, by memory region; empty: not asked for
  std::size_t host_copies = 0;                     // that the host saw to itself, in front of TMDQs
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
  std::unique_ptr<Observation> links;  // statistics of the switch between them; null: there is none
  bool progress = true;                // false: the run ended without progress
  bool partial = false;                // it was stopped at a limit, or interrupted
  std::string stopped;                 // without progress, or partial: how ("no event is left", …)
  std::vector<std::string> waits;      // without progress: the chain of waits
  double sim_time_ns = 0;              // time of the last event
  std::uint64_t events = 0;
  std::uint64_t wakeups = 0;  // of the SystemC kernel
  std::uint64_t ctas = 0;
  double wall_seconds = 0;  // of the simulation proper
  double cpu_seconds = 0;   // the same, of this process
  double elaboration_seconds = 0;
};

// Where kernels are described, by name.
using KernelPlaces = std::map<std::string, SourcePos>;

// Throws InputError if a kernel or its clusters can never run on their machine, naming the kernel, the resource, the
// domain, the machine and its place, if that is known; and if something wants links between GPUs and there are none
// (`linked`).
void check_jobs(const std::vector<Job>& jobs, bool linked, const KernelPlaces& places = {});

// In a simulation context of its own. Throws InputError, before anything is simulated, as check_jobs() does, and if a
// load or a TPC switch concerns something that the machine does not have.
SimulationResult simulate(const std::vector<Job>& jobs, const SimulationOptions& options);

// What a machine shows of itself before anything has run on it: all its statistics. Throws InputError if its parameters
// contradict each other.
std::unique_ptr<GpuObservation> observe_built(const std::string& instance, const gpu::GpuParams& params);

// What a ProgressWatch looks at.
class WatchSubject {
 public:
  virtual ~WatchSubject() = default;

  // See RunSource. Looking begins anew with every call.
  virtual void look(bool closely) = 0;
  virtual Course course() const = 0;
  // What is due from now on at times that are known already will have been foreseen; and whether some of it is to come.
  virtual void note_expected() = 0;
  virtual bool expects() const = 0;
  // It has been looked at for so long that what was near when that began is over.
  virtual bool settled() const = 0;
};

// All events of these domains.
class DomainWatch final : public WatchSubject {
 public:
  explicit DomainWatch(const std::vector<Domain*>& domains);
  // Those of a GPU.
  static std::vector<Domain*> domains_of(gpu::Gpu& gpu);

  void look(bool closely) override;
  Course course() const override;
  void note_expected() override;
  bool expects() const override;
  bool settled() const override;

 private:
  struct Item {
    Domain* domain = nullptr;
    Cycle since = 0;
    std::uint64_t far = 0;
  };
  std::vector<Item> items_;
};

// Decides when a simulation that still has events makes no progress any more.

// Events alone say little: a loop that polls has them, and so has a computation. So after a while without progress it
// looks more closely: everything that runs must have been where it is before, with the same registers, while nobody
// wrote anything new and nothing is to come at a time that is known already (the end of a CTA of a fixed duration, a
// submission of the host, a reader that sleeps). Then nothing will ever change. A computation, however long, is no such
// thing: its registers change. Of one that only goes on and on it cannot be known whether it ends; the second limit is
// for those.
class ProgressWatch {
 public:
  enum class Verdict {
    goes_on,
    circles,            // all that runs does the same again and again
    only_instructions,  // nothing else was seen for too long
  };
  struct Sight {
    std::uint64_t events = 0;    // all that were executed
    std::uint64_t progress = 0;  // Observation::progress
  };
  ProgressWatch(const ProgressLimits& limits, WatchSubject& subject) : limits_(limits), subject_(subject) {}

  // To be called every few thousand events.
  Verdict look(const Sight& sight);
  // Events since the last progress, or since something was written that others can see.
  std::uint64_t idle(const Sight& sight) const { return sight.events - acted_; }

 private:
  void begin(const Sight& sight);
  void pause(const Sight& sight);
  // Half of the patience passes before it looks closely, and half while it does.
  std::uint64_t half() const { return std::max<std::uint64_t>(limits_.events / 2, 1); }

  const ProgressLimits limits_;
  WatchSubject& subject_;
  bool looking_ = false;
  bool foresees_ = false;    // note_expected() was called since the last progress
  std::uint64_t seen_ = 0;   // progress
  std::uint64_t acted_ = 0;  // events when something was done last
  std::uint64_t since_ = 0;  // events when this look, or the pause before it, began
  std::uint64_t pause_ = 0;  // events before the next look: longer each time, as looking takes time
};

}  // namespace heddle::replay
