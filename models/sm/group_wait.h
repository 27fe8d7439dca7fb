// How a warp waits for groups of what it has asked for: asynchronous copies, matrix multiplies.
#pragma once

#include <cstdint>

#include "sm/issue_unit.h"
#include "sm/warp.h"

namespace heddle::sm {

class WarpScheduler;

class GroupWait final : private SmUnit {
 public:
  // `groups`: which of the warp's; `wait`: what a warp that waits for them waits for; `stall`: counts for how long.
  GroupWait(const UnitContext& context, WarpScheduler& scheduler, WarpGroups Warp::*groups, WarpWait wait,
            Counter& stall)
      : SmUnit(context), scheduler_(scheduler), groups_(groups), wait_(wait), stall_(stall) {}

  // The warp goes on when at most `open` of the groups that it has committed are.
  IssueResult begin(std::uint32_t slot, std::uint32_t open);
  // Something in a group has ended: if the warp waits for that, it goes on.
  void consider(std::uint32_t slot);

 private:
  WarpScheduler& scheduler_;
  WarpGroups Warp::*const groups_;
  const WarpWait wait_;
  Counter& stall_;
};

}  // namespace heddle::sm
