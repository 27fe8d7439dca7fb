#include "scenario/figure.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "program/expression.h"
#include "program/map_reader.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"
#include "scenario/scenario_memory.h"
#include "scenario/scenario_schema.h"

namespace heddle::scenario {

using namespace program;
using workload::MemoryRegion;
namespace {

// The inputs by name, with a slot for each.
struct Inputs {
  explicit Inputs(const Figure& figure) {
    for (const FigureInput& input : figure.inputs) {
      numbers.push_back(slots.add());
      names.set(input.name, numbers.back());
    }
  }

  ExpressionSlots slots;
  NameTable names;
  std::vector<std::uint32_t> numbers;
};

void read_memory_input(const MapReader& map, const std::vector<MemoryRegion>& regions, FigureInput& input) {
  const MemoryRegion& region = named_region(map, regions);
  input.memory = region.name;
  input.gpu = region.gpu;
  if (map.has("type")) input.type = element_type(map);
  const std::uint64_t elements = region.bytes / arch::bytes_of(input.type);
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
    input.kernel = choose(map, "kernel", scope.kernels, [](const std::string& kernel) { return kernel; });
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
  Inputs inputs(figure);
  const Expression expression(figure.value, map.where("value"), inputs.names, inputs.slots);
  return figure;
}

double taken(const FigureInput& input, const std::vector<std::uint8_t>& bytes) {
  using Take = FigureInput::Take;
  const std::uint64_t size = arch::bytes_of(input.type);
  const std::uint64_t count = bytes.size() / size;
  const auto element = [&](std::uint64_t index) { return element_of(input.type, bytes, index); };
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
  Inputs inputs(figure);
  for (std::size_t i = 0; i < figure.inputs.size(); ++i) inputs.slots.at(inputs.numbers[i]) = input(figure.inputs[i]);
  return Expression(figure.value, figure.where, inputs.names, inputs.slots).value();
}

}  // namespace heddle::scenario
