#include "sm/group_wait.h"

#include "sm/warp_scheduler.h"

namespace heddle::sm {

IssueResult GroupWait::begin(std::uint32_t slot, std::uint32_t open) {
  Warp& warp = warps_[slot];
  const Cycle next = now() + 1;
  if ((warp.*groups_).ready(open, now()) <= next) return IssueResult::done(next, next);
  warp.write_results(next);
  warp.wait = wait_;
  warp.since = next;
  warp.groups_wanted = open;
  consider(slot);
  return IssueResult::blocks();
}

void GroupWait::consider(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  if (warp.wait != wait_) return;
  const Cycle ready = (warp.*groups_).ready(warp.groups_wanted, now());
  if (ready != kNever) scheduler_.resume(slot, ready, stall_);
}

}  // namespace heddle::sm
