#include "sm/sub_partition.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::sm {

SubPartition::SubPartition(WarpPolicy policy, std::uint32_t slots)
    : policy_(policy), slots_(slots), pending_((slots + 63) / 64) {}

void SubPartition::enter(std::uint32_t slot, std::uint64_t age) {
  HEDDLE_CHECK(slots_[slot].used == 0, "a warp slot was taken twice");
  slots_[slot].used = 1;
  slots_[slot].age = age & ((std::uint64_t{1} << 55) - 1);
  block(slot);
  ++resident_;
}

void SubPartition::leave(std::uint32_t slot) {
  HEDDLE_CHECK(slots_[slot].used != 0, "a warp left a slot that it did not have");
  slots_[slot].used = 0;
  block(slot);
  --resident_;
  if (port_use_.slot == slot) port_use_.slot = kNone;
  for (Use& use : unit_use_) {
    if (use.slot == slot) use.slot = kNone;
  }
  if (last_ == slot && policy_ == WarpPolicy::greedy_oldest) last_ = kNone;
}

std::uint32_t SubPartition::free_slot() const {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.used == 0; });
  return found == slots_.end() ? kNone : static_cast<std::uint32_t>(found - slots_.begin());
}

// Among warps that can issue now. Round robin: the first behind the one that issued last.
bool SubPartition::better(std::uint32_t slot, std::uint32_t best) const {
  if (best == kNone) return true;
  if (policy_ == WarpPolicy::greedy_oldest) {
    if (best == last_ || slot == last_) return slot == last_;
    return slots_[slot].age < slots_[best].age;
  }
  if (last_ == kNone) return slot < best;
  const bool slot_behind = slot > last_;
  const bool best_behind = best > last_;
  return slot_behind == best_behind ? slot < best : slot_behind;
}

std::uint32_t SubPartition::choose(Cycle now, Cycle memory_free) const {
  if (now < port_free_) return kNone;
  std::uint32_t best = kNone;
  for_each_pending([&](std::uint32_t slot) {
    if (slots_[slot].when > now || unit_free(slots_[slot].unit, memory_free) > now) return;
    if (better(slot, best)) best = slot;
  });
  return best;
}

void SubPartition::issued(std::uint32_t slot, Cycle now, std::uint64_t count, Cycle interval) {
  port_free_ = now + count;
  port_use_ = {slot, now, 1};
  const auto unit = static_cast<std::size_t>(slots_[slot].unit);
  unit_free_[unit] = now + count * interval;
  unit_use_[unit] = {slot, now, interval};
  last_ = slot;
}

void SubPartition::use(std::uint32_t slot, arch::Unit unit, Cycle now, Cycle interval) {
  const auto index = static_cast<std::size_t>(unit);
  unit_free_[index] = now + interval;
  unit_use_[index] = {slot, now, interval};
}

// What has begun goes on to its end.
void SubPartition::cut(std::uint32_t slot, Cycle now) {
  const auto end = [now](const Use& use) {
    const Cycle begun = now > use.begin ? (now - use.begin + use.interval - 1) / use.interval : 1;
    return use.begin + begun * use.interval;
  };
  if (port_use_.slot == slot) port_free_ = std::min(port_free_, end(port_use_));
  for (std::size_t unit = 0; unit < unit_use_.size(); ++unit) {
    if (unit_use_[unit].slot == slot) unit_free_[unit] = std::min(unit_free_[unit], end(unit_use_[unit]));
  }
}

Cycle SubPartition::next_of(std::uint32_t slot, Cycle memory_free) const {
  if (slots_[slot].when == kNever) return kNever;
  return std::max({slots_[slot].when, unit_free(slots_[slot].unit, memory_free), port_free_});
}

Cycle SubPartition::next(Cycle memory_free) const {
  Cycle first = kNever;
  for_each_pending([&](std::uint32_t slot) {
    first = std::min(first, std::max(slots_[slot].when, unit_free(slots_[slot].unit, memory_free)));
  });
  return first == kNever ? kNever : std::max(first, port_free_);
}

bool SubPartition::others_before(std::uint32_t slot, Cycle until) const {
  bool found = false;
  for_each_pending([&](std::uint32_t other) { found |= other != slot && slots_[other].when < until; });
  return found;
}

void SubPartition::reset() {
  std::fill(slots_.begin(), slots_.end(), Slot());
  unit_free_ = {};
  unit_use_ = {};
  port_free_ = 0;
  port_use_ = {};
  resident_ = 0;
  std::fill(pending_.begin(), pending_.end(), 0);
  last_ = kNone;
}

}  // namespace heddle::sm
