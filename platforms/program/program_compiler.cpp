#include "program/program_compiler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/suggest.h"
#include "common/yaml_util.h"
#include "program/expression_shape.h"

namespace heddle::workload {
namespace {

using arch::OpCode;

constexpr std::uint32_t kMaxSteps = 20'000;
constexpr std::uint32_t kMaxDepth = 16;  // of lists in one another

// Steps that are written as a word alone.
constexpr const char* kWords[] = {"barrier",     "commit_async", "cluster_barrier", "cluster_arrive", "cluster_wait",
                                  "commit_bulk", "drain_bulk",   "fence_tensor",    "wait_children",  "exit"};
// Those that are never written otherwise.
constexpr const char* kBareWords[] = {"commit_async", "cluster_barrier", "commit_bulk",
                                      "drain_bulk",   "wait_children",   "exit"};

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

CompiledProgram compile_program(const YAML::Node& steps, const std::string& file, const arch::KernelRecord& kernel,
                                const std::vector<MemoryRegion>& regions, const LaunchTargets& targets) {
  return ProgramCompiler(file, kernel, regions, targets).compile(steps);
}

ProgramCompiler::ProgramCompiler(const std::string& file, const arch::KernelRecord& kernel,
                                 const std::vector<MemoryRegion>& regions, const LaunchTargets& targets)
    : file_(file),
      kernel_(kernel),
      targets_(targets),
      thing_("kernel " + kernel.name),
      names_(kernel, regions, parts_) {}

CompiledProgram ProgramCompiler::compile(const YAML::Node& steps) {
  block(steps, thing_ + ", program");
  add(make(StepKind::finish, OpCode::exit, arch::Unit::none, "end", position(steps, file_)));
  parts_.registers = names_.registers();
  return {std::make_shared<ScenarioProgram>(std::move(parts_)), names_.regions_used(), launched_};
}

void ProgramCompiler::block(const YAML::Node& steps, const std::string& thing) {
  if (!steps.IsSequence() || steps.size() == 0) {
    throw InputError(position(steps, file_), fmt::format("{}: a list of steps is expected", thing),
                     "as in: [{load: …}, {store: …}]");
  }
  if (++depth_ > kMaxDepth) {
    throw InputError(position(steps, file_), fmt::format("{}: more than {} lists in one another", thing, kMaxDepth));
  }
  names_.open();
  for (const auto& node : steps) one_step(node);
  names_.close();
  --depth_;
}

void ProgramCompiler::refuse_keys(const YAML::Node& node) const {
  for (const char* word : kBareWords) {
    if (!node[word]) continue;
    throw InputError(position(node, file_), fmt::format("{}: the step {} takes no keys", thing_, word),
                     fmt::format("write the word alone: - {}", word));
  }
}

void ProgramCompiler::one_step(const YAML::Node& node) {
  const SourcePos where = position(node, file_);
  if (node.IsScalar()) {
    const std::string& word = node.Scalar();
    if (word == "barrier") return simple(OpCode::barrier, word, where, 0);
    if (word == "commit_async") return simple(OpCode::async_commit, word, where, 1);
    if (word == "commit_bulk") return simple(OpCode::bulk_commit, word, where, 1);
    if (word == "drain_bulk") return drain_bulk(word, where);
    if (word == "fence_tensor") return fence_tensors(word, where);
    if (word == "cluster_barrier") return cluster_barrier(word, where);
    if (word == "cluster_arrive") return cluster_step(OpCode::cluster_arrive, word, where, arch::Order::release);
    if (word == "cluster_wait") return cluster_step(OpCode::cluster_wait, word, where, arch::Order::acquire);
    if (word == "wait_children") return wait_children(word, where);
    if (word == "exit") {
      ProgramStep step = make(StepKind::leave, OpCode::compute, arch::Unit::int32, word, where);
      add(std::move(step));
      return;
    }
    throw InputError(where, fmt::format("{}: there is no step {}", thing_, word),
                     suggestion(word, {std::begin(kWords), std::end(kWords)}));
  }
  if (node.IsMap() && node.size() == 1) refuse_keys(node);
  const MapReader step(node, step_spec(), thing_ + ", step", file_);
  if (node.size() != 1) {
    throw InputError(where, fmt::format("{}: a step has one key, this one has {}", thing_, node.size()),
                     "one step does one thing: - load: {…}");
  }
  static const std::vector<std::pair<const char*, void (ProgramCompiler::*)(const MapReader&)>> kSteps{
      {"let", &ProgramCompiler::let},
      {"set", &ProgramCompiler::set},
      {"load", &ProgramCompiler::load},
      {"store", &ProgramCompiler::store},
      {"atomic", &ProgramCompiler::atomic},
      {"compute", &ProgramCompiler::compute},
      {"special", &ProgramCompiler::special},
      {"copy_async", &ProgramCompiler::copy_async},
      {"barrier", &ProgramCompiler::barrier},
      {"fence", &ProgramCompiler::fence},
      {"cluster_arrive", &ProgramCompiler::cluster_arrive},
      {"cluster_wait", &ProgramCompiler::cluster_wait},
      {"mbarrier_init", &ProgramCompiler::mbarrier_init},
      {"mbarrier_invalidate", &ProgramCompiler::mbarrier_invalidate},
      {"mbarrier_arrive", &ProgramCompiler::mbarrier_arrive},
      {"mbarrier_expect", &ProgramCompiler::mbarrier_expect},
      {"mbarrier_complete", &ProgramCompiler::mbarrier_complete},
      {"mbarrier_wait", &ProgramCompiler::mbarrier_wait},
      {"mbarrier_test", &ProgramCompiler::mbarrier_test},
      {"release_shared", &ProgramCompiler::release_shared},
      {"tensor_load", &ProgramCompiler::tensor_load},
      {"tensor_store", &ProgramCompiler::tensor_store},
      {"tensor_reduce", &ProgramCompiler::tensor_reduce},
      {"tensor_prefetch", &ProgramCompiler::tensor_prefetch},
      {"bulk_load", &ProgramCompiler::bulk_load},
      {"bulk_store", &ProgramCompiler::bulk_store},
      {"bulk_reduce", &ProgramCompiler::bulk_reduce},
      {"bulk_prefetch", &ProgramCompiler::bulk_prefetch},
      {"bulk_copy", &ProgramCompiler::bulk_copy},
      {"bulk_send", &ProgramCompiler::bulk_send},
      {"wait_bulk", &ProgramCompiler::wait_bulk},
      {"fence_tensor", &ProgramCompiler::fence_tensor},
      {"launch", &ProgramCompiler::launch},
      {"stream_create", &ProgramCompiler::stream_create},
      {"stream_destroy", &ProgramCompiler::stream_destroy},
      {"append", &ProgramCompiler::append},
      {"accumulators", &ProgramCompiler::accumulators},
      {"zero", &ProgramCompiler::zero},
      {"matmul", &ProgramCompiler::matmul},
      {"store_tile", &ProgramCompiler::store_tile},
      {"loop", &ProgramCompiler::loop},
      {"while", &ProgramCompiler::while_loop},
      {"if", &ProgramCompiler::branch},
      {"roles", &ProgramCompiler::roles},
  };
  for (const auto& [key, member] : kSteps) {
    if (step.has(key)) return (this->*member)(step);
  }
  const std::uint32_t open = step.number<std::uint32_t>("wait_async", {Unit::count, 0, 1'000'000});
  simple(OpCode::async_wait, "wait_async", where, open);
}

MapReader ProgramCompiler::body(const MapReader& step, const char* key, const MapSpec& spec) const {
  return MapReader(step.node(key), spec, fmt::format("{}, {}", thing_, key), file_);
}

ProgramStep ProgramCompiler::make(StepKind kind, OpCode code, arch::Unit unit, const std::string& text,
                                  const SourcePos& where) const {
  ProgramStep step;
  step.kind = kind;
  step.code = code;
  step.demand.code = code;
  step.demand.unit = unit;
  step.text = fmt::format("{} (line {})", text, where.line);
  return step;
}

std::uint32_t ProgramCompiler::add(ProgramStep step) {
  if (here() == kMaxSteps) {
    throw InputError(SourcePos{file_, 0, 0}, fmt::format("{}: the program has more than {} steps", thing_, kMaxSteps),
                     "use loops");
  }
  parts_.steps.push_back(std::move(step));
  return here() - 1;
}

void ProgramCompiler::let(const MapReader& step) {
  for (const auto& entry : step.node("let")) {
    const std::string& name = entry.first.Scalar();
    const std::uint32_t index = expression(step, "let", entry.second);
    NamedValue value = parts_.expressions[index].expression.named();
    // Nothing evaluates it: it goes into the expressions that name it.
    parts_.expressions.pop_back();
    names_.let(name, position(entry.first, file_), std::move(value));
  }
}

// The counter and its limit stand in two scalars.
void ProgramCompiler::loop(const MapReader& step) {
  const MapReader map = body(step, "loop", loop_spec());
  ProgramStep begin = make(StepKind::loop_begin, OpCode::compute, arch::Unit::int32, "loop", map.where());
  begin.at = map.has("from") ? uniform(map, "from") : constant(0);
  begin.to = uniform(map, "to");
  if (map.has("step")) begin.increment = map.number<std::int64_t>("step", {Unit::none, -1'000'000'000, 1'000'000'000});
  if (begin.increment == 0) map.fail("step", "a loop with step 0 never ends");
  names_.open();
  begin.scalar = names_.loop(map.name("var"), map.where("var"));
  ProgramStep end = make(StepKind::loop_end, OpCode::compute, arch::Unit::int32, "loop", map.where());
  end.scalar = begin.scalar;
  end.increment = begin.increment;
  const std::uint32_t at = add(std::move(begin));
  end.target = at + 1;
  block(map.node("do"), map.thing() + ", do");
  names_.close();
  add(std::move(end));
  parts_.steps[at].target = here();
}

void ProgramCompiler::while_loop(const MapReader& step) {
  const MapReader map = body(step, "while", while_spec());
  ProgramStep begin = make(StepKind::while_begin, OpCode::compute, arch::Unit::int32, "while", map.where());
  begin.scalar = names_.scalars(1);
  ProgramStep test = make(StepKind::while_test, OpCode::compute, arch::Unit::int32, "while", map.where());
  test.scalar = begin.scalar;
  test.at = expression(map, "cond");
  test.free = false;  // so that no loop runs without an instruction
  read(test, test.at);
  ProgramStep back = make(StepKind::while_end, OpCode::compute, arch::Unit::int32, "while", map.where());
  add(std::move(begin));
  back.target = add(std::move(test));
  const std::uint32_t at = back.target;
  block(map.node("do"), map.thing() + ", do");
  add(std::move(back));
  parts_.steps[at].target = here();
}

void ProgramCompiler::branch(const MapReader& step) {
  const MapReader map = body(step, "if", if_spec());
  ProgramStep begin = make(StepKind::if_begin, OpCode::compute, arch::Unit::int32, "if", map.where());
  begin.at = expression(map, "cond");
  begin.free = is_uniform(begin.at);
  begin.scalar = names_.scalars(2);
  read(begin, begin.at);
  ProgramStep other = make(StepKind::if_else, OpCode::compute, arch::Unit::int32, "else", map.where());
  ProgramStep end = make(StepKind::if_end, OpCode::compute, arch::Unit::int32, "if", map.where());
  other.scalar = end.scalar = begin.scalar;
  const std::uint32_t at = add(std::move(begin));
  block(map.node("then"), map.thing() + ", then");
  const std::uint32_t middle = add(std::move(other));
  parts_.steps[at].target = middle;
  if (map.has("else")) block(map.node("else"), map.thing() + ", else");
  parts_.steps[middle].target = here();
  add(std::move(end));
}

void ProgramCompiler::roles(const MapReader& step) {
  // A block that large has no machine; the machine says so later.
  const std::uint64_t warps =
      std::min<std::uint64_t>((kernel_.block.count() + arch::kWarpLanes - 1) / arch::kWarpLanes, 1U << 30);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> taken;
  std::vector<std::uint32_t> jumps;
  for (const YAML::Node& node : step.items("roles")) {
    const MapReader map(node, role_spec(), thing_ + ", role", file_);
    const std::vector<YAML::Node> items = map.items("warps");
    if (items.empty() || items.size() > 2) map.fail("warps", "a warp, or the first and the last, are expected");
    const Limits<std::uint32_t> limits{Unit::none, 0, static_cast<std::uint32_t>(warps - 1)};
    const auto first = map.number<std::uint32_t>("warps", items.front(), limits);
    const auto last = map.number<std::uint32_t>("warps", items.back(), limits);
    if (first > last) map.fail("warps", "the first is behind the last");
    for (const auto& [from, to] : taken) {
      if (first <= to && from <= last) map.fail("warps", "a warp of these has another role already");
    }
    taken.emplace_back(first, last);
    ProgramStep role = make(StepKind::role, OpCode::compute, arch::Unit::int32, "role", map.where());
    role.first_warp = first;
    role.last_warp = last;
    const std::uint32_t at = add(std::move(role));
    block(map.node("do"), map.thing() + ", do");
    jumps.push_back(add(make(StepKind::jump, OpCode::compute, arch::Unit::int32, "role", map.where())));
    parts_.steps[at].target = here();
  }
  if (jumps.empty()) step.fail("roles", "the list is empty");
  for (const std::uint32_t jump : jumps) parts_.steps[jump].target = here();
}

std::uint32_t ProgramCompiler::expression(const MapReader& map, const char* key, const YAML::Node& node) {
  if (!node.IsScalar()) map.fail(key, node, fmt::format("an expression is expected, found {}", kind_text(node)));
  const SourcePos where = position(node, file_);
  try {
    Expression made(node.Scalar(), where, names_, parts_.values);
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

std::uint32_t ProgramCompiler::uniform(const MapReader& map, const char* key) {
  const std::uint32_t index = expression(map, key);
  if (!is_uniform(index)) {
    map.fail(key, fmt::format("\"{}\" differs between the lanes of a warp; it must be the same for all of them",
                              map.node(key).Scalar()));
  }
  return index;
}

std::uint32_t ProgramCompiler::constant(double value) {
  parts_.expressions.push_back({Expression(fmt::format("{}", value), {}, names_, parts_.values), {}, {}, false});
  return static_cast<std::uint32_t>(parts_.expressions.size() - 1);
}

void ProgramCompiler::read(ProgramStep& step, std::uint32_t expression) const {
  for (const BoundSlot& slot : parts_.expressions[expression].per_lane) {
    if (slot.source.source == SlotSource::variable) step.demand.reads.push_back(slot.source.variable.range());
  }
}

}  // namespace heddle::workload
