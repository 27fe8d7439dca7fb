#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "program/step_table.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"
#include "scenario/scenario_memory.h"
#include "scenario/scenario_schema.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

void read_within(const MapReader& map, Expectation& expectation) {
  const std::string text = map.text("within");
  expectation.within_percent = text.find('%') != std::string::npos || text.find("percent") != std::string::npos;
  expectation.within = map.number<double>("within", {expectation.within_percent ? Unit::percent : Unit::none, 0.0});
}

Expectation read_memory_expectation(const YAML::Node& node, const std::string& file,
                                    const std::vector<MemoryRegion>& regions) {
  const MapReader map(node, expect_memory_spec(), entry_name("expectation", node, "memory"), file);
  Expectation e;
  e.kind = ExpectationKind::memory;
  e.where = map.where();
  const MemoryRegion& region = named_region(map, regions);
  e.memory = region.name;
  e.gpu = region.gpu;
  if (map.has("file") == map.has("pattern")) {
    throw InputError(map.where(), fmt::format("{}: one of file, pattern is expected", map.thing()),
                     "as in: {memory: y, pattern: 3 * i, type: f32}");
  }
  if (map.has("type")) e.type = element_type(map);
  if (map.has("within")) read_within(map, e);
  if (!e.type && (map.has("within") || map.has("pattern"))) {
    throw InputError(map.where(), fmt::format("{}: the type is missing", map.thing()), "as in: type: f32");
  }
  if (e.type && region.bytes % arch::bytes_of(*e.type) != 0) {
    map.fail("type", fmt::format("the region does not hold a whole number of {}", arch::type_name(*e.type)));
  }
  if (map.has("pattern")) {
    e.pattern = map.text("pattern");
    check_pattern(e.pattern, map.where("pattern"));
    return e;
  }
  e.file = beside_scenario(file, map.name("file"));
  const std::uint64_t size = file_size(map, "file", e.file);
  if (size != region.bytes) map.fail("file", fmt::format("it has {} bytes, the region {}", size, region.bytes));
  return e;
}

Expectation read_statistic(const YAML::Node& node, const std::string& file) {
  const MapReader map(node, expect_spec(), entry_name("expectation", node, "stat"), file);
  Expectation e;
  e.stat = map.name("stat");
  e.where = map.where();
  const auto number = [&](const char* key) -> std::optional<double> {
    if (!map.has(key)) return std::nullopt;
    return map.number<double>(key, {});
  };
  e.equals = number("equals");
  e.min = number("min");
  e.max = number("max");
  e.about = number("about");
  const bool within = map.has("within");
  const int forms = (e.equals ? 1 : 0) + (e.min || e.max ? 1 : 0) + (e.about || within ? 1 : 0);
  if (forms != 1 || e.about.has_value() != within) {
    throw InputError(map.where(), fmt::format("{}: it does not say clearly what the value must be", map.thing()),
                     "give one of: equals; min, max or both; about together with within");
  }
  if (e.min && e.max && *e.min > *e.max) map.fail("min", "min is larger than max");
  if (within) {
    read_within(map, e);
  }
  return e;
}

// All that a request can break.
std::vector<arch::TensorRule> tensor_rules() {
  std::vector<arch::TensorRule> rules;
  for (std::size_t i = 1; i < arch::kTensorRules; ++i) rules.push_back(static_cast<arch::TensorRule>(i));
  return rules;
}

Expectation read_fault(const YAML::Node& node, const std::string& file, const std::vector<std::string>& kernels) {
  const MapReader map(node, expect_fault_spec(), entry_name("expectation", node, "fault"), file);
  Expectation e;
  e.kind = ExpectationKind::fault;
  e.where = map.where();
  const std::string name = map.text("fault");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < arch::kFaultKinds; ++i) {
    const auto kind = static_cast<arch::FaultKind>(i);
    names.emplace_back(arch::fault_key(kind));
    if (name == names.back()) e.fault = kind;
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw InputError(map.where("fault"), fmt::format("{}: there is no fault {}", map.thing(), name),
                     suggestion(name, names));
  }
  e.kernel = map.name("kernel");
  if (std::find(kernels.begin(), kernels.end(), e.kernel) == kernels.end()) {
    throw InputError(map.where("kernel"), fmt::format("{}: there is no kernel {}", map.thing(), e.kernel),
                     suggestion(e.kernel, kernels));
  }
  if (map.has("cluster")) e.cluster = map.number<std::uint64_t>("cluster", {Unit::none, 0, ~std::uint64_t{0} >> 1});
  if (map.has("rank")) e.rank = map.number<std::uint32_t>("rank", {Unit::none, 0, 0x7FFF'FFFF});
  if (map.has("rule")) {
    if (e.fault != arch::FaultKind::tensor) map.fail("rule", fmt::format("the fault {} has no rule", name));
    e.rule = choose(map, "rule", tensor_rules(), arch::rule_key);
  }
  if (map.has("subcontext")) {
    e.subcontext = map.number<std::uint32_t>("subcontext", {Unit::none, 0, arch::kSubcontexts - 1});
  }
  if (map.has("address")) e.address = map.number<std::uint64_t>("address", {Unit::none, 0, ~std::uint64_t{0} >> 1});
  return e;
}

Expectation read_no_progress(const YAML::Node& node, const std::string& file) {
  const MapReader map(node, expect_no_progress_spec(), "expectation", file);
  Expectation e;
  e.kind = ExpectationKind::no_progress;
  e.where = map.where();
  e.waits = map.name("no_progress");
  return e;
}

}  // namespace

Expectation read_expectation(const YAML::Node& node, const std::string& file, const std::vector<MemoryRegion>& regions,
                             const std::vector<std::string>& kernels) {
  if (node.IsMap() && node["memory"].IsDefined()) return read_memory_expectation(node, file, regions);
  if (node.IsMap() && node["fault"].IsDefined()) return read_fault(node, file, kernels);
  if (node.IsMap() && node["no_progress"].IsDefined()) return read_no_progress(node, file);
  return read_statistic(node, file);
}

// What a scenario expects, judged and told.

using namespace workload;

bool Expectation::holds(double value) const {
  if (equals && value != *equals) return false;
  if (min && !(value >= *min)) return false;
  if (max && !(value <= *max)) return false;
  if (about) {
    const double distance = within_percent ? std::abs(*about) * within / 100.0 : within;
    if (!(std::abs(value - *about) <= distance)) return false;
  }
  return true;
}

bool Expectation::holds(const std::vector<std::string>& chain) const {
  return fmt::format("{}", fmt::join(chain, "; ")).find(waits) != std::string::npos;
}

std::string Expectation::text() const {
  const std::string near = within > 0 ? fmt::format(" +- {}{}", number_text(within), within_percent ? " %" : "") : "";
  if (kind == ExpectationKind::memory) return (pattern.empty() ? "like " + file : "= " + pattern) + near;
  if (kind == ExpectationKind::no_progress) return "because of: " + waits;
  if (kind == ExpectationKind::fault) {
    return "in kernel " + kernel + (cluster ? fmt::format(", cluster {}", *cluster) : "") +
           (rank ? fmt::format(", rank {}", *rank) : "") +
           (rule ? fmt::format(", rule {}", arch::rule_key(*rule)) : "") +
           (subcontext ? fmt::format(", subcontext {}", *subcontext) : "") +
           (address ? fmt::format(", address {:#x}", *address) : "");
  }
  if (equals) return "= " + number_text(*equals);
  if (about) return fmt::format("{} +- {}{}", number_text(*about), number_text(within), within_percent ? " %" : "");
  if (min && max) return fmt::format("{} to {}", number_text(*min), number_text(*max));
  if (min) return ">= " + number_text(*min);
  return "<= " + number_text(max.value_or(0));
}

}  // namespace heddle::scenario
