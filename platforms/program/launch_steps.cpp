// Steps that launch tasks, and feed queues.
#include <utility>

#include <fmt/format.h>

#include "program/step_table.h"

namespace heddle::program {
namespace {

using arch::LaunchMode;

constexpr std::pair<const char*, LaunchMode> kModes[] = {
    {"stream", LaunchMode::stream}, {"fire_and_forget", LaunchMode::fire_and_forget}, {"tail", LaunchMode::tail}};
constexpr std::int32_t kMostPriority = 1000;

const char* mode_name(LaunchMode mode) { return kModes[static_cast<std::size_t>(mode)].first; }

// The list behind `key`, of at most `most` values of 64 bits; without the key nothing.
void read_words(ProgramBuilder& program, const MapReader& map, const char* key, std::size_t most, ProgramStep& step,
                ChildStep& child) {
  if (!map.has(key)) return;
  const std::vector<YAML::Node> items = map.items(key);
  if (items.empty() || items.size() > most) map.fail(key, fmt::format("{} values, of 1 to {}", items.size(), most));
  for (const YAML::Node& item : items) {
    const ProgramValue made = program.value(map, key, item);
    program.read(step, made);
    child.values.push_back(made);
  }
}

void read_grid(ProgramBuilder& program, const MapReader& map, ProgramStep& step, ChildStep& child) {
  if (!map.has("grid")) return;
  arch::ChildLaunch& launch = child.launch;
  const std::vector<YAML::Node> items = map.items("grid");
  if (items.empty() || items.size() > 3) {
    map.fail("grid", fmt::format("one to three numbers are expected, found {}", items.size()));
  }
  launch.grid_x = launch.grid_y = launch.grid_z = 1;
  constexpr std::uint32_t kMost[] = {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ};
  for (std::size_t axis = 0; axis < items.size(); ++axis) {
    const std::uint32_t made = program.expression(map, "grid", items[axis]);
    const Expression& extent = program.at(made).expression;
    if (extent.constant() && !(extent.value() >= 1 && extent.value() < kMost[axis] + 1.0)) {
      map.fail("grid", items[axis], fmt::format("{} CTAs, of 1 to {}", extent.value(), kMost[axis]));
    }
    program.read(step, made);
    child.grid[axis] = made;
  }
}

}  // namespace

bool reads_head(const MapReader& map) { return map.has("insert") && map.choice("insert") == "head"; }

void compile_launch(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const LaunchTarget& target = program.launched(map, "kernel");
  ProgramStep made = program.make(StepKind::operation, source.row.code, "launch " + map.name("kernel"), map.where());
  ChildStep child;
  arch::ChildLaunch& launch = child.launch;
  launch.kernel = target.address;
  launch.grid_x = target.grid.x;
  launch.grid_y = target.grid.y;
  launch.grid_z = target.grid.z;
  if (map.has("mode")) launch.mode = chosen(map, "mode", LaunchMode::tail, mode_name);
  if (map.has("priority")) {
    launch.priority = map.number<std::int32_t>("priority", {Unit::none, -kMostPriority, kMostPriority});
  }
  launch.head = reads_head(map);
  read_grid(program, map, made, child);
  if (map.has("stream")) {
    if (launch.mode != LaunchMode::stream) {
      map.fail("stream", fmt::format("a launch of mode {} enters no stream", mode_name(launch.mode)));
    }
    child.stream = program.expression(map, "stream");
    program.read(made, child.stream);
  }
  read_words(program, map, "args", arch::kChildArgs, made, child);
  made.child = program.add(std::move(child));
  program.add(std::move(made));
}

void compile_append(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::string name = map.name("queue");
  const std::optional<std::uint64_t> queue = program.names().queue(name);
  if (!queue) {
    throw InputError(map.where("queue"), fmt::format("{}: there is no queue {}", map.thing(), name),
                     "describe it in the list `queues`: {name: work, capacity: 1024}");
  }
  ProgramStep made = program.make(StepKind::operation, source.row.code, "append " + name, map.where());
  ChildStep child;
  child.queue = *queue;
  read_words(program, map, "value", arch::kQueueEntryWords, made, child);
  made.child = program.add(std::move(child));
  program.add(std::move(made));
}

}  // namespace heddle::program
