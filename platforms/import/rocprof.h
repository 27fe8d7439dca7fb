// Kernel traces of AMD's rocprofv3 (CSV) as workloads: INP-04, INP-06, INP-07, INP-10.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "scenario/workload.h"

namespace heddle::workload {

// True where the first line of the file, plain or gzip, names columns of rocprofv3; import_rocprof() refuses one that
// is no kernel trace. Throws InputError where the file cannot be read.
bool looks_like_rocprof(const std::string& path);

// Reads a kernel trace (`rocprofv3 --kernel-trace --output-format csv`): one workload per agent, in order of its number
// (INP-06). Columns are found by their names, in any order. All or nothing (INP-07): what is malformed, cut off, out of
// range or without a kernel throws InputError with file, line, reason and remedy.
//
// Queues become streams; Grid_Size counts work-items (INP-04); registers are the vector registers of both kinds. Such a
// trace knows neither host calls nor waits between queues nor the device: every kernel starts at its recorded start at
// the earliest (INP-03), and the machine has to be chosen. The stream gap is the lower quartile of the gaps in queues.
std::vector<Workload> import_rocprof(const std::string& path);

// The same from a stream of plain text; `name` stands for the file in messages and in Workload::name.
std::vector<Workload> import_rocprof(std::istream& stream, const std::string& name);

}  // namespace heddle::workload
