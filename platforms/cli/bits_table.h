// What `heddle show bits` and `heddle run --bits` print: structures in bits, and how often a run accessed them
// (CWD-44).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "gpu/structure_bits.h"

namespace heddle::cli {

// `run`: of a run; null: structures alone.
std::string bits_text(const gpu::GpuParams& params, const Observation* run);
nlohmann::ordered_json bits_json(const gpu::GpuParams& params, const Observation* run);

}  // namespace heddle::cli
