// The arithmetic units of the sub-partitions: compute operations, and special registers (SM-01, CGA-10).
#pragma once

#include <array>
#include <cstdint>

#include "sm/issue_unit.h"

namespace heddle::sm {

class WarpScheduler;

class Alu final : private SmUnit, public IssueUnit {
 public:
  Alu(const UnitContext& context, WarpScheduler& scheduler);

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  // A compute operation issues as many of its instructions as may go without a break: never more than a burst, as other
  // warps may come meanwhile.
  IssueResult go_on(std::uint32_t slot);

 private:
  IssueResult read_special(std::uint32_t slot, const arch::Operation& operation);
  std::uint64_t special(std::uint32_t slot, arch::SpecialRegister which) const;

  WarpScheduler& scheduler_;
  std::array<std::uint32_t, arch::kUnits> interval_{};  // cycles of a warp instruction in its unit
  std::array<std::uint32_t, arch::kUnits> latency_{};
};

}  // namespace heddle::sm
