// Which requests of an SM are still open: what a release has to wait for (MEM-06).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "common/clock.h"
#include "common/error.h"

namespace heddle::sm {

// Requests end in any order; a mark asks whether all that began before it have ended. Requests between two marks are
// counted together.
class RequestLedger {
 public:
  using Mark = std::uint64_t;

  RequestLedger() { reset(); }

  // The group that the request belongs to, for end().
  Mark begin() {
    ++counts_.back();
    ++open_;
    return first_ + counts_.size() - 1;
  }
  void end(Mark group, Cycle arrival) {
    HEDDLE_CHECK(group >= first_ && counts_[group - first_] > 0, "a request ended twice");
    --counts_[group - first_];
    --open_;
    note(arrival);
    while (counts_.size() > 1 && counts_.front() == 0) {
      counts_.pop_front();
      ++first_;
    }
  }

  // Something was answered, or will have been at `arrival`, without having been open.
  void note(Cycle arrival) { latest_ = std::max(latest_, arrival); }
  // The latest arrival of all that have ended.
  Cycle latest() const { return latest_; }

  // Stands for all requests that have begun up to now.
  Mark mark() {
    if (counts_.back() == 0) return first_ + counts_.size() - 2;
    counts_.push_back(0);
    return first_ + counts_.size() - 2;
  }
  // True once all of them have ended.
  bool done(Mark mark) const { return mark < first_; }
  std::uint64_t open() const { return open_; }

  void reset() {
    counts_.assign(1, 0);
    first_ = 1;
    open_ = 0;
    latest_ = 0;
  }

 private:
  std::deque<std::uint64_t> counts_;  // open requests by group; the last group takes what begins now
  Mark first_ = 1;                    // number of the first group
  std::uint64_t open_ = 0;
  Cycle latest_ = 0;
};

}  // namespace heddle::sm
