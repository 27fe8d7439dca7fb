#include "program/program_builder.h"

#include <utility>

#include <fmt/format.h>

#include "common/yaml_util.h"
#include "program/program_values.h"
#include "program/step_table.h"

namespace heddle::program {

using namespace workload;
namespace {

constexpr std::uint32_t kMaxSteps = 20'000;
constexpr std::uint32_t kMaxNesting = 16;  // of lists in one another

// `rows`: the threads of a warp lie in one row of their CTA, which a launch decides.
Shape slot_shape(const ProgramSlot& slot, bool rows) {
  if (!slot.per_lane()) return Shape::uniform;
  switch (slot.source) {
    case SlotSource::lane:
    case SlotSource::thread:
      return Shape::affine;
    case SlotSource::thread_x:
    case SlotSource::item_x:
      return rows ? Shape::affine : Shape::other;
    default:
      return Shape::other;
  }
}

}  // namespace

ProgramBuilder::ProgramBuilder(const std::string& file, const arch::KernelRecord& kernel,
                               const std::vector<MemoryRegion>& regions, const LaunchTargets& targets,
                               TextBudget& budget)
    : file_(file),
      kernel_(kernel),
      targets_(targets),
      budget_(budget),
      thing_("kernel " + kernel.name),
      names_(kernel, regions, parts_) {}

CompiledProgram ProgramBuilder::finish(const SourcePos& where) {
  add(make(StepKind::finish, arch::OpCode::exit, "end", where));
  parts_.registers = names_.registers();
  return {std::make_shared<ScenarioProgram>(std::move(parts_)), names_.regions_used(), std::move(launched_)};
}

void ProgramBuilder::block(const YAML::Node& steps, const std::string& thing) {
  if (!steps.IsSequence() || steps.size() == 0) {
    throw InputError(position(steps, file_), fmt::format("{}: a list of steps is expected", thing),
                     "as in: [{load: …}, {store: …}]");
  }
  if (++depth_ > kMaxNesting) {
    throw InputError(position(steps, file_), fmt::format("{}: more than {} lists in one another", thing, kMaxNesting));
  }
  names_.open();
  for (const auto& node : steps) compile_step(*this, node);
  names_.close();
  --depth_;
}

MapReader ProgramBuilder::body(const MapReader& step, const char* key, const MapSpec& spec) const {
  return MapReader(step.node(key), spec, fmt::format("{}, {}", thing_, key), file_);
}

ProgramStep ProgramBuilder::make(StepKind kind, arch::OpCode code, const std::string& text,
                                 const SourcePos& where) const {
  ProgramStep step;
  step.kind = kind;
  step.code = code;
  step.demand.code = code;
  step.demand.unit = arch::row_of(code).unit;
  describe(step, text, where);
  return step;
}

ProgramStep ProgramBuilder::make_control(StepKind kind, const std::string& text, const SourcePos& where) const {
  ProgramStep step = make(kind, arch::OpCode::compute, text, where);
  step.demand.unit = arch::Unit::int32;
  return step;
}

void ProgramBuilder::describe(ProgramStep& step, const std::string& text, const SourcePos& where) {
  // Code that software has brought has no lines.
  step.text = where.line == 0 ? text : fmt::format("{} (line {})", text, where.line);
}

std::uint32_t ProgramBuilder::add(ProgramStep step) {
  if (here() == kMaxSteps) {
    throw InputError(SourcePos{file_, 0, 0}, fmt::format("{}: the program has more than {} steps", thing_, kMaxSteps),
                     "use loops");
  }
  const bool launches = arch::row_of(step.code).executor == arch::Executor::launch;
  parts_.launches = parts_.launches || launches;
  parts_.lets_go = parts_.lets_go || (step.kind == StepKind::operation && step.code == arch::OpCode::launch_dependents);
  parts_.steps.push_back(std::move(step));
  return here() - 1;
}

std::uint32_t ProgramBuilder::add(BulkStep request) {
  parts_.bulk.push_back(std::move(request));
  return static_cast<std::uint32_t>(parts_.bulk.size() - 1);
}

std::uint32_t ProgramBuilder::add(ChildStep child) {
  parts_.children.push_back(std::move(child));
  return static_cast<std::uint32_t>(parts_.children.size() - 1);
}

const LaunchTarget& ProgramBuilder::launched(const MapReader& map, const char* key) {
  const std::string name = map.name(key);
  const auto target = targets_.find(name);
  if (target == targets_.end()) {
    std::vector<std::string> known;
    for (const auto& entry : targets_) known.push_back(entry.first);
    throw InputError(map.where(key), fmt::format("{}: there is no kernel {}", map.thing(), name),
                     suggestion(name, known));
  }
  launched_.insert(name);
  return target->second;
}

NamedValue ProgramBuilder::take_named(std::uint32_t expression) {
  NamedValue value = parts_.expressions[expression].expression.named();
  HEDDLE_CHECK(expression + 1 == parts_.expressions.size(), "only the last expression can be taken back");
  parts_.expressions.pop_back();
  return value;
}

std::vector<std::string> ProgramBuilder::name_list(const MapReader& map, const char* key) {
  std::vector<std::string> result;
  for (const YAML::Node& item : map.items(key)) {
    if (!item.IsScalar()) map.fail(key, item, fmt::format("a name is expected, found {}", kind_text(item)));
    result.push_back(item.Scalar());
  }
  if (result.empty()) map.fail(key, "the list is empty");
  return result;
}

arch::ValueType ProgramBuilder::type(const MapReader& map, const std::string& variable) const {
  if (map.has("type")) return choose(map, "type", scalar_types(), arch::type_name);
  if (const ProgramVariable* known = names_.variable(variable)) return known->type;
  throw InputError(map.where(), fmt::format("{}: the type is missing", map.thing()), "as in: type: f32");
}

std::uint32_t ProgramBuilder::expression(const MapReader& map, const char* key, const YAML::Node& node) {
  if (!node.IsScalar()) map.fail(key, node, fmt::format("an expression is expected, found {}", kind_text(node)));
  const SourcePos where = position(node, file_);
  try {
    Expression made(node.Scalar(), where, names_, parts_.values);
    budget_.used += made.text().code.size();
    if (budget_.used > budget_.most) {
      throw InputError(where,
                       fmt::format("the expressions so far have more than {} bytes, with the `let`s that they "
                                   "name",
                                   budget_.most),
                       "set a variable where a long `let` is named often");
    }
    ProgramExpression entry{std::move(made), {}, {}, false};
    for (const std::uint32_t slot : entry.expression.slots()) {
      const ProgramSlot& source = parts_.slots[slot];
      (source.per_lane() ? entry.per_lane : entry.shared).push_back({source, &parts_.values.at(slot)});
    }
    const auto affine = [&](bool rows) {
      const auto shape = [&](std::uint32_t slot) { return slot_shape(parts_.slots[slot], rows); };
      return shape_of(entry.expression.text(), shape) == Shape::affine;
    };
    entry.affine = affine(false);
    entry.affine_in_rows = entry.affine || affine(true);
    parts_.expressions.push_back(std::move(entry));
  } catch (const InputError& error) {
    throw InputError(where, fmt::format("{}, {}: {}", map.thing(), key, error.message()), error.remedy());
  }
  return static_cast<std::uint32_t>(parts_.expressions.size() - 1);
}

std::uint32_t ProgramBuilder::uniform(const MapReader& map, const char* key) {
  const std::uint32_t index = expression(map, key);
  if (!at(index).uniform()) {
    map.fail(key, fmt::format("\"{}\" differs between the lanes of a warp; it must be the same for all of them",
                              map.node(key).Scalar()));
  }
  return index;
}

std::uint32_t ProgramBuilder::constant(double value) {
  parts_.expressions.push_back({Expression(fmt::format("{}", value), {}, names_, parts_.values), {}, {}, false});
  return static_cast<std::uint32_t>(parts_.expressions.size() - 1);
}

void ProgramBuilder::read(ProgramStep& step, std::uint32_t expression) const {
  for (const BoundSlot& slot : parts_.expressions[expression].per_lane) {
    if (slot.source.source == SlotSource::variable) step.demand.reads.push_back(slot.source.variable.range());
  }
}

ProgramValue ProgramBuilder::value(const MapReader& map, const char* key, const YAML::Node& node) {
  ProgramValue result;
  const ProgramVariable* variable = node.IsScalar() ? names_.variable(node.Scalar()) : nullptr;
  if (variable != nullptr) {
    result.variable = *variable;
  } else {
    result.expression = expression(map, key, node);
  }
  return result;
}

void ProgramBuilder::read(ProgramStep& step, const ProgramValue& value) const {
  if (value.expression) {
    read(step, *value.expression);
  } else {
    step.demand.reads.push_back(value.variable.range());
  }
}

}  // namespace heddle::program
