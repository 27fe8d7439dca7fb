#include "task/table_shares.h"

#include "common/error.h"

namespace heddle::task {

void TableShares::use(std::uint32_t subcontext) {
  HEDDLE_CHECK(subcontext < kSubcontexts, "there is no such subcontext");
  if (used_[subcontext]) return;
  used_[subcontext] = true;
  ++in_use_;
  share_ = static_cast<std::uint32_t>(guarantee_ * (slots_ / in_use_));
  count_kept();
}

void TableShares::enter(std::uint32_t subcontext) {
  use(subcontext);
  ++taken_[subcontext];
  ++all_taken_;
  count_kept();
}

void TableShares::leave(std::uint32_t subcontext) {
  HEDDLE_CHECK(taken_[subcontext] > 0, "a slot of the task table was given back that was not taken");
  --taken_[subcontext];
  --all_taken_;
  count_kept();
}

void TableShares::count_kept() {
  kept_ = 0;
  for (std::uint32_t i = 0; i < kSubcontexts; ++i) kept_ += missing(i);
}

bool TableShares::has_slot(std::uint32_t subcontext) const {
  if (!partitioned_) return true;
  if (all_taken_ >= slots_) return false;
  const std::uint32_t own = missing(subcontext);
  return own > 0 || slots_ - all_taken_ > kept_ - own;
}

void TableShares::reset() {
  partitioned_ = initially_;
  used_ = {};
  taken_ = {};
  in_use_ = all_taken_ = share_ = kept_ = 0;
}

}  // namespace heddle::task
