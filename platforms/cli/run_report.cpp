// What the page shows, from what the run found out.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/kernel_use.h"
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
          {"what",
           "from when nothing but the launch held a kernel back (its submission, or the end of what it waited for) to "
           "its first launch packet"}};
}

// Of more launches than these the page shows the longest, and sums by name of all.
constexpr std::size_t kShownLaunches = 10'000;
// From here on names are written once.
constexpr std::size_t kManyLaunches = 2'000;

// Operations that have ended, of one kind: kernels, or copies and fills.
std::vector<std::size_t> ended_operations(const workload::Workload& workload, const replay::JobResult& job,
                                          bool kernels) {
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (job.results[i].done && (workload.ops[i].kind == workload::OpKind::kernel) == kernels) ended.push_back(i);
  }
  return ended;
}

// The longest of them, in their order.
std::vector<std::size_t> longest_of(std::vector<std::size_t> operations, const replay::JobResult& job) {
  if (operations.size() <= kShownLaunches) return operations;
  const auto middle = operations.begin() + kShownLaunches;
  std::nth_element(operations.begin(), middle, operations.end(), [&job](std::size_t a, std::size_t b) {
    const double first = job.results[a].end - job.results[a].start;
    const double second = job.results[b].end - job.results[b].start;
    return first > second || (first == second && a < b);
  });
  operations.erase(middle, operations.end());
  std::sort(operations.begin(), operations.end());
  return operations;
}

// A number for each name.
class NameTable {
 public:
  json of(const std::string& name) {
    const auto [place, fresh] = numbers_.emplace(name, names_.size());
    if (fresh) names_.push_back(name);
    return place->second;
  }
  const json& names() const { return names_; }

 private:
  json names_ = json::array();
  std::map<std::string, std::size_t> numbers_;
};

json kernel_totals(const RunOutcome& outcome, std::size_t gpu, const std::vector<std::size_t>& kernels) {
  struct Total {
    std::size_t count = 0, recordings = 0, baselines = 0;
    double us = 0, recorded = 0, baseline = 0;
  };
  const workload::Workload& workload = *outcome.workloads[gpu];
  const replay::JobResult& job = outcome.result.jobs[gpu];
  std::map<std::string, Total> totals;
  for (const std::size_t i : kernels) {
    Total& total = totals[workload.ops[i].kernel.name];
    ++total.count;
    total.us += (job.results[i].end - job.results[i].start) / 1e3;
    if (workload.ops[i].recorded) {
      ++total.recordings;
      total.recorded += static_cast<double>(workload.ops[i].recorded->duration) / 1e3;
    }
    if (!outcome.baseline.empty()) {
      ++total.baselines;
      total.baseline += (outcome.baseline[gpu][i].end - outcome.baseline[gpu][i].start) / 1e3;
    }
  }
  json rows = json::array();
  for (const auto& [name, total] : totals) {
    rows.push_back({{"name", name},
                    {"count", total.count},
                    {"us", total.us},
                    {"recorded", total.recorded},
                    {"recordings", total.recordings},
                    {"baseline", total.baseline},
                    {"baselines", total.baselines}});
  }
  return rows;
}

// The keys of a GPU that list its kernels and copies.
void put_operations(const RunOutcome& outcome, std::size_t gpu, json& page) {
  const workload::Workload& workload = *outcome.workloads[gpu];
  const replay::JobResult& job = outcome.result.jobs[gpu];
  const gpu::GpuParams& params = outcome.machines->gpus[gpu].params;
  const std::uint32_t sms = params.machine.shape.sms();
  std::map<std::size_t, Match> matches;
  // In a what-if a kernel's match is that of another run, the recorded machine's: it is told in the table of reasons
  // only.
  if (!outcome.comparisons.empty() && !mixes_predictions(outcome) && !outcome.what_if()) {
    for (const replay::KernelComparison& k : outcome.fidelity_of(gpu).kernels) matches[k.op] = k.match;
  }
  const std::vector<std::size_t> all_kernels = ended_operations(workload, job, true);
  const std::vector<std::size_t> all_copies = ended_operations(workload, job, false);
  const std::vector<std::size_t> kernels = longest_of(all_kernels, job);
  const std::vector<std::size_t> copies = longest_of(all_copies, job);
  const bool many = kernels.size() + copies.size() >= kManyLaunches;
  NameTable names;
  const auto axis_us = [&job](double ns) { return rounded((ns + job.lead_ns) / 1e3, 0.001); };
  const auto row_of = [&](std::size_t i) {
    const workload::Op& op = workload.ops[i];
    const replay::OpResult& r = job.results[i];
    return json{{"name", many ? names.of(op.kernel.name) : json(op.kernel.name)},
                {"stream", workload.streams[op.stream].name},
                {"start_us", axis_us(r.start)},
                {"us", rounded((r.end - r.start) / 1e3, 0.001)}};
  };
  page["kernels"] = json::array();
  for (const std::size_t i : kernels) {
    const workload::Op& op = workload.ops[i];
    const replay::OpResult& r = job.results[i];
    json row = row_of(i);
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
    page["kernels"].push_back(std::move(row));
  }
  page["copies"] = json::array();
  for (const std::size_t i : copies) page["copies"].push_back(row_of(i));
  if (many) page["names"] = names.names();
  if (copies.size() < all_copies.size()) page["copies_left_out"] = all_copies.size() - copies.size();
  if (kernels.size() == all_kernels.size()) return;
  page["kernels_left_out"] = all_kernels.size() - kernels.size();
  page["kernel_totals"] = kernel_totals(outcome, gpu, all_kernels);
}

json unmatched_of(const replay::Comparison& c) {
  json rows = json::array();
  for (const Unmatched& u : unmatched(c)) {
    rows.push_back(
        {{"reason", u.reason}, {"kernels", u.kernels}, {"time_us", u.time_us}, {"share_percent", 100 * u.share}});
  }
  return rows;
}

json gpu_of(const RunOutcome& outcome, std::size_t i) {
  const Machine& machine = outcome.machines->gpus[i];
  const replay::JobResult& job = outcome.result.jobs[i];
  const workload::Workload& workload = *outcome.workloads[i];
  json gpu = {{"name", machine.instance},
              {"preset", machine.preset},
              {"timing", gpu::name_of(machine.params.machine.timing)},
              {"sms", machine.params.machine.shape.sms()},
              {"gpcs", job.sms_per_gpc},
              {"clock_ghz", machine.params.machine.clock},
              {"occupancy", occupancy_of(job)},
              {"load_map", load_map_of(job)}};
  put_operations(outcome, i, gpu);
  if (!workload.device.name.empty()) gpu["device"] = workload.device.name;
  if (outcome.inputs->recorded()) gpu["pace"] = replay::pace_name(outcome.options->pace);
  json latency = latency_of(outcome, machine.instance);
  if (!latency.is_null()) gpu["launch_latency"] = std::move(latency);
  json ranges = ranges_of(outcome, i);
  if (!ranges.is_null()) gpu["ranges"] = std::move(ranges);
  json idle = idle_of(outcome, i);
  if (!idle.is_null()) gpu["idle"] = std::move(idle);
  json use = kernel_use_of(outcome, i);
  if (!use.is_null()) gpu["kernel_use"] = std::move(use);
  json memory = memory_of(outcome, i);
  if (!memory.is_null()) gpu["memory"] = std::move(memory);
  json processes = processes_of(outcome, i);
  if (!processes.is_null()) gpu["processes"] = std::move(processes);
  json bulk = bulk_of(outcome, i);
  if (!bulk.is_null()) gpu["bulk"] = std::move(bulk);
  json power = power_of(outcome, i);
  if (!power.is_null()) gpu["power"] = std::move(power);
  json clusters = clusters_of(workload, job);
  if (!clusters.is_null()) gpu["clusters"] = std::move(clusters);
  json packets = packets_of(workload, job);
  if (!packets.is_null()) gpu["packets"] = std::move(packets);
  json launched = launched_of(workload, job);
  if (!launched.is_null()) gpu["launched"] = std::move(launched);
  json faults = faults_of(outcome, i);
  if (!faults.is_null()) gpu["faults"] = std::move(faults);
  if (!outcome.comparisons.empty() && !mixes_predictions(outcome))
    gpu["unmatched"] = unmatched_of(outcome.fidelity_of(i));
  if (!outcome.spans.empty()) {
    for (const Span& span : outcome.spans[i]) gpu["spans"].push_back({{"label", span.label}, {"us", span.us}});
  }
  return gpu;
}

json highlights_of(const RunOutcome& outcome) {
  json tiles = json::array();
  const bool several = outcome.machines->gpus.size() > 1;
  const std::string first = several ? outcome.machines->gpus.front().instance + ": " : "";
  const auto tile = [&tiles](const std::string& label, const std::string& value, const std::string& note) {
    tiles.push_back({{"label", label}, {"value", value}, {"note", note}});
  };
  if (!outcome.collectives.matched.empty()) {
    tile("Collectives over links", fmt::format("{}", outcome.collectives.matched.size()), collectives_text(outcome));
  }
  if (!outcome.comparisons.empty() && !mixes_predictions(outcome)) {
    const replay::Comparison& c = outcome.fidelity_of(0);
    const replay::Comparison& run = outcome.comparisons.front();
    if (outcome.what_if()) {
      const RunOutcome::Change change = outcome.change_of(0);
      tile(first + "What if", fmt::format("{:.2f} x", change.span),
           fmt::format("end to end: {} instead of {} on the recorded machine at {}; kernel time {:.2f} x",
                       time_text(run.span_modelled_ns / 1e3), time_text(change.reference_us), reference_pace(outcome),
                       change.kernel_time));
    }
    tile(first + (outcome.what_if() ? "End to end, recorded machine" : "End to end"),
         time_text(c.span_modelled_ns / 1e3),
         fmt::format("recorded {} ({:+.2f} %)", time_text(c.span_recorded_ns / 1e3),
                     100 * (c.span_modelled_ns / c.span_recorded_ns - 1)));
    tile(first + "Kernels as fitted",
         percent_text(c.alone > 0 ? static_cast<double>(c.within_5) / static_cast<double>(c.alone) : 1, 1),
         fmt::format("within 5 % of the recorded duration that each was fitted to, of the {} that overlap no other",
                     with_commas(static_cast<double>(c.alone))));
    if (c.occupancy_compared > 0) {
      tile(first + "Occupancy check",
           c.occupancy_mismatches == 0 ? "all agree" : fmt::format("{} differ", c.occupancy_mismatches),
           fmt::format("{} kernels with a recorded estimate", with_commas(static_cast<double>(c.occupancy_compared))));
    }
    if (!outcome.held_back.empty()) {
      const replay::HeldBack& held = outcome.held_back.front();
      tile(first + "Prediction error", percent_text(held.error_p50, 1),
           fmt::format(
               "median, of {} launches that were held back, from others and what they demand; 95 % are within {}",
               with_commas(static_cast<double>(held.launches)), percent_text(held.error_p95, 1)));
    } else if (c.signature.launches > 0) {
      tile(first + "Prediction error", percent_text(c.signature.error_p50, 1),
           fmt::format("median, of {} launches predicted from others of their signature; 95 % are within {}",
                       with_commas(static_cast<double>(c.signature.launches)), percent_text(c.signature.error_p95, 1)));
    }
  } else {
    tile("Simulated time", time_text(outcome.result.sim_time_ns / 1e3), "until the last event");
  }
  double occupancy = 0;
  double faulted = 0;
  for (const Machine& machine : outcome.machines->gpus) {
    faulted += outcome.stats[machine.instance + ".task.faulted"]["value"].get<double>();
    occupancy += outcome.stats[machine.instance + ".occupancy"]["value"].get<double>();
  }
  tile("Kernels", with_commas(outcome.kernels),
       counted(outcome.ctas, "CTA", "CTAs") +
           (faulted > 0 ? fmt::format("; {} more ended by a fault", counted(faulted, "kernel", "kernels")) : ""));
  tile("Mean occupancy", fmt::format("{:.1f} %", occupancy / static_cast<double>(outcome.machines->gpus.size())),
       "resident warps, of what the SMs can hold");
  return tiles;
}

}  // namespace

json launched_of(const workload::Workload& workload, const replay::JobResult& job) {
  using Sum = LaunchedKernels::Sum;
  const LaunchedKernels& launched = job.observation->launched;
  const auto name_of = [&](std::uint32_t task) {
    const std::size_t operation = job.operation_of(task);
    return operation < workload.ops.size() ? workload.ops[operation].kernel.name : std::string();
  };
  std::map<std::tuple<std::uint32_t, std::string, std::string>, Sum> rows;
  for (const auto& [task, saves] : launched.host_saves()) rows[{0, name_of(task), {}}].saves += saves;
  for (const auto& [key, sum] : launched.sums()) {
    Sum& row = rows[{key.depth, key.name, key.parent_task ? name_of(*key.parent_task) : key.parent}];
    row.tasks += sum.tasks;
    row.started += sum.started;
    row.faulted += sum.faulted;
    row.false_dependencies += sum.false_dependencies;
    row.saves += sum.saves;
    row.waited += sum.waited;
    row.ran += sum.ran;
    row.parents += sum.parents;
    row.completed += sum.completed;
  }
  if (rows.empty()) return nullptr;
  json list = json::array();
  for (const auto& [key, sum] : rows) {
    const auto& [depth, name, parent] = key;
    const auto mean_us = [&job](std::uint64_t cycles, std::uint64_t of) {
      if (of == 0) return json();
      return json(rounded(static_cast<double>(cycles) / static_cast<double>(of) * job.cycle_ns / 1e3, 0.0001));
    };
    list.push_back({{"name", name},
                    {"parent", parent},
                    {"depth", depth},
                    {"tasks", sum.tasks},
                    {"ended", sum.started},
                    {"faulted", sum.faulted},
                    {"mean_wait_us", mean_us(sum.waited, sum.started)},
                    {"mean_us", mean_us(sum.ran, sum.started)},
                    {"mean_below_us", mean_us(sum.completed, sum.parents)},
                    {"false_dependencies", sum.false_dependencies},
                    {"saves", sum.saves}});
  }
  return list;
}

json report_data(const RunOutcome& outcome) {
  json data = {{"schema", 1}, {"command", outcome.options->command_line}, {"highlights", highlights_of(outcome)}};
  std::string machines;
  for (const Machine& m : outcome.machines->gpus) {
    if (machines.find(m.preset) == std::string::npos) machines += (machines.empty() ? "" : ", ") + m.preset;
  }
  data["title"] = fmt::format("{} on {}", title_of(*outcome.inputs), machines);
  if (outcome.inputs->scenario) data["description"] = outcome.inputs->scenario->description;
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
  if (!outcome.complete()) {
    data["stopped"] = {{"what", outcome.result.partial ? "Partial" : "No progress"},
                       {"how", outcome.result.stopped},
                       {"expected", outcome.wants_no_progress() && !outcome.result.partial},
                       {"waits", told(outcome.result.waits)}};
  }
  data["warnings"] = outcome.warnings;
  data["expectations"] = json::array();
  for (const ExpectationResult& e : outcome.expectations) {
    data["expectations"].push_back({{"text", e.text}, {"ok", e.ok}, {"actual", e.actual}});
  }
  return data;
}

}  // namespace heddle::cli
