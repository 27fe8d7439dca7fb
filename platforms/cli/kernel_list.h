// Every operation of a run by itself: what it was, when it could have started, when it did, when it ended.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/run_outcome.h"

namespace heddle::cli {

// Of each operation of a GPU: nanoseconds of the workload's axis from which on nothing but the machine held it back: it
// was submitted, and what it waits for had ended, the operation before it in its stream among them.
std::vector<double> ready_times(const RunOutcome& outcome, std::size_t gpu);

// kernels.csv: a row for each kernel, copy and fill that ended, in the order of their submission; behind them those
// that programs launched, in the order of their ends. Throws InputError if it cannot be written.
void write_kernels(const RunOutcome& outcome, const std::string& path);

}  // namespace heddle::cli
