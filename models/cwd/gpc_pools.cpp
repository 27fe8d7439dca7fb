#include "cwd/gpc_pools.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::cwd {

GpcPools::GpcPools(std::uint32_t gpcs, std::uint32_t pending, std::uint32_t active)
    : pending_size_(pending), active_size_(active), members_(gpcs), waiting_(gpcs, 0) {}

void GpcPools::reset() {
  for (Members& members : members_) members.clear();
  begin_walk();
}

std::size_t GpcPools::find(const Members& members, std::uint32_t task) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].task == task) return i;
  }
  return kNone;
}

bool GpcPools::has_place(const Members& members) const {
  const auto held = std::count_if(members.begin(), members.end(), [](const Member& member) { return member.active; });
  return static_cast<std::uint64_t>(held) < active_size_;
}

// The first that is idle, else the least urgent one, the youngest among equals.
std::size_t GpcPools::who_yields(const Members& members, std::int32_t priority) {
  std::size_t found = kNone;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].active) continue;
    if (members[i].ctas == 0) return i;
    if (members[i].priority >= priority) continue;
    if (found == kNone || members[i].priority <= members[found].priority) found = i;
  }
  return found;
}

bool GpcPools::active(std::uint32_t task, std::uint32_t gpc) const {
  const std::size_t at = find(members_[gpc], task);
  return at != kNone && members_[gpc][at].active;
}

bool GpcPools::admits(std::uint32_t task, std::int32_t priority, std::uint32_t gpc) const {
  if (active_size_ > 0 && active(task, gpc)) return true;
  if (!pending(gpc)) return false;
  const Members& members = members_[gpc];
  return active_size_ == 0 || has_place(members) || who_yields(members, priority) != kNone;
}

void GpcPools::begin_walk() { std::fill(waiting_.begin(), waiting_.end(), 0); }

void GpcPools::wait_at(std::uint32_t task, std::uint32_t gpc) {
  if (!active(task, gpc)) ++waiting_[gpc];
}

bool GpcPools::launch(std::uint32_t task, std::int32_t priority, std::uint32_t gpc, std::uint32_t ctas) {
  if (active_size_ == 0) return false;
  Members& members = members_[gpc];
  std::size_t at = find(members, task);
  if (at != kNone && members[at].active) {
    members[at].ctas += ctas;
    return false;
  }
  Member joining{task, priority, ctas, true};
  if (at != kNone) {
    joining.ctas += members[at].ctas;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const bool yields = !has_place(members);
  if (yields) {
    at = who_yields(members, priority);
    HEDDLE_CHECK(at != kNone, "CTAs were placed on a GPC by a task that has no place in its active pool");
    if (members[at].ctas == 0) {
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      members[at].active = false;
    }
  }
  members.push_back(joining);
  return yields;
}

void GpcPools::complete(std::uint32_t task, std::uint32_t gpc, std::uint32_t ctas) {
  if (active_size_ == 0) return;
  Members& members = members_[gpc];
  const std::size_t at = find(members, task);
  HEDDLE_CHECK(at != kNone && members[at].ctas >= ctas, "CTAs completed on a GPC that the pools do not know of");
  members[at].ctas -= ctas;
  if (members[at].ctas == 0 && !members[at].active) members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
}

std::vector<std::uint32_t> GpcPools::running(std::uint32_t gpc) const {
  std::vector<std::uint32_t> result;
  for (const Member& member : members_[gpc]) {
    if (member.active && member.ctas > 0) result.push_back(member.task);
  }
  return result;
}

bool GpcPools::empty() const {
  return std::all_of(members_.begin(), members_.end(), [](const Members& members) {
    return std::all_of(members.begin(), members.end(), [](const Member& member) { return member.ctas == 0; });
  });
}

}  // namespace heddle::cwd
