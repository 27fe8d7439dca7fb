// What the page shows, from what the run found out.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/run_outcome.h"

namespace heddle::cli {
namespace {

using nlohmann::json;
using replay::Match;

double rounded(double value, double unit) { return std::round(value / unit) * unit; }

json dims(const arch::Dim3& d) { return json::array({d.x, d.y, d.z}); }

json occupancy_of(const replay::JobResult& job) {
  const LoadMap& map = job.observation->load_map;
  json warps = json::array();
  json busy = json::array();
  for (std::uint32_t bin = 0; bin < map.bins(); ++bin) {
    double load = 0;
    std::uint32_t active = 0;
    for (std::uint32_t sm = 0; sm < map.units(); ++sm) {
      const double l = map.load(sm, bin);
      load += l;
      active += l > 0 ? 1U : 0U;
    }
    warps.push_back(rounded(100 * load / map.units(), 0.01));
    busy.push_back(rounded(100.0 * active / map.units(), 0.01));
  }
  return {{"bin_us", static_cast<double>(map.bin_cycles()) * job.cycle_ns / 1e3},
          {"warps_percent", warps},
          {"sms_busy_percent", busy}};
}

json load_map_of(const replay::JobResult& job) {
  const LoadMap& map = job.observation->load_map;
  // Rows by place in the tree, so that a GPC's SMs are neighbours.
  std::vector<std::uint32_t> order(map.units());
  for (std::uint32_t sm = 0; sm < map.units(); ++sm) order[sm] = sm;
  std::map<std::uint32_t, std::vector<int>> key;
  for (const std::uint32_t sm : order) {
    int gpc = 0, cpc = 0, tpc = 0, in_tpc = 0;
    std::sscanf(job.sm_paths[sm].c_str(), "gpc%d.cpc%d.tpc%d.sm%d", &gpc, &cpc, &tpc, &in_tpc);
    key[sm] = {gpc, cpc, tpc, in_tpc};
  }
  std::sort(order.begin(), order.end(), [&key](std::uint32_t a, std::uint32_t b) { return key[a] < key[b]; });
  json names = json::array();
  json rows = json::array();
  for (const std::uint32_t sm : order) {
    names.push_back(job.sm_paths[sm]);
    json row = json::array();
    for (std::uint32_t bin = 0; bin < map.bins(); ++bin) row.push_back(std::lround(100 * map.load(sm, bin)));
    rows.push_back(std::move(row));
  }
  return {{"bin_us", static_cast<double>(map.bin_cycles()) * job.cycle_ns / 1e3}, {"sms", names}, {"percent", rows}};
}

json latency_of(const RunOutcome& outcome, const std::string& instance) {
  const std::string path = instance + ".task.launch_latency";
  const auto found = outcome.histograms.find(path);
  if (found == outcome.histograms.end()) return nullptr;
  json edges = json::array();
  for (const auto& begin : (*found)["begin"]) edges.push_back(begin.get<double>() / 1e3);
  edges.push_back((*found)["end"].back().get<double>() / 1e3);
  const auto value = [&](const char* name) { return outcome.stats[path + name]["value"].get<double>() / 1e3; };
  return {{"unit", "us"},
          {"edges", edges},
          {"counts", (*found)["count"]},
          {"p50", value(".p50")},
          {"p95", value(".p95")},
          {"max", value(".max")},
          {"what", "from when nothing but the launch held a kernel back (its submission, or the end of what it waited for) to its first launch packet"}};
}

struct OpTables {
  json kernels = json::array();
  json copies = json::array();
};

OpTables operations_of(const RunOutcome& outcome, std::size_t gpu) {
  OpTables tables;
  const workload::Workload& workload = outcome.inputs->workloads[gpu];
  const replay::JobResult& job = outcome.result.jobs[gpu];
  const gpu::GpuParams& params = outcome.machines->gpus[gpu].params;
  const std::uint32_t sms = params.machine.shape.sms();
  std::map<std::size_t, Match> matches;
  if (!outcome.comparisons.empty()) {
    for (const replay::KernelComparison& k : outcome.fidelity_of(gpu).kernels) matches[k.op] = k.match;
  }
  const auto axis_us = [&job](double ns) { return rounded((ns + job.lead_ns) / 1e3, 0.001); };
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    const replay::OpResult& r = job.results[i];
    if (!r.done) continue;
    json row = {{"name", op.kernel.name},
                {"stream", workload.streams[op.stream].name},
                {"start_us", axis_us(r.start)},
                {"us", rounded((r.end - r.start) / 1e3, 0.001)}};
    if (op.kind != workload::OpKind::kernel) {
      tables.copies.push_back(std::move(row));
      continue;
    }
    row["grid"] = dims(op.kernel.grid);
    row["block"] = dims(op.kernel.block);
    row["ctas"] = op.kernel.grid.count();
    row["wait_us"] = rounded((r.start - r.submitted) / 1e3, 0.001);
    row["occupancy_percent"] = rounded(arch::occupancy_percent(params.sm.limits, op.kernel, sms), 0.1);
    if (op.recorded) {
      row["recorded_start_us"] = axis_us(static_cast<double>(op.recorded->start));
      row["recorded_us"] = rounded(static_cast<double>(op.recorded->duration) / 1e3, 0.001);
      row["overlaps"] = op.recorded->overlaps;
      const auto match = matches.find(i);
      if (match != matches.end()) row["match"] = replay::match_name(match->second);
    }
    if (!outcome.baseline.empty()) {
      const replay::OpResult& b = outcome.baseline[gpu][i];
      row["baseline_us"] = rounded((b.end - b.start) / 1e3, 0.001);
    }
    tables.kernels.push_back(std::move(row));
  }
  return tables;
}

json unmatched_of(const replay::Comparison& c) {
  static constexpr const char* kReasons[replay::kMatches] = {
      "",
      "more than 5 % off: overlap another kernel, so the recorded duration is not the kernel's own",
      "more than 5 % off, but within the recorder's resolution",
      "more than 5 % off, launch bound: the modelled distributor cannot start the CTAs that fast",
      "more than 5 % off, no grid in the recording: one CTA per SM was assumed",
      "more than 5 % off for another reason"};
  double total = 0;
  for (const double ns : c.time_ns) total += ns;
  json rows = json::array();
  for (std::size_t m = 1; m < replay::kMatches; ++m) {
    if (c.counts[m] == 0) continue;
    rows.push_back({{"reason", kReasons[m]},
                    {"kernels", c.counts[m]},
                    {"time_us", c.time_ns[m] / 1e3},
                    {"share_percent", total > 0 ? 100 * c.time_ns[m] / total : 0}});
  }
  return rows;
}

json gpu_of(const RunOutcome& outcome, std::size_t i) {
  const Machine& machine = outcome.machines->gpus[i];
  const replay::JobResult& job = outcome.result.jobs[i];
  const workload::Workload& workload = outcome.inputs->workloads[i];
  OpTables tables = operations_of(outcome, i);
  json gpu = {{"name", machine.instance},
              {"preset", machine.preset},
              {"sms", machine.params.machine.shape.sms()},
              {"gpcs", job.sms_per_gpc},
              {"clock_ghz", machine.params.machine.clock},
              {"occupancy", occupancy_of(job)},
              {"load_map", load_map_of(job)},
              {"kernels", std::move(tables.kernels)},
              {"copies", std::move(tables.copies)}};
  if (!workload.device.name.empty()) gpu["device"] = workload.device.name;
  if (outcome.inputs->recorded()) gpu["pace"] = outcome.options->pace == replay::Pace::asap ? "asap" : "recorded";
  json latency = latency_of(outcome, machine.instance);
  if (!latency.is_null()) gpu["launch_latency"] = std::move(latency);
  if (!outcome.comparisons.empty()) gpu["unmatched"] = unmatched_of(outcome.fidelity_of(i));
  if (!outcome.spans.empty()) {
    for (const Span& span : outcome.spans[i]) gpu["spans"].push_back({{"label", span.label}, {"us", span.us}});
  }
  return gpu;
}

json highlights_of(const RunOutcome& outcome) {
  json tiles = json::array();
  const auto tile = [&tiles](const std::string& label, const std::string& value, const std::string& note) {
    tiles.push_back({{"label", label}, {"value", value}, {"note", note}});
  };
  if (!outcome.comparisons.empty()) {
    const replay::Comparison& c = outcome.fidelity_of(0);
    const replay::Comparison& run = outcome.comparisons.front();
    if (outcome.what_if()) {
      tile("What if", fmt::format("{:.2f} x", run.span_modelled_ns / c.span_modelled_ns),
           fmt::format("end to end: {} instead of {} on the recorded machine; kernel time {:.2f} x", time_text(run.span_modelled_ns / 1e3),
                       time_text(c.span_modelled_ns / 1e3), run.kernel_time_modelled_ns / c.kernel_time_modelled_ns));
    }
    tile(outcome.what_if() ? "End to end, recorded machine" : "End to end", time_text(c.span_modelled_ns / 1e3),
         fmt::format("recorded {} ({:+.2f} %)", time_text(c.span_recorded_ns / 1e3),
                     100 * (c.span_modelled_ns / c.span_recorded_ns - 1)));
    tile("Kernels reproduced", percent_text(c.alone > 0 ? static_cast<double>(c.within_5) / static_cast<double>(c.alone) : 1, 1),
         fmt::format("within 5 % of their recorded duration, of the {} that overlap no other", with_commas(static_cast<double>(c.alone))));
    if (c.occupancy_compared > 0) {
      tile("Occupancy check", c.occupancy_mismatches == 0 ? "all agree" : fmt::format("{} differ", c.occupancy_mismatches),
           fmt::format("{} kernels with a recorded estimate", with_commas(static_cast<double>(c.occupancy_compared))));
    }
    if (c.signature.launches > 0) {
      tile("Prediction error", percent_text(c.signature.error_p50, 1),
           fmt::format("median, of {} launches predicted from others of their signature; 95 % are within {}",
                       with_commas(static_cast<double>(c.signature.launches)), percent_text(c.signature.error_p95, 1)));
    }
  } else {
    tile("Simulated time", time_text(outcome.result.sim_time_ns / 1e3), "until the last event");
  }
  tile("Kernels", with_commas(outcome.kernels), fmt::format("{} CTAs", with_commas(outcome.ctas)));
  double occupancy = 0;
  for (const Machine& machine : outcome.machines->gpus) {
    occupancy += outcome.stats[machine.instance + ".occupancy"]["value"].get<double>();
  }
  tile("Mean occupancy", fmt::format("{:.1f} %", occupancy / static_cast<double>(outcome.machines->gpus.size())),
       "resident warps, of what the SMs can hold");
  return tiles;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> summary_lines(const RunOutcome& outcome) {
  std::vector<std::pair<std::string, std::string>> lines;
  const bool several = outcome.machines->gpus.size() > 1;
  for (std::size_t i = 0; i < outcome.machines->gpus.size(); ++i) {
    const Machine& m = outcome.machines->gpus[i];
    lines.emplace_back(m.instance, fmt::format("{}: {} SMs in {} GPCs at {} GHz; {}", m.preset, m.params.machine.shape.sms(),
                                               m.params.machine.shape.gpcs.size(), m.params.machine.clock, m.why));
    std::string changed;
    for (const ParamEntry& entry : m.entries) {
      if (entry.origin.kind == Origin::Kind::file || entry.origin.kind == Origin::Kind::command_line) {
        changed += (changed.empty() ? "" : ", ") + entry.path + " = " + entry.value_text;
      }
    }
    if (!changed.empty() && changed.size() < 300) lines.emplace_back("  changed", changed);
    const std::string prefix = m.instance + ".";
    const auto stat = [&](const std::string& name) { return outcome.stats[prefix + name]["value"].get<double>(); };
    lines.emplace_back(several ? m.instance + " work" : "work",
                       fmt::format("{} kernels, {} CTAs in {} launch packets; {} copies and fills", with_commas(stat("task.kernels")),
                                   with_commas(stat("cwd.ctas_launched")), with_commas(stat("cwd.launch_packets")),
                                   with_commas(stat("task.holds"))));
    lines.emplace_back(several ? m.instance + " occupancy" : "occupancy", fmt::format("{:.1f} % of the warps, on average", stat("occupancy")));
    if (outcome.comparisons.empty()) continue;
    const replay::Comparison& c = outcome.fidelity_of(i);
    for (const Span& span : outcome.spans[i]) lines.emplace_back("span, " + span.label, time_text(span.us));
    if (outcome.what_if()) {
      const replay::Comparison& run = outcome.comparisons[i];
      lines.emplace_back("what if", fmt::format("span {:.2f} x, kernel time {:.2f} x those of the recorded machine at the recorded pace",
                                                run.span_modelled_ns / c.span_modelled_ns,
                                                run.kernel_time_modelled_ns / c.kernel_time_modelled_ns));
      lines.emplace_back("", "the lines below judge the model on the recorded machine at the recorded pace");
    }
    lines.emplace_back("span error", fmt::format("{:+.2f} %", 100 * (c.span_modelled_ns / c.span_recorded_ns - 1)));
    lines.emplace_back("kernel durations",
                       fmt::format("{} of {} kernels that overlap no other are within 5 %; 95 % within {}",
                                   with_commas(static_cast<double>(c.within_5)), with_commas(static_cast<double>(c.alone)),
                                   percent_text(c.error_p95)));
    for (const json& row : unmatched_of(c)) {
      lines.emplace_back("  not matched", fmt::format("{} kernels, {:.1f} % of the kernel time: {}", with_commas(row["kernels"].get<double>()),
                                                      row["share_percent"].get<double>(), row["reason"].get<std::string>()));
    }
    if (c.overlap_recorded_ns > 0) {
      lines.emplace_back("overlap", fmt::format("two kernels or more ran for {} recorded, {} modelled", time_text(c.overlap_recorded_ns / 1e3),
                                                time_text(c.overlap_modelled_ns / 1e3)));
    }
    if (c.coarse > 0) {
      lines.emplace_back("resolution", fmt::format("{} kernels are so short that the recorder's {} leaves more than 5 % open",
                                                   with_commas(static_cast<double>(c.coarse)),
                                                   time_text(static_cast<double>(outcome.inputs->workloads[i].timings.resolution) / 1e3)));
    }
    if (c.occupancy_compared > 0) {
      lines.emplace_back("occupancy check", fmt::format("{} of {} kernels differ from the recorder's estimate by more than a point",
                                                        c.occupancy_mismatches, with_commas(static_cast<double>(c.occupancy_compared))));
    }
    if (c.signature.launches == 0) {
      lines.emplace_back("prediction", "none: no kernel was launched twice with the same name, grid and block");
    } else {
      lines.emplace_back("prediction", fmt::format("{} launches from others of their name, grid and block: median error {}, 95 % within {}, total time {:+.2f} %",
                                                   with_commas(static_cast<double>(c.signature.launches)), percent_text(c.signature.error_p50, 1),
                                                   percent_text(c.signature.error_p95, 1), 100 * c.signature.time_error));
    }
    lines.emplace_back("waits between streams", fmt::format("{} recorded, {} inferred; {} operations held until their recorded start",
                                                            c.edges_recorded, c.edges_inferred, c.pinned));
  }
  lines.emplace_back("simulated time", time_text(outcome.result.sim_time_ns / 1e3));
  return lines;
}

json report_data(const RunOutcome& outcome) {
  json data = {{"schema", 1}, {"command", outcome.options->command_line}, {"highlights", highlights_of(outcome)}};
  std::string machines;
  for (const Machine& m : outcome.machines->gpus) {
    if (machines.find(m.preset) == std::string::npos) machines += (machines.empty() ? "" : ", ") + m.preset;
  }
  data["title"] = fmt::format("{} on {}", outcome.inputs->name, machines);
  data["gpus"] = json::array();
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) data["gpus"].push_back(gpu_of(outcome, i));
  data["summary"] = json::array();
  for (const auto& [label, value] : summary_lines(outcome)) {
    data["summary"].push_back({{"label", label}, {"value", value}, {"note", ""}});
  }
  data["parameters"] = json::array();
  for (const Machine& m : outcome.machines->gpus) {
    for (const ParamEntry& entry : m.entries) {
      if (entry.value_text == entry.default_text && entry.origin.kind == Origin::Kind::defaults) continue;
      data["parameters"].push_back({{"path", m.instance + entry.path.substr(entry.path.find('.'))},
                                    {"value", entry.value_text},
                                    {"unit", std::string(unit_text(entry.unit))},
                                    {"origin", entry.origin.text},
                                    {"source", entry.value_source}});
    }
  }
  data["warnings"] = outcome.warnings;
  data["expectations"] = json::array();
  for (const ExpectationResult& e : outcome.expectations) {
    data["expectations"].push_back({{"text", e.text}, {"ok", e.ok}, {"actual", e.actual}});
  }
  return data;
}

}  // namespace heddle::cli
