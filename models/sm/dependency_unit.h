// Programmatic dependent launch: a kernel that is launched ahead of the end of the one before it waits for that end,
// and the one before says when it may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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
  DependencyUnit(const UnitContext& context, const Peers& peers)
      : SmUnit(context), peers_(peers), dependencies_(ctas_.size()) {}

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  // What the task waits for has ended: its warps go on.
  void on_wake(const protocol::WakePacket& wake);
  // The CTA leaves: if it is over, and its program lets dependents go, it has done so by that.
  void leave(const Cta& cta);
  void reset() { dependencies_.assign(dependencies_.size(), {}); }

 private:
  // Of a CTA on the kernels before it and behind it in its stream.
  struct Dependency {
    bool let_go = false;  // the one behind it
    bool asked = false;   // when the one before it ends
    bool over = false;    // that has
  };
  Dependency& of(const Cta& cta) { return dependencies_[static_cast<std::size_t>(&cta - &ctas_[0])]; }
  void let_go(const Cta& cta);

  Peers peers_;
  std::vector<Dependency> dependencies_;  // by CTA slot
};

}  // namespace heddle::sm
