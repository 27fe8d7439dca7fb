// Named ranges of a recorded program (INP-17), by the operations that were launched in them: when these ran on the
// recorded machine, and when in this run.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/run_outcome.h"
#include "common/observation.h"

namespace heddle::cli {

// The recordings name some.
bool has_ranges(const RunOutcome& outcome);

// ranges.csv: a row for each range of the recordings with operations that ran, in the order of their begin. Throws
// InputError if it cannot be written.
void write_ranges(const RunOutcome& outcome, const std::string& path);

// A row for each name within its outer ones, in the order of first begins; null if there is none. As
// report/report_page.h describes it.
constexpr std::size_t kRangeRows = 100;  // on the page
nlohmann::json ranges_of(const RunOutcome& outcome, std::size_t gpu);

// Lines of the timeline: each range from the start of its first operation to the end of its last.
void draw_ranges(const RunOutcome& outcome, TimelineSink& timeline);

}  // namespace heddle::cli
