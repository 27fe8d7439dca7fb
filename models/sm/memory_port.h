// When the memory unit of an SM serves the instructions that issue to it: a queue in front of one port (SM-03).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/clock.h"

namespace heddle::sm {

// The port gives 128 bytes per cycle: a line of the L1, or a wavefront of shared memory. Instructions are served in
// the order of their issue, so their times are known then, and nothing has to be stepped.
class MemoryPort {
 public:
  explicit MemoryPort(std::uint32_t queue) : begins_(queue) {}

  // The first cycle in which an instruction can issue: when the queue has a place.
  Cycle free() const { return begins_[next_]; }
  // An instruction that issues at `now` and takes that many cycles of the port; gives the first of them.
  Cycle take(Cycle now, std::uint64_t cycles) {
    const Cycle begin = take_past_queue(now, cycles);
    begins_[next_] = begin;
    next_ = next_ + 1 == begins_.size() ? 0 : next_ + 1;
    return begin;
  }
  // The same for something that does not stand in the queue.
  Cycle take_past_queue(Cycle now, std::uint64_t cycles) {
    const Cycle begin = std::max(now, free_);
    free_ = begin + cycles;
    return begin;
  }

  void reset() {
    std::fill(begins_.begin(), begins_.end(), 0);
    free_ = 0;
  }

 private:
  std::vector<Cycle> begins_;  // of the last instructions, as many as the queue has places: a ring
  std::size_t next_ = 0;       // the oldest of them
  Cycle free_ = 0;
};

}  // namespace heddle::sm
