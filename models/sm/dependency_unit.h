// Programmatic dependent launch: a kernel that is launched ahead of the end of the one before it waits for that end, and
// the one before says when it may be.
#pragma once

#include <cstdint>

#include "protocol/sm_task.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"
#include "sm/launch_run.h"

namespace heddle::sm {

class L1Cache;
class WarpScheduler;

class DependencyUnit final : private SmUnit, public IssueUnit {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    L1Cache& l1;
    TaskLink& tasks;
  };
  DependencyUnit(const UnitContext& context, const Peers& peers) : SmUnit(context), peers_(peers) {}

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  // What the task waits for has ended: its warps go on.
  void on_wake(const protocol::WakePacket& wake);
  // The CTA leaves: if its program lets dependents go, it has done so by that.
  void leave(Cta& cta);

 private:
  void let_go(Cta& cta);

  Peers peers_;
};

}  // namespace heddle::sm
