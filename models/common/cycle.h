// Time without SystemC: whole cycles of a clock inside a block, and picoseconds where clocks meet.
#pragma once

#include <cstdint>

namespace heddle {

using Cycle = std::uint64_t;
using Picoseconds = std::uint64_t;  // since the start of simulation

}  // namespace heddle
