// Steps that multiply matrices.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/yaml_util.h"
#include "program/program_values.h"
#include "program/step_table.h"

namespace heddle::program {
namespace {

using arch::OpCode;
using arch::ValueType;

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

arch::Swizzle read_swizzle(const MapReader& map, const char* key) {
  return map.has(key) ? chosen(map, key, arch::Swizzle::bytes128, arch::swizzle_name) : arch::Swizzle::none;
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
  ProgramStep made = program.make(StepKind::operation, OpCode::matmul, "matmul " + name, map.where());
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
      made.values.push_back({kNoExpression, {reg, 0, 4, ValueType::f32}});
    }
    made.demand.reads.push_back({first, 2});
    program.add(std::move(made));
  }
}

}  // namespace heddle::program
