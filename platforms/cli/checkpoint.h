// A checkpoint: what a run has done so far, and what its devices hold, in a folder from where another run goes on
// (docs/checkpoints.md).
//
//   state.json     which operations are done, in ranges, and what time it is, of every GPU; the workloads' digest
//   N.gpuG.state   what Gpu::state() saves of GPU G; not of recordings
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "replay/workload_part.h"
#include "workload/workload.h"

namespace heddle::cli {

struct Checkpoint {
  std::string workloads;            // digest_of_workloads() of the run
  std::vector<replay::OpSet> done;  // by GPU and operation
  std::vector<std::int64_t> times;  // by GPU: ns, workload axis
  std::vector<std::string> states;  // by GPU; none of a recording, which has no memory

  std::size_t operations() const;  // that are done
};

// The checkpoint that lies in `folder`, a results folder or its folder `checkpoint`. Throws InputError if there is
// none, or if a file of it cannot be read.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

// Into the folder `checkpoint` of the results, in place of an earlier one, which is whole until this one is. `number`
// grows from checkpoint to checkpoint of a run. Throws InputError if it cannot be written.
void write_checkpoint(const Checkpoint& checkpoint, std::uint64_t number, const std::filesystem::path& results);

// Tells workloads apart: their operations with streams, shapes and bytes, what these wait for, and their memory regions
// with addresses. Not what kernels do: of a program that was changed meanwhile the devices say so, when their states
// are restored.
std::string digest_of_workloads(const std::vector<workload::Workload>& workloads);

}  // namespace heddle::cli
