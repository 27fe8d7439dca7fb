#include "cwd/machine_ledger.h"

#include <algorithm>

#include "arch/task_record.h"
#include "common/bits.h"
#include "common/error.h"

namespace heddle::cwd {

CgaLedger::CgaLedger(const std::vector<std::uint32_t>& sms, const CgaLimits& limits)
    : limits_(limits), gpc_left_(sms.size()), memory_left_(arch::kSubcontexts) {
  for (const std::uint32_t count : sms) sm_slots_left_.emplace_back(count);
  reset();
}

void CgaLedger::reset() {
  std::fill(gpc_left_.begin(), gpc_left_.end(), per_gpc());
  for (std::vector<std::uint32_t>& left : sm_slots_left_) std::fill(left.begin(), left.end(), limits_.sm_slots);
  gpu_barriers_left_.clear();
  for (std::uint32_t slot = limits_.gpu_barriers; slot-- > 0;) gpu_barriers_left_.emplace_back(slot);
  open_.clear();
  for (std::vector<protocol::CgaMemorySlot>& slots : memory_left_) {
    slots.clear();
    for (std::uint32_t slot = limits_.memory_slots; slot-- > 0;) slots.emplace_back(slot);
  }
}

CgaLedger::Taken CgaLedger::open(std::uint64_t sequence, std::uint32_t subcontext, std::uint32_t barriers,
                                 bool linear_memory, std::uint64_t parts) {
  Taken taken;
  if (barriers == 0 && !linear_memory) return taken;
  HEDDLE_CHECK(gpu_barriers_left_.size() >= barriers, "a GPU_CGA was started without a barrier for it");
  for (std::uint32_t i = 0; i < barriers; ++i) {
    taken.barriers.push_back(gpu_barriers_left_.back());
    gpu_barriers_left_.pop_back();
  }
  if (linear_memory) {
    std::vector<protocol::CgaMemorySlot>& slots = memory_left_[subcontext];
    HEDDLE_CHECK(!slots.empty(), "a CGA was started without a CGA memory slot");
    taken.memory_slot = slots.back();
    slots.pop_back();
  }
  HEDDLE_CHECK(open_.emplace(sequence, Open{subcontext, taken, parts}).second, "a CGA sequence number was used twice");
  return taken;
}

void CgaLedger::take_gpc_cga(std::uint32_t gpc) {
  HEDDLE_CHECK(gpc_left_[gpc] > 0, "a CGA was started on a GPC without an id or a barrier slot for it");
  --gpc_left_[gpc];
  for (std::uint32_t& left : sm_slots_left_[gpc]) {
    HEDDLE_CHECK(left > 0, "a CGA was started on a GPC one of whose SMs has no sm_cga_slot for it");
    --left;
  }
}

void CgaLedger::give_gpc_cga(std::uint32_t gpc) {
  HEDDLE_CHECK(gpc_left_[gpc] < per_gpc(), "a GPC completed a CGA that it never had");
  ++gpc_left_[gpc];
}

void CgaLedger::give_sm_slots(std::uint32_t gpc, std::uint64_t sms) {
  std::vector<std::uint32_t>& left = sm_slots_left_[gpc];
  bits::for_each(sms, [&](std::uint32_t sm) {
    HEDDLE_CHECK(sm < left.size() && left[sm] < limits_.sm_slots, "an SM gave an sm_cga_slot back that nobody had");
    ++left[sm];
  });
}

bool CgaLedger::complete(std::uint64_t sequence, std::uint64_t parts) {
  const auto found = open_.find(sequence);
  if (found == open_.end()) return false;
  Open& entry = found->second;
  HEDDLE_CHECK(entry.parts >= parts, "more of a CGA completed than was started");
  entry.parts -= parts;
  if (entry.parts > 0) return false;
  const Taken& taken = entry.taken;
  gpu_barriers_left_.insert(gpu_barriers_left_.end(), taken.barriers.rbegin(), taken.barriers.rend());
  if (taken.memory_slot) memory_left_[entry.subcontext].push_back(*taken.memory_slot);
  open_.erase(found);
  return true;
}

bool CgaLedger::empty() const {
  const auto all_left = [this](const std::vector<std::uint32_t>& sms) {
    return std::all_of(sms.begin(), sms.end(), [this](std::uint32_t left) { return left == limits_.sm_slots; });
  };
  return open_.empty() && gpu_barriers_left_.size() == limits_.gpu_barriers &&
         std::all_of(gpc_left_.begin(), gpc_left_.end(), [this](std::uint32_t n) { return n == per_gpc(); }) &&
         std::all_of(sm_slots_left_.begin(), sm_slots_left_.end(), all_left) &&
         std::all_of(memory_left_.begin(), memory_left_.end(), [&](const std::vector<protocol::CgaMemorySlot>& slots) {
           return slots.size() == limits_.memory_slots;
         });
}

GpcPools::GpcPools(std::uint32_t gpcs, std::uint32_t pending, std::uint32_t active)
    : pending_size_(pending), active_size_(active), members_(gpcs), waiting_(gpcs, 0), sharers_(gpcs, 0) {}

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

std::uint32_t GpcPools::held(std::uint32_t gpc, std::uint32_t owner) const {
  const Members& members = members_[gpc];
  return static_cast<std::uint32_t>(std::count_if(members.begin(), members.end(), [owner](const Member& member) {
    return member.active && member.owner == owner;
  }));
}

bool GpcPools::has_place(std::uint32_t gpc) const {
  const Members& members = members_[gpc];
  const auto held = std::count_if(members.begin(), members.end(), [](const Member& member) { return member.active; });
  return static_cast<std::uint64_t>(held) < active_size_;
}

// The first that is idle, else the least urgent one, the youngest among equals: of the own subcontext or of one that
// has more than its part, and less urgent, unless the own subcontext has less than its part.
std::size_t GpcPools::who_yields(std::uint32_t gpc, std::int32_t priority, std::uint32_t owner) const {
  const Members& members = members_[gpc];
  const bool common = sharers_[gpc] < 2;
  const bool entitled = !common && held(gpc, owner) < part(gpc);
  std::size_t found = kNone;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!members[i].active) continue;
    if (members[i].ctas == 0) return i;
    const bool beyond = common || (members[i].owner != owner && held(gpc, members[i].owner) > part(gpc));
    const bool urgent = members[i].priority < priority && (beyond || members[i].owner == owner);
    if (!urgent && !(entitled && beyond)) continue;
    if (found == kNone || members[i].priority <= members[found].priority) found = i;
  }
  return found;
}

bool GpcPools::active(std::uint32_t task, std::uint32_t gpc) const {
  const std::size_t at = find(members_[gpc], task);
  return at != kNone && members_[gpc][at].active;
}

bool GpcPools::admits(std::uint32_t task, std::int32_t priority, std::uint32_t gpc, std::uint32_t owner) const {
  if (active_size_ > 0 && active(task, gpc)) return true;
  if (!pending(gpc)) return false;
  return active_size_ == 0 || has_place(gpc) || who_yields(gpc, priority, owner) != kNone;
}

void GpcPools::begin_walk() { std::fill(waiting_.begin(), waiting_.end(), 0); }

void GpcPools::wait_at(std::uint32_t task, std::uint32_t gpc) {
  if (!active(task, gpc)) ++waiting_[gpc];
}

bool GpcPools::launch(std::uint32_t task, std::int32_t priority, std::uint32_t gpc, std::uint32_t ctas,
                      std::uint32_t owner) {
  if (active_size_ == 0) return false;
  Members& members = members_[gpc];
  std::size_t at = find(members, task);
  if (at != kNone && members[at].active) {
    members[at].ctas += ctas;
    return false;
  }
  Member joining{task, priority, ctas, owner, true};
  if (at != kNone) {
    joining.ctas += members[at].ctas;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const bool yields = !has_place(gpc);
  if (yields) {
    at = who_yields(gpc, priority, owner);
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
