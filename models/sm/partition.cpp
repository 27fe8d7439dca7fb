#include "sm/partition.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::sm {

Partition::Partition(WarpPolicy policy, std::uint32_t slots)
    : policy_(policy), when_(slots, kNever), unit_(slots, arch::Unit::none), age_(slots), used_(slots) {}

void Partition::enter(std::uint32_t slot, std::uint64_t age) {
  HEDDLE_CHECK(!used_[slot], "a warp slot was taken twice");
  used_[slot] = true;
  age_[slot] = age;
  when_[slot] = kNever;
  end_ = std::max(end_, slot + 1);
  ++resident_;
}

void Partition::leave(std::uint32_t slot) {
  HEDDLE_CHECK(used_[slot], "a warp left a slot that it did not have");
  used_[slot] = false;
  when_[slot] = kNever;
  --resident_;
  while (end_ > 0 && !used_[end_ - 1]) --end_;
  if (last_ == slot && policy_ == WarpPolicy::greedy_oldest) last_ = kNone;
}

std::uint32_t Partition::free_slot() const {
  const auto found = std::find(used_.begin(), used_.end(), false);
  return found == used_.end() ? kNone : static_cast<std::uint32_t>(found - used_.begin());
}

// Among warps that can issue now. Round robin: the first behind the one that issued last.
bool Partition::better(std::uint32_t slot, std::uint32_t best) const {
  if (best == kNone) return true;
  if (policy_ == WarpPolicy::greedy_oldest) {
    if (best == last_ || slot == last_) return slot == last_;
    return age_[slot] < age_[best];
  }
  if (last_ == kNone) return slot < best;
  const bool slot_behind = slot > last_;
  const bool best_behind = best > last_;
  return slot_behind == best_behind ? slot < best : slot_behind;
}

std::uint32_t Partition::choose(Cycle now, Cycle memory_free) const {
  if (now < port_free_) return kNone;
  std::uint32_t best = kNone;
  for (std::uint32_t slot = 0; slot < end_; ++slot) {
    if (when_[slot] > now || unit_free(unit_[slot], memory_free) > now) continue;
    if (better(slot, best)) best = slot;
  }
  return best;
}

void Partition::issued(std::uint32_t slot, Cycle now, std::uint64_t count, Cycle interval) {
  port_free_ = now + count;
  unit_free_[static_cast<std::size_t>(unit_[slot])] = now + count * interval;
  last_ = slot;
}

Cycle Partition::next_of(std::uint32_t slot, Cycle memory_free) const {
  if (when_[slot] == kNever) return kNever;
  return std::max({when_[slot], unit_free(unit_[slot], memory_free), port_free_});
}

Cycle Partition::next(Cycle memory_free) const {
  Cycle first = kNever;
  for (std::uint32_t slot = 0; slot < end_; ++slot) {
    if (when_[slot] == kNever) continue;
    first = std::min(first, std::max(when_[slot], unit_free(unit_[slot], memory_free)));
  }
  return first == kNever ? kNever : std::max(first, port_free_);
}

bool Partition::others_before(std::uint32_t slot, Cycle until) const {
  for (std::uint32_t other = 0; other < end_; ++other) {
    if (other != slot && when_[other] < until) return true;
  }
  return false;
}

void Partition::reset() {
  std::fill(when_.begin(), when_.end(), kNever);
  std::fill(used_.begin(), used_.end(), false);
  unit_free_ = {};
  port_free_ = 0;
  resident_ = end_ = 0;
  last_ = kNone;
}

}  // namespace heddle::sm
