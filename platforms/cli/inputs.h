// What a run is given: a scenario, or recorded traces.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenario/scenario.h"
#include "workload/workload.h"

namespace heddle::cli {

struct Inputs {
  std::string name;                            // of the run: of the scenario, or of the first file
  std::vector<workload::Workload> workloads;   // one per GPU
  std::optional<scenario::Scenario> scenario;  // absent: recordings
  bool recorded() const { return !scenario; }
};

// Recognises files by their content. Throws InputError.
Inputs load_inputs(const std::vector<std::string>& files, std::optional<int> device);

}  // namespace heddle::cli
