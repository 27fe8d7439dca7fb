#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "cli/baseline_store.h"
#include "cli/bits_table.h"
#include "cli/checkpoint.h"
#include "cli/command.h"
#include "cli/demand_report.h"
#include "cli/kernel_list.h"
#include "cli/kernel_use.h"
#include "cli/run_outcome.h"
#include "cli/run_parts.h"
#include "common/timeline.h"
#include "import/counter_table.h"
#include "replay/cta_dump.h"
#include "report/report_page.h"

namespace heddle::cli {

using replay::Pace;
using replay::SimulationResult;

namespace {

constexpr std::uint32_t kProgramLanes = 32;  // of a warp
constexpr int kSignalled = 128;              // and the signal: as a shell has it
constexpr double kFirstLine = 30;            // s: shorter simulations need none

// How far a simulation is: a line on a terminal that changes; a line now and then where nobody looks at once.
class ProgressBar {
 public:
  // `what` stands at the beginning of the line. Nothing at all unless `enabled`.
  ProgressBar(std::string what, bool enabled);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `share`: 0 … 1 of the work. `simulated_us`: simulated time; the bar adds the rate.
  void show(double share, double simulated_us);

 private:
  std::string text(double share, double simulated_us, double seconds) const;

  std::string what_;
  bool on_;
  bool terminal_;
  bool shown_ = false;
  double next_ = kFirstLine;  // s, of a line where there is no terminal
  std::chrono::steady_clock::time_point begin_;
};

ProgressBar::ProgressBar(std::string what, bool enabled)
    : what_(std::move(what)),
      on_(enabled),
      terminal_(isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(double share, double simulated_us) {
  if (!on_) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  if (!terminal_) {
    if (seconds < next_) return;
    next_ = std::max(2 * next_, seconds);
    std::fputs((text(share, simulated_us, seconds) + "\n").c_str(), stderr);
    return;
  }
  shown_ = true;
  std::fputs(("\r" + text(share, simulated_us, seconds) + "\033[K").c_str(), stderr);
  std::fflush(stderr);
}

// The time left is that of operations which take as long as those that are done.
std::string ProgressBar::text(double share, double simulated_us, double seconds) const {
  constexpr int kWidth = 30;
  constexpr double kLeast = 0.01;  // of the work: before, nothing can be said
  const int full = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  std::string line = fmt::format("{} [{}{}] {:3.0f} %  {} simulated, {} per second", what_,
                                 std::string(static_cast<std::size_t>(full), '#'),
                                 std::string(static_cast<std::size_t>(kWidth - full), '.'), 100 * share,
                                 time_text(simulated_us), time_text(simulated_us / std::max(seconds, 1e-6)));
  if (share >= kLeast && share < 1) {
    const double left = seconds * (1 - share) / share;
    line += left < 100 ? fmt::format(", about {:.0f} s left", left) : fmt::format(", about {:.0f} min left", left / 60);
  }
  return line;
}

// A signal that asks the program to end (Ctrl-C): the simulation stops, and what there is of results is written. A
// second one ends the program at once.
class Interruption {
 public:
  Interruption() {
    signal_ = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = [](int number) {
        signal_ = number;
        for (const int each : kSignals) std::signal(each, SIG_DFL);
      };
      sigaction(kSignals[i], nullptr, &earlier_[i]);
      // What whoever started the program wants ignored stays so.
      if (earlier_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~Interruption() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &earlier_[i], nullptr);
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  int number() const { return signal_; }  // 0: none came
  std::optional<std::string> reason() const {
    if (signal_ == 0) return std::nullopt;
    return signal_ == SIGINT ? "by Ctrl-C (SIGINT)" : "by the signal SIGTERM";
  }

 private:
  static constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};
  static volatile std::sig_atomic_t signal_;  // of the process, as signals are
  std::array<struct sigaction, 2> earlier_{};
};

volatile std::sig_atomic_t Interruption::signal_ = 0;

std::vector<std::string> region_files(const Inputs& inputs) {
  std::vector<std::string> names;
  for (const workload::Workload& workload : inputs.workloads) {
    for (const workload::MemoryRegion& region : workload.memory) {
      if (region.write) names.push_back(*region.write);
    }
  }
  return names;
}

SimulationResult simulate_shown(const std::vector<replay::Job>& jobs, replay::SimulationOptions options,
                                const std::string& what, bool quiet) {
  ProgressBar bar(what, !quiet);
  options.progress = [&bar](const sc_core::sc_time& time, double share) { bar.show(share, time.to_seconds() * 1e6); };
  return replay::simulate(jobs, options);
}

OpResults results_of(const SimulationResult& result) {
  OpResults results;
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
  OpResults recorded;                  // recorded machine, recorded pace
  std::optional<OpResults> same_pace;  // recorded machine, the pace of this run, if that is another
  std::optional<std::string> stopped;  // one of them was, and why
};

void compare_with_recording(RunOutcome& outcome, const std::vector<Fitted>& fitted,
                            const std::optional<Baselines>& baselines) {
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const Machine& machine = outcome.machines->gpus[i];
    outcome.comparisons.push_back(
        replay::compare(fitted[i].workload, outcome.result.jobs[i].results, machine.recorded, fitted[i].launch_bound));
    if (baselines) {
      outcome.fidelity.push_back(
          replay::compare(fitted[i].workload, baselines->recorded[i], machine.recorded, fitted[i].launch_bound));
    }
    if (i > 0 && fitted[i].demands && fitted[i].demands == fitted[0].demands) {
      outcome.held_back.push_back(outcome.held_back.front());
    } else if (fitted[i].demands) {
      outcome.held_back.push_back(
          replay::predict(*fitted[i].demands, machine.recorded, replay::HoldBack::launches, true, outcome.seed));
    }
    std::vector<Span> spans = {{"recorded", outcome.comparisons[i].span_recorded_ns / 1e3}};
    const Pace pace = outcome.options->pace;
    const std::string at = pace == Pace::asap ? ", as soon as order allows" : ", at the host's calls";
    if (baselines) {
      spans.push_back({"modelled, recorded machine and pace", span_us(baselines->recorded[i])});
      if (baselines->same_pace) {
        spans.push_back({"modelled, recorded machine" + at, span_us((*baselines->same_pace)[i])});
      }
    }
    std::string label = "modelled";
    if (baselines) label += machine.changed ? ", this machine" : ", recorded machine";
    if (outcome.packets) label += ", by packets";
    if (outcome.tmdqs) label += ", into TMDQs";
    if (!outcome.collectives.matched.empty()) label += ", collectives over links";
    if (baselines && pace != Pace::recorded) label += at;
    spans.push_back({label, outcome.comparisons[i].span_modelled_ns / 1e3});
    outcome.spans.push_back(std::move(spans));
  }
  if (baselines) outcome.baseline = baselines->same_pace ? *baselines->same_pace : baselines->recorded;
}

std::optional<Baselines> simulate_baselines(const RunOutcome& outcome, const std::vector<Fitted>& fitted,
                                            const replay::SimulationOptions& options) {
  const bool changed = runs_otherwise(outcome);
  const Pace asked = outcome.options->pace;
  const bool other_pace = asked != Pace::recorded;
  if (!outcome.inputs->recorded() || !outcome.options->baseline || (!changed && !other_pace)) return std::nullopt;
  Baselines baselines;
  replay::SimulationOptions alone = options;
  alone.links.topology = link::Topology::none;  // fitted durations need none
  const auto results_at = [&](Pace pace, const std::string& what) {
    std::optional<BaselineStore> store;
    std::string key;
    if (outcome.options->keep_baselines) {
      store.emplace(*outcome.options->keep_baselines);
      key = baseline_key(*outcome.options, *outcome.machines, pace, options.seed);
      if (std::optional<OpResults> kept = store->find(key)) return *kept;
    }
    std::vector<replay::Job> jobs = make_jobs(fitted, *outcome.machines, pace, true);
    if (outcome.options->ranks) jobs.resize(1);  // the others do the same
    const SimulationResult result = simulate_shown(jobs, alone, what, outcome.options->quiet);
    if (result.partial) baselines.stopped = result.stopped;
    OpResults results = results_of(result);
    results.resize(fitted.size(), results.front());
    if (store && result.progress && !result.partial) store->keep(key, results);
    return results;
  };
  baselines.recorded = results_at(Pace::recorded, "recorded machine");
  if (other_pace && changed) {
    baselines.same_pace = results_at(asked, fmt::format("recorded machine, {}", replay::pace_name(asked)));
  }
  return baselines;
}

void collect_warnings(RunOutcome& outcome, const std::vector<Fitted>& fitted, const Timeline* timeline) {
  for (const Fitted& its : fitted) {
    if (!its.clamped.empty()) outcome.warnings.push_back(its.clamped);
  }
  for (const workload::Workload& workload : outcome.inputs->workloads) {
    outcome.warnings.insert(outcome.warnings.end(), workload.warnings.begin(), workload.warnings.end());
  }
  for (std::size_t i = 0; i < outcome.inputs->workloads.size(); ++i) {
    const Machine& machine = outcome.machines->gpus[i];
    const std::vector<workload::Op>& ops = outcome.workloads[i]->ops;
    const std::uint32_t lanes = machine.params.sm.limits.warp_size;
    const bool programs =
        std::any_of(ops.begin(), ops.end(), [](const workload::Op& op) { return op.kernel.program != nullptr; });
    if (!programs || lanes == kProgramLanes) continue;
    outcome.warnings.push_back(
        fmt::format("programs run in warps of {} threads, and those of {} have {}: places on SMs are counted in the "
                    "latter, so that "
                    "occupancy and time of programs are not those of that machine",
                    kProgramLanes, machine.params.machine.device, lanes));
  }
  if (outcome.options->ranks) {
    outcome.warnings.push_back(fmt::format(
        "--ranks {}: every GPU does what the recorded one did, with the same host at the same times; what ranks of a "
        "real run do not have in common is left out",
        *outcome.options->ranks));
  }
  // A scenario is refused for it (packet_options).
  const auto structured = [](const workload::Workload& workload) { return has_stream_structure(workload); };
  if ((outcome.packets || outcome.tmdqs) &&
      std::any_of(outcome.inputs->workloads.begin(), outcome.inputs->workloads.end(), structured)) {
    outcome.warnings.emplace_back(
        "graphs, and kernels that start before the one ahead of them has ended, are of streams: as submitted here, "
        "operations of a stream follow each other one by one");
  }
  if (timeline != nullptr && !timeline->lost().empty()) {
    outcome.warnings.push_back(timeline->lost() +
                               "; --trace-time, --trace-units or --trace-kernels show a part in full, and "
                               "run.timeline_events sets how much there may be");
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

// The same step of the same kernel, wrong in the same way.
bool alike(const Fault& a, const Fault& b) {
  return a.gpu == b.gpu && a.kernel == b.kernel && a.expected == b.expected && a.record.kind == b.record.kind &&
         a.record.where == b.record.where && a.record.operation == b.record.operation && a.record.rule == b.record.rule;
}

// The first of those that are alike stands for them. Those that nobody expects come first.
void print_faults(const RunOutcome& outcome, std::ostream& out) {
  constexpr std::size_t kShown = 10;
  std::vector<std::pair<const Fault*, std::size_t>> groups;
  for (const bool expected : {false, true}) {
    for (const Fault& fault : outcome.faults) {
      if (fault.expected != expected) continue;
      const auto known = std::find_if(groups.begin(), groups.end(),
                                      [&fault](const auto& group) { return alike(*group.first, fault); });
      if (known != groups.end()) {
        ++known->second;
      } else if (groups.size() < kShown) {
        groups.emplace_back(&fault, 1);
      }
    }
  }
  std::size_t told = 0;
  for (const auto& [fault, count] : groups) {
    out << fmt::format("  {} {}\n", fault->expected ? "fault:  " : "FAULT:  ", fault->text);
    if (count > 1) out << fmt::format("           and {} more like it, listed in stats.json\n", count - 1);
    told += count;
  }
  if (outcome.inputs->scenario && !groups.empty()) {
    out << fmt::format("           lines are those of {}\n", outcome.inputs->scenario->file);
  }
  if (outcome.faults.size() > told) {
    out << fmt::format("  and {} more, listed in stats.json\n", outcome.faults.size() - told);
  }
}

// What kernels lack between them, of a run that looks for it.
void print_races(const RunOutcome& outcome, std::ostream& out) {
  constexpr std::size_t kShown = 10;
  for (std::size_t gpu = 0; gpu < outcome.result.jobs.size(); ++gpu) {
    const std::string& instance = outcome.machines->gpus[gpu].instance;
    const std::vector<arch::Race>& races = outcome.result.jobs[gpu].races;
    for (std::size_t i = 0; i < std::min(kShown, races.size()); ++i) {
      out << fmt::format("  RACE:    {}: {}\n", instance, races[i].text());
    }
    if (races.size() > kShown) {
      out << fmt::format("  and {} more, listed in stats.json\n", races.size() - kShown);
    }
  }
}

void print_expectations(const RunOutcome& outcome, bool met, std::ostream& out) {
  for (const ExpectationResult& e : outcome.expectations) {
    if (e.ok && !met) continue;
    const std::string why = e.ok ? "" : (e.is_value ? ", but is " : ": ") + e.actual;
    out << fmt::format("  {} {}{}\n", e.ok ? "met:    " : "FAILED: ", e.text, why);
  }
}

// What makes a quiet run end with another status than 0.
void print_failures(const RunOutcome& outcome) {
  const bool fault =
      std::any_of(outcome.faults.begin(), outcome.faults.end(), [](const Fault& f) { return !f.expected; });
  std::ostringstream text;
  print_expectations(outcome, false, text);
  if (fault) print_faults(outcome, text);
  print_races(outcome, text);
  if (outcome.rejected > 0) text << fmt::format("  rejected: {} operations did not run\n", outcome.rejected);
  if (!text.str().empty()) std::cerr << "heddle: " << outcome.inputs->name << ":\n" << text.str();
}

// In lines of at most 100 letters, at blanks.
std::string wrapped(const std::string& text) {
  constexpr std::size_t kWidth = 100;
  std::string lines;
  std::size_t width = 0;
  std::istringstream words(text);
  for (std::string word; words >> word; width += word.size()) {
    if (width > 0) {
      const bool fits = width + 1 + word.size() <= kWidth;
      lines += fits ? ' ' : '\n';
      width = fits ? width + 1 : 0;
    }
    lines += word;
  }
  return lines;
}

void print_outcome(const RunOutcome& outcome, const ResultsFolder& folder) {
  if (outcome.options->quiet) {
    print_failures(outcome);
  } else {
    std::cout << title_of(*outcome.inputs) << "\n";
    if (outcome.inputs->scenario && !outcome.inputs->scenario->description.empty()) {
      std::cout << wrapped(outcome.inputs->scenario->description) << "\n";
    }
    std::cout << "\n";
    std::size_t width = 0;
    const auto lines = summary_lines(outcome);
    for (const auto& [label, value] : lines) width = std::max(width, label.size());
    for (const auto& [label, value] : lines) std::cout << fmt::format("  {:<{}}  {}\n", label, width, value);
    print_expectations(outcome, true, std::cout);
    print_faults(outcome, std::cout);
    print_races(outcome, std::cout);
    for (const std::string& warning : outcome.warnings) std::cout << "  note: " << warning << '\n';
    std::cout << fmt::format(
        "\nsimulated in {:.2f} s: {} CTAs and {} events per second\n", outcome.result.wall_seconds,
        with_commas(outcome.ctas / std::max(outcome.result.wall_seconds, 1e-9)),
        with_commas(static_cast<double>(outcome.result.events) / std::max(outcome.result.wall_seconds, 1e-9)));
    std::cout << "page: " << folder.file("report.html") << '\n';
    if (!folder.kept().empty()) std::cout << "results of an earlier command: " << folder.kept() << '\n';
  }
  if (outcome.result.partial) std::cerr << "heddle: partial: stopped " << outcome.result.stopped << '\n';
  if (!outcome.result.progress && !outcome.wants_no_progress()) {
    std::cerr << "heddle: no progress: " << outcome.result.stopped << "; the chain of waits:\n";
    for (const std::string& wait : told(outcome.result.waits)) std::cerr << "  " << wait << '\n';
    if (outcome.result.waits.empty()) std::cerr << "  (no block says that it waits)\n";
  }
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
  write_text(document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", path);
}

int status_of(const RunOutcome& outcome, int signal) {
  if (signal != 0) return kSignalled + signal;
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

// Of a simulation beside the one whose results are written.
int tell_unfinished(const SimulationResult& result, const char* where, int signal) {
  if (result.partial) {
    std::cerr << fmt::format("heddle: partial: {}, stopped {}: there are no results\n", where, result.stopped);
    return signal != 0 ? kSignalled + signal : kPartial;
  }
  std::cerr << fmt::format("heddle: no progress {}: {}; the chain of waits:\n", where, result.stopped);
  for (const std::string& wait : told(result.waits)) std::cerr << "  " << wait << '\n';
  return kNoProgress;
}

}  // namespace

int run_command(const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const RunOptions options = parse_run_options(arguments);
  if (options.help) {
    std::cout << run_help();
    return kSuccess;
  }
  Inputs inputs = load_inputs(options);
  const std::optional<workload::PacketOptions> packets = packet_options(inputs, options);
  const Machines machines = resolve_machines(inputs, options);
  if (inputs.recorded() && machines.links.topology != link::Topology::none) {
    for (std::string& sentence : replay::align_ranks(inputs.workloads)) {
      inputs.workloads.front().warnings.push_back(std::move(sentence));
    }
  }
  if (options.dump_config) {
    if (*options.dump_config == "-") {
      std::cout << machines.config;
    } else {
      write_text(machines.config, *options.dump_config);
    }
    return kSuccess;
  }

  RunParts parts(options, inputs, machines, !packets && submit_by(inputs, options) == workload::SubmitBy::streams);
  RunOutcome outcome;
  outcome.options = &options;
  outcome.inputs = &inputs;
  outcome.machines = &machines;
  outcome.packets = packets;
  outcome.tmdqs = submit_by(inputs, options) == workload::SubmitBy::tmdqs;
  outcome.seed = options.seed.value_or(inputs.scenario && inputs.scenario->seed ? *inputs.scenario->seed : 1);
  const auto counters =
      options.counters ? import::import_counters(*options.counters) : std::vector<workload::KernelCounters>{};
  std::vector<Fitted> fitted = fit_workloads(inputs, machines, options, counters);
  for (std::size_t i = 0; i < fitted.size(); ++i) move_demands(fitted[i], machines.gpus[i].params, counters);
  for (const Fitted& its : fitted) {
    if (its.demands) outcome.demands.push_back(its.demands.get());
  }
  if (inputs.recorded()) {
    outcome.collectives = put_over_links(fitted, machines, options);
  }
  for (std::size_t i = 0; options.clamp_misfits && i < fitted.size(); ++i) clamp_misfits(fitted[i], machines.gpus[i]);
  std::vector<replay::Job> jobs = make_jobs(fitted, machines, options.pace, false, packets, outcome.tmdqs);
  for (const replay::Job& job : jobs) outcome.workloads.push_back(job.workload);
  replay::check_jobs(jobs, machines.links.topology != link::Topology::none,
                     inputs.scenario ? inputs.scenario->kernel_places : replay::KernelPlaces{});
  std::vector<replay::CtaDump> ctas(options.dump_ctas || options.waves ? jobs.size() : 0);
  for (std::size_t i = 0; i < ctas.size(); ++i) jobs[i].ctas = &ctas[i];
  for (replay::Job& job : jobs) job.counts_kernels = options.kernel_counters;
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
  simulation.time_limit_ns = machines.run.time_limit;
  simulation.event_limit = machines.run.event_limit;
  simulation.host = machines.host;
  simulation.links = machines.links;
  const Interruption interruption;
  simulation.interrupted = [&interruption] { return interruption.reason(); };
  ResultsFolder folder(options.out, inputs.name, options.command_line);
  check_region_files(inputs, folder.path().string());
  // Nothing of an earlier run is touched before it is known that this one can begin.
  bool begun = false;
  simulation.built = [&](const std::vector<const Stats*>& built) {
    if (begun) return;
    check_statistics(inputs, built);
    const bool goes_on = options.resume && holds_checkpoint(folder.path(), *options.resume);
    folder.begin(region_files(inputs));
    if (!goes_on) remove_checkpoint(folder.path());
    begun = true;
  };
  simulation.wall_begin = std::chrono::steady_clock::now();
  const std::optional<Baselines> baselines = simulate_baselines(outcome, fitted, simulation);
  if (const auto start = parts.run_before(jobs, simulation)) {
    return tell_unfinished(*start, "before the region", interruption.number());
  }
  std::optional<Timeline> timeline;
  const std::string timeline_file =
      folder.file(options.timeline == TimelineFormat::json ? "timeline.json.gz" : "timeline.pftrace");
  if (options.timeline) {
    check_writable(timeline_file);
    timeline.emplace(machines.run.timeline_events, options.timeline_filter);
    simulation.timeline = &*timeline;
  }
  parts.prepare(jobs, simulation, folder.path());
  outcome.result = simulate_shown(jobs, simulation, inputs.name, options.quiet);
  if (const auto rest = parts.run_behind(jobs, simulation, outcome.result)) {
    return tell_unfinished(*rest, "behind the region", interruption.number());
  }
  if (baselines && baselines->stopped && outcome.complete()) {
    outcome.result.partial = true;
    outcome.result.stopped = "while the recorded machine was simulated, " + *baselines->stopped;
  }
  if (timeline) {
    draw_ranges(outcome, *timeline);
    timeline->finish();
    write_timeline(*timeline, *options.timeline, timeline_file);
  }
  // Of a part nothing can be said beside the whole.
  if (inputs.recorded() && !outcome.result.partial) compare_with_recording(outcome, fitted, baselines);
  parts.add_faults(outcome.result);
  collect_faults(outcome);
  collect_stats(outcome);
  if (outcome.complete()) measure_figures(outcome);
  if (outcome.complete() || (!outcome.result.partial && outcome.wants_no_progress())) check_expectations(outcome);
  collect_warnings(outcome, fitted, timeline ? &*timeline : nullptr);
  outcome.warnings.insert(outcome.warnings.begin(), parts.notes().begin(), parts.notes().end());

  // The checkpoint that it began with is done with.
  if (options.resume && outcome.complete() && parts.kept().empty()) remove_checkpoint(folder.path());

  write_text(machines.config, folder.file("config.yaml"));
  write_stats(outcome, folder.file("stats.json"));
  write_kernels(outcome, folder.file("kernels.csv"));
  if (has_ranges(outcome)) write_ranges(outcome, folder.file("ranges.csv"));
  if (options.kernel_counters) write_stalls(outcome, folder.file("stalls.csv"));
  write_regions(outcome, folder.path().string());
  if (packets) write_packets(outcome, folder.file("packets.csv"));
  if (options.dump_ctas) write_ctas(ctas, outcome, folder);
  if (options.waves) write_waves(ctas, outcome, options.timeline_filter, folder.file("waves.vcd"));
  if (!outcome.demands.empty()) write_demands(outcome, folder.file("demands.csv"));
  if (options.bits) write_bits(outcome, folder.file("bits.json"));
  report::write_report(folder.file("report.html"), report_data(outcome));
  write_host(outcome, folder, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  print_outcome(outcome, folder);
  if (outcome.result.partial && !parts.kept().empty()) {
    std::cerr << fmt::format("heddle: checkpoint behind {}: --resume {} goes on from there\n", parts.kept(),
                             folder.path().string());
  }
  if (options.bits && !options.quiet) print_bits(outcome);
  if (outcome.unknown_statistic) throw *outcome.unknown_statistic;
  return status_of(outcome, outcome.result.partial ? interruption.number() : 0);
}

}  // namespace heddle::cli
