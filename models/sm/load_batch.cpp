#include "sm/load_batch.h"

#include <algorithm>

namespace heddle::sm {

LoadBatch::LoadBatch(Timebase& time, Cycle l1_latency) : time_(time), delay_(std::min(kDelay, l1_latency)) {
  time.add_resettable(*this);
}

PutOffLoad& LoadBatch::add(LoadOwner& owner) {
  if (entries_.empty()) time_.schedule(time_.now() + delay_, *this, 0);
  entries_.emplace_back();
  entries_.back().owner = &owner;
  return entries_.back().load;
}

void LoadBatch::settle(const LoadOwner& owner) {
  for (Entry& entry : entries_) {
    if (entry.owner != &owner) continue;
    LoadOwner& its = *entry.owner;
    entry.owner = nullptr;
    its.finish(entry.load);
  }
}

// Nobody issues meanwhile, so none is added.
void LoadBatch::on_event(std::uint32_t, std::uint64_t) {
  for (std::size_t i = 0; i < kFar; ++i) warm(i, false);
  for (std::size_t i = 0; i < kNear; ++i) warm(i, true);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    warm(i + kFar, false);
    warm(i + kNear, true);
    LoadOwner* owner = entries_[i].owner;
    if (owner != nullptr) owner->finish(entries_[i].load);
  }
  entries_.clear();
}

}  // namespace heddle::sm
