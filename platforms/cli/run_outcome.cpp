#include "cli/run_outcome.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "cli/demand_report.h"
#include "cli/kernel_use.h"
#include "cli/results_folder.h"
#include "common/error.h"
#include "scenario/memory_region.h"

namespace heddle::cli {

namespace fs = std::filesystem;
using scenario::Expectation;
using scenario::ExpectationKind;
using workload::MemoryRegion;

namespace {

constexpr int kSchema = 1;

void merge(nlohmann::json& into, const nlohmann::json& from) { into.insert(from.begin(), from.end()); }

// What is known of a fault: a CGA's has a trap record in place of warp, lane and step (CGA-08).
nlohmann::json json_of(const Fault& fault, const std::string& instance) {
  const arch::FaultRecord& record = fault.record;
  nlohmann::json result = {{"gpu", instance},           {"kind", arch::fault_key(record.kind)},
                           {"kernel", fault.kernel},    {"operation", record.task},
                           {"address", record.address}, {"cycle", record.cycle},
                           {"text", fault.text},        {"expected", fault.expected},
                           {"fatal", record.fatal}};
  if (!record.of_tasks) merge(result, {{"sm", record.sm}, {"cta", record.cta}});
  if (record.kind == arch::FaultKind::tensor) result["rule"] = arch::rule_key(record.rule);
  if (record.kind == arch::FaultKind::unmapped || record.kind == arch::FaultKind::read_only) {
    merge(result, {{"subcontext", record.subcontext}, {"access", record.write ? "write" : "read"}});
  }
  if (record.of_cga) {
    result["trap"] = {{"gpc", record.gpc},
                      {"gpc_local_cga_id", record.gpc_local_cga_id},
                      {"cga", record.cga},
                      {"cta_id_in_cga", record.cta_id_in_cga},
                      {"target", record.target}};
  } else if (!record.of_tasks) {
    merge(result, {{"warp", record.warp}, {"lane", record.lane}, {"step", arch::op_name(record.operation)}});
  }
  return result;
}

// `index`: of the fault, among those of the GPU.
std::string faulted_kernel(const RunOutcome& outcome, std::size_t gpu, std::size_t index) {
  const replay::JobResult& job = outcome.result.jobs[gpu];
  if (!job.fault_kernels[index].empty()) return job.fault_kernels[index];
  const std::vector<workload::Op>& ops = outcome.inputs->workloads[gpu].ops;
  const std::size_t operation = job.faults[index].task;
  return operation < ops.size() ? ops[operation].kernel.name : "no task that is known";
}

bool matches(const Expectation& expectation, const std::string& kernel, const arch::FaultRecord& fault) {
  return expectation.kind == ExpectationKind::fault && expectation.fault == fault.kind &&
         expectation.kernel == kernel && expectation.cluster.value_or(fault.cga) == fault.cga &&
         expectation.rank.value_or(fault.cta_id_in_cga) == fault.cta_id_in_cga &&
         expectation.rule.value_or(fault.rule) == fault.rule &&
         expectation.subcontext.value_or(fault.subcontext) == fault.subcontext &&
         expectation.address.value_or(fault.address) == fault.address;
}

bool is_expected(const RunOutcome& outcome, const std::string& kernel, const arch::FaultRecord& fault) {
  if (!outcome.inputs->scenario) return false;
  for (const Expectation& expectation : outcome.inputs->scenario->expectations) {
    if (matches(expectation, kernel, fault)) return true;
  }
  return false;
}

ExpectationResult check_fault(const RunOutcome& outcome, const Expectation& expectation) {
  ExpectationResult result;
  result.text = fmt::format("fault {} {}", arch::fault_key(expectation.fault), expectation.text());
  result.actual = "there is no such fault";
  for (const Fault& fault : outcome.faults) {
    if (!matches(expectation, fault.kernel, fault.record)) continue;
    result.ok = true;
    result.actual = fault.text;
    break;
  }
  return result;
}

fs::path file_of(const MemoryRegion& region, const std::string& folder) { return fs::path(folder) / *region.write; }

InputError not_writable(const MemoryRegion& region, const fs::path& path) {
  return {region.where, fmt::format("region {}: {} cannot be written", region.name, path.string()),
          "choose a file in a directory that exists; names are of the results folder"};
}

// Empty files stay empty, and what an earlier run has left stays as it is.
bool can_be_written(const fs::path& path) {
  std::error_code ignored;
  const bool there = fs::exists(path, ignored);
  const bool good = std::ofstream(path, std::ios::binary | std::ios::app).good();
  if (good && !there) fs::remove(path, ignored);
  return good;
}

}  // namespace

RunOutcome::Change RunOutcome::change_of(std::size_t gpu) const {
  const auto span_and_time = [&](const std::vector<replay::OpResult>& results) {
    double begin = 1e300, end = -1e300, kernel_time = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].done) continue;
      begin = std::min(begin, results[i].start);
      end = std::max(end, results[i].end);
      if (inputs->workloads[gpu].ops[i].kind == workload::OpKind::kernel)
        kernel_time += results[i].end - results[i].start;
    }
    return std::pair<double, double>(end > begin ? end - begin : 0, kernel_time);
  };
  const auto [span, time] = span_and_time(result.jobs[gpu].results);
  const auto [reference_span, reference_time] = span_and_time(baseline[gpu]);
  if (reference_span <= 0 || reference_time <= 0) return {};
  return {span / reference_span, time / reference_time, reference_span / 1e3};
}

void publish_run(const replay::SimulationResult& result, Stats& stats) {
  stats.gauge("sim.time", "us", "simulated time of the last event").set(result.sim_time_ns / 1e3);
  stats.counter("sim.events", "events", "events of all clock domains").add(result.events);
}

void publish_job(const std::string& instance, const replay::JobResult& job, Stats& stats) {
  stats.counter(instance + ".faults", "faults", "operations that could not be carried out").add(job.faults.size());
  stats.gauge(instance + ".occupancy", "%", "resident warps of what all SMs can hold, mean until the last CTA ended")
      .set(100 * job.observation->load_map.mean());
  publish_launch(instance, stats);
  if (job.by_packets) publish_packets(instance, job, stats);
}

void collect_stats(RunOutcome& outcome) {
  Stats run;
  publish_run(outcome.result, run);
  if (!outcome.comparisons.empty()) {
    const bool judged = !mixes_predictions(outcome);
    replay::publish(replay::combine(outcome.comparisons), "replay", run, judged);
    if (outcome.what_if()) replay::publish(replay::combine(outcome.fidelity), "replay.recorded_machine", run);
    if (outcome.comparisons.size() > 1) {
      for (std::size_t i = 0; i < outcome.comparisons.size(); ++i) {
        replay::publish(outcome.comparisons[i], outcome.machines->gpus[i].instance + ".replay", run, judged);
      }
    }
  }
  for (std::size_t i = 0; i < outcome.demands.size(); ++i) {
    const std::string instance = outcome.demands.size() > 1 ? outcome.machines->gpus[i].instance + "." : "";
    const replay::RecordedDemands& demands = *outcome.demands[i];
    publish_demands(demand::coverage_of(demands.workload(), demands.demands()), instance + "replay", run);
  }
  outcome.stats = run.to_json();
  outcome.histograms = nlohmann::json::object();
  if (outcome.result.links) merge(outcome.stats, outcome.result.links->stats.to_json());
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const replay::JobResult& job = outcome.result.jobs[i];
    Stats& stats = job.observation->stats;
    publish_job(outcome.machines->gpus[i].instance, job, stats);
    publish_processes(outcome.machines->gpus[i].instance, outcome.inputs->workloads[i], job, stats);
    merge(outcome.stats, stats.to_json());
    merge(outcome.histograms, stats.histograms_json());
    const std::string prefix = outcome.machines->gpus[i].instance;
    outcome.ctas += outcome.stats[prefix + ".cwd.ctas_launched"]["value"].get<double>();
    outcome.kernels += outcome.stats[prefix + ".task.kernels"]["value"].get<double>();
    for (const replay::OpResult& op : job.results) outcome.rejected += op.rejected ? 1U : 0U;
  }
}

bool RunOutcome::wants_no_progress() const {
  if (!inputs->scenario) return false;
  const std::vector<scenario::Expectation>& wanted = inputs->scenario->expectations;
  return std::any_of(wanted.begin(), wanted.end(),
                     [](const scenario::Expectation& e) { return e.kind == scenario::ExpectationKind::no_progress; });
}

namespace {

// Null, and an error to be told at the end, if the run has no such statistic.
const nlohmann::json* find_statistic(RunOutcome& outcome, const std::string& path, const SourcePos& where) {
  const auto found = outcome.stats.find(path);
  if (found != outcome.stats.end()) return &*found;
  std::vector<std::string> names;
  for (const auto& item : outcome.stats.items()) names.push_back(item.key());
  const std::string near = nearest(path, names);
  if (!outcome.unknown_statistic) {
    outcome.unknown_statistic = InputError(where, fmt::format("this run has no statistic '{}'", path),
                                           near.empty() ? "stats.json lists them" : "did you mean " + near + "?");
  }
  return nullptr;
}

// Of the last launch of a kernel, on whatever GPU; NaN if it was never launched.
double time_of(const RunOutcome& outcome, const std::string& kernel) {
  double time = std::nan("");
  for (std::size_t gpu = 0; gpu < outcome.result.jobs.size(); ++gpu) {
    const std::vector<workload::Op>& ops = outcome.inputs->workloads[gpu].ops;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].kind != workload::OpKind::kernel || ops[i].kernel.name != kernel) continue;
      time = outcome.result.jobs[gpu].results[i].end - outcome.result.jobs[gpu].results[i].start;
    }
  }
  return time;
}

double input_of(RunOutcome& outcome, const scenario::FigureInput& input) {
  if (input.clock) return outcome.machines->gpus[input.gpu].params.machine.clock;
  if (!input.kernel.empty()) return time_of(outcome, input.kernel);
  if (!input.stat.empty()) {
    const nlohmann::json* found = find_statistic(outcome, input.stat, input.where);
    return found == nullptr ? std::nan("") : (*found)["value"].get<double>();
  }
  const std::vector<MemoryRegion>& regions = outcome.inputs->workloads[input.gpu].memory;
  const auto region =
      std::find_if(regions.begin(), regions.end(), [&](const MemoryRegion& one) { return one.name == input.memory; });
  HEDDLE_CHECK(region != regions.end(), "a figure's region is one of the scenario's");
  return scenario::taken(input, outcome.result.jobs[input.gpu].regions[region - regions.begin()]);
}

}  // namespace

void measure_figures(RunOutcome& outcome) {
  if (!outcome.inputs->scenario) return;
  for (const scenario::Figure& figure : outcome.inputs->scenario->figures) {
    const double value =
        scenario::value_of(figure, [&](const scenario::FigureInput& input) { return input_of(outcome, input); });
    outcome.figures.push_back({&figure, value});
  }
}

void check_expectations(RunOutcome& outcome) {
  if (!outcome.inputs->scenario) return;
  for (const scenario::Expectation& expectation : outcome.inputs->scenario->expectations) {
    if (expectation.kind != scenario::ExpectationKind::statistic) {
      outcome.expectations.push_back(check_device(outcome, expectation));
      continue;
    }
    ExpectationResult result;
    result.text = fmt::format("{} {}", expectation.stat, expectation.text());
    const nlohmann::json* found = find_statistic(outcome, expectation.stat, expectation.where);
    if (found == nullptr) {
      result.actual = "there is no such statistic";
      outcome.expectations.push_back(std::move(result));
      continue;
    }
    const double value = (*found)["value"].get<double>();
    result.is_value = true;
    result.actual = fmt::format("{} {}", value, (*found)["unit"].get<std::string>());
    result.ok = expectation.holds(value);
    outcome.expectations.push_back(std::move(result));
  }
}

void write_text(const std::string& text, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw InputError({path, 0, 0}, "cannot be written", "choose another place for it, or free the disk");
}

// No wall-clock time in here, nor anything else that differs between two runs of the same input and seed.
void write_stats(const RunOutcome& outcome, const std::string& path) {
  nlohmann::json document = {{"schema", kSchema},      {"input", outcome.inputs->name},
                             {"seed", outcome.seed},   {"completed", outcome.complete()},
                             {"stats", outcome.stats}, {"histograms", outcome.histograms}};
  document["name"] = title_of(*outcome.inputs);
  document["partial"] = outcome.result.partial;
  if (!outcome.complete()) document["stopped"] = outcome.result.stopped;
  if (!outcome.result.progress) document["waits"] = told(outcome.result.waits);
  for (std::size_t i = 0; i < outcome.machines->gpus.size(); ++i) {
    const Machine& machine = outcome.machines->gpus[i];
    document["gpus"].push_back({{"instance", machine.instance},
                                {"preset", machine.preset},
                                {"timing", gpu::name_of(machine.params.machine.timing)},
                                {"sms", machine.params.machine.shape.sms()},
                                {"shape", machine.params.machine.shape.text()}});
    nlohmann::json clusters = cluster_stats_of(*outcome.workloads[i], outcome.result.jobs[i]);
    if (!clusters.is_null()) document["gpus"].back()["clusters"] = std::move(clusters);
    nlohmann::json bulk = bulk_stats_of(outcome.inputs->workloads[i], outcome.result.jobs[i]);
    if (!bulk.is_null()) document["gpus"].back()["bulk"] = std::move(bulk);
    nlohmann::json packets = packet_stats_of(outcome.inputs->workloads[i], outcome.result.jobs[i]);
    if (!packets.is_null()) document["gpus"].back()["packets"] = std::move(packets);
    nlohmann::json launched = launched_of(outcome.inputs->workloads[i], outcome.result.jobs[i]);
    if (!launched.is_null()) document["gpus"].back()["launched"] = std::move(launched);
    nlohmann::json idle = idle_stats_of(outcome.inputs->workloads[i], outcome.result.jobs[i]);
    if (!idle.is_null()) document["gpus"].back()["idle"] = std::move(idle);
    nlohmann::json use = use_stats_of(outcome, i);
    if (!use.is_null()) document["gpus"].back()["use"] = std::move(use);
  }
  document["faults"] = nlohmann::json::array();
  for (const Fault& fault : outcome.faults) {
    document["faults"].push_back(json_of(fault, outcome.machines->gpus[fault.gpu].instance));
  }
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    if (!outcome.result.jobs[i].checks_races) continue;
    nlohmann::json& races = document["gpus"][i]["races"] = nlohmann::json::array();
    for (const arch::Race& race : outcome.result.jobs[i].races) races.push_back(race.text());
  }
  for (const FigureResult& result : outcome.figures) {
    nlohmann::json entry = {{"name", result.figure->name}, {"unit", result.figure->unit}};
    entry["value"] = std::isfinite(result.value) ? nlohmann::json(result.value) : nlohmann::json();
    if (result.figure->measured) entry["measured"] = *result.figure->measured;
    if (!result.figure->source.empty()) entry["source"] = result.figure->source;
    document["figures"].push_back(std::move(entry));
  }
  document["expectations"] = nlohmann::json::array();
  for (const ExpectationResult& e : outcome.expectations) {
    document["expectations"].push_back({{"text", e.text}, {"actual", e.actual}, {"ok", e.ok}});
  }
  write_text(document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", path);
}

void write_host(const RunOutcome& outcome, const ResultsFolder& folder, double total_seconds) {
  const replay::SimulationResult& r = outcome.result;
  const double wall = std::max(r.wall_seconds, 1e-9);
  const nlohmann::json document = {{"schema", kSchema},
                                   {"version", HEDDLE_VERSION},
                                   {"command", outcome.options->command_line},
                                   {"state", "ended"},
                                   {"files", folder.more()},
                                   {"seconds_total", total_seconds},
                                   {"seconds_elaboration", r.elaboration_seconds},
                                   {"seconds_simulation", r.wall_seconds},
                                   {"events_per_second", static_cast<double>(r.events) / wall},
                                   {"ctas_per_second", outcome.ctas / wall},
                                   {"systemc_wakeups", r.wakeups}};
  write_text(document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", folder.file("host.json"));
}

std::string with_commas(double count) {
  std::string digits = fmt::format("{:.0f}", count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string counted(double count, const std::string& singular, const std::string& plural) {
  return with_commas(count) + " " + (count == 1 ? singular : plural);
}

std::string time_text(double us) {
  if (us < 1) return fmt::format("{:.1f} ns", us * 1e3);
  if (us < 1e3) return fmt::format("{:.2f} us", us);
  if (us < 1e6) return fmt::format("{:.3f} ms", us / 1e3);
  return fmt::format("{:.4f} s", us / 1e6);
}

std::string percent_text(double share, int digits) { return fmt::format("{:.{}f} %", 100 * share, digits); }

void check_region_files(const Inputs& inputs, const std::string& folder) {
  std::map<fs::path, std::string> regions;  // whose file it is
  std::error_code ignored;
  const fs::path results = fs::weakly_canonical(folder, ignored);
  for (const workload::Workload& workload : inputs.workloads) {
    for (const MemoryRegion& region : workload.memory) {
      if (!region.write) continue;
      const fs::path path = file_of(region, folder);
      if (!lies_within(results, *region.write)) {
        throw InputError(region.where,
                         fmt::format("region {}: {} lies outside of the results folder", region.name, *region.write),
                         "write below it; --out DIR chooses it");
      }
      if (!can_be_written(path)) throw not_writable(region, path);
      const fs::path place = fs::weakly_canonical(path, ignored);
      if (place.parent_path() == results && ResultsFolder::is_result(place.filename().string())) {
        throw InputError(region.where,
                         fmt::format("region {}: {} is a file of the results itself", region.name, path.string()),
                         "choose another name");
      }
      const auto [other, fresh] = regions.emplace(place, region.name);
      if (!fresh) {
        throw InputError(
            region.where,
            fmt::format("region {}: region {} is written to {} already", region.name, other->second, path.string()),
            "choose another name");
      }
    }
  }
}

ExpectationResult check_no_progress(const RunOutcome& outcome, const Expectation& expectation) {
  ExpectationResult result;
  result.text = "no progress " + expectation.text();
  result.ok = !outcome.result.progress && expectation.holds(outcome.result.waits);
  result.actual = outcome.result.partial ? "the run was stopped"
                  : outcome.result.progress
                      ? "the run has completed"
                      : fmt::format("the chain of waits is: {}", fmt::join(told(outcome.result.waits), "; "));
  return result;
}

ExpectationResult check_device(const RunOutcome& outcome, const Expectation& expectation) {
  if (expectation.kind == ExpectationKind::no_progress) return check_no_progress(outcome, expectation);
  if (expectation.kind == ExpectationKind::fault) return check_fault(outcome, expectation);
  ExpectationResult result;
  result.text = fmt::format("memory {} {}", expectation.memory, expectation.text());
  const std::vector<MemoryRegion>& regions = outcome.inputs->workloads[expectation.gpu].memory;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    if (regions[r].name != expectation.memory) continue;
    result.actual = scenario::difference(expectation, outcome.result.jobs[expectation.gpu].regions[r]);
    result.ok = result.actual.empty();
    if (result.ok) result.actual = "the same";
  }
  return result;
}

void collect_faults(RunOutcome& outcome) {
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const replay::JobResult& job = outcome.result.jobs[i];
    const std::string& instance = outcome.machines->gpus[i].instance;
    for (std::size_t f = 0; f < job.faults.size(); ++f) {
      const arch::FaultRecord& fault = job.faults[f];
      const std::string& kernel = faulted_kernel(outcome, i, f);
      outcome.faults.push_back({i, fault, kernel, fmt::format("{}, kernel {}: {}", instance, kernel, text_of(fault)),
                                is_expected(outcome, kernel, fault)});
    }
  }
}

void write_regions(const RunOutcome& outcome, const std::string& folder) {
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const std::vector<MemoryRegion>& regions = outcome.inputs->workloads[i].memory;
    for (std::size_t r = 0; r < regions.size(); ++r) {
      if (!regions[r].write) continue;
      const fs::path path = file_of(regions[r], folder);
      const std::vector<std::uint8_t>& bytes = outcome.result.jobs[i].regions[r];
      std::ofstream file(path, std::ios::binary);
      // Bytes and characters are the same thing to a file.
      // NOLINTNEXTLINE(*-reinterpret-cast): a stream takes characters
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      file.close();
      if (!file) throw not_writable(regions[r], path);
    }
  }
}

}  // namespace heddle::cli
