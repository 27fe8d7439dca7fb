// What-ifs simulate the recorded machine besides: its results, kept in a folder, so that the next what-if of the same
// recording need not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/machines.h"
#include "cli/run_options.h"
#include "replay/submission.h"

namespace heddle::cli {

// What a simulation made of each operation, by GPU.
using OpResults = std::vector<std::vector<replay::OpResult>>;

// A file for each key, named after its digest: a line that says what it is, the key, "gpu" before the operations of
// each, a line for each operation ("done rejected faulted submitted start end", times in ns as hexadecimal numbers),
// and "end".
class BaselineStore {
 public:
  // The folder is made when something is kept.
  explicit BaselineStore(std::string folder) : folder_(std::move(folder)) {}

  // None: nothing has been kept for the key, or what was is damaged or cut short.
  std::optional<OpResults> find(const std::string& key) const;
  // Throws InputError if it cannot be written.
  void keep(const std::string& key, const OpResults& results) const;

 private:
  std::string file_of(const std::string& key) const;

  std::string folder_;
};

// All that the recorded machines' results depend on, as text: this program, the bytes of recordings and counters, what
// the options make of them, the machines, the pace and the seed. Throws InputError if a file cannot be read.
std::string baseline_key(const RunOptions& options, const Machines& machines, replay::Pace pace, std::uint64_t seed);

}  // namespace heddle::cli
