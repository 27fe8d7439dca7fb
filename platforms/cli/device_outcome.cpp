#include "cli/device_outcome.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "workload/memory_region.h"

namespace heddle::cli {
namespace {

using workload::Expectation;
using workload::ExpectationKind;

const std::string& kernel_of(const RunOutcome& outcome, std::size_t gpu, const arch::FaultRecord& fault) {
  return outcome.inputs->workloads[gpu].ops[fault.task].kernel.name;
}

bool matches(const RunOutcome& outcome, const Expectation& expectation, std::size_t gpu,
             const arch::FaultRecord& fault) {
  return expectation.kind == ExpectationKind::fault && expectation.fault == fault.kind &&
         expectation.kernel == kernel_of(outcome, gpu, fault);
}

bool is_expected(const RunOutcome& outcome, std::size_t gpu, const arch::FaultRecord& fault) {
  if (!outcome.inputs->scenario) return false;
  for (const Expectation& expectation : outcome.inputs->scenario->expectations) {
    if (matches(outcome, expectation, gpu, fault)) return true;
  }
  return false;
}

ExpectationResult check_fault(const RunOutcome& outcome, const Expectation& expectation) {
  ExpectationResult result;
  result.text = fmt::format("fault {} {}", arch::fault_key(expectation.fault), expectation.text());
  result.actual = "there is no such fault";
  for (const Fault& fault : outcome.faults) {
    if (!matches(outcome, expectation, fault.gpu, fault.record)) continue;
    result.ok = true;
    result.actual = fault.text;
    break;
  }
  return result;
}

}  // namespace

ExpectationResult check_device(const RunOutcome& outcome, const Expectation& expectation) {
  if (expectation.kind == ExpectationKind::fault) return check_fault(outcome, expectation);
  ExpectationResult result;
  result.text = fmt::format("memory {} {}", expectation.memory, expectation.text());
  const std::vector<workload::MemoryRegion>& regions = outcome.inputs->workloads[expectation.gpu].memory;
  for (std::size_t r = 0; r < regions.size(); ++r) {
    if (regions[r].name != expectation.memory) continue;
    result.actual = workload::difference(expectation, outcome.result.jobs[expectation.gpu].regions[r]);
    result.ok = result.actual.empty();
    if (result.ok) result.actual = "the same";
  }
  return result;
}

void collect_faults(RunOutcome& outcome) {
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const replay::JobResult& job = outcome.result.jobs[i];
    const std::string& instance = outcome.machines->gpus[i].instance;
    job.observation->stats.counter(instance + ".faults", "faults", "operations that could not be carried out")
        .add(job.faults.size());
    for (const arch::FaultRecord& fault : job.faults) {
      outcome.faults.push_back(
          {i, fault, fmt::format("{}, kernel {}: {}", instance, kernel_of(outcome, i, fault), text_of(fault)),
           is_expected(outcome, i, fault)});
    }
  }
}

void write_regions(const RunOutcome& outcome, const std::string& folder) {
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const std::vector<workload::MemoryRegion>& regions = outcome.inputs->workloads[i].memory;
    for (std::size_t r = 0; r < regions.size(); ++r) {
      if (!regions[r].write) continue;
      const std::filesystem::path path = std::filesystem::path(folder) / *regions[r].write;
      const std::vector<std::uint8_t>& bytes = outcome.result.jobs[i].regions[r];
      std::ofstream file(path, std::ios::binary);
      // Bytes and characters are the same thing to a file.
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));  // NOLINT
      file.close();
      if (!file) {
        throw InputError(regions[r].where,
                         fmt::format("region {}: {} cannot be written", regions[r].name, path.string()),
                         "choose a file in a directory that exists; relative names are of the results folder");
      }
    }
  }
}

}  // namespace heddle::cli
