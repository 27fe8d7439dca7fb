// The table of CTAs among the results of a run: ctas.csv, or ctas.csv.gz where that would be large.
#pragma once

#include <string>
#include <vector>

#include "cli/results_folder.h"
#include "cli/run_outcome.h"
#include "replay/cta_dump.h"

namespace heddle::cli {

// One dump per GPU. Beyond run.ctas_plain_bytes of text the table is compressed, and names its kernels once; the
// outcome then warns of it. Throws InputError if it cannot be written.
void write_ctas(std::vector<replay::CtaDump>& dumps, RunOutcome& outcome, const ResultsFolder& folder);

}  // namespace heddle::cli
