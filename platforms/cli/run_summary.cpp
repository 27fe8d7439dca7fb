// The lines that the program prints at the end of a run, and what they share with the page.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/demand_report.h"
#include "cli/run_outcome.h"

namespace heddle::cli {

using Lines = std::vector<std::pair<std::string, std::string>>;

namespace {

std::string count_of(std::size_t count, const char* singular, const char* plural) {
  return counted(static_cast<double>(count), singular, plural);
}

// How well launches were predicted, `from` what; `none`: why none was.
template <class Fit>
std::string prediction_text(const Fit& fit, const char* none, const char* from) {
  if (fit.launches == 0) return fmt::format("none: {}", none);
  return fmt::format("{} {}: median error {}, 95 % within {}, total time {:+.2f} %",
                     count_of(fit.launches, "launch", "launches"), from, percent_text(fit.error_p50, 1),
                     percent_text(fit.error_p95, 1), 100 * fit.time_error);
}

// How far the model can be believed: this run's comparison, or that of the recorded machine beside a what-if.
void add_fidelity(const RunOutcome& outcome, std::size_t gpu, const std::string& prefix, Lines& lines) {
  const replay::Comparison& c = outcome.fidelity_of(gpu);
  lines.emplace_back(prefix + "span error",
                     fmt::format("{:+.2f} %", 100 * (c.span_modelled_ns / c.span_recorded_ns - 1)));
  lines.emplace_back(prefix + "kernel durations",
                     fmt::format("{} of {} that overlap no other are within 5 %; 95 % within {}",
                                 with_commas(static_cast<double>(c.within_5)), count_of(c.alone, "kernel", "kernels"),
                                 percent_text(c.error_p95)));
  for (const Unmatched& u : unmatched(c)) {
    lines.emplace_back("  more than 5 % off",
                       fmt::format("{}, {:.1f} % of the kernel time: {}", count_of(u.kernels, "kernel", "kernels"),
                                   100 * u.share, u.reason));
  }
  if (c.overlap_recorded_ns > 0) {
    lines.emplace_back(prefix + "overlap",
                       fmt::format("two kernels or more ran for {} recorded, {} modelled",
                                   time_text(c.overlap_recorded_ns / 1e3), time_text(c.overlap_modelled_ns / 1e3)));
  }
  if (c.pairs.recorded > 0) {
    lines.emplace_back(
        prefix + "overlapping pairs",
        fmt::format("{} of {} pairs of kernels that ran at the same time do so in the model, for {:.0f} % "
                    "of that time; {} pairs in the model",
                    with_commas(static_cast<double>(c.pairs.both)), with_commas(static_cast<double>(c.pairs.recorded)),
                    100 * c.pairs.both_ns / c.pairs.recorded_ns, with_commas(static_cast<double>(c.pairs.modelled))));
  }
  if (c.coarse > 0) {
    const double resolution_us = static_cast<double>(outcome.inputs->workloads[gpu].timings.resolution) / 1e3;
    lines.emplace_back(prefix + "resolution",
                       fmt::format("{} so short that the recorder's {} leaves more than 5 % open",
                                   count_of(c.coarse, "kernel is", "kernels are"), time_text(resolution_us)));
  }
  if (c.occupancy_compared > 0) {
    lines.emplace_back(prefix + "occupancy check",
                       fmt::format("{} of {} differ from the recorder's estimate by more than a point",
                                   c.occupancy_mismatches, count_of(c.occupancy_compared, "kernel", "kernels")));
  }
  lines.emplace_back(prefix + "prediction",
                     outcome.held_back.empty()
                         ? prediction_text(c.signature, "no name, grid and block was launched twice",
                                           "from others of their name, grid and block")
                         : prediction_text(outcome.held_back[gpu], "no launch was held back",
                                           "that were held back, from others and what they demand"));
  lines.emplace_back(prefix + "waits between streams",
                     fmt::format("{} recorded, {} inferred; {} held until the recorded start", c.edges_recorded,
                                 c.edges_inferred, count_of(c.pinned, "operation", "operations")));
}

void add_faults(const RunOutcome& outcome, const Machine& m, const std::string& prefix, Lines& lines) {
  std::size_t all = 0;
  std::size_t expected = 0;
  for (const Fault& fault : outcome.faults) {
    if (outcome.machines->gpus[fault.gpu].instance != m.instance) continue;
    ++all;
    expected += fault.expected ? 1U : 0U;
  }
  if (all == 0) return;
  const double ended = outcome.stats[m.instance + ".task.faulted"]["value"].get<double>();
  const std::string judged = expected == all ? "as expected"
                             : expected == 0 ? "not expected"
                                             : fmt::format("{} of them expected", expected);
  lines.emplace_back(prefix + "faults", fmt::format("{}, {}; {} ended early", with_commas(static_cast<double>(all)),
                                                    judged, counted(ended, "kernel", "kernels")));
}

void add_machine(const RunOutcome& outcome, const Machine& m, const std::string& prefix, Lines& lines) {
  lines.emplace_back(m.instance, fmt::format("{}: {} in {} at {} GHz, timing {}; {}", m.preset,
                                             counted(m.params.machine.shape.sms(), "SM", "SMs"),
                                             count_of(m.params.machine.shape.gpcs.size(), "GPC", "GPCs"),
                                             m.params.machine.clock, gpu::name_of(m.params.machine.timing), m.why));
  std::string changed;
  for (const ParamEntry& entry : m.entries) {
    if (entry.origin.kind == Origin::Kind::file || entry.origin.kind == Origin::Kind::command_line) {
      changed += (changed.empty() ? "" : ", ") + entry.path + " = " + entry.value_text;
    }
  }
  constexpr std::size_t kReadable = 300;
  if (!changed.empty())
    lines.emplace_back("  changed", changed.size() < kReadable ? changed : "see the page or config.yaml");
  const auto stat = [&](const char* name) { return outcome.stats[m.instance + "." + name]["value"].get<double>(); };
  // By packets, a copy in parts counts as often as it has parts. In front of TMDQs the host sees to copies itself.
  double copies = stat("task.holds") + (outcome.packets ? stat("packet.packets.vendor") : 0);
  const auto gpu = static_cast<std::size_t>(&m - outcome.machines->gpus.data());
  if (outcome.tmdqs) copies = static_cast<double>(outcome.result.jobs[gpu].host_copies);
  lines.emplace_back(prefix + "work",
                     fmt::format("{}, {} in {}; {}", counted(stat("task.kernels"), "kernel", "kernels"),
                                 counted(stat("cwd.ctas_launched"), "CTA", "CTAs"),
                                 counted(stat("cwd.launch_packets"), "launch packet", "launch packets"),
                                 counted(copies, "copy or fill", "copies and fills")));
  if (const std::string launch = launch_line(outcome.stats, m.instance); !launch.empty()) {
    lines.emplace_back(prefix + "launch rate", launch);
  }
  if (const double children = stat("task.children"); children > 0) {
    // A gauge that ends at its maximum has no other.
    const bool ends_there = !outcome.stats.contains(m.instance + ".task.depth.max");
    const double deepest = stat(ends_there ? "task.depth" : "task.depth.max");
    lines.emplace_back(
        prefix + "by programs",
        fmt::format("{} launched, down to depth {:.0f}; {} saved while they waited", counted(children, "task", "tasks"),
                    deepest, counted(stat("task.restores"), "CTA", "CTAs")));
  }
  if (const double evictions = stat("task.evictions"); evictions > 0) {
    lines.emplace_back(prefix + "evicted", counted(evictions, "task gave its slot to a more urgent one",
                                                   "tasks gave their slots to more urgent ones"));
  }
  add_faults(outcome, m, prefix, lines);
  lines.emplace_back(prefix + "occupancy", fmt::format("{:.1f} % of the warps, on average", stat("occupancy")));
  if (const std::string idle = idle_line(outcome, gpu); !idle.empty()) lines.emplace_back(prefix + "idle SMs", idle);
}

}  // namespace

const char* reference_pace(const RunOutcome& outcome) {
  return runs_otherwise(outcome) && outcome.options->pace != replay::Pace::recorded ? "the same pace"
                                                                                    : "the recorded pace";
}

bool runs_otherwise(const RunOutcome& outcome) {
  const std::vector<Machine>& gpus = outcome.machines->gpus;
  return outcome.packets.has_value() || outcome.tmdqs || !outcome.collectives.matched.empty() ||
         std::any_of(gpus.begin(), gpus.end(), [](const Machine& machine) { return machine.changed; });
}

std::string collectives_text(const RunOutcome& outcome) {
  const replay::RankCollectives& its = outcome.collectives;
  const std::size_t gpus = outcome.machines->gpus.size();
  std::string text = count_of(its.matched.size(), "collective", "collectives");
  text += gpus > 1 ? fmt::format(" over the links of {} GPUs, predicted", gpus) : " of a single rank: they end at once";
  if (gpus > 1 && its.recorded_ranks != 0 && its.recorded_ranks != gpus) {
    text += fmt::format(" (recorded with {} ranks)", its.recorded_ranks);
  }
  if (gpus > 1 && !outcome.options->ranks && !its.matched.empty()) {
    text += fmt::format("; matched by number: {}, by order: {}", its.by_number(), its.matched.size() - its.by_number());
  }
  if (its.cut > 0) {
    text += fmt::format("; with at most {} CTAs each, as those of all streams do not fit at once otherwise", its.cut);
  }
  if (its.assumed > 0) {
    text += fmt::format("; of {} the recording has no grid, and one CTA per SM is assumed", its.assumed);
  }
  if (its.kept.empty()) return text;
  std::vector<std::string> reasons;
  for (const auto& [why, kernels] : its.kept) reasons.push_back(fmt::format("{}: {}", kernels, why));
  return text + fmt::format("; {} of communication with recorded durations, fitted ({})",
                            count_of(its.kept_kernels(), "kernel", "kernels"), fmt::join(reasons, "; "));
}

std::vector<Unmatched> unmatched(const replay::Comparison& c) {
  static constexpr const char* kReasons[replay::kMatches] = {
      "",
      "overlap another kernel, so the recorded duration is not the kernel's own",
      "the difference is within the recorder's resolution",
      "launch bound: the modelled distributor cannot start the CTAs that fast",
      "no grid in the recording: one CTA per SM was assumed",
      "for another reason"};
  double total = 0;
  for (const double ns : c.time_ns) total += ns;
  std::vector<Unmatched> rows;
  for (std::size_t m = 1; m < replay::kMatches; ++m) {
    if (c.counts[m] == 0) continue;
    rows.push_back({kReasons[m], c.counts[m], c.time_ns[m] / 1e3, total > 0 ? c.time_ns[m] / total : 0});
  }
  return rows;
}

Lines summary_lines(const RunOutcome& outcome) {
  Lines lines;
  const bool several = outcome.machines->gpus.size() > 1;
  for (std::size_t i = 0; i < outcome.machines->gpus.size(); ++i) {
    const Machine& m = outcome.machines->gpus[i];
    const std::string prefix = several ? m.instance + " " : "";
    add_machine(outcome, m, prefix, lines);
    const std::string clusters = cluster_line(outcome.result.jobs[i]);
    if (!clusters.empty()) lines.emplace_back(prefix + "clusters", clusters);
    const std::string packets = packet_line(outcome.result.jobs[i]);
    if (!packets.empty()) lines.emplace_back(prefix + "packets", packets);
    const std::string power = power_text(outcome, i);
    if (!power.empty()) lines.emplace_back(prefix + "power", power);
    if (outcome.comparisons.empty()) continue;
    for (auto& line : demand_lines(outcome, i)) lines.push_back(std::move(line));
    for (const Span& span : outcome.spans[i]) lines.emplace_back(prefix + "span, " + span.label, time_text(span.us));
    if (outcome.what_if()) {
      const RunOutcome::Change change = outcome.change_of(i);
      lines.emplace_back(prefix + "what if",
                         fmt::format("span {:.2f} x, kernel time {:.2f} x those of the recorded machine at {}",
                                     change.span, change.kernel_time, reference_pace(outcome)));
      lines.emplace_back("", "the lines below judge the model on the recorded machine at the recorded pace");
    }
    if (!mixes_predictions(outcome)) add_fidelity(outcome, i, prefix, lines);
  }
  if (!outcome.collectives.matched.empty() || !outcome.collectives.kept.empty()) {
    lines.emplace_back("collectives", collectives_text(outcome));
  }
  for (const FigureResult& result : outcome.figures) {
    const scenario::Figure& figure = *result.figure;
    std::string text = fmt::format("{:.5g}{}{}", result.value, figure.unit.empty() ? "" : " ", figure.unit);
    if (figure.measured) {
      text += fmt::format("; measured on silicon: {:.5g} ({:+.1f} %)", *figure.measured,
                          100 * (result.value / *figure.measured - 1));
    }
    lines.emplace_back(figure.name, text);
  }
  lines.emplace_back("simulated time", time_text(outcome.result.sim_time_ns / 1e3));
  if (outcome.result.partial) lines.emplace_back("partial", "stopped " + outcome.result.stopped);
  if (!outcome.result.progress) lines.emplace_back("no progress", outcome.result.stopped);
  return lines;
}

}  // namespace heddle::cli
