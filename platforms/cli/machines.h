// Which machines a run simulates: presets, files, what a recording tells, the command line.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_options.h"
#include "common/params.h"
#include "gpu/gpu_params.h"
#include "replay/comparison.h"
#include "replay/prediction.h"
#include "replay/rank_collectives.h"
#include "replay/simulation.h"
#include "replay/submission.h"

namespace heddle::cli {

// Parameters of the run rather than of a machine.
struct RunParams {
  std::uint64_t no_progress_events = replay::ProgressLimits{}.events;
  std::uint64_t no_progress_instructions = replay::ProgressLimits{}.instructions;
  double wall_limit = 0;          // s
  double time_limit = 0;          // ns
  std::uint64_t event_limit = 0;  // 0: none, as of the others
  std::uint64_t timeline_events = 2'000'000;
  std::uint64_t ctas_plain_bytes = 100'000'000;

  static void describe(ParamTable<RunParams>& t);
};

struct Machine {
  std::string instance;       // "gpu0"
  std::string preset;         // its name, or "generic"
  std::string why;            // a sentence: who chose it
  gpu::GpuParams params;      // what is simulated
  gpu::GpuParams recorded;    // the machine of the recording, to which CTA durations are fitted
  std::string recorded_text;  // all of its parameters
  bool changed = false;       // params differ from recorded
  std::vector<ParamEntry> entries;
};

struct Machines {
  std::vector<Machine> gpus;  // one per workload
  RunParams run;
  replay::SubmissionParams host;        // of runs that submit by packets
  link::FabricParams links;             // between the GPUs
  std::vector<ParamEntry> run_entries;  // of these
  std::string config;                   // the whole resolved configuration, YAML
};

// Throws InputError.
Machines resolve_machines(const Inputs& inputs, const RunOptions& options);

// True where a recording tells what it was made on. Otherwise only --gpu can say what to run it on.
bool tells_machine(const workload::Workload& workload);

// The machine of a preset or of a file, for `heddle show`; the default machine if `gpu` is empty.
Machines resolve_machine(const std::string& gpu, const std::vector<std::string>& sets);

// The map below `gpu` for a device that no preset knows: SMs and resources as recorded (INP-10).
YAML::Node generic_machine(const workload::DeviceInfo& device);

// From inputs and machines to simulations: fitted workloads, jobs, and the comparison with the recording.

// A recording's workload with CTA durations fitted to the machine it was recorded on.
struct Fitted {
  workload::Workload workload;
  std::vector<bool> launch_bound;  // by operation: even CTAs of one cycle take longer than recorded
  std::shared_ptr<const replay::RecordedDemands> demands;  // of Fit::demand
  // On the chosen machine: see move_demands() and clamp_misfits(); none: it is `workload`.
  std::unique_ptr<workload::Workload> elsewhere;
  std::string clamped;  // a sentence about kernels that get less than they ask for; empty: none do
};

// `workload` must outlive the result. `counters`: of its kernels, for Fit::demand.
Fitted fit_workload(const workload::Workload& workload, const gpu::GpuParams& recorded, Fit fit,
                    const std::vector<workload::KernelCounters>& counters = {});

// The same of all GPUs of a run. Copies of one rank that were recorded on one machine are fitted once, and share their
// demands.
std::vector<Fitted> fit_workloads(const Inputs& inputs, const Machines& machines, const RunOptions& options,
                                  const std::vector<workload::KernelCounters>& counters = {});

// Kernels that ask for more than the chosen machine has get what it has there: shared memory and registers of an SM;
// and those whose clusters it cannot hold run without. After move_demands()
// and put_over_links(), as what runs over links asks for something else.
void clamp_misfits(Fitted& fitted, const Machine& machine);
// Of kernels with demands: what comes from memory on that machine, where its L2 has another size. `counters`: those of
// fit_workload().
void move_demands(Fitted& fitted, const gpu::GpuParams& machine, const std::vector<workload::KernelCounters>& counters);

// Collectives of recordings over the links of the run, on the chosen machines: of several GPUs that are connected, and
// with --ranks. Throws InputError if ranks would have to communicate and there are no links.
replay::RankCollectives put_over_links(std::vector<Fitted>& fitted, const Machines& machines,
                                       const RunOptions& options);

// The jobs of one simulation. `recorded_machine`: on the recorded machines instead of the chosen ones. `packets`: they
// are submitted by packets; `tmdqs`: or into TMDQs.
std::vector<replay::Job> make_jobs(const std::vector<Fitted>& fitted, const Machines& machines, replay::Pace pace,
                                   bool recorded_machine,
                                   const std::optional<workload::PacketOptions>& packets = std::nullopt,
                                   bool tmdqs = false);

// It has operations that only streams can carry as they are: of graphs, or launched ahead of the end of another.
bool has_stream_structure(const workload::Workload& workload);

// How the run submits, from the scenario and the command line.
workload::SubmitBy submit_by(const Inputs& inputs, const RunOptions& options);
// Of a run that submits by packets; else nothing. Throws InputError for options that need packets, and for arguments of
// kernels that nothing carries.
std::optional<workload::PacketOptions> packet_options(const Inputs& inputs, const RunOptions& options);

}  // namespace heddle::cli
