#include "scenario/scenario_entries.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/quantity.h"
#include "common/suggest.h"
#include "common/yaml_util.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

constexpr std::uint32_t kMaxBlock = 65'535;
// Larger than any machine; the machine itself is asked later.
constexpr std::uint32_t kMaxUnits = 1'000'000;
constexpr std::uint32_t kNoMaximum = std::numeric_limits<std::uint32_t>::max();

constexpr std::pair<const char*, arch::CgaLevel> kLevels[] = {{"gpu", arch::CgaLevel::gpu},
                                                              {"ugpu", arch::CgaLevel::ugpu},
                                                              {"gpc", arch::CgaLevel::gpc},
                                                              {"cpc", arch::CgaLevel::cpc}};

arch::Dim3 read_extents(const MapReader& map, const char* key, const std::vector<YAML::Node>& items,
                        const arch::Dim3& max) {
  if (items.empty() || items.size() > 3) {
    map.fail(key, fmt::format("one to three numbers are expected, found {}", items.size()));
  }
  arch::Dim3 result;
  result.x = map.number<std::uint32_t>(key, items[0], {Unit::count, 1, max.x});
  if (items.size() > 1) result.y = map.number<std::uint32_t>(key, items[1], {Unit::count, 1, max.y});
  if (items.size() > 2) result.z = map.number<std::uint32_t>(key, items[2], {Unit::count, 1, max.z});
  return result;
}

arch::Dim3 read_grid(const MapReader& map, const char* key) {
  return read_extents(map, key, map.items(key), {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ});
}

arch::CtaDuration read_cycles(const MapReader& map, const std::string& file) {
  const Limits<std::uint64_t> cycles{Unit::cycles, 1, kMaxScenarioCycles};
  if (!map.node("cycles").IsMap()) {
    const std::uint64_t fixed = map.number("cycles", cycles);
    return {fixed, fixed};
  }
  const MapReader range(map.node("cycles"), cycles_spec(), map.thing() + ", cycles", file);
  const arch::CtaDuration duration{range.number("min", cycles), range.number("max", cycles)};
  if (duration.min > duration.max) range.fail("min", "min is larger than max");
  return duration;
}

void read_cluster_map(const MapReader& map, arch::ClusterShape& cluster) {
  for (const auto& [key, level] : kLevels) {
    if (map.has(key)) cluster.of(level) = read_grid(map, key);
  }
  if (!cluster.any()) {
    throw InputError(map.where(), fmt::format("{}: none of the levels gpu, ugpu, gpc, cpc is given", map.thing()),
                     "as in: cluster: {gpu: [16, 1, 1], gpc: [4, 1, 1]}");
  }
  if (map.has("mode")) {
    const std::string mode = map.text("mode");
    if (mode == "load_balancing") {
      cluster.mode = arch::CgaMode::load_balancing;
    } else if (mode != "multicast") {
      throw InputError(map.where("mode"), fmt::format("{}, mode: there is no mode {}", map.thing(), mode),
                       suggestion(mode, {"multicast", "load_balancing"}));
    }
  }
  if (map.has("fallback")) {
    const std::vector<YAML::Node> sizes = map.items("fallback");
    if (sizes.size() > arch::kMaxFallbacks) {
      map.fail("fallback", fmt::format("{} sizes, of at most {}", sizes.size(), arch::kMaxFallbacks));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<YAML::Node> extents =
          sizes[i].IsSequence() ? std::vector<YAML::Node>(sizes[i].begin(), sizes[i].end()) : std::vector{sizes[i]};
      cluster.fallback[i] = read_extents(map, "fallback", extents, {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ});
    }
  }
  if (map.has("linear_memory")) cluster.linear_memory = map.flag("linear_memory");
}

arch::ClusterShape read_cluster(const MapReader& map, const arch::Dim3& grid, const std::string& file) {
  arch::ClusterShape cluster;
  if (map.node("cluster").IsMap()) {
    read_cluster_map(MapReader(map.node("cluster"), cluster_spec(), map.thing() + ", cluster", file), cluster);
  } else {
    cluster.of(arch::CgaLevel::gpc) = read_grid(map, "cluster");
  }
  const std::string wrong = arch::why_malformed(grid, cluster, kNoMaximum);
  if (!wrong.empty()) map.fail("cluster", wrong);
  return cluster;
}

// Numbers of units of the machine, each once.
std::vector<std::uint32_t> read_units(const MapReader& map, const char* key) {
  std::vector<std::uint32_t> units;
  for (const YAML::Node& item : map.items(key)) {
    const auto unit = map.number<std::uint32_t>(key, item, {Unit::none, 0, kMaxUnits});
    if (std::find(units.begin(), units.end(), unit) != units.end()) {
      map.fail(key, item, fmt::format("{} stands twice in the list", unit));
    }
    units.push_back(unit);
  }
  if (units.empty()) map.fail(key, "the list is empty");
  return units;
}

}  // namespace

std::string entry_name(const char* what, const YAML::Node& node, const char* key) {
  if (!node.IsMap()) return what;
  const YAML::Node name = node[key];
  if (!name.IsDefined() || !name.IsScalar() || name.Scalar().empty() || name.Scalar().size() > 80) return what;
  return fmt::format("{} {}", what, name.Scalar());
}

arch::Dim3 read_grid(const MapReader& map) { return read_grid(map, "grid"); }

arch::KernelRecord read_kernel(const MapReader& map, const std::string& file, ProgramScope& scope) {
  arch::KernelRecord kernel;
  kernel.name = map.name("name");
  kernel.grid = read_grid(map);
  kernel.block = read_extents(map, "block", map.items("block"), {kMaxBlock, kMaxBlock, kMaxBlock});
  if (map.has("cycles") == map.has("program")) {
    const char* wrong =
        map.has("cycles") ? "`cycles` and `program` stand side by side" : "the key \"cycles\" is missing";
    throw InputError(map.where(), fmt::format("{}: {}", map.thing(), wrong),
                     "give one of: cycles, how long a CTA runs; program, what its warps do");
  }
  if (map.has("cycles")) kernel.duration = read_cycles(map, file);
  if (map.has("registers")) {
    kernel.registers_per_thread = map.number<std::uint32_t>("registers", {Unit::count, 0, 65'535});
  }
  if (map.has("shared")) kernel.shared_bytes = map.number<std::uint32_t>("shared", {Unit::bytes});
  if (map.has("local")) kernel.local_bytes = map.number<std::uint32_t>("local", {Unit::bytes});
  if (map.has("subcontext")) {
    kernel.subcontext =
        static_cast<std::uint8_t>(map.number<std::uint32_t>("subcontext", {Unit::none, 0, arch::kSubcontexts - 1}));
  }
  if (map.has("cluster")) kernel.cluster = read_cluster(map, kernel.grid, file);
  if (map.has("program")) {
    CompiledProgram compiled = compile_program(map.node("program"), file, kernel, scope.regions, scope.targets);
    scope.used = std::move(compiled.regions);
    scope.launched = std::move(compiled.launched);
    if (kernel.registers_per_thread == 0) {
      kernel.registers_per_thread = std::max(kLeastRegisters, compiled.program->registers());
    }
    kernel.program = std::move(compiled.program);
  }
  return kernel;
}

SmLoad read_load(const MapReader& map) {
  SmLoad load;
  load.where = map.where();
  if (map.has("sms") && map.has("gpcs")) map.fail("gpcs", "`sms` stands in the entry too; use one of the two");
  if (map.has("sms")) load.sms = read_units(map, "sms");
  if (map.has("gpcs")) load.gpcs = read_units(map, "gpcs");
  load.all = load.sms.empty() && load.gpcs.empty();
  load.ctas = map.number<std::uint32_t>("ctas", {Unit::count, 1, kMaxUnits});
  if (map.has("until")) {
    load.until = map.number<Nanoseconds>("until", {Unit::ns, 1, kMaxScenarioTime}, BareNumber::refused);
  }
  return load;
}

TpcSwitch read_tpc_switch(const MapReader& map) {
  TpcSwitch change;
  change.where = map.where();
  change.gpc = map.number<std::uint32_t>("gpc", {Unit::none, 0, kMaxUnits});
  change.tpc = map.number<std::uint32_t>("tpc", {Unit::none, 0, kMaxUnits});
  change.enabled = map.flag("enabled");
  if (map.has("at")) {
    change.when = map.number<Nanoseconds>("at", {Unit::ns, 0, kMaxScenarioTime}, BareNumber::refused);
  }
  return change;
}

}  // namespace heddle::scenario
