// What a step of a program launches, or appends to a queue: a launch with expressions in place of numbers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/warp_program.h"
#include "program/program_step.h"

namespace heddle::workload {

struct ChildStep {
  arch::ChildLaunch launch;                                                        // what is the same for all
  std::array<std::uint32_t, 3> grid{kNoExpression, kNoExpression, kNoExpression};  // x, y, z; else as in `launch`
  std::uint32_t stream = kNoExpression;
  std::uint64_t queue = 0;           // an append: address
  std::vector<ProgramValue> values;  // arguments; words of an entry
};

}  // namespace heddle::workload
