// What a run leaves in its device: faults, and the bytes of memory regions.
#pragma once

#include <string>

#include "cli/run_outcome.h"

namespace heddle::cli {

// Faults of all GPUs into `outcome`, as statistics and as text, and which of them the scenario expects.
void collect_faults(RunOutcome& outcome);

// The result of an expectation that concerns memory or faults.
ExpectationResult check_device(const RunOutcome& outcome, const workload::Expectation& expectation);

// Writes the regions that ask for it into files; relative names are of the results folder. Throws InputError if one
// cannot be written.
void write_regions(const RunOutcome& outcome, const std::string& folder);

}  // namespace heddle::cli
