// Recorded Kineto traces (PyTorch profiler, CUDA and ROCm) as workloads: INP-01 to INP-04, INP-06, INP-07, INP-10,
// INP-11.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "scenario/workload.h"

namespace heddle::workload {

// True where the file, plain or gzip, begins like a JSON object: `{` and a quoted key. That is all that can be told
// without reading the file to its end, because "traceEvents" may be its last key; import_kineto() refuses a JSON file
// that is not a trace. Throws InputError where the file cannot be read.
bool looks_like_kineto(const std::string& path);

// Reads a trace: one workload per device that has GPU operations, in order of the device number (INP-06). All or
// nothing (INP-07): what is malformed, truncated, out of range or without a single kernel throws InputError with file,
// byte position or event, reason and remedy. Memory is proportional to the GPU operations and host calls kept, not to
// the file.
//
// What a recording leaves open is settled as follows, and counted in Workload::warnings:
//  - an operation without launch call has no enqueue time and starts at its recorded start at the earliest (INP-03);
//  - a kernel without grid gets one CTA of 256 threads per SM of the recorded machine (INP-04);
//  - a start that neither host, stream nor recorded wait explains is explained by dependencies.h.
std::vector<Workload> import_kineto(const std::string& path);

// The same from a stream of plain JSON; `name` stands for the file in messages and in Workload::name.
std::vector<Workload> import_kineto(std::istream& stream, const std::string& name);

}  // namespace heddle::workload
