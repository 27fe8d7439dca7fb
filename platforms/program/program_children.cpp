// The steps of a program that launch tasks, wait for them, and feed queues.
#include "program/program_children.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/suggest.h"
#include "program/program_choice.h"
#include "program/program_compiler.h"

namespace heddle::workload {
namespace {

using arch::LaunchMode;
using arch::OpCode;

constexpr std::pair<const char*, LaunchMode> kModes[] = {
    {"stream", LaunchMode::stream}, {"fire_and_forget", LaunchMode::fire_and_forget}, {"tail", LaunchMode::tail}};
constexpr std::int32_t kMostPriority = 1000;

const char* mode_name(LaunchMode mode) { return kModes[static_cast<std::size_t>(mode)].first; }

}  // namespace

void ProgramCompiler::words(const MapReader& map, const char* key, std::size_t most, ProgramStep& step) {
  if (!map.has(key)) return;
  const std::vector<YAML::Node> items = map.items(key);
  if (items.empty() || items.size() > most) map.fail(key, fmt::format("{} values, of 1 to {}", items.size(), most));
  for (const YAML::Node& item : items) {
    const ProgramValue made = value(map, key, item);
    read(step, made);
    parts_.children[step.child].values.push_back(made);
  }
}

void ProgramCompiler::launch_grid(const MapReader& map, ProgramStep& step) {
  if (!map.has("grid")) return;
  arch::ChildLaunch& launch = parts_.children[step.child].launch;
  const std::vector<YAML::Node> items = map.items("grid");
  if (items.empty() || items.size() > 3) {
    map.fail("grid", fmt::format("one to three numbers are expected, found {}", items.size()));
  }
  launch.grid_x = launch.grid_y = launch.grid_z = 1;
  constexpr std::uint32_t kMost[] = {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ};
  for (std::size_t axis = 0; axis < items.size(); ++axis) {
    const std::uint32_t made = expression(map, "grid", items[axis]);
    const Expression& extent = parts_.expressions[made].expression;
    if (extent.constant() && !(extent.value() >= 1 && extent.value() < kMost[axis] + 1.0)) {
      map.fail("grid", items[axis], fmt::format("{} CTAs, of 1 to {}", extent.value(), kMost[axis]));
    }
    read(step, made);
    parts_.children[step.child].grid[axis] = made;
  }
}

void ProgramCompiler::launch(const MapReader& step) {
  const MapReader map = body(step, "launch", launch_step_spec());
  const std::string name = map.name("kernel");
  const auto target = targets_.find(name);
  if (target == targets_.end()) {
    std::vector<std::string> names;
    for (const auto& entry : targets_) names.push_back(entry.first);
    throw InputError(map.where("kernel"), fmt::format("{}: there is no kernel {}", map.thing(), name),
                     suggestion(name, names));
  }
  launched_.insert(name);
  ProgramStep made = make(StepKind::operation, OpCode::launch_child, arch::Unit::memory, "launch " + name, map.where());
  made.child = static_cast<std::uint32_t>(parts_.children.size());
  parts_.children.emplace_back();
  parts_.launches = true;
  arch::ChildLaunch launch;
  launch.kernel = target->second.address;
  launch.grid_x = target->second.grid.x;
  launch.grid_y = target->second.grid.y;
  launch.grid_z = target->second.grid.z;
  if (map.has("mode")) {
    launch.mode =
        choose(map, "mode", std::vector<LaunchMode>{LaunchMode::stream, LaunchMode::fire_and_forget, LaunchMode::tail},
               mode_name);
  }
  if (map.has("priority")) {
    launch.priority = map.number<std::int32_t>("priority", {Unit::none, -kMostPriority, kMostPriority});
  }
  launch.head = reads_head(map);
  parts_.children.back().launch = launch;
  launch_grid(map, made);
  if (map.has("stream")) {
    if (launch.mode != LaunchMode::stream) {
      map.fail("stream", fmt::format("a launch of mode {} enters no stream", mode_name(launch.mode)));
    }
    const std::uint32_t stream = expression(map, "stream");
    read(made, stream);
    parts_.children[made.child].stream = stream;
  }
  words(map, "args", arch::kChildArgs, made);
  add(std::move(made));
}

void ProgramCompiler::wait_children(const std::string& name, const SourcePos& where) {
  parts_.launches = true;
  simple(OpCode::wait_children, name, where, 1);
}

void ProgramCompiler::stream_create(const MapReader& step) {
  const std::string name = step.name("stream_create");
  ProgramStep made =
      make(StepKind::operation, OpCode::stream_create, arch::Unit::memory, "stream_create " + name, step.where());
  const ProgramVariable variable = names_.together({name}, arch::ValueType::u32, step.where("stream_create")).front();
  made.destination = variable.first;
  made.demand.writes.push_back(variable.range());
  parts_.launches = true;
  add(std::move(made));
}

void ProgramCompiler::stream_destroy(const MapReader& step) {
  ProgramStep made =
      make(StepKind::operation, OpCode::stream_destroy, arch::Unit::memory, "stream_destroy", step.where());
  operand(step, "stream_destroy", 0, made);
  parts_.launches = true;
  add(std::move(made));
}

void ProgramCompiler::append(const MapReader& step) {
  const MapReader map = body(step, "append", append_step_spec());
  const std::string name = map.name("queue");
  if (!names_.queue(name)) {
    throw InputError(map.where("queue"), fmt::format("{}: there is no queue {}", map.thing(), name),
                     "describe it in the list `queues`: {name: work, capacity: 1024}");
  }
  ProgramStep made = make(StepKind::operation, OpCode::queue_append, arch::Unit::memory, "append " + name, map.where());
  made.child = static_cast<std::uint32_t>(parts_.children.size());
  parts_.children.emplace_back();
  parts_.children.back().queue = *names_.queue(name);
  parts_.launches = true;
  words(map, "value", arch::kQueueEntryWords, made);
  add(std::move(made));
}

}  // namespace heddle::workload
