// Steps that compute, and those that read and write memory.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "arch/tensor_data.h"
#include "common/yaml_util.h"
#include "program/program_values.h"
#include "program/step_table.h"

namespace heddle::program {
namespace {

using arch::OpCode;
using arch::Order;
using arch::ValueType;

arch::Unit unit_of(ValueType type) {
  if (type == ValueType::f64) return arch::Unit::fp64;
  return is_float(type) ? arch::Unit::fp32 : arch::Unit::int32;
}

const char* space_name(arch::Space space) {
  constexpr const char* kNames[] = {"global", "shared", "cluster", "local"};
  return kNames[static_cast<std::size_t>(space)];
}

std::optional<ValueType> pair_type(const std::string& name) {
  if (name == arch::type_name(ValueType::f16x2)) return ValueType::f16x2;
  if (name == arch::type_name(ValueType::bf16x2)) return ValueType::bf16x2;
  return std::nullopt;
}

// `at`, `space` and `rank` of an access.
void place(ProgramBuilder& program, const MapReader& map, ProgramStep& step) {
  step.at = program.expression(map, "at");
  program.read(step, step.at);
  step.fields |= kAddress;
  step.space = read_space(map);
  const bool cluster = step.space == arch::Space::cluster;
  if (cluster != map.has("rank")) {
    throw InputError(cluster ? map.where() : map.where("rank"),
                     fmt::format("{}: rank {}", map.thing(), cluster ? "is missing" : "has no meaning"),
                     "`space: cluster` needs it, and nothing else has it: the CTA whose shared memory it is");
  }
  if (!cluster) return;
  step.rank = program.expression(map, "rank");
  program.read(step, step.rank);
}

// What a thread keeps for itself (PRT-06).
void check_local(const ProgramBuilder& program, const MapReader& map, const ProgramStep& step) {
  if (step.space != arch::Space::local) return;
  if (program.kernel().local_bytes == 0) {
    throw InputError(map.where("space"), fmt::format("{}: the kernel has no local memory", map.thing()),
                     "say how much a thread has: `local` of the kernel, e.g. local: 64 B");
  }
  for (const char* key : {"order", "scope"}) {
    if (!map.has(key)) continue;
    throw InputError(map.where(key), fmt::format("{}: {} has no meaning with space: local", map.thing(), key),
                     "nobody else sees the memory of a thread");
  }
}

// `complete` of an asynchronous store or reduction.
void completion(ProgramBuilder& program, const MapReader& map, ProgramStep& step) {
  if (!map.has("complete")) return;
  const bool returns = map.known("to") && map.has("to");
  if (step.space != arch::Space::cluster || returns) {
    throw InputError(map.where("complete"), fmt::format("{}: complete has no meaning", map.thing()),
                     "stores with `space: cluster`, and reductions, which have no `to`, complete bytes at an mbarrier");
  }
  step.to = program.uniform(map, "complete");
  step.fields |= kBarrier;
  step.completes = true;
}

void ordering(const MapReader& map, ProgramStep& step, Order otherwise) {
  step.order = map.has("order") ? chosen(map, "order", Order::acquire_release, arch::order_name) : otherwise;
  if (map.has("scope")) step.scope = chosen(map, "scope", arch::Scope::system, arch::scope_name);
}

// Bytes of `count` values of the type.
std::uint8_t width(const MapReader& map, const char* key, ValueType type, std::size_t count) {
  const std::size_t bytes = arch::bytes_of(type) * count;
  if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) {
    map.fail(key, fmt::format("{} values of {} are {} bytes; an access has 1, 2, 4, 8 or 16", count,
                              arch::type_name(type), bytes));
  }
  return static_cast<std::uint8_t>(bytes);
}

std::uint32_t columns(const MapReader& map) {
  const std::uint32_t n = map.count("n");
  if (n % 8 != 0) map.fail("n", "a multiple of 8 is expected");
  return n;
}

std::uint32_t pitch(const MapReader& map, const char* key, std::uint32_t otherwise) {
  return map.has(key) ? map.number<std::uint32_t>(key, {Unit::bytes, 2}) : otherwise;
}

ValueType tile_type(const MapReader& map, ValueType otherwise) {
  return map.has("type") ? chosen(map, "type", ValueType::f64, arch::type_name) : otherwise;
}

}  // namespace

arch::Space read_space(const MapReader& map) {
  return map.has("space") ? chosen(map, "space", arch::Space::local, space_name) : arch::Space::global;
}

// The map holds a name of the author's beside its own keys, so no table describes it.
void compile_set(ProgramBuilder& program, const StepSource& source) {
  const MapReader& step = source.map;
  const YAML::Node node = step.node("set");
  const std::string thing = program.thing() + ", set";
  std::string name;
  YAML::Node value_node;
  for (const auto& entry : node) {
    const std::string& key = entry.first.Scalar();
    if (key == "type" || key == "unit") continue;
    if (!name.empty()) {
      throw InputError(position(entry.first, program.file()),
                       fmt::format("{}: both {} and {} are set", thing, name, key),
                       "one step sets one name: - set: {x: 1, type: f32}");
    }
    name = key;
    value_node.reset(entry.second);
  }
  if (name.empty()) {
    throw InputError(step.where(), fmt::format("{}: the name is missing", thing), "as in: set: {x: 1, type: f32}");
  }
  const MapReader map(node, set_spec(), thing, program.file(), name);

  ProgramStep made = program.make(StepKind::set, OpCode::compute, "set " + name, step.where());
  made.values.push_back(program.value(step, "set", value_node));
  program.read(made, made.values.front());
  if (!map.has("type") && program.names().variable(name) == nullptr) {
    throw InputError(step.where(), fmt::format("{}: {} is new, and its type is missing", thing, name),
                     fmt::format("as in: set: {{{}: 1, type: f32}}", name));
  }
  const ValueType type = program.type(map, name);
  made.variable = program.names().one(name, type, step.where());
  made.demand.unit = map.has("unit") ? chosen(map, "unit", arch::Unit::memory, arch::unit_name) : unit_of(type);
  made.demand.writes.push_back(made.variable.range());
  if (made.variable.together > arch::bytes_of(type)) made.demand.reads.push_back(made.variable.range());
  made.destination = made.variable.first;
  made.width = arch::bytes_of(type) == 8 ? 8 : 4;
  program.add(std::move(made));
}

void compile_load(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::vector<std::string> to = ProgramBuilder::name_list(map, "to");
  ProgramStep made =
      program.make(StepKind::operation, OpCode::load, fmt::format("load {}", fmt::join(to, ", ")), map.where());
  place(program, map, made);
  check_local(program, map, made);
  ordering(map, made, Order::weak);
  const ValueType type = program.type(map, to.front());
  if (map.has("combine")) {
    made.combines = true;
    made.atomic = chosen(map, "combine", arch::AtomicKind::decrement, arch::atomic_name);
    made.type = type;
    if (made.space != arch::Space::global) map.fail("combine", "only global memory of a group is combined");
    if (!arch::reduction_exists(made.atomic, type, false)) {
      map.fail("combine", fmt::format("there is no {} for {}", map.text("combine"), arch::type_name(type)));
    }
  }
  made.width = width(map, "to", type, to.size());
  made.destination = program.names().together(to, type, map.where("to")).front().first;
  made.demand.writes.push_back({made.destination, static_cast<std::uint16_t>(std::max(1, made.width / 4))});
  program.add(std::move(made));
}

void compile_store(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::vector<YAML::Node> items = map.items("value");
  if (items.empty()) map.fail("value", "the list is empty");
  const std::string name = items.front().IsScalar() ? items.front().Scalar() : std::string();
  ProgramStep made = program.make(
      StepKind::operation, OpCode::store,
      items.size() == 1 && program.names().variable(name) != nullptr ? "store " + name : "store", map.where());
  for (const YAML::Node& item : items) made.values.push_back(program.value(map, "value", item));
  for (const ProgramValue& item : made.values) program.read(made, item);
  made.fields |= kStored;
  place(program, map, made);
  check_local(program, map, made);
  completion(program, map, made);
  ordering(map, made, Order::weak);
  made.element = program.type(map, name);
  made.width = width(map, "value", made.element, items.size());
  program.add(std::move(made));
}

void compile_atomic(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  using arch::AtomicKind;
  ProgramStep made = program.make(StepKind::operation, OpCode::atomic, "atomic " + map.text("op"), map.where());
  made.atomic = chosen(map, "op", AtomicKind::decrement, arch::atomic_name);
  const std::optional<ValueType> pair = map.has("type") ? pair_type(map.text("type")) : std::nullopt;
  made.element = !pair ? program.type(map, map.node("value").IsScalar() ? map.text("value") : std::string())
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
  for (const YAML::Node& item : items) made.values.push_back(program.value(map, "value", item));
  const bool compares = made.atomic == AtomicKind::compare_exchange;
  if (compares != map.has("compare")) {
    throw InputError(map.where(),
                     fmt::format("{}: compare {}", map.thing(), compares ? "is missing" : "has no meaning"),
                     "compare_exchange needs it, and nothing else has it");
  }
  if (compares) {
    made.fields |= kCompared;
    made.compare = program.value(map, "compare", map.node("compare"));
    program.read(made, made.compare);
  }
  for (const ProgramValue& item : made.values) program.read(made, item);
  made.fields |= kStored;
  place(program, map, made);
  completion(program, map, made);
  ordering(map, made, Order::relaxed);
  if (map.has("to")) {
    const std::vector<std::string> to = ProgramBuilder::name_list(map, "to");
    if (to.size() != count) map.fail("to", fmt::format("{} are expected, found {}", count, to.size()));
    made.destination = program.names().together(to, made.element, map.where("to")).front().first;
    made.demand.writes.push_back({made.destination, static_cast<std::uint16_t>(made.width / 4)});
  }
  program.add(std::move(made));
}

void compile_compute(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  ProgramStep made = program.make(StepKind::operation, OpCode::compute, "compute", map.where());
  made.demand.unit = chosen(map, "unit", arch::Unit::memory, arch::unit_name);
  if (map.has("count")) made.count = map.count("count");
  if (map.has("latency")) made.latency = map.number<std::uint32_t>("latency", {Unit::cycles, 0, 1'000'000});
  program.add(std::move(made));
}

void compile_special(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::string name = map.text("to");
  ProgramStep made = program.make(StepKind::operation, OpCode::special, "special " + name, map.where());
  made.special =
      chosen(map, "register", static_cast<arch::SpecialRegister>(arch::kSpecialRegisters - 1), arch::special_name);
  const ValueType type = map.has("type") ? chosen(map, "type", ValueType::f64, arch::type_name) : ValueType::u32;
  made.width = static_cast<std::uint8_t>(arch::bytes_of(type));
  const ProgramVariable variable = program.names().together({name}, type, map.where("to")).front();
  made.destination = variable.first;
  made.demand.writes.push_back(variable.range());
  program.add(std::move(made));
}

void compile_copy_async(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  ProgramStep made = program.make(StepKind::operation, OpCode::async_copy, "copy_async", map.where());
  made.fields = kCopied;
  made.at = program.expression(map, "from");
  made.to = program.expression(map, "to");
  program.read(made, made.at);
  program.read(made, made.to);
  const auto bytes = map.number<std::uint32_t>("bytes", {Unit::bytes, 4, 16});
  if (bytes != 4 && bytes != 8 && bytes != 16) map.fail("bytes", "4, 8 or 16 are possible");
  made.width = static_cast<std::uint8_t>(bytes);
  program.add(std::move(made));
}

// Where a field of a descriptor lies, as docs/tmau.md has it: arch::encode() is the other place that says so.
void compile_replace(ProgramBuilder& program, const StepSource& source) {
  struct DescriptorField {
    const char* name;
    std::uint32_t at;
    std::uint32_t bytes;
    bool each;  // dimension has one
  };
  constexpr DescriptorField kFields[] = {
      {"address", 8, 8, false},    {"rank", 4, 1, false},  {"type", 3, 1, false},   {"interleave", 6, 1, false},
      {"swizzle", 7, 1, false},    {"size", 16, 8, true},  {"stride", 56, 8, true}, {"box", 96, 2, true},
      {"traversal", 110, 1, true}, {"fill", 115, 1, false}};
  const MapReader& map = source.map;
  const std::string word = map.choice("field");
  const DescriptorField& field = *std::find_if(std::begin(kFields), std::end(kFields),
                                               [&word](const DescriptorField& known) { return word == known.name; });
  if (field.each != map.has("dimension")) {
    throw InputError(map.where(),
                     fmt::format("{}: dimension {}", map.thing(), field.each ? "is missing" : "has no meaning"),
                     "size, stride, box and traversal have one, and nothing else has it");
  }
  const std::uint32_t dimension = field.each ? map.number<std::uint32_t>("dimension", {Unit::count, 0, 4}) : 0;
  ProgramStep made = program.make(StepKind::operation, OpCode::store, "replace_tensor " + word, map.where());
  made.values.push_back(program.value(map, "value", map.node("value")));
  program.read(made, made.values.front());
  made.fields |= kStored | kAddress;
  const YAML::Node place(fmt::format("({}) + {}", map.text("tensor"), field.at + dimension * field.bytes));
  made.at = program.expression(map, "tensor", place);
  program.read(made, made.at);
  made.space = read_space(map);
  made.element = field.bytes == 8 ? ValueType::u64 : field.bytes == 2 ? ValueType::u16 : ValueType::u8;
  made.width = static_cast<std::uint8_t>(field.bytes);
  program.add(std::move(made));
}

// Steps that multiply matrices.

arch::Swizzle read_swizzle(const MapReader& map, const char* key) {
  return map.has(key) ? chosen(map, key, arch::Swizzle::bytes128_atom64, arch::swizzle_name) : arch::Swizzle::none;
}

// The map's keys are names of the author's.
void compile_accumulators(ProgramBuilder& program, const StepSource& source) {
  for (const auto& entry : source.map.node("accumulators")) {
    const MapReader map(entry.second, accumulators_spec(), fmt::format("{}, accumulators", program.thing()),
                        program.file());
    program.names().accumulators(entry.first.Scalar(), columns(map), position(entry.first, program.file()));
  }
}

void compile_zero(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::string name = map.name("zero");
  const arch::RegisterRange range = program.names().accumulators(name, 0, map.where("zero")).range();
  ProgramStep made = program.make_control(StepKind::zero, "zero " + name, map.where());
  made.count = range.count;
  made.destination = range.first;
  made.demand.writes.push_back(range);
  program.add(std::move(made));
}

void compile_matmul(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::string name = map.name("into");
  const OpCode code = map.has("async") && map.flag("async") ? OpCode::matmul_async : OpCode::matmul;
  ProgramStep made = program.make(StepKind::operation, code, "matmul " + name, map.where());
  const Accumulators into = program.names().accumulators(name, map.has("n") ? columns(map) : 0, map.where("into"));
  arch::MatmulTile& tile = made.tile;
  tile.type = tile_type(map, ValueType::f16);
  tile.n = into.n;
  tile.k = map.count("k");
  if (tile.k % 16 != 0) map.fail("k", "a multiple of 16 is expected");
  tile.b_transposed = map.has("b_transposed") && map.flag("b_transposed");
  tile.a_pitch = pitch(map, "a_pitch", 2 * tile.k);
  tile.b_pitch = pitch(map, "b_pitch", 2 * (tile.b_transposed ? tile.k : tile.n));
  if (tile.a_pitch % 2 != 0) map.fail("a_pitch", "elements have 2 bytes: an even number is expected");
  if (tile.b_pitch % 2 != 0) map.fail("b_pitch", "elements have 2 bytes: an even number is expected");
  const auto group = [&map](const char* key, std::optional<std::uint32_t>& to) {
    if (!map.has(key)) return;
    to = pitch(map, key, 0);
    if (*to % 2 != 0) map.fail(key, "elements have 2 bytes: an even number is expected");
  };
  group("a_group", tile.a_group);
  group("b_group", tile.b_group);
  tile.a_swizzle = read_swizzle(map, "a_swizzle");
  tile.b_swizzle = read_swizzle(map, "b_swizzle");
  made.fields = kTile;
  made.at = program.uniform(map, "a");
  made.to = program.uniform(map, "b");
  made.destination = into.first;
  made.demand.accumulators = into.range();
  program.add(std::move(made));
}

// One store per pair of registers: they lie side by side in a row (MatmulTile).
void compile_store_tile(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::string name = map.name("from");
  const Accumulators from = program.names().accumulators(name, 0, map.where("from"));
  ProgramStep pattern = program.make(StepKind::operation, OpCode::store, "store_tile " + name, map.where());
  pattern.element = tile_type(map, ValueType::f32);
  pattern.width = static_cast<std::uint8_t>(2 * arch::bytes_of(pattern.element));
  pattern.at = program.uniform(map, "at");
  pattern.pitch = pitch(map, "pitch", from.n * arch::bytes_of(pattern.element));
  pattern.space = read_space(map);
  pattern.fields = kAddress | kStored;
  for (std::uint32_t i = 0; i < from.range().count; i += 2) {
    ProgramStep made = pattern;
    const auto first = static_cast<std::uint16_t>(from.first + i);
    made.tile_row = 8 * (i / 2 % 2);
    made.tile_column = 8 * (i / 4);
    for (const std::uint16_t reg : {first, static_cast<std::uint16_t>(first + 1)}) {
      made.values.push_back({std::nullopt, {reg, 0, 4, ValueType::f32}});
    }
    made.demand.reads.push_back({first, 2});
    program.add(std::move(made));
  }
}

}  // namespace heddle::program
