// What a replay with demands leans on, and what its kernels demand: lines of the summary, statistics, a table.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/run_outcome.h"
#include "common/stats.h"
#include "replay/prediction.h"

namespace heddle::cli {

// Of one GPU of a run of recordings: where demands come from, how many kernels lean on which of the machine's peaks,
// and which changed parameters cannot change the result, because no kernel of the run asks for what they set. Empty for
// a scenario.
std::vector<std::pair<std::string, std::string>> demand_lines(const RunOutcome& outcome, std::size_t gpu);

// Below `prefix` ("replay", "gpu0.replay").
void publish_demands(const demand::Coverage& coverage, const std::string& prefix, Stats& stats);

// demands.csv: a row for each kernel with a demand: where it comes from, the amounts of a CTA, what limits it, and what
// remains unexplained. Throws InputError if it cannot be written.
void write_demands(const RunOutcome& outcome, const std::string& path);

}  // namespace heddle::cli
