// What a program is put together with: it holds the steps, expressions and names made so far, and adds to them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/task_record.h"
#include "program/map_reader.h"
#include "program/program_names.h"
#include "program/program_parts.h"
#include "program/scenario_program.h"
#include "workload/workload.h"

namespace heddle::program {

// All functions that read the file throw InputError with file and line for whatever is wrong there.
class ProgramBuilder {
 public:
  // All arguments must outlive the builder.
  ProgramBuilder(const std::string& file, const arch::KernelRecord& kernel,
                 const std::vector<workload::MemoryRegion>& regions, const LaunchTargets& targets, TextBudget& budget);

  // The program, which ends here. The builder is used up.
  CompiledProgram finish(const SourcePos& where);

  const std::string& file() const { return file_; }
  const std::string& thing() const { return thing_; }  // "kernel gemm"
  const arch::KernelRecord& kernel() const { return kernel_; }
  ProgramNames& names() { return names_; }

  // Compiles a list of steps; names that it makes end with it. `thing`: what messages call the list.
  void block(const YAML::Node& steps, const std::string& thing);

  // The map behind the one key of a step.
  MapReader body(const MapReader& step, const char* key, const MapSpec& spec) const;

  // A new step with its code, its unit and its text; it is part of the program once it has been added.
  ProgramStep make(StepKind kind, arch::OpCode code, const std::string& text, const SourcePos& where) const;
  // Control flow: where it costs an instruction, one on int32.
  ProgramStep make_control(StepKind kind, const std::string& text, const SourcePos& where) const;
  // What messages call the step: "load x (line 12)".
  static void describe(ProgramStep& step, const std::string& text, const SourcePos& where);
  std::uint32_t add(ProgramStep step);
  std::uint32_t add(BulkStep request);
  std::uint32_t add(ChildStep child);
  std::uint32_t here() const { return static_cast<std::uint32_t>(parts_.steps.size()); }
  // The jump of that step goes here.
  void jump_here(std::uint32_t step) { parts_.steps[step].target = here(); }

  // The kernel that `key` names, which the program launches.
  const LaunchTarget& launched(const MapReader& map, const char* key);

  // Expressions, by their number. `uniform`: one that must be the same for all lanes.
  std::uint32_t expression(const MapReader& map, const char* key, const YAML::Node& node);
  std::uint32_t expression(const MapReader& map, const char* key) { return expression(map, key, map.node(key)); }
  std::uint32_t uniform(const MapReader& map, const char* key);
  std::uint32_t constant(double value);
  const ProgramExpression& at(std::uint32_t expression) const { return parts_.expressions[expression]; }
  // What a name that stands for the last expression means; nothing evaluates it any more.
  NamedValue take_named(std::uint32_t expression);
  ProgramValue value(const MapReader& map, const char* key, const YAML::Node& node);
  // The registers that the expression reads become part of the demand.
  void read(ProgramStep& step, std::uint32_t expression) const;
  void read(ProgramStep& step, const ProgramValue& value) const;

  // The names behind `key`, one or more.
  static std::vector<std::string> name_list(const MapReader& map, const char* key);
  // The type that the map names, or that the variable has that is meant.
  arch::ValueType type(const MapReader& map, const std::string& variable) const;

 private:
  const std::string& file_;
  const arch::KernelRecord& kernel_;
  const LaunchTargets& targets_;
  TextBudget& budget_;
  const std::string thing_;
  std::set<std::string> launched_;
  ProgramParts parts_;
  ProgramNames names_;
  std::uint32_t depth_ = 0;
};

}  // namespace heddle::program
