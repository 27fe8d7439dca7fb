// The steps of a program that are issued as operations, but for those of matrix multiply.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/yaml_util.h"
#include "program/program_choice.h"
#include "program/program_compiler.h"
#include "program/program_values.h"

namespace heddle::workload {
namespace {

using arch::OpCode;
using arch::Order;
using arch::Scope;
using arch::ValueType;

const std::vector<arch::Unit>& compute_units() {
  static const std::vector<arch::Unit> kUnits{arch::Unit::fp32, arch::Unit::int32, arch::Unit::fp64, arch::Unit::sfu,
                                              arch::Unit::tensor};
  return kUnits;
}

arch::Unit unit_of(ValueType type) {
  if (type == ValueType::f64) return arch::Unit::fp64;
  return is_float(type) ? arch::Unit::fp32 : arch::Unit::int32;
}

const std::vector<arch::SpecialRegister>& special_registers() {
  static const std::vector<arch::SpecialRegister> kAll = [] {
    std::vector<arch::SpecialRegister> all;
    for (std::size_t i = 0; i < arch::kSpecialRegisters; ++i) all.push_back(static_cast<arch::SpecialRegister>(i));
    return all;
  }();
  return kAll;
}

const char* space_name(arch::Space space) {
  constexpr const char* kNames[] = {"global", "shared", "cluster"};
  return kNames[static_cast<std::size_t>(space)];
}

std::optional<ValueType> pair_type(const std::string& name) {
  if (name == arch::type_name(ValueType::f16x2)) return ValueType::f16x2;
  if (name == arch::type_name(ValueType::bf16x2)) return ValueType::bf16x2;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> ProgramCompiler::names(const MapReader& map, const char* key) const {
  std::vector<std::string> result;
  for (const YAML::Node& item : map.items(key)) {
    if (!item.IsScalar()) map.fail(key, item, fmt::format("a name is expected, found {}", kind_text(item)));
    result.push_back(item.Scalar());
  }
  if (result.empty()) map.fail(key, "the list is empty");
  return result;
}

ValueType ProgramCompiler::type(const MapReader& map, const std::string& variable) const {
  if (map.has("type")) return choose(map, "type", scalar_types(), arch::type_name);
  if (const ProgramVariable* known = names_.variable(variable)) return known->type;
  throw InputError(map.where(), fmt::format("{}: the type is missing", map.thing()), "as in: type: f32");
}

void ProgramCompiler::space(const MapReader& map, ProgramStep& step) const {
  if (map.has("space")) {
    step.space = choose(map, "space", std::vector<arch::Space>{arch::Space::global, arch::Space::shared}, space_name);
  }
}

void ProgramCompiler::place(const MapReader& map, ProgramStep& step) {
  using arch::Space;
  step.at = expression(map, "at");
  read(step, step.at);
  if (map.has("space")) {
    step.space = choose(map, "space", std::vector<Space>{Space::global, Space::shared, Space::cluster}, space_name);
  }
  const bool cluster = step.space == Space::cluster;
  if (cluster != map.has("rank")) {
    throw InputError(cluster ? map.where() : map.where("rank"),
                     fmt::format("{}: rank {}", map.thing(), cluster ? "is missing" : "has no meaning"),
                     "`space: cluster` needs it, and nothing else has it: the CTA whose shared memory it is");
  }
  if (cluster) target(map, step);
}

void ProgramCompiler::ordering(const MapReader& map, ProgramStep& step, Order otherwise,
                               const std::vector<Order>& orders) const {
  step.order = map.has("order") ? choose(map, "order", orders, arch::order_name) : otherwise;
  if (map.has("scope")) {
    step.scope = choose(map, "scope", std::vector<Scope>{Scope::cta, Scope::cluster, Scope::gpu, Scope::system},
                        arch::scope_name);
  }
}

std::uint8_t ProgramCompiler::width(const MapReader& map, const char* key, ValueType type, std::size_t count) const {
  const std::size_t bytes = arch::bytes_of(type) * count;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) {
    map.fail(key, fmt::format("{} values of {} are {} bytes; an access has 1, 2, 4, 8 or 16", count,
                              arch::type_name(type), bytes));
  }
  return static_cast<std::uint8_t>(bytes);
}

ProgramValue ProgramCompiler::value(const MapReader& map, const char* key, const YAML::Node& node) {
  ProgramValue result;
  const ProgramVariable* variable = node.IsScalar() ? names_.variable(node.Scalar()) : nullptr;
  if (variable != nullptr) {
    result.variable = *variable;
  } else {
    result.expression = expression(map, key, node);
  }
  return result;
}

void ProgramCompiler::read(ProgramStep& step, const ProgramValue& value) const {
  if (value.expression == kNoExpression) {
    step.demand.reads.push_back(value.variable.range());
  } else {
    read(step, value.expression);
  }
}

void ProgramCompiler::simple(OpCode code, const std::string& name, const SourcePos& where, std::uint32_t count) {
  ProgramStep step = make(StepKind::operation, code, arch::Unit::none, name, where);
  step.count = count;
  if (code == OpCode::barrier) step.to = constant(0);
  add(std::move(step));
}

// The map holds a name of the author's beside its own keys, so no table describes it.
void ProgramCompiler::set(const MapReader& step) {
  const YAML::Node node = step.node("set");
  const std::string thing = thing_ + ", set";
  std::string name;
  YAML::Node value_node;
  for (const auto& entry : node) {
    const std::string& key = entry.first.Scalar();
    if (key == "type" || key == "unit") continue;
    if (!name.empty()) {
      throw InputError(position(entry.first, file_), fmt::format("{}: both {} and {} are set", thing, name, key),
                       "one step sets one name: - set: {x: 1, type: f32}");
    }
    name = key;
    value_node.reset(entry.second);
  }
  if (name.empty()) {
    throw InputError(step.where(), fmt::format("{}: the name is missing", thing), "as in: set: {x: 1, type: f32}");
  }
  // The rest of it, as a map that a table describes.
  YAML::Node rest(YAML::NodeType::Map);
  if (node["type"].IsDefined()) rest["type"] = node["type"];
  if (node["unit"].IsDefined()) rest["unit"] = node["unit"];
  const MapReader map(rest, set_spec(), thing, file_);

  ProgramStep made = make(StepKind::set, OpCode::compute, arch::Unit::fp32, "set " + name, step.where());
  made.values.push_back(value(step, "set", value_node));
  read(made, made.values.front());
  if (!map.has("type") && names_.variable(name) == nullptr) {
    throw InputError(step.where(), fmt::format("{}: {} is new, and its type is missing", thing, name),
                     fmt::format("as in: set: {{{}: 1, type: f32}}", name));
  }
  const ValueType type = this->type(map, name);
  made.variable = names_.one(name, type, step.where());
  made.demand.unit = map.has("unit") ? choose(map, "unit", compute_units(), arch::unit_name) : unit_of(type);
  made.demand.writes.push_back(made.variable.range());
  if (made.variable.together > arch::bytes_of(type)) made.demand.reads.push_back(made.variable.range());
  made.destination = made.variable.first;
  made.width = arch::bytes_of(type) == 8 ? 8 : 4;
  add(std::move(made));
}

void ProgramCompiler::load(const MapReader& step) {
  const MapReader map = body(step, "load", load_step_spec());
  const std::vector<std::string> to = names(map, "to");
  ProgramStep made = make(StepKind::operation, OpCode::load, arch::Unit::memory,
                          fmt::format("load {}", fmt::join(to, ", ")), map.where());
  place(map, made);
  ordering(map, made, Order::weak, {Order::weak, Order::relaxed, Order::acquire});
  const ValueType type = this->type(map, to.front());
  made.width = width(map, "to", type, to.size());
  made.destination = names_.together(to, type, map.where("to")).front().first;
  made.demand.writes.push_back({made.destination, static_cast<std::uint16_t>(std::max(1, made.width / 4))});
  add(std::move(made));
}

void ProgramCompiler::store(const MapReader& step) {
  const MapReader map = body(step, "store", store_step_spec());
  const std::vector<YAML::Node> items = map.items("value");
  if (items.empty()) map.fail("value", "the list is empty");
  const std::string name = items.front().IsScalar() ? items.front().Scalar() : std::string();
  ProgramStep made =
      make(StepKind::operation, OpCode::store, arch::Unit::memory,
           items.size() == 1 && names_.variable(name) != nullptr ? "store " + name : "store", map.where());
  for (const YAML::Node& item : items) made.values.push_back(value(map, "value", item));
  for (const ProgramValue& item : made.values) read(made, item);
  place(map, made);
  ordering(map, made, Order::weak, {Order::weak, Order::relaxed, Order::release});
  made.element = type(map, name);
  made.width = width(map, "value", made.element, items.size());
  add(std::move(made));
}

void ProgramCompiler::atomic(const MapReader& step) {
  using arch::AtomicKind;
  const MapReader map = body(step, "atomic", atomic_step_spec());
  ProgramStep made =
      make(StepKind::operation, OpCode::atomic, arch::Unit::memory, "atomic " + map.text("op"), map.where());
  made.atomic =
      choose(map, "op",
             std::vector<AtomicKind>{AtomicKind::add, AtomicKind::min, AtomicKind::max, AtomicKind::bit_and,
                                     AtomicKind::bit_or, AtomicKind::bit_xor, AtomicKind::exchange,
                                     AtomicKind::compare_exchange, AtomicKind::increment, AtomicKind::decrement},
             arch::atomic_name);
  const std::optional<ValueType> pair = map.has("type") ? pair_type(map.text("type")) : std::nullopt;
  made.element = !pair ? type(map, map.node("value").IsScalar() ? map.text("value") : std::string())
                 : *pair == ValueType::f16x2 ? ValueType::f16
                                             : ValueType::bf16;
  made.type = pair.value_or(made.element);
  if (!arch::atomic_exists(made.atomic, made.type)) {
    throw InputError(map.where(),
                     fmt::format("{}: there is no {} for {}", map.thing(), map.text("op"), arch::type_name(made.type)),
                     "integers of 32 and 64 bits have all (increment, decrement: u32), f32 and f64 add, exchange, "
                     "compare_exchange, f16x2 and bf16x2 add, min, max");
  }
  made.width = static_cast<std::uint8_t>(arch::bytes_of(made.type));
  const std::size_t count = pair ? 2 : 1;
  const std::vector<YAML::Node> items = map.items("value");
  if (items.size() != count) map.fail("value", fmt::format("{} are expected, found {}", count, items.size()));
  for (const YAML::Node& item : items) made.values.push_back(value(map, "value", item));
  const bool compares = made.atomic == AtomicKind::compare_exchange;
  if (compares != map.has("compare")) {
    throw InputError(map.where(),
                     fmt::format("{}: compare {}", map.thing(), compares ? "is missing" : "has no meaning"),
                     "compare_exchange needs it, and nothing else has it");
  }
  if (compares) {
    made.compare = value(map, "compare", map.node("compare"));
    read(made, made.compare);
  }
  for (const ProgramValue& item : made.values) read(made, item);
  place(map, made);
  ordering(map, made, Order::relaxed, {Order::relaxed, Order::acquire, Order::release, Order::acquire_release});
  if (map.has("to")) {
    const std::vector<std::string> to = names(map, "to");
    if (to.size() != count) map.fail("to", fmt::format("{} are expected, found {}", count, to.size()));
    made.destination = names_.together(to, made.element, map.where("to")).front().first;
    made.demand.writes.push_back({made.destination, static_cast<std::uint16_t>(made.width / 4)});
  }
  add(std::move(made));
}

void ProgramCompiler::compute(const MapReader& step) {
  const MapReader map = body(step, "compute", compute_step_spec());
  const arch::Unit unit = choose(map, "unit", compute_units(), arch::unit_name);
  ProgramStep made = make(StepKind::operation, OpCode::compute, unit, "compute", map.where());
  if (map.has("count")) made.count = map.number<std::uint32_t>("count", {Unit::count, 1, 1'000'000'000});
  if (map.has("latency")) made.latency = map.number<std::uint32_t>("latency", {Unit::cycles, 0, 1'000'000});
  add(std::move(made));
}

void ProgramCompiler::special(const MapReader& step) {
  const MapReader map = body(step, "special", special_step_spec());
  const std::string name = map.text("to");
  ProgramStep made = make(StepKind::operation, OpCode::special, arch::Unit::none, "special " + name, map.where());
  made.special = choose(map, "register", special_registers(), arch::special_name);
  const ValueType type =
      map.has("type") ? choose(map, "type", std::vector<ValueType>{ValueType::u32, ValueType::u64}, arch::type_name)
                      : ValueType::u32;
  made.width = static_cast<std::uint8_t>(arch::bytes_of(type));
  const ProgramVariable variable = names_.together({name}, type, map.where("to")).front();
  made.destination = variable.first;
  made.demand.writes.push_back(variable.range());
  add(std::move(made));
}

void ProgramCompiler::copy_async(const MapReader& step) {
  const MapReader map = body(step, "copy_async", copy_async_step_spec());
  ProgramStep made = make(StepKind::operation, OpCode::async_copy, arch::Unit::memory, "copy_async", map.where());
  made.at = expression(map, "from");
  made.to = expression(map, "to");
  read(made, made.at);
  read(made, made.to);
  const auto bytes = map.number<std::uint32_t>("bytes", {Unit::bytes, 4, 16});
  if (bytes != 4 && bytes != 8 && bytes != 16) map.fail("bytes", "4, 8 or 16 are possible");
  made.width = static_cast<std::uint8_t>(bytes);
  add(std::move(made));
}

void ProgramCompiler::barrier(const MapReader& step) {
  const MapReader map = body(step, "barrier", barrier_step_spec());
  ProgramStep made = make(StepKind::operation, OpCode::barrier, arch::Unit::none, "barrier", map.where());
  made.to = map.has("number") ? uniform(map, "number") : constant(0);
  made.count = 0;
  if (map.has("threads")) {
    made.count = map.number<std::uint32_t>("threads", {Unit::count, arch::kWarpLanes, 65'536});
    if (made.count % arch::kWarpLanes != 0) map.fail("threads", "whole warps arrive: a multiple of 32 is expected");
  }
  add(std::move(made));
}

void ProgramCompiler::fence(const MapReader& step) {
  const MapReader map = body(step, "fence", fence_step_spec());
  ProgramStep made = make(StepKind::operation, OpCode::fence, arch::Unit::none, "fence", map.where());
  ordering(map, made, Order::acquire_release, {Order::acquire, Order::release, Order::acquire_release});
  add(std::move(made));
}

}  // namespace heddle::workload
