// Numbers of expressions to and from the bits of registers and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/memory_op.h"
#include "arch/warp_program.h"
#include "program/program_parts.h"

namespace heddle::program {

// The types that a value of a program can have: all but the pairs f16x2 and bf16x2, which only atomics have.
const std::vector<arch::ValueType>& scalar_types();
// The type of that name, of scalar_types().
std::optional<arch::ValueType> scalar_type(const std::string& name);

bool is_float(arch::ValueType type);

// Exact but for u64 and s64 beyond 2^53, which round to nearest even. Bits beyond the type's are ignored.
double number_of(arch::ValueType type, std::uint64_t bits);

// Floats round to nearest even; too large ones become infinities. Integers lose their fraction, then all bits that do
// not fit, as integer arithmetic does; what is not finite becomes 0. Zero-extended.
std::uint64_t bits_of(arch::ValueType type, double value);

// What the expressions of a program give for a warp where it stands: registers, place and counters in, numbers,
// addresses, conditions and data out.

// The whole part, or what is given instead where that is not from 0 to `limit` - 1: a number that nothing can have
// stays one.
inline std::uint32_t whole_below(double value, double limit, std::uint32_t otherwise) {
  return value > -1 && value < limit ? static_cast<std::uint32_t>(value) : otherwise;
}

// Costs nothing to make: it refers to all of its arguments. It evaluates the program's expressions in place.
class WarpValues {
 public:
  using Lanes = arch::PerLane<double>;

  WarpValues(const ProgramParts& parts, const arch::WarpPlace& place, const arch::WarpState& state)
      : parts_(parts), place_(place), state_(state) {}

  const ProgramParts& parts() const { return parts_; }
  bool is_uniform(std::uint32_t expression) const { return parts_.expressions[expression].uniform(); }

  // Of an expression that is the same for all lanes.
  double uniform(std::uint32_t expression) const;
  // Entries of lanes that are not in the mask may keep what they hold.
  void of_lanes(std::uint32_t expression, arch::LaneMask lanes, Lanes& results) const;
  // The lanes where the expression is not 0.
  arch::LaneMask condition(std::uint32_t expression, arch::LaneMask lanes) const;
  // Addresses: what is not finite becomes one that no memory has.
  void addresses(std::uint32_t expression, arch::LaneMask lanes, arch::PerLane<std::uint64_t>& results) const;
  // Addresses in the shared memory of the step's CTA of the cluster.
  void cluster_addresses(const ProgramStep& step, arch::LaneMask lanes, arch::PerLane<std::uint64_t>& results) const;
  // Bits that the value has in memory, as the type.
  void bits(const ProgramValue& value, arch::ValueType type, arch::LaneMask lanes,
            arch::PerLane<std::uint64_t>& results) const;

 private:
  const ProgramParts& parts_;
  const arch::WarpPlace& place_;
  const arch::WarpState& state_;
};

// Works out the fields of an operation that are known only when it is issued (ProgramStep::fields, bulk, child), for
// operation.lanes. Entries of lanes that do not take part, and arrays that the step does not fill, keep what they held.
void fill_fields(const WarpValues& values, const ProgramStep& step, arch::Operation& operation);

}  // namespace heddle::program
