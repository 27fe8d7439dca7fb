// A kernel of a scenario as a program of operations (SM-02).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/warp_program.h"
#include "program/program_bulk.h"
#include "program/program_children.h"
#include "program/program_step.h"

namespace heddle::workload {

// All that a program consists of; the compiler fills it in.
struct ProgramParts {
  ExpressionSlots values;          // what expressions point to
  std::vector<ProgramSlot> slots;  // by slot
  std::vector<ProgramExpression> expressions;
  std::vector<ProgramStep> steps;  // the last one is `finish`
  std::vector<BulkStep> bulk;
  std::vector<ChildStep> children;
  bool launches = false;  // it has steps of device-side launches
  std::uint32_t registers = 0;
  std::uint32_t scalars = kFirstScalar;
};

// Although issue() changes nothing that can be seen, it evaluates expressions in place: one program is used by one
// thread at a time. Read the scenario once more for another simulation that runs beside this one.
class ScenarioProgram : public arch::WarpProgram {
 public:
  explicit ScenarioProgram(ProgramParts parts) : parts_(std::move(parts)) {}

  std::uint32_t registers() const override { return parts_.registers; }
  bool launches() const override { return parts_.launches; }
  // Registers begin as zeros.
  void start(const arch::WarpPlace& place, arch::WarpState& state) const override;
  const arch::Demand& demand(const arch::WarpState& state) const override { return step(state).demand; }
  // A `set` writes its result to the registers here: nobody reads them before they are ready. Arrays of `operation`
  // that its code does not use, and entries of lanes that do not take part, keep what they held.
  void issue(const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) const override;
  std::string describe(const arch::WarpState& state) const override { return step(state).text; }

 private:
  using Lanes = arch::PerLane<double>;

  const ProgramStep& step(const arch::WarpState& state) const { return parts_.steps[state.pc]; }
  // Goes on to the next step that is issued.
  void settle(const arch::WarpPlace& place, arch::WarpState& state) const;
  // Carries out the control flow at pc.
  void control(const arch::WarpPlace& place, arch::WarpState& state) const;
  void count(const arch::WarpPlace& place, arch::WarpState& state, const ProgramStep& now) const;
  void fill(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& now,
            arch::Operation& operation) const;
  // `bulk`, for requests to the tensor memory access unit.
  void bulk(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& now,
            arch::Operation& operation) const;
  // `children`, or `entries`.
  void children(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& now,
                arch::Operation& operation) const;
  // `address`, for the step's space.
  void aim(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& now,
           arch::Operation& operation) const;
  static void zero(arch::WarpState& state, const ProgramStep& now, arch::LaneMask lanes);

  double shared_value(const arch::WarpPlace& place, const arch::WarpState& state, std::uint32_t expression) const;
  void lane_values(const arch::WarpPlace& place, const arch::WarpState& state, std::uint32_t expression,
                   arch::LaneMask lanes, Lanes& results) const;
  arch::LaneMask condition(const arch::WarpPlace& place, const arch::WarpState& state, std::uint32_t expression,
                           arch::LaneMask lanes) const;
  // Addresses: what is not finite becomes one that no memory has.
  void addresses(const arch::WarpPlace& place, const arch::WarpState& state, std::uint32_t expression,
                 arch::LaneMask lanes, arch::PerLane<std::uint64_t>& results) const;
  // The same in the shared memory of the step's CTA of the cluster.
  void cluster_addresses(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& step,
                         arch::LaneMask lanes, arch::PerLane<std::uint64_t>& results) const;
  void operands(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& step,
                arch::Operation& operation) const;
  void bits(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramValue& value, arch::ValueType type,
            arch::LaneMask lanes, arch::PerLane<std::uint64_t>& results) const;
  void data(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& step,
            arch::Operation& operation) const;
  void set(const arch::WarpPlace& place, arch::WarpState& state, const ProgramStep& step, arch::LaneMask lanes) const;

  mutable ProgramParts parts_;
};

}  // namespace heddle::workload
