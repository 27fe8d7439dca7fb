#include "sm/load_batch.h"

#include <algorithm>

namespace heddle::sm {

LoadBatch::LoadBatch(Timebase& time, Cycle l1_latency) : time_(time), delay_(std::min(kDelay, l1_latency)) {
  time.add_resettable(*this);
}

PutOffLoad& LoadBatch::add(LoadOwner& owner) {
  if (count_ == 0) time_.schedule(time_.now() + delay_, *this, 0);
  if (count_ == entries_.size()) entries_.resize(2 * count_ + 64);
  Entry& entry = entries_[count_++];
  entry.owner = &owner;
  return entry.load;
}

void LoadBatch::settle(const LoadOwner& owner) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (entries_[i].owner != &owner) continue;
    LoadOwner& its = *entries_[i].owner;
    entries_[i].owner = nullptr;
    its.finish(entries_[i].load);
  }
}

// Nobody issues meanwhile, so none is added.
void LoadBatch::on_event(std::uint32_t, std::uint64_t) {
  for (std::size_t i = 0; i < kFar; ++i) warm(i, false);
  for (std::size_t i = 0; i < kNear; ++i) warm(i, true);
  for (std::size_t i = 0; i < count_; ++i) {
    warm(i + kFar, false);
    warm(i + kNear, true);
    LoadOwner* owner = entries_[i].owner;
    if (owner != nullptr) owner->finish(entries_[i].load);
  }
  count_ = 0;
}

}  // namespace heddle::sm
