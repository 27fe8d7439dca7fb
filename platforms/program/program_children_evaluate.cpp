// Launches and appends of lanes.
#include <cmath>

#include "scenario/scenario_program.h"

namespace heddle::workload {
namespace {

// What 32 bits do not hold becomes what nothing can have: no grid is 0 CTAs wide, no context has that many streams.
std::uint32_t whole_or(double value, std::uint32_t otherwise) {
  return value > -1 && value < 0x1p32 ? static_cast<std::uint32_t>(value) : otherwise;
}

}  // namespace

void ScenarioProgram::children(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& now,
                               arch::Operation& operation) const {
  const ChildStep& step = parts_.children[now.child];
  const auto count = static_cast<std::size_t>(__builtin_popcount(operation.lanes));
  const bool append = now.code == arch::OpCode::queue_append;
  arch::QueueAppend entry;
  entry.queue = step.queue;
  operation.children.assign(append ? 0 : count, step.launch);
  operation.entries.assign(append ? count : 0, entry);
  // `use` gets the place in the list of each lane that takes part, and the lane.
  const auto each = [&](auto use) {
    std::size_t next = 0;
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      if ((operation.lanes >> lane & 1U) != 0) use(next++, lane);
    }
  };
  Lanes numbers{};
  std::uint32_t arch::ChildLaunch::*const extents[] = {&arch::ChildLaunch::grid_x, &arch::ChildLaunch::grid_y,
                                                       &arch::ChildLaunch::grid_z};
  for (std::size_t axis = 0; axis < step.grid.size(); ++axis) {
    if (step.grid[axis] == kNoExpression) continue;
    lane_values(place, state, step.grid[axis], operation.lanes, numbers);
    each([&](std::size_t i, std::uint32_t lane) { operation.children[i].*extents[axis] = whole_or(numbers[lane], 0); });
  }
  if (step.stream != kNoExpression) {
    lane_values(place, state, step.stream, operation.lanes, numbers);
    each([&](std::size_t i, std::uint32_t lane) { operation.children[i].stream = whole_or(numbers[lane], ~0U); });
  }
  arch::PerLane<std::uint64_t> words{};
  for (std::size_t word = 0; word < step.values.size(); ++word) {
    bits(place, state, step.values[word], arch::ValueType::u64, operation.lanes, words);
    each([&](std::size_t i, std::uint32_t lane) {
      (append ? operation.entries[i].data[word] : operation.children[i].args[word]) = words[lane];
    });
  }
}

}  // namespace heddle::workload
