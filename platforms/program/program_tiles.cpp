// The steps of a program that multiply matrices.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/suggest.h"
#include "common/yaml_util.h"
#include "program/program_compiler.h"
#include "program/program_values.h"
#include "scenario/scenario_tensors.h"

namespace heddle::workload {
namespace {

using arch::OpCode;
using arch::ValueType;

constexpr std::uint32_t kMaxTileDepth = 4096;  // k

std::uint32_t columns(const MapReader& map) {
  const auto n = map.number<std::uint32_t>("n", {Unit::count, 8, arch::kMaxTileColumns});
  if (n % 8 != 0) map.fail("n", "a multiple of 8 is expected");
  return n;
}

std::uint32_t pitch(const MapReader& map, const char* key, std::uint32_t otherwise) {
  return map.has(key) ? map.number<std::uint32_t>(key, {Unit::bytes, 2}) : otherwise;
}

// f32, f16 or bf16, as far as `among` has them.
ValueType tile_type(const MapReader& map, ValueType otherwise, const std::vector<ValueType>& among) {
  if (!map.has("type")) return otherwise;
  std::vector<std::string> names;
  for (const ValueType type : among) {
    if (map.text("type") == arch::type_name(type)) return type;
    names.emplace_back(arch::type_name(type));
  }
  throw InputError(map.where("type"), fmt::format("{}, type: {} is not possible here", map.thing(), map.text("type")),
                   suggestion(map.text("type"), names));
}

}  // namespace

// The map's keys are names of the author's.
void ProgramCompiler::accumulators(const MapReader& step) {
  for (const auto& entry : step.node("accumulators")) {
    const MapReader map(entry.second, accumulators_spec(), fmt::format("{}, accumulators", thing_), file_);
    names_.accumulators(entry.first.Scalar(), columns(map), position(entry.first, file_));
  }
}

void ProgramCompiler::zero(const MapReader& step) {
  const std::string name = step.name("zero");
  const arch::RegisterRange range = names_.accumulators(name, 0, step.where("zero")).range();
  ProgramStep made = make(StepKind::zero, OpCode::compute, arch::Unit::int32, "zero " + name, step.where());
  made.count = range.count;
  made.destination = range.first;
  made.demand.writes.push_back(range);
  add(std::move(made));
}

void ProgramCompiler::matmul(const MapReader& step) {
  const MapReader map = body(step, "matmul", matmul_step_spec());
  const std::string name = map.name("into");
  ProgramStep made = make(StepKind::operation, OpCode::matmul, arch::Unit::tensor, "matmul " + name, map.where());
  const Accumulators into = names_.accumulators(name, map.has("n") ? columns(map) : 0, map.where("into"));
  arch::MatmulTile& tile = made.tile;
  tile.type = tile_type(map, ValueType::f16, {ValueType::f16, ValueType::bf16});
  tile.n = into.n;
  tile.k = map.number<std::uint32_t>("k", {Unit::count, 16, kMaxTileDepth});
  if (tile.k % 16 != 0) map.fail("k", "a multiple of 16 is expected");
  tile.b_transposed = map.has("b_transposed") && map.flag("b_transposed");
  tile.a_pitch = pitch(map, "a_pitch", 2 * tile.k);
  tile.b_pitch = pitch(map, "b_pitch", 2 * (tile.b_transposed ? tile.k : tile.n));
  if (tile.a_pitch % 2 != 0) map.fail("a_pitch", "elements have 2 bytes: an even number is expected");
  if (tile.b_pitch % 2 != 0) map.fail("b_pitch", "elements have 2 bytes: an even number is expected");
  tile.a_swizzle = read_swizzle(map, "a_swizzle");
  tile.b_swizzle = read_swizzle(map, "b_swizzle");
  made.at = uniform(map, "a");
  made.to = uniform(map, "b");
  made.destination = into.first;
  made.demand.accumulators = into.range();
  add(std::move(made));
}

// One store per pair of registers: they lie side by side in a row (MatmulTile).
void ProgramCompiler::store_tile(const MapReader& step) {
  const MapReader map = body(step, "store_tile", store_tile_step_spec());
  const std::string name = map.name("from");
  const Accumulators from = names_.accumulators(name, 0, map.where("from"));
  ProgramStep pattern = make(StepKind::operation, OpCode::store, arch::Unit::memory, "store_tile " + name, map.where());
  pattern.element = tile_type(map, ValueType::f32, {ValueType::f32, ValueType::f16, ValueType::bf16});
  pattern.width = static_cast<std::uint8_t>(2 * arch::bytes_of(pattern.element));
  pattern.at = uniform(map, "at");
  pattern.pitch = pitch(map, "pitch", from.n * arch::bytes_of(pattern.element));
  space(map, pattern);
  for (std::uint32_t i = 0; i < from.range().count; i += 2) {
    ProgramStep made = pattern;
    const auto first = static_cast<std::uint16_t>(from.first + i);
    made.tile_row = 8 * (i / 2 % 2);
    made.tile_column = 8 * (i / 4);
    for (const std::uint16_t reg : {first, static_cast<std::uint16_t>(first + 1)}) {
      made.values.push_back({kNoExpression, {reg, 0, 4, ValueType::f32}});
    }
    made.demand.reads.push_back({first, 2});
    add(std::move(made));
  }
}

}  // namespace heddle::workload
