// Everything a run found out: what stats.json, the page and the summary are written from.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "cli/machines.h"
#include "cli/results_folder.h"
#include "cli/run_options.h"
#include "common/observation.h"
#include "replay/comparison.h"
#include "replay/cta_dump.h"
#include "replay/simulation.h"
#include "workload/workload.h"

namespace heddle::cli {

struct ExpectationResult {
  std::string text;    // "gpu0.cwd.ctas_launched = 512"
  std::string actual;  // "512", or in a sentence what there is instead
  bool ok = false;
  bool is_value = false;  // `actual` is one
};

// What the scenario measures.
struct FigureResult {
  const scenario::Figure* figure = nullptr;
  double value = 0;
};

// A fault of a device, and whether the scenario expects it.
struct Fault {
  std::size_t gpu = 0;
  arch::FaultRecord record;
  std::string kernel;
  std::string text;
  bool expected = false;
};

struct Span {
  std::string label;
  double us = 0;
};

struct RunOutcome {
  const RunOptions* options = nullptr;
  const Inputs* inputs = nullptr;
  const Machines* machines = nullptr;
  std::vector<const workload::Workload*> workloads;  // as they ran, one per GPU: with the kernels that the machine got
  std::uint64_t seed = 1;
  replay::SimulationResult result;
  std::vector<replay::Comparison> comparisons;  // one per GPU, for recordings: this run
  // The same of the recorded machine at the recorded pace: how far the model can be believed. Empty unless this run
  // changed the machine or the pace; then `comparisons` shows what the change does, not how good the model is.
  std::vector<replay::Comparison> fidelity;
  std::vector<const replay::RecordedDemands*> demands;  // one per GPU, of a run with them
  std::vector<replay::HeldBack> held_back;              // the same: what they say of launches that were held back
  replay::RankCollectives collectives;                  // of recordings: which run over links, and which do not
  std::vector<std::vector<Span>> spans;                 // one list per GPU, for recordings
  std::vector<std::vector<replay::OpResult>> baseline;  // one per GPU; empty without a baseline
  nlohmann::json stats;                                 // path -> {value, unit, description}
  nlohmann::json histograms;
  std::vector<FigureResult> figures;
  std::vector<ExpectationResult> expectations;
  std::optional<InputError> unknown_statistic;  // the first that an expectation names in vain
  std::vector<Fault> faults;                    // of all GPUs
  std::vector<std::string> warnings;
  std::size_t rejected = 0;
  std::optional<workload::PacketOptions> packets;  // submitted by packets
  bool tmdqs = false;                              // submitted into TMDQs
  double kernels = 0, ctas = 0;

  // What the change does: span and kernel time of this run over those of the recorded machine at the same pace.
  struct Change {
    double span = 1;
    double kernel_time = 1;
    double reference_us = 0;  // span of the recorded machine
  };
  Change change_of(std::size_t gpu) const;
  bool what_if() const { return !fidelity.empty(); }
  // It has run to its end.
  bool complete() const { return result.progress && !result.partial; }
  // The scenario wants the run to end without progress.
  bool wants_no_progress() const;
  const replay::Comparison& fidelity_of(std::size_t gpu) const { return what_if() ? fidelity[gpu] : comparisons[gpu]; }
};

// Kernels that the model does not reproduce within 5 %, by reason.
struct Unmatched {
  std::string reason;
  std::size_t kernels = 0;
  double time_us = 0;  // recorded
  double share = 0;    // of the recorded kernel time, 0 … 1
};
std::vector<Unmatched> unmatched(const replay::Comparison& comparison);

// The pace of the run that a what-if is compared with: this run's, unless only the pace was changed. In words.
const char* reference_pace(const RunOutcome& outcome);

// It is not what was recorded: another machine, other ways to submit, or collectives over links.
bool runs_otherwise(const RunOutcome& outcome);
// What was fitted and what follows from links stand side by side, without a baseline of what was fitted alone.
inline bool mixes_predictions(const RunOutcome& outcome) {
  return !outcome.collectives.matched.empty() && !outcome.what_if();
}

// How many collectives of a recording run over links, and how many kernels keep their recorded durations and why.
std::string collectives_text(const RunOutcome& outcome);

// Statistics of a run, and of one of its GPUs beside those of its blocks.
void publish_run(const replay::SimulationResult& result, Stats& stats);
void publish_job(const std::string& instance, const replay::JobResult& job, Stats& stats);
// The statistics of all GPUs, of the simulation and of the comparison, in one table.
void collect_stats(RunOutcome& outcome);
// The figures of a scenario that has run to its end.
void measure_figures(RunOutcome& outcome);
void check_expectations(RunOutcome& outcome);

// Puts the faults of all GPUs into `outcome`, as statistics and as text, and which of them the scenario expects.
void collect_faults(RunOutcome& outcome);

// The result of an expectation that concerns memory or faults.
ExpectationResult check_device(const RunOutcome& outcome, const scenario::Expectation& expectation);

// Before the run: that every file that a region asks for lies in the folder and can be written into. Throws InputError
// if not, or if two regions, or a region and the results, have the same.
void check_region_files(const Inputs& inputs, const std::string& folder);

// Writes the regions into their files; names are of the results folder. Throws InputError if one cannot be
// written.
void write_regions(const RunOutcome& outcome, const std::string& folder);

// The table of CTAs, ctas.csv, of one dump per GPU. Beyond run.ctas_plain_bytes of text it is ctas.csv.gz, compressed,
// and names its kernels once; the outcome then warns of it. Throws InputError if it cannot be written.
void write_ctas(std::vector<replay::CtaDump>& dumps, RunOutcome& outcome, const ResultsFolder& folder);

// Signals over time as a value change dump (IEEE 1364), for viewers of waves: CTAs on each SM and on all, SMs with
// CTAs, and of each stream the operations that run and that wait. Of the filter its times and lines count; the outcome
// warns if no signal passes it. Throws InputError if the file cannot be written.
void write_waves(std::vector<replay::CtaDump>& dumps, RunOutcome& outcome, const TimelineFilter& filter,
                 const std::string& path);

// Files of the results folder. Throws InputError if one cannot be written.
void write_stats(const RunOutcome& outcome, const std::string& path);
void write_host(const RunOutcome& outcome, const ResultsFolder& folder, double total_seconds);
void write_text(const std::string& text, const std::string& path);

// The data of report.html (report/report_page.h).
nlohmann::json report_data(const RunOutcome& outcome);
// The lines that the program prints at the end.
std::vector<std::pair<std::string, std::string>> summary_lines(const RunOutcome& outcome);

// "1 kernel", "1,465 kernels"
std::string counted(double count, const std::string& singular, const std::string& plural);
// "1,465", "49.65 ms", "-0.02 %"
std::string with_commas(double count);
std::string time_text(double us);
std::string percent_text(double share, int digits = 2);

// What bounds the rate of launches: as statistics of the GPU, `launch.*`, from those of its blocks, and as a line of
// the summary; empty if no CTA was launched.
void publish_launch(const std::string& instance, Stats& stats);
std::string launch_line(const nlohmann::json& stats, const std::string& instance);

// What stats.json, the page and the summary tell of the CGAs of a GPU that ran within a GPC: where, how far apart their
// CTAs began, how they waited for each other, and who accessed whose shared memory.
constexpr std::size_t kClustersInStats = 100;  // in detail

// The part `clusters` of a GPU in stats.json (docs/statistics.md); null without CGAs.
nlohmann::json cluster_stats_of(const workload::Workload& workload, const replay::JobResult& job);

// The same for the page, as report/report_page.h describes it.
nlohmann::json clusters_of(const workload::Workload& workload, const replay::JobResult& job);

// "64 CGAs; their CTAs began within 12.0 cycles of each other on average; 1.5 MiB between SMs"; empty without CGAs.
std::string cluster_line(const replay::JobResult& job);

// Sums of the statistics of SMs, L2 slices and HBM, beside what the machine could do in the time in which kernels with
// programs ran; null if none did. As report/report_page.h describes it.
nlohmann::json memory_of(const RunOutcome& outcome, std::size_t gpu);
// Energy, where it is counted: for the page, and as a sentence.
nlohmann::json power_of(const RunOutcome& outcome, std::size_t gpu);
std::string power_text(const RunOutcome& outcome, std::size_t gpu);

// What requests to the tensor memory access units of a GPU came to, by kind and by tensor: the part `bulk` of a GPU in
// stats.json (docs/statistics.md), and the same for the page, with the shares of links and ports that they took. Null
// without such requests.
nlohmann::json bulk_stats_of(const workload::Workload& workload, const replay::JobResult& job);
constexpr std::size_t kBulkRows = 100;  // on the page
constexpr std::size_t kBulkUnits = 24;  // the same, of those with most bytes
nlohmann::json bulk_of(const RunOutcome& outcome, std::size_t gpu);

// Kernels of each subcontext, where one beside subcontext 0 has some: statistics below "<instance>.subcontext<n>"
// (PRT-09).
void publish_processes(const std::string& instance, const workload::Workload& workload, const replay::JobResult& job,
                       Stats& stats);
// One row per subcontext that shared the machine or moved bytes; null if the machine was not shared. As
// report/report_page.h describes it.
nlohmann::json processes_of(const RunOutcome& outcome, std::size_t gpu);

// Kernels that programs launched, by name, parent and depth, and those whose CTAs were saved: the part `launched` of a
// GPU in stats.json (docs/statistics.md), and the same for the page. Null if there are none.
nlohmann::json launched_of(const workload::Workload& workload, const replay::JobResult& job);

// Why SMs had no CTA (CWD-47): a row for each kernel name, the part `idle` of a GPU in stats.json; all of it for the
// page, as report/report_page.h describes it; and as a line, with the reasons that most of it has. Null or empty if no
// SM was ever without.
nlohmann::json idle_stats_of(const workload::Workload& workload, const replay::JobResult& job);
constexpr std::size_t kIdleKernels = 20;  // on the page
nlohmann::json idle_of(const RunOutcome& outcome, std::size_t gpu);
std::string idle_line(const RunOutcome& outcome, std::size_t gpu);

// Named ranges of a recorded program (INP-17), by the operations that were launched in them: when these ran on the
// recorded machine, and when in this run. ranges.csv has a row for each range with operations that ran, in the order of
// their begin on the host; throws InputError if it cannot be written.
bool has_ranges(const RunOutcome& outcome);
void write_ranges(const RunOutcome& outcome, const std::string& path);
// A row for each name within its outer ones, in the order of first begins; null if there is none. As
// report/report_page.h describes it.
constexpr std::size_t kRangeRows = 100;  // on the page
nlohmann::json ranges_of(const RunOutcome& outcome, std::size_t gpu);
// Lines of the timeline: each range from the start of its first operation to the end of its last.
void draw_ranges(const RunOutcome& outcome, TimelineSink& timeline);

// One row per fault; null if there is none.
nlohmann::json faults_of(const RunOutcome& outcome, std::size_t gpu);

// Sums over all launches by packets (PKT-08), as statistics below "<instance>.packets".
void publish_packets(const std::string& instance, const replay::JobResult& job, Stats& stats);

// One row per kernel name, in the order of first launches: launches, packets, sums by part in ns, and of these what no
// earlier kernel of the queue covers. Null if nothing was submitted by packets.
nlohmann::json packet_stats_of(const workload::Workload& workload, const replay::JobResult& job);

// The same for the page: at most kPacketRows names, the rest together. As report/report_page.h describes it.
constexpr std::size_t kPacketRows = 20;
nlohmann::json packets_of(const workload::Workload& workload, const replay::JobResult& job);

// "600 kernels in 120 packets; 41 % of the queues' time is execution, 23 % wait, …"; empty without packets.
std::string packet_line(const replay::JobResult& job);

// One row per kernel launch, with all its times. Throws InputError if the file cannot be written.
void write_packets(const RunOutcome& outcome, const std::string& path);

}  // namespace heddle::cli
