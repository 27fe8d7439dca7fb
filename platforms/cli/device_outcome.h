// What a run leaves in its device: faults, and the bytes of memory regions.
#pragma once

#include <string>

#include "cli/run_outcome.h"

namespace heddle::cli {

// Faults of all GPUs into `outcome`, as statistics and as text, and which of them the scenario expects.
void collect_faults(RunOutcome& outcome);

// The result of an expectation that concerns memory or faults.
ExpectationResult check_device(const RunOutcome& outcome, const scenario::Expectation& expectation);

// Before the run: that every file that a region asks for can be written into. Throws InputError if not, or if two
// regions, or a region and the results, have the same.
void check_region_files(const Inputs& inputs, const std::string& folder);

// Writes the regions into their files; relative names are of the results folder. Throws InputError if one cannot be
// written.
void write_regions(const RunOutcome& outcome, const std::string& folder);

}  // namespace heddle::cli
