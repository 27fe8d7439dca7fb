// The command line of `heddle run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/timeline.h"
#include "replay/submission.h"
#include "scenario/scenario.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::cli {

// How CTA durations are fitted to a recording.
enum class Fit {
  launch,     // every launch to its own recorded duration
  signature,  // all launches of a name, grid and block to the median of their fits
  demand,     // none, where counters, operators or names tell what a kernel demands: that is fitted; others as launch
};

struct RunOptions {
  std::vector<std::string> files;     // empty: the shipped scenario
  std::vector<std::string> gpus;      // presets or files; one for all GPUs, or one for each
  std::vector<std::string> sets;      // K=V
  std::vector<std::string> lets;      // parameters of the scenario: NAME=NUMBER
  std::optional<std::string> timing;  // at, fast, lt
  std::optional<std::string> out;
  std::optional<std::uint64_t> seed;
  std::optional<int> device;                 // of a recording; absent: all
  std::optional<std::uint32_t> ranks;        // GPUs that do what the recorded one did, and communicate
  std::optional<workload::SubmitBy> submit;  // absent: as the scenario says
  std::optional<workload::PacketFormat> format;
  std::optional<workload::QueuePlace> queues;
  std::optional<workload::CopyBy> copies;
  std::optional<workload::SignalFor> signals;
  std::optional<std::uint32_t> batch;
  replay::Pace pace = replay::Pace::recorded;
  Fit fit = Fit::launch;
  std::optional<std::string> counters;     // file: with Fit::demand
  bool guess_clusters = true;              // of recordings that tell none
  std::optional<TimelineFormat> timeline;  // absent: none
  bool waves = false;                      // waves.vcd
  TimelineFilter timeline_filter;
  bool dump_ctas = false;
  bool bits = false;
  bool kernel_counters = false;
  bool baseline = true;
  std::optional<std::string> keep_baselines;  // folder
  bool quiet = false;
  bool clamp_misfits = false;  // recorded kernels that ask for more than the machine has get what it has
  std::optional<std::string> dump_config;
  std::optional<std::string> from, to;      // a region of interest: names of kernels, or times
  std::optional<std::uint64_t> checkpoint;  // after how many operations each; absent: none
  std::optional<std::string> resume;        // folder of a checkpoint
  std::vector<std::string> of_recordings;   // options that were given and have a meaning for recordings only
  bool help = false;
  std::string command_line;  // as the page shows it
};

// Throws InputError for options that do not exist or do not make sense.
RunOptions parse_run_options(const std::vector<std::string>& arguments);
std::string run_help();

// What a run is given: a scenario, or recorded traces.
struct Inputs {
  std::string name;                            // of the run: of the scenario, or of the first file
  std::vector<workload::Workload> workloads;   // one per GPU
  std::optional<scenario::Scenario> scenario;  // absent: recordings
  bool recorded() const { return !scenario; }
};

// As people call it: the scenario's own name, if it has one.
inline const std::string& title_of(const Inputs& inputs) {
  return inputs.scenario ? inputs.scenario->name : inputs.name;
}

// Recognises files by their content. `lets`: parameters of a scenario; `guess_clusters`: those of recordings that tell
// none, from names of kernels. Throws InputError.
Inputs load_inputs(const std::vector<std::string>& files, std::optional<int> device,
                   const std::vector<std::string>& lets = {}, bool guess_clusters = true);
// The same for a run. Also throws InputError for options that have no meaning for its kind of input.
Inputs load_inputs(const RunOptions& options);

}  // namespace heddle::cli
