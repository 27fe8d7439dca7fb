#include "scenario/figure.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "program/expression.h"
#include "program/map_reader.h"
#include "program/program_values.h"
#include "scenario/scenario.h"
#include "scenario/scenario_memory.h"
#include "scenario/scenario_schema.h"

namespace heddle::scenario {

using namespace program;
using workload::MemoryRegion;
namespace {

class FigureNames : public ExpressionNames {
 public:
  FigureNames(const Figure& figure, ExpressionSlots& slots) {
    for (const FigureInput& input : figure.inputs) slots_[input.name] = slots.add();
  }
  std::optional<NamedValue> find(const std::string& name) override {
    const auto found = slots_.find(name);
    return found == slots_.end() ? std::nullopt : std::optional<NamedValue>(found->second);
  }
  std::vector<std::string> known() const override {
    std::vector<std::string> names;
    for (const auto& [name, slot] : slots_) names.push_back(name);
    return names;
  }
  std::uint32_t slot(const std::string& name) const { return slots_.at(name); }

 private:
  std::map<std::string, std::uint32_t> slots_;
};

void read_memory_input(const MapReader& map, const std::vector<MemoryRegion>& regions, FigureInput& input) {
  input.memory = map.name("memory");
  const auto region =
      std::find_if(regions.begin(), regions.end(), [&](const MemoryRegion& one) { return one.name == input.memory; });
  if (region == regions.end()) {
    std::vector<std::string> names;
    for (const MemoryRegion& one : regions) names.push_back(one.name);
    throw InputError(map.where("memory"), fmt::format("{}: there is no memory {}", map.thing(), input.memory),
                     names.empty() ? "describe it in the list `memory`" : suggestion(input.memory, names));
  }
  input.gpu = region->gpu;
  if (map.has("type")) input.type = element_type(map);
  const std::uint64_t elements = region->bytes / arch::bytes_of(input.type);
  if (elements == 0) map.fail("type", "the region does not hold one element of it");
  if (map.has("element") == map.has("take")) {
    throw InputError(map.where(), fmt::format("{}: one of element, take is expected", map.thing()),
                     "as in: {memory: out, type: u32, take: max}");
  }
  if (map.has("element")) {
    input.element = map.number<std::uint64_t>("element", {heddle::Unit::none, 0, elements - 1});
    return;
  }
  const std::string word = map.choice("take");
  input.take = word == "min"   ? FigureInput::Take::min
               : word == "max" ? FigureInput::Take::max
               : word == "sum" ? FigureInput::Take::sum
                               : FigureInput::Take::mean;
}

FigureInput read_input(const std::string& name, const YAML::Node& node, const std::string& file,
                       const FigureScope& scope) {
  const MapReader map(node, figure_input_spec(), "figure's " + name, file);
  FigureInput input;
  input.name = name;
  input.where = map.where();
  if (int{map.has("stat")} + int{map.has("memory")} + int{map.has("clock")} + int{map.has("kernel")} != 1) {
    throw InputError(map.where(), fmt::format("{}: one of stat, memory, clock, kernel is expected", map.thing()),
                     "as in: {memory: out, element: 0, type: u32}");
  }
  if (map.has("memory")) {
    read_memory_input(map, scope.regions, input);
    return input;
  }
  for (const char* key : {"type", "element", "take"}) {
    if (map.has(key)) map.fail(key, "only memory has elements");
  }
  if (map.has("stat")) {
    input.stat = map.name("stat");
  } else if (map.has("kernel")) {
    input.kernel = choose(map, "kernel", scope.kernels, [](const std::string& name) { return name; });
  } else {
    input.clock = true;
    input.gpu = map.number<std::size_t>("clock", {heddle::Unit::none, 0, scope.gpus - 1});
  }
  return input;
}

}  // namespace

Figure read_figure(const YAML::Node& node, const std::string& file, const FigureScope& scope) {
  const MapReader map(node, figure_spec(), entry_name("figure", node, "name"), file);
  Figure figure;
  figure.name = map.name("name");
  figure.where = map.where();
  if (map.has("unit")) figure.unit = map.text("unit");
  figure.value = map.text("value");
  if (map.has("of")) {
    for (const auto& entry : map.node("of")) {
      const std::string& name = entry.first.Scalar();
      if (!usable_name(name)) map.fail("of", entry.first, fmt::format("{} cannot be a name", name));
      figure.inputs.push_back(read_input(name, entry.second, file, scope));
    }
  }
  if (map.has("measured")) figure.measured = map.number<double>("measured", {});
  if (map.has("source")) figure.source = map.text("source");
  ExpressionSlots slots;
  FigureNames names(figure, slots);
  const Expression expression(figure.value, map.where("value"), names, slots);
  return figure;
}

double taken(const FigureInput& input, const std::vector<std::uint8_t>& bytes) {
  using Take = FigureInput::Take;
  const std::uint64_t size = arch::bytes_of(input.type);
  const std::uint64_t count = bytes.size() / size;
  const auto element = [&](std::uint64_t index) {
    std::uint64_t bits = 0;
    for (std::uint64_t i = 0; i < size; ++i) bits |= std::uint64_t{bytes[index * size + i]} << 8 * i;
    return number_of(input.type, bits);
  };
  if (input.take == Take::element) {
    return input.element < count ? element(input.element) : std::numeric_limits<double>::quiet_NaN();
  }
  double result = input.take == Take::min   ? std::numeric_limits<double>::infinity()
                  : input.take == Take::max ? -std::numeric_limits<double>::infinity()
                                            : 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double value = element(i);
    if (input.take == Take::min) {
      result = std::min(result, value);
    } else if (input.take == Take::max) {
      result = std::max(result, value);
    } else {
      result += value;
    }
  }
  return input.take == Take::mean ? result / static_cast<double>(count) : result;
}

double value_of(const Figure& figure, const std::function<double(const FigureInput&)>& input) {
  ExpressionSlots slots;
  FigureNames names(figure, slots);
  for (const FigureInput& one : figure.inputs) slots.at(names.slot(one.name)) = input(one);
  return Expression(figure.value, figure.where, names, slots).value();
}

}  // namespace heddle::scenario
