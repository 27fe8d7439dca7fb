// What is wrong with a dispatch on this machine (PKT-09), after its format has been decoded. Plain C++.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "arch/aql_packet.h"
#include "arch/brought_code.h"
#include "arch/kernel_object.h"
#include "arch/sm_limits.h"

namespace heddle::packet {

// Fields of a dispatch, by bit (PKT-06). Of a difference from what has been checked before, rules are checked again if
// they look at one of these fields.
using FieldSet = std::uint32_t;
constexpr FieldSet kAllFields = (1U << arch::kDispatchFields) - 1;
constexpr FieldSet kObjectField = 1U << 10;
// What of a kernel object can differ by itself, where diffs are of the stored information (PKT-13).
constexpr FieldSet kRegisters = 1U << 13;
constexpr FieldSet kProgram = 1U << 14;

// How many rules look at them: those for a packet by itself, and those for it together with its kernel object.
std::uint32_t checks_of_fields(FieldSet changed);
std::uint32_t checks_with_object(FieldSet changed);

// invalid_packet_format: scopes that do not exist, reserved bits of setup (a number of dimensions above 3 sets one).
// invalid_argument: no dimensions, a workgroup size of 0 or above the machine's limit, a grid smaller than a workgroup
// or, in CTAs, beyond CWD-40, an unused dimension of workgroup or grid that is not 1, kernarg not aligned or in the
// host's memory, which SMs do not reach.
// invalid_code_object: kernel object 0, not aligned to kKernelObjectBytes, or in the host's memory. invalid_signal: a
// handle that is not aligned. out_of_resources: a group segment beyond what a CTA can have. The first that applies, in
// about this order.
arch::HsaResult check(const arch::DispatchFields& fields, const arch::SmLimits& limits, FieldSet changed = kAllFields);

// Fields that passed, with the object that they name: threads limit (incompatible_arguments), a group segment that
// holds the object's static shared memory, which is part of it (invalid_allocation), registers and shared memory within
// an SM (out_of_resources), clusters that divide the grid and are well-formed (incompatible_arguments). A grid with
// partial workgroups can have no clusters (incompatible_arguments). That its program exists, and that its clusters fit
// into the machine, is for the KernelValidator to say.
arch::HsaResult check(const arch::DispatchFields& fields, const arch::KernelObject& object,
                      const arch::SmLimits& limits, FieldSet changed = kAllFields);

// Whether the distributor can ever place the kernel's CTAs and clusters (CWD-25). An empty text: it can.
class FitCheck {
 public:
  virtual std::string why_never_fits(const arch::KernelShape& kernel) const = 0;

 protected:
  ~FitCheck() = default;
};

// All that can be wrong with a kernel on this machine, once its object has been read (PKT-09).
class KernelValidator {
 public:
  KernelValidator(const arch::SmLimits& limits, const arch::BroughtCode& codes, const FitCheck& fit)
      : limits_(limits), codes_(codes), fit_(fit) {}

  arch::HsaResult validate(const arch::DispatchFields& fields, FieldSet changed = kAllFields) const {
    return check(fields, limits_, changed);
  }
  // `shape` becomes what fields and object ask for together.
  arch::HsaResult validate(const arch::DispatchFields& fields, const arch::KernelObject& object,
                           std::uint8_t subcontext, arch::KernelShape& shape, FieldSet changed = kAllFields);
  void reset() { answers_.clear(); }

 private:
  struct Answer {
    arch::KernelShape shape;
    std::string why;
  };

  const std::string& why_never_fits(const arch::KernelShape& shape);

  const arch::SmLimits limits_;
  const arch::BroughtCode& codes_;
  const FitCheck& fit_;
  std::deque<Answer> answers_;  // the last answers of the distributor
};

}  // namespace heddle::packet
