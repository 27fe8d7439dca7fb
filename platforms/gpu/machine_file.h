// Files that describe machines, as `heddle run --gpu FILE` takes them, and the check of what came of all layers.
#pragma once

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "common/params.h"
#include "gpu/gpu_params.h"

namespace heddle::gpu {

struct MachineFile {
  std::string preset;  // what it builds on; empty: it does not say
  YAML::Node roots;    // a map with keys gpu, gpu0, … and what else the file has, for ParamLayers::add
};

// Throws InputError with file and line.
MachineFile read_machine_file(const std::string& path);

// `params`: resolved from layers, with these entries. Throws InputError where values contradict each other; the place
// is that of the first one that the message names and a file or the command line has set.
void check_values(const GpuParams& params, const std::vector<ParamEntry>& entries);

// What a platform says of one machine. Later ones win: preset, files in their order, settings.
struct MachineChoice {
  std::string preset;  // empty: the last that a file names, or else `fallback`
  std::string fallback;
  std::vector<std::string> files;
  std::vector<std::string> settings;  // "gpu.memory=1 GiB"
};

struct ResolvedMachine {
  GpuParams params;
  std::vector<ParamEntry> entries;
  std::string text;  // all of it as YAML, with the origin of every value: an input of MachineChoice::files
};

// The keys `run` and `host` of files, which are the program's, are not used. Throws InputError with file, line and the
// nearest valid name.
ResolvedMachine resolve(const MachineChoice& choice);

}  // namespace heddle::gpu
