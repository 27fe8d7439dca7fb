// A kernel of a scenario as a program of operations (SM-02).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "arch/task_record.h"
#include "arch/warp_program.h"
#include "program/program_parts.h"
#include "workload/workload.h"

namespace heddle::program {

// Although issue() changes nothing that can be seen, it evaluates expressions in place: one program is used by one
// thread at a time. Read the scenario once more for another simulation that runs beside this one.
class ScenarioProgram : public arch::WarpProgram {
 public:
  explicit ScenarioProgram(ProgramParts parts) : parts_(std::move(parts)) {}

  std::uint32_t registers() const override { return parts_.registers; }
  bool launches() const override { return parts_.launches; }
  bool lets_dependents_go() const override { return parts_.lets_go; }
  bool stores_bulk() const override;
  arch::TmauNeeds tmau_needs() const override;
  // It has loads whose data go to several CTAs of a cluster.
  bool multicasts() const;
  // Bytes of arguments that it reads: as far as the last one at a fixed distance from `kernarg`. What it reads further
  // behind, at addresses that it works out, is not known.
  std::uint32_t argument_bytes() const;
  // Registers begin as zeros.
  void start(const arch::WarpPlace& place, arch::WarpState& state) const override;
  const arch::OperationNeeds& demand(const arch::WarpState& state) const override { return step(state).demand; }
  // A `set` writes its result to the registers here: nobody reads them before they are ready. Arrays of `operation`
  // that its code does not use, and entries of lanes that do not take part, keep what they held.
  void issue(const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) const override;
  std::string describe(const arch::WarpState& state) const override { return step(state).text; }

 private:
  const ProgramStep& step(const arch::WarpState& state) const { return parts_.steps[state.pc]; }
  // Goes on to the next step that is issued.
  void settle(const arch::WarpPlace& place, arch::WarpState& state) const;
  // Carries out the control flow at pc.
  void control(const arch::WarpPlace& place, arch::WarpState& state) const;
  void count(const arch::WarpPlace& place, arch::WarpState& state, const ProgramStep& now) const;

  ProgramParts parts_;
};

// From the steps of a scenario's `program:` to a program.

// A kernel that a program can launch: the address of its object (arch/kernel_object.h), and its own grid.
struct LaunchTarget {
  std::uint64_t address = 0;
  arch::Dim3 grid;
  bool program = true;    // it has one
  bool clusters = false;  // of CTAs
};
using LaunchTargets = std::map<std::string, LaunchTarget>;  // by name

struct CompiledProgram {
  std::shared_ptr<const ScenarioProgram> program;
  std::set<std::string> regions;   // of memory, that it names
  std::set<std::string> launched;  // kernels
};

// The text of a program's expressions, with everything that `let` puts in its place: it is what reading them takes of
// this computer's time and memory.
struct TextBudget {
  std::size_t most = SIZE_MAX;  // bytes
  std::size_t used = 0;
};

// Throws InputError with file and line for whatever is wrong with the steps, and for those beyond the budget. Grid,
// block and registers of `kernel` must be known; 0 registers: as many as the program needs.
CompiledProgram compile_program(const YAML::Node& steps, const std::string& file, const arch::KernelRecord& kernel,
                                const std::vector<workload::MemoryRegion>& regions, const LaunchTargets& targets,
                                TextBudget& budget);
inline CompiledProgram compile_program(const YAML::Node& steps, const std::string& file,
                                       const arch::KernelRecord& kernel,
                                       const std::vector<workload::MemoryRegion>& regions,
                                       const LaunchTargets& targets = {}) {
  TextBudget any;
  return compile_program(steps, file, kernel, regions, targets, any);
}

// Registers per thread that a kernel takes whose program needs fewer.
constexpr std::uint32_t kLeastRegisters = 16;

}  // namespace heddle::program
