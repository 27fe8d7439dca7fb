// Which requests of an SM are still open: what a release has to wait for (MEM-06).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "common/cycle.h"
#include "common/error.h"

namespace heddle::sm {

// Told when a request that a fence may wait for has been answered.
class FenceListener {
 public:
  // A request of that epoch: what waits for earlier ones may go on.
  virtual void request_ended(std::uint64_t epoch, Cycle when) = 0;

 protected:
  ~FenceListener() = default;
};

// Requests end in any order; an epoch asks whether all that began before it have ended. Requests between two calls of
// epoch() are counted together.
class FenceTracker {
 public:
  using Epoch = std::uint64_t;

  FenceTracker() { reset(); }

  // Gives the epoch that the request belongs to, for end().
  Epoch begin() {
    ++counts_.back();
    ++open_;
    return first_ + counts_.size() - 1;
  }
  void end(Epoch epoch, Cycle arrival) {
    HEDDLE_CHECK(epoch >= first_ && counts_[epoch - first_] > 0, "a request ended twice");
    --counts_[epoch - first_];
    --open_;
    note(arrival);
    while (counts_.size() > 1 && counts_.front() == 0) {
      counts_.pop_front();
      ++first_;
    }
  }

  // Tells the listener of a request for which end() was called.
  void tell(Epoch epoch, Cycle when) {
    if (listener_ != nullptr) listener_->request_ended(epoch, when);
  }
  void listen(FenceListener& listener) { listener_ = &listener; }

  // Something was answered, or will have been at `arrival`, without having been open.
  void note(Cycle arrival) { latest_ = std::max(latest_, arrival); }
  // The latest arrival of all that have ended.
  Cycle latest() const { return latest_; }

  // Stands for all requests that have begun up to now.
  Epoch epoch() {
    if (counts_.back() == 0) return first_ + counts_.size() - 2;
    counts_.push_back(0);
    return first_ + counts_.size() - 2;
  }
  // True once all of them have ended.
  bool done(Epoch epoch) const { return epoch < first_; }
  std::uint64_t open() const { return open_; }

  void reset() {
    counts_.assign(1, 0);
    first_ = 1;
    open_ = 0;
    latest_ = 0;
  }

 private:
  std::deque<std::uint64_t> counts_;  // open requests by epoch; the last one takes what begins now
  Epoch first_ = 1;                   // number of the first epoch
  std::uint64_t open_ = 0;
  Cycle latest_ = 0;
  FenceListener* listener_ = nullptr;
};

}  // namespace heddle::sm
