#include "sm/dependency_unit.h"

#include "sm/l1_cache.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

using protocol::ChildPacket;

IssueResult DependencyUnit::issue(std::uint32_t slot, const arch::Operation& operation) {
  Warp& warp = warps_[slot];
  const Cta& cta = ctas_[warp.cta];
  const Cycle next = now() + 1;
  if (operation.lanes == 0) return IssueResult::done(next, next);
  if (operation.code == arch::OpCode::launch_dependents) {
    let_go(cta);
    return IssueResult::done(next, next);
  }
  Dependency& dependency = of(cta);
  if (!cta.start.ahead || dependency.over) return IssueResult::done(next, next);
  if (!dependency.asked) {
    dependency.asked = true;
    peers_.tasks.send({ChildPacket::Kind::depends, cta.operation, place_.id.value(), 0});
  }
  warp.write_results(next);
  warp.wait = WarpWait::dependency;
  warp.since = next;
  return IssueResult::blocks();
}

// What the kernel before has written is in the L2 by its end, and the L1 may have older lines.
void DependencyUnit::on_wake(const protocol::WakePacket& wake) {
  bool waited = false;
  for (const Cta& cta : ctas_) {
    if (!cta.here() || !cta.has_warps() || cta.operation != *wake.task || !of(cta).asked) continue;
    of(cta).over = true;
    for (const std::uint32_t slot : cta.warps) {
      if (warps_[slot].wait != WarpWait::dependency) continue;
      waited = true;
      ++time_.observation().progress;
      peers_.scheduler.resume(slot, now(), stats_.stall_dependency);
    }
  }
  if (!waited) return;
  peers_.l1.invalidate_all();
  note_acquire(*wake.task);
}

void DependencyUnit::leave(const Cta& cta) {
  if (!cta.saved && cta.code->program->lets_dependents_go()) let_go(cta);
  of(cta) = {};
}

void DependencyUnit::let_go(const Cta& cta) {
  if (of(cta).let_go) return;
  of(cta).let_go = true;
  peers_.tasks.send({ChildPacket::Kind::lets_go, cta.operation, 0, 0});
}

}  // namespace heddle::sm
