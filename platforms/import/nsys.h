// Recordings of Nsight Systems, exported to SQLite, as workloads: INP-05 to INP-07, INP-10, INP-11.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "scenario/workload.h"

namespace heddle::workload {

// True where the file, plain or gzip, is a SQLite database; import_nsys() refuses one that is no export. Throws
// InputError where the file cannot be read.
bool looks_like_nsys(const std::string& path);

// Reads an export of schema 3.x (`nsys export --type sqlite`): one workload per device that has GPU operations, in
// order of the device number (INP-06). All or nothing (INP-07): what is malformed, truncated, out of range or without
// a single kernel throws InputError with file, table, row, reason and remedy. Nothing is written, neither into the file
// nor beside it; what is packed is unpacked into memory.
//
// A kernel's cluster becomes a GPC_CGA: in load-balancing mode for the scheduling policy of that name, in multicast
// mode for the default and the spread policy. Kernels of one stream may overlap. What a recording leaves open is
// settled as for Kineto (kineto.h, dependencies.h). Without TARGET_INFO_GPU the device is unknown: no name, no SMs.
std::vector<Workload> import_nsys(const std::string& path);

// The same from the bytes of a database, not packed; `name` stands for the file in messages and in Workload::name.
std::vector<Workload> import_nsys(std::istream& stream, const std::string& name);

}  // namespace heddle::workload
