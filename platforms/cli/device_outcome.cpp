#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "cli/run_outcome.h"
#include "scenario/memory_region.h"

namespace heddle::cli {
namespace {

using scenario::Expectation;
using scenario::ExpectationKind;
using workload::MemoryRegion;

namespace fs = std::filesystem;

// `index`: of the fault, among those of the GPU.
std::string kernel_of(const RunOutcome& outcome, std::size_t gpu, std::size_t index) {
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
          "choose a file in a directory that exists; relative names are of the results folder"};
}

bool is_result(const fs::path& path, const fs::path& folder) {
  constexpr std::array<const char*, 7> kResults{"stats.json", "report.html",      "host.json",  "config.yaml",
                                                "ctas.csv",   "timeline.json.gz", "packets.csv"};
  return std::any_of(kResults.begin(), kResults.end(), [&](const char* name) { return path == folder / name; });
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

void check_region_files(const Inputs& inputs, const std::string& folder) {
  std::map<fs::path, std::string> regions;  // whose file it is
  std::error_code ignored;
  const fs::path results = fs::weakly_canonical(folder, ignored);
  for (const workload::Workload& workload : inputs.workloads) {
    for (const MemoryRegion& region : workload.memory) {
      if (!region.write) continue;
      const fs::path path = file_of(region, folder);
      if (!can_be_written(path)) throw not_writable(region, path);
      const fs::path place = fs::weakly_canonical(path, ignored);
      if (is_result(place, results)) {
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
  result.actual = outcome.result.progress
                      ? "the run has completed"
                      : fmt::format("the chain of waits is: {}", fmt::join(outcome.result.waits, "; "));
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
      const std::string& kernel = kernel_of(outcome, i, f);
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
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));  // NOLINT
      file.close();
      if (!file) throw not_writable(regions[r], path);
    }
  }
}

}  // namespace heddle::cli
