#include "program/scenario_program.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"
#include "common/yaml_util.h"
#include "program/program_builder.h"
#include "program/program_values.h"
#include "program/step_table.h"

namespace heddle::program {
namespace {

using arch::LaneMask;
using arch::Operation;
using arch::WarpPlace;
using arch::WarpState;

// Rounds of loops without a single instruction in them, before one is spent on the loop itself: a warp that never
// issues would hold the simulation.
constexpr int kFreeRounds = 1000;

LaneMask mask(const WarpState& state, std::size_t scalar) { return static_cast<LaneMask>(state.scalars[scalar]); }
void set_mask(WarpState& state, std::size_t scalar, LaneMask lanes) { state.scalars[scalar] = lanes; }

void write_bits(WarpState& state, const ProgramVariable& variable, std::uint32_t lane, std::uint64_t bits) {
  std::uint32_t& low = state.of(variable.first)[lane];
  const unsigned width = 8 * arch::bytes_of(variable.type);
  if (width < 32) {
    const std::uint32_t mask = ((std::uint32_t{1} << width) - 1) << variable.shift;
    low = (low & ~mask) | static_cast<std::uint32_t>(bits << variable.shift);
    return;
  }
  low = static_cast<std::uint32_t>(bits);
  if (width == 64)
    state.of(static_cast<std::uint16_t>(variable.first + 1))[lane] = static_cast<std::uint32_t>(bits >> 32);
}

void zero(WarpState& state, const ProgramStep& now, LaneMask lanes) {
  const arch::RegisterRange range = now.demand.writes.front();
  for (std::uint32_t i = 0; i < range.count; ++i) {
    std::uint32_t* registers = state.of(static_cast<std::uint16_t>(range.first + i));
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      if ((lanes >> lane & 1U) != 0) registers[lane] = 0;
    }
  }
}

// `step` is a `set`: the value goes to its variable.
void set(const WarpValues& values, WarpState& state, const ProgramStep& step, LaneMask lanes) {
  arch::PerLane<std::uint64_t> bits{};
  values.bits(step.values.front(), step.variable.type, lanes, bits);
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if ((lanes >> lane & 1U) != 0) write_bits(state, step.variable, lane, bits[lane]);
  }
}

const StepRow* row_named(const std::string& name) {
  for (const StepRow& row : step_rows()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

void compile(ProgramBuilder& program, const StepSource& source) {
  if (source.row.handler != nullptr) return source.row.handler(program, source);
  compile_operation(program, source);
}

void compile_word(ProgramBuilder& program, const std::string& word, const SourcePos& where) {
  const StepRow* row = row_named(word);
  if (row == nullptr || !row->word) {
    throw InputError(where, fmt::format("{}: there is no step {}", program.thing(), word),
                     suggestion(word, step_words()));
  }
  // As if all keys were left out.
  const MapReader none(YAML::Node(YAML::NodeType::Map), row->spec, fmt::format("{}, {}", program.thing(), word),
                       program.file());
  compile(program, {*row, none, where});
}

void refuse_keys(const ProgramBuilder& program, const YAML::Node& node) {
  for (const StepRow& row : step_rows()) {
    if (row.kinds != 0 || !node[row.name]) continue;
    throw InputError(position(node, program.file()),
                     fmt::format("{}: the step {} takes no keys", program.thing(), row.name),
                     fmt::format("write the word alone: - {}", row.name));
  }
}

}  // namespace

bool ScenarioProgram::multicasts() const {
  return std::any_of(parts_.bulk.begin(), parts_.bulk.end(), [](const BulkStep& step) {
    return step.request.multicast != 0 ||
           std::any_of(step.operands.begin(), step.operands.end(),
                       [](const BulkOperand& operand) { return operand.field == BulkField::multicast; });
  });
}

bool ScenarioProgram::stores_bulk() const {
  return std::any_of(parts_.bulk.begin(), parts_.bulk.end(), [](const BulkStep& step) {
    using arch::BulkKind;
    const BulkKind kind = step.request.kind;
    return kind == BulkKind::store || kind == BulkKind::reduce || kind == BulkKind::send;
  });
}

arch::TmauNeeds ScenarioProgram::tmau_needs() const {
  arch::TmauNeeds needs;
  needs.unit = std::any_of(parts_.steps.begin(), parts_.steps.end(), [](const ProgramStep& step) {
    return step.kind == StepKind::operation && arch::row_of(step.demand.code).executor == arch::Executor::bulk &&
           step.demand.code != arch::OpCode::proxy_fence;
  });
  for (const BulkStep& step : parts_.bulk) {
    if (step.request.tensor) {
      needs.tensors = true;
    } else if (arch::moves(step.request.kind)) {
      needs.blocks = true;
    }
  }
  return needs;
}

std::uint32_t ScenarioProgram::argument_bytes() const {
  constexpr double kElsewhere = 1U << 20;
  std::uint32_t bytes = 0;
  for (const ProgramStep& step : parts_.steps) {
    if (step.code != arch::OpCode::load || step.space != arch::Space::global || (step.fields & kAddress) == 0) continue;
    const ProgramExpression& at = parts_.expressions[step.at];
    if (!at.uniform() || at.shared.size() != 1) continue;
    const BoundSlot& slot = at.shared.front();
    if (slot.source.source != SlotSource::kernarg) continue;
    *slot.value = 0;
    const double offset = at.expression.value();
    *slot.value = kElsewhere;
    const bool fixed = at.expression.value() == offset + kElsewhere;
    if (fixed && offset >= 0 && offset < kElsewhere) {
      bytes = std::max(bytes, static_cast<std::uint32_t>(offset) + step.width);
    }
  }
  return bytes;
}

void ScenarioProgram::start(const WarpPlace& place, WarpState& state) const {
  state.pc = 0;
  state.exited = false;
  state.registers.assign(std::size_t{parts_.registers} * arch::kWarpLanes, 0);
  state.scalars.assign(parts_.scalars, 0);
  set_mask(state, kActiveScalar, place.lanes);
  set_mask(state, kAliveScalar, place.lanes);
  settle(place, state);
}

void ScenarioProgram::settle(const WarpPlace& place, WarpState& state) const {
  int rounds = 0;
  while (true) {
    if (mask(state, kAliveScalar) == 0) state.pc = static_cast<std::uint32_t>(parts_.steps.size() - 1);
    const ProgramStep& next = step(state);
    if (next.kind == StepKind::finish) return;
    const bool active = mask(state, kActiveScalar) != 0;
    if (next.kind < StepKind::loop_begin) {
      if (active) return;
      ++state.pc;
      continue;
    }
    if (active && !next.free) return;
    if (active && next.kind == StepKind::loop_end && ++rounds > kFreeRounds) return;
    control(place, state);
  }
}

void ScenarioProgram::control(const WarpPlace& place, WarpState& state) const {
  const ProgramStep& now = step(state);
  const LaneMask active = mask(state, kActiveScalar);
  const LaneMask alive = mask(state, kAliveScalar);
  ++state.pc;
  switch (now.kind) {
    case StepKind::loop_begin:
    case StepKind::loop_end:
      return count(place, state, now);
    case StepKind::while_begin:
      return set_mask(state, now.scalar, active);
    case StepKind::while_test: {
      const LaneMask left = active == 0 ? 0 : WarpValues(parts_, place, state).condition(now.at, active);
      set_mask(state, kActiveScalar, left != 0 ? left : mask(state, now.scalar) & alive);
      if (left == 0) state.pc = now.target;
      return;
    }
    case StepKind::if_begin: {
      const LaneMask taken = active == 0 ? 0 : WarpValues(parts_, place, state).condition(now.at, active);
      set_mask(state, now.scalar, active);
      set_mask(state, now.scalar + 1, active & ~taken);
      set_mask(state, kActiveScalar, taken);
      if (taken == 0) state.pc = now.target;
      return;
    }
    case StepKind::if_else:
      set_mask(state, kActiveScalar, mask(state, now.scalar + 1) & alive);
      if (mask(state, kActiveScalar) == 0) state.pc = now.target;
      return;
    case StepKind::if_end:
      return set_mask(state, kActiveScalar, mask(state, now.scalar) & alive);
    case StepKind::role:
      if (place.warp < now.first_warp || place.warp > now.last_warp) state.pc = now.target;
      return;
    case StepKind::jump:
    case StepKind::while_end:
      state.pc = now.target;
      return;
    default:
      HEDDLE_CHECK(false, "a step that is not control flow");
  }
}

// pc is already behind the step.
void ScenarioProgram::count(const WarpPlace& place, WarpState& state, const ProgramStep& now) const {
  std::int64_t& counter = state.scalars[now.scalar];
  std::int64_t& limit = state.scalars[now.scalar + 1];
  const bool up = now.increment > 0;
  const bool active = mask(state, kActiveScalar) != 0;
  if (now.kind == StepKind::loop_begin) {
    if (active) {
      const WarpValues values(parts_, place, state);
      counter = static_cast<std::int64_t>(whole_bits(values.uniform(now.at)));
      limit = static_cast<std::int64_t>(whole_bits(values.uniform(now.to)));
    }
    if (!active || (up ? counter >= limit : counter <= limit)) state.pc = now.target;
    return;
  }
  if (!active) return;
  // Unsigned: the distance of two 64-bit integers may need all bits.
  const auto from = static_cast<std::uint64_t>(counter);
  const auto to = static_cast<std::uint64_t>(limit);
  const auto by = static_cast<std::uint64_t>(now.increment);
  const std::uint64_t distance = up ? to - from : from - to;
  if (distance <= (up ? by : 0 - by)) return;
  counter = static_cast<std::int64_t>(from + by);
  state.pc = now.target;
}

void ScenarioProgram::issue(const WarpPlace& place, WarpState& state, Operation& operation) const {
  const ProgramStep& now = step(state);
  operation.code = now.code;
  operation.unit = now.demand.unit;
  operation.space = now.space;
  operation.lanes = mask(state, kActiveScalar);
  if (now.one_lane) operation.lanes &= ~operation.lanes + 1;
  operation.width = now.width;
  operation.order = now.order;
  operation.scope = now.scope;
  operation.atomic = now.atomic;
  operation.type = now.type;
  operation.destination = now.destination;
  operation.count = now.count;
  operation.latency = now.latency;
  operation.special = now.special;
  operation.cga_level = now.cga_level;
  operation.read = now.read;
  operation.completes = now.completes;
  operation.combines = now.combines;
  operation.mode = now.mode;
  operation.wait = now.wait;
  switch (now.kind) {
    case StepKind::finish:
      state.exited = true;
      return;
    case StepKind::operation:
      fill_fields(WarpValues(parts_, place, state), now, operation);
      break;
    case StepKind::set:
      set(WarpValues(parts_, place, state), state, now, operation.lanes);
      break;
    case StepKind::zero:
      zero(state, now, operation.lanes);
      break;
    case StepKind::leave:
      set_mask(state, kAliveScalar, mask(state, kAliveScalar) & ~operation.lanes);
      set_mask(state, kActiveScalar, 0);
      break;
    default:
      control(place, state);
      return settle(place, state);
  }
  ++state.pc;
  settle(place, state);
}

using namespace workload;

void compile_step(ProgramBuilder& program, const YAML::Node& node) {
  const SourcePos where = position(node, program.file());
  if (node.IsScalar()) return compile_word(program, node.Scalar(), where);
  if (node.IsMap() && node.size() == 1) refuse_keys(program, node);
  const MapReader step(node, step_spec(), program.thing() + ", step", program.file());
  if (node.size() != 1) {
    throw InputError(where, fmt::format("{}: a step has one key, this one has {}", program.thing(), node.size()),
                     "one step does one thing: - load: {…}");
  }
  const StepRow& row = *row_named(node.begin()->first.Scalar());
  if (row.spec.keys.empty() || !step.node(row.name).IsMap()) return compile(program, {row, step, where});
  const MapReader map = program.body(step, row.name, row.spec);
  // A step that can be written without a map has its place, in either form, where its name stands.
  compile(program, {row, map, (row.kinds & ~kMap) != 0 ? where : map.where()});
}

CompiledProgram compile_program(const YAML::Node& steps, const std::string& file, const arch::KernelRecord& kernel,
                                const std::vector<MemoryRegion>& regions, const LaunchTargets& targets,
                                TextBudget& budget) {
  ProgramBuilder program(file, kernel, regions, targets, budget);
  program.block(steps, program.thing() + ", program");
  return program.finish(position(steps, file));
}

}  // namespace heddle::program
