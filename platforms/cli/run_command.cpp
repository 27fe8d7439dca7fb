#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include <fmt/format.h>

#include "cli/bits_table.h"
#include "cli/command.h"
#include "cli/demand_report.h"
#include "cli/run_outcome.h"
#include "common/perfetto.h"
#include "import/counter_table.h"
#include "replay/cta_dump.h"
#include "report/report_page.h"

namespace heddle::cli {

namespace fs = std::filesystem;
using replay::Pace;
using replay::SimulationResult;

namespace {

// A line on a terminal that shows how far a simulation is. Nothing at all in a pipe or a file.
class ProgressBar {
 public:
  // `what` stands at the beginning of the line. Off unless standard error is a terminal and `enabled`.
  ProgressBar(std::string what, bool enabled);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `share`: 0 … 1 of the work. `simulated_us`: simulated time; the bar adds the rate.
  void show(double share, double simulated_us);

 private:
  std::string what_;
  bool on_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
};

constexpr int kProgressWidth = 30;

ProgressBar::ProgressBar(std::string what, bool enabled)
    : what_(std::move(what)), on_(enabled && isatty(STDERR_FILENO) == 1), begin_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(double share, double simulated_us) {
  if (!on_) return;
  shown_ = true;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const int full = std::clamp(static_cast<int>(share * kProgressWidth), 0, kProgressWidth);
  const std::string line = fmt::format("\r{} [{}{}] {:3.0f} %  {} simulated, {} per second\033[K", what_,
                                       std::string(static_cast<std::size_t>(full), '#'),
                                       std::string(static_cast<std::size_t>(kProgressWidth - full), '.'), 100 * share,
                                       time_text(simulated_us), time_text(simulated_us / std::max(seconds, 1e-6)));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

fs::path make_folder(const RunOptions& options, const Inputs& inputs) {
  fs::path folder = options.out ? fs::path(*options.out) : fs::path("heddle-out") / inputs.name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder)) {
    throw InputError({folder.string(), 0, 0},
                     fmt::format("cannot be used as results folder: {}", error ? error.message() : "it is a file"),
                     "choose another with --out DIR");
  }
  return folder;
}

SimulationResult simulate_shown(const std::vector<replay::Job>& jobs, replay::SimulationOptions options,
                                const std::string& what, bool quiet) {
  ProgressBar bar(what, !quiet);
  options.progress = [&bar](const sc_core::sc_time& time, double share) { bar.show(share, time.to_seconds() * 1e6); };
  return replay::simulate(jobs, options);
}

std::vector<std::vector<replay::OpResult>> results_of(const SimulationResult& result) {
  std::vector<std::vector<replay::OpResult>> results;
  for (const replay::JobResult& job : result.jobs) results.push_back(job.results);
  return results;
}

double span_us(const std::vector<replay::OpResult>& results) {
  double begin = 1e300;
  double end = -1e300;
  for (const replay::OpResult& r : results) {
    if (!r.done) continue;
    begin = std::min(begin, r.start);
    end = std::max(end, r.end);
  }
  return end > begin ? (end - begin) / 1e3 : 0;
}

// What the recorded machine would do, beside what a changed machine or pace does: the what-if's reference.
struct Baselines {
  SimulationResult recorded;                  // recorded machine, recorded pace
  std::optional<SimulationResult> same_pace;  // recorded machine, the pace of this run, if that is another

  bool partial() const { return recorded.partial || (same_pace && same_pace->partial); }
};

void compare_with_recording(RunOutcome& outcome, const std::vector<Fitted>& fitted,
                            const std::optional<Baselines>& baselines) {
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const Machine& machine = outcome.machines->gpus[i];
    outcome.comparisons.push_back(
        replay::compare(fitted[i].workload, outcome.result.jobs[i].results, machine.recorded, fitted[i].launch_bound));
    if (baselines) {
      outcome.fidelity.push_back(replay::compare(fitted[i].workload, baselines->recorded.jobs[i].results,
                                                 machine.recorded, fitted[i].launch_bound));
    }
    std::vector<Span> spans = {{"recorded", outcome.comparisons[i].span_recorded_ns / 1e3}};
    const bool asap = outcome.options->pace == Pace::asap;
    if (baselines) {
      spans.push_back({"modelled, recorded machine and pace", span_us(baselines->recorded.jobs[i].results)});
      if (baselines->same_pace) {
        spans.push_back(
            {"modelled, recorded machine, as soon as order allows", span_us(baselines->same_pace->jobs[i].results)});
      }
    }
    std::string label = "modelled";
    if (baselines) label += machine.changed ? ", this machine" : ", recorded machine";
    if (outcome.packets) label += ", by packets";
    if (outcome.tmdqs) label += ", into TMDQs";
    if (baselines && asap) label += ", as soon as order allows";
    spans.push_back({label, outcome.comparisons[i].span_modelled_ns / 1e3});
    outcome.spans.push_back(std::move(spans));
  }
  if (baselines) outcome.baseline = results_of(baselines->same_pace ? *baselines->same_pace : baselines->recorded);
}

std::optional<Baselines> simulate_baselines(const RunOutcome& outcome, const std::vector<Fitted>& fitted,
                                            const replay::SimulationOptions& options) {
  bool changed = outcome.packets.has_value() || outcome.tmdqs;
  for (const Machine& machine : outcome.machines->gpus) changed = changed || machine.changed;
  const bool asap = outcome.options->pace == Pace::asap;
  if (!outcome.inputs->recorded() || !outcome.options->baseline || (!changed && !asap)) return std::nullopt;
  const bool quiet = outcome.options->quiet;
  Baselines baselines;
  baselines.recorded =
      simulate_shown(make_jobs(fitted, *outcome.machines, Pace::recorded, true), options, "recorded machine", quiet);
  if (asap && changed) {
    baselines.same_pace = simulate_shown(make_jobs(fitted, *outcome.machines, Pace::asap, true), options,
                                         "recorded machine, asap", quiet);
  }
  return baselines;
}

void collect_warnings(RunOutcome& outcome, const PerfettoSink* timeline) {
  for (const workload::Workload& workload : outcome.inputs->workloads) {
    outcome.warnings.insert(outcome.warnings.end(), workload.warnings.begin(), workload.warnings.end());
  }
  // A scenario is refused for it (packet_options).
  const auto structured = [](const workload::Workload& workload) { return has_stream_structure(workload); };
  if ((outcome.packets || outcome.tmdqs) &&
      std::any_of(outcome.inputs->workloads.begin(), outcome.inputs->workloads.end(), structured)) {
    outcome.warnings.emplace_back(
        "graphs, and kernels that start before the one ahead of them has ended, are of streams: as submitted here, "
        "operations of a stream follow each other one by one");
  }
  if (timeline != nullptr && timeline->left_out() > 0) {
    outcome.warnings.push_back(
        fmt::format("{} events did not fit into the timeline; raise run.timeline_events with --set",
                    with_commas(static_cast<double>(timeline->left_out()))));
  }
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const std::string prefix = outcome.result.jobs.size() > 1 ? outcome.machines->gpus[i].instance + ": " : "";
    for (const std::string& note : outcome.result.jobs[i].notes) outcome.warnings.push_back(prefix + note);
    for (const std::string& problem : outcome.result.jobs[i].problems) outcome.warnings.push_back(prefix + problem);
  }
  if (outcome.rejected > 0) {
    outcome.warnings.push_back(
        outcome.packets
            ? fmt::format("{} did not run", counted(static_cast<double>(outcome.rejected), "operation", "operations"))
            : fmt::format("{} kernels were rejected by the device: they can never run on it", outcome.rejected));
  }
}

// Those that nobody expects come first.
void print_faults(const RunOutcome& outcome) {
  constexpr std::size_t kShown = 10;
  std::size_t shown = 0;
  for (const bool expected : {false, true}) {
    for (const Fault& fault : outcome.faults) {
      if (fault.expected != expected || shown == kShown) continue;
      std::cout << fmt::format("  {} {}\n", expected ? "fault:  " : "FAULT:  ", fault.text);
      ++shown;
    }
  }
  if (outcome.faults.size() > shown) {
    std::cout << fmt::format("  and {} more, listed in stats.json\n", outcome.faults.size() - shown);
  }
}

// What kernels lack between them, of a run that looks for it.
void print_races(const RunOutcome& outcome) {
  constexpr std::size_t kShown = 10;
  for (std::size_t gpu = 0; gpu < outcome.result.jobs.size(); ++gpu) {
    const std::string& instance = outcome.machines->gpus[gpu].instance;
    const std::vector<arch::Race>& races = outcome.result.jobs[gpu].races;
    for (std::size_t i = 0; i < std::min(kShown, races.size()); ++i) {
      std::cout << fmt::format("  RACE:    {}: {}\n", instance, races[i].text());
    }
    if (races.size() > kShown) {
      std::cout << fmt::format("  and {} more, listed in stats.json\n", races.size() - kShown);
    }
  }
}

void print_outcome(const RunOutcome& outcome, const fs::path& folder) {
  if (!outcome.options->quiet) {
    std::cout << outcome.inputs->name << "\n\n";
    std::size_t width = 0;
    const auto lines = summary_lines(outcome);
    for (const auto& [label, value] : lines) width = std::max(width, label.size());
    for (const auto& [label, value] : lines) std::cout << fmt::format("  {:<{}}  {}\n", label, width, value);
    for (const ExpectationResult& e : outcome.expectations) {
      const std::string why = e.ok ? "" : (e.is_value ? ", but is " : ": ") + e.actual;
      std::cout << fmt::format("  {} {}{}\n", e.ok ? "met:    " : "FAILED: ", e.text, why);
    }
    print_faults(outcome);
    print_races(outcome);
    for (const std::string& warning : outcome.warnings) std::cout << "  note: " << warning << '\n';
    std::cout << fmt::format(
        "\nsimulated in {:.2f} s: {} CTAs and {} events per second\n", outcome.result.wall_seconds,
        with_commas(outcome.ctas / std::max(outcome.result.wall_seconds, 1e-9)),
        with_commas(static_cast<double>(outcome.result.events) / std::max(outcome.result.wall_seconds, 1e-9)));
    std::cout << "page: " << (folder / "report.html").string() << '\n';
  }
  if (outcome.result.partial) std::cerr << "heddle: partial: stopped " << outcome.result.stopped << '\n';
  if (!outcome.result.progress && !outcome.wants_no_progress()) {
    std::cerr << "heddle: no progress: " << outcome.result.stopped << "; the chain of waits:\n";
    for (const std::string& wait : told(outcome.result.waits)) std::cerr << "  " << wait << '\n';
    if (outcome.result.waits.empty()) std::cerr << "  (no block says that it waits)\n";
  }
}

void write_ctas(std::vector<replay::CtaDump>& dumps, const RunOutcome& outcome, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << replay::CtaDump::header() << '\n';
  for (std::size_t i = 0; i < dumps.size(); ++i) {
    const Machine& machine = outcome.machines->gpus[i];
    dumps[i].write(file, machine.instance, arch::Topology(machine.params.machine.shape), outcome.inputs->workloads[i]);
  }
  file.close();
  if (!file) throw InputError({path, 0, 0}, "cannot be written", "choose another with --out DIR, or free the disk");
}

void print_bits(const RunOutcome& outcome) {
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    std::cout << fmt::format("\n{}\n", outcome.machines->gpus[i].instance)
              << bits_text(outcome.machines->gpus[i].params, outcome.result.jobs[i].observation.get());
  }
}

void write_bits(const RunOutcome& outcome, const std::string& path) {
  nlohmann::ordered_json document;
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    document[outcome.machines->gpus[i].instance] =
        bits_json(outcome.machines->gpus[i].params, outcome.result.jobs[i].observation.get());
  }
  write_text(document.dump(1) + "\n", path);
}

int status_of(const RunOutcome& outcome) {
  if (outcome.result.partial) return kPartial;
  if (!outcome.result.progress) {
    const bool failed = std::any_of(outcome.expectations.begin(), outcome.expectations.end(),
                                    [](const ExpectationResult& e) { return !e.ok; });
    if (failed || !outcome.wants_no_progress()) return kNoProgress;
  }
  if (outcome.rejected > 0) return kExpectationFailed;
  for (const Fault& fault : outcome.faults) {
    if (!fault.expected) return kExpectationFailed;
  }
  for (const replay::JobResult& job : outcome.result.jobs) {
    if (!job.races.empty()) return kExpectationFailed;
  }
  for (const ExpectationResult& e : outcome.expectations) {
    if (!e.ok) return kExpectationFailed;
  }
  return kSuccess;
}

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const RunOptions options = parse_run_options(arguments);
  if (options.help) {
    std::cout << run_help();
    return kSuccess;
  }
  const Inputs inputs = load_inputs(options.files, options.device, options.lets, options.guess_clusters);
  const std::optional<workload::PacketOptions> packets = packet_options(inputs, options);
  const Machines machines = resolve_machines(inputs, options);
  if (options.dump_config) {
    if (*options.dump_config == "-") {
      std::cout << machines.config;
    } else {
      write_text(machines.config, *options.dump_config);
    }
    return kSuccess;
  }

  RunOutcome outcome;
  outcome.options = &options;
  outcome.inputs = &inputs;
  outcome.machines = &machines;
  outcome.packets = packets;
  outcome.tmdqs = submit_by(inputs, options) == workload::SubmitBy::tmdqs;
  outcome.seed = options.seed.value_or(inputs.scenario && inputs.scenario->seed ? *inputs.scenario->seed : 1);
  const auto counters =
      options.counters ? import::import_counters(*options.counters) : std::vector<workload::KernelCounters>{};
  std::vector<Fitted> fitted;
  for (std::size_t i = 0; i < inputs.workloads.size(); ++i) {
    fitted.push_back(inputs.recorded()
                         ? fit_workload(inputs.workloads[i], machines.gpus[i].recorded, options.fit, counters)
                         : Fitted{inputs.workloads[i], std::vector<bool>(inputs.workloads[i].ops.size()), nullptr});
  }
  for (const Fitted& its : fitted) {
    if (its.demands) outcome.demands.push_back(its.demands.get());
  }
  std::vector<replay::Job> jobs = make_jobs(fitted, machines, options.pace, false, packets, outcome.tmdqs);
  std::vector<replay::CtaDump> ctas(options.dump_ctas ? jobs.size() : 0);
  for (std::size_t i = 0; i < ctas.size(); ++i) jobs[i].ctas = &ctas[i];
  if (inputs.scenario) {
    for (const scenario::Expectation& expectation : inputs.scenario->expectations) {
      if (expectation.kind == scenario::ExpectationKind::memory) {
        jobs[expectation.gpu].regions.push_back(expectation.memory);
      }
    }
    for (const scenario::Figure& figure : inputs.scenario->figures) {
      for (const scenario::FigureInput& input : figure.inputs) {
        if (!input.memory.empty()) jobs[input.gpu].regions.push_back(input.memory);
      }
    }
  }

  replay::SimulationOptions simulation;
  simulation.seed = outcome.seed;
  simulation.limits = {machines.run.no_progress_events, machines.run.no_progress_instructions};
  simulation.wall_limit_s = machines.run.wall_limit;
  simulation.host = machines.host;
  const fs::path folder = make_folder(options, inputs);
  check_region_files(inputs, folder.string());
  const std::optional<Baselines> baselines = simulate_baselines(outcome, fitted, simulation);
  std::unique_ptr<PerfettoSink> timeline;
  if (options.perfetto) {
    timeline = std::make_unique<PerfettoSink>((folder / "timeline.json.gz").string(), machines.run.timeline_events);
    simulation.timeline = timeline.get();
  }
  outcome.result = simulate_shown(jobs, simulation, inputs.name, options.quiet);
  if (baselines && baselines->partial() && outcome.complete()) {
    outcome.result.partial = true;
    outcome.result.stopped = "while the recorded machine was simulated (run.wall_limit)";
  }
  if (timeline) timeline->close();
  if (inputs.recorded()) compare_with_recording(outcome, fitted, baselines);
  collect_faults(outcome);
  collect_stats(outcome);
  if (outcome.complete()) measure_figures(outcome);
  if (outcome.complete() || (!outcome.result.partial && outcome.wants_no_progress())) check_expectations(outcome);
  collect_warnings(outcome, timeline.get());

  write_text(machines.config, (folder / "config.yaml").string());
  write_stats(outcome, (folder / "stats.json").string());
  write_regions(outcome, folder.string());
  if (packets) write_packets(outcome, (folder / "packets.csv").string());
  if (options.dump_ctas) write_ctas(ctas, outcome, (folder / "ctas.csv").string());
  if (!outcome.demands.empty()) write_demands(outcome, (folder / "demands.csv").string());
  if (options.bits) write_bits(outcome, (folder / "bits.json").string());
  report::write_report(folder / "report.html", report_data(outcome));
  write_host(outcome, (folder / "host.json").string(),
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  print_outcome(outcome, folder);
  if (options.bits && !options.quiet) print_bits(outcome);
  if (outcome.unknown_statistic) throw *outcome.unknown_statistic;
  return status_of(outcome);
}

}  // namespace heddle::cli
