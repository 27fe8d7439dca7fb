#include "cwd/cga_ledger.h"

#include <algorithm>

#include "arch/kernel_record.h"
#include "common/error.h"

namespace heddle::cwd {

CgaLedger::CgaLedger(std::uint32_t gpcs, const CgaLimits& limits)
    : limits_(limits), gpc_left_(gpcs), memory_left_(arch::kSubcontexts) {
  reset();
}

void CgaLedger::reset() {
  std::fill(gpc_left_.begin(), gpc_left_.end(), std::min(limits_.ids, limits_.barriers));
  gpu_barriers_left_ = limits_.gpu_barriers;
  open_.clear();
  for (std::vector<std::uint32_t>& slots : memory_left_) {
    slots.clear();
    for (std::uint32_t slot = limits_.memory_slots; slot-- > 0;) slots.push_back(slot);
  }
}

std::uint32_t CgaLedger::open(std::uint64_t sequence, std::uint32_t subcontext, bool gpu_level, bool linear_memory,
                              std::uint64_t parts) {
  if (!gpu_level && !linear_memory) return protocol::kNoMemorySlot;
  Open entry;
  entry.subcontext = subcontext;
  entry.gpu_level = gpu_level;
  entry.parts = parts;
  if (gpu_level) {
    HEDDLE_CHECK(gpu_barriers_left_ > 0, "a GPU_CGA was started without a barrier for it");
    --gpu_barriers_left_;
  }
  if (linear_memory) {
    std::vector<std::uint32_t>& slots = memory_left_[subcontext];
    HEDDLE_CHECK(!slots.empty(), "a CGA was started without a CGA memory slot");
    entry.memory_slot = slots.back();
    slots.pop_back();
  }
  HEDDLE_CHECK(open_.emplace(sequence, entry).second, "a CGA sequence number was used twice");
  return entry.memory_slot;
}

void CgaLedger::take_gpc_cga(std::uint32_t gpc) {
  HEDDLE_CHECK(gpc_left_[gpc] > 0, "a CGA was started on a GPC without an id or a barrier slot for it");
  --gpc_left_[gpc];
}

void CgaLedger::give_gpc_cga(std::uint32_t gpc) {
  HEDDLE_CHECK(gpc_left_[gpc] < std::min(limits_.ids, limits_.barriers), "a GPC completed a CGA that it never had");
  ++gpc_left_[gpc];
}

bool CgaLedger::complete(std::uint64_t sequence, std::uint64_t parts) {
  const auto found = open_.find(sequence);
  if (found == open_.end()) return false;
  Open& entry = found->second;
  HEDDLE_CHECK(entry.parts >= parts, "more of a CGA completed than was started");
  entry.parts -= parts;
  if (entry.parts > 0) return false;
  if (entry.gpu_level) ++gpu_barriers_left_;
  if (entry.memory_slot != protocol::kNoMemorySlot) memory_left_[entry.subcontext].push_back(entry.memory_slot);
  open_.erase(found);
  return true;
}

bool CgaLedger::empty() const {
  const std::uint32_t per_gpc = std::min(limits_.ids, limits_.barriers);
  return open_.empty() && gpu_barriers_left_ == limits_.gpu_barriers &&
         std::all_of(gpc_left_.begin(), gpc_left_.end(), [&](std::uint32_t n) { return n == per_gpc; }) &&
         std::all_of(memory_left_.begin(), memory_left_.end(),
                     [&](const std::vector<std::uint32_t>& slots) { return slots.size() == limits_.memory_slots; });
}

}  // namespace heddle::cwd
