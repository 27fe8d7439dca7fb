// What the page shows of a GPU's memory and of its faults.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/run_outcome.h"

namespace heddle::cli {

// Sums of the statistics of SMs, L2 slices and HBM, beside what the machine could do in the time in which kernels with
// programs ran; null if none did. As report/report_page.h describes it.
nlohmann::json memory_of(const RunOutcome& outcome, std::size_t gpu);

// One row per fault; null if there is none.
nlohmann::json faults_of(const RunOutcome& outcome, std::size_t gpu);

}  // namespace heddle::cli
