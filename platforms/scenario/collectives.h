// Collective operations of a scenario, over links: what a library of collectives launches for each, written out as
// kernels with programs, and the memory that these need (LNK-10, LNK-11).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "workload/workload.h"

namespace heddle::scenario {

// Regions that have to lie at the same address of their GPUs, since the switch sends to all at once.
using AlikeRegions = std::vector<std::vector<std::string>>;

// The scenario with each collective of `submit` replaced by a kernel for each of its GPUs, which are added to
// `kernels`, `memory` and `submit` itself. The same node if it has none. `alike`: gets what the switch sends to. Throws
// InputError with file and line.
YAML::Node expand_collectives(const YAML::Node& root, const std::string& file, AlikeRegions& alike);

// What collectives move.
using workload::Collective;
const char* collective_name(Collective kind);
// Bytes that the busiest link direction of a GPU carries for each byte of the operation, over `gpus`: by a ring, what
// libraries count as bus bandwidth; in the switch, what leaves or comes, whichever is more.
double bytes_carried(Collective kind, std::size_t gpus, bool in_switch);

}  // namespace heddle::scenario
