#include "task/queue_state.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::task {

void QueueState::begin(std::uint64_t entries, bool held_open) {
  HEDDLE_CHECK(!begun_, "a queue task began twice");
  begun_ = true;
  held_ = held_open && !released_;
  prefix_ = entries;
  idle_ = entries == 0;
  // Entries that were appended before.
  early_.erase(early_.begin(), early_.lower_bound(entries));
  while (early_.erase(prefix_) != 0) ++prefix_;
}

void QueueState::appended(std::uint64_t ticket) {
  if (begun_ && ticket < prefix_) return;
  early_.insert(ticket);
  if (!begun_) return;
  while (early_.erase(prefix_) != 0) ++prefix_;
}

std::uint64_t QueueState::take_grown() {
  if (!begun_ || close_ == Close::closed) return 0;
  const std::uint64_t more = prefix_ - grown_;
  grown_ = prefix_;
  if (more > 0) idle_ = false;
  return more;
}

void QueueState::idle(std::uint64_t completed) {
  if (completed == grown_) idle_ = true;
}

void QueueState::release() {
  released_ = true;
  held_ = false;
}

bool QueueState::may_close() const {
  return begun_ && idle_ && !held_ && close_ == Close::open && prefix_ == grown_ && early_.empty();
}

std::uint64_t QueueState::start_close() {
  HEDDLE_CHECK(may_close(), "a queue was to be closed that is in use");
  close_ = Close::trying;
  tried_ = grown_;
  return grown_;
}

void QueueState::tried(bool closed) {
  HEDDLE_CHECK(close_ == Close::trying, "the answer to closing a queue that nobody closes");
  close_ = closed ? Close::closed : Close::open;
  // Until the entry that is on its way has completed; it may have come, and gone, in the meantime.
  if (!closed && grown_ == tried_) idle_ = false;
}

}  // namespace heddle::task
