// Time without SystemC: whole cycles of a clock inside a block, and picoseconds where clocks meet.
#pragma once

#include <cstdint>

namespace heddle {

using Cycle = std::uint64_t;
constexpr Cycle kNever = ~Cycle{0};  // that does not come; or, of what is still under way, is not known yet
using Picoseconds = std::uint64_t;   // since the start of simulation

}  // namespace heddle
