// A checkpoint: what a run has done so far, and what its devices hold, in a folder from where another run goes on
// (docs/checkpoints.md).
//
//   state.json     which operations are done, in ranges, what time it is, and the faults so far, of every GPU; digests
//   of
//                  the inputs and of the states
//   N.gpuG.state   what Gpu::state() saves of GPU G; not of recordings
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/machines.h"
#include "replay/workload_part.h"

namespace heddle::cli {

struct Checkpoint {
  std::string inputs;                  // digest_of_inputs() of the run
  std::vector<replay::OpSet> done;     // by GPU and operation
  std::vector<std::int64_t> times;     // by GPU: ns, workload axis
  std::vector<replay::Faults> faults;  // by GPU, since the very beginning
  std::vector<std::string> states;     // by GPU; none of a recording, which has no memory

  std::size_t operations() const;  // that are done
};

// The checkpoint that lies in `folder`, a results folder or its folder `checkpoint`, of a run of `inputs`, whose digest
// is `digest`. Throws InputError if there is none, if it is of other inputs, or if a file of it cannot be read or is
// damaged.
Checkpoint read_checkpoint(const std::filesystem::path& folder, const Inputs& inputs, const std::string& digest);

// Into the folder `checkpoint` of the results, in place of an earlier one, which stays whole until this one is. Throws
// InputError if it cannot be written.
void write_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& results);

// Takes the checkpoint out of the results, if there is one. Files of others stay.
void remove_checkpoint(const std::filesystem::path& results);

// True if what `resume` names (read_checkpoint) lies in these results.
bool holds_checkpoint(const std::filesystem::path& results, const std::filesystem::path& resume);

// Tells apart what decides over the operations and what they do: of a scenario the whole file with its parameters and
// the files that memory is filled from, but for what it expects and measures, and its machine, which the states tell
// apart; of recordings the operations, how they are fitted and submitted, and the machines without the timing; the
// seed.
std::string digest_of_inputs(const Inputs& inputs, const RunOptions& options, const Machines& machines);

}  // namespace heddle::cli
