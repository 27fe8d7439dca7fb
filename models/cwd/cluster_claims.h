// Where a task of CGAs that waits will have its room (CWD-26, TSK-16): free slots that come one by one are of no use to
// a CGA, which needs all of its own at once and in one domain. So the SMs on which the fewest CTAs are in its way are
// its claim: less urgent tasks start nothing there until it has placed its CGAs, and CTAs that are to make room are
// asked for there, and nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/sm_limits.h"
#include "cwd/cluster_place.h"
#include "cwd/cwd_context.h"
#include "cwd/machine_ledger.h"
#include "cwd/task_table.h"

namespace heddle::cwd {

// CTAs on an SM that are in the way of a task, those that go first at the front: what each of them gives back.
using InTheWay = std::vector<arch::ResourceVector>;

// What each SM would have if CTAs on it were gone.
class RoomLadder {
 public:
  // `in_the_way`: by SM. An SM that the task may not use has no slot, whoever goes.
  RoomLadder(const arch::ResourceVector& capacity, const arch::ResourceVector& need, const LiveModel& live,
             const std::vector<InTheWay>& in_the_way, const std::vector<bool>& usable);

  // Slots of every SM with at most so many CTAs gone.
  std::vector<std::uint16_t> slots(std::uint32_t gone) const;
  // CTAs that must go from the SM for so many slots.
  std::uint32_t price(std::uint32_t sm, std::uint32_t slots) const;
  std::uint32_t most() const { return most_; }  // CTAs in the way on any SM

 private:
  std::vector<std::vector<std::uint16_t>> slots_;  // by SM and number of CTAs that are gone
  std::uint32_t most_ = 0;
};

class ClaimPlanner {
 public:
  ClaimPlanner(const CwdContext& context, const std::vector<std::uint32_t>& sm_priority,
               const arch::ResourceVector& sm_capacity, std::uint32_t cgas_per_gpc);

  // CTAs of the task by SM, for as many of its outermost CGAs of that size as `units`, or as find room: where the
  // fewest CTAs have to go. Nothing: not one has room, whoever goes.
  std::optional<std::vector<std::uint16_t>> plan(const protocol::TaskPacket& task, std::uint32_t size,
                                                 std::uint64_t units, const RoomLadder& ladder);

 private:
  struct Found {
    std::vector<std::uint16_t> ctas;  // by SM
    std::uint64_t units = 0;
    std::uint64_t price = 0;  // CTAs that have to go
  };
  Found find(const protocol::TaskPacket& task, std::uint32_t size, std::uint64_t units, const RoomLadder& ladder,
             std::vector<std::uint16_t> slots);
  std::vector<std::uint16_t> only(const std::vector<std::uint16_t>& slots, std::uint32_t gpc) const;

  const arch::Topology& topology_;
  const Policies policies_;  // of its own: what sessions remember is not touched
  const std::vector<std::uint32_t> cgas_per_gpc_;
  ClusterPlacer placer_;
  DomainWideFill domain_wide_;
};

// The claims of one walk through the tasks with CTAs left, the most urgent first.
class ClusterClaims {
 public:
  explicit ClusterClaims(std::uint32_t sms) : claims_(sms) {}

  void begin_walk() { any_ = false; }
  // The task's claim keeps less urgent ones off from now on. CTAs of tasks of that nesting depth, or of greater ones,
  // are there, and can wait for tasks that they have launched: no claim keeps those off. None: there is no CTA.
  void add(const std::vector<std::uint16_t>& claim, std::int32_t priority, std::optional<std::uint32_t> depth);
  // A more urgent task's claim has taken free slots from it: true.
  bool restrict(const TaskEntry& entry, std::vector<std::uint16_t>& slots) const;

 private:
  struct Claim {
    std::int32_t priority = 0;
    std::optional<std::uint32_t> depth;  // the least of those whose CTAs are in the way
    bool keeps_off(const TaskEntry& entry) const;
  };
  std::vector<std::optional<Claim>> claims_;  // by SM: the most urgent one
  bool any_ = false;
};

}  // namespace heddle::cwd
