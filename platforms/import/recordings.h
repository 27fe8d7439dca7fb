// Recordings of profilers as workloads: INP-01 to INP-07, INP-10 to INP-14.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/workload.h"

namespace heddle::import {

// Recorded Kineto traces (PyTorch profiler, CUDA and ROCm).
//
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
std::vector<workload::Workload> import_kineto(const std::string& path);

// The same from a stream of plain JSON; `name` stands for the file in messages and in Workload::name.
std::vector<workload::Workload> import_kineto(std::istream& stream, const std::string& name);

// Recordings of Nsight Systems, exported to SQLite.
//
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
// settled as for Kineto (above, and dependencies.h). Without TARGET_INFO_GPU the device is unknown: no name, no SMs.
std::vector<workload::Workload> import_nsys(const std::string& path);

// The same from the bytes of a database, not packed; `name` stands for the file in messages and in Workload::name.
std::vector<workload::Workload> import_nsys(std::istream& stream, const std::string& name);

// Kernel traces of AMD's rocprofv3 (CSV).
//
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
std::vector<workload::Workload> import_rocprof(const std::string& path);

// The same from a stream of plain text; `name` stands for the file in messages and in Workload::name.
std::vector<workload::Workload> import_rocprof(std::istream& stream, const std::string& name);

// Clusters of kernels whose recording has none, from their names (INP-14).
//
// The extents of a cluster that a kernel's name tells, in CTAs; nothing if it tells none, or one of a single CTA.
//  - Names of CUTLASS's library (its generator's names, "cutlass3x_sm90_..._128x128x64_2x1x1_..."): the three extents
//    behind the tile's.
//  - CUTLASS's template names: the shape behind the stages of MainloopSm90TmaGmma...<4, cute::tuple<cute::C<2>, ...>>.
//  - Names with a word for it: "cga2x1x1", "cgasize2x1x1", "clustersize2x1x1", "cluster_shape_2x1x1".
//  - cuBLAS's "nvjet_..._64x4_2x1_...": so many CTAs along x. This is no public documentation, but what a recording
//  with
//    clusters shows: names with 2x1 and with 1x2 both have clusters of (2, 1, 1), names with 1x1 none.
std::optional<arch::Dim3> cluster_in_name(std::string_view name);

// Gives kernels without a cluster the GPC_CGA that their names tell, in multicast mode, where it has at most 16 CTAs
// and divides the grid; marks them (Op::cluster_guessed) and says how many there are. Leaves recordings alone that know
// clusters (format "nsys"), and machines with warps of 64.
void guess_clusters(workload::Workload& workload);

// Communication between GPUs (INP-15).
//
// True for kernels of NCCL and RCCL, by their names ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)").
bool communicates(std::string_view kernel);
// The collective that such a name tells, or PyTorch's name of one ("allreduce", "_allgather_base",
// "reduce_scatter_tensor_coalesced"); nothing if it tells none, or another ("ncclDevKernel_SendRecv(...)").
std::optional<workload::Collective> collective_in_name(std::string_view name);
// Bytes of an element of PyTorch's type of that name ("BFloat16"); 0: of no known type.
std::uint64_t element_bytes(std::string_view type);
// Marks kernels that communicate (Op::communication) where nothing but their names says so.
void note_communication(workload::Workload& workload);

}  // namespace heddle::import
