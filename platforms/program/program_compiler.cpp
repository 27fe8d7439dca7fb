#include "program/program_compiler.h"

#include <fmt/format.h>

#include "common/suggest.h"
#include "common/yaml_util.h"
#include "program/program_builder.h"
#include "program/step_table.h"

namespace heddle::program {

using namespace workload;
namespace {

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
                                const std::vector<MemoryRegion>& regions, const LaunchTargets& targets) {
  ProgramBuilder program(file, kernel, regions, targets);
  program.block(steps, program.thing() + ", program");
  return program.finish(position(steps, file));
}

}  // namespace heddle::program
