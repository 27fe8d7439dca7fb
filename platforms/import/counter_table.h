// Counters of kernels, as Nsight Compute and rocprofv3 write them: what a kernel's demands are made of.
//
// Both readers follow the documented columns and counters; neither has been tried on a file of a real profiler yet.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "workload/counters.h"

namespace heddle::import {

// Reads a file, plain or gzip, that `ncu --csv` wrote (page details, one row per metric; or page raw, a column per
// metric and a row of units) or `rocprofv3 --pmc … --output-format csv` (…_counter_collection.csv: one row per dispatch
// and counter). Which of them it is follows from its first line; what a profiler says about itself before that
// ("==PROF== …") is passed over. One element for each launch, in the order of the file. Counters that no demand is made
// of are passed over, and those of one launch that count the same thing are taken once.
//
// All or nothing (INP-07): a file that is malformed, cut off, without kernels or without one usable counter throws
// InputError with file, line, reason and remedy.
std::vector<workload::KernelCounters> import_counters(const std::string& path);

// The same from a stream of plain text; `name` stands for the file in messages.
std::vector<workload::KernelCounters> import_counters(std::istream& stream, const std::string& name);

}  // namespace heddle::import
