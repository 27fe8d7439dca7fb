#include "cli/demand_report.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include <fmt/format.h>

#include "arch/demand.h"
#include "cli/stat_sums.h"
#include "common/error.h"
#include "demand/sources.h"
#include "fluid/fluid_machine.h"
#include "replay/csv_field.h"
#include "replay/idle_parameters.h"

namespace heddle::cli {
namespace {

using arch::DemandUnit;
using Lines = std::vector<std::pair<std::string, std::string>>;

// What the machine has a peak of, and which demands ask for it.
struct Peak {
  const char* name;
  std::vector<DemandUnit> units;
};

const std::vector<Peak>& peaks() {
  static const std::vector<Peak> kPeaks = {
      {"memory", {DemandUnit::dram_read, DemandUnit::dram_write}},
      {"L2", {DemandUnit::l2_read, DemandUnit::l2_write}},
      {"crossbar", {DemandUnit::l2_read, DemandUnit::l2_write}},
      {"shared memory", {DemandUnit::shared, DemandUnit::l2_read}},
      {"tensor cores",
       {DemandUnit::tensor_f16, DemandUnit::tensor_tf32, DemandUnit::tensor_f8, DemandUnit::tensor_f64}},
      {"fp32 units", {DemandUnit::fp32}},
      {"fp64 units", {DemandUnit::fp64}},
      {"integer units", {DemandUnit::int32}},
      {"special-function units", {DemandUnit::sfu}},
  };
  return kPeaks;
}

std::size_t kernels_with(const replay::RecordedDemands* demands, const Peak& peak) {
  if (demands == nullptr) return 0;
  const auto wants = [&peak](const std::optional<demand::KernelDemand>& its) {
    return its && std::any_of(peak.units.begin(), peak.units.end(),
                              [&its](DemandUnit unit) { return its->estimate.cta.of(unit) > 0; });
  };
  const demand::Demands& all = demands->demands();
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), wants));
}

std::string count_text(std::size_t count) { return with_commas(static_cast<double>(count)); }

void add_sources(const replay::RecordedDemands& demands, const std::string& prefix, Lines& lines) {
  const demand::Coverage coverage = demand::coverage_of(demands.workload(), demands.demands());
  std::string text = fmt::format("{} of {} kernels", count_text(coverage.covered()), count_text(coverage.kernels));
  for (std::size_t i = 0; i < demand::kSources; ++i) {
    if (coverage.by_source[i] == 0) continue;
    text += fmt::format(", {} by {}", count_text(coverage.by_source[i]), source_name(static_cast<demand::Source>(i)));
  }
  if (coverage.time > 0) text += fmt::format(": {:.1f} % of their time", 100 * coverage.time_covered / coverage.time);
  lines.emplace_back(prefix + "demands", text + "; fitted to their durations, as the others' CTA durations are");
  std::string leans;
  for (const Peak& peak : peaks()) {
    if (const std::size_t count = kernels_with(&demands, peak); count > 0) {
      leans += fmt::format("{}{} {}", leans.empty() ? "" : ", ", peak.name, count_text(count));
    }
  }
  lines.emplace_back("  kernels that ask for", leans.empty() ? "nothing" : leans);
}

constexpr std::size_t kMostNamed = 12;

std::string names_of(const std::vector<std::string>& paths) {
  std::string text;
  for (std::size_t i = 0; i < std::min(paths.size(), kMostNamed); ++i) text += (i == 0 ? "" : ", ") + paths[i];
  if (paths.size() > kMostNamed) text += fmt::format(" and {} others", count_text(paths.size() - kMostNamed));
  return text;
}

// Copies by engines, and CTAs whose state is saved, go to memory whatever kernels demand.
bool moves_data(const StatSums& sums) {
  return sums.sms("requests") + sums.one("copy.copies") + sums.one("copy.fills") > 0;
}

void add_idle(const RunOutcome& outcome, std::size_t gpu, const std::string& prefix, Lines& lines) {
  const Machine& machine = outcome.machines->gpus[gpu];
  const StatSums sums(outcome, gpu);
  if (!machine.changed || moves_data(sums)) return;
  std::vector<const arch::Demand*> demands;
  std::set<const arch::Demand*> seen;
  for (const workload::Op& op : outcome.workloads[gpu]->ops) {
    const arch::Demand* demand = op.kernel.demand.get();
    if (demand != nullptr && seen.insert(demand).second) demands.push_back(demand);
  }
  const replay::IdleParameters idle = replay::idle_parameters(machine.recorded, machine.params, demands);
  const std::string why = outcome.demands.empty()
                              ? ": CTAs run for fitted durations (--fit demand lets them share units "
                                "and bandwidths)"
                              : ": it changes nothing that demands of this recording read";
  if (!idle.paths.empty()) lines.emplace_back(prefix + "cannot matter", names_of(idle.paths) + why);
  if (idle.front_end.empty()) return;
  const double accesses = sums.slices("requests");
  const std::string but =
      accesses > 0 ? fmt::format("; but {} accesses of the front end itself go there", with_commas(accesses)) : "";
  lines.emplace_back(prefix + "cannot matter", names_of(idle.front_end) + why + but);
}

}  // namespace

Lines demand_lines(const RunOutcome& outcome, std::size_t gpu) {
  Lines lines;
  if (!outcome.inputs->recorded()) return lines;
  const Machine& machine = outcome.machines->gpus[gpu];
  const std::string prefix = outcome.machines->gpus.size() > 1 ? machine.instance + " " : "";
  const replay::RecordedDemands* demands = outcome.demands.empty() ? nullptr : outcome.demands[gpu];
  if (demands != nullptr) add_sources(*demands, prefix, lines);
  add_idle(outcome, gpu, prefix, lines);
  return lines;
}

void publish_demands(const demand::Coverage& coverage, const std::string& prefix, Stats& stats) {
  for (std::size_t i = 0; i < demand::kSources; ++i) {
    stats
        .counter(fmt::format("{}.demands.by_{}", prefix, source_name(static_cast<demand::Source>(i))), "kernels",
                 "kernels whose demand is known, by the best source of it")
        .add(coverage.by_source[i]);
  }
  stats.gauge(prefix + ".demands.time", "%", "recorded time of these kernels, of that of all")
      .set(coverage.time > 0 ? 100 * coverage.time_covered / coverage.time : 0);
}

void write_demands(const RunOutcome& outcome, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << "gpu,op,kernel,source,kind,ctas";
  for (std::size_t unit = 0; unit < arch::kDemandUnits; ++unit) {
    file << ',' << arch::demand_name(static_cast<DemandUnit>(unit));
  }
  file << ",floor_ns,fitted_floor_ns,limit,reached,from_memory,unexplained\n";
  for (std::size_t gpu = 0; gpu < outcome.demands.size(); ++gpu) {
    const replay::RecordedDemands& demands = *outcome.demands[gpu];
    for (std::size_t op = 0; op < demands.demands().size(); ++op) {
      const std::optional<demand::KernelDemand>& its = demands.demands()[op];
      if (!its) continue;
      file << fmt::format("{},{},{},{},{},{:.0f}", outcome.machines->gpus[gpu].instance, op,
                          replay::csv_field(demands.workload().ops[op].kernel.name), source_name(its->source),
                          kind_name(its->estimate.kind), its->estimate.ctas);
      for (const double amount : its->estimate.cta.amounts) file << fmt::format(",{:.6g}", amount);
      const std::size_t limit = demands.limit(op);
      const replay::RecordedDemands::Factor& factor = demands.factor(op);
      file << fmt::format(
          ",{:.6g},{:.6g},{},{:.4g},{:.4g},{:.4g}\n", its->estimate.cta.floor_ns, demands.fitted(op).floor_ns,
          limit < fluid::kResources ? fluid::resource_name(static_cast<fluid::Resource>(limit)) : "floor",
          factor.scale > 0 ? 1 / factor.scale : 0, factor.memory, demands.unexplained(op));
    }
  }
  file.close();
  if (!file) throw InputError({path, 0, 0}, "cannot be written", "choose another with --out DIR, or free the disk");
}

}  // namespace heddle::cli
