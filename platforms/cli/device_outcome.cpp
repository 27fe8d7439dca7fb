#include "cli/device_outcome.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace heddle::cli {

void collect_faults(RunOutcome& outcome) {
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const replay::JobResult& job = outcome.result.jobs[i];
    const std::string& instance = outcome.machines->gpus[i].instance;
    job.observation->stats.counter(instance + ".faults", "faults", "operations that could not be carried out")
        .add(job.faults.size());
    for (const arch::FaultRecord& fault : job.faults) {
      const workload::Op& op = outcome.inputs->workloads[i].ops[fault.task];
      outcome.faults.push_back(
          {i, fault, fmt::format("{}, kernel {}: {}", instance, op.kernel.name, text_of(fault)), false});
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
